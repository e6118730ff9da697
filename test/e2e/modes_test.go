//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// modesCluster has a gateway and KAI, GPUs that are claimed on one node, and GPUs that a
// device plugin gives on the other.
const modesCluster = `
nodes:
  - {name: gpu-0, gpus: 2}
  - {name: gpu-1, gpus: 2, dra: false, devicePlugin: true}
  - {name: cpu-0, gpus: 0, cpu: "16"}
kai: true
gateway: true
aicr: PROGRAM
venv: "VENV"
`

// TestOtherWaysToDeployAndToLoad deploys behind a gateway with claims, and at the same time
// on the node with a device plugin, where AIPerf itself loads.
func TestOtherWaysToDeployAndToLoad(t *testing.T) {
	t.Parallel()
	c := startCluster(t, modesCluster)
	before := c.asItIs(t)
	watched := c.watchMade(t)
	var both sync.WaitGroup
	var gateway, aiperf *outcome
	gatewayAt, aiperfAt := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "run")
	both.Go(func() {
		gateway = c.validateIn(t, gatewayAt, append([]string{"--recipe", routedRecipe, "--node", "gpu-0", "--prompt-output-tokens-mean", "32"}, short...)...)
	})
	both.Go(func() {
		args := []string{"--recipe", "testdata/unhurried-recipe.yaml", "--check", "inference-perf", "--node", "gpu-1", "--prompt-output-tokens-mean", "16"} // it sends 1,000 requests
		if venv == "" {
			notRun(t, "AIPerf loads instead of this program")
			aiperf = c.validateIn(t, aiperfAt, append(args, "--profile", "smoke", "--episode-duration", "10s")...)
			return
		}
		aiperf = c.validateIn(t, aiperfAt, append(args, "--engine", "aiperf", "--profile", "classic")...)
	})
	both.Wait()
	made := watched()
	c.settled(t, before)

	t.Run("gateway", func(t *testing.T) {
		gateway.passed(t)
		if first := gateway.firstAnswer(t); !strings.Contains(first.Source, "gateway") {
			t.Errorf("the first answer came from %s, which is no gateway", first.Source)
		}
		made.has(t, "httproutes", 1)
	})
	t.Run("queue", func(t *testing.T) { made.has(t, "queues", 2) })
	t.Run("claims", func(t *testing.T) { made.has(t, "resourceclaims", 2) })
	t.Run("device plugin", func(t *testing.T) {
		aiperf.passed(t)
		if !strings.Contains(aiperf.stderr, "on node gpu-1: 2 GPUs, asked for by device-plugin") {
			t.Errorf("it is not said that a device plugin gives the GPUs: %s", aiperf)
		}
	})
	if venv == "" {
		return
	}
	t.Run("aiperf", func(t *testing.T) {
		run, err := spec.ReadRun(os.DirFS(aiperf.dir))
		if err != nil {
			t.Fatal(err)
		}
		if got := run.Numbers(); !slices.Equal(got, []int{1}) || run.Plan.Profile != spec.ProfileClassic {
			t.Fatalf("profile %s, episodes %v: one run of AIPerf is wanted", run.Plan.Profile, got)
		}
		e, err := run.Summary(1)
		if err != nil {
			t.Fatal(err)
		}
		if e.Requests.Served != run.Plan.Point.Requests || e.Requests.Failed > 0 {
			t.Errorf("AIPerf's episode: %+v, of %d requests", e.Requests, run.Plan.Point.Requests)
		}
		again := c.run(t, nil, "judge", aiperf.dir, "-o", "json")
		if kept := readFile(t, filepath.Join(aiperf.dir, "verdict.json")); again.stdout != string(kept) {
			t.Errorf("judged again, it is another verdict: %s\n%s", again, kept)
		}
	})
}

