package cli

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/kube/kubetest"
	"aicr/internal/spec"
)

// clusterWorld is a cluster that the program can be run against.
type clusterWorld struct {
	*kubetest.Server
	t      *testing.T
	dir    string
	config string
	env    map[string]string // besides KUBECONFIG
}

func startCluster(t *testing.T, world string) *clusterWorld {
	w := &clusterWorld{Server: kubetest.Start(t, world), t: t, dir: t.TempDir()}
	w.config = filepath.Join(w.dir, "kubeconfig")
	if err := os.WriteFile(w.config, w.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// aicr runs the program with the cluster's kubeconfig in the environment. What it says
// never has anything in it that gives access.
func (w *clusterWorld) aicr(args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	var out, said bytes.Buffer
	variables := map[string]string{"KUBECONFIG": w.config}
	maps.Copy(variables, w.env)
	env := testEnv(variables, args...)
	env.Stdout, env.Stderr = &out, &said
	env.Now = func() time.Time { return time.Date(2026, 6, 4, 12, 0, 0, 0, time.UTC) }
	code = Run(context.Background(), env)
	for _, secret := range []string{kubetest.Token, "BEGIN CERTIFICATE", "certificate-authority"} {
		if strings.Contains(out.String()+said.String(), secret) {
			w.t.Errorf("%v tells a secret:\n%s%s", args, &out, &said)
		}
	}
	return strings.ReplaceAll(out.String(), w.URL, "https://SERVER"), strings.ReplaceAll(said.String(), w.URL, "https://SERVER"), code
}

func TestSnapshotTableBeginsWithTheAnswer(t *testing.T) {
	w := startCluster(t, "h100-eks")
	w.Answer("/apis/storage.k8s.io/v1/storageclasses", http.StatusForbidden, "")
	stdout, stderr, code := w.aicr("snapshot", "-o", "table")
	if code != 0 {
		t.Errorf("code %d: %s", code, stderr)
	}
	golden := "testdata/snapshot_table.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(stdout), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := "context test, https://SERVER\n2 facts could not be read for lack of rights; aicr snapshot --rbac prints the role that has them\n"; stderr != want {
		t.Errorf("standard error is %q, want %q", stderr, want)
	}
}

// What is written can be read again, in every form and place, and is the same.
func TestSnapshotIsReadBackFromWhereItWasWritten(t *testing.T) {
	w := startCluster(t, "h100-eks")
	yaml, jsonFile := filepath.Join(w.dir, "a.yaml"), filepath.Join(w.dir, "a.json")
	for _, args := range [][]string{{"--write", yaml}, {"-o", "json", "--write", jsonFile}, {"--write", "cm://aicr/passed"}, {"-o", "json", "--write", "cm://aicr/as-json"}} {
		if stdout, stderr, code := w.aicr(append([]string{"snapshot"}, args...)...); code != 0 || stdout != "" {
			t.Fatalf("%v: code %d, %q, %s", args, code, stdout, stderr)
		}
	}
	if info, err := os.Stat(yaml); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(w.dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	stdout, _, _ := w.aicr("snapshot")
	if text, err := os.ReadFile(yaml); err != nil || string(text) != stdout {
		t.Errorf("the file and standard output differ: %v", err)
	}
	for _, other := range []string{jsonFile, "cm://aicr/passed", "cm://aicr/as-json", "live"} {
		if stdout, stderr, code := w.aicr("snapshot", "diff", yaml, other); code != 0 || stdout != "SAME  no fact changed\n" {
			t.Errorf("%s: code %d, %s%s", other, code, stdout, stderr)
		}
	}
}

func TestSnapshotDiffSaysWhatChanged(t *testing.T) {
	w := startCluster(t, "h100-eks")
	passed := filepath.Join(w.dir, "passed.yaml")
	if _, stderr, code := w.aicr("snapshot", "--write", passed); code != 0 {
		t.Fatal(stderr)
	}
	w.GitVersion = "v1.35.0"
	w.Answer("/apis/apps/v1/daemonsets", http.StatusForbidden, "")
	stdout, stderr, code := w.aicr("snapshot", "diff", passed, "live")
	if code != 1 {
		t.Errorf("code %d: %s", code, stderr)
	}
	for _, want := range []string{"CHANGED  ", "  K8s.server.version: v1.34.1 -> v1.35.0\n", "  known -> unknown: forbidden (", "    K8s.dcgm-exporter.installed, "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if stdout, _, code := w.aicr("snapshot", "diff", passed, "live", "-o", "json"); code != 1 || !strings.Contains(stdout, `"path": "K8s.server.version"`) {
		t.Errorf("code %d: %s", code, stdout)
	}
}

func TestSnapshotSaysWhatIsWrong(t *testing.T) {
	w := startCluster(t, "")
	plugin := filepath.Join(w.dir, "plugin")
	if err := os.WriteFile(plugin, []byte(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: test, context: {cluster: c, user: u}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sleep, args: ["20"], interactiveMode: Never}}}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		args  []string
		spoil func()
		code  int
		want  []string
		asks  bool // the cluster, too
	}{
		{name: "no kubeconfig", args: []string{"snapshot", "--kubeconfig", filepath.Join(w.dir, "none")}, code: 2, want: []string{"error: no kubeconfig: ", "hint: name one with --kubeconfig FILE or in KUBECONFIG"}},
		{name: "a context's slip", args: []string{"snapshot", "--context", "stagin"}, code: 2, want: []string{`error: the kubeconfig has no context "stagin"`, "hint: did you mean --context staging?"}},
		{name: "another context", args: []string{"snapshot", "--context", "production-eu"}, code: 2, want: []string{"hint: choose one with --context: staging, test"}},
		{name: "a command's slip", args: []string{"snapshot", "dif"}, code: 2, want: []string{"hint: did you mean 'aicr snapshot diff'?"}},
		{name: "no place", args: []string{"snapshot", "--write", "cm://aicr"}, code: 2, want: []string{`error: "cm://aicr" names no ConfigMap`, "hint: write cm://NAMESPACE/NAME"}},
		{name: "all at once", args: []string{"snapshot", "--write", "cm://aicr/a", "-o", "table", "--max-nodes-per-entry", "-1", "--timeout", "-3"}, code: 2, want: []string{"--output table", "--max-nodes-per-entry: -1", "--timeout: -3s"}},
		{name: "no folder", args: []string{"snapshot", "--write", filepath.Join(w.dir, "no", "such")}, code: 2, want: []string{"is no folder"}},
		{name: "one to compare", args: []string{"snapshot", "diff", "a"}, code: 2, want: []string{"error: two snapshots are compared, 1 were named"}},
		{name: "one that is not there", args: []string{"snapshot", "diff", "a", "live"}, code: 2, want: []string{"error: reading the snapshot: open a: ", "hint: aicr snapshot --write FILE takes one"}},
		{name: "one that is none", args: []string{"snapshot", "diff", w.config, "live"}, code: 2, want: []string{"kubeconfig:2: kind: "}},
		{name: "untrusted", args: []string{"snapshot", "--context", "staging"}, code: 3, want: []string{"error: the cluster cannot be asked: https://SERVER: ", "hint: see whether 'kubectl --context staging version' gets an answer"}, asks: true},
		{name: "hangs", args: []string{"snapshot", "--timeout", "50ms"}, spoil: func() { w.Hang("/version") },
			code: 3, want: []string{"no answer in 50ms"}, asks: true},
		{name: "not let in", args: []string{"snapshot"}, spoil: func() { w.Answer("/version", http.StatusUnauthorized, "") }, code: 3, want: []string{"the cluster does not accept the credentials", "hint: log in to the cluster again"}, asks: true},
		{name: "a plugin for credentials that hangs", code: 3, want: []string{"the credential plugin sleep of the kubeconfig has given no credentials"},
			args: []string{"snapshot", "--kubeconfig", plugin, "--timeout", "50ms"}},
		{name: "no ConfigMap", args: []string{"snapshot", "diff", "cm://aicr/none", "live"}, code: 3, want: []string{"error: reading cm://aicr/none: "}, asks: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.spoil != nil {
				tt.spoil()
			}
			before := len(w.Requests())
			stdout, stderr, code := w.aicr(tt.args...)
			if code != tt.code || stdout != "" {
				t.Errorf("code %d, want %d; %s", code, tt.code, stdout)
			}
			for _, want := range tt.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("no %q in\n%s", want, stderr)
				}
			}
			if asked := len(w.Requests()) > before; asked && !tt.asks {
				t.Error("the cluster was asked all the same")
			}
		})
	}
}

