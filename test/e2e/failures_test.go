//go:build linux

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// failing is a cluster with a node for each start that fails at a time, and one on which
// all of their loads have room. Nobody has an image of AIPerf there.
const failing = `
nodes:
  - {name: gpu-0, gpus: 2}
  - {name: gpu-1, gpus: 2}
  - {name: gpu-2, gpus: 2}
  - {name: gpu-3, gpus: 2}
  - {name: gpu-4, gpus: 2}
  - {name: cpu-0, gpus: 0, cpu: "64"}
kai: true
aicr: PROGRAM
venv: none
`

// A start that fails has to be known for one in a small share of the time that it has.
const (
	readyWithin = 12 * time.Minute
	failShare   = 8
)

// canary is a token that must be found nowhere but in its Secret. It is a mirror's, and
// looks like none that anybody would know by its looks.
const canary = "e2eCanaryQxZvWkRtYpLmNbHsDf"

// othersImage is one that the sandbox has, without this program in it.
const othersImage = "busybox:9.9.9"

// recipe is what is wanted of the sandbox, for its users as well.
const recipe = "../../sandbox/recipe.yaml"

// failure is a start that fails.
type failure struct {
	faults    string   // of the node
	env       []string // of the command
	args      []string
	meanwhile func(ctx context.Context, c *cluster, node, run string) error

	verdict spec.State
	code    int
	finding string   // the only one, or ""
	says    []string // in the finding, or on stderr where there is none
	worker  bool     // it names workers, by their pods
	others  bool     // or not: another part of the graph has the same trouble, and may be first
	index   string   // in the first lines of the diagnostics, below the verdict
	kept    []string // files of the diagnostics, as patterns
}

