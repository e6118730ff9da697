package judge

import (
	"fmt"
	"math"

	"aicr/internal/spec"
)

// classic is the published gate and nothing else: one run, two figures, two
// thresholds. How often it is wrong is told with it.
func classic(ev *Evidence) *spec.Verdict {
	v := &spec.Verdict{Schema: spec.VerdictSchema, Profile: ev.plan.Profile, Findings: []spec.Finding{}, Expectations: []spec.Expected{}, Parts: ev.parts(), Notes: []string{ClassicWrong()}}
	all := ev.all()
	v.Ledgers = []spec.Ledger{{Name: spec.Integrity, State: spec.NotJudged, Reason: "the published gate does not look"},
		{Name: spec.Capability, State: spec.NotJudged, Reason: "nothing was loaded"},
		{Name: spec.Stability, State: spec.NotJudged, Reason: "the published gate does not look"}}
	if len(all) == 0 {
		v.Verdict, v.Reason = spec.Inconclusive, "nothing was loaded"
		for _, f := range findings(ev) {
			if f.Severity != spec.SeverityNote || f.ID == "cluster/no-free-gpus" {
				v.Findings = append(v.Findings, f)
			}
		}
		if len(v.Findings) > 0 {
			v.Reason = v.Findings[0].Summary
			switch v.Findings[0].Severity {
			case spec.SeverityFail:
				v.Verdict = spec.Fail
			case spec.SeverityInvalid:
				v.Verdict = spec.Invalid
			default:
				v.Verdict = spec.Skip
			}
		} else if ev.start.notServed != nil {
			v.Verdict, v.Reason = spec.Fail, "the endpoint never served"
		} else if ev.start.broken != nil {
			v.Verdict, v.Reason = spec.Invalid, ev.brokeOff()
		}
		if v.Verdict == spec.Fail { // no FAIL without a ledger that is
			v.Ledgers[0] = spec.Ledger{Name: spec.Integrity, State: spec.Fail, Reason: v.Reason}
		}
		return v
	}
	if ev.start.broken != nil {
		v.Verdict, v.Reason = spec.Invalid, ev.brokeOff()
		return v
	}
	// What the server claims and cannot be is no measurement, by any gate.
	for _, f := range findings(ev) {
		if f.ID == "server/unsolicited" || f.ID == "server/tokens-implausible" {
			v.Findings = append(v.Findings, f)
		}
	}
	if len(v.Findings) > 0 {
		v.Verdict, v.Reason = spec.Invalid, v.Findings[0].Summary
		return v
	}
	d := all[0]
	v.Episodes, v.LoadedS = 1, round(d.loadedS, 3)
	for i := range v.Parts {
		v.Parts[i].Throughput = number(ev.all()[i].whole.throughput)
		v.Parts[i].Counted = i == 0 // whatever the client's audit says: the published gate has none
	}
	v.Verdict = spec.Pass
	if sent := d.whole.served + d.whole.failed; float64(d.whole.failed) > ev.th.ErrorShare*float64(sent) {
		v.Notes = append(v.Notes, fmt.Sprintf("%d of %d requests failed, which the published gate does not look at", d.whole.failed, sent))
	}
	if n := ev.resent(); n > 0 {
		v.Notes = append(v.Notes, ResentNote(n))
	}
	if d.client.StampLag.N == 0 && d.client.SendLateness.N == 0 {
		v.Notes = append(v.Notes, "the load is known by its summary alone: whether its client was the limit is not known")
	}
	for i := range ev.plan.Constraints {
		c := &ev.plan.Constraints[i]
		f := notMeasured()
		switch c.Name {
		case spec.ConstraintThroughput:
			f = figure{d.whole.throughput, math.NaN(), math.NaN(), 1}
		case spec.ConstraintTTFT:
			f = figure{d.whole.ttft99, math.NaN(), math.NaN(), d.whole.served}
		default:
			continue
		}
		state := spec.Fail
		if limit := effective(c); c.Name == spec.ConstraintThroughput && f.value >= limit || c.Name == spec.ConstraintTTFT && f.value <= limit {
			state = spec.Pass
		}
		e := expected(c.Name, fmt.Sprintf("%s %s", c.Comparator, grouped(c.Threshold)), fmt.Sprintf("%s %s", c.Comparator, grouped(effective(c))), f, c.Unit, state)
		if e.State != spec.Pass {
			v.Verdict = spec.Fail
		}
		v.Expectations = append(v.Expectations, e)
	}
	if len(v.Expectations) == 0 {
		v.Verdict, v.Reason = spec.Inconclusive, "the published gate needs a floor or a ceiling, and the plan has neither"
		return v
	}
	v.Reason = fmt.Sprintf("%s tokens/s, TTFT p99 %s ms, in one run", grouped(d.whole.throughput), grouped(d.whole.ttft99))
	v.Ledgers[1] = spec.Ledger{Name: spec.Capability, State: v.Verdict, Reason: v.Reason}
	return v
}

// ClassicWrong says how often the published gate is wrong, by simulation of 20,000
// deployments a state (Monte Carlo of the published runs' spread; docs/verdict.md).
func ClassicWrong() string {
	return "one run against a floor of half of healthy says little: in simulation this gate passes 78 % of deployments that stall as the published ones did, and all that have 5 of 8 workers, one GPU twice as slow, or every GPU 1.6 times as slow"
}
