package main

import (
	"context"
	"time"

	"aicr/internal/judge"
	"aicr/internal/sim"
	"aicr/internal/spec"
)

// play is a scenario with what the published gate did beyond a scenario.
type play struct {
	scenario *spec.Scenario
	load     sim.Load
}

// fleet is a published fleet under the reference's load: recycled prompts, and a
// first wave before the measured part.
func fleet(profile, router string, perGPU int, ramp time.Duration) play {
	s, ok := spec.NewScenario("faithful", profile)
	if !ok {
		panic("no profile " + profile)
	}
	s.Fleet.Router = router
	s.Load.ConcurrencyPerGPU = perGPU
	s.Load.Ramp = spec.Duration(ramp)
	s.Load.Prompts = 100
	return play{s, sim.Load{Wave: true, Grace: 2 * time.Minute}}
}

// ramped is the default operating point.
func ramped(profile, router string, ramp time.Duration) play {
	return fleet(profile, router, 128, ramp)
}

// burst is the published gate: all users at once, eight requests for each.
func burst(profile, router string, perGPU int) play {
	p := fleet(profile, router, perGPU, 0)
	p.load.Count = 8 * perGPU * p.scenario.Fleet.Workers
	return p
}

func (p play) with(faults ...spec.Fault) play {
	p.scenario.Faults = append(p.scenario.Faults, faults...)
	return p
}

func (p play) prompts(n int, credit float64) play {
	p.scenario.Load.Prompts = spec.Prompts(n)
	p.scenario.Fleet.KVCredit = credit
	return p
}

func (p play) sends(rate float64, lag time.Duration) play {
	p.scenario.Load.SendsPerSecond = rate
	p.scenario.Load.ClientLag = spec.Duration(lag)
	return p
}

func span(at, lasts float64) (*spec.Duration, *spec.Duration) {
	return new(spec.Duration(at * 1e9)), new(spec.Duration(lasts * 1e9))
}

func stall(worker int, at, lasts float64) spec.Fault {
	f := spec.Fault{Kind: spec.WorkerStall, Workers: &spec.Workers{List: []int{worker}}, Factor: new(40.0)}
	f.At, f.Lasts = span(at, lasts)
	return f
}

func freeze(at, lasts float64) spec.Fault {
	f := spec.Fault{Kind: spec.FrontendFreeze}
	f.At, f.Lasts = span(at, lasts)
	return f
}

func slow(factor float64, workers ...int) spec.Fault {
	return spec.Fault{Kind: spec.WorkerSlow, Workers: &spec.Workers{List: workers}, Factor: &factor}
}

func hostSlow(factor float64) spec.Fault { return spec.Fault{Kind: spec.HostSlow, Factor: &factor} }

func missing(workers ...int) spec.Fault {
	return spec.Fault{Kind: spec.WorkerMissing, Workers: &spec.Workers{List: workers}}
}

// recorded are the cases of reference.py, as scenarios. A new play each time:
// what is compared is changed on the way.
func recorded() []struct {
	name string
	play play
} {
	const eks, gke = "h100-eks", "h100-gke"
	const rr, ll = "round-robin", "least-loaded"
	return []struct {
		name string
		play play
	}{
		{"eks-1024", ramped(eks, ll, time.Second)},
		{"gke-1024", ramped(gke, ll, time.Second)},
		{"eks-2048-burst", burst(eks, rr, 256)},
		{"gke-2048-burst", burst(gke, rr, 256)},
		{"eks-1024-burst", burst(eks, rr, 128)},
		{"random-1024", ramped(eks, "random", time.Second)},
		{"p2c-1024", ramped(eks, "power-of-two", time.Second)},
		{"kv-1024", ramped(eks, "kv", time.Second).prompts(100, 302)},
		{"stall15-rr", burst(eks, rr, 256).with(stall(2, 2.5, 15))},
		{"stall15-ll", burst(eks, ll, 256).with(stall(2, 2.5, 15))},
		{"freeze5-mid", burst(eks, rr, 256).with(freeze(6.46, 5))},
		{"slow-worker-ll", ramped(eks, ll, time.Second).with(slow(2, 3))},
		{"host-slow", ramped(eks, ll, time.Second).with(hostSlow(3.5))},
		{"missing3", ramped(eks, ll, time.Second).with(missing(5, 6, 7))},
		{"client-370", burst(eks, rr, 256).sends(370, 0)},
		{"eks-1024-ramp-2s", ramped(eks, ll, 2*time.Second)},
	}
}

// figures are what is compared.
type figures struct {
	throughput, ttft50, ttft99 float64 // tokens/s, ms, ms
	peak                       int
	recording                  *sim.Recording
}

func (p play) run(ctx context.Context, seed uint64) (figures, error) {
	r, err := sim.Play(ctx, p.scenario, seed, 1, p.load)
	if err != nil {
		return figures{}, err
	}
	f := figures{recording: r}
	for _, n := range r.Peak {
		f.peak = max(f.peak, n)
	}
	for _, one := range judge.Summarize(&judge.Record{Point: r.Point, Requests: r.Requests}).Figures {
		switch {
		case one.Name == judge.OutputThroughput && one.Mean != nil:
			f.throughput = *one.Mean
		case one.Name == judge.FirstToken && one.P99 != nil:
			f.ttft50, f.ttft99 = *one.P50, *one.P99
		}
	}
	return f, nil
}

// still takes the jitters out, and with them the host's hiccups: what is left is
// the model.
func (p play) still() play {
	p.scenario.Fleet.Timing.HostJitter, p.scenario.Fleet.Timing.StepJitter = 0, 0
	return p
}

// drawn gives the fleet the jitters that the reference drew.
func (p play) drawn(host, step, sqrtHost float64) play {
	s := *p.scenario
	scale := func(d *spec.Duration, by float64) { *d = spec.Duration(float64(*d)*by + 0.5) }
	scale(&s.Fleet.Frontend.PerRequest, host)
	scale(&s.Fleet.Frontend.PerToken, sqrtHost)
	t := &s.Fleet.Timing
	for _, d := range []*spec.Duration{&t.Base, &t.PerSequence, &t.PerPromptToken, &t.PerAdmission, &t.Host} {
		scale(d, step)
	}
	// Next to none, since none would take the hiccups out as well.
	t.HostJitter, t.StepJitter = 1e-9, 0
	p.scenario = &s
	return p
}
