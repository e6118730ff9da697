package judge

import (
	"slices"

	"aicr/internal/spec"
)

// Amend is a verdict that was come to elsewhere, by a record that is not here, with what
// became known of the workers since: that some ended, or that nobody could see whether they
// did. It is what Judge would say of that record with these events in it. The verdict that
// is given is not changed.
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
	loaded := v.Verdict == spec.Pass || v.Episodes > 0 || len(v.Parts) > 0
	if p.Profile == spec.ProfileClassic || !loaded {
		return v
	}
	ev := evidenceOf(p, events, nil, nil)
	ev.elsewhere = true
	if found := ev.endedSince(v); len(found) > 0 {
		return amended(v, spec.Fail, found)
	}
	if why := ev.unseen(); why != "" && v.Verdict == spec.Pass {
		c := amended(v, spec.Inconclusive, nil)
		c.Reason = why
		for i := range c.Ledgers {
			if l := &c.Ledgers[i]; l.Name == spec.Integrity {
				l.State, l.Reason = spec.Inconclusive, l.Reason+", "+why
			}
		}
		return c
	}
	return v
}

// endedSince finds the workers that are not among those that the verdict misses.
func (ev *Evidence) endedSince(v *spec.Verdict) (found []spec.Finding) {
	for _, d := range diagnoses() {
		if d.id == "worker/absent" && !slices.ContainsFunc(v.Findings, func(f spec.Finding) bool { return f.ID == d.id }) {
			found = d.find(ev)
		}
	}
	return found
}

func amended(v *spec.Verdict, state spec.State, found []spec.Finding) *spec.Verdict {
	c := *v
	c.Findings = sorted(append(append([]spec.Finding{}, found...), v.Findings...), state)
	c.Ledgers = slices.Clone(v.Ledgers)
	for _, f := range found {
		for i := range c.Ledgers {
			if l := &c.Ledgers[i]; l.Name == ledgerOf(f.ID) && l.State != spec.Fail {
				l.State, l.Reason = spec.Fail, f.Summary
			}
		}
		if v.Verdict != spec.Fail {
			c.Reason = f.Summary
		}
	}
	c.Verdict = state
	return &c
}
