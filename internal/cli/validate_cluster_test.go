package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aicr/internal/checks/graph"
	"aicr/internal/spec"
)

const accessReviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// allowed lets the program do everything on a cluster, or nothing.
func (w *clusterWorld) allowed(yes string) {
	w.Answer(accessReviews, http.StatusCreated, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":`+yes+`}}`)
}

// wrote says which requests would have changed the cluster. To ask what one may do is a
// POST as well, and changes nothing.
func (w *clusterWorld) wrote() (all []string) {
	for _, r := range w.Requests() {
		if r.Method != http.MethodGet && r.Path != accessReviews {
			all = append(all, r.Method+" "+r.Path)
		}
	}
	return all
}

const h100 = "h100-eks-ubuntu-inference-dynamo"

// A dry run on a cluster asks it, makes nothing, and says the node, all that would be made,
// what is waited for, and what it costs.
func TestADryRunOnAClusterMakesNothing(t *testing.T) {
	w := startCluster(t, "h100-eks")
	w.Serve("resource.k8s.io/v1/ResourceClaim")
	w.Answer("/api/v1/namespaces/aicr-validation/resourcequotas", http.StatusOK, `{"kind":"ResourceQuotaList","apiVersion":"v1","items":[]}`)
	w.Answer("/api/v1/namespaces/aicr-validation/limitranges", http.StatusOK, `{"kind":"LimitRangeList","apiVersion":"v1","items":[]}`)
	w.allowed("true")
	dryRun := []string{"validate", "--recipe", h100, "--profile", "smoke", "--dry-run"}
	if stdout, stderr, code := w.aicr(dryRun...); code != int(Failed) || stdout != "" || !strings.Contains(stderr, "version skew: runtime ") {
		t.Errorf("a runtime that does not go with the chart: code %d, %s%s", code, stdout, stderr)
	}
	w.Empty("/apis/nvidia.com/v1alpha1/dynamographdeployments") // of the old runtime
	w.Empty("/apis/apps/v1/deployments")                        // and the old operator
	stdout, stderr, code := w.aicr(dryRun...)
	if code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if !strings.HasPrefix(stdout, "PLAN  ") {
		t.Errorf("it does not begin with the answer: %.80s", stdout)
	}
	for _, want := range []string{"on node ", "nothing was made or loaded", "DynamoGraphDeployment", "aicr-inference-perf-<8 hex>", "aicr-run-<8 hex>", "aicr-load-<8 hex>", "GPU-minutes", "Waited for, at most"} {
		if !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
			t.Errorf("there is no %q in:\n%s", want, stdout)
		}
	}
	if all := w.wrote(); len(all) > 0 {
		t.Errorf("it wrote: %q", all)
	}
}

// What may not be done is told before anything is made, all of it at once, and who gives it.
func TestRightsThatAreMissingAreToldAtOnce(t *testing.T) {
	w := startCluster(t, "h100-eks")
	w.allowed("false")
	stdout, stderr, code := w.aicr("validate", "--recipe", h100, "--profile", "smoke", "--run", filepath.Join(w.dir, "run"))
	if code != int(Unmeasured) || stdout != "" {
		t.Errorf("code %d, %q", code, stdout)
	}
	for _, want := range []string{"you may not ", "nodes", "dynamographdeployments", "aicr validate --rbac"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("there is no %q in:\n%s", want, stderr)
		}
	}
	if n := strings.Count(stderr, "error: "); n < 5 {
		t.Errorf("%d errors, want all that is missing:\n%s", n, stderr)
	}
	if all := w.wrote(); len(all) > 0 {
		t.Errorf("it wrote: %q", all)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "run")); err == nil {
		t.Error("there is a folder of a run that never began")
	}
}

