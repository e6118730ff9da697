package judge

import (
	"slices"

	"aicr/internal/spec"
)

// removedFrom is the event of what somebody else deleted under load; nil: there is none.
func removedFrom(events []spec.Event) *spec.Event {
	for i := range events {
		if events[i].Kind == spec.EventRemoved {
			return &events[i]
		}
	}
	return nil
}

// removedMeanwhile finds that somebody else deleted what the run had made.
func removedMeanwhile(ev *Evidence) []spec.Finding {
	if ev.start.removed == nil {
		return nil
	}
	return []spec.Finding{removedFinding(ev.start.removed)}
}

func removedFinding(e *spec.Event) spec.Finding {
	f := spec.Finding{ID: "cluster/removed", Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh,
		Summary:  e.Source + " was deleted under load, and not by this run: nothing is known of the deployment from then on",
		Evidence: []string{},
		Advice:   []string{"validate again", "find out who deletes it: the audit log of the API server, a GitOps controller that prunes, `aicr clean --run` on another machine"}}
	if e.Text != "" {
		f.Summary = e.Source + " was deleted under load, and not by this run: " + shorten(e.Text)
		f.Evidence = append(f.Evidence, shorten(e.Text))
	}
	return f
}

// settleS is by how much an episode has to have ended before a deletion to be told at all:
// the two times are of two clocks.
const settleS = 30

// withdrawn is the verdict on a run of which somebody else deleted a part under load; nil:
// this is none. What the workers did from then on is what was done to them. What was found
// before is told, and decides nothing.
func (c *Case) withdrawn() *spec.Verdict {
	e := removedFrom(c.events)
	if e == nil {
		return nil
	}
	half, all := (*digest)(nil), []*digest(nil)
	if e.Seconds != nil {
		half, all = c.before(*e.Seconds)
	}
	events := slices.DeleteFunc(slices.Clone(c.events), func(e spec.Event) bool { return isConsequence(&e) })
	ev := evidenceOf(c.plan, events, half, all)
	v := &spec.Verdict{Schema: spec.VerdictSchema, Profile: c.plan.Profile, Verdict: spec.Inconclusive,
		Episodes: len(ev.episodes), LoadedS: round(ev.tests.stalls.minutes*60, 3),
		Expectations: ev.expectations(), Figures: ev.figures(), Tests: ev.walks(), Stalls: ev.stallList(), Parts: ev.parts(), Notes: ev.notes()}
	v.Findings = findings(ev)
	for i := range v.Findings {
		v.Findings[i].Severity = spec.SeverityNote
	}
	v.Ledgers = ev.ledgers(nil)
	return withdraw(v, removedFinding(e))
}

// isConsequence says that an event is of what a deletion does to a deployment.
func isConsequence(e *spec.Event) bool {
	switch e.Kind {
	case spec.EventPod, spec.EventWorkers, spec.EventNotServed, spec.EventInterrupt, spec.EventLog:
		return true
	}
	return false
}

// before are the digests of what had ended well before a time of the run.
func (c *Case) before(at float64) (half *digest, all []*digest) {
	begun := map[int]float64{}
	for _, e := range c.events {
		if e.Kind == spec.EventStage && e.Stage == "episode" {
			begun[e.Episode] = e.T
		}
	}
	over := func(d *digest) bool {
		t, known := begun[d.number]
		return known && t+d.loadedS+settleS <= at
	}
	if c.half != nil && over(c.half) {
		half = c.half
	}
	for _, d := range c.all {
		if over(d) {
			all = append(all, d)
		}
	}
	return half, all
}

// withdraw makes a verdict one that decides nothing, and says why. The verdict that is
// given is not changed.
func withdraw(v *spec.Verdict, why spec.Finding) *spec.Verdict {
	c := *v
	c.Verdict, c.Reason = spec.Inconclusive, why.Summary
	c.Findings = []spec.Finding{why}
	for _, f := range v.Findings {
		if f.ID != why.ID && f.Severity == spec.SeverityNote {
			c.Findings = append(c.Findings, f)
		}
	}
	c.Ledgers = slices.Clone(v.Ledgers)
	for i := range c.Ledgers {
		c.Ledgers[i].State, c.Ledgers[i].Reason = spec.NotJudged, "what the run had made was deleted under load"
	}
	c.Expectations = slices.Clone(v.Expectations)
	for i := range c.Expectations {
		c.Expectations[i].State = spec.NotJudged
	}
	return &c
}
