package observe

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"aicr/internal/spec"
)

// shown is what a page shows at one question: when the process began (0: it does not say), and
// how many tokens it counted.
type shown struct{ began, tokens int }

func (s shown) page() string {
	text := fmt.Sprintf("vllm:num_requests_running 1\nvllm:generation_tokens_total %d\n", s.tokens)
	if s.began > 0 {
		text += fmt.Sprintf("process_start_time_seconds 1.7948%d\n", s.began)
	}
	return text
}

// A restarted worker has another process for good; a proxy shows the earlier one again, and
// then its page is no worker's.
func TestAProxysPageIsToldFromARestart(t *testing.T) {
	turns := func(all ...shown) func(n int) shown { return func(n int) shown { return all[n%len(all)] } }
	since := func(n int, before, after shown) func(int) shown {
		return func(i int) shown {
			if i < n {
				return before
			}
			return after
		}
	}
	for name, tc := range map[string]struct {
		shows func(n int) shown // the n-th question
		proxy bool
	}{
		"one process":                      {shows: turns(shown{1, 5})},
		"one that does not say when":       {shows: turns(shown{0, 5})},
		"in turn":                          {shows: turns(shown{1, 5}, shown{2, 5}), proxy: true},
		"in turn of three":                 {shows: turns(shown{1, 5}, shown{2, 6}, shown{3, 7}), proxy: true},
		"by chance":                        {shows: turns(shown{1, 5}, shown{1, 5}, shown{2, 5}, shown{2, 5}), proxy: true},
		"in turn, and no time":             {shows: turns(shown{0, 50}, shown{0, 20}), proxy: true},
		"counters that go back and forth":  {shows: func(n int) shown { return shown{0, 100*(n%2) + n} }, proxy: true},
		"a restart":                        {shows: since(2, shown{1, 500}, shown{2, 0})},
		"a restart that is not dated":      {shows: since(2, shown{0, 500}, shown{0, 0})},
		"a restart before its first token": {shows: since(2, shown{1, 0}, shown{2, 0})},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			c, url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(tc.shows(asked).page()))
				asked++
			})
			s := Worker(c, url, Labels{})
			proxy, read := false, 0
			for range 6 {
				samples, err := s.Reader.Read(t.Context())
				switch {
				case err != nil && strings.HasPrefix(err.Error(), spec.GapProxy):
					proxy = true
				case err != nil:
					t.Fatal(err)
				case proxy:
					t.Errorf("a proxy's page is a worker's again: %+v", samples)
				default:
					read++
				}
			}
			if proxy != tc.proxy || !proxy && read != 6 {
				t.Errorf("proxy: %v after %d samples", proxy, read)
			}
		})
		t.Run(name+", before anything is observed", func(t *testing.T) {
			asked := 0
			c, url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(tc.shows(asked + 2).page()))
				asked++
			})
			if got := AnswersForSeveral(t.Context(), Worker(c, url, Labels{})); got != tc.proxy {
				t.Errorf("several: %v", got)
			}
		})
	}
}

// A connection that is kept stays with one server of a proxy, so that others are asked for.
func TestAProxysPageIsAskedForOnNewConnections(t *testing.T) {
	at := map[string]int{}
	c, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, known := at[r.RemoteAddr]; !known {
			at[r.RemoteAddr] = len(at)%2 + 1
		}
		_, _ = w.Write([]byte(shown{at[r.RemoteAddr], 5}.page()))
	})
	if !AnswersForSeveral(t.Context(), Worker(c, url, Labels{})) {
		t.Errorf("%d connections", len(at))
	}
}

// When a process began is no sign of a worker: every process may tell it.
func TestAProcessThatOnlyTellsWhenItBeganIsNoWorker(t *testing.T) {
	if _, err := (&workerPage{}).read(t.Context(), []byte("process_start_time_seconds 1.7e9\n")); err == nil {
		t.Error("it is taken for a worker's page")
	}
	samples, err := (&workerPage{}).read(t.Context(), []byte(shown{1, 5}.page()))
	if err != nil || samples[0].Worker.Started == nil || *samples[0].Worker.Started != 1.79481 {
		t.Errorf("%+v, %v", samples, err)
	}
}
