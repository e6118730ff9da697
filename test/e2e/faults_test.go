//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// fleet is a cluster with two nodes to measure on.
const fleet = `
nodes:
  - {name: gpu-0, gpus: 2}
  - {name: gpu-1, gpus: 2}
  - {name: cpu-0, gpus: 0, cpu: "16"}
aicr: PROGRAM
`

// played is the scenario of a small fleet with a fault.
func played(fault string) string {
	return "apiVersion: aicr.run/v1alpha1\nkind: Scenario\nmetadata: {name: small}\n" +
		"fleet: {workers: 2, profile: small}\nload: {concurrencyPerGPU: 4, ramp: 1s, episode: 20s, inputTokens: 64, outputTokens: 64}\n" +
		"faults:\n  - {" + fault + "}\n"
}

// TestAFleetThatIsNotWell holds verdicts against faults of the fleet that was deployed,
// and of the cluster that it was deployed on.
func TestAFleetThatIsNotWell(t *testing.T) {
	t.Parallel()
	c := startCluster(t, fleet)
	c.make(t, namespaces, kube.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": others}})
	c.deny(t, "deployments", "apps", "object.spec.template.spec", "nobody deploys on a Friday")
	before := c.asItIs(t)
	t.Run("children of a graph that are refused", func(t *testing.T) {
		c.fails(t, "gpu-0", &failure{
			env: []string{spec.KnobCacheSize + "=off"}, args: []string{"--toleration", denied + "=deployments"},
			verdict: spec.Fail, code: 1, finding: "cluster/pods-failed",
			says:  []string{"operator cannot make the graph", "DynamoComponentDeployment aicr-inference-perf-", "nobody deploys on a Friday"},
			index: "GraphFailed", kept: []string{"graph.yaml", "component-*.yaml", "events.txt"},
		})
	})
	t.Run("GPUs that are all claimed", c.allClaimed)
	t.Run("a claim on one node", c.oneClaimed)
	t.Run("workers", c.sickWorkers)
	c.settled(t, before)
}

// holds has somebody else hold GPUs until the test is over.
func (c *cluster) holds(t *testing.T, node string, gpus int) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.letGo(context.WithoutCancel(t.Context()), node); err != nil {
			t.Error(err)
		}
	})
	if err := c.hold(t.Context(), node, gpus); err != nil {
		t.Fatal(err)
	}
}

// allClaimed has no free GPU: the run fails at once and names who holds them, unless the
// recipe says that there is nothing to do then.
func (c *cluster) allClaimed(t *testing.T) {
	for i := range 2 {
		c.holds(t, fmt.Sprintf("gpu-%d", i), 2)
	}
	before := c.asItIs(t)
	past := filepath.Join(t.TempDir(), "history.jsonl")
	for file, want := range map[string]struct {
		verdict  spec.State
		code     int
		severity string
	}{
		recipe:                        {spec.Fail, 1, spec.SeverityFail},
		"testdata/shared-recipe.yaml": {spec.Skip, 0, spec.SeverityNote},
	} {
		o := c.validate(t, nil, append([]string{"--recipe", file, "--history", past}, short...)...)
		if o.verdict == nil || o.verdict.Verdict != want.verdict || o.code != want.code {
			t.Fatalf("%s: want %s and exit %d\n%s", file, want.verdict, want.code, o)
		}
		if all := linesOf(t, past); all[len(all)-1].Verdict != want.verdict {
			t.Errorf("%s: the history ends with %+v", file, all[len(all)-1])
		}
		if got := ids(o.verdict); !slices.Equal(got, []string{"cluster/no-free-gpus"}) || o.verdict.Findings[0].Severity != want.severity {
			t.Fatalf("%s: found %q, want it as %s\n%s", file, got, want.severity, o)
		}
		told := strings.Join(o.verdict.Findings[0].Evidence, "\n")
		for _, word := range []string{"0 of 4 GPUs were free", "gpu-0: ", "gpu-1: ", others + "/training-gpu-0", others + "/training-gpu-1", "(2)"} {
			if !strings.Contains(told, word) {
				t.Errorf("%s: %q is not said:\n%s", file, word, told)
			}
		}
		c.settled(t, before)
	}
}

// oneClaimed has one GPU of one node taken: another node is chosen for it, and who wants
// that node all the same has fewer workers there, and a floor for so many.
func (c *cluster) oneClaimed(t *testing.T) {
	c.holds(t, "gpu-0", 1)
	c.annotate(t, "gpu-0", map[string]string{scenarioAnnotation: played("kind: cold-start, takes: 42s")})
	c.annotate(t, "gpu-1", map[string]string{scenarioAnnotation: played("kind: worker-slow, workers: [1], factor: 3")})
	var all sync.WaitGroup
	all.Go(func() {
		t.Run("on that node, and cold", func(t *testing.T) {
			o := c.validate(t, nil, slices.Concat([]string{"--recipe", recipe, "--node", "gpu-0"}, short)...)
			if o.verdict == nil || o.verdict.Verdict != spec.Pass || o.code != 0 {
				t.Fatalf("want PASS\n%s", o)
			}
			if !strings.Contains(o.stderr, "on node gpu-0: 1 GPU, ") {
				t.Errorf("the number of workers is not told\n%s", o)
			}
			o.floor(t, 1)
			if reason := o.verdict.Ledgers[0].Reason; !strings.Contains(reason, "1 of 1 workers served, 1 GPU ") {
				t.Errorf("the GPU that somebody else has is judged as well: %s\n%s", reason, o)
			}
			cold := found(o.verdict, "start/cold")
			if cold == nil || cold.Severity != spec.SeverityNote || tookOf(cold) < 42 || !strings.Contains(cold.Summary, "warm") {
				t.Errorf("a first answer after 42 s is not told\n%s", o)
			} else {
				o.podsOf(t, cold, 1)
			}
		})
	})
	all.Go(func() {
		t.Run("on the other, with a slow GPU", func(t *testing.T) {
			o := c.validate(t, nil, slices.Concat([]string{"--recipe", recipe}, short)...)
			if !strings.Contains(o.stderr, "on node gpu-1: 2 GPUs, ") {
				t.Errorf("the node with the most free GPUs is not chosen\n%s", o)
			}
			o.sick(t, "worker/slow", "")
			o.floor(t, 2)
		})
	})
	all.Wait()
}