var failures = map[string]failure{
	"an image of the model's cache that nobody has": {
		env:     []string{spec.KnobRegistry + "=registry.nobody.example"},
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed",
		says:  []string{"an image cannot be pulled", "registry.nobody.example", "NotFound", "aicr-model-cache-populate-"},
		index: "ImagePullBackOff", kept: []string{"pod-*.yaml", "events.txt", "job-populate.yaml", "node.txt"},
	},
	"an image of the workers that nobody has": {
		env:     []string{spec.KnobRegistry + "=registry.nobody.example", spec.KnobCacheSize + "=off"},
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed", worker: true, others: true,
		says:  []string{"an image cannot be pulled", "registry.nobody.example", "NotFound"},
		index: "ImagePullBackOff", kept: []string{"graph.yaml", "claim-*.yaml"},
	},
	"workers that crash": {
		faults:  "crash-loop",
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed", worker: true,
		says:  []string{"a container crashes", "CUDA error: no kernel image", "log of aicr-inference-perf-0-vllmdecodeworker-", "Traceback"},
		index: "CrashLoopBackOff", kept: []string{"log-*-previous.txt", "pod-*.yaml", "graph.yaml"},
	},
	"workers that are killed for memory": {
		faults:  "oom,slow-start=10s", // or they would be ready before
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed", worker: true,
		says:  []string{"killed for its memory", "OOMKilled", "limit"},
		index: "OOMKilled", kept: []string{"log-*-previous.txt"},
	},
	"workers that were ready and are killed before they have answered": {
		faults:  "no-answer,oom=7s",
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed", worker: true,
		says:  []string{"killed for its memory", "OOMKilled"},
		index: "OOMKilled",
	},
	"workers that are put out": {
		faults:  "evict,slow-start=10s",
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed", worker: true,
		says:  []string{"put out of its node", "low on resource: memory"},
		index: "Evicted", kept: []string{"pod-*.yaml"},
	},
	"a node that is cordoned after it was chosen": {
		faults: "slow-populate=10m", meanwhile: cordon,
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed", worker: true,
		says:  []string{"no node takes a pod", "NODE: ", "were unschedulable", "the node is cordoned", "other: didn't match Pod's node affinity"},
		index: "Unschedulable", kept: []string{"node.txt", "graph.yaml"},
	},
	"GPUs that somebody takes after they were chosen": {
		faults: "slow-populate=10m", meanwhile: takeGPUs,
		verdict: spec.Inconclusive, code: 3,
		says:  []string{"GPUs of node NODE were taken meanwhile by claim " + others + "/training-NODE (2)"},
		index: "were taken meanwhile", kept: []string{"node.txt", "claim-*.yaml"},
	},
	"a DRA plugin that is stale": {
		faults:  "dra-stale",
		verdict: spec.Invalid, code: 3, finding: "cluster/dra-stale", worker: true,
		says:  []string{"empty device edits", "restart the driver, then the DRA kubelet plugin, then check that GPUs are allocatable"},
		index: "FailedPrepareDynamicResources", kept: []string{"claim-*.yaml", "events.txt"},
	},
	"a queue that is gone": {
		faults: "slow-start=2m", meanwhile: dropQueue,
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed",
		says:  []string{"queue is missing", "queue 'aicr-inference-perf-", "not found"},
		index: "QueueMissing", kept: []string{"graph.yaml"},
	},
	"a graph that the operator cannot make": {
		args:    []string{"--toleration", denied + "=podcliquesets"},
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed",
		says:  []string{"operator cannot make the graph", "failed_to_reconcile_the_resources", "no sets on a Friday"},
		index: "GraphFailed", kept: []string{"graph.yaml"},
	},
	"cliques that a policy refuses": { // of which the graph says nothing
		env: []string{spec.KnobCacheSize + "=off"}, args: []string{"--toleration", denied + "=podcliques"},
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed",
		says:  []string{"Grove cannot make the pods of the graph", "PodCliqueSet aicr-inference-perf", "no cliques on a Friday", "kubectl get validatingadmissionpolicy refuse-podcliques"},
		index: "GroveFailed", kept: []string{"graph.yaml", "cliqueset-*.yaml", "events.txt"},
	},
	"pods that a policy refuses": {
		env: []string{spec.KnobCacheSize + "=off"}, args: []string{"--toleration", denied + "=pods"},
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed",
		says:  []string{"the cluster refuses a pod", "no pods on a Friday", "PodClique aicr-inference-perf-0-", "made by Grove for the graph", "ERR_CREATE_POD: "},
		index: "PodRefused", kept: []string{"graph.yaml", "clique-*.yaml", "events.txt"},
	},
	"a discovery that panicked": {
		faults:  "discovery-panic",
		verdict: spec.Fail, code: 1, finding: "config/discovery-panic",
		says:  []string{"never serves", "Unfold must not be polled", "aicr-inference-perf-0-frontend-"},
		index: "DiscoveryPanic", kept: []string{"log-*frontend*.txt"},
	},
	"a volume that nobody makes": {
		env:     []string{spec.KnobCacheClass + "=" + byHand},
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed",
		says:  []string{"volume for the model is not bound", "storage class " + byHand, "aicr-model-cache"},
		index: "VolumeUnbound", kept: []string{"volume.yaml"},
	},
	"a model that cannot be fetched": {
		faults:  "populate-fail",
		verdict: spec.Fail, code: 1, finding: "cluster/pods-failed",
		says:  []string{"could not be fetched", "401 Client Error", "aicr-model-cache-populate-", "signed in to the mirror as ***"},
		index: "PopulateFailed", kept: []string{"log-aicr-model-cache-populate-*.txt", "job-populate.yaml"},
	},
	"a frontend that never answers": {
		faults: "no-answer", env: []string{spec.KnobHealthTimeout + "=15s"},
		verdict: spec.Fail, code: 1, finding: "start/timeout",
		says:  []string{"never served", "not ready to serve"},
		index: "never served", kept: []string{"pod-*frontend*.yaml", "job-load.yaml"},
	},
	"an image of the load that nobody has": { // known before anything serves
		faults:  "slow-start=4m",
		args:    []string{"--image", "registry.nobody.example/aicr/aicr:9.9.9"},
		verdict: spec.Invalid, code: 3, finding: "cluster/pods-failed",
		says:  []string{"the load could not begin: an image cannot be pulled", "-trial-", "registry.nobody.example/aicr/aicr"},
		index: "ImagePullBackOff", kept: []string{"pod-aicr-load-*-trial-*.yaml", "job-trial.yaml", "events-load.txt"},
	},
	"an image of AIPerf that nobody has": {
		faults:  "slow-start=4m",
		args:    []string{"--engine", "aiperf", "--profile", "classic"},
		verdict: spec.Invalid, code: 3, finding: "cluster/pods-failed",
		says:  []string{"the load could not begin: an image cannot be pulled", "-trial-", "ai-dynamo/aiperf"},
		index: "ImagePullBackOff", kept: []string{"pod-aicr-load-*-trial-*.yaml", "job-trial.yaml", "events-load.txt", "job-populate.yaml"},
	},
	"workers that are killed under load": { // and are back at once: nothing else tells of it
		meanwhile: starveWorkers,
		verdict:   spec.Fail, code: 1, finding: "worker/absent", worker: true,
		says:  []string{"ended during the run", "was started anew", "exit code 137 (OOMKilled)"},
		index: "ended during the run", kept: []string{"log-*-previous.txt"},
	},
	"an image of another program for the load": {
		faults:  "slow-start=4m",
		args:    []string{"--image", othersImage},
		verdict: spec.Invalid, code: 3, finding: "cluster/pods-failed",
		says:  []string{"the load could not begin", "the image does not run as the load", "--image names it", othersImage},
		index: "does not run as the load", kept: []string{"pod-aicr-load-*-trial-*.yaml", "job-trial.yaml"},
	},
	"a graph that somebody deletes under load": {
		meanwhile: deleteGraph,
		verdict:   spec.Inconclusive, code: 3, finding: "cluster/removed",
		says:  []string{"DynamoGraphDeployment aicr-inference-perf-", "was deleted under load, and not by this run"},
		index: "was deleted under load", kept: []string{"job-load.yaml"},
	},
	"a load that is killed for memory": {
		meanwhile: starveLoad,
		verdict:   spec.Invalid, code: 3,
		says:  []string{"the load came to no result", "killed for its memory, limit 4Gi"},
		index: "OOMKilled", kept: []string{"pod-aicr-load-*.yaml", "job-load.yaml"},
	},
	"a load whose pod is deleted": {
		meanwhile: deleteLoad,
		verdict:   spec.Invalid, code: 3,
		says:  []string{"the load came to no result", "was deleted while it ran"},
		index: "was deleted while it ran", kept: []string{"job-load.yaml"},
	},
}

