//go:build linux

package e2e_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// How long a healthy validation may take until its verdict, and how much of that may be
// this program's own: neither load nor pods that start.
const (
	verdictWithin = 3 * time.Minute
	oursWithin    = verdictWithin / 12
)

// TestAHealthyFleetPasses goes the way of a user, by the commands that README.md has for a
// cluster without a GPU, as they stand there: a snapshot, the recipe that it leads to, a
// validation by both, of which nothing is left but the run and its report; and then a node
// that is broken.
func TestAHealthyFleetPasses(t *testing.T) {
	page := sectionOf(t, "../../README.md", "## Your own GPU cluster")
	if len(page) != 4 || !strings.Contains(page[0], "\nbin/aicr-sandbox up ") {
		t.Fatalf("the page is no longer one that brings a cluster up, validates it, breaks it, and shows the answer: %q", page)
	}
	c := startCluster(t, "aicr: PROGRAM\n") // what `up` brings up where nothing is said, but for the times of probes
	before := c.asItIs(t)
	dir := checkout(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	well := func(args ...string) *outcome {
		t.Helper()
		o := c.run(t, nil, args...)
		if o.code != 0 {
			t.Fatalf("%s: %s", args[0], o)
		}
		return o
	}

	way := linesOfScript(page[1])
	for i, line := range []string{"bin/aicr snapshot ", "bin/aicr recipe --snapshot ", "bin/aicr validate ", "bin/aicr validate "} {
		if len(way) != 4 || !strings.HasPrefix(way[i], line) {
			t.Fatalf("the page's way to a verdict is not snapshot, recipe, a dry run and a validation: %q", way)
		}
	}
	for _, line := range way[:3] {
		if o := c.typed(t, dir, line); o.code != 0 {
			t.Fatalf("%s: %s", line, o)
		}
	}
	// The sandbox is ready for the published recipe, and what it would do there is told. Its
	// floor cannot be reached: it is 6,250 tokens/s of each H100, and the simulated GPUs of
	// the sandbox, which share the cores of this machine, serve far less. So the page lays
	// the sandbox's own over it.
	well("recipe", "--snapshot", at("cluster.yaml"), "--write", at("published.yaml"))
	paper := well("validate", "--recipe", at("published.yaml"), "--snapshot", at("cluster.yaml"), "--dry-run").stdout
	for _, words := range []string{"PLAN", "h100-eks-ubuntu-inference-dynamo", "K8s.server.version  >= 1.34", "  met", "12,500 tokens/s"} {
		if !strings.Contains(paper, words) {
			t.Errorf("the plan by the published recipe does not say %q:\n%s", words, paper)
		}
	}
	c.settled(t, before)

	watched := c.watchPods(t)
	began := time.Now()
	o := c.typed(t, dir, way[3])
	podTimes := watched()
	o.runIn(t, dir)
	if o.code != 0 || o.verdict == nil || o.verdict.Verdict != spec.Pass || !strings.HasPrefix(o.stdout, "PASS") {
		t.Fatalf("not PASS: %s", o)
	}
	t.Logf("%s", o.stdout)
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
	t.Run("time", func(t *testing.T) { o.spent(t, began, podTimes) })
	t.Run("reports", func(t *testing.T) {
		well("report", o.dir, "--report", "html="+at("again.html"), "--report", "ctrf="+at("run.ctrf.json"), "--report", "junit="+at("run.xml"))
		for _, name := range []string{"report.html", "again.html"} {
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
	t.Run("a node that is broken", func(t *testing.T) { c.brokenAsShown(t, dir, page[2], page[3]) })
	c.settled(t, before)
}

// brokenAsShown wants the page's other answer.
func (c *cluster) brokenAsShown(t *testing.T, dir, script, answer string) {
	for _, line := range linesOfScript(script) {
		o := c.typed(t, dir, line)
		if !strings.HasPrefix(line, "bin/aicr validate ") {
			if o.code != 0 {
				t.Fatalf("%s: %s", line, o)
			}
			continue
		}
		if o.code != 1 || !strings.HasPrefix(words(o.stdout), words(answer)) {
			t.Errorf("%s does not come to what the page shows:\n%s\n%s", line, answer, o)
		}
		t.Logf("%s, after %.0f s", words(answer), o.took.Seconds())
	}
}

// words are those of a text, without its lines and how wide they are.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// The sandbox's own page says nothing else than the README, which is tried.
func TestTheSandboxsPageHasTheCommandsOfTheReadme(t *testing.T) {
	var tried []string
	for _, block := range sectionOf(t, "../../README.md", "## Your own GPU cluster") {
		tried = append(tried, linesOfScript(block)...)
	}
	found := 0
	for _, block := range sectionOf(t, "../../sandbox/README.md", "## Start") {
		for _, line := range linesOfScript(block) {
			if strings.HasPrefix(line, "bin/aicr ") {
				found++
				if !slices.Contains(tried, line) {
					t.Errorf("sandbox/README.md: README.md has no %q", line)
				}
			}
		}
	}
	if found == 0 {
		t.Error("it has no command at all")
	}
}

var anyFence = regexp.MustCompile("(?s)```[a-z]*\n(.*?)```")

// sectionOf are the blocks below a heading of a page.
func sectionOf(t *testing.T, page, heading string) (blocks []string) {
	t.Helper()
	_, section, ok := strings.Cut(string(readFile(t, page)), "\n"+heading)
	if !ok {
		t.Fatalf("%s has no %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range anyFence.FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// linesOfScript are the commands of a block, without what is said of them.
func linesOfScript(block string) (all []string) {
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, "  #")
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// checkout is a folder with what the commands of the pages find in one of this product that
// was built.
func checkout(t *testing.T) string {
	t.Helper()
	dir := shortFolder(t)
	folder, err := filepath.Abs("../../sandbox")
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "bin"), 0o700)
	}
	for name, to := range map[string]string{"bin/aicr": program, "bin/aicr-sandbox": sandbox, "sandbox": folder} {
		if err == nil {
			err = os.Symlink(to, filepath.Join(dir, name))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// typed runs a line of a page in a folder.
func (c *cluster) typed(t *testing.T, dir, line string) *outcome {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HOME="+c.dir, "AICR_COLOR=never")
	return finished(t, cmd)
}

// runIn is the run that a command has kept in the folder where it was typed.
func (o *outcome) runIn(t *testing.T, dir string) {
	t.Helper()
	kept, err := filepath.Glob(filepath.Join(dir, "aicr-run-*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("the runs kept are %q, %v: %s", kept, err, o)
	}
	o.dir, o.verdict = kept[0], verdictIn(t, kept[0])
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

// spent holds the time until the verdict against what it went into. Load is each episode
// until its last answer. Waiting for pods is while one of what serves was there and not
// ready, while the model was fetched, and until the load's pod was ready: by the cluster's
// own word. For the pod that tries the load's image nobody waits. What is left is this
// program's own, or that of the cluster's controllers.
func (o *outcome) spent(t *testing.T, began time.Time, pods []podTime) {
	run, err := spec.ReadRun(os.DirFS(o.dir))
	if err != nil {
		t.Fatal(err)
	}
	end, err := time.Parse(time.RFC3339Nano, run.Run.End)
	if err != nil {
		t.Fatal(err)
	}
	load := time.Duration(0)
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
	names := graph.NamesOf(run.Run.ID)
	waited, until, parts := time.Duration(0), began, map[string]int{}
	slices.SortFunc(pods, func(a, b podTime) int { return a.made.Compare(b.made) })
	for _, p := range pods {
		ready := p.ready
		switch {
		case p.job == names.Trial:
			continue
		case p.job == names.Populate:
			ready = p.over
			parts["populate"]++
		case p.job == names.Load:
			parts["load"]++
		case p.namespace == names.Namespace:
			parts["graph"]++
		}
		t.Logf("%5.1f to %5.1f s: %s", p.made.Sub(began).Seconds(), ready.Sub(began).Seconds(), p.name)
		if ready.IsZero() || ready.After(end) {
			t.Errorf("the verdict is there, and pod %s was never ready", p.name)
		}
		if from := latest(p.made, until); ready.After(from) { // what two of them wait for at once counts once
			waited += ready.Sub(from)
			until = ready
		}
	}
	if diff := cmp.Diff(map[string]int{"populate": 1, "graph": 3, "load": 1}, parts); diff != "" {
		t.Errorf("the pods are not those of a run with a frontend and two workers:\n%s", diff)
	}
	for _, e := range run.Events {
		if e.Kind == spec.EventStage {
			t.Logf("%5.1f s: %s %d", e.T+startOf(t, run).Sub(began).Seconds(), e.Stage, e.Episode)
		}
	}
	whole := end.Sub(began)
	ours := whole - load - waited
	t.Logf("command to verdict %.1f s: load %.1f s, pods %.1f s, ours %.1f s; with the removal %.1f s",
		whole.Seconds(), load.Seconds(), waited.Seconds(), ours.Seconds(), o.took.Seconds())
	if waited <= 0 || load <= 0 || ours <= 0 {
		t.Errorf("the record does not say what the time went into")
	}
	if whole > verdictWithin || ours > oursWithin {
		t.Errorf("%s until the verdict, of which %s are ours: %s and %s are allowed", whole, ours, verdictWithin, oursWithin)
	}
}

func startOf(t *testing.T, run *spec.RecordedRun) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, run.Run.Start)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// podTime is when a pod was made, when it was ready, and when its work was done.
type podTime struct {
	namespace, name, job string
	made, ready, over    time.Time
}

// watchPods notes when pods come about and get ready, as the cluster tells it: what pods say
// of themselves is in whole seconds. What it gives ends it.
func (c *cluster) watchPods(t *testing.T) (stop func() []podTime) {
	t.Helper()
	watch := exec.Command(sandbox, "kubectl", "--kubeconfig", c.kubeconfig, "get", "pods", "--all-namespaces", "--watch-only", "--output-watch-events", "-o", "json")
	from, err := watch.StdoutPipe()
	if err == nil {
		err = watch.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*podTime{}
	var reading sync.WaitGroup
	reading.Go(func() {
		for events := json.NewDecoder(from); ; {
			var e struct {
				Object kube.Object `json:"object"`
			}
			if events.Decode(&e) != nil {
				return // it was stopped
			}
			now, pod := time.Now(), e.Object
			p := all[pod.UID()]
			if p == nil {
				p = &podTime{namespace: pod.Namespace(), name: pod.Name(), job: pod.Labels()["batch.kubernetes.io/job-name"], made: now}
				all[pod.UID()] = p
			}
			for _, condition := range pod.List("status", "conditions") {
				if p.ready.IsZero() && condition.Text("type") == "Ready" && condition.Text("status") == "True" {
					p.ready = now
				}
			}
			if p.over.IsZero() && pod.Text("status", "phase") == "Succeeded" {
				p.over = now
			}
		}
	})
	end := sync.OnceFunc(func() {
		_ = watch.Process.Kill()
		reading.Wait()
		_ = watch.Wait()
	})
	t.Cleanup(end)
	return func() (sorted []podTime) {
		end()
		for _, p := range all {
			sorted = append(sorted, *p)
		}
		return sorted
	}
}

// TestNodeAfterNode validates several nodes of a cluster: all are well, one is slow, or
// somebody does not wait for the last of them.
func TestNodeAfterNode(t *testing.T) {
	t.Parallel()
	c := startCluster(t, many)
	before := c.asItIs(t)
	c.annotate(t, "gpu-3", map[string]string{scenarioAnnotation: strings.ReplaceAll(played("kind: worker-slow, workers: [0], factor: 6"), "workers: 2", "workers: 1")})
	var all sync.WaitGroup
	all.Go(func() {
		t.Run("all are well", c.allAreWell)
		t.Run("interrupted at the second", c.interruptedAtTheSecond)
	})
	all.Go(func() { t.Run("one is sick", c.oneIsSick) })
	all.Wait()
	c.settled(t, before)
}

// fleetOf are the flags of a fleet of these nodes alone.
func fleetOf(count string, nodes ...string) []string {
	args := []string{"--nodes", count, "--prompt-output-tokens-mean", "16"}
	for _, other := range lanes {
		if !slices.Contains(nodes, other) {
			args = append(args, "--node-selector", "kubernetes.io/hostname!="+other)
		}
	}
	return append(args, short...)
}

// allAreWell goes from a snapshot to the verdict on two nodes.
func (c *cluster) allAreWell(t *testing.T) {
	dir := t.TempDir()
	snapshot, made := filepath.Join(dir, "snapshot.yaml"), filepath.Join(dir, "recipe.yaml")
	for _, args := range [][]string{{"snapshot", "--write", snapshot}, {"recipe", "--snapshot", snapshot, "--data", filepath.Dir(recipe), "--write", made}} {
		if o := c.run(t, nil, args...); o.code != 0 {
			t.Fatalf("%s: %s", args[0], o)
		}
	}
	o := c.validate(t, withoutCache, append([]string{"--recipe", made, "--snapshot", snapshot}, fleetOf("2", "gpu-0", "gpu-1")...)...)
	if o.code != 0 || !strings.HasPrefix(o.stdout, "PASS  2 of 2 nodes PASS") {
		t.Fatalf("not PASS: %s", o)
	}
	o.fleet(t, spec.Pass, map[string]spec.State{"gpu-0": spec.Pass, "gpu-1": spec.Pass})
}

func (c *cluster) oneIsSick(t *testing.T) {
	o := c.validate(t, withoutCache, append([]string{"--recipe", recipe}, fleetOf("all", "gpu-2", "gpu-3")...)...)
	if o.code != 1 || !strings.HasPrefix(o.stdout, "FAIL  1 of 2 nodes FAIL: gpu-3") {
		t.Fatalf("the slow node is not the answer: %s", o)
	}
	o.fleet(t, spec.Fail, map[string]spec.State{"gpu-2": spec.Pass, "gpu-3": spec.Fail})
}

// interruptedAtTheSecond has the second node's load interrupted: what the first one gave is
// kept and told.
func (c *cluster) interruptedAtTheSecond(t *testing.T) {
	l := c.led(t, append([]string{"--recipe", recipe}, fleetOf("2", "gpu-4", "gpu-5")...)...)
	ofSecond := func() string {
		_, text, _ := strings.Cut(l.stderr.String(), "node 2 of 2: gpu-5")
		return text
	}
	awaited(t, l, "the second node", func() bool { return ofSecond() != "" })
	awaited(t, l, "its load", func() bool { return strings.Contains(ofSecond(), "half the load: ") })
	l.send(syscall.SIGINT)
	o := l.end(t)
	c.cameTo(t, o, "", spec.Inconclusive, 130, "gpu-4  PASS: ", "interrupted")
	o.fleet(t, spec.Inconclusive, map[string]spec.State{"gpu-4": spec.Pass, "gpu-5": spec.Inconclusive})
	if again := c.run(t, nil, "judge", filepath.Join(o.dir, "gpu-4")); again.code != 0 || !strings.HasPrefix(again.stdout, "PASS") {
		t.Errorf("what the first node gave is not whole: %s", again)
	}
	for _, node := range []string{"gpu-4", "gpu-5"} {
		c.leavesNothing(t, (&outcome{dir: filepath.Join(o.dir, node)}).id(t), o.String())
	}
}

// fleet wants nodes to have come to this, in fleet.json, in the folder of each, and in the
// table.
func (o *outcome) fleet(t *testing.T, whole spec.State, want map[string]spec.State) {
	t.Helper()
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
		if whole != spec.Inconclusive && // or there is none to hold it against
			(len(n.Figures) == 0 || n.Figures[0].Ratio == nil) {
			t.Errorf("%s is not held against its peers: %+v", n.Node, n.Figures)
		}
		if !strings.Contains(o.stdout, "\n  "+n.Node) {
			t.Errorf("%s is not in the table:\n%s", n.Node, o.stdout)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || f.Verdict != whole {
		t.Errorf("%s: %s\n%s", f.Verdict, f.Reason, diff)
	}
}
