package judge

import (
	"slices"

	"aicr/internal/spec"
)

// Amend is a verdict that was come to elsewhere, by a record that is not here, with what
// became known since of the pods that serve, of their node, and of what was deleted. It is
// what Judge would say of that record with these events in it. The verdict that is given is
// not changed.
func Amend(p *spec.Plan, v *spec.Verdict, events ...spec.Event) *spec.Verdict {
	own := v.Inference()
	if own == nil {
		return Conclude(p, v, 0)
	}
	last := 0.0
	for _, c := range v.Checks {
		last = max(last, c.Seconds)
	}
	return Conclude(p, amend(p, own, events), last)
}

func amend(p *spec.Plan, v *spec.Verdict, events []spec.Event) *spec.Verdict {
	if e := removedFrom(events); e != nil {
		return withdraw(v, removedFinding(e))
	}
	loaded := v.Verdict == spec.Pass || v.Episodes > 0 || len(v.Parts) > 0
	if p.Profile == spec.ProfileClassic || !loaded {
		return v
	}
	ev := evidenceOf(p, events, nil, nil)
	ev.elsewhere = true
	found := ev.endedSince(v)
	if slices.ContainsFunc(found, func(f spec.Finding) bool { return f.Severity == spec.SeverityFail }) {
		return amended(v, spec.Fail, found)
	}
	if why := ev.unseen(); why != "" && v.Verdict == spec.Pass {
		c := amended(v, spec.Inconclusive, found)
		c.Reason = why
		for i := range c.Ledgers {
			if l := &c.Ledgers[i]; l.Name == spec.Integrity {
				l.State, l.Reason = spec.Inconclusive, l.Reason+", "+why
			}
		}
		return c
	}
	if len(found) > 0 {
		return amended(v, v.Verdict, found)
	}
	return v
}

// endedSince finds what the pods and the node tell, and the verdict does not have yet.
func (ev *Evidence) endedSince(v *spec.Verdict) (found []spec.Finding) {
	later := []string{"worker/absent", "serving/restarted", "cluster/node-changed"}
	for _, d := range diagnoses() {
		if slices.Contains(later, d.id) && !slices.ContainsFunc(v.Findings, func(f spec.Finding) bool { return f.ID == d.id }) {
			found = append(found, d.find(ev)...)
		}
	}
	ev.show(found)
	return found
}

func amended(v *spec.Verdict, state spec.State, found []spec.Finding) *spec.Verdict {
	c := *v
	c.Findings = sorted(append(append([]spec.Finding{}, found...), v.Findings...), state)
	c.Ledgers = slices.Clone(v.Ledgers)
	for _, f := range found {
		for i := range c.Ledgers {
			if l := &c.Ledgers[i]; f.Severity == spec.SeverityFail && l.Name == ledgerOf(f.ID) && l.State != spec.Fail {
				l.State, l.Reason = spec.Fail, f.Summary
			}
		}
		if v.Verdict != spec.Fail && f.Severity == spec.SeverityFail && c.Reason == v.Reason {
			c.Reason = f.Summary
		}
	}
	c.Verdict = state
	return &c
}
