package judge

import (
	"fmt"
	"strings"
	"testing"

	"aicr/internal/spec"
)

// A row of the peers shows the worker, the value and the wanted by which it has its state,
// and the finding words the figure that decided.
func TestARowOfPeersAgreesWithItself(t *testing.T) {
	// Worker 1 is slow, and has so many more requests that its share is fair.
	evenShare := bout{workers: 2, users: 16, pace: only(1, 0, 99, 0.77), route: func(u, _ int, _ float64) int {
		if u < 7 {
			return 0
		}
		return 1
	}}
	starved := bout{workers: 2, users: 16, route: func(u, _ int, _ float64) int { return min(1, u/6) }}
	nearly, healthy := evenShare, evenShare
	nearly.pace, healthy.pace = only(1, 0, 99, 0.83), nil
	for name, c := range map[string]struct {
		episodes []*spec.EpisodeRecord
		summary  string
		rows     []string
	}{
		"by pace, at a fair share": {times(2, evenShare), "worker 1 is slow: 0.77 of its peers' pace for each request",
			[]string{"least-token-share PASS 0.99 worker 1", "least-pace FAIL 0.77 worker 1"}},
		"by pace, and one good episode would lift the mean": {sequel(times(4, nearly), times(1, healthy)), "worker 1 is slow: 0.83 of its peers' pace for each request",
			[]string{"least-token-share PASS 0.95 worker 0", "least-pace FAIL 0.83 worker 1"}},
		"by share and by pace": {times(2, bout{pace: only(3, 0, 99, 0.5)}), "worker 3 is slow: 0.57 of a fair share of the tokens",
			[]string{"least-token-share FAIL 0.57 worker 3", "least-pace FAIL 0.50 worker 3"}},
		"by share alone": {times(2, bout{pace: only(3, 0, 99, 0.86)}), "worker 3 is slow: 0.89 of a fair share of the tokens",
			[]string{"least-token-share FAIL 0.89 worker 3", "least-pace PASS 0.86 worker 3"}},
		"two, each by another rule": {times(2, bout{users: 32, pace: both2(only(3, 0, 99, 0.86), only(2, 0, 99, 0.5)), route: func(u, _ int, _ float64) int {
			return []int{0, 0, 1, 1, 2, 2, 2, 3}[u%8]
		}}), "workers 2 and 3 are slow: 0.54 of a fair share of the tokens and 0.50 of their peers' pace for each request",
			[]string{"least-token-share FAIL 0.54 worker 3", "least-pace FAIL 0.50 worker 2"}},
		"it was sent less": {times(2, starved), "", []string{"least-token-share NOT JUDGED 0.75 worker 0 was sent less, and is as fast as its peers", "least-pace PASS 1.00 worker 0"}},
		"healthy":          {times(2, bout{}), "", []string{"least-token-share PASS 1.00 worker 0", "least-pace PASS 1.00 worker 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(handPlan(), nil, c.episodes...)
			for _, f := range v.Findings {
				if f.ID == "worker/slow" && f.Summary != c.summary {
					t.Errorf("summary %q, want %q", f.Summary, c.summary)
				}
			}
			var rows []string
			for _, e := range v.Expectations {
				if strings.HasPrefix(e.Name, "least-") {
					rows = append(rows, fmt.Sprintf("%s %s %.2f %s", e.Name, e.State, *e.Value, e.Note))
				}
			}
			if got, want := strings.Join(rows, "\n"), strings.Join(c.rows, "\n"); got != want {
				t.Errorf("rows\n%s\nwant\n%s", got, want)
			}
		})
	}
}