// TestAIPerfWaitsForAFirstAnswer has AIPerf load what is cold, what never answers, and what
// dies before it has answered: it is not begun before there is an answer, and what is wrong
// by then is found as where this program loads itself.
func TestAIPerfWaitsForAFirstAnswer(t *testing.T) {
	t.Parallel()
	if venv == "" {
		notRun(t, "AIPerf waits for a first answer")
		t.Skip("there is no AIPerf")
	}
	c := startCluster(t, `
nodes:
  - {name: gpu-0, gpus: 2}
  - {name: gpu-1, gpus: 2}
  - {name: gpu-2, gpus: 2}
  - {name: cpu-0, gpus: 0, cpu: "16"}
aicr: PROGRAM
venv: "VENV"
`)
	before := c.asItIs(t)
	byAIPerf := []string{"--check", "inference-perf", "--engine", "aiperf", "--profile", "classic"}
	var all sync.WaitGroup
	all.Go(func() {
		t.Run("that is cold", func(t *testing.T) {
			c.annotate(t, "gpu-0", map[string]string{scenarioAnnotation: played("kind: cold-start, takes: 42s")})
			env := append([]string{spec.KnobMinRequests + "=48", spec.KnobRequests + "=1"}, withoutCache...)
			o := c.validate(t, env, append([]string{"--recipe", "testdata/unhurried-recipe.yaml", "--node", "gpu-0", "--prompt-output-tokens-mean", "16"}, byAIPerf...)...)
			o.passed(t)
			if first := o.firstAnswer(t); first.Seconds == nil || *first.Seconds < 42 || *first.Tokens < 1 {
				t.Errorf("the first answer is told as %+v\n%s", first, o)
			}
			if !strings.Contains(o.stderr, "load: waiting for the first answer") || !strings.Contains(o.stderr, "load: the first answer took ") {
				t.Errorf("it is not told what is waited for\n%s", o)
			}
		})
	})
	all.Go(func() {
		t.Run("that never answers", func(t *testing.T) {
			c.fails(t, "gpu-1", &failure{faults: "no-answer", env: append([]string{spec.KnobHealthTimeout + "=15s"}, withoutCache...), args: byAIPerf,
				verdict: spec.Fail, code: 1, finding: "start/timeout", says: []string{"never served", "not ready to serve"},
				index: "never served", kept: []string{"pod-*frontend*.yaml", "job-load.yaml", "pod-aicr-load-*.yaml", "log-aicr-load-*-aiperf.txt"}})
		})
	})
	all.Go(func() {
		t.Run("that is killed before it has answered", func(t *testing.T) {
			c.fails(t, "gpu-2", &failure{faults: "no-answer,oom=7s", env: withoutCache, args: byAIPerf,
				verdict: spec.Fail, code: 1, finding: "cluster/pods-failed", worker: true, says: []string{"killed for its memory", "OOMKilled"},
				index: "OOMKilled", kept: []string{"job-load.yaml", "pod-aicr-load-*.yaml"}})
		})
	})
	all.Wait()
	c.settled(t, before)
}

// TestAnOlderAPIAndTheRealDynamo deploys in the older version of the graph's API, as that
// is all there is; and what serves is Dynamo itself with its mocker, where there is a
// Python for it. Its pods are probed at the times of Dynamo, as those of no other test.
func TestAnOlderAPIAndTheRealDynamo(t *testing.T) {
	t.Parallel()
	config := `
nodes:
  - {name: gpu-0, gpus: 2}
  - {name: cpu-0, gpus: 0, cpu: "16"}
dynamo: {api: [v1alpha1], runtime: real}
probes: real
aicr: PROGRAM
venv: "VENV"
`
	if venv == "" {
		notRun(t, "Dynamo itself serves")
		config = strings.ReplaceAll(config, "runtime: real", "runtime: sim")
	}
	c := startCluster(t, config)
	before := c.asItIs(t)
	watched, pods := c.watchMade(t), c.watchPods(t)
	o := c.validateIn(t, filepath.Join(t.TempDir(), "run"), append([]string{"--recipe", recipe, "--prompt-output-tokens-mean", "32"}, short...)...)
	made := watched()
	c.settled(t, before)
	o.passed(t)
	probedInTime(t, pods())
	made.has(t, "dynamographdeployments", 1)
	for _, e := range o.events(t) {
		if e.Kind == spec.EventAnswer && e.Worker != "" && !strings.HasPrefix(e.Worker, "aicr-inference-perf-") {
			t.Errorf("worker %q goes by no pod's name", e.Worker)
		}
	}
}

