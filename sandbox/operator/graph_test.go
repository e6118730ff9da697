package operator

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"go.yaml.in/yaml/v3"
)

const betaGraph, alphaGraph = "v1beta1", "v1alpha1"

// parse reads a graph of testdata.
func parse(t *testing.T, name string) *graph {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := yaml.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(o) // the numbers are JSON's then
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	g, err := readGraph(u)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// deployments are those that a graph is made into, and the kinds of all that it is.
func deployments(t *testing.T, g *graph, kai bool) (map[string]*appsv1.Deployment, []string) {
	t.Helper()
	g.grove = kai
	all, err := g.children()
	if err != nil {
		t.Fatal(err)
	}
	found, kinds := map[string]*appsv1.Deployment{}, []string{}
	for _, u := range all {
		kinds = append(kinds, u.GetKind()+" "+u.GetName())
		if u.GetKind() != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		if err := recode(u.Object, &d); err != nil {
			t.Fatal(err)
		}
		found[d.Name] = &d
	}
	return found, kinds
}

func TestBothVersionsBecomeTheSamePods(t *testing.T) {
	beta, kinds := deployments(t, parse(t, betaGraph), false)
	alpha, _ := deployments(t, parse(t, alphaGraph), false)
	if want := []string{"Deployment g-frontend", "Service g-frontend", "Deployment " + workersOf(t), "Service " + workersOf(t)}; !slices.Equal(kinds, want) {
		t.Errorf("made %q, want %q", kinds, want)
	}
	for name := range beta {
		if !sameJSON(beta[name].Spec, alpha[name].Spec) {
			a, _ := json.MarshalIndent(beta[name].Spec, "", " ")
			b, _ := json.MarshalIndent(alpha[name].Spec, "", " ")
			t.Errorf("%s: of v1beta1\n%s\nof v1alpha1\n%s", name, a, b)
		}
	}
}

func TestAPodKeepsWhatTheGraphSays(t *testing.T) {
	all, _ := deployments(t, parse(t, betaGraph), false)
	d := all[workersOf(t)]
	pod := d.Spec.Template.Spec
	main := pod.Containers[0]
	env := map[string]string{}
	for _, e := range main.Env {
		env[e.Name] = e.Value
	}
	switch {
	case *d.Spec.Replicas != 2:
		t.Error("replicas")
	case pod.NodeSelector["kubernetes.io/hostname"] != "n" || len(pod.Tolerations) != 1 || len(pod.ResourceClaims) != 1:
		t.Error("where it goes, and its claims")
	case len(main.VolumeMounts) != 2 || !main.VolumeMounts[0].ReadOnly || main.VolumeMounts[1].MountPath != "/dev/shm" || pod.Volumes[1].EmptyDir.SizeLimit.String() != "2Gi":
		t.Errorf("volumes: %v", main.VolumeMounts)
	case env["DYN_SYSTEM_PORT"] != "9191" || env["MINE"] != "x" || env["DYN_NAMESPACE"] != "ns-g":
		t.Errorf("env: %v", env)
	case main.LivenessProbe.FailureThreshold != 1 || main.LivenessProbe.HTTPGet.Path != "/live" || main.StartupProbe == nil || main.ReadinessProbe.HTTPGet.Path != "/health":
		t.Error("probes")
	case *pod.TerminationGracePeriodSeconds != 60 || *pod.SecurityContext.FSGroup != 1000:
		t.Error("grace, and whose group its volumes are")
	}
	hash := hashOf(parse(t, betaGraph))
	want := map[string]string{labelGraph: "g", labelComponent: "Worker", labelType: "worker", labelNamespace: "ns-g", labelDiscovery: "kubernetes", labelDiscovered: "true",
		labelSelector: "g-worker-" + hash, labelHash: hash, labelMetrics: "true"}
	if env["DYN_NAMESPACE_WORKER_SUFFIX"] != hash {
		t.Errorf("env: %v", env)
	}
	if got := d.Spec.Template.Labels; !maps.Equal(got, want) {
		t.Errorf("labels %v, want %v", got, want)
	}
	front := all["g-frontend"].Spec.Template.Spec.Containers[0]
	if !slices.Equal(front.Command, []string{"python3"}) || !slices.Equal(front.Args, []string{"-m", "dynamo.frontend"}) {
		t.Errorf("the frontend is started by %q %q", front.Command, front.Args)
	}
}

// The times of the probes are those of Dynamo's operator, which the nodes of a sandbox may
// shorten.
func TestPodsAreProbedAtTheTimesOfDynamo(t *testing.T) {
	type times [4]int32 // after, each, within, tries; 0: as Kubernetes has it
	of := func(p *corev1.Probe) times {
		if p == nil {
			return times{}
		}
		return times{p.InitialDelaySeconds, p.PeriodSeconds, p.TimeoutSeconds, p.FailureThreshold}
	}
	got := map[string][3]times{}
	for _, name := range []string{betaGraph, "picker"} {
		all, _ := deployments(t, parse(t, name), false)
		for _, d := range all {
			main := d.Spec.Template.Spec.Containers[0]
			kind := d.Spec.Template.Labels[labelType]
			got[kind] = [3]times{of(main.LivenessProbe), of(main.ReadinessProbe), of(main.StartupProbe)}
			for _, p := range []*corev1.Probe{main.LivenessProbe, main.ReadinessProbe, main.StartupProbe} {
				if byGRPC := p != nil && p.GRPC != nil; p != nil && byGRPC != (kind == "epp") {
					t.Errorf("%s: %+v", kind, p.ProbeHandler)
				} else if byGRPC && (p.GRPC.Port != 9003 || *p.GRPC.Service != "inference-extension") {
					t.Errorf("a picker is asked for %s at %d", *p.GRPC.Service, p.GRPC.Port)
				}
			}
		}
	}
	delete(got, "decode")        // as a worker
	want := map[string][3]times{ // liveness, readiness, startup
		"frontend": {{15, 10, 1, 3}, {10, 10, 3, 3}, {}},
		"worker":   {{0, 5, 4, 1}, {0, 10, 4, 3}, {0, 10, 5, 720}},
		"epp":      {{5, 10, 0, 0}, {5, 10, 0, 0}, {0, 10, 0, 180}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// workersOf is what the Deployment of the workers of testdata's graph is called: it tells
// which workers they are.
func workersOf(t *testing.T) string { return "g-worker-" + hashOf(parse(t, betaGraph)) }

func hashOf(g *graph) string { return g.workerHash(&g.components[1]) }

// With Grove there is no Deployment: a graph becomes a set of cliques, whose pods are KAI's to
// schedule.
func TestWithGroveAGraphIsASetOfCliques(t *testing.T) {
	g := parse(t, betaGraph)
	all, kinds := deployments(t, g, true)
	if want := append(slices.Clone(accounts), "Service g-frontend", "Service g-worker", "PodCliqueSet g"); !slices.Equal(kinds, want) || len(all) > 0 {
		t.Errorf("made %q, want %q", kinds, want)
	}
	set, err := g.cliqueSet()
	if err != nil {
		t.Fatal(err)
	}
	cliques, _, err := unstructured.NestedSlice(set.Object, "spec", "template", "cliques")
	if err != nil || len(cliques) != 2 {
		t.Fatalf("%d cliques: %v", len(cliques), err)
	}
	worker := cliques[1].(map[string]any)
	labels := worker["labels"].(map[string]any)
	if worker["name"] != "worker" || labels[labelQueue] != "dynamo" || labels[labelHash] != nil || labels[labelType] != "worker" {
		t.Errorf("%v", worker)
	}
	spec := worker["spec"].(map[string]any)
	if spec["replicas"] != int64(2) || spec["podSpec"].(map[string]any)["terminationGracePeriodSeconds"] != float64(60) {
		t.Errorf("%v", spec)
	}
}

func TestOtherWorkersGoByAnotherName(t *testing.T) {
	g := parse(t, betaGraph)
	was := hashOf(g)
	g.components[0].pod.Spec.Containers[0].Image = "registry.example/r:9.9.9" // the frontend's
	if hashOf(g) != was {
		t.Error("the frontend is no worker")
	}
	g.components[1].pod.Spec.Containers[0].Image = "registry.example/r:9.9.9"
	if hashOf(g) == was || g.workerHash(&g.components[0]) != "" {
		t.Error("other workers go by the same name, or a frontend by one of theirs")
	}
	if g.grove = true; hashOf(g) != "" {
		t.Error("Grove has no other workers beside them")
	}
}

// accounts are what the pods of a graph find each other by. With Grove they are among its own.
var accounts = []string{"ServiceAccount g-k8s-service-discovery", "Role g-k8s-service-discovery", "RoleBinding g-k8s-service-discovery"}

func TestPodsRunUnderTheGraphsAccount(t *testing.T) {
	g := parse(t, betaGraph)
	all, err := g.ofGraph()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, u := range all {
		kinds = append(kinds, u.GetKind()+" "+u.GetName())
		if owners := u.GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "DynamoGraphDeployment" {
			t.Errorf("%s belongs to %v", u.GetName(), owners)
		}
	}
	if !slices.Equal(kinds, accounts) {
		t.Errorf("made %q, want %q", kinds, accounts)
	}
	made, _ := deployments(t, g, false)
	picked, _ := deployments(t, parse(t, "picker"), false)
	if made["g-frontend"].Spec.Template.Spec.ServiceAccountName != "g-k8s-service-discovery" || picked["g-epp"].Spec.Template.Spec.ServiceAccountName != "epp-serviceaccount" {
		t.Error("another account")
	}
}

func TestAGraphWithAPickerHasAPool(t *testing.T) {
	made, kinds := deployments(t, parse(t, "picker"), false)
	pod := made["g-epp"].Spec.Template.Spec
	if *pod.TerminationGracePeriodSeconds != 130 || pod.Volumes[0].ConfigMap.Name != "g-epp-config" || pod.Containers[0].VolumeMounts[0].MountPath != "/etc/epp" {
		t.Errorf("%+v", pod)
	}
	if want := []string{"ConfigMap g-epp-config", "InferencePool g-pool", "Deployment g-epp", "Service g-epp"}; !slices.Equal(kinds, want) {
		t.Errorf("made %q, want %q", kinds, want)
	}
}

func TestTheStatusOfAGraph(t *testing.T) {
	with := func(ready int32) *appsv1.Deployment {
		d := &appsv1.Deployment{}
		d.Status = appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: ready}
		return d
	}
	old := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2}}
	old.Generation = 2 // its status is of the one before
	for name, c := range map[string]struct {
		have          map[string]*appsv1.Deployment
		wrong         error
		state, reason string
		observed      any
	}{
		"nothing is made yet":         {nil, nil, pending, reasonNotReady, int64(3)},
		"a worker is missing":         {map[string]*appsv1.Deployment{"Frontend": with(1), "Worker": with(1)}, nil, pending, reasonNotReady, int64(3)},
		"a status that is not of now": {map[string]*appsv1.Deployment{"Frontend": with(1), "Worker": old}, nil, pending, reasonNotReady, int64(3)},
		"all are ready":               {map[string]*appsv1.Deployment{"Frontend": with(1), "Worker": with(2)}, nil, successful, reasonReady, int64(3)},
		"it could not be made":        {map[string]*appsv1.Deployment{"Frontend": with(1), "Worker": with(2)}, errors.New("no queue"), failed, reasonFailed, int64(2)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{betaGraph, alphaGraph} {
				g := parse(t, text)
				before := map[string]any{"observedGeneration": int64(2)}
				got := g.status(c.have, c.wrong, before, time.Unix(0, 0))
				condition := got["conditions"].([]any)[0].(map[string]any)
				if got["state"] != c.state || condition["reason"] != c.reason || got["observedGeneration"] != c.observed {
					t.Errorf("%s: %v", g.version, got)
				}
				key := map[string]string{beta: "components", alpha: "services"}[g.version]
				if _, ok := got[key]; ok != (c.wrong == nil) {
					t.Errorf("%s: %v", g.version, got)
				}
			}
		})
	}
}