var took = regexp.MustCompile(`first answer took ([0-9]+) s`)

// tookOf is how many seconds a finding says that the first answer took.
func tookOf(f *spec.Finding) (seconds int) {
	if m := took.FindStringSubmatch(f.Summary); m != nil {
		seconds, _ = strconv.Atoi(m[1]) // they are digits
	}
	return seconds
}

// sickWorkers has one of two workers stall, or be away.
func (c *cluster) sickWorkers(t *testing.T) {
	c.annotate(t, "gpu-0", map[string]string{scenarioAnnotation: played("kind: worker-stall, workers: [1], perMinute: 6, lasts: 4s")})
	c.annotate(t, "gpu-1", map[string]string{scenarioAnnotation: played("kind: worker-missing, workers: [1]")})
	var all sync.WaitGroup
	all.Go(func() {
		t.Run("that stalls", func(t *testing.T) {
			// A smoke test reports stalls and does not judge them.
			past := c.pastStalls(t, "gpu-0")
			o := c.validate(t, nil, "--recipe", recipe, "--check", "inference-perf", "--node", "gpu-0", "--profile", "quick", "--episode-duration", "20s", "--concurrency-per-gpu", "8", "--history", past)
			o.sick(t, "worker/stall", "with those of earlier runs it is ")
			o.counted(t, past, "gpu-0", c.gpusOf(t, "gpu-0"))
		})
	})
	all.Go(func() {
		t.Run("that is not there", func(t *testing.T) {
			// It is waited for so long. The other has to be ready by then, and the one that
			// stalls takes longer.
			env := []string{spec.KnobReadyTimeout + "=1m"}
			o := c.validate(t, env, slices.Concat([]string{"--recipe", recipe, "--node", "gpu-1"}, short)...)
			// A worker is well as long as its fleet has not begun or has no time to say that it
			// is missed, which may be long enough for the load to begin.
			o.sick(t, "worker/absent", "never ") // became ready, or answered
		})
	})
	all.Wait()
}

// sick wants one worker to be found to be at fault, and called by its pod.
func (o *outcome) sick(t *testing.T, finding, word string) {
	t.Helper()
	if o.verdict == nil || o.verdict.Verdict != spec.Fail || o.code != 1 {
		t.Fatalf("want FAIL and exit 1\n%s", o)
	}
	f := found(o.verdict, finding)
	if f == nil || f.Severity != spec.SeverityFail {
		t.Fatalf("found %q, want %s\n%s", ids(o.verdict), finding, o)
	}
	for _, other := range o.verdict.Findings {
		if other.ID != finding && other.Severity == spec.SeverityFail {
			t.Errorf("%s is found as well\n%s", other.ID, o)
		}
	}
	o.podsOf(t, f, 1)
	if !strings.Contains(f.Summary+strings.Join(f.Evidence, "\n"), word) {
		t.Errorf("%q is not said\n%s", word, o)
	}
}

// podsOf wants a finding to name so many workers, each by its pod.
func (o *outcome) podsOf(t *testing.T, f *spec.Finding, n int) {
	t.Helper()
	if len(f.Workers) != n {
		t.Errorf("%s names workers %q, want %d\n%s", f.ID, f.Workers, n, o)
	}
	for _, worker := range f.Workers {
		if !strings.HasPrefix(worker, "aicr-inference-perf-vllmdecodeworker-") {
			t.Errorf("%s calls a worker %q, which is no pod's name", f.ID, worker)
		}
		_, err := os.Stat(filepath.Join(o.dir, "diagnostics", "pod-"+worker+".yaml"))
		if o.verdict.Verdict != spec.Pass && err != nil {
			t.Errorf("%s calls a worker %q, which is no pod of the graph: %v", f.ID, worker, err)
		}
	}
}

// floor wants the throughput that was wanted to be that of so many GPUs.
func (o *outcome) floor(t *testing.T, gpus int) {
	t.Helper()
	if o.verdict == nil {
		return
	}
	want := fmt.Sprintf(">= %d", 100*gpus)
	for _, e := range o.verdict.Expectations {
		if e.Name == spec.ConstraintThroughput && e.Want == want && e.Unit == "tokens/s" && e.State == spec.Pass {
			return
		}
	}
	t.Errorf("throughput is not held to be %s tokens/s\n%s", want, o)
}

// found is a finding of a verdict; nil: it is not in it.
func found(v *spec.Verdict, id string) *spec.Finding {
	for i := range v.Findings {
		if v.Findings[i].ID == id {
			return &v.Findings[i]
		}
	}
	return nil
}
