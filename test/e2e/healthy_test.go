//go:build linux

package e2e_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// How long a healthy validation may take until its verdict, and how much of that may be
// this program's own: neither load nor pods that start.
const (
	verdictWithin = 3 * time.Minute
	oursWithin    = verdictWithin / 12
)

// TestAHealthyFleetPasses goes the way of a user: a snapshot of the cluster, the recipe
// that is published for it, and a validation, of which nothing is left but the run.
func TestAHealthyFleetPasses(t *testing.T) {
	c := startCluster(t, fleet)
	before := c.asItIs(t)
	at := func(name string) string { return filepath.Join(c.dir, name) }
	well := func(args ...string) *outcome {
		t.Helper()
		o := c.run(t, nil, args...)
		if o.code != 0 {
			t.Fatalf("%s: %s", args[0], o)
		}
		return o
	}

	well("snapshot", "--write", at("snapshot.yaml"))
	well("recipe", "--snapshot", at("snapshot.yaml"), "--intent", "inference", "--platform", "dynamo", "--write", at("recipe.yaml"))
	// The sandbox is ready for the published recipe, and what it would do there is told. Its
	// floor cannot be reached: it is 6,250 tokens/s of each H100, and the simulated GPUs of
	// the sandbox, which share the cores of this machine, serve some 300. So what is
	// validated below is the same recipe with another floor.
	paper := well("validate", "--recipe", at("recipe.yaml"), "--snapshot", at("snapshot.yaml"), "--dry-run").stdout
	for _, words := range []string{"PLAN", "h100-eks-ubuntu-inference-dynamo", "K8s.server.version  >= 1.34", "  met", "12,500 tokens/s"} {
		if !strings.Contains(paper, words) {
			t.Errorf("the plan by the published recipe does not say %q:\n%s", words, paper)
		}
	}
	c.settled(t, before)

	began := time.Now()
	o := c.validate(t, nil, "--recipe", recipe, "--profile", "smoke",
		"--report", "html="+at("run.html"), "--report", "ctrf="+at("run.ctrf.json"), "--report", "junit="+at("run.xml"))
	if o.code != 0 || o.verdict == nil || o.verdict.Verdict != spec.Pass || !strings.HasPrefix(o.stdout, "PASS") {
		t.Fatalf("not PASS: %s", o)
	}
	c.settled(t, before)
	t.Run("ledgers", func(t *testing.T) {
		got := map[string]spec.State{}
		for _, l := range o.verdict.Ledgers {
			got[l.Name] = l.State
		}
		// Two episodes are too few to judge stalls by, and smoke says so.
		if diff := cmp.Diff(map[string]spec.State{spec.Integrity: spec.Pass, spec.Capability: spec.Pass, spec.Stability: spec.NotJudged}, got); diff != "" {
			t.Error(diff)
		}
		if len(o.verdict.Findings) > 0 {
			t.Errorf("found %v", ids(o.verdict))
		}
	})
	t.Run("record", o.recorded)
	t.Run("time", func(t *testing.T) { o.spent(t, began) })
	t.Run("reports", func(t *testing.T) {
		well("report", o.dir, "--report", "html="+at("again.html"))
		for _, name := range []string{"run.html", "again.html"} {
			if page := readFile(t, at(name)); !bytes.Contains(page, []byte("PASS")) || !bytes.Contains(page, []byte("</html>")) {
				t.Errorf("%s: %d bytes, and no page of a PASS", name, len(page))
			}
		}
		var ctrf struct {
			Results struct {
				Summary struct{ Tests, Passed, Failed int } `json:"summary"`
			} `json:"results"`
		}
		if err := json.Unmarshal(readFile(t, at("run.ctrf.json")), &ctrf); err != nil || ctrf.Results.Summary.Passed == 0 || ctrf.Results.Summary.Failed > 0 {
			t.Errorf("CTRF: %+v, %v", ctrf, err)
		}
		var junit struct {
			Suites []struct {
				Tests    int `xml:"tests,attr"`
				Failures int `xml:"failures,attr"`
			} `xml:"testsuite"`
		}
		if err := xml.Unmarshal(readFile(t, at("run.xml")), &junit); err != nil || len(junit.Suites) != 1 || junit.Suites[0].Tests == 0 || junit.Suites[0].Failures > 0 {
			t.Errorf("JUnit: %+v, %v", junit, err)
		}
	})
	t.Run("judge", func(t *testing.T) {
		file := filepath.Join(o.dir, "verdict.json")
		first := readFile(t, file)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		said := well("judge", o.dir, "-o", "json").stdout
		if diff := cmp.Diff(string(first), string(readFile(t, file))); diff != "" {
			t.Errorf("judged again, it is another verdict:\n%s", diff)
		}
		if diff := cmp.Diff(string(first), said); diff != "" {
			t.Errorf("what is printed is not what is kept:\n%s", diff)
		}
	})
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// recorded wants the run's folder to be whole.
func (o *outcome) recorded(t *testing.T) {
	run, err := spec.ReadRun(os.DirFS(o.dir))
	if err != nil {
		t.Fatal(err)
	}
	r := run.Run
	if r.Schema != spec.RunSchema || r.Version == "" || !strings.HasPrefix(r.Command, "aicr validate ") || r.Target.Node == "" || r.Target.Model == "" || r.End <= r.Start {
		t.Errorf("run.json: %+v", r)
	}
	if run.Plan.Profile != spec.ProfileSmoke || len(run.Plan.Inputs) == 0 || len(run.Plan.Creates) == 0 {
		t.Errorf("plan.yaml: %+v", run.Plan)
	}
	for name, input := range run.Plan.Inputs {
		if input.From == "" {
			t.Errorf("plan.yaml does not say where %s is from", name)
		}
	}
	if got := run.Numbers(); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("episodes %v: half the load and two at it are wanted", got)
	}
	last, stages, answered := 0.0, []string{}, map[string]bool{}
	for _, e := range run.Events {
		if e.T < last {
			t.Errorf("%s at %.3f s comes after %.3f s", e.Kind, e.T, last)
		}
		last = e.T
		switch e.Kind {
		case spec.EventStage:
			stages = append(stages, e.Stage)
		case spec.EventWorkers:
			if *e.Have != 2 || *e.Want != 2 {
				t.Errorf("%d of %d workers", *e.Have, *e.Want)
			}
		case spec.EventAnswer:
			answered[e.Worker] = true
		}
	}
	if got := strings.Join(stages, " "); got != "start warm episode episode episode end" {
		t.Errorf("stages %s", got)
	}
	delete(answered, "") // who answered first, whoever that was
	for worker := range answered {
		if !strings.HasPrefix(worker, "aicr-inference-perf-") {
			t.Errorf("worker %q goes by no pod's name", worker)
		}
	}
	if len(answered) != 2 {
		t.Errorf("answers came from %v", answered)
	}
}

