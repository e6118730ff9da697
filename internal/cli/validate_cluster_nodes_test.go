package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/kube/kubetest"
	"aicr/internal/spec"
)

// readyWorld is a cluster on which a run could begin, with nodes that are as gpu-b.
func readyWorld(t *testing.T, nodes ...string) *clusterWorld {
	t.Helper()
	w := startCluster(t, "h100-eks")
	w.Serve("resource.k8s.io/v1/ResourceClaim")
	for _, kind := range []string{"resourcequotas", "limitranges"} {
		w.Answer("/api/v1/namespaces/aicr-validation/"+kind, http.StatusOK, `{"kind":"List","apiVersion":"v1","items":[]}`)
	}
	w.Answer("/api/v1/namespaces/aicr-validation", http.StatusOK, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"aicr-validation"}}`)
	w.Empty("/apis/nvidia.com/v1alpha1/dynamographdeployments") // of an old runtime
	w.Empty("/apis/apps/v1/deployments")                        // and an old operator
	w.allowed("true")
	for i, name := range nodes {
		gpus := fmt.Sprint(8 - i)
		w.Add(kubetest.Object{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/hostname": name, "nvidia.com/gpu.present": "true"}},
			"status": map[string]any{"capacity": map[string]any{"cpu": "192", "nvidia.com/gpu": gpus}, "allocatable": map[string]any{"cpu": "191", "nvidia.com/gpu": gpus},
				"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}})
	}
	return w
}

const rivalRun = "20261118-190000-fedcba9876543210"

// reservedBy is the Lease of a node that a run holds.
func reservedBy(node, run string) string {
	lease, _ := json.Marshal(map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": graph.LeaseName(node), "namespace": "aicr-validation", "uid": "1", "resourceVersion": "1",
			"labels": map[string]any{graph.LabelOwner: graph.OwnerValue, graph.LabelRun: run}, "annotations": map[string]any{graph.AnnotationNode: node}},
		"spec": map[string]any{"holderIdentity": run, "leaseDurationSeconds": 600, "acquireTime": "2026-11-18T19:00:00.000000Z", "renewTime": "2026-11-18T19:05:00.000000Z"}})
	return string(lease)
}

const allLeases = "/apis/coordination.k8s.io/v1/leases"

func leaseList(leases ...string) string {
	return `{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","items":[` + strings.Join(leases, ",") + `]}`
}

// validated is a run on the world until it is told what it came to.
func (w *clusterWorld) validated(args ...string) (stdout, stderr string, code int) {
	return w.aicr(append([]string{"validate", "--recipe", h100, "--check", "inference-perf", "--profile", "smoke"}, args...)...)
}

// A node that another run has reserved is not free: who wants it by its name is told at once
// which run has it, and who wants any gets another.
func TestANodeThatIsReservedIsNotFree(t *testing.T) {
	w := readyWorld(t, "gpu-c")
	w.Answer(allLeases, http.StatusOK, leaseList(reservedBy("gpu-b", rivalRun)))
	dir := filepath.Join(w.dir, "run")
	stdout, stderr, code := w.validated("--node", "gpu-b", "--run", dir, "-q")
	if want := "INCONCLUSIVE  inference-perf: node gpu-b is reserved by run " + rivalRun + " since 2026-11-18T19:00:00Z\n"; code != int(Unmeasured) || stdout != want {
		t.Errorf("code %d, %q, want %q: %s", code, stdout, want, stderr)
	}
	if _, stderr, _ = w.validated("--node", "gpu-b"); !strings.Contains(stderr, "validate again when that run has ended") {
		t.Errorf("what to do is not told: %s", stderr)
	}
	stdout, stderr, code = w.validated("--dry-run")
	said := strings.Join(strings.Fields(stdout), " ")
	if code != 0 || !strings.Contains(said, "on node gpu-c; ") || !strings.Contains(said, "Nodes that are not used gpu-a it is not ready") || !strings.Contains(said, "gpu-b it is reserved by run "+rivalRun+" since ") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
	stdout, stderr, code = w.validated("--dry-run", "--node", "gpu-b")
	if code != 0 || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "other runs have the GPUs, so that a run now would be INCONCLUSIVE") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
	if all := w.wrote(); len(all) > 0 {
		t.Errorf("it wrote: %q", all)
	}
}

