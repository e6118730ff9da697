//go:build linux

package interop_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"aicr/internal/judge"
	"aicr/internal/spec"
	"aicr/test/busy"
)

// What a search of the stack's knee prints, as far as it is looked at.
type kneeFound struct {
	Known    bool               `json:"known"`
	Reason   string             `json:"reason"`
	Knee     judge.Knee         `json:"knee"`
	Proposal judge.KneeProposal `json:"proposal"`
}

// Engines that run eight requests at once have their knee where they are full. They are half
// as fast as a real one: a level of seconds then holds many lifetimes of a request.
const (
	fullAt   = 8
	kneePace = "0.5"
)

// A knee, and then a validation of the same healthy stack at the proposed point and
// against the proposed reference, read 1.00 within the interval of both, and the point is
// not called past the knee. The longest test stands in the first file, so that it begins first.
func TestAValidationReadsWhatItsKneeMeasured(t *testing.T) {
	t.Parallel() // they wait more than they work
	p := plan{router: "least-loaded", workers: alike(3, "--speedup-ratio", kneePace, "--no-enable-prefix-caching", "--max-num-seqs", strconv.Itoa(fullAt))}
	s := bringUp(t, p)
	busy.Measure(t, func() (tooBusy string) {
		recipe := filepath.Join(t.TempDir(), "knee.yaml")
		k := s.knee(t, recipe)
		if !k.Known {
			return "no knee: " + k.Reason
		}
		if at := k.Knee.InFlight / float64(len(s.workers)); at < fullAt || at > 2*fullAt {
			t.Errorf("the knee is at %.1f a worker, and each runs %d at once", at, fullAt)
		}
		j := s.validateAgainst(t, recipe)
		if j.verdict.Verdict != spec.Pass {
			return string(j.verdict.Verdict) + ": " + j.verdict.Reason
		}
		for _, f := range j.verdict.Findings {
			if f.ID == "load/past-knee" {
				t.Errorf("at what was proposed: %s", f.Summary)
			}
		}
		for _, e := range j.verdict.Expectations {
			if e.Name != "throughput-of-reference" {
				continue
			}
			both := math.Hypot((*e.High-*e.Low)/2, (k.Proposal.High-k.Proposal.Low)/2/k.Proposal.Reference.Throughput)
			t.Logf("%.3f of the reference, ± %.3f by both", *e.Value, both)
			if math.Abs(*e.Value-1) > max(both, 0.005) {
				return "throughput differs from the reference by more than both scatter"
			}
			return ""
		}
		t.Error("it was held against nothing")
		return ""
	})
}

// knee finds the stack's knee, and writes what it proposes.
func (s *stack) knee(t *testing.T, recipe string) (found kneeFound) {
	t.Helper()
	r := begin(t, bare(s.dir), program, "knee", "--url", s.url, "--model", modelName, "--workers", strconv.Itoa(len(s.workers)),
		"--isl", strconv.Itoa(input), "--osl", strconv.Itoa(output), "--ramp", "1s", "--first-per-gpu", "2", "--max-per-gpu", "16",
		"--level-duration", "3s", "--reference-duration", "10s", "--budget", "4m", "--write", recipe, "-o", "json")
	f := r.wait(t, 4*patience)
	t.Logf("%s", f.stderr)
	if err := json.Unmarshal([]byte(f.stdout), &found); err != nil {
		t.Fatalf("aicr knee exits with %d: %v\n%s%s", f.code, err, f.stdout, f.stderr)
	}
	if found.Known {
		if _, err := os.Stat(recipe); err != nil {
			t.Error(err)
		}
	}
	return found
}

// validateAgainst validates the stack at the point and against the reference of a recipe.
func (s *stack) validateAgainst(t *testing.T, recipe string) *judgement {
	t.Helper()
	v := &validation{dir: filepath.Join(t.TempDir(), "run")}
	argv := []string{program, "validate", "--url", s.url, "--model", modelName, "--workers", strconv.Itoa(len(s.workers)),
		"--recipe", recipe, "--profile", "quick", "--stability", "report", "--episode-duration", "10s", "--ramp", "1s", "--run", v.dir}
	for _, w := range s.workers {
		argv = append(argv, "--worker-metrics", w.metrics)
	}
	v.running = begin(t, bare(s.dir), argv...)
	return v.result(t)
}