// spent holds the time until the verdict against what the record says that it went into.
// Load is each episode until its last answer. Waiting for pods is until all workers were
// ready, and then until the load's pod began. What is left is this program's own, or the
// API server's.
func (o *outcome) spent(t *testing.T, began time.Time) {
	run, err := spec.ReadRun(os.DirFS(o.dir))
	if err != nil {
		t.Fatal(err)
	}
	end, err := time.Parse(time.RFC3339Nano, run.Run.End)
	if err != nil {
		t.Fatal(err)
	}
	load, pods := time.Duration(0), time.Duration(0)
	for _, number := range run.Numbers() {
		last := int64(0)
		for r, err := range run.Requests(number) {
			if err != nil {
				t.Fatal(err)
			}
			last = max(last, r.End)
		}
		load += time.Duration(last)
	}
	for _, e := range run.Events {
		if e.Kind == spec.EventStage && e.Stage == "start" {
			pods = time.Duration(e.T * float64(time.Second))
		}
	}
	whole := end.Sub(began)
	ours := whole - load - pods
	t.Logf("command to verdict %.1f s: load %.1f s, pods %.1f s, ours %.1f s; with the removal %.1f s",
		whole.Seconds(), load.Seconds(), pods.Seconds(), ours.Seconds(), o.took.Seconds())
	if pods <= 0 || load <= 0 || ours <= 0 {
		t.Errorf("the record does not say what the time went into")
	}
	if whole > verdictWithin || ours > oursWithin {
		t.Errorf("%s until the verdict, of which %s are ours: %s and %s are allowed", whole, ours, verdictWithin, oursWithin)
	}
}

// TestOneSickNodeIsFound validates every node of a cluster, one of which is slow.
func TestOneSickNodeIsFound(t *testing.T) {
	t.Parallel()
	c := startCluster(t, strings.ReplaceAll(fleet, "gpus: 2", "gpus: 1"))
	c.annotate(t, "gpu-1", map[string]string{scenarioAnnotation: strings.ReplaceAll(played("kind: worker-slow, workers: [0], factor: 6"), "workers: 2", "workers: 1")})
	before := c.asItIs(t)
	o := c.validate(t, withoutCache, append([]string{"--recipe", recipe, "--nodes", "all", "--prompt-output-tokens-mean", "16"}, short...)...)
	if o.code != 1 || !strings.HasPrefix(o.stdout, "FAIL  1 of 2 nodes FAIL: gpu-1") {
		t.Fatalf("the slow node is not the answer: %s", o)
	}
	var f spec.FleetVerdict
	if err := json.Unmarshal(readFile(t, filepath.Join(o.dir, "fleet.json")), &f); err != nil {
		t.Fatal(err)
	}
	got := map[string]spec.State{}
	for _, n := range f.Nodes {
		got[n.Node] = n.Verdict
		if v := verdictIn(t, filepath.Join(o.dir, n.Node)); v == nil || v.Verdict != n.Verdict {
			t.Errorf("%s: its own folder says %+v, fleet.json %s", n.Node, v, n.Verdict)
		}
		if len(n.Figures) == 0 || n.Figures[0].Ratio == nil {
			t.Errorf("%s is not held against its peers: %+v", n.Node, n.Figures)
		}
		if !strings.Contains(o.stdout, "\n  "+n.Node) {
			t.Errorf("%s is not in the table:\n%s", n.Node, o.stdout)
		}
	}
	if diff := cmp.Diff(map[string]spec.State{"gpu-0": spec.Pass, "gpu-1": spec.Fail}, got); diff != "" || f.Verdict != spec.Fail {
		t.Errorf("%s: %s\n%s", f.Verdict, f.Reason, diff)
	}
	c.settled(t, before)
}
