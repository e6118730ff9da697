package cli

import (
	"context"
	"strconv"
	"time"

	"aicr/internal/judge"
	"aicr/internal/sim"
	"aicr/internal/spec"
)

// virtualFleet is a simulated fleet that is loaded in virtual time.
type virtualFleet struct {
	scenario *spec.Scenario
	seed     uint64
	clock    time.Duration // since the run's start
}

// Start deploys the fleet and has each worker answer.
func (f *virtualFleet) Start(ctx context.Context, tell func(spec.Event) error) (ready bool, err error) {
	events, ready := sim.Start(f.scenario, f.seed)
	for _, e := range events {
		f.clock = max(f.clock, time.Duration(e.T*float64(time.Second)))
		if err := tell(e); err != nil {
			return false, err
		}
	}
	return ready, ctx.Err()
}

// Load plays an episode. The look at half the load has the fleet of the first
// episode: what differs is then the load alone.
func (f *virtualFleet) Load(ctx context.Context, number int, point spec.OperatingPoint) (*spec.EpisodeRecord, error) {
	s := loaded(f.scenario, point)
	r, err := sim.Play(ctx, s, f.seed, max(1, number), sim.Load{Sentinel: point.SentinelRate, Count: point.Requests, Wave: point.Wave, WavePerUser: point.WavePerUser})
	if err != nil {
		return nil, err
	}
	r.Point.Requests, r.Point.Wave, r.Point.WavePerUser = point.Requests, point.Wave, point.WavePerUser
	e := judge.Summarize(&judge.Record{Number: number, Start: simulatedEpoch().Add(f.clock).Format(time.RFC3339Nano), Point: r.Point,
		Requests: r.Requests, Series: r.Series, Lags: r.Lags, LagBy: "the model"})
	f.clock += r.Took
	return &spec.EpisodeRecord{Episode: *e, Requests: r.Requests, Series: r.Series}, nil
}

// Now is the fleet's own time.
func (f *virtualFleet) Now() time.Duration { return f.clock }

// loaded is the scenario under another load.
func loaded(s *spec.Scenario, p spec.OperatingPoint) *spec.Scenario {
	at := *s
	at.Load.ConcurrencyPerGPU = max(1, p.Concurrency/s.Fleet.GPUs())
	at.Load.Ramp = inSeconds(p.RampS)
	if p.DurationS > 0 {
		at.Load.Episode = inSeconds(p.DurationS)
	}
	at.Load.InputTokens, at.Load.OutputTokens = p.InputTokens, p.OutputTokens
	recycled, _ := strconv.Atoi(p.Prompts) // "unique" is none
	at.Load.Prompts = spec.Prompts(recycled)
	return &at
}

func inSeconds(s float64) spec.Duration { return spec.Duration(s * float64(time.Second)) }

// simulatedEpoch is when every simulated run begins: a record that held the time
// of day would differ each time.
func simulatedEpoch() time.Time { return time.Unix(0, 0).UTC() }

// referenceOf is what the scenario says for its own operating point, else the
// throughput of the same fleet without faults, without jitter and with a client that
// is not the limit: it is no mean of episodes that differ by chance, and has no N.
func referenceOf(ctx context.Context, s *spec.Scenario, p spec.OperatingPoint) (*spec.ReferenceFigure, error) {
	at := loaded(s, p)
	if s.Reference.Throughput > 0 && at.Load == s.Load {
		return &spec.ReferenceFigure{Throughput: s.Reference.Throughput, From: "the scenario"}, nil
	}
	p.DurationS = max(p.DurationS, shortLook) // a short episode has little that is steady
	fleet := &virtualFleet{scenario: sim.Healthy(s), seed: 1}
	e, err := fleet.Load(ctx, 1, p)
	if err != nil {
		return nil, err
	}
	// It is measured by the same judge as what is held against it.
	t, _ := spec.DefaultThresholds(spec.ProfileStandard)
	t.EpisodeS = p.DurationS
	v := judge.Judge(&spec.Plan{Profile: spec.ProfileStandard, Point: p, Thresholds: t}, nil, e)
	for _, f := range v.Figures {
		if f.Name == judge.Throughput && f.Value != nil {
			return &spec.ReferenceFigure{Throughput: *f.Value, From: "the same fleet with nothing wrong, simulated"}, nil
		}
	}
	return nil, unmeasured("", "%s: the fleet serves nothing even without faults", s.Metadata.Name)
}