// probedInTime wants the pods of a graph to have got ready no sooner than the probes of Dynamo
// tell: a frontend is first asked after 10 s, and a worker, which is not up when it is first
// asked, 10 s later. Where probes are quick both are ready as soon as they serve.
func probedInTime(t *testing.T, pods []podTime) {
	found := 0
	for _, p := range pods {
		if !strings.HasPrefix(p.namespace, "aicr-inference-perf-") || p.job != "" || p.ready.IsZero() {
			continue
		}
		found++
		took := p.ready.Sub(p.made)
		t.Logf("%s was ready after %.1f s", p.name, took.Seconds())
		if took < 10*time.Second {
			t.Errorf("%s was ready after %s, before it was to be asked", p.name, took)
		}
	}
	if found != 3 {
		t.Errorf("%d pods of the graph got ready, want a frontend and two workers", found)
	}
}

// notRun says loudly that something was left out, since there is no Python for it.
func notRun(t *testing.T, what string) {
	t.Logf("*** NOT RUN: that %s; there is no environment with the real Dynamo and AIPerf ***", what)
	os.Stderr.WriteString("*** E2E: NOT RUN: that " + what + "; there is no environment with the real Dynamo and AIPerf ***\n")
}

// validateIn validates from several goroutines at once, which t.TempDir and t.Fatal are
// not for.
func (c *cluster) validateIn(t *testing.T, dir string, args ...string) *outcome {
	o := &outcome{dir: dir}
	var stdout, stderr lockedText
	cmd := c.command(c.kubeconfig, withoutCache, append([]string{"validate", "--run", dir}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	o.stdout, o.stderr, o.took, o.code = stdout.String(), stderr.String(), time.Since(began), cmd.ProcessState.ExitCode()
	if data, lost := os.ReadFile(filepath.Join(dir, "verdict.json")); lost == nil {
		o.verdict = &spec.Verdict{}
		if err := json.Unmarshal(data, o.verdict); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err != nil && o.code < 0 {
		t.Errorf("%v: %v", args, err)
	}
	return o
}

// passed wants a PASS.
func (o *outcome) passed(t *testing.T) {
	t.Helper()
	if o.code != 0 || o.verdict == nil || o.verdict.Verdict != spec.Pass {
		t.Fatalf("not PASS: %s", o)
	}
	t.Logf("%s: %s, after %.0f s", o.verdict.Verdict, o.verdict.Reason, o.took.Seconds())
}

// firstAnswer is what was answered first.
func (o *outcome) firstAnswer(t *testing.T) (none spec.Event) {
	t.Helper()
	for _, e := range o.events(t) {
		if e.Kind == spec.EventAnswer {
			return e
		}
	}
	t.Error("nobody answered")
	return none
}

// made are objects that were there for a while, by their kind.
type made map[string]map[string]bool

func (m made) has(t *testing.T, kind string, n int) {
	t.Helper()
	if len(m[kind]) != n {
		t.Errorf("%d %s were made, want %d: %v", len(m[kind]), kind, n, m[kind])
	}
}

// watchMade looks, some times a second, for what a run makes and takes away again.
func (c *cluster) watchMade(t *testing.T) (stop func() made) {
	t.Helper()
	kinds := slices.DeleteFunc(slices.Clone(c.listable), func(r kube.Resource) bool {
		return !slices.Contains([]string{"queues", "httproutes", "resourceclaims", "dynamographdeployments"}, r.Name)
	})
	look := func(ctx context.Context, into made) {
		for _, r := range kinds {
			all, err := c.api.List(ctx, r, "", "")
			if err != nil {
				continue // it is looked again
			}
			for _, o := range all {
				if into[r.Name] == nil {
					into[r.Name] = map[string]bool{}
				}
				into[r.Name][o.Namespace()+"/"+o.Name()] = true
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	before, seen := made{}, made{}
	look(ctx, before)
	var looking sync.WaitGroup
	looking.Go(func() {
		for tick := time.NewTicker(500 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				look(ctx, seen)
			}
		}
	})
	t.Cleanup(cancel)
	return func() made {
		cancel()
		looking.Wait()
		for kind, all := range before {
			for name := range all {
				delete(seen[kind], name)
			}
		}
		return seen
	}
}
