package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	definitionrules "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"go.yaml.in/yaml/v3"
)

// taker is what an API server does with what is written in a version of a definition.
type taker struct {
	shape  *schema.Structural
	schema validation.SchemaValidator
	rules  *cel.Validator
}

// takers are those of all definitions, by apiVersion and kind.
func takers(t *testing.T) map[string]*taker {
	t.Helper()
	all := map[string]*taker{}
	for _, file := range []string{"clusterpolicies", "dynamographdeployments", "gateway", "queues"} {
		some, err := readDefinitions(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range some {
			var inside apiextensions.CustomResourceDefinition
			apiextensionsv1.SetDefaults_CustomResourceDefinition(d)
			apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&d.Spec)
			if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(d, &inside, nil); err != nil {
				t.Fatal(err)
			}
			for _, v := range inside.Spec.Versions {
				if v.Storage {
					inside.Status.StoredVersions = []string{v.Name}
				}
			}
			for _, wrong := range definitionrules.ValidateCustomResourceDefinition(t.Context(), &inside) {
				t.Errorf("%s: %v", d.Name, wrong)
			}
			for _, v := range d.Spec.Versions {
				var one apiextensions.CustomResourceValidation
				if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, &one, nil); err != nil {
					t.Fatal(err)
				}
				shape, err := schema.NewStructural(one.OpenAPIV3Schema)
				if err != nil {
					t.Fatal(err)
				}
				checks, _, err := validation.NewSchemaValidator(one.OpenAPIV3Schema)
				if err != nil {
					t.Fatal(err)
				}
				all[d.Spec.Group+"/"+v.Name+" "+d.Spec.Names.Kind] = &taker{shape, checks, cel.NewValidator(shape, true, math.MaxInt64)}
			}
		}
	}
	return all
}

// take writes an object: which of its fields are dropped, and why it is refused.
func (k *taker) take(ctx context.Context, o map[string]any) (dropped, refused []string) {
	dropped = pruning.PruneWithOptions(o, k.shape, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.Default(o, k.shape)
	for _, wrong := range validation.ValidateCustomResource(nil, o, k.schema) {
		refused = append(refused, wrong.Error())
	}
	if len(refused) == 0 {
		wrong, _ := k.rules.Validate(ctx, nil, k.shape, o, nil, math.MaxInt64)
		for _, one := range wrong {
			refused = append(refused, one.Error())
		}
	}
	return dropped, refused
}

// documents are those of a file, as JSON has them.
func documents(t *testing.T, text []byte) (all []map[string]any) {
	t.Helper()
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var one map[string]any
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
		all = append(all, u.Object)
	}
}

// What the check makes is taken by every definition, and not a field of it is dropped: a
// field that is not theirs would be without effect on a real cluster, and nobody told.
func TestWhatAICRWritesIsTakenWhole(t *testing.T) {
	all := takers(t)
	files, err := filepath.Glob("../../internal/checks/graph/testdata/objects/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	taken := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range documents(t, text) {
			u := unstructured.Unstructured{Object: o}
			of := u.GetAPIVersion() + " " + u.GetKind()
			if all[of] == nil {
				continue // Kubernetes' own
			}
			taken[of]++
			if dropped, refused := all[of].take(t.Context(), o); len(dropped)+len(refused) > 0 {
				t.Errorf("%s: %s: dropped %q, refused %q", filepath.Base(file), of, dropped, refused)
			}
		}
	}
	want := []string{"gateway.networking.k8s.io/v1 HTTPRoute", "nvidia.com/v1alpha1 DynamoGraphDeployment", "nvidia.com/v1beta1 DynamoGraphDeployment", "scheduling.run.ai/v2 Queue"}
	if got := slices.Sorted(maps.Keys(taken)); !slices.Equal(got, want) {
		t.Errorf("taken were %q, want %q", got, want)
	}
}