// Who reads a status has to take both: of a clique of pods is not said how many are
// available, of a Deployment not how many are scheduled.
func TestAPartIsAsGroveTellsOfItWhereItMadeIt(t *testing.T) {
	for _, text := range []string{betaGraph, alphaGraph} {
		g := parse(t, text)
		key := map[string]string{beta: "components", alpha: "services"}[g.version]
		for grove, want := range map[bool]map[string]bool{
			true:  {"scheduledReplicas": true, "availableReplicas": false, "readyReplicas": true},
			false: {"scheduledReplicas": false, "availableReplicas": true, "readyReplicas": true},
		} {
			g.grove = grove
			status := g.status(nil, nil, nil, time.Unix(0, 0))
			part := status[key].(map[string]any)["Worker"].(map[string]any)
			for field, has := range want {
				if _, ok := part[field]; ok != has {
					t.Errorf("%s, grove %v: %s is there: %v", g.version, grove, field, ok)
				}
			}
			if _, ok := part["componentName"]; ok != (g.version == alpha) {
				t.Errorf("%s: %v", g.version, part)
			}
			if kind := map[bool]string{true: "PodClique", false: "Deployment"}[grove]; part["componentKind"] != kind {
				t.Errorf("%s: %v", g.version, part)
			}
		}
	}
}

