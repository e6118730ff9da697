package load_test

import (
	"testing"
	"time"

	"aicr/internal/load"
	"aicr/internal/sim/truth"
)

// TestServersHabitsAreReadRight plays what servers do differently, in virtual
// time, and looks at what the records make of it.
func TestServersHabitsAreReadRight(t *testing.T) {
	const tokens = 12
	base := truth.Script{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond}
	at := func(r *load.Record, stamp int64) time.Duration { return time.Duration(stamp - r.Sent) }
	for _, tc := range []struct {
		habit  string
		change func(*truth.Script)
		check  func(t *testing.T, r *load.Record)
	}{
		{"nothing special", func(*truth.Script) {}, func(t *testing.T, r *load.Record) {
			if r.Chunks != tokens || at(r, r.FirstContent) != 100*time.Millisecond || at(r, r.LastContent) != 210*time.Millisecond ||
				r.SecondContent-r.FirstContent != int64(10*time.Millisecond) || r.FirstChoice != r.FirstContent || r.FirstAnswer != r.FirstContent {
				t.Errorf("%+v", r)
			}
		}},
		{"a role-only event comes first", func(s *truth.Script) { s.RoleFirst = true }, func(t *testing.T, r *load.Record) {
			if at(r, r.FirstChoice) != 0 || at(r, r.FirstContent) != 100*time.Millisecond || r.Chunks != tokens {
				t.Errorf("%+v", r)
			}
		}},
		{"it reasons first", func(s *truth.Script) { s.ReasoningTokens = 5 }, func(t *testing.T, r *load.Record) {
			if at(r, r.FirstContent) != 100*time.Millisecond || at(r, r.FirstAnswer) != 150*time.Millisecond || r.Chunks != tokens {
				t.Errorf("%+v", r)
			}
		}},
		{"several tokens an event", func(s *truth.Script) { s.TokensPerChunk = 4 }, func(t *testing.T, r *load.Record) {
			if r.Chunks != tokens/4 || r.Tokens() != tokens {
				t.Errorf("%+v", r)
			}
		}},
		{"usage in every event", func(s *truth.Script) { s.Usage = truth.UsageEvery }, func(t *testing.T, r *load.Record) {
			if !r.Has(load.HasUsage) || r.CompletionTokens != tokens || r.Chunks != tokens {
				t.Errorf("%+v", r)
			}
		}},
		{"usage never, so that events are counted", func(s *truth.Script) { s.Usage = truth.UsageNone }, func(t *testing.T, r *load.Record) {
			if r.Has(load.HasUsage) || r.CompletionTokens != 0 || r.Tokens() != tokens {
				t.Errorf("%+v", r)
			}
		}},
		{"cached tokens told", func(s *truth.Script) { s.CachedTokens = 3 }, func(t *testing.T, r *load.Record) {
			if !r.Has(load.HasCached) || r.CachedTokens != 3 {
				t.Errorf("%+v", r)
			}
		}},
		{"no [DONE]", func(s *truth.Script) { s.NoDone = true }, func(t *testing.T, r *load.Record) {
			if r.Has(load.Done) {
				t.Errorf("%+v", r)
			}
		}},
		{"CRLF", func(s *truth.Script) { s.CRLF = true }, func(*testing.T, *load.Record) {}},
		{"a byte at a time", func(s *truth.Script) { s.Fragment = 1 }, func(*testing.T, *load.Record) {}},
		{"workers told beyond 2^53", func(s *truth.Script) { s.Workers = 2 }, func(t *testing.T, r *load.Record) {
			if !r.Has(load.HasWorker) || r.Worker < 1<<53 {
				t.Errorf("%+v", r)
			}
		}},
	} {
		t.Run(tc.habit, func(t *testing.T) {
			s := base
			tc.change(&s)
			inVirtualTime(t, s, func(t *testing.T, _ *truth.Handler, target *load.Target) {
				res := mustRun(t, planTo(t, target, load.Schedule{Users: 2, Count: 6}, tokens))
				for r := range res.Log.All() {
					if !r.OK() || r.Tokens() != tokens || r.Finish != load.FinishLength {
						t.Errorf("%s: %+v", res.Log.Details[r.Detail], r)
					}
					tc.check(t, r)
				}
				if res.Log.Len() != 6 {
					t.Errorf("%d records", res.Log.Len())
				}
			})
		})
	}
}