// A mistake in the flags is told before any cluster is asked.
func TestNoClusterIsAskedBeforeTheFlagsAreSound(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"flags of an endpoint":     {[]string{"--worker-metrics", "http://localhost:1/metrics"}, []string{"--worker-metrics is for --url"}},
		"an engine for itself":     {[]string{"--engine", "k6"}, []string{`--engine: "k6"`}},
		"a node and nodes":         {[]string{"--node", "a", "--nodes", "2"}, []string{"--node and --nodes are both given"}},
		"an episode that is short": {[]string{"--episode-duration", "1s"}, []string{"--episode-duration: 1s is below"}},
		"a report of no kind":      {[]string{"--report", "pdf=x"}, []string{`--report: "pdf"`}},
		"a Secret of no name":      {[]string{"--image-pull-secret", "Not_a_name"}, []string{`--image-pull-secret: "Not_a_name"`}},
		"all of it at once":        {[]string{"--nodes", "none", "--engine", "k6", "--namespace", "Big", "--profile", "nope"}, []string{"--nodes:", "--engine:", "--namespace:", "--profile:"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := startCluster(t, "h100-eks")
			w.allowed("true")
			_, stderr, code := w.aicr(append([]string{"validate", "--recipe", h100}, c.args...)...)
			if code != int(Misused) {
				t.Errorf("code %d", code)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("there is no %q in:\n%s", want, stderr)
				}
			}
			if !strings.Contains(stderr, "hint: ") {
				t.Errorf("no hint in:\n%s", stderr)
			}
			if all := w.Requests(); len(all) > 0 {
				t.Errorf("it asked %v", all)
			}
		})
	}
}

// A cluster that does not let itself be looked at is not one on which nothing is.
func TestCleanDoesNotSayThatNothingIsThereWhenItCannotLook(t *testing.T) {
	w := startCluster(t, "")
	w.Answer("/api/v1/namespaces", http.StatusForbidden, "")
	for _, args := range [][]string{{"clean"}, {"clean", "--dry-run"}, {"clean", "-o", "json"}} {
		stdout, stderr, code := w.aicr(args...)
		if code != int(Unmeasured) || stdout != "" || !strings.Contains(stderr, "forbidden") {
			t.Errorf("%v: code %d, %q, %s", args, code, stdout, stderr)
		}
	}
}

func TestWhatCleanHasFound(t *testing.T) {
	run := "20261116-015518-0123456789abcdef"
	for name, c := range map[string]struct {
		found cleaned
		want  string
	}{
		"nothing":        {cleaned{}, "nothing of any run is on this cluster"},
		"nothing of one": {cleaned{Run: run}, "nothing of run " + run + " is on this cluster"},
		"one that lives": {cleaned{Spared: []spared{{graph.Spared{Run: run, Alive: true, Why: "its load is running"}, ""}}}, "nothing to remove; left alone: 1 run"},
		"some":           {cleaned{Removed: []graph.Removed{{Run: run, Kind: "Job", Name: "a"}, {Run: run, Kind: "Namespace", Name: "b"}}}, "2 objects of 1 run removed"},
		"of no run":      {cleaned{DryRun: true, Removed: []graph.Removed{{Kind: "Namespace", Name: "b"}}}, "1 object would be removed"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			env := testEnv(nil)
			env.Stdout = &out
			if err := newApp(env).printCleaned(&c.found, "text"); err != nil {
				t.Fatal(err)
			}
			if first, _, _ := strings.Cut(out.String(), "\n"); first != c.want {
				t.Errorf("%q, want %q", first, c.want)
			}
		})
	}
}

// A log has a line for each thing that is waited for, and one a minute for the same.
func TestALogIsToldWhatIsWaitedForWhenItChanges(t *testing.T) {
	now := time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC)
	var said strings.Builder
	env := testEnv(nil)
	env.Stderr, env.Now = &said, func() time.Time { return now }
	v := newApp(env).showRun(&spec.Plan{})
	for _, c := range []struct {
		after time.Duration
		text  string
	}{
		{0, "1 of 2 workers: w-0 Pending"},
		{2 * time.Second, "1 of 2 workers: w-0 Running"}, // too soon
		{6 * time.Second, "1 of 2 workers: w-0 Running (starting, 5s)"},
		{12 * time.Second, "1 of 2 workers: w-0 Running (starting, 10s)"},
		{40 * time.Second, "1 of 2 workers: w-0 Running (starting, 30s)"},
		{70 * time.Second, "1 of 2 workers: w-0 Running (starting, 1m0s)"},
		{80 * time.Second, ""},
		{90 * time.Second, "Namespace n to be gone (5s)"},
		{95 * time.Second, "Namespace n to be gone (10s)"},
	} {
		now = time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC).Add(c.after)
		v.Waiting(c.text)
	}
	v.close()
	want := `waiting for 1 of 2 workers: w-0 Pending
waiting for 1 of 2 workers: w-0 Running (starting)
waiting for 1 of 2 workers: w-0 Running (starting) (1m4s)
waiting for Namespace n to be gone
`
	if said.String() != want {
		t.Errorf("said:\n%s\nwant:\n%s", said.String(), want)
	}
}

