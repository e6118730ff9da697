//go:build linux

package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
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
	"aicr/test/busy"
)

// patience is how long the sandbox may take for what it usually does in seconds.
const patience = 3 * time.Minute

// cluster is a sandbox that is up.
type cluster struct {
	dir        string
	kubeconfig string
	api        *kube.Cluster
	listable   []kube.Resource // every kind of object that can be listed

	mu     sync.Mutex
	theirs map[string]bool // objects that a test has made, and that nobody else may change
}

// startCluster brings a sandbox up for a test and the tests below it.
func startCluster(t *testing.T, config string) *cluster {
	t.Helper()
	c := &cluster{dir: shortFolder(t), theirs: map[string]bool{}}
	file := filepath.Join(c.dir, "sandbox.yaml")
	config = strings.NewReplacer("PROGRAM", program, "VENV", venv).Replace(config)
	if !strings.Contains(config, "probes: ") { // many sandboxes share this machine
		config += "probes: quick\n"
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(c.dir, "state")
	c.kubeconfig = filepath.Join(state, "kubeconfig")
	log, err := os.Create(filepath.Join(c.dir, "sandbox.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(sandbox, "up", "--config", file, "--dir", state)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may be over already
		select {
		case <-over:
		case <-time.After(patience):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			t.Error("the sandbox did not stop")
		}
		_ = log.Close()
		if t.Failed() {
			keepLogs(t, c.dir)
		}
	})
	until := time.Now().Add(patience)
	for {
		select {
		case err := <-over:
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("the sandbox ended: %v\n%s", err, said)
		case <-time.After(200 * time.Millisecond):
		}
		said, _ := os.ReadFile(log.Name())
		if bytes.Contains(said, []byte("export KUBECONFIG=")) {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("the sandbox did not come up:\n%s", said)
		}
	}
	c.api, err = kube.Connect(kube.Access{Kubeconfig: c.kubeconfig, LookupEnv: os.LookupEnv, Program: "e2e"})
	if err != nil {
		t.Fatal(err)
	}
	c.listable = c.kinds(t)
	return c
}

// shortFolder is a folder whose name does not grow with the test's: the paths of Unix
// sockets in it are short.
func shortFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e") //nolint:usetesting // its name is too long for the sockets of what runs there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // it is in the system's own folder for such
	return dir
}

// keepLogs saves what a sandbox has written, where somebody wants it.
func keepLogs(t *testing.T, dir string) {
	if keep == "" {
		return
	}
	to := filepath.Join(keep, strings.ReplaceAll(t.Name(), "/", "_"))
	_ = os.RemoveAll(to)
	if out, err := exec.Command("cp", "-r", dir, to).CombinedOutput(); err != nil {
		t.Logf("keeping %s: %v %s", dir, err, out)
	}
}

// outcome is what the program came to.
type outcome struct {
	code           int
	stdout, stderr string
	dir            string        // of the run
	verdict        *spec.Verdict // or nil
	took           time.Duration
}

func (o *outcome) String() string {
	return fmt.Sprintf("exit %d after %s\n--- stdout\n%s--- stderr\n%s", o.code, o.took.Round(time.Second), o.stdout, o.stderr)
}

// command is the program with arguments, as the user of a kubeconfig.
func (c *cluster) command(kubeconfig string, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+c.dir, "AICR_COLOR=never")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// run runs the program to its end.
func (c *cluster) run(t *testing.T, env []string, args ...string) *outcome {
	t.Helper()
	return finished(t, c.command(c.kubeconfig, env, args...))
}

func finished(t *testing.T, cmd *exec.Cmd) *outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	o := &outcome{stdout: stdout.String(), stderr: stderr.String(), took: time.Since(began), code: cmd.ProcessState.ExitCode()}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return o
}

// short are the flags of a validation that decides as fast as it can. The sandbox's recipe
// declares checks that are not run on a cluster yet, and without --check it could not PASS.
var short = []string{"--check", "inference-perf", "--profile", "smoke", "--episode-duration", "10s", "--concurrency-per-gpu", "8"}

