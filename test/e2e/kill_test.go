//go:build linux

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// many is a cluster with a node for each of the runs that are led at a time. What they
// measure is not the point, so that they load next to nothing.
const many = `
nodes:
  - {name: gpu-0, gpus: 1}
  - {name: gpu-1, gpus: 1}
  - {name: gpu-2, gpus: 1}
  - {name: gpu-3, gpus: 1}
  - {name: gpu-4, gpus: 1}
  - {name: gpu-5, gpus: 1}
  - {name: cpu-0, gpus: 0, cpu: "64"}
aicr: PROGRAM
`

// lanes are the nodes of that cluster.
var lanes = []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5"}

// story is something that happens to a run on a node.
type story struct {
	name string
	tell func(t *testing.T, c *cluster, node string)
}

// tellAll tells stories, one a node at a time, the long ones first.
func tellAll(t *testing.T, c *cluster, all []story) {
	free := make(chan string, len(lanes))
	for _, node := range lanes {
		free <- node
	}
	var over sync.WaitGroup
	for _, s := range all {
		node := <-free
		over.Go(func() {
			defer func() { free <- node }()
			t.Run(s.name, func(t *testing.T) { s.tell(t, c, node) })
		})
	}
	over.Wait()
}

// A command can be killed, stopped, interrupted and attached to at any moment of its
// life: there is never a wrong verdict, what is left can be gone on with or removed, and
// nothing of anybody else is touched.
func TestTheCommandsLife(t *testing.T) {
	t.Parallel()
	c := startCluster(t, many)
	before := c.asItIs(t)
	for kind, o := range lookAlikes() {
		c.place(t, kind, o)
	}
	withOthers := c.asItIs(t)
	stories := append(lives, killed(t)...)
	tellAll(t, c, stories)
	// A namespace in which a run was killed before it was kept is nobody's run, and goes
	// by itself with the next that ends, or with this.
	if o := c.run(t, nil, "clean"); o.code != 0 {
		t.Errorf("clean ended in %d\n%s", o.code, o)
	}
	c.settled(t, withOthers)
	if o := c.run(t, nil, "clean"); o.code != 0 || !strings.Contains(o.stdout, "nothing of any run is on this cluster") {
		t.Errorf("a clean cluster is not told as one\n%s", o)
	}
	for kind, o := range lookAlikes() {
		c.strike(t, kind, o.Namespace(), o.Name())
	}
	c.settled(t, before)
}

// lookAlikes are objects of others with names and labels like ours.
func lookAlikes() map[kube.Resource]kube.Object {
	named := func(kind, version, name string, labels map[string]any) kube.Object {
		return kube.Object{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name, "labels": labels}}
	}
	cm := named("ConfigMap", "v1", "aicr-run-0badcafe", map[string]any{graph.LabelRun: "20261116-015518-0123456789abcdef", graph.LabelOwner: "somebody"})
	cm["metadata"].(map[string]any)["namespace"] = "default"
	return map[kube.Resource]kube.Object{
		namespaces: named("Namespace", "v1", "aicr-inference-perf-0badcafe", map[string]any{"app.kubernetes.io/managed-by": "aicr"}),
		configMaps: cm,
		{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "clusterroles"}: named("ClusterRole", "rbac.authorization.k8s.io/v1", "aicr-load-0badcafe",
			map[string]any{graph.LabelRun: "20261116-015518-0123456789abcdef", "app.kubernetes.io/name": "aicr"}),
	}
}

// moment is one in the life of a run: when it has come, and for how long it lasts.
type moment struct {
	name  string
	lasts time.Duration
	come  func(c *cluster, t *testing.T, l *living) bool
	times int
}

var moments = []moment{
	{"during the load", 40 * time.Second, func(c *cluster, t *testing.T, l *living) bool {
		return c.standing(t, jobsKind, validations, graph.NamesOf(l.id()).Load) != nil
	}, 4},
	{"as the record is fetched", 800 * time.Millisecond, func(c *cluster, t *testing.T, l *living) bool {
		return c.standing(t, configMaps, validations, graph.NamesOf(l.id()).Results) != nil
	}, 3},
	{"during the teardown", 3 * time.Second, func(c *cluster, t *testing.T, l *living) bool {
		kept := c.standing(t, configMaps, validations, graph.NamesOf(l.id()).Kept)
		return kept.Text("data", "stage") == graph.StageJudged
	}, 4},
	{"while waiting", 2 * time.Second, func(c *cluster, t *testing.T, l *living) bool {
		n := graph.NamesOf(l.id())
		return c.standing(t, graphsKind, n.Namespace, n.Graph) != nil
	}, 3},
	{"after its namespace", 200 * time.Millisecond, func(c *cluster, t *testing.T, l *living) bool {
		return c.standing(t, namespaces, "", graph.NamesOf(l.id()).Namespace) != nil
	}, 2},
	{"after it was kept", 100 * time.Millisecond, func(c *cluster, t *testing.T, l *living) bool {
		return c.standing(t, configMaps, validations, graph.NamesOf(l.id()).Kept) != nil
	}, 2},
	{"before it was kept", 100 * time.Millisecond, func(*cluster, *testing.T, *living) bool { return true }, 2},
}

