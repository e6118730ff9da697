//go:build linux

package interop_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each of the real frontend's routers gives its workers the shares that it
// should, by the workers' own names in the answers, and the series of the
// workers' pages shows the same shares.
func TestRoutersShareOutAsTheyShould(t *testing.T) {
	t.Parallel() // requests are counted, not timed
	const workers, requests, output = 3, 120, 64
	fair := float64(requests) / workers
	chance := 4 * math.Sqrt(fair*(1-1.0/workers)) // one run in some 5000 is outside
	for _, mode := range []struct {
		router string
		within float64 // requests that a worker may have more or fewer than its share
		again  func(ids []string) error
	}{
		{"round-robin", 1, inTurn},
		{"random", chance, nil},
		{"power-of-two", chance, nil},
		{"least-loaded", 0.1 * fair, nil},
		{"kv", 0.25 * fair, theSame},
	} {
		t.Run(mode.router, func(t *testing.T) {
			s := bringUp(t, plan{router: mode.router, workers: alike(workers)})
			if mode.again != nil {
				ids := askAgain(t, s, 2*workers)
				if err := mode.again(ids); err != nil {
					t.Errorf("one prompt again and again is served by %s: %v", strings.Join(ids, ", "), err)
				}
			}
			s.warm(t)
			w := s.watch(t)
			sampled := func() { // so that the first sample is before the load, and the last after it
				for _, worker := range s.workers {
					w.await(t, worker.metrics)
				}
			}
			sampled()
			o := s.aicr(t, "--model", modelName, "--concurrency", "12", "--request-count", strconv.Itoa(requests),
				"--isl", "130", "--osl", strconv.Itoa(output))
			sampled()
			seen := w.end(t)

			if len(o.bench.Workers) != workers {
				t.Fatalf("aicr bench saw %s, want %d workers", jsonOf(o.bench.Workers), workers)
			}
			var tokens float64
			by := map[string]float64{}
			for _, worker := range s.workers {
				n, known := seen.of(worker.metrics).grown(generated)
				if !known {
					t.Fatalf("the series has no tokens of %s", worker.name())
				}
				by[worker.name()] = n
				tokens += n
			}
			for _, b := range o.bench.Workers {
				if math.Abs(float64(b.Requests)-fair) > mode.within {
					t.Errorf("worker %s served %d of %d requests, want %.0f give or take %.1f", b.Worker, b.Requests, requests, fair, mode.within)
				}
				// The probes before the load are served too; they are a few short answers.
				if share := by[b.Worker] / tokens; math.Abs(share-b.Share) > 0.02 {
					t.Errorf("worker %s generated %.1f %% of the tokens by its page, and %.1f %% by the answers", b.Worker, 100*share, 100*b.Share)
				}
			}
			if tokens < requests*output {
				t.Errorf("the series has %.0f tokens, of %d that were answered", tokens, requests*output)
			}
		})
	}
}

// askAgain sends one long prompt several times, one after the other, and tells
// who served it.
func askAgain(t *testing.T, s *stack, times int) []string {
	t.Helper()
	body := fmt.Sprintf(`{"model":"tiny","messages":[{"role":"user","content":%q}],"max_tokens":2,"nvext":{"extra_fields":["worker_id"]}}`,
		strings.Repeat("the king is here ", 256))
	var ids []string
	for range times {
		text, err := s.chat(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Nvext struct {
				Worker struct {
					Decode json.Number `json:"decode_worker_id"`
				} `json:"worker_id"`
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, answer.Nvext.Worker.Decode.String())
	}
	return ids
}

// inTurn is what round-robin does with one prompt.
func inTurn(ids []string) error {
	round := ids[:len(ids)/2]
	if !slices.Equal(round, ids[len(ids)/2:]) {
		return fmt.Errorf("the second round differs from the first")
	}
	if distinct := len(slices.Compact(slices.Sorted(slices.Values(round)))); distinct != len(round) {
		return fmt.Errorf("%d workers in a round of %d", distinct, len(round))
	}
	return nil
}

// theSame is what routing by cache does with one prompt.
func theSame(ids []string) error {
	if distinct := len(slices.Compact(slices.Clone(ids))); distinct != 1 {
		return fmt.Errorf("not by the one that has it in its cache")
	}
	return nil
}