// A run that loses the race for its node chooses another one, and says so; where each is lost
// the deployment is not at fault, and the reports that were asked for are written.
func TestARunThatLosesItsNodeChoosesAgain(t *testing.T) {
	w := readyWorld(t, "gpu-c")
	const inNamespace = "/apis/coordination.k8s.io/v1/namespaces/aicr-validation/leases"
	w.Answer(allLeases, http.StatusOK, leaseList())
	w.Answer(inNamespace, http.StatusConflict, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409,"message":"it is there"}`)
	for _, node := range []string{"gpu-b", "gpu-c"} {
		w.Answer(inNamespace+"/"+graph.LeaseName(node), http.StatusOK, reservedBy(node, rivalRun))
	}
	ctrf := filepath.Join(w.dir, "ctrf.json")
	stdout, stderr, code := w.validated("-q", "--report", "ctrf="+ctrf)
	if code != int(Unmeasured) || !strings.HasPrefix(stdout, "INCONCLUSIVE  inference-perf: GPUs of node gpu-c were taken meanwhile by run "+rivalRun+", which has it reserved since 2026-11-18T19:00:00Z; node gpu-b is reserved by run "+rivalRun) {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	_, stderr, _ = w.validated()
	if want := "GPUs of node gpu-b were taken meanwhile by run " + rivalRun; strings.Count(stderr, want) != 1 || !strings.Contains(stderr, "; choosing again\n") {
		t.Errorf("it does not say once that it chooses again: %s", stderr)
	}
	var report struct {
		Results struct {
			Summary struct{ Tests, Failed, Passed int }
		}
	}
	if text := string(readFile(t, ctrf)); json.Unmarshal([]byte(text), &report) != nil || report.Results.Summary.Tests == 0 || report.Results.Summary.Passed > 0 || report.Results.Summary.Failed > 0 {
		t.Errorf("%s", text)
	}
}

// A dry run of a fleet plans every node, with what its turn costs, and says which nodes keep
// it from a PASS.
func TestADryRunOfAFleetPlansEveryNode(t *testing.T) {
	w := readyWorld(t, "gpu-c", "gpu-d")
	stdout, stderr, code := w.validated("--dry-run", "--nodes", "all")
	said := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{"on 3 nodes, one after the other; the cluster was asked", "gpu-b 8 workers device-plugin", "gpu-c 8 workers device-plugin", "gpu-d 7 workers device-plugin", "all 23 workers",
		"not validated, so that the fleet cannot PASS: gpu-a (it is not ready); --node-selector leaves nodes out on purpose"} {
		if code != 0 || !strings.Contains(said, want) {
			t.Errorf("code %d, there is no %q in:\n%s%s", code, want, stdout, stderr)
		}
	}
	stdout, stderr, code = w.validated("--dry-run", "--nodes", "all", "-o", "json", "--node-selector", "kubernetes.io/hostname!=gpu-a")
	var p spec.Plan
	if err := json.Unmarshal([]byte(stdout), &p); err != nil || code != 0 || len(p.Nodes) != 3 || p.Nodes[2].Workers != 7 || p.Nodes[2].Cost.WorstGPUMinutes >= p.Nodes[0].Cost.WorstGPUMinutes {
		t.Errorf("code %d, %v: %+v, %s", code, err, p.Nodes, stderr)
	}
	if stdout, _, _ := w.validated("--dry-run", "--nodes", "all", "--node-selector", "kubernetes.io/hostname!=gpu-a"); strings.Contains(stdout, "cannot PASS") {
		t.Errorf("a node that was left out on purpose counts:\n%s", stdout)
	}
	if all := w.wrote(); len(all) > 0 {
		t.Errorf("it wrote: %q", all)
	}
}

// Nodes that a run of every node does not go to count, unless the selector leaves them out.
func TestWhichNodesAreLeftOutOnPurpose(t *testing.T) {
	nodes := []kube.GPUNode{
		{Name: "a", Ready: true, Schedulable: true, Plugin: 2, Labels: map[string]string{"pool": "a"}},
		{Name: "b", Schedulable: true, Plugin: 2, Labels: map[string]string{"pool": "a"}},
		{Name: "c", Ready: true, Plugin: 2, Labels: map[string]string{"pool": "b"}},
		{Name: "d", Ready: true, Schedulable: true, Plugin: 2, Labels: map[string]string{"pool": "a"}, PluginHeld: []kube.Holder{{Kind: "Pod", Namespace: "team", Name: "train", GPUs: 2}}},
	}
	for name, c := range map[string]struct {
		wish graph.Wish
		want string
	}{
		"all":             {graph.Wish{Nodes: graph.AllNodes}, "b c d"},
		"all of a pool":   {graph.Wish{Nodes: graph.AllNodes, Selector: graph.Selector{{Key: "pool", Value: "a"}}}, "b d"},
		"as many as said": {graph.Wish{Nodes: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			choice, err := graph.Choose(nodes, c.wish)
			if err != nil {
				t.Fatal(err)
			}
			j := &validateJob{options: &validateOptions{on: clusterOptions{wish: c.wish}}, choice: choice}
			var counts []string
			for _, p := range j.passedBy() {
				if !p.LeftOut {
					counts = append(counts, p.Node)
				}
			}
			if got := strings.Join(counts, " "); got != c.want || (j.missing() == "") != (c.want == "") {
				t.Errorf("%q (%s), want %q", got, j.missing(), c.want)
			}
		})
	}
}

// What is set for the resources of pods is in the plan, and is read before the cluster is asked.
func TestResourcesOfPodsAreReadWithThePlan(t *testing.T) {
	w := readyWorld(t)
	w.env = map[string]string{spec.KnobWorkerResources: "cpu=4,memory=16Gi"}
	stdout, stderr, code := w.validated("--dry-run")
	if said := strings.Join(strings.Fields(stdout), " "); code != 0 || !strings.Contains(said, spec.KnobWorkerResources+" cpu=4,memory=16Gi env") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	w.env = map[string]string{spec.KnobLoadResources: "requests.cpu=4,limits.cpu=2", spec.KnobJobResources: "memory=16"}
	before := len(w.Requests())
	_, stderr, code = w.validated("--dry-run")
	if code != int(Misused) || !strings.Contains(stderr, "error: "+spec.KnobLoadResources+": requests.cpu is 4, above limits.cpu of 2\nhint: ") || !strings.Contains(stderr, spec.KnobJobResources+": requests.memory is 16 bytes") {
		t.Errorf("code %d, %s", code, stderr)
	}
	if len(w.Requests()) != before {
		t.Error("the cluster was asked")
	}
}

// Of a fleet, what was not validated is in the words, in fleet.json and in the exit code.
func TestAFleetSaysWhatWasNotValidated(t *testing.T) {
	var out, said strings.Builder
	env := testEnv(nil)
	env.Stdout, env.Stderr = &out, &said
	j := &validateJob{app: newApp(env), options: &validateOptions{format: outputText, failOn: failOnInconclusive, on: clusterOptions{wish: graph.Wish{Nodes: graph.AllNodes}}}, papers: &papers{}, plan: &spec.Plan{},
		choice: &graph.Choice{Nodes: []graph.Chosen{{Node: "gpu-0", Workers: 2}}, Rejected: []graph.Rejected{{Node: "gpu-1", Reason: "it is not ready"}}}}
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(errInterrupted)
	dir := t.TempDir()
	if err := j.fleetOfNodes(ctx, dir); err == nil {
		t.Error("it ends with 0")
	}
	if !strings.Contains(said.String(), "not validated, so that the fleet cannot PASS: gpu-1 (it is not ready)") {
		t.Errorf("it is not told before: %s", said.String())
	}
	var f spec.FleetVerdict
	if err := json.Unmarshal(readFile(t, dir, fleetFile), &f); err != nil || len(f.Passed) != 1 || f.Passed[0].LeftOut || !strings.Contains(f.Reason, "1 of 2 nodes with GPUs not validated: gpu-1 (it is not ready)") {
		t.Errorf("%v %+v", err, f)
	}
}

// With --fail-early a fleet that cannot pass ends before anything is made, and a run whose
// recipe declares what cannot be run does too.
func TestARunOnAClusterThatCannotPassEndsEarly(t *testing.T) {
	w := readyWorld(t, "gpu-c") // of h100-eks, gpu-a is not ready
	stdout, stderr, code := w.validated("--nodes", "all", "--fail-early", "--run", filepath.Join(w.dir, "fleet"), "-o", "json")
	var f spec.FleetVerdict
	if err := json.Unmarshal([]byte(stdout), &f); err != nil || code != int(Unmeasured) || f.Verdict != spec.Inconclusive || len(f.Nodes) != 2 {
		t.Errorf("code %d, %v, %s%s", code, err, stdout, stderr)
	}
	for _, n := range f.Nodes {
		if n.Verdict != spec.Inconclusive || n.Reason != "ended before its load, since the fleet could not pass" {
			t.Errorf("%s is %s: %s", n.Node, n.Verdict, n.Reason)
		}
	}
	dir := filepath.Join(w.dir, "run")
	stdout, stderr, code = w.aicr("validate", "--recipe", h100, "--profile", "smoke", "--fail-early", "--run", dir, "-o", "json")
	var v spec.Verdict
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != int(Failed) || v.Verdict != spec.Fail || len(v.Checks) != 16 { // the operator is gone
		t.Errorf("code %d, %v, %s%s", code, err, stdout, stderr)
	}
	if want := "this run cannot PASS: the recipe declares checks that this run cannot pass: "; !strings.Contains(stderr, want) {
		t.Errorf("no %q in %s", want, stderr)
	}
	if _, written := verdictIn(t, dir); string(written) != stdout {
		t.Errorf("kept:\n%s\nprinted:\n%s", written, stdout)
	}
	if again, code := rejudged(t, dir); string(again) != stdout || code != int(Failed) {
		t.Errorf("aicr judge: code %d\n%s\nwant\n%s", code, again, stdout)
	}
	if all := w.wrote(); len(all) > 0 {
		t.Errorf("it wrote: %q", all)
	}
}

// Where others hold every GPU the run is FAIL at once, with who they are, however the GPUs
// are handed out and however many nodes are asked for; a recipe can say that it is SKIP.
func TestGPUsThatOthersHoldFailTheRun(t *testing.T) {
	shared := writtenRecipe(t, `{kind: RecipeMetadata, apiVersion: aicr.run/v1beta1, metadata: {name: shared}, spec: {base: h100-eks-ubuntu-inference-dynamo,
  criteria: {service: eks, accelerator: h100, os: ubuntu, intent: inference, platform: dynamo}, validation: {performance: {verdict: {noFreeGPUs: skip}}}}}`)
	w := readyWorld(t, "gpu-c")
	for node, gpus := range map[string]string{"gpu-b": "8", "gpu-c": "8"} {
		w.Add(kubetest.Object{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "train-" + node, "namespace": "team"}, "status": map[string]any{"phase": "Running"},
			"spec": map[string]any{"nodeName": node, "containers": []any{map[string]any{"name": "a", "resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": gpus},
				"requests": map[string]any{"nvidia.com/gpu": gpus}}}}}})
	}
	for name, c := range map[string]struct {
		args []string
		code Code
		want spec.State
	}{
		"any node":             {nil, Failed, spec.Fail},
		"one by its name":      {[]string{"--node", "gpu-b"}, Failed, spec.Fail},
		"two of them":          {[]string{"--nodes", "2"}, Failed, spec.Fail},
		"all of them":          {[]string{"--nodes", "all"}, Failed, spec.Fail},
		"a shared cluster":     {[]string{"--recipe", shared}, Passed, spec.Skip},
		"and all of its nodes": {[]string{"--recipe", shared, "--nodes", "all"}, Passed, spec.Skip},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			stdout, stderr, code := w.validated(append([]string{"--run", dir, "-o", "json"}, c.args...)...)
			var v spec.Verdict
			if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != int(c.code) || v.Verdict != c.want || !strings.Contains(v.Reason, "pod team/train-gpu-b (8)") {
				t.Fatalf("code %d, %v, %s%s", code, err, stdout, stderr)
			}
			if again, code := rejudged(t, dir); string(again) != stdout || code != int(c.code) {
				t.Errorf("aicr judge: code %d\n%s\nwant\n%s", code, again, stdout)
			}
		})
	}
	if all := w.wrote(); len(all) > 0 {
		t.Errorf("it wrote: %q", all)
	}
}