func TestAConditionKeepsItsTimeWhileItsStatusIsTheSame(t *testing.T) {
	g := parse(t, betaGraph)
	first := g.status(nil, nil, nil, time.Unix(0, 0))
	second := g.status(nil, nil, first, time.Unix(100, 0))
	if !sameJSON(first, second) {
		t.Errorf("%v became %v", first, second)
	}
}

func TestDefinitionsServeWhatIsAskedFor(t *testing.T) {
	for _, served := range [][]string{{beta, alpha}, {beta}, {alpha}} {
		d, err := graphDefinition(served)
		if err != nil {
			t.Fatal(err)
		}
		stored := 0
		for _, v := range d.Spec.Versions {
			if !slices.Contains(served, v.Name) {
				t.Errorf("%v: %s is served", served, v.Name)
			}
			if v.Storage {
				stored++
			}
		}
		if stored != 1 || len(d.Spec.Versions) != len(served) {
			t.Errorf("%v: %d versions, %d of them stored", served, len(d.Spec.Versions), stored)
		}
	}
	if _, err := graphDefinition([]string{"v2"}); err == nil {
		t.Error("a version that there is not was taken")
	}
}

func TestARouteLeadsToItsPool(t *testing.T) {
	var r route
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(`
metadata: {name: r, namespace: ns}
spec:
  parentRefs: [{name: inference-gateway, namespace: agentgateway-system}]
  rules: [{matches: [{path: {type: PathPrefix, value: /v1}}], backendRefs: [{kind: InferencePool, name: p}]}]
`), &fields); err != nil {
		t.Fatal(err)
	}
	if err := recode(fields, &r); err != nil {
		t.Fatal(err)
	}
	if !r.ours() {
		t.Error("it is not the gateway's")
	}
	for path, want := range map[string]bool{"/v1/chat/completions": true, "/v1": true, "/v10": false, "/": false} {
		if name, ok := r.pool("any:80", path, nil); ok != want || ok && name != "p" {
			t.Errorf("%s: %q, %v", path, name, ok)
		}
	}
}

// Two runs behind one gateway are told apart by a header alone.
func TestARouteIsForTheHeadersThatItNames(t *testing.T) {
	var r route
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(`
metadata: {name: r, namespace: ns}
spec:
  parentRefs: [{name: inference-gateway, namespace: agentgateway-system}]
  rules: [{matches: [{path: {type: PathPrefix, value: /}, headers: [{type: Exact, name: x-aicr-run, value: "1234abcd"}]}], backendRefs: [{kind: InferencePool, name: p}]}]
`), &fields); err != nil {
		t.Fatal(err)
	}
	if err := recode(fields, &r); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]bool{"1234abcd": true, "5678abcd": false, "": false} {
		header := http.Header{}
		if value != "" {
			header.Set("X-Aicr-Run", value)
		}
		if _, ok := r.pool("any", "/v1/chat/completions", header); ok != want {
			t.Errorf("of the run %q: %v", value, ok)
		}
	}
}