func TestWhatTheRealOnesRefuseIsRefused(t *testing.T) {
	all := takers(t)
	const head = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: g, namespace: ns}\n"
	main := func(tag string) string {
		return "podTemplate: {spec: {containers: [{name: main, image: 'registry.example/r" + tag + "'}]}}"
	}
	graph := func(components ...string) string {
		return head + "spec:\n  components: [" + strings.Join(components, ", ") + "]\n"
	}
	worker := "{name: W, type: worker, " + main(":1.2.3") + "}"
	alphaGraph := func(service string) string {
		return strings.ReplaceAll(head, "v1beta1", "v1alpha1") + "spec: {services: {W: " + service + "}}\n"
	}
	const extra = "extraPodSpec: {mainContainer: {image: 'registry.example/r:1.2.3'}}"
	for name, c := range map[string]struct {
		text    string
		dropped string // a path
		refused string // words
	}{
		"a graph":                       {graph(worker), "", ""},
		"a component of no type":        {graph("{name: W, " + main(":1.2.3") + "}"), "", ""},
		"a field that there is not":     {graph("{name: W, replica: 2, " + main(":1.2.3") + "}"), "spec.components[0].replica", ""},
		"one of the graph":              {head + "spec: {restartPolicy: Never, components: [" + worker + "]}", "spec.restartPolicy", ""},
		"the other version's":           {head + "spec: {services: {}, components: [" + worker + "]}", "spec.services", ""},
		"no components":                 {head + "spec: {backendFramework: vllm}", "", "components are required"},
		"a framework that there is not": {head + "spec: {backendFramework: other, components: [" + worker + "]}", "", "Unsupported value"},
		"a type that there is not":      {graph("{name: W, type: main, " + main(":1.2.3") + "}"), "", "Unsupported value"},
		"a name with a dot":             {graph("{name: W.x, type: worker, " + main(":1.2.3") + "}"), "", "spec.components[0].name"},
		"two names of other cases":      {graph(worker, strings.Replace(worker, "name: W", "name: w", 1)), "", "differ by more than their case"},
		"no image":                      {graph("{name: W, type: worker, podTemplate: {spec: {containers: [{name: main}]}}}"), "", "container main with an image"},
		"no container main":             {graph("{name: W, type: worker, podTemplate: {spec: {containers: [{name: other, image: 'registry.example/r:1.2.3'}]}}}"), "", "container main with an image"},
		"no podTemplate":                {graph("{name: W, type: worker}"), "", "container main with an image"},
		"a tag that is no version":      {graph("{name: W, type: worker, " + main(":my-tag") + "}"), "", "runtimeVersionOverride"},
		"two numbers":                   {graph("{name: W, type: worker, " + main(":1.2") + "}"), "", "runtimeVersionOverride"},
		"a number too many":             {graph("{name: W, type: worker, " + main(":1.2.3.post1") + "}"), "", "runtimeVersionOverride"},
		"a digest alone":                {graph("{name: W, type: worker, " + main("@sha256:00") + "}"), "", "runtimeVersionOverride"},
		"a registry's port is no tag":   {graph("{name: W, type: worker, " + "podTemplate: {spec: {containers: [{name: main, image: 'registry.example:5000/r'}]}}" + "}"), "", "runtimeVersionOverride"},
		"a digest behind a version":     {graph("{name: W, type: worker, " + main(":1.2.3-cuda13@sha256:00") + "}"), "", ""},
		"it is told beside it":          {graph("{name: W, type: worker, runtimeVersionOverride: 1.2.3, " + main(":my-tag") + "}"), "", ""},
		"told in another form":          {graph("{name: W, type: worker, runtimeVersionOverride: v1.2.3, " + main(":my-tag") + "}"), "", "runtimeVersionOverride"},
		"a sidecar that is not there":   {graph("{name: W, type: decode, frontendSidecar: s, " + main(":1.2.3") + "}"), "", "name of a container"},
		"less memory than none":         {graph("{name: W, type: worker, sharedMemorySize: -1Gi, " + main(":1.2.3") + "}"), "", "sharedMemorySize"},
		"what Grove alone has":          {graph("{name: W, type: worker, minAvailable: 1, " + main(":1.2.3") + "}"), "", "Grove"},
		"a picker":                      {graph("{name: E, type: epp, eppConfig: {config: {plugins: []}}, " + main(":1.2.3") + "}"), "", ""},
		"a picker that is told nothing": {graph("{name: E, type: epp, " + main(":1.2.3") + "}"), "", "required for a component of type epp"},
		"a picker told twice":           {graph("{name: E, type: epp, eppConfig: {config: {}, configMapRef: {name: c, key: k}}, " + main(":1.2.3") + "}"), "", "exactly one of"},
		"two replicas of a picker":      {graph("{name: E, type: epp, replicas: 2, eppConfig: {config: {}}, " + main(":1.2.3") + "}"), "", "exactly one replica"},
		"a worker told as a picker":     {graph("{name: W, type: worker, eppConfig: {config: {}}, " + main(":1.2.3") + "}"), "", "for a component of type epp"},
		"a restart at once":             {head + "spec: {restart: {id: a}, components: [" + worker + "]}", "", "restart is for a graph that is there"},

		"a service":                        {alphaGraph("{componentType: worker, resources: {limits: {gpu: '1'}}, " + extra + "}"), "", ""},
		"GPUs as Kubernetes calls them":    {alphaGraph("{componentType: worker, resources: {limits: {nvidia.com/gpu: '1'}}, " + extra + "}"), "spec.services.W.resources.limits.nvidia.com/gpu", ""},
		"a number of GPUs":                 {alphaGraph("{componentType: worker, resources: {limits: {gpu: 1}}, " + extra + "}"), "", "resources.limits.gpu"},
		"a podTemplate in v1alpha1":        {alphaGraph("{componentType: worker, podTemplate: {}, " + extra + "}"), "spec.services.W.podTemplate", ""},
		"v1beta1's memory in v1alpha1":     {alphaGraph("{componentType: worker, sharedMemorySize: 2Gi, " + extra + "}"), "spec.services.W.sharedMemorySize", ""},
		"v1beta1's components there":       {strings.ReplaceAll(graph(worker), "v1beta1", "v1alpha1"), "spec.components", "services are required"},
		"a service without an image":       {alphaGraph("{componentType: worker}"), "", "main container with an image"},
		"a queue without resources":        {"apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: q}\nspec: {parentQueue: p}", "", "a queue has resources"},
		"a route to a Service":             {"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec: {rules: [{backendRefs: [{name: s}]}]}", "", "named with its port"},
		"a header of no value":             {"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec: {rules: [{matches: [{headers: [{name: a}]}]}]}", "", "headers[0].value"},
		"a match that there is not":        {"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec: {rules: [{matches: [{header: [{name: a}]}]}]}", "spec.rules[0].matches[0].header", ""},
		"a pool that nobody picks from":    {"apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: p}\nspec: {selector: {matchLabels: {a: b}}, targetPorts: [{number: 1}]}", "", "endpointPickerRef"},
		"a picker without its port":        {"apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: p}\nspec: {selector: {matchLabels: {a: b}}, targetPorts: [{number: 1}], endpointPickerRef: {name: e}}", "", "named with its port"},
		"a policy's state of another word": {"apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: c}\nstatus: {state: Ready}", "", "Unsupported value"},
	} {
		t.Run(name, func(t *testing.T) {
			o := documents(t, []byte(c.text))[0]
			u := unstructured.Unstructured{Object: o}
			dropped, refused := all[u.GetAPIVersion()+" "+u.GetKind()].take(t.Context(), o)
			if got := strings.Join(dropped, " "); got != c.dropped {
				t.Errorf("dropped %q, want %q", got, c.dropped)
			}
			if got := strings.Join(refused, "; "); (got == "") != (c.refused == "") || !strings.Contains(got, c.refused) {
				t.Errorf("refused %q, want %q", got, c.refused)
			}
		})
	}
}

