//go:build linux

package interop_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aicr/internal/spec"
)

// measures are what two load generators have to agree on, and how closely.
var measures = []struct {
	name, tag string
	median    bool
	within    float64
}{
	{"output tokens/s", "output_token_throughput", false, 0.03},
	{"TTFT p50, ms", "time_to_first_token", true, 0.05},
	{"ITL mean, ms", "inter_token_latency", false, 0.03},
}

const (
	leastRounds = 3
	mostRounds  = 7
	held        = 0.97 // share of the concurrency below which AIPerf was the limit
)

// The two take turns on one stack, with a request a worker at any time, so that
// nothing depends on which requests happen to meet. Prompts are long and workers
// slow because AIPerf, on two cores, needs some milliseconds of its own to
// connect, to send and to be woken, all of which it counts as the server's: they
// have to be small beside the first token for the server to be what is compared.
//
// The machine is shared with others, so the medians over the rounds are compared;
// where three rounds do not settle it, more are taken, and the table says how many.
// The limits stay what they are.
func TestBenchAgreesWithAIPerf(t *testing.T) {
	s := bringUp(t, plan{router: "least-loaded", workers: alike(4, "--speedup-ratio", "0.25", "--no-enable-prefix-caching")})
	light := load{concurrency: len(s.workers), requests: 16, warmup: len(s.workers), input: 8002, output: 96}
	var ours, theirs []outcome
	var off []string
	for round := range mostRounds {
		light.seed = round + 1
		o := s.aicr(t, append(light.flags(), "--isl", fmt.Sprint(light.input))...)
		keepsCount(t, o.bench, light)
		a := s.aiperf(t, light)
		if served, _ := a.figure(t, "request_count"); served != float64(light.requests) {
			t.Fatalf("AIPerf was served %v of %d requests", served, light.requests)
		}
		for _, m := range measures {
			t.Logf("round %d: %s: aicr %.2f, AIPerf %.2f", round+1, m.name,
				median(t, []outcome{o}, m.tag, m.median), median(t, []outcome{a}, m.tag, m.median))
		}
		if c, _ := a.figure(t, "effective_concurrency"); c < held*float64(light.concurrency) {
			t.Logf("round %d: AIPerf held %.2f of %d: it is the limit, and the round does not count", round+1, c, light.concurrency)
			continue
		}
		if !o.valid() {
			t.Logf("round %d: %s: the round does not count", round+1, o.bench.Reason)
			continue
		}
		ours, theirs = append(ours, o), append(theirs, a)
		if len(ours) < leastRounds {
			continue
		}
		if off = disagreements(t, ours, theirs); len(off) == 0 {
			break
		}
	}
	if len(ours) < leastRounds {
		t.Fatalf("%d of %d rounds count: no comparison", len(ours), mostRounds)
	}
	for _, what := range off {
		t.Error(what)
	}

	heavy := light
	heavy.concurrency, heavy.requests, heavy.warmup, heavy.input = 8*light.concurrency, 8*light.requests, 8*light.warmup, 130
	o, a := s.aicr(t, append(heavy.flags(), "--isl", fmt.Sprint(heavy.input))...), s.aiperf(t, heavy)
	for range leastRounds - 1 {
		if o.valid() {
			break
		}
		o = s.aicr(t, append(heavy.flags(), "--isl", fmt.Sprint(heavy.input))...)
	}
	keepsCount(t, o.bench, heavy)
	our, _ := o.figure(t, "effective_concurrency")
	their, _ := a.figure(t, "effective_concurrency")
	if our < their {
		t.Errorf("at %d, aicr holds %.1f in flight, AIPerf %.1f", heavy.concurrency, our, their)
	}

	table := agreementTable(t, light, ours, theirs, heavy, o, a)
	t.Log("\n" + table)
	if err := os.WriteFile(filepath.Join(keep, "agreement.md"), []byte(table), 0o644); err != nil {
		t.Error(err)
	}
}