// validate validates the cluster, and reads the verdict that it kept. Several clusters and
// their loads share this machine: a load whose own stamps were late has measured nothing,
// and is repeated once.
func (c *cluster) validate(t *testing.T, env []string, args ...string) *outcome {
	t.Helper()
	var o *outcome
	busy.Measure(t, func() (tooBusy string) {
		dir := filepath.Join(t.TempDir(), "run")
		o = c.run(t, env, append([]string{"validate", "--run", dir}, args...)...)
		o.dir, o.verdict = dir, verdictIn(t, dir)
		return o.late()
	})
	return o
}

// late is why a run, or one of a fleet, was called invalid for its own client.
func (o *outcome) late() string {
	first, _, _ := strings.Cut(o.stdout, "\n")
	if o.code == 3 && strings.HasPrefix(first, "INVALID") && strings.Contains(o.stdout, "the client's own stamps were late") {
		return first
	}
	return ""
}

// verdictIn is the verdict of a run's folder, or nil where there is none.
func verdictIn(t *testing.T, dir string) *spec.Verdict {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var v spec.Verdict
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return &v
}

// passing are kinds that come and go by themselves, whoever uses the cluster.
var passing = []string{"events", "endpoints", "endpointslices", "componentstatuses", "podmetrics", "nodes/status"}

// leases are renewed by whoever leads; those of runs alone are looked at.
const leases = "leases"

// objects are all that there are on the cluster, each with its id and its finalizers. Those
// that a test has made are there with what is in them as well: a label on them is seen. The
// namespace that runs share stays when they go, and is not there, with what Kubernetes puts
// into it.
func (c *cluster) objects(t *testing.T) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	shared, err := c.api.List(ctx, namespaces, "", graph.LabelOwner+"="+graph.OwnerValue+",!"+graph.LabelRun)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	defer func() {
		for _, o := range shared {
			for _, key := range []string{"namespaces. /" + o.Name(), "serviceaccounts. " + o.Name() + "/default", "configmaps. " + o.Name() + "/kube-root-ca.crt"} {
				delete(all, key)
			}
		}
	}()
	for _, r := range c.listable {
		objects, err := c.api.List(ctx, r, "", "")
		if err != nil {
			t.Fatalf("listing %s: %v", r.Name, err)
		}
		for _, o := range objects {
			if r.Name == leases && o.Labels()[graph.LabelOwner] != graph.OwnerValue {
				continue // of nodes and of controllers: they are renewed
			}
			key := keyOf(r, o)
			all[key] = fmt.Sprintf("%s %v deleting=%v", o.UID(), o.Finalizers(), o.Deleting())
			if c.isTheirs(key) {
				all[key] += " " + hashOf(t, o)
			}
		}
	}
	return all
}

func keyOf(r kube.Resource, o kube.Object) string {
	return fmt.Sprintf("%s.%s %s/%s", r.Name, r.Group, o.Namespace(), o.Name())
}

// noteTheirs notes an object of somebody else, which must stay as it is.
func (c *cluster) noteTheirs(r kube.Resource, o kube.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.theirs[keyOf(r, o)] = true
}

func (c *cluster) isTheirs(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.theirs[key]
}

