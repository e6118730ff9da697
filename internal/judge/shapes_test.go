package judge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aicr/internal/judge"
	"aicr/internal/sim"
	"aicr/internal/spec"
)

// playedShape is the verdict on a simulated fleet, held against the same fleet with nothing
// wrong. What was recorded may be changed.
func playedShape(t *testing.T, s *spec.Scenario, seed uint64, stability string, change ...func(*sim.Recording)) *spec.Verdict {
	t.Helper()
	play := func(s *spec.Scenario, number int) *sim.Recording {
		r, err := sim.Play(t.Context(), s, seed, number, sim.Load{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	limits, _ := spec.DefaultThresholds(spec.ProfileQuick)
	plan := &spec.Plan{Profile: spec.ProfileQuick, Thresholds: limits, Stability: stability, Seed: seed}
	record := func(r *sim.Recording, number int) *spec.EpisodeRecord {
		plan.Point = r.Point
		for _, f := range change {
			f(r)
		}
		return &spec.EpisodeRecord{Episode: *judge.Summarize(&judge.Record{Number: number, Start: firstRun.Format(time.RFC3339Nano), Point: r.Point,
			Requests: r.Requests, Series: r.Series, Lags: r.Lags, LagBy: "the model"}), Requests: r.Requests, Series: r.Series}
	}
	healthy := record(play(sim.Healthy(s), 1), 1)
	for _, f := range healthy.Episode.Figures {
		if f.Name == judge.OutputThroughput {
			plan.Reference = &spec.ReferenceFigure{Throughput: *f.Mean, From: "the same fleet"}
		}
	}
	events, _ := sim.Start(s, seed)
	if len(change) > 0 { // a start that was not observed
		events = nil
	}
	var all []*spec.EpisodeRecord
	for number := 1; number <= limits.MinEpisodes; number++ {
		all = append(all, record(play(s, number), number))
	}
	return judge.Judge(plan, events, all...)
}

// namedBy are the findings that fail, each with the workers and how many GPUs it names.
func namedBy(v *spec.Verdict) []string {
	var all []string
	for _, f := range v.Findings {
		if f.Severity == spec.SeverityFail {
			all = append(all, fmt.Sprintf("%s %s of %d", f.ID, strings.Join(f.Workers, ","), len(f.GPUs)))
		}
	}
	return all
}

// A worker is held against workers that do the same of a request, on as many GPUs.
func TestAWorkerIsHeldAgainstItsLike(t *testing.T) {
	tensor := func(f *spec.Fleet) { f.Workers, f.GPUsPerWorker = 4, 4 }
	split := func(f *spec.Fleet) { f.Workers, f.PrefillWorkers = 6, 2 }
	lone := func(f *spec.Fleet) { f.Workers, f.PrefillWorkers = 4, 1 }
	both := func(f *spec.Fleet) { f.Workers, f.PrefillWorkers, f.GPUsPerWorker = 6, 2, 2 }
	on := func(w int) *spec.Workers { return &spec.Workers{List: []int{w}} }
	at, forever := new(spec.Duration(15*time.Second)), new(spec.Duration(time.Hour))
	stalls := func(w int) []spec.Fault {
		var all []spec.Fault
		for _, at := range []time.Duration{10 * time.Second, 25 * time.Second} {
			all = append(all, spec.Fault{Kind: spec.WorkerStall, Workers: on(w), Factor: new(40.0), At: new(spec.Duration(at)), Lasts: new(spec.Duration(6 * time.Second))})
		}
		return all
	}
	for name, c := range map[string]struct {
		shape  func(*spec.Fleet)
		router string
		faults []spec.Fault
		want   []string // findings that fail; none: PASS
	}{
		"four GPUs a worker":                     {shape: tensor},
		"one worker of four GPUs":                {shape: func(f *spec.Fleet) { f.Workers, f.GPUsPerWorker = 1, 4 }},
		"prefill and decode":                     {shape: split},
		"prefill and decode in turn":             {shape: split, router: "round-robin"},
		"one of each":                            {shape: func(f *spec.Fleet) { f.Workers, f.PrefillWorkers = 2, 1 }},
		"prefill and decode of two GPUs":         {shape: both},
		"one slow GPU of four":                   {tensor, "", []spec.Fault{{Kind: spec.WorkerSlow, Workers: on(2), GPU: new(3), Factor: new(1.5)}}, []string{"worker/slow 2 of 1"}},
		"all four are slow":                      {tensor, "", []spec.Fault{{Kind: spec.WorkerSlow, Workers: on(2), Factor: new(1.5)}}, []string{"worker/slow 2 of 4"}},
		"one of four throttles":                  {tensor, "", []spec.Fault{{Kind: spec.GPUThrottle, Workers: on(1), GPU: new(2), Reason: "hw_thermal", Share: new(0.5)}}, []string{"gpu/throttle 1 of 1"}},
		"two of four are broken":                 {tensor, "", []spec.Fault{{Kind: spec.GPUError, Workers: on(1), GPU: new(0), XID: new(79)}, {Kind: spec.GPUError, Workers: on(1), GPU: new(2), XID: new(48)}}, []string{"gpu/error 1 of 2"}},
		"a worker of four GPUs stands still":     {tensor, "", stalls(3), []string{"worker/stall 3 of 4"}},
		"a slow prefill worker":                  {split, "", []spec.Fault{{Kind: spec.WorkerSlow, Workers: on(1), Factor: new(2.0)}}, []string{"worker/slow 1 of 1"}},
		"a slow decode worker":                   {split, "", []spec.Fault{{Kind: spec.WorkerSlow, Workers: on(4), Factor: new(1.5)}}, []string{"worker/slow 4 of 1"}},
		"a prefill worker stands still":          {split, "", stalls(0), []string{"worker/stall 0 of 1"}},
		"the only prefill worker stands still":   {lone, "", stalls(0), []string{"worker/stall 0 of 1"}},
		"a decode worker stands still":           {split, "", stalls(3), []string{"worker/stall 3 of 1"}},
		"a decode worker dies":                   {split, "", []spec.Fault{{Kind: spec.WorkerMissing, Workers: on(4), At: at, Lasts: forever}}, []string{"worker/absent 4 of 1"}},
		"a prefill worker dies":                  {split, "", []spec.Fault{{Kind: spec.WorkerMissing, Workers: on(1), At: at, Lasts: forever}}, []string{"worker/absent 1 of 1"}},
		"a prefill worker was never there":       {split, "", []spec.Fault{{Kind: spec.WorkerMissing, Workers: on(1)}}, []string{"worker/absent 1 of 0"}},
		"one slow GPU of two in a decode worker": {both, "", []spec.Fault{{Kind: spec.WorkerSlow, Workers: on(5), GPU: new(0), Factor: new(1.5)}}, []string{"worker/slow 5 of 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const seed = 1
			s, _ := spec.NewScenario("shape", "h100-eks")
			c.shape(&s.Fleet)
			if s.Load.ConcurrencyPerGPU = 48; c.router != "" {
				s.Fleet.Router = c.router
			}
			s.Load.Episode, s.Faults = spec.Duration(36*time.Second), c.faults
			stability := spec.StabilityGate
			if c.want == nil { // the rate of stalls takes more load than this
				stability = spec.StabilityReport
			}
			v := playedShape(t, s, seed, stability)
			got := namedBy(v)
			if (c.want == nil) != (v.Verdict == spec.Pass) || !slices.Equal(got, c.want) {
				t.Errorf("seed %d: %s %q, want %q: %s", seed, v.Verdict, got, c.want, v.Reason)
			}
		})
	}
}

// How many workers are missing is counted by what they do: more of one kind make up for none
// of the other, and who was not seen is neither missing nor there.
func TestAbsentWorkersAreCountedByRole(t *testing.T) {
	for name, c := range map[string]struct {
		without []string // workers whom the record does not have at all
		want    string   // "": it passes
		held    string
	}{
		"all are there":                      {},
		"a prefill worker without a page":    {without: []string{"0"}, want: "1 of 2 prefill workers were never seen"},
		"no prefill worker with a page":      {without: []string{"0", "1"}, held: "the 2 prefill workers cannot be seen"},
		"a worker that answers is not there": {without: []string{"5"}, want: "1 of 4 workers that answer were never seen"},
		"one of each":                        {without: []string{"1", "5"}, want: "1 of 2 prefill workers were never seen"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := spec.NewScenario("shape", "h100-eks")
			s.Fleet.Workers, s.Fleet.PrefillWorkers, s.Load.ConcurrencyPerGPU, s.Load.Episode = 6, 2, 32, spec.Duration(30*time.Second)
			for _, w := range c.without {
				if w == "5" { // it takes no part at all
					s.Faults = []spec.Fault{{Kind: spec.WorkerMissing, Workers: &spec.Workers{List: []int{5}}}}
				}
			}
			v := playedShape(t, s, 1, spec.StabilityReport, func(r *sim.Recording) {
				r.Series = slices.DeleteFunc(r.Series, func(s spec.Sample) bool { return s.Source == spec.SourceWorker && slices.Contains(c.without, s.Name) })
			})
			var evidence []string
			for _, f := range v.Findings {
				if f.ID == "worker/absent" {
					evidence = f.Evidence
				}
			}
			switch {
			case c.want != "" && (v.Verdict != spec.Fail || !slices.Contains(evidence, c.want)):
				t.Errorf("%s %q, want %q: %s", v.Verdict, evidence, c.want, v.Reason)
			case c.held != "" && (v.Verdict != spec.Inconclusive || !strings.Contains(v.Reason, c.held)):
				t.Errorf("%s, want %q: %s", v.Verdict, c.held, v.Reason)
			case c.want == "" && (len(evidence) > 0 || c.held == "" && v.Verdict != spec.Pass):
				t.Errorf("%s %q: %s", v.Verdict, evidence, v.Reason)
			}
		})
	}
}

// The ranks of a data-parallel worker are workers, each with its own figures. Their page has
// the GPUs of all of them, and answers may name the worker alone.
func TestARankIsAWorkerOfItsOwn(t *testing.T) {
	rank := map[string]string{"0": "a/0", "1": "a/1", "2": "b/0", "3": "b/1"}
	for name, c := range map[string]struct {
		alone  bool // answers name the worker and not the rank
		faults []spec.Fault
		want   []string
	}{
		"healthy":                                 {},
		"healthy, answers name workers":           {alone: true},
		"a rank is stopped":                       {faults: stoppedRank(), want: []string{"worker/stall b/0 of 0"}},
		"a rank is stopped, answers name workers": {true, stoppedRank(), []string{"worker/stall b/0 of 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := spec.NewScenario("shape", "h100-eks")
			s.Fleet.Workers, s.Load.ConcurrencyPerGPU, s.Load.Episode, s.Faults = 4, 64, spec.Duration(40*time.Second), c.faults
			stability := spec.StabilityGate
			if c.want == nil {
				stability = spec.StabilityReport
			}
			v := playedShape(t, s, 1, stability, func(r *sim.Recording) {
				pods := map[string]string{}
				for i := range r.Series {
					if s := &r.Series[i]; s.Worker != nil {
						pods[s.Worker.GPU], s.Name = rank[s.Name][:1], rank[s.Name]
						s.Worker.GPU, s.Worker.Pod = "", s.Name[:1]
					}
				}
				for i := range r.Series {
					if s := &r.Series[i]; s.GPU != nil {
						s.GPU.Pod = pods[s.Name]
					}
				}
				for i := range r.Requests {
					if q := &r.Requests[i]; q.Worker != "" {
						if q.Worker = rank[q.Worker]; c.alone {
							q.Worker = q.Worker[:1]
						}
					}
				}
			})
			if got := namedBy(v); (c.want == nil) != (v.Verdict == spec.Pass) || !slices.Equal(got, c.want) {
				t.Errorf("%s %q, want %q: %s", v.Verdict, got, c.want, v.Reason)
			}
		})
	}
}

func stoppedRank() []spec.Fault {
	return []spec.Fault{{Kind: spec.WorkerWedge, Workers: &spec.Workers{List: []int{2}}, Running: "real", At: new(spec.Duration(15 * time.Second)), Lasts: new(spec.Duration(time.Hour))}}
}