// keepsCount checks that every request was served, and that the tokens are those
// of the server's usage, which has as many as came.
func keepsCount(t *testing.T, b spec.Bench, l load) {
	t.Helper()
	w := b.Workload
	exactly := func(what string, c spec.BenchCount, want int) {
		if c.Min == nil || c.Max == nil || *c.Min != float64(want) || *c.Max != float64(want) {
			t.Errorf("%s: %s, want %d in each request", what, jsonOf(c), want)
		}
	}
	exactly("input", w.Input, l.input)
	exactly("output", w.Output, l.output)
	if b.Requests.Served != l.requests || b.Requests.Failed != 0 {
		t.Errorf("%s, want %d served", jsonOf(b.Requests), l.requests)
	}
	if w.Tokens != "usage" || w.TokensPerChunk == nil || *w.TokensPerChunk != 1 || w.Undercounted != 0 {
		t.Errorf("%s, want every token of the usage seen", jsonOf(w))
	}
}

// median is over the rounds.
func median(t *testing.T, runs []outcome, tag string, ofMedians bool) float64 {
	t.Helper()
	var all []float64
	for _, o := range runs {
		mean, middle := o.figure(t, tag)
		if ofMedians {
			mean = middle
		}
		all = append(all, mean)
	}
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}

func disagreements(t *testing.T, ours, theirs []outcome) []string {
	t.Helper()
	var off []string
	for _, m := range measures {
		our, their := median(t, ours, m.tag, m.median), median(t, theirs, m.tag, m.median)
		if !(math.Abs(our/their-1) <= m.within) { // a NaN is no agreement
			off = append(off, fmt.Sprintf("%s: aicr %.2f, AIPerf %.2f: %+.1f %%, want within %.0f %%",
				m.name, our, their, 100*(our/their-1), 100*m.within))
		}
	}
	return off
}

func agreementTable(t *testing.T, light load, ours, theirs []outcome, heavy load, our, their outcome) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "### Two load generators on one stack\n\n%s. %s; aicr from this tree. "+
		"Dynamo's frontend, least-loaded, 4 mockers at speedup 0.25 without prefix caching; a connection a request.\n\n",
		time.Now().UTC().Format(time.DateOnly), versions(t))
	fmt.Fprintf(&b, "Concurrency %d, %d requests of %d tokens in and %d out, %d rounds in turn, medians over the rounds:\n\n"+
		"| | aicr | AIPerf | difference | limit |\n|---|---|---|---|---|\n", light.concurrency, light.requests, light.input, light.output, len(ours))
	for _, m := range measures {
		o, a := median(t, ours, m.tag, m.median), median(t, theirs, m.tag, m.median)
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %+.1f %% | %.0f %% |\n", m.name, o, a, 100*(o/a-1), 100*m.within)
	}
	fmt.Fprintf(&b, "| in flight, mean | %.2f | %.2f | | |\n",
		median(t, ours, "effective_concurrency", false), median(t, theirs, "effective_concurrency", false))
	fmt.Fprintf(&b, "\nConcurrency %d, %d requests of %d tokens in and %d out, one run each:\n\n| | aicr | AIPerf |\n|---|---|---|\n",
		heavy.concurrency, heavy.requests, heavy.input, heavy.output)
	row := func(name, format string, f func(outcome) float64) {
		fmt.Fprintf(&b, "| %s | "+format+" | "+format+" |\n", name, f(our), f(their))
	}
	mean := func(tag string) func(outcome) float64 {
		return func(o outcome) float64 { v, _ := o.figure(t, tag); return v }
	}
	row("in flight, mean", "%.1f", mean("effective_concurrency"))
	row("output tokens/s", "%.0f", mean("output_token_throughput"))
	row("TTFT p50, ms", "%.1f", func(o outcome) float64 { _, p50 := o.figure(t, "time_to_first_token"); return p50 })
	row("ITL mean, ms", "%.2f", mean("inter_token_latency"))
	row("CPU of the client, s", "%.2f", func(o outcome) float64 { return o.cpu.Seconds() })
	row("CPU per 1000 tokens, ms", "%.1f", func(o outcome) float64 {
		return o.cpu.Seconds() * 1e6 / float64((heavy.requests+heavy.warmup)*heavy.output)
	})
	row("wall time with start and end, s", "%.1f", func(o outcome) float64 { return o.wall.Seconds() })
	b.WriteString("\n")
	return b.String()
}

// versions asks the installation what it is.
func versions(t *testing.T) string {
	t.Helper()
	got := finish(t, patience, bare(t.TempDir()), python(), "-c", `
import platform
from importlib.metadata import version
print("ai-dynamo", version("ai-dynamo") + ", AIPerf", version("aiperf") + ", Python", platform.python_version(), end="")`)
	if got.code != 0 {
		t.Fatal(got.stderr)
	}
	return got.stdout
}