// hashOf is that of what its owner has written, and not the cluster: how it is, and who has
// written what when, changes by itself.
func hashOf(t *testing.T, o kube.Object) string {
	t.Helper()
	theirs := maps.Clone(o)
	delete(theirs, "status")
	meta := maps.Clone(o.Map("metadata"))
	delete(meta, "managedFields")
	delete(meta, "resourceVersion")
	theirs["metadata"] = map[string]any(meta)
	text, err := json.Marshal(theirs)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// asItIs is all that there is on the cluster, once the control plane has given every
// namespace what it gives to each: it does so in its own time, which is not ours to tell
// from what a run has left.
func (c *cluster) asItIs(t *testing.T) map[string]string {
	t.Helper()
	var all map[string]string
	err := eventually(t.Context(), func() (bool, error) {
		all = c.objects(t)
		for name := range all {
			namespace, ok := strings.CutPrefix(name, "namespaces. /")
			if !ok {
				continue
			}
			for _, given := range []string{"serviceaccounts. " + namespace + "/default", "configmaps. " + namespace + "/kube-root-ca.crt"} {
				if _, ok := all[given]; !ok {
					return false, nil
				}
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("a namespace has no service account or no root certificate: %v", err)
	}
	return all
}

// settled waits for a cluster to be as it was: what the garbage collector has yet to
// remove is no remains. What is other then is told.
func (c *cluster) settled(t *testing.T, before map[string]string) {
	t.Helper()
	diff := ""
	for until := time.Now().Add(patience); ; {
		if diff = cmp.Diff(before, c.objects(t)); diff == "" {
			return
		}
		if time.Now().After(until) {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("the cluster is not as it was (- before, + now):\n%s", diff)
}

// kinds lists every kind of object that can be listed. The server tells of those that were
// defined some time after it serves them.
func (c *cluster) kinds(t *testing.T) []kube.Resource {
	t.Helper()
	var all []kube.Resource
	known := map[[2]string]bool{} // by group and name: one version of each is enough
	var versions [][2]string
	err := eventually(t.Context(), func() (bool, error) {
		versions = c.versions(t)
		defined, err := c.api.List(t.Context(), definitions, "", "")
		for _, d := range defined {
			for _, v := range d.List("spec", "versions") {
				if v["served"] == true && !slices.Contains(versions, [2]string{d.Text("spec", "group"), v.Text("name")}) {
					return false, err
				}
			}
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatalf("the server does not tell of all that is defined: %v", err)
	}
	for _, version := range versions {
		path := "/apis/" + version[0] + "/" + version[1]
		if version[0] == "" {
			path = "/api/" + version[1]
		}
		var list struct {
			Resources []struct {
				Name  string   `json:"name"`
				Verbs []string `json:"verbs"`
			} `json:"resources"`
		}
		c.raw(t, path, &list)
		for _, r := range list.Resources {
			if kind := [2]string{version[0], r.Name}; slices.Contains(r.Verbs, "list") && !slices.Contains(passing, r.Name) && !known[kind] {
				known[kind] = true
				all = append(all, kube.Resource{Group: version[0], Version: version[1], Name: r.Name})
			}
		}
	}
	return all
}

// versions are all of each group, the group's first: a kind may be in another alone.
func (c *cluster) versions(t *testing.T) [][2]string {
	t.Helper()
	all := [][2]string{{"", "v1"}}
	var groups struct {
		Groups []struct {
			Name     string `json:"name"`
			Versions []struct {
				Version string `json:"version"`
			} `json:"versions"`
		} `json:"groups"`
	}
	c.raw(t, "/apis", &groups)
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			all = append(all, [2]string{g.Name, v.Version})
		}
	}
	return all
}

// raw asks the API server for a path, by the kubectl that the sandbox has.
func (c *cluster) raw(t *testing.T, path string, answer any) {
	t.Helper()
	var wrong error
	err := eventually(t.Context(), func() (bool, error) {
		var out []byte
		if out, wrong = exec.Command(sandbox, "kubectl", "--kubeconfig", c.kubeconfig, "get", "--raw", path).Output(); wrong == nil {
			wrong = json.Unmarshal(out, answer)
		}
		return wrong == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", path, errors.Join(err, wrong))
	}
}

// Kinds that tests change or read.
var (
	nodes       = kube.Resource{Version: "v1", Name: "nodes"}
	definitions = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Name: "customresourcedefinitions"}
)

const (
	scenarioAnnotation = "sandbox.aicr.run/scenario"
	faultsAnnotation   = "sandbox.aicr.run/faults"
)

// annotate gives a node annotations until the test is over.
func (c *cluster) annotate(t *testing.T, node string, annotations map[string]string) {
	t.Helper()
	change := func(values map[string]any) {
		_, err := c.api.Patch(context.WithoutCancel(t.Context()), nodes, "", node, kube.Object{"metadata": map[string]any{"annotations": values}})
		if err != nil {
			t.Fatal(err)
		}
	}
	set, unset := map[string]any{}, map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		set[key], unset[key] = annotations[key], nil
	}
	change(set)
	t.Cleanup(func() { change(unset) })
}

// ids are those of a verdict's findings.
func ids(v *spec.Verdict) (all []string) {
	for _, f := range v.Findings {
		all = append(all, f.ID)
	}
	return all
}