// TestAStartThatFails holds each way in which a start fails against what is said of it,
// how soon, what is kept, and what is left. They fail side by side, so that they also
// have to leave each other alone.
func TestAStartThatFails(t *testing.T) {
	t.Parallel()
	c := startCluster(t, failing)
	c.make(t, storageClasses, kube.Object{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": map[string]any{"name": byHand}, "provisioner": "kubernetes.io/no-provisioner"})
	c.make(t, namespaces, kube.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": others}})
	c.deny(t, "podcliquesets", "grove.io", "object.spec.template.cliques[0].spec.podSpec", "no sets on a Friday")
	c.deny(t, "podcliques", "grove.io", "object.spec.podSpec", "no cliques on a Friday")
	c.deny(t, "pods", "", "object.spec", "no pods on a Friday")
	before := c.asItIs(t)
	t.Run("an image whose name is none", func(t *testing.T) { // refused before anything is made
		o := c.run(t, nil, slices.Concat([]string{"validate", "--recipe", recipe, "--image", "registry.example/AICR/aicr"}, short)...)
		if o.code != 2 || !strings.Contains(o.stderr, "is no image reference") {
			t.Errorf("want it to be refused\n%s", o)
		}
		c.settled(t, before)
	})
	watched := c.watchForSecret(t)
	free := make(chan string, 5)
	for i := range cap(free) {
		free <- fmt.Sprintf("gpu-%d", i)
	}
	var all sync.WaitGroup
	node := <-free
	all.Go(func() { // it takes longest
		t.Run("a finalizer that is stuck", func(t *testing.T) { c.stuck(t, node) })
		free <- node
	})
	for name, f := range failures {
		all.Go(func() {
			node := <-free
			t.Run(name, func(t *testing.T) { c.fails(t, node, &f) })
			free <- node
		})
	}
	all.Wait()
	watched()
	c.settled(t, before)
}

// fails provokes a failure on a node, and looks at all that came of it.
func (c *cluster) fails(t *testing.T, node string, f *failure) {
	if f.faults != "" {
		c.annotate(t, node, map[string]string{faultsAnnotation: f.faults})
	}
	o := c.begin(t, node, f)
	at := func(text string) string { return strings.ReplaceAll(text, "NODE", node) }
	if o.verdict == nil || o.verdict.Verdict != f.verdict || o.code != f.code {
		t.Fatalf("want %s and exit %d\n%s", f.verdict, f.code, o)
	}
	told := o.stderr
	if f.finding != "" {
		if got := ids(o.verdict); !slices.Equal(got, []string{f.finding}) {
			t.Fatalf("found %q, want %s alone\n%s", got, f.finding, o)
		}
		one := o.verdict.Findings[0]
		told = strings.Join(slices.Concat([]string{one.Summary}, one.Evidence, one.Advice), "\n")
		if named := len(one.Workers) > 0; named != f.worker && !f.others {
			t.Errorf("workers %q are named\n%s", one.Workers, o)
		}
		for _, worker := range one.Workers {
			if _, err := os.Stat(filepath.Join(o.dir, "diagnostics", "pod-"+worker+".yaml")); err != nil {
				t.Errorf("worker %q is no pod of the graph: %v", worker, err)
			}
		}
	}
	for _, word := range f.says {
		if !strings.Contains(told, at(word)) {
			t.Errorf("%q is not said:\n%s\n%s", at(word), told, o)
		}
	}
	o.soon(t)
	o.diagnosed(t, f)
	o.withoutSecret(t)
}

// begin validates on a node, while something happens to it.
func (c *cluster) begin(t *testing.T, node string, f *failure) *outcome {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir := filepath.Join(t.TempDir(), "run")
	var happens sync.WaitGroup
	if f.meanwhile != nil {
		happens.Go(func() {
			var run spec.Run
			err := eventually(ctx, func() (bool, error) {
				data, err := os.ReadFile(filepath.Join(dir, "run.json"))
				return err == nil && json.Unmarshal(data, &run) == nil, nil
			})
			if err == nil {
				err = f.meanwhile(ctx, c, node, run.ID)
			}
			if err != nil {
				t.Errorf("what was to happen meanwhile: %v", err)
			}
		})
	}
	env := append([]string{"HF_TOKEN=" + canary, spec.KnobReadyTimeout + "=" + readyWithin.String(), spec.KnobPopulateTimeout + "=" + readyWithin.String()}, f.env...)
	args := slices.Concat([]string{"validate", "--run", dir, "--recipe", recipe, "--node", node, "--report", "html=" + dir + ".html"}, short, f.args)
	o := c.run(t, env, args...)
	cancel()
	happens.Wait()
	o.dir, o.verdict = dir, verdictIn(t, dir)
	return o
}

// soon wants a start that fails to be given up early.
func (o *outcome) soon(t *testing.T) {
	t.Helper()
	for _, e := range o.events(t) {
		if e.Kind == spec.EventNotServed && e.T > readyWithin.Seconds()/failShare {
			t.Errorf("it took %.0f s of %s to know that it fails", e.T, readyWithin)
		}
	}
}

// events are what is recorded of a run.
func (o *outcome) events(t *testing.T) (all []spec.Event) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(o.dir, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var e spec.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// diagnosed wants what was there to be kept, the answer first.
func (o *outcome) diagnosed(t *testing.T, f *failure) {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(o.dir, "diagnostics", "index.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(string(index), "\n\n"); !strings.HasPrefix(first, string(f.verdict)+": ") || !strings.Contains(first, f.index) {
		t.Errorf("the diagnostics do not begin with %q:\n%s", f.index, index)
	}
	for _, pattern := range f.kept {
		if found, err := filepath.Glob(filepath.Join(o.dir, "diagnostics", pattern)); err != nil || len(found) == 0 {
			t.Errorf("no %s in the diagnostics: %v\n%s", pattern, err, index)
		}
	}
}

// withoutSecret looks for the token in all that a run has written.
func (o *outcome) withoutSecret(t *testing.T) {
	t.Helper()
	if strings.Contains(o.stdout+o.stderr, canary) {
		t.Errorf("the token is printed\n%s", o)
	}
	err := filepath.WalkDir(filepath.Dir(o.dir), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := contents(path)
		if bytes.Contains(data, []byte(canary)) {
			t.Errorf("the token is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// watchForSecret looks for the token in everything that is on the cluster and no Secret,
// until it is told to stop.
func (c *cluster) watchForSecret(t *testing.T) (stop func()) {
	kinds := slices.DeleteFunc(slices.Clone(c.listable), func(r kube.Resource) bool {
		return !slices.Contains([]string{"pods", "configmaps", "jobs", "deployments", "replicasets", "dynamographdeployments", "podcliquesets", "podcliques"}, r.Name)
	})
	ctx, cancel := context.WithCancel(t.Context())
	seen, secrets := 0, 0
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			for _, r := range kinds {
				all, _ := c.api.List(ctx, r, "", "") // what is not seen now is seen a second later
				for _, o := range all {
					if data, err := json.Marshal(o); err != nil || strings.Contains(string(data), canary) {
						t.Errorf("the token is in %s %s/%s: %v", r.Name, o.Namespace(), o.Name(), err)
					}
					if o.Labels()[graph.LabelOwner] == graph.OwnerValue {
						seen++
					}
				}
			}
			all, _ := c.api.List(ctx, kube.Resource{Version: "v1", Name: "secrets"}, "", graph.LabelOwner+"="+graph.OwnerValue)
			secrets += len(all)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
		if seen == 0 || secrets == 0 {
			t.Errorf("%d objects and %d Secrets of runs were seen: there was nothing to look at", seen, secrets)
		}
	}
}

// stuck has the graph's finalizer never done: that is told, with the command that helps,
// and `aicr clean` removes the rest once it is.
func (c *cluster) stuck(t *testing.T, node string) {
	c.annotate(t, node, map[string]string{faultsAnnotation: "stuck-finalizer,crash-loop"})
	o := c.begin(t, node, &failure{env: []string{spec.KnobCacheSize + "=off"}})
	if o.verdict == nil || o.verdict.Verdict != spec.Fail || o.code != 1 {
		t.Fatalf("want FAIL and exit 1: what is left does not change a verdict\n%s", o)
	}
	run := o.id(t)
	names := graph.NamesOf(run)
	fix := "kubectl patch dynamographdeployments.nvidia.com " + names.Graph + " -n " + names.Namespace + ` --type=merge -p '{"metadata":{"finalizers":null}}'`
	for _, word := range []string{"DynamoGraphDeployment " + names.Namespace + "/" + names.Graph + " is left on the cluster", "nvidia.com/finalizer is not done", fix} {
		if !strings.Contains(o.stderr, word) {
			t.Errorf("%q is not said\n%s", word, o)
		}
	}
	o.withoutSecret(t)

	unstick := map[string]any{"metadata": map[string]any{"annotations": map[string]any{faultsAnnotation: nil}}}
	if _, err := c.api.Patch(t.Context(), nodes, "", node, unstick); err != nil {
		t.Fatal(err)
	}
	cleaned := c.run(t, nil, "clean", "--run", run)
	if cleaned.code != 0 || !strings.Contains(cleaned.stdout+cleaned.stderr, names.Kept) {
		t.Errorf("want it to be removed\n%s", cleaned)
	}
	if _, err := c.api.Read(t.Context(), namespaces, "", names.Namespace); !kube.IsNotFound(err) {
		t.Errorf("namespace %s after clean: %v\n%s", names.Namespace, err, cleaned)
	}
	if again := c.run(t, nil, "clean", "--run", run); again.code != 0 {
		t.Errorf("cleaning what is clean\n%s", again)
	}
}

// id is that of a run.
func (o *outcome) id(t *testing.T) string {
	t.Helper()
	var run spec.Run
	data, err := os.ReadFile(filepath.Join(o.dir, "run.json"))
	if err == nil {
		err = json.Unmarshal(data, &run)
	}
	if err != nil {
		t.Fatal(err)
	}
	return run.ID
}

const (
	others = "others"      // namespace of those who are not us
	byHand = "by-hand"     // storage class whose volumes nobody makes
	denied = "e2e/refused" // toleration by which a policy knows what to refuse
)

var (
	namespaces     = kube.Resource{Version: "v1", Name: "namespaces"}
	pods           = kube.Resource{Version: "v1", Name: "pods"}
	claims         = kube.Resource{Group: "resource.k8s.io", Version: "v1", Name: "resourceclaims"}
	queues         = kube.Resource{Group: "scheduling.run.ai", Version: "v2", Name: "queues"}
	storageClasses = kube.Resource{Group: "storage.k8s.io", Version: "v1", Name: "storageclasses"}
	policies       = kube.Resource{Group: "admissionregistration.k8s.io", Version: "v1", Name: "validatingadmissionpolicies"}
	bindings       = kube.Resource{Group: "admissionregistration.k8s.io", Version: "v1", Name: "validatingadmissionpolicybindings"}
)

// make makes an object of somebody else.
func (c *cluster) make(t *testing.T, r kube.Resource, o kube.Object) {
	t.Helper()
	c.noteTheirs(r, o)
	if _, err := c.api.Create(t.Context(), r, o); err != nil {
		t.Fatal(err)
	}
}

// deny has a policy refuse what tolerates that it does, and waits until it is in force.
func (c *cluster) deny(t *testing.T, resource, group, pod, message string) {
	t.Helper()
	name := "refuse-" + resource
	tolerates := fmt.Sprintf("has(%[1]s.tolerations) && %[1]s.tolerations.exists(t, has(t.key) && t.key == '%[2]s' && has(t.value) && t.value == '%[3]s')", pod, denied, resource)
	c.make(t, policies, kube.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": name}, "spec": map[string]any{
		"failurePolicy": "Fail",
		"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
			"apiGroups": []any{group}, "apiVersions": []any{"*"}, "operations": []any{"CREATE"}, "resources": []any{resource}}}},
		"validations": []any{map[string]any{"expression": "!(" + tolerates + ")", "message": message}},
	}})
	c.make(t, bindings, kube.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": map[string]any{"name": name}, "spec": map[string]any{
		"policyName": name, "validationActions": []any{"Deny"}}})
	inside := map[string]any{"tolerations": []any{map[string]any{"key": denied, "value": resource}}, "containers": []any{map[string]any{"name": "a", "image": "a"}}}
	one := kube.Object{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": "default"}, "spec": inside}
	switch resource {
	case "podcliques":
		one["apiVersion"], one["kind"], one["spec"] = "grove.io/v1alpha1", "PodClique", map[string]any{"podSpec": inside}
	case "podcliquesets":
		cliques := []any{map[string]any{"name": "a", "spec": map[string]any{"podSpec": inside}}}
		one["apiVersion"], one["kind"], one["spec"] = "grove.io/v1alpha1", "PodCliqueSet", map[string]any{"template": map[string]any{"cliques": cliques}}
	case "deployments":
		labels := map[string]any{"app": name}
		one["apiVersion"], one["kind"] = "apps/v1", "Deployment"
		one["spec"] = map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": inside}}
	}
	var said []byte
	err := eventually(t.Context(), func() (bool, error) {
		text, err := json.Marshal(one)
		if err != nil {
			return false, err
		}
		cmd := exec.Command(sandbox, "kubectl", "--kubeconfig", c.kubeconfig, "create", "--dry-run=server", "-f", "-")
		cmd.Stdin = bytes.NewReader(text)
		said, err = cmd.CombinedOutput()
		return err != nil && bytes.Contains(said, []byte(message)), nil
	})
	if err != nil {
		t.Fatalf("nobody refuses %s: %v\n%s", resource, err, said)
	}
}

// eventually waits until something is so.
func eventually(ctx context.Context, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it did not come about"))
	defer cancel()
	for {
		if done, err := so(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// appears waits until an object is there.
func (c *cluster) appears(ctx context.Context, r kube.Resource, namespace, name string) error {
	return eventually(ctx, func() (bool, error) {
		_, err := c.api.Read(ctx, r, namespace, name)
		if kube.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// populating waits until the model of a run is being fetched: its node is chosen by then,
// and its GPUs are not taken.
func (c *cluster) populating(ctx context.Context, run string) error {
	names := graph.NamesOf(run)
	return eventually(ctx, func() (bool, error) {
		all, err := c.api.List(ctx, pods, names.Namespace, "batch.kubernetes.io/job-name="+names.Populate)
		return len(all) > 0 && all[0].Text("status", "phase") == "Running", err
	})
}

// populated lets the model be fetched at last.
func (c *cluster) populated(ctx context.Context, node string) error {
	_, err := c.api.Patch(ctx, nodes, "", node, kube.Object{"metadata": map[string]any{"annotations": map[string]any{faultsAnnotation: nil}}})
	return err
}

func cordon(ctx context.Context, c *cluster, node, run string) error {
	if err := c.populating(ctx, run); err != nil {
		return err
	}
	set := func(ctx context.Context, to any) error {
		_, err := c.api.Patch(ctx, nodes, "", node, kube.Object{"spec": map[string]any{"unschedulable": to}})
		return err
	}
	if err := set(ctx, true); err != nil {
		return err
	}
	if err := c.populated(ctx, node); err != nil {
		return err
	}
	<-ctx.Done()
	return set(context.WithoutCancel(ctx), nil)
}

func takeGPUs(ctx context.Context, c *cluster, node, run string) error {
	if err := c.populating(ctx, run); err != nil {
		return err
	}
	if err := c.hold(ctx, node, 2); err != nil {
		return err
	}
	if err := c.populated(ctx, node); err != nil {
		return err
	}
	<-ctx.Done()
	return c.letGo(context.WithoutCancel(ctx), node)
}

// hold has somebody else claim GPUs of a node.
func (c *cluster) hold(ctx context.Context, node string, gpus int) error {
	name := "training-" + node
	claim := kube.Object{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": map[string]any{"name": name, "namespace": others},
		"spec": map[string]any{"devices": map[string]any{"requests": []any{map[string]any{"name": "gpus", "exactly": map[string]any{"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": int64(gpus)}}}}}}
	c.noteTheirs(claims, claim)
	_, err := c.api.Create(ctx, claims, claim)
	if err != nil {
		return err
	}
	_, err = c.api.Create(ctx, pods, kube.Object{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": others}, "spec": map[string]any{
		"nodeSelector":                  map[string]any{"kubernetes.io/hostname": node},
		"terminationGracePeriodSeconds": int64(1),
		"tolerations":                   []any{map[string]any{"operator": "Exists"}},
		"resourceClaims":                []any{map[string]any{"name": "gpus", "resourceClaimName": name}},
		"containers":                    []any{map[string]any{"name": "main", "image": "registry.k8s.io/pause", "resources": map[string]any{"claims": []any{map[string]any{"name": "gpus"}}}}},
	}})
	if err != nil {
		return err
	}
	return eventually(ctx, func() (bool, error) {
		pod, err := c.api.Read(ctx, pods, others, name)
		return pod.Text("status", "phase") == "Running", err
	})
}

// letGo has them given back.
func (c *cluster) letGo(ctx context.Context, node string) error {
	name := "training-" + node
	for _, r := range []kube.Resource{pods, claims} {
		if err := c.api.Delete(ctx, r, others, name, kube.DeleteOptions{}); err != nil && !kube.IsNotFound(err) {
			return err
		}
		err := eventually(ctx, func() (bool, error) {
			_, err := c.api.Read(ctx, r, others, name)
			if kube.IsNotFound(err) {
				return true, nil
			}
			return false, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func dropQueue(ctx context.Context, c *cluster, _, run string) error {
	names := graph.NamesOf(run)
	graphs := kube.Resource{Group: "nvidia.com", Version: "v1beta1", Name: "dynamographdeployments"}
	if err := c.appears(ctx, graphs, names.Namespace, names.Graph); err != nil {
		return err
	}
	return c.api.Delete(ctx, queues, "", names.Queue, kube.DeleteOptions{})
}

// loadOf waits until the load of a run runs, and gives its pod.
func (c *cluster) loadOf(ctx context.Context, run string) (name string, err error) {
	err = eventually(ctx, func() (bool, error) {
		all, err := c.api.List(ctx, pods, "aicr-validation", "batch.kubernetes.io/job-name="+graph.NamesOf(run).Load)
		if len(all) > 0 {
			name = all[0].Name()
		}
		return len(all) > 0 && all[0].Text("status", "phase") == "Running", err
	})
	return name, err
}

func starveLoad(ctx context.Context, c *cluster, _, run string) error {
	pod, err := c.loadOf(ctx, run)
	if err != nil {
		return err
	}
	_, err = c.api.Patch(ctx, pods, "aicr-validation", pod, kube.Object{"metadata": map[string]any{"annotations": map[string]any{faultsAnnotation: "oom"}}})
	return err
}

// starveWorkers has the workers killed for memory once, while they are loaded.
func starveWorkers(ctx context.Context, c *cluster, node, run string) error {
	if _, err := c.loadOf(ctx, run); err != nil {
		return err
	}
	names := graph.NamesOf(run)
	set := func(to any) error {
		_, err := c.api.Patch(context.WithoutCancel(ctx), nodes, "", node, kube.Object{"metadata": map[string]any{"annotations": map[string]any{faultsAnnotation: to}}})
		return err
	}
	if err := set("oom"); err != nil {
		return err
	}
	err := eventually(ctx, func() (bool, error) {
		all, err := c.api.List(ctx, pods, names.Namespace, "nvidia.com/dynamo-component-type=worker")
		again := 0
		for _, pod := range all {
			for _, s := range pod.List("status", "containerStatuses") {
				if n, _ := s.Int("restartCount"); n > 0 {
					again++
				}
			}
		}
		return again == 2, err
	})
	return errors.Join(err, set(nil))
}

// deleteGraph deletes the graph as somebody would who takes it for left over.
func deleteGraph(ctx context.Context, c *cluster, _, run string) error {
	if _, err := c.loadOf(ctx, run); err != nil {
		return err
	}
	names := graph.NamesOf(run)
	return c.api.Delete(ctx, kube.Resource{Group: "nvidia.com", Version: "v1beta1", Name: "dynamographdeployments"}, names.Namespace, names.Graph, kube.DeleteOptions{Grace: -1})
}

func deleteLoad(ctx context.Context, c *cluster, _, run string) error {
	pod, err := c.loadOf(ctx, run)
	if err != nil {
		return err
	}
	return c.api.Delete(ctx, pods, "aicr-validation", pod, kube.DeleteOptions{Grace: -1})
}