func TestASnapshotThatIsTooLargeForAConfigMapIsRefused(t *testing.T) {
	w := startCluster(t, "")
	for i := range 6000 {
		w.Add(kubetest.Object{"apiVersion": "v1", "kind": "Node", "metadata": kubetest.Object{"name": fmt.Sprintf("node-%04d", i), "labels": kubetest.Object{"pool": "gpu"}}})
	}
	_, stderr, code := w.aicr("snapshot", "--write", "cm://aicr/large")
	if code != 3 || !strings.Contains(stderr, "a ConfigMap takes 1024") || !strings.Contains(stderr, "--max-nodes-per-entry") {
		t.Errorf("code %d: %s", code, stderr)
	}
	if w.ConfigMap("aicr", "large") != nil {
		t.Error("it was written all the same")
	}
}

// Every fact that the page tells of is one that the collector writes, and the other way
// round; a constraint may name it.
func TestTheSnapshotsPageHasEveryFact(t *testing.T) {
	text, err := os.ReadFile("../../docs/snapshot.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") && strings.Contains(cells[0], ".") {
			told[strings.Trim(cells[0], "| `")] = true
		}
	}
	w := startCluster(t, "h100-eks")
	stdout, stderr, _ := w.aicr("snapshot", "-o", "json")
	s, err := spec.DecodeSnapshot([]byte(stdout))
	if err != nil {
		t.Fatal(err, stderr)
	}
	written := map[string]bool{}
	for _, m := range s.Measurements {
		for _, sub := range m.Subtypes {
			group := m.Type + "." + sub.Name
			switch group {
			case "NodeTopology.label", "NodeTopology.taint", "K8s.dynamo-crds":
				written[group+".KEY"] = true // one for each that there is
			default:
				for key := range sub.Data {
					written[group+"."+key] = true
				}
				for key := range sub.Unknown {
					written[group+"."+key] = true
				}
			}
			if group == "NodeTopology.label" || group == "NodeTopology.taint" {
				continue
			}
			for _, item := range sub.Items {
				for key := range item.Data {
					written[group+"[]."+key] = true
				}
				for key := range item.Context {
					written[group+"[]."+key] = true
				}
			}
		}
	}
	for path := range written {
		if !told[path] {
			t.Errorf("%s is written, and not told of", path)
		}
		if name := strings.ReplaceAll(path, "[]", "[0]"); !strings.HasSuffix(path, ".KEY") {
			if text, _ := spec.ConstraintMistake(spec.RecipeConstraint{Name: name, Value: "x"}); strings.Contains(text, " has no ") {
				t.Errorf("no constraint can name %s: %s", name, text)
			}
		}
		delete(told, path)
	}
	for path := range told {
		t.Errorf("%s is told of, and not written", path)
	}
}