// killed are twenty runs, each killed at a moment of its own.
func killed(t *testing.T) (all []story) {
	seed := uint64(time.Now().UnixNano())
	if said, err := strconv.ParseUint(os.Getenv("E2E_SEED"), 10, 64); err == nil {
		seed = said
	}
	t.Logf("the moments are those of E2E_SEED=%d", seed)
	chance := rand.New(rand.NewPCG(seed, 9))
	for _, m := range moments {
		for i := range m.times {
			after := time.Duration(chance.Int64N(int64(m.lasts)))
			then := []string{"attach", "clean"}[i%2]
			all = append(all, story{fmt.Sprintf("killed %s and %v, then %s", m.name, after.Round(time.Millisecond), then), func(t *testing.T, c *cluster, node string) {
				l := c.led(t, tiny(node)...)
				awaited(t, l, "the run's id", func() bool { return l.id() != "" })
				run := l.id()
				if run == "" {
					t.Fatalf("it has no id\n%s", l.end(t))
				}
				if !awaited(t, l, m.name, func() bool { return m.come(c, t, l) }) && !l.isOver() {
					t.Fatal("the moment did not come")
				}
				select {
				case <-time.After(after):
				case <-l.over:
				}
				l.kill()
				c.resume(t, l, run, then)
			}})
		}
	}
	return all
}

// resume goes on with a run whose command is dead, or removes it.
func (c *cluster) resume(t *testing.T, l *living, run, then string) {
	t.Helper()
	if v := verdictIn(t, l.dir); v != nil && v.Verdict != spec.Pass {
		t.Errorf("the killed command left %s: %s", v.Verdict, v.Reason)
	}
	if then == "clean" {
		o := c.run(t, nil, "clean", "--run", run)
		if o.code != 0 {
			t.Errorf("clean ended in %d\n%s", o.code, o)
		}
		c.leavesNothing(t, run, o.String())
		return
	}
	o := c.attachTo(t, run)
	if o.code == 3 && strings.Contains(o.stderr, "nothing of run "+run+" is on this cluster") {
		t.Logf("nothing was there: %s", o)
	} else {
		c.cameTo(t, o, run, spec.Pass, 0)
	}
	c.leavesNothing(t, run, o.String())
}

// underLoad has a run on a node that loads right now.
func (c *cluster) underLoad(t *testing.T, node string, args ...string) (*living, string) {
	t.Helper()
	l := c.led(t, tiny(node, args...)...)
	awaited(t, l, "its load", func() bool { return strings.Contains(l.stderr.String(), "start: ") })
	if l.isOver() {
		t.Fatalf("it ended before it loaded\n%s", l.end(t))
	}
	return l, l.id()
}

// measuring has a run that is far from its end, and has an episode behind it.
func (c *cluster) measuring(t *testing.T, node string) (*living, string) {
	t.Helper()
	l, run := c.underLoad(t, node, "--profile", "standard")
	awaited(t, l, "an episode", func() bool { return strings.Contains(l.stderr.String(), "episode 1 of ") })
	return l, run
}

