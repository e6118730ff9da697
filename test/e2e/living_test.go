//go:build linux

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
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

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// living is a command that is followed, stopped or killed while it runs.
type living struct {
	cmd    *exec.Cmd
	dir    string
	stdout lockedText
	stderr lockedText
	began  time.Time
	over   chan struct{}
}

// lockedText is what a process has written so far.
type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// tiny are the arguments of a validation on a node that loads as little as it can be
// judged by.
func tiny(node string, more ...string) []string {
	return append([]string{"--recipe", recipe, "--check", "inference-perf", "--profile", "smoke", "--episode-duration", "10s", "--concurrency-per-gpu", "4", "--node", node}, more...)
}

// withoutCache leaves out what fetches a model.
var withoutCache = []string{spec.KnobCacheSize + "=off"}

// led starts a validation; it is dead when the test is over.
func (c *cluster) led(t *testing.T, args ...string) *living {
	t.Helper()
	return c.ledWith(t, nil, args...)
}

// ledWith starts one with variables.
func (c *cluster) ledWith(t *testing.T, env []string, args ...string) *living {
	t.Helper()
	l := &living{dir: filepath.Join(t.TempDir(), "run"), over: make(chan struct{})}
	l.cmd = c.command(c.kubeconfig, slices.Concat(withoutCache, env), append([]string{"validate", "--run", l.dir}, args...)...)
	l.cmd.Stdout, l.cmd.Stderr = &l.stdout, &l.stderr
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	l.began = time.Now()
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = l.cmd.Wait() // how it ended is asked of its state
		close(l.over)
	}()
	t.Cleanup(func() {
		_ = l.cmd.Process.Kill()
		<-l.over
	})
	return l
}

// send sends a signal.
func (l *living) send(s syscall.Signal) { _ = l.cmd.Process.Signal(s) }

// kill ends it as a power cut does.
func (l *living) kill() {
	l.send(syscall.SIGKILL)
	<-l.over
}

func (l *living) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// end waits until it has ended by itself.
func (l *living) end(t *testing.T) *outcome {
	t.Helper()
	select {
	case <-l.over:
	case <-time.After(4 * patience): // all of a run, its load as well
		t.Fatalf("it does not end:\n%s%s", l.stdout.String(), l.stderr.String())
	}
	return &outcome{code: l.cmd.ProcessState.ExitCode(), stdout: l.stdout.String(), stderr: l.stderr.String(), took: time.Since(l.began), dir: l.dir, verdict: verdictIn(t, l.dir)}
}

var toldRun = regexp.MustCompile(`(?m)^run ([0-9]{8}-[0-9]{6}-[0-9a-f]{16}) on node `)

// id is that of its run; "": it has none yet.
func (l *living) id() string {
	if m := toldRun.FindStringSubmatch(l.stderr.String()); m != nil {
		return m[1]
	}
	return ""
}

// awaited polls for something that is usually there within seconds. It gives up when the
// command has ended, where one is given.
func awaited(t *testing.T, l *living, what string, there func() bool) bool {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		if there() {
			return true
		}
		if l != nil && l.isOver() {
			return there()
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(30 * time.Millisecond)
	}
}

var (
	configMaps = kube.Resource{Version: "v1", Name: "configmaps"}

	jobsKind   = kube.Resource{Group: "batch", Version: "v1", Name: "jobs"}
	graphsKind = kube.Resource{Group: "nvidia.com", Version: "v1beta1", Name: "dynamographdeployments"}
)

const validations = "aicr-validation"

