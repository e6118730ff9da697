package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/sim/truth"
	"aicr/internal/spec"
)

// floorRecipe is a recipe file that has a floor for throughput.
func floorRecipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "floor.yaml")
	err := os.WriteFile(path, []byte(`kind: RecipeMetadata
apiVersion: aicr.run/v1beta1
metadata: {name: floor}
spec:
  validation:
    performance:
      checks: [inference-perf]
      constraints:
        - {name: inference-throughput, value: ">= 10"}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// shortRun are the flags of a run that is over soon.
func shortRun(url, dir string, more ...string) []string {
	return append([]string{"validate", "--url", url, "--run", dir, "--profile", "smoke", "--episode-duration", "10", "--ramp", "1", "--concurrency-per-gpu", "2", "-o", "json"}, more...)
}

// What makes a PASS impossible is said before a request of the load is sent, and with
// --fail-early the run ends there, with a record that is judged alike.
func TestWhatMakesAPassImpossibleIsSaidBeforeTheLoad(t *testing.T) {
	const (
		unknown = "this run cannot PASS: the number of workers is unknown: set it with --workers N"
		blind   = "this run cannot PASS: no source distinguishes the workers"
		alone   = "this run cannot PASS: there is neither a reference nor a floor"
	)
	for name, c := range map[string]struct {
		workers int // that the server names
		flags   func(t *testing.T) []string
		said    []string
		unsaid  []string
		reason  string // of a run that ends early; "": it loads
	}{
		"a URL alone": {flags: func(*testing.T) []string { return nil }, said: []string{alone, unknown, blind}},
		"a URL alone, early": {flags: func(*testing.T) []string { return []string{"--fail-early"} }, said: []string{alone}, unsaid: []string{unknown},
			reason: "ended before the load, since it could not pass: there is neither a reference nor a floor"},
		"a floor, early": {flags: func(t *testing.T) []string { return []string{"--fail-early", "--recipe", floorRecipe(t)} }, said: []string{unknown, blind}, unsaid: []string{alone},
			reason: "the number of workers is unknown: set it with --workers N; no source distinguishes"},
		"a floor, a number, early": {flags: func(t *testing.T) []string {
			return []string{"--fail-early", "--recipe", floorRecipe(t), "--workers", "4"}
		}, said: []string{blind}, unsaid: []string{unknown, alone}, reason: "no source distinguishes"},
		"declared checks that do not run, early": {workers: 2, flags: func(t *testing.T) []string {
			return []string{"--fail-early", "--recipe", writtenRecipe(t, strings.ReplaceAll(severalRecipe, "unit: tokens/s/GPU", "unit: tokens/s"))}
		}, said: []string{"this run cannot PASS: the recipe declares checks that this run cannot pass: operator-health NOT RUN, gang-scheduling NOT RUN: choose what is run with --check NAME"},
			unsaid: []string{"start:"}, reason: "ended before the load, since it could not pass: the recipe declares checks that this run cannot pass"},
		"declared checks that are left out": {workers: 2, flags: func(t *testing.T) []string {
			return []string{"--fail-early", "--check", "inference-perf", "--recipe", writtenRecipe(t, strings.ReplaceAll(severalRecipe, "unit: tokens/s/GPU", "unit: tokens/s"))}
		}, unsaid: []string{"cannot PASS"}},
		"a floor for each GPU": {workers: 3, flags: func(t *testing.T) []string {
			return []string{"--fail-early", "--check", "inference-perf", "--recipe", writtenRecipe(t, severalRecipe)}
		}, said: []string{"3 workers, by worker ids in the answers"}, unsaid: []string{"cannot PASS"}},
		"a floor for each GPU, of how many is unknown": {flags: func(t *testing.T) []string {
			return []string{"--fail-early", "--check", "inference-perf", "--recipe", writtenRecipe(t, severalRecipe)}
		}, said: []string{unknown, blind}, reason: "the number of workers is unknown: set it with --workers N"},
		"pages that do not answer": {flags: func(t *testing.T) []string {
			return []string{"--fail-early", "--recipe", floorRecipe(t), "--worker-metrics", "http://127.0.0.1:1/metrics", "--worker-metrics", "http://127.0.0.1:2/metrics"}
		}, said: []string{"this run cannot PASS: 2 of 2 workers' metrics pages do not answer"}, reason: "2 of 2 workers' metrics pages do not answer"},
		"pages of some workers": {flags: func(t *testing.T) []string {
			return []string{"--fail-early", "--recipe", floorRecipe(t), "--workers", "4", "--worker-metrics", "http://127.0.0.1:1/metrics", "--worker-metrics", "http://127.0.0.1:2/metrics"}
		}, said: []string{"this run cannot PASS: only 2 of 4 workers have a metrics page"}, reason: "only 2 of 4 workers have a metrics page"},
		"one worker": {flags: func(t *testing.T) []string {
			return []string{"--fail-early", "--recipe", floorRecipe(t), "--workers", "1"}
		}, unsaid: []string{"cannot PASS"}},
		"workers that are named": {workers: 3, flags: func(t *testing.T) []string { return []string{"--fail-early", "--recipe", floorRecipe(t)} },
			said: []string{"3 workers, by worker ids in the answers; 6 in flight"}, unsaid: []string{"cannot PASS"}},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, network Network) {
				url, _ := network.serveScript(t, truth.Script{Workers: c.workers, TTFT: 50 * time.Millisecond, ITL: 5 * time.Millisecond})
				dir := filepath.Join(t.TempDir(), "run")
				run := startProgram(t, network, shortRun(url, dir, c.flags(t)...)...)
				code := <-run.code
				said, load := run.stderr.String(), strings.Index(run.stderr.String(), "half the load")
				for _, text := range c.said {
					if at := strings.Index(said, text); at < 0 || load >= 0 && at > load {
						t.Errorf("not said before the load: %s\n%s", text, said)
					}
				}
				for _, text := range c.unsaid {
					if strings.Contains(said, text) {
						t.Errorf("said: %s\n%s", text, said)
					}
				}
				var v spec.Verdict
				readJSON(t, filepath.Join(dir, verdictFile), &v)
				if early := c.reason != ""; early != (v.Episodes == 0) || early && (code != int(Unmeasured) || v.Verdict != spec.Inconclusive || !strings.Contains(v.Reason, c.reason)) {
					t.Errorf("exit code %d, %s after %d episodes: %s\n%s", code, v.Verdict, v.Episodes, v.Reason, said)
				}
				if product, _ := rejudged(t, dir); !bytes.Equal(product, readFile(t, dir, verdictFile)) {
					t.Errorf("judged again:\n%s", cmp.Diff(string(readFile(t, dir, verdictFile)), string(product)))
				}
			})
		})
	}
}

// The number of workers that was found is the plan's, with where it is from.
func TestTheNumberOfWorkersThatWasFoundIsThePlans(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		url, _ := network.serveScript(t, truth.Script{Workers: 20, TTFT: 50 * time.Millisecond, ITL: 5 * time.Millisecond})
		dir := filepath.Join(t.TempDir(), "run")
		run := startProgram(t, network, shortRun(url, dir, "--recipe", floorRecipe(t))...)
		code := <-run.code
		record, err := spec.ReadRun(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		p := record.Plan
		if in := p.Inputs["workers"]; p.Point.Workers != 20 || p.Point.Concurrency != 40 || in.Value != "20" || in.From+" "+in.Place != "found at start, worker ids in the answers" {
			t.Errorf("%d workers, %d in flight, %+v\n%s", p.Point.Workers, p.Point.Concurrency, in, &run.stderr)
		}
		if code != 0 {
			t.Errorf("exit code %d\n%s\n%s", code, &run.stderr, &run.stdout)
		}
	})
}

// What a recipe wants of each GPU is scaled to the workers that were found, for whoever
// judges the record later too.
func TestWhatIsWantedOfEachGPUFollowsTheWorkersThatWereFound(t *testing.T) {
	recipe := writtenRecipe(t, `kind: RecipeMetadata
apiVersion: aicr.run/v1beta1
metadata: {name: each}
spec:
  validation:
    performance:
      checks: [inference-perf]
      constraints:
        - {name: inference-throughput, value: ">= 100", unit: tokens/s/GPU}
      verdict:
        reference: {throughput: 370, gpus: 1, concurrencyPerGPU: 2, inputTokens: 128, outputTokens: 128, dispersion: 0.01, n: 20}
`)
	inVirtualTime(t, func(t *testing.T, network Network) {
		url, _ := network.serveScript(t, truth.Script{Workers: 20, TTFT: 50 * time.Millisecond, ITL: 5 * time.Millisecond})
		dir := filepath.Join(t.TempDir(), "run")
		run := startProgram(t, network, shortRun(url, dir, "--recipe", recipe)...)
		code := <-run.code
		record, err := spec.ReadRun(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		p := record.Plan
		if p.Reference == nil || p.Reference.Throughput != 20*370 || len(p.Constraints) != 1 || p.Constraints[0].Threshold != 20*100 {
			t.Errorf("%+v, %+v", p.Reference, p.Constraints)
		}
		if code != 0 {
			t.Errorf("exit code %d\n%s\n%s", code, &run.stderr, &run.stdout)
		}
		if product, _ := rejudged(t, dir); !bytes.Equal(product, readFile(t, dir, verdictFile)) {
			t.Errorf("judged again:\n%s", cmp.Diff(string(readFile(t, dir, verdictFile)), string(product)))
		}
	})
}

// A fleet that served everything, and whose workers nothing distinguishes, is neither called
// absent nor passed, unless it is one worker: that one served.
func TestWorkersThatNothingAttributesAreNotCalledAbsent(t *testing.T) {
	for name, c := range map[string]struct {
		flags   []string
		verdict spec.State
		reason  string
	}{
		"two":         {flags: []string{"--workers", "2"}, verdict: spec.Inconclusive, reason: "no source distinguishes the workers"},
		"how many":    {verdict: spec.Inconclusive, reason: "the number of workers is unknown: set it with --workers N"},
		"one of them": {flags: []string{"--workers", "1"}, verdict: spec.Pass},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, network Network) {
				url, _ := network.serveScript(t, truth.Script{TTFT: 50 * time.Millisecond, ITL: 5 * time.Millisecond})
				dir := filepath.Join(t.TempDir(), "run")
				run := startProgram(t, network, shortRun(url, dir, append(c.flags, "--recipe", floorRecipe(t))...)...)
				<-run.code
				var v spec.Verdict
				readJSON(t, filepath.Join(dir, verdictFile), &v)
				if v.Verdict != c.verdict || !strings.Contains(v.Reason, c.reason) {
					t.Errorf("%s: %s\n%s", v.Verdict, v.Reason, &run.stderr)
				}
			})
		})
	}
}