// dismiss deletes the load's pod as anybody does who drains its node: it is told to end, and
// has the time that it has asked for.
func (c *cluster) dismiss(t *testing.T, run string) {
	t.Helper()
	if err := c.api.Delete(t.Context(), pods, validations, c.loadsPod(t, run, validations).Name(), kube.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// staysAsToldTo wants all of a run to be there when it is over, and to be removed by the
// command that it prints.
func (c *cluster) staysAsToldTo(t *testing.T, l *living) {
	t.Helper()
	o := l.end(t)
	run := l.id()
	c.cameTo(t, o, run, spec.Pass, 0, "left on the cluster, as asked")
	n := graph.NamesOf(run)
	if c.standing(t, graphsKind, n.Namespace, n.Graph) == nil || c.standing(t, jobsKind, validations, n.Load) == nil || c.standing(t, configMaps, validations, n.Kept) == nil {
		t.Errorf("not all of it is there\n%s", o)
	}
	c.cleanAsTold(t, o, run)
}

// lives are what happens to a command besides being killed.
var lives = []story{
	{"attached to while its command lives", func(t *testing.T, c *cluster, node string) {
		l, run := c.underLoad(t, node)
		second := c.attachTo(t, run)
		first := l.end(t)
		if !strings.Contains(second.stderr, "a command led this run") {
			t.Errorf("it is not told that another command leads it\n%s", second)
		}
		c.cameTo(t, first, run, spec.Pass, 0)
		if second.code == 3 && strings.Contains(second.stderr, "another command") {
			t.Logf("the other was faster: %s", second)
		} else {
			c.cameTo(t, second, run, spec.Pass, 0)
		}
		c.leavesNothing(t, run, first.String()+second.String())
	}},
	{"attached to by its folder when its pod is gone", func(t *testing.T, c *cluster, node string) {
		l, run := c.underLoad(t, node)
		l.kill()
		awaited(t, nil, "the compact copy", func() bool { return c.standing(t, configMaps, validations, graph.NamesOf(run).Results) != nil })
		c.strike(t, pods, validations, c.loadsPod(t, run, validations).Name())
		o := c.run(t, nil, "validate", "--attach", l.dir)
		c.cameTo(t, o, run, spec.Pass, 0, "this is the copy that the load left in the cluster")
		c.leavesNothing(t, run, o.String())
		if o := c.run(t, nil, "validate", "--attach", l.dir); o.code != 3 || !strings.Contains(o.stderr, "nothing of run "+run+" is on this cluster") {
			t.Errorf("attached to again\n%s", o)
		}
	}},
	{"asleep for a while", func(t *testing.T, c *cluster, node string) {
		l, run := c.underLoad(t, node)
		l.send(syscall.SIGSTOP)
		time.Sleep(15 * time.Second) // a laptop that sleeps cannot be polled
		l.send(syscall.SIGCONT)
		o := l.end(t)
		c.cameTo(t, o, run, spec.Pass, 0)
		c.leavesNothing(t, run, o.String())
	}},
	{"left as it is, by the flag", func(t *testing.T, c *cluster, node string) {
		c.staysAsToldTo(t, c.led(t, tiny(node, "--no-cleanup")...))
	}},
	{"left as it is, by the variable", func(t *testing.T, c *cluster, node string) {
		c.staysAsToldTo(t, c.ledWith(t, []string{spec.KnobNoCleanup + "=1"}, tiny(node)...))
	}},
	{"in a namespace that is in use", func(t *testing.T, c *cluster, node string) {
		const shared = "aicr-e2e-shared"
		l, run := c.underLoad(t, node, "--namespace", shared)
		theirs := c.place(t, configMaps, kube.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": graph.NamesOf(run).Load, "namespace": shared}, "data": map[string]any{"a": "b"}})
		o := l.end(t)
		c.cameTo(t, o, run, spec.Pass, 0)
		c.leavesNothing(t, run, o.String())
		c.untouched(t, configMaps, theirs, o.String())
		if c.standing(t, namespaces, "", shared).Deleting() {
			t.Errorf("what somebody else has in the namespace did not survive\n%s", o)
		}
		c.strike(t, namespaces, "", shared)
	}},
	{"its load's pod is deleted", func(t *testing.T, c *cluster, node string) {
		l, run := c.underLoad(t, node)
		c.strike(t, pods, validations, c.loadsPod(t, run, validations).Name())
		o := l.end(t)
		c.cameTo(t, o, run, spec.Invalid, 3, "the load came to no result", "was deleted while it ran")
		c.leavesNothing(t, run, o.String())
	}},
	{"its load's pod is deleted in good order", func(t *testing.T, c *cluster, node string) {
		l, run := c.measuring(t, node)
		c.dismiss(t, run)
		awaited(t, l, "the compact copy", func() bool { return c.standing(t, configMaps, validations, graph.NamesOf(run).Results) != nil })
		o := l.end(t)
		c.cameTo(t, o, run, spec.Inconclusive, 3, "interrupted after ")
		c.readsAgain(t, o)
		c.leavesNothing(t, run, o.String())
	}},
	{"its load's pod is deleted in good order, and nobody looks", func(t *testing.T, c *cluster, node string) {
		l, run := c.measuring(t, node)
		l.kill()
		c.dismiss(t, run)
		awaited(t, nil, "its end", func() bool { return c.loadsPod(t, run, validations) == nil })
		o := c.attachTo(t, run)
		c.cameTo(t, o, run, spec.Inconclusive, 3, "interrupted after ", "this is the copy that the load left in the cluster")
		c.leavesNothing(t, run, o.String())
	}},
	{"its load is killed", func(t *testing.T, c *cluster, node string) {
		l, run := c.underLoad(t, node)
		pid := processOf(t, run)
		if pid == 0 {
			t.Fatal("its process is not found")
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		o := l.end(t)
		c.cameTo(t, o, run, spec.Invalid, 3, "the load came to no result", "killed")
		c.leavesNothing(t, run, o.String())
	}},
	{"interrupted", func(t *testing.T, c *cluster, node string) {
		l, run := c.measuring(t, node)
		l.send(syscall.SIGINT)
		o := l.end(t)
		c.cameTo(t, o, run, spec.Inconclusive, 130, "it is told to end, and the record of what it has measured is fetched, for 1m0s at most", "interrupted after ")
		c.readsAgain(t, o)
		c.leavesNothing(t, run, o.String())
	}},
	{"interrupted twice, then attached to", func(t *testing.T, c *cluster, node string) {
		l, run := c.underLoad(t, node)
		awaited(t, l, "an episode", func() bool { return strings.Contains(l.stderr.String(), "episode 1 of ") })
		l.send(syscall.SIGINT)
		awaited(t, l, "the first to be heard", func() bool { return strings.Contains(l.stderr.String(), "it is told to end") })
		l.send(syscall.SIGINT)
		if o := l.end(t); o.code != 130 || !strings.Contains(o.stderr, "left on the cluster: namespace "+graph.NamesOf(run).Namespace) {
			t.Errorf("it does not say what is left\n%s", o)
		}
		o := c.attachTo(t, run)
		if o.code == 0 { // it was not told to end in time, and has come to its own
			c.cameTo(t, o, run, spec.Pass, 0)
		} else {
			c.cameTo(t, o, run, spec.Inconclusive, 3, "interrupted after ")
		}
		c.readsAgain(t, o)
		c.leavesNothing(t, run, o.String())
	}},
	{"interrupted twice", func(t *testing.T, c *cluster, node string) {
		l, run := c.underLoad(t, node)
		l.send(syscall.SIGINT)
		awaited(t, l, "the first to be heard", func() bool { return strings.Contains(l.stderr.String(), "interrupt again") })
		// The load makes this when it ends: what is left then stays as it is.
		awaited(t, l, "its load to end", func() bool { return c.standing(t, configMaps, validations, graph.NamesOf(run).Results) != nil })
		l.send(syscall.SIGINT)
		o := l.end(t)
		if o.code != 130 || !strings.Contains(o.stderr, "left on the cluster: namespace "+graph.NamesOf(run).Namespace) {
			t.Errorf("it does not say what is left\n%s", o)
		}
		c.cleanAsTold(t, o, run)
	}},
	{"its namespace is somebody else's", func(t *testing.T, c *cluster, node string) {
		l := c.led(t, tiny(node)...)
		awaited(t, l, "the run's id", func() bool { return l.id() != "" })
		run := l.id()
		name := graph.NamesOf(run).Namespace
		awaited(t, l, "its namespace", func() bool { return c.standing(t, namespaces, "", name) != nil })
		l.kill()
		c.strike(t, namespaces, "", name)
		theirs := c.place(t, namespaces, kube.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
		o := c.attachTo(t, run)
		if o.code != 3 || !strings.Contains(o.stderr, "Namespace "+name+" is there already, and is not of this run") || o.verdict != nil {
			t.Errorf("it is not told that the namespace is somebody else's\n%s", o)
		}
		if again := c.run(t, nil, "clean", "--run", run); again.code != 0 {
			t.Errorf("clean ended in %d\n%s", again.code, again)
		}
		c.untouched(t, namespaces, theirs, o.String())
		c.leavesNothing(t, run, o.String())
	}},
	{"one that nobody knows", func(t *testing.T, c *cluster, _ string) {
		const unknown = "20200101-000000-0123456789abcdef"
		if o := c.attachTo(t, unknown); o.code != 3 || o.stdout != "" || !strings.Contains(o.stderr, "nothing of run "+unknown+" is on this cluster") {
			t.Errorf("attached to nothing\n%s", o)
		}
		if o := c.run(t, nil, "clean", "--run", unknown); o.code != 0 {
			t.Errorf("cleaned nothing\n%s", o)
		}
		if o := c.attachTo(t, "no-run"); o.code != 2 {
			t.Errorf("no id of a run\n%s", o)
		}
	}},
}

// readsAgain wants the folder of a run to have its first episode, and to be judged and
// reported again as the command did.
func (c *cluster) readsAgain(t *testing.T, o *outcome) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(o.dir, "episodes", "001", "requests.jsonl.gz")); err != nil || o.verdict == nil {
		t.Fatalf("what was measured is not in the folder: %v\n%s", err, o)
	}
	for _, command := range []string{"judge", "report"} {
		again := c.run(t, nil, command, o.dir, "--output", "json")
		if said := strconv.Quote(o.verdict.Reason); !strings.Contains(again.stdout, said) {
			t.Errorf("aicr %s ends in %d, and does not say %s\n%s", command, again.code, said, again)
		}
	}
}

var toldClean = regexp.MustCompile(`to remove it: aicr (clean --run \S+.*)`)

// cleanAsTold runs the command that is said to remove what is left.
func (c *cluster) cleanAsTold(t *testing.T, o *outcome, run string) {
	t.Helper()
	m := toldClean.FindStringSubmatch(o.stderr)
	if m == nil {
		t.Fatalf("it does not say how to remove what is left\n%s", o)
	}
	if len(c.objectsOf(t, run)) == 0 {
		t.Errorf("nothing is left\n%s", o)
	}
	if alone := c.run(t, nil, "clean"); alone.code != 0 || !strings.Contains(alone.stdout, "left alone: ") || !strings.Contains(alone.stdout, run+"  alive") {
		t.Errorf("a run that may be alive is not left alone\n%s", alone)
	}
	dry := c.run(t, nil, append(strings.Fields(m[1]), "--dry-run")...)
	if dry.code != 0 || !strings.Contains(dry.stdout, "would be removed") || len(c.objectsOf(t, run)) == 0 {
		t.Errorf("a dry run\n%s", dry)
	}
	again := c.run(t, nil, strings.Fields(m[1])...)
	if again.code != 0 {
		t.Errorf("%s ended in %d\n%s", m[1], again.code, again)
	}
	if would, did := rowsOf(dry, run), rowsOf(again, run); len(did) == 0 || !slices.Equal(would, did) {
		t.Errorf("the dry run said %q, and removed were %q", would, did)
	}
	c.leavesNothing(t, run, again.String())
}

// rowsOf are the objects that clean lists for a run, besides the namespace that others may
// have come into, or have left, meanwhile.
func rowsOf(o *outcome, run string) (all []string) {
	for line := range strings.Lines(o.stdout) {
		if row := strings.Fields(line); len(row) == 3 && row[0] == run && row[2] != validations {
			all = append(all, row[1]+" "+row[2])
		}
	}
	return all
}

// The API server goes away for a while, as one run waits for its pods and another loads:
// both go on, and come to what they would have come to. So does what runs inside.
func TestTheServerIsAway(t *testing.T) {
	t.Parallel()
	c := startCluster(t, many)
	before := c.asItIs(t)
	c.annotate(t, "gpu-1", map[string]string{faultsAnnotation: "slow-start=25s"})
	loads := c.led(t, tiny("gpu-0")...)
	waits := c.led(t, tiny("gpu-1")...)
	awaited(t, loads, "its load", func() bool { return strings.Contains(loads.stderr.String(), "start: ") })
	awaited(t, waits, "its graph", func() bool {
		n := graph.NamesOf(waits.id())
		return waits.id() != "" && c.standing(t, graphsKind, n.Namespace, n.Graph) != nil
	})
	c.serverAway(t, 20)
	for _, l := range []*living{loads, waits} {
		o := l.end(t)
		c.cameTo(t, o, l.id(), spec.Pass, 0)
		if !strings.Contains(o.stderr, "API server") && !strings.Contains(o.stderr, "127.0.0.1") {
			t.Errorf("it is not told that the server was away\n%s", o)
		}
		t.Logf("%s", o.stderr)
	}
	c.annotate(t, "gpu-1", map[string]string{faultsAnnotation: ""})
	c.settled(t, before)
}

// serverAway kills the control plane, which comes back after some seconds.
func (c *cluster) serverAway(t *testing.T, seconds int) {
	t.Helper()
	state := filepath.Join(c.dir, "state")
	if err := os.WriteFile(filepath.Join(state, "restart-after"), []byte(strconv.Itoa(seconds)), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(state, "control-plane.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
