package judge

import (
	"fmt"
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// expectations is everything that was wanted, whatever came of the first of it.
func (ev *Evidence) expectations() []spec.Expected {
	all := []spec.Expected{}
	if c := ev.floor; c != nil {
		e := expected(c.Name, fmt.Sprintf("%s %s", c.Comparator, grouped(c.Threshold)), fmt.Sprintf("%s %s", c.Comparator, grouped(effective(c))), ev.overall, "tokens/s", ev.floorState())
		all = append(all, e)
	}
	for i := range ev.plan.Constraints {
		if c := &ev.plan.Constraints[i]; c.Name == spec.ConstraintTTFT {
			all = append(all, expected(c.Name, fmt.Sprintf("%s %s", c.Comparator, grouped(c.Threshold)), fmt.Sprintf("%s %s", c.Comparator, grouped(effective(c))), ev.ttft(), "ms", ev.tests.ttftState()))
		}
	}
	if ref := ev.plan.Reference; ref != nil {
		o := ev.overall
		ratio := figure{o.value / ref.Throughput, o.low / ref.Throughput, o.high / ref.Throughput, o.n}
		all = append(all, expected("throughput-of-reference", fmt.Sprintf(">= %.2f of %s tokens/s", ev.th.RatioGood, grouped(ref.Throughput)), fmt.Sprintf("> %.2f, by a sequential test", ev.th.RatioBad),
			ratio, "ratio", ev.tests.capacityState()))
		e := &all[len(all)-1]
		e.Good, e.Bad = number(ev.th.RatioGood), number(ev.th.RatioBad)
		if e.State == spec.Fail && ev.chanceOfTheKnee() {
			e.State, e.Note = spec.Inconclusive, "past the knee"
		}
	}
	if !slices.ContainsFunc(ev.plan.Constraints, func(c spec.Constraint) bool { return c.Name == spec.ConstraintTTFT }) {
		all = append(all, expected("ttft-p99-guardrail", fmt.Sprintf("<= %s", grouped(ev.guardMS)), fmt.Sprintf("<= %s in more than half of the episodes", grouped(ev.guardMS)), ev.ttft(), "ms", ev.tests.ttftState()))
	}
	for _, r := range peerRules() {
		all = append(all, ev.peerExpected(r))
	}
	all = append(all, ev.rateExpected()...)
	return append(all, ev.errorExpected())
}

func expected(name, want, effective string, f figure, unit string, state spec.State) spec.Expected {
	e := spec.Expected{Name: name, Want: want, Effective: effective, Value: number(f.value), Low: number(f.low), High: number(f.high), N: f.n, Unit: unit, State: state}
	if e.Value == nil {
		e.State, e.Note = spec.NotJudged, "not measured"
	}
	return e
}

// ttft is the p99 of the worst episode, with its own interval.
func (ev *Evidence) ttft() figure {
	worst := notMeasured()
	for _, d := range ev.episodes {
		if d.ttft.n > 0 && !(d.ttft.value <= worst.value) {
			worst = d.ttft
		}
	}
	return worst
}

func (ev *Evidence) rateExpected() []spec.Expected {
	t := &ev.tests.stalls
	ok, bad := t.rates()
	all := []spec.Expected{ev.rateOf("stall-rate", t.all, ok, bad, ev.tests.rateState())}
	if t.large() {
		worst := t.worst()
		one := ev.rateOf("stall-rate-of-one-worker", t.by[worst], t.workerOK(), ev.th.RateBad, t.anyState(ev.tests.spent()))
		if worst != "" && one.Note == "" {
			one.Note = workerWord(worst)
		}
		all[0].State = t.allState()
		all = append(all, ev.rateOf("stall-rate-of-the-fleet", t.fleet, ev.th.RateOK, ev.th.RateBad, t.fleetState()), one)
	}
	for i := range all {
		if !ev.gates() {
			all[i].State, all[i].Note = spec.NotJudged, "reported, not judged"
		}
		if ev.claims.CameAtOnce() {
			all[i].Note = blindToStalls
		}
	}
	return all
}

// rateOf is what was wanted of a rate of stalls, and what it came to.
func (ev *Evidence) rateOf(name string, n int, ok, bad float64, state spec.State) spec.Expected {
	f, minutes := notMeasured(), ev.tests.stalls.minutes
	if minutes > 0 {
		_, low, high := stats.GammaRate(float64(n), minutes, confidence)
		f = figure{float64(n) / minutes, low, high, n}
	}
	e := expected(name, fmt.Sprintf("<= %.3f", ok), fmt.Sprintf("< %.2f, by a sequential test", bad), f, "stalls/min", state)
	e.Good, e.Bad = number(ok), number(bad)
	return e
}

func (ev *Evidence) errorExpected() spec.Expected {
	failed, sent := ev.failures()
	f, state := notMeasured(), spec.NotJudged
	if sent > 0 {
		low, high := stats.ClopperPearson(failed, sent, confidence)
		f, state = figure{float64(failed) / float64(sent), low, high, sent}, spec.Pass
		switch {
		case low > ev.th.ErrorShare:
			state = spec.Fail
		case f.value > ev.th.ErrorShare:
			state = spec.Inconclusive
		}
	}
	return expected("failed-requests", fmt.Sprintf("<= %.2g", ev.th.ErrorShare), fmt.Sprintf("<= %.2g", ev.th.ErrorShare), f, "of requests", state)
}

// figures is what else was measured.
func (ev *Evidence) figures() []spec.Figure {
	if len(ev.episodes) == 0 {
		return nil
	}
	var all []spec.Figure
	say := func(name string, f figure, unit, by string) {
		all = append(all, spec.Figure{Name: name, Value: number(f.value), Low: number(f.low), High: number(f.high), N: f.n, Unit: unit, By: by})
	}
	var gross, sentinel, ttftGross []float64
	good, sent, with := 0, 0, 0
	for _, d := range ev.episodes {
		gross, ttftGross = appendKnown(gross, d.gross), appendKnown(ttftGross, d.ttftGross)
		sentinel = append(sentinel, d.sentinel...)
		good += d.good
		sent += d.over
		if len(d.stalls) > 0 {
			with++
		}
	}
	say(Throughput, ev.overall, "tokens/s", "stall-free batches of whole request lifetimes; t interval of ln(throughput) over episodes, 95 %")
	say(GrossThroughput, over(gross), "tokens/s", "stalls and all; t interval of ln(throughput) over episodes, 95 %")
	say("ttft-p99", ev.ttft(), "ms", "worst episode, its clean part; moving-block bootstrap, 95 %")
	say("gross-ttft-p99", figure{largest(ttftGross), math.NaN(), math.NaN(), len(ttftGross)}, "ms", "worst episode, stalls and all")
	if sent > 0 {
		low, high := stats.ClopperPearson(good, sent, confidence)
		say("goodput", figure{float64(good) / float64(sent), low, high, sent}, "of requests",
			fmt.Sprintf("TTFT <= %s ms and no gap > %s ms; failures in the denominator; Clopper-Pearson, 95 %%", grouped(ev.th.GoodTTFTMS), grouped(ev.th.GoodGapMS)))
	}
	if len(sentinel) > 0 {
		slices.Sort(sentinel)
		lost := 0
		for _, v := range sentinel {
			if math.IsInf(v, 1) {
				lost++
			}
		}
		say("sentinel-ttft-p99", figure{stats.PercentileNearest(sentinel, 99), math.NaN(), math.NaN(), len(sentinel)}, "ms",
			fmt.Sprintf("open loop, from the intended send; %d of %d never answered", lost, len(sentinel)))
	}
	if d := ev.doubling; !math.IsNaN(d.Elasticity) {
		say("elasticity", figure{d.Elasticity, d.Elasticity - d.Unsure, d.Elasticity + d.Unsure, 2}, "", "throughput at half the load against the first episode; by the batches of both, 95 %")
	}
	if f := ev.claims.perEvent(); f.n > 0 {
		say("tokens-per-event", f, "tokens", "tokens that the server counts over events with content, of the served requests")
	}
	low, high := stats.ClopperPearson(with, len(ev.episodes), confidence)
	say("episodes-with-a-stall", figure{float64(with) / float64(len(ev.episodes)), low, high, len(ev.episodes)}, "of episodes", "Clopper-Pearson, 95 %")
	return all
}

func largest(v []float64) float64 {
	most := math.NaN()
	for _, x := range v {
		most = maxKnown(most, x)
	}
	return most
}