func TestANodeWhoseTurnDoesNotComeIsToldAsOne(t *testing.T) {
	var out strings.Builder
	env := testEnv(nil)
	env.Stdout = &out
	j := &validateJob{app: newApp(env), options: &validateOptions{format: outputText, failOn: failOnInconclusive}, papers: &papers{}, plan: &spec.Plan{},
		choice: &graph.Choice{Nodes: []graph.Chosen{{Node: "gpu-0", Workers: 2}, {Node: "gpu-1", Workers: 2}}}}
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(errInterrupted)
	dir := t.TempDir()
	if err := j.fleetOfNodes(ctx, dir); !errors.Is(err, Unmeasured) {
		t.Errorf("%v", err)
	}
	if said := out.String(); !strings.HasPrefix(said, "NOT JUDGED  2 of 2 nodes") || strings.Count(said, "interrupted before its turn") != 2 {
		t.Errorf("it says\n%s", said)
	}
	if all, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(all) != 1 || filepath.Base(all[0]) != fleetFile {
		t.Errorf("there is %q, %v", all, err)
	}
}

const someRun = "20261116-015518-0123456789abcdef"

// What keeps a cluster from being asked has the hint that goes with it, whichever command
// asks first; and one that was never there is not waited for like one that is away.
func TestAClusterThatCannotBeAskedIsToldWithWhatHelps(t *testing.T) {
	forbidden := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"User \"%s\" cannot do it"}`
	for name, c := range map[string]struct {
		spoil func(w *clusterWorld)
		flags []string
		hint  string
	}{
		"not let in": {func(w *clusterWorld) { w.Answer("", http.StatusUnauthorized, "") }, nil, "hint: log in to the cluster again"},
		"nobody": {func(w *clusterWorld) {
			w.Answer("", http.StatusForbidden, strings.ReplaceAll(forbidden, "%s", "system:anonymous"))
		}, nil, "hint: the kubeconfig gives no credentials for this context"},
		"may not":        {func(w *clusterWorld) { w.Answer("", http.StatusForbidden, strings.ReplaceAll(forbidden, "%s", "eve")) }, nil, "hint: 'aicr validate --rbac' prints the roles"},
		"another server": {func(*clusterWorld) {}, []string{"--context", "staging"}, "hint: see whether 'kubectl --context staging version' gets an answer"},
		"not there":      {func(w *clusterWorld) { w.Hang("") }, []string{"--timeout", "9ms"}, "gets an answer"},
	} {
		t.Run(name, func(t *testing.T) {
			w := startCluster(t, "h100-eks")
			c.spoil(w)
			for _, args := range [][]string{{"validate", "--recipe", h100, "--dry-run"}, {"validate", "--attach", someRun}, {"clean", "--dry-run"}} {
				stdout, stderr, code := w.aicr(append(args, c.flags...)...)
				if code != int(Unmeasured) || stdout != "" || !strings.Contains(stderr, c.hint) || strings.Count(stderr, "hint: ") != 1 {
					t.Errorf("%v: code %d, %q, %s", args, code, stdout, stderr)
				}
			}
		})
	}
}

// Where there is nothing to do the reason is said once, and the reports that were asked for
// are written: a pipeline waits for the file.
func TestASkipOnAClusterIsToldOnceAndReported(t *testing.T) {
	w := startCluster(t, "h100-eks")
	w.Serve("resource.k8s.io/v1/ResourceClaim")
	w.allowed("true")
	w.Empty("/apis/nvidia.com/v1alpha1/dynamographdeployments") // of the old runtime
	w.Empty("/apis/apps/v1/deployments")                        // and the old operator
	recipe, junit := filepath.Join(w.dir, "recipe.yaml"), filepath.Join(w.dir, "junit.xml")
	text := `{kind: RecipeMetadata, apiVersion: aicr.run/v1beta1, metadata: {name: bare}, spec: {criteria: {service: eks, accelerator: h100, os: ubuntu, intent: inference}, validation: {performance: {checks: [inference-perf]}}}}`
	if err := os.WriteFile(recipe, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := w.aicr("validate", "--recipe", recipe, "--check", "inference-perf", "-q", "--report", "junit="+junit)
	if want := "SKIP  inference-perf: the recipe wants neither inference-throughput nor inference-ttft-p99, and has no reference\n"; code != 0 || stdout != want {
		t.Errorf("code %d, %q, want %q: %s", code, stdout, want, stderr)
	}
	written, err := os.ReadFile(junit)
	if err != nil || !strings.Contains(string(written), `<property name="verdict" value="SKIP">`) || !strings.Contains(string(written), "<skipped ") {
		t.Errorf("%v, %s", err, written)
	}
	if all := w.wrote(); len(all) > 0 {
		t.Errorf("it wrote: %q", all)
	}
}

// A cluster that lacks what the recipe declares has failed: a pipeline that asks for JSON
// or for a file gets the verdict, and not only an exit code.
func TestAClusterThatLacksWhatIsDeclaredFailsWithAVerdict(t *testing.T) {
	w := startCluster(t, "h100-eks")
	w.Serve("resource.k8s.io/v1/ResourceClaim")
	w.allowed("true")
	w.Empty("/apis/nvidia.com/v1alpha1/dynamographdeployments") // of the old runtime
	w.Empty("/apis/apps/v1/deployments")                        // and the old operator
	w.Empty("/apis/storage.k8s.io/v1/storageclasses")
	for _, kind := range []string{"resourcequotas", "limitranges"} {
		w.Answer("/api/v1/namespaces/aicr-validation/"+kind, http.StatusOK, `{"apiVersion":"v1","kind":"List","items":[]}`)
	}
	junit := filepath.Join(w.dir, "junit.xml")
	stdout, stderr, code := w.aicr("validate", "--recipe", h100, "-o", "json", "--report", "junit="+junit)
	var v spec.Verdict
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != int(Failed) || v.Verdict != spec.Fail || !strings.Contains(v.Reason, "no storage class") {
		t.Errorf("code %d, %v: %s%s", code, err, stdout, stderr)
	}
	if !strings.Contains(stderr, "error: the cluster has no storage class for the model cache\nhint: ") {
		t.Errorf("the hint is not told: %s", stderr)
	}
	if written, err := os.ReadFile(junit); err != nil || !strings.Contains(string(written), `<property name="verdict" value="FAIL">`) {
		t.Errorf("%v, %s", err, written)
	}
	if all := w.wrote(); len(all) > 0 {
		t.Errorf("it wrote: %q", all)
	}
}

// A plan never says that nothing was contacted where the cluster was, nor that it will
// load what nobody can have.
func TestAPlanSaysWhatWasAskedForIt(t *testing.T) {
	in := func(value string) map[string]spec.Input {
		return map[string]spec.Input{"node": {Value: value, From: fromCluster}}
	}
	for want, p := range map[string]spec.Plan{
		"nothing was contacted or loaded":                                          {Inputs: map[string]spec.Input{"node": {Value: "a", From: "flag"}}},
		"on node a; the cluster was asked, and nothing was made or loaded":         {Inputs: in("a")},
		"the cluster was asked, and nothing was made or loaded":                    {Inputs: map[string]spec.Input{"workers": {Value: "2", From: fromCluster}}},
		"no GPU is free, so that a run now would be FAIL; the cluster was asked, ": {Inputs: in(noNode)},
		"no GPU is free, so that a run now would be SKIP; the cluster was asked, ": {Inputs: in(noNode), NoFreeGPUs: spec.NoFreeGPUsSkip},
	} {
		if got := untouched(&p); !strings.HasPrefix(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Two that begin in the same second in the same place have a folder each.
func TestFoldersOfTheSameSecondAreNotShared(t *testing.T) {
	name := filepath.Join(t.TempDir(), "aicr-run-20261116-054240")
	for _, want := range []string{name, name + "-2", name + "-3"} {
		if got := freshFolder(name); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if err := takenFolder(want); err != nil { // an empty one is the run's to fill
			t.Error(err)
		}
	}
}