// What the stand-in writes itself is held to the same: the statuses and the pool.
func TestWhatTheStandInWritesIsTakenWhole(t *testing.T) {
	all := takers(t)
	for _, name := range []string{betaGraph, alphaGraph} {
		for _, grove := range []bool{true, false} {
			for _, wrong := range []error{nil, errors.New("no queue")} {
				text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
				if err != nil {
					t.Fatal(err)
				}
				o := documents(t, text)[0]
				g := parse(t, name)
				g.grove = grove
				var status map[string]any
				if err := recode(g.status(nil, wrong, nil, time.Unix(0, 0)), &status); err != nil {
					t.Fatal(err)
				}
				o["status"] = status
				if dropped, refused := all["nvidia.com/"+name+" DynamoGraphDeployment"].take(t.Context(), o); len(dropped)+len(refused) > 0 {
					t.Errorf("%s, grove %v: dropped %q, refused %q", name, grove, dropped, refused)
				}
			}
		}
	}
	g := parse(t, "picker")
	pool := g.pool(&g.components[0])
	pool.SetAPIVersion("inference.networking.k8s.io/v1")
	pool.SetKind("InferencePool")
	if dropped, refused := all["inference.networking.k8s.io/v1 InferencePool"].take(t.Context(), pool.Object); len(dropped)+len(refused) > 0 {
		t.Errorf("pool: dropped %q, refused %q", dropped, refused)
	}
	for _, name := range []string{"default-parent-queue", "default-queue"} {
		var queue map[string]any
		if err := recode(queueObject(name, "p"), &queue); err != nil {
			t.Fatal(err)
		}
		if dropped, refused := all["scheduling.run.ai/v2 Queue"].take(t.Context(), queue); len(dropped)+len(refused) > 0 {
			t.Errorf("%s: dropped %q, refused %q", name, dropped, refused)
		}
	}
}