// standing is an object, or nil.
func (c *cluster) standing(t *testing.T, r kube.Resource, namespace, name string) kube.Object {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	o, err := c.api.Read(ctx, r, namespace, name)
	if err != nil && !kube.IsNotFound(err) {
		t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return o
}

// place makes an object of somebody else for as long as the test lasts.
func (c *cluster) place(t *testing.T, r kube.Resource, o kube.Object) kube.Object {
	t.Helper()
	c.noteTheirs(r, o)
	made, err := c.api.Create(t.Context(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.strike(t, r, o.Namespace(), o.Name()) })
	return made
}

// untouched wants an object of somebody else to be as it was made.
func (c *cluster) untouched(t *testing.T, r kube.Resource, made kube.Object, after string) {
	t.Helper()
	now := c.standing(t, r, made.Namespace(), made.Name())
	if now == nil || now.Deleting() || hashOf(t, now) != hashOf(t, made) {
		t.Errorf("%s %s of somebody else was\n%v\nand is\n%v\n%s", r.Name, made.Name(), made, now, after)
	}
}

// strike deletes an object at once, and waits until it is gone.
func (c *cluster) strike(t *testing.T, r kube.Resource, namespace, name string) {
	t.Helper()
	args := []string{"kubectl", "--kubeconfig", c.kubeconfig, "delete", r.Name, name, "--ignore-not-found", "--timeout=" + patience.String()}
	if namespace != "" {
		args = append(args, "-n", namespace)
	}
	if r == pods {
		args = append(args, "--grace-period=0", "--force")
	}
	if out, err := exec.Command(sandbox, args...).CombinedOutput(); err != nil {
		t.Errorf("deleting %s %s: %v\n%s", r.Name, name, err, out)
	}
}

// objectsOf are the objects of a run that are on the cluster.
func (c *cluster) objectsOf(t *testing.T, run string) (all []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for _, r := range c.listable {
		objects, err := c.api.List(ctx, r, "", graph.LabelRun+"="+run)
		if err != nil {
			t.Fatalf("listing %s: %v", r.Name, err)
		}
		for _, o := range objects {
			all = append(all, fmt.Sprintf("%s %s/%s", r.Name, o.Namespace(), o.Name()))
		}
	}
	return all
}

// leavesNothing wants nothing of a run to be left.
func (c *cluster) leavesNothing(t *testing.T, run, after string) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		if left = c.objectsOf(t, run); len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("of run %s there is left: %s\n%s", run, strings.Join(left, ", "), after)
			return
		}
	}
}

// cameTo wants a command to have come to a verdict and a code, and to say why.
func (c *cluster) cameTo(t *testing.T, o *outcome, run string, state spec.State, code int, words ...string) {
	t.Helper()
	got := "none"
	if m := regexp.MustCompile(`(?m)^(PASS|FAIL|SKIP|INVALID|INCONCLUSIVE)\b`).FindString(o.stdout); m != "" {
		got = m
	}
	if o.code != code || got != string(state) {
		t.Errorf("verdict %s and code %d, want %s and %d\n%s", got, o.code, state, code, o)
	}
	if o.verdict != nil && o.verdict.Verdict != state {
		t.Errorf("the folder has %s, want %s\n%s", o.verdict.Verdict, state, o)
	}
	for _, w := range words {
		if !strings.Contains(o.stdout+o.stderr, w) {
			t.Errorf("it does not say %q\n%s", w, o)
		}
	}
}

// attachTo goes on with a run in a folder of its own.
func (c *cluster) attachTo(t *testing.T, run string, args ...string) *outcome {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "attached")
	o := c.run(t, nil, append([]string{"validate", "--attach", run, "--run", dir}, args...)...)
	o.dir, o.verdict = dir, verdictIn(t, dir)
	return o
}

// loadsPod is the pod that loads for a run; nil: there is none.
func (c *cluster) loadsPod(t *testing.T, run, namespace string) kube.Object {
	t.Helper()
	all, err := c.api.List(t.Context(), pods, namespace, "batch.kubernetes.io/job-name="+graph.NamesOf(run).Load)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// processOf is the process of a run's load, which on the sandbox is one of this machine.
func processOf(t *testing.T, run string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte("AICR_RUN_ID="+run)) {
			continue
		}
		said, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		pid := 0
		if _, scanned := fmt.Sscanf(file, "/proc/%d/environ", &pid); err == nil && scanned == nil && bytes.Contains(said, []byte("inference-perf")) && !bytes.Contains(said, []byte("shim")) {
			return pid
		}
	}
	return 0
}
