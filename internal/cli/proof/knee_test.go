package proof

import (
	"flag"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"aicr/internal/judge"
	"aicr/internal/sim"
	"aicr/internal/sim/scenarios"
	"aicr/internal/spec"
	"aicr/internal/stats"
)

var kneeSeeds = flag.Int("knee-seeds", 2, "sweep each fleet with so many seeds")

// TestTheKneeIsTheModels holds what a sweep of a fleet with all its jitter finds
// against the knee of the model itself. That one is come by another way: without
// jitter, on a dense grid, from long episodes, by Little's law instead of batches,
// and with no curve fitted.
func TestTheKneeIsTheModels(t *testing.T) {
	const within = 0.15
	for _, test := range []struct {
		name, scenario string
		sequences      int  // that an engine runs at once; 0: as many as the profile says
		smooth         bool // the bend is where elasticity is spent, not where the engine is full
	}{
		{name: "h100-eks", scenario: "s1", smooth: true},
		{name: "h100-gke", scenario: "s2", smooth: true},
		{name: "h100-eks with engines that are full early", scenario: "s1", sequences: 72},
		{name: "small", scenario: "small"},
	} {
		t.Run(test.name, func(t *testing.T) {
			named, ok := scenarios.Find(test.scenario)
			if !ok {
				t.Fatalf("no scenario %s", test.scenario)
			}
			text := string(named.Data)
			if test.sequences > 0 {
				text += fmt.Sprintf("fleet: {maxSequences: %d}\n", test.sequences)
			}
			s, err := spec.DecodeScenario([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			file := write(t, "fleet.yaml", text)
			gpus := float64(s.Fleet.Workers)
			model := &modelCurve{t: t, scenario: sim.Healthy(s), known: map[int]float64{}}
			truth := model.knee(0.55)
			t.Logf("the model's knee: %.0f in flight a GPU; Kneedle up to 1.5 times that: %.0f",
				truth, model.kneedle(1.5*truth))
			for seed := uint64(1); seed <= uint64(*kneeSeeds); seed++ {
				found := sweptKnee(t, file, seed)
				k := found.Knee
				if !k.Found {
					t.Errorf("seed %d: %s; %s", seed, k.Reason, found.Ended)
					continue
				}
				at := k.InFlight / gpus
				t.Logf("seed %d: %.0f a GPU (%+.1f %%), interval ± %.0f %%, %d levels in %.0f s; %s; %s", seed, at,
					100*(at/truth-1), 100*k.Half(), len(found.Levels), found.TookS, k.Opinions[0].Text,
					k.Opinions[1].Text)
				if math.Abs(at/truth-1) > within {
					t.Errorf("seed %d: the knee is at %.0f a GPU, the model's at %.0f", seed, at, truth)
				}
				below := found.Proposal.PerGPU
				if float64(below) >= truth || model.elasticity(below/2*2) < 0.55 {
					t.Errorf("seed %d: %d a GPU are proposed, and the model's knee is at %.0f", seed, below, truth)
				}
				// What is 15 % off is seen: the same levels, asked for another elasticity.
				other, _ := spec.DefaultThresholds(spec.ProfileStandard)
				other.Elasticity = 0.70
				at = judge.FindKnee(found.Levels, &other).InFlight / gpus
				if test.smooth && math.Abs(at/truth-1) <= within {
					t.Errorf("seed %d: an elasticity of 0.70 gives the same knee, %.0f a GPU: this proves nothing",
						seed, at)
				}
			}
		})
	}
}

// sweep is what of the program's product is looked at.
type sweep struct {
	TookS    float64             `json:"took_s"`
	Ended    string              `json:"ended"`
	Knee     *judge.Knee         `json:"knee"`
	Proposal *judge.KneeProposal `json:"proposal"`
	Levels   []judge.KneeLevel   `json:"levels"`
}

func sweptKnee(t *testing.T, file string, seed uint64) *sweep {
	t.Helper()
	stdout, stderr, _ := aicr(t, "knee", "--sim", file, "--seed", strconv.FormatUint(seed, 10), "--first-per-gpu=8",
		"--max-per-gpu=1024", "--level-duration=10s", "--reference-duration=20s", "--budget=10m", "--ramp=2s",
		"--sentinel-rate=10", "-o", "json")
	found := &sweep{}
	decode(t, []byte(stdout), found)
	if found.Knee == nil {
		t.Fatalf("no knee: %s", stderr)
	}
	return found
}

// modelCurve is the throughput of a fleet without jitter, level by level.
type modelCurve struct {
	t        *testing.T
	scenario *spec.Scenario
	known    map[int]float64
}

// at is the throughput with so many in flight a GPU: those, divided by how long each
// stays.
func (m *modelCurve) at(perGPU int) float64 {
	if x, ok := m.known[perGPU]; ok {
		return x
	}
	const episode = 40 * time.Second
	s := *m.scenario
	s.Load.ConcurrencyPerGPU, s.Load.Episode, s.Load.Ramp = perGPU, spec.Duration(episode), spec.Duration(2*time.Second)
	r, err := sim.Play(m.t.Context(), &s, 1, 1, sim.Load{})
	if err != nil {
		m.t.Fatal(err)
	}
	var stay, n float64
	for _, q := range r.Requests {
		if sent := time.Duration(q.Sent); sent > episode/4 && sent < episode*3/4 {
			stay += float64(q.End-q.Sent) / 1e9
			n++
		}
	}
	m.known[perGPU] = float64(perGPU*s.Fleet.Workers) * float64(s.Load.OutputTokens) / (stay / n)
	return m.known[perGPU]
}

// elasticity of the doubling that ends at an even level.
func (m *modelCurve) elasticity(perGPU int) float64 {
	return math.Log2(m.at(perGPU) / m.at(perGPU/2))
}

// knee is where a doubling begins to have less than e: between two doublings by a
// dense grid, and between two of its levels by a share of the step.
func (m *modelCurve) knee(e float64) float64 {
	const steps = 16
	high := 8
	for m.elasticity(high) >= e {
		if high *= 2; high > 1024 {
			m.t.Fatal("the model has no knee")
		}
	}
	step := max(2, high/2/steps/2*2)
	before := m.elasticity(high / 2)
	for n := high/2 + step; ; n += step {
		now := m.elasticity(n)
		if now < e {
			return float64(n) - float64(step)*(e-now)/(before-now)
		}
		before = now
	}
}

// kneedle is the bend of the same curve by the other definition, which depends on
// how far it is swept.
func (m *modelCurve) kneedle(most float64) float64 {
	var x, y []float64
	for n := 8; n <= int(most); n += 8 + n/8/8*8 {
		x, y = append(x, float64(n)), append(y, m.at(n))
	}
	at, _ := stats.Kneedle(x, y, 1)
	return at
}
