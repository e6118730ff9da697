package recipes

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

var update = flag.Bool("update", false, "write what the golden files should be")

func loaded(t *testing.T) *Library {
	t.Helper()
	l, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// resolved makes the whole recipe for criteria, as aicr recipe does.
func resolved(l *Library, c spec.Criteria) (*spec.Recipe, error) {
	layers, err := l.Layers(c)
	if err != nil {
		return nil, err
	}
	return l.Merge(layers, c)
}

// completed makes a whole recipe of one that a user has in a file.
func completed(l *Library, r *spec.Recipe, file string, text []byte) (*spec.Recipe, error) {
	if r.Whole() {
		return r, nil
	}
	layers, err := l.LayersOf(r, file, text)
	if err != nil {
		return nil, err
	}
	return l.Merge(layers, r.Criteria)
}

// platforms are the recipes that are published, with what they are for.
func platforms() map[string]spec.Criteria {
	dynamo := func(service, accelerator, os string) spec.Criteria {
		return spec.Criteria{Service: service, Accelerator: accelerator, OS: os, Intent: "inference", Platform: "dynamo"}
	}
	return map[string]spec.Criteria{
		"h100-eks-ubuntu-inference-dynamo":         dynamo("eks", "h100", "ubuntu"),
		"h100-gke-cos-inference-dynamo":            dynamo("gke", "h100", "cos"),
		"h100-aks-ubuntu-inference-dynamo":         dynamo("aks", "h100", "ubuntu"),
		"rtx-pro-6000-eks-ubuntu-inference-dynamo": dynamo("eks", "rtx-pro-6000", "ubuntu"),
		"gb200-eks-ubuntu-inference-dynamo":        dynamo("eks", "gb200", "ubuntu"),
		"sim":                                      {Service: "sim", Accelerator: "sim"},
	}
}

func TestEveryEmbeddedOverlayIsARecipe(t *testing.T) {
	l := loaded(t)
	if len(l.Overlays) < 20 || len(l.Mixins) < 3 {
		t.Fatalf("only %d overlays and %d mixins", len(l.Overlays), len(l.Mixins))
	}
	for _, o := range l.Overlays {
		t.Run(o.Name, func(t *testing.T) {
			if o.File != BuiltIn+"overlays/"+o.Name+".yaml" {
				t.Errorf("it is in %s", o.File)
			}
			layers, ok := l.LayersNamed(o.Name)
			if !ok {
				t.Fatal("it is not found by its name")
			}
			if err := l.CheckNames(layers); err != nil {
				t.Error(err)
			}
			named, err := l.Merge(layers, o.Criteria)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := spec.EncodeRecipe(named); err != nil {
				t.Error(err)
			}
			for _, c := range named.Components {
				if c.Type == "" || c.Source == "" { // upstream's schema requires them
					t.Errorf("component %s has no type or no source", c.Name)
				}
			}
			if o.Name == Root || o.crosses() {
				return
			}
			asked, err := resolved(l, o.Criteria)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(named, asked); diff != "" {
				t.Errorf("by its name and by its criteria are not the same (-name +criteria):\n%s", diff)
			}
		})
	}
}

func TestThePlatformsRecipes(t *testing.T) {
	l := loaded(t)
	for name, criteria := range platforms() {
		t.Run(name, func(t *testing.T) {
			r, err := resolved(l, criteria)
			if err != nil {
				t.Fatal(err)
			}
			got, err := spec.EncodeRecipe(r)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "golden", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestThePublishedGates holds the embedded recipes against the table of what is
// published: 50,000 tokens/s of a whole node, 2,000 ms, 256 in flight a GPU.
func TestThePublishedGates(t *testing.T) {
	l := loaded(t)
	for name, criteria := range platforms() {
		t.Run(name, func(t *testing.T) {
			r, err := resolved(l, criteria)
			if err != nil {
				t.Fatal(err)
			}
			node := 8
			if criteria.Accelerator == "gb200" {
				node = 4
			}
			want := func(gpus int, throughput float64) {
				t.Helper()
				got := map[string]spec.Constraint{}
				for _, c := range r.Figures(gpus) {
					got[c.Name] = c
				}
				if c, floor := got[spec.ConstraintThroughput]; floor == (name == "sim") {
					t.Errorf("a floor: %v", floor)
				} else if floor && (c.Threshold != throughput || c.Comparator != ">=" || c.Tolerance != spec.DefaultTolerance) {
					t.Errorf("of %d GPUs: %+v, want %v", gpus, c, throughput)
				}
				if c := got[spec.ConstraintTTFT]; c.Threshold != 2000 || c.Comparator != "<=" || c.Tolerance != spec.DefaultTolerance {
					t.Errorf("of %d GPUs: %+v", gpus, c)
				}
			}
			want(node, 50_000)
			want(1, 50_000/float64(node))
			if v := r.Verdict(); v.Reference != nil {
				t.Errorf("there is a reference, and nobody measured one: %+v", v.Reference)
			}
			if !slices.Contains(r.Phases.Performance.Checks, spec.InferencePerf) {
				t.Error("it does not check inference-perf")
			}
			if name == "sim" {
				if len(r.Components) > 0 || len(r.Wants) > 0 || r.Phases.Deployment != nil || r.Phases.Conformance != nil {
					t.Error("the simulator has no cluster")
				}
				return
			}
			if n, ok := r.ConcurrencyPerGPU(); !ok || n != 256 {
				t.Errorf("%d in flight a GPU", n)
			}
			if model, _ := r.Input(spec.InputModel); model != "Qwen/Qwen3-8B" {
				t.Errorf("model %q", model)
			}
			if mode, _ := r.Input(spec.InputRouting); mode != "dynamo-router" {
				t.Errorf("routing mode %q", mode)
			}
			if !r.HasComponent(DynamoChart) {
				t.Error("it does not deploy Dynamo")
			}
			if got := fmt.Sprint(len(r.Phases.Deployment.Checks), len(r.Phases.Conformance.Checks)); got != "4 11" {
				t.Errorf("checks of deployment and conformance: %s", got)
			}
		})
	}
}

func TestComponentsHaveThePinnedVersion(t *testing.T) {
	pinned, err := Versions()
	if err != nil {
		t.Fatal(err)
	}
	for name, criteria := range platforms() {
		r, err := resolved(loaded(t), criteria)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Components {
			chart, ok := pinned.Chart(c.Name)
			if !ok {
				t.Errorf("%s: %s is not pinned", name, c.Name)
				continue
			}
			if c.Version != chart.Version || c.Source != chart.Source || first(c.Chart, c.Name) != chart.Name {
				t.Errorf("%s: %s is %s %s of %s, and %s %s of %s is pinned", name, c.Name, c.Chart, c.Version, c.Source, chart.Name, chart.Version, chart.Source)
			}
		}
		if name != "sim" && len(r.Components) < 5 {
			t.Errorf("%s: only %d components", name, len(r.Components))
		}
	}
	l := loaded(t)
	err = l.Add("ours", folder(map[string]string{"a.yaml": overlayText("a", "base: eks\ncomponentRefs: [{name: gpu-operator, version: our-own}, {name: kai-scheduler, source: oci://mirror.example/kai}]")}))
	if err != nil {
		t.Fatal(err)
	}
	layers, _ := l.LayersNamed("a")
	r, err := l.Merge(layers, spec.Criteria{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Components {
		if c.Name == "gpu-operator" && c.Version != "our-own" {
			t.Errorf("the layer's version of %s became %s", c.Name, c.Version)
		}
		if chart, _ := pinned.Chart("kai-scheduler"); c.Name == "kai-scheduler" && (c.Version != chart.Version || c.Source != "oci://mirror.example/kai") {
			t.Errorf("a mirror has another version, or is not used: %s of %s", c.Version, c.Source)
		}
	}
}

// A tag of a layer's own is its version: the pinned one beside it would be a second.
func TestAComponentWithATagHasNoPinnedVersion(t *testing.T) {
	l := loaded(t)
	if err := l.Add("ours", folder(map[string]string{"a.yaml": overlayText("a", "base: eks\ncomponentRefs: [{name: gpu-operator, tag: our-own}]")})); err != nil {
		t.Fatal(err)
	}
	layers, _ := l.LayersNamed("a")
	r, err := l.Merge(layers, spec.Criteria{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Components, func(c spec.Component) bool { return c.Name == "gpu-operator" })
	if c := r.Components[i]; c.Tag != "our-own" || c.Version != "" {
		t.Errorf("it has tag %q and version %q", c.Tag, c.Version)
	}
	if o, ok := r.Origins[OfVersions+"/gpu-operator"]; ok {
		t.Errorf("its version is from %+v", o)
	}
}

// A component that a layer only names is the pinned chart, from where that is.
func TestAComponentThatIsOnlyNamedIsThePinnedChart(t *testing.T) {
	pinned, err := Versions()
	if err != nil {
		t.Fatal(err)
	}
	l := loaded(t)
	if err := l.Add("ours", folder(map[string]string{"a.yaml": overlayText("a", "componentRefs: [{name: gpu-operator}]")})); err != nil {
		t.Fatal(err)
	}
	layers, _ := l.LayersNamed("a")
	r, err := l.Merge(layers, spec.Criteria{})
	if err != nil {
		t.Fatal(err)
	}
	chart, _ := pinned.Chart("gpu-operator")
	want := []spec.Component{{Name: "gpu-operator", Type: "Helm", Source: chart.Source, Version: chart.Version}}
	if diff := cmp.Diff(want, r.Components); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is not used is told of the file that a user has in hand, and not of what it
// stands on: nobody can mend that there.
func TestOnlyTheUsersOwnFileIsToldWhatIsNotUsed(t *testing.T) {
	l := loaded(t)
	unused := overlayText("below", "base: eks\nvalidation: {deployment: {timeout: 10m}}")
	if err := l.Add("ours", folder(map[string]string{"below.yaml": unused})); err != nil {
		t.Fatal(err)
	}
	text := []byte(overlayText("mine", "base: below\nvalidation: {conformance: {infrastructure: ours}}"))
	mine, err := spec.DecodeRecipe(text)
	if err != nil {
		t.Fatal(err)
	}
	below, _ := l.Overlay("below")
	if len(below.Unused) != 1 || len(mine.Unused) != 1 {
		t.Fatalf("unused below %v, in the file %v", below.Unused, mine.Unused)
	}
	r, err := completed(l, mine, "mine.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mine.Unused, r.Unused); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// TestTheCatalogHasEveryPublishedCheck holds it against the list of upstream's checks.
func TestTheCatalogHasEveryPublishedCheck(t *testing.T) {
	want := []string{
		"conformance/accelerator-metrics 5m", "conformance/ai-service-metrics 5m", "conformance/cluster-autoscaling 10m",
		"conformance/dra-support 5m", "conformance/gang-scheduling 10m", "conformance/gpu-operator-health 2m",
		"conformance/inference-gateway 5m", "conformance/platform-health 5m", "conformance/pod-autoscaling 10m",
		"conformance/robust-controller 5m", "conformance/secure-accelerator-access 10m", "conformance/slinky-slurm-health 8m",
		"conformance/slinky-slurm-imex-channel 5m", "deployment/check-nvidia-smi 10m", "deployment/expected-resources 8m",
		"deployment/gke-gpu-nic-networks 2m", "deployment/gpu-operator-version 2m", "deployment/operator-health 2m",
		"performance/cre-training-goodput 30m", "performance/inference-perf 65m", "performance/nccl-all-reduce-bw 30m",
		"performance/nccl-all-reduce-bw-net 30m", "performance/nccl-all-reduce-bw-nvls 30m", "performance/nccl-cre-all-reduce-bw 30m",
	}
	var got []string
	for _, e := range loaded(t).Catalog.Validators {
		got = append(got, fmt.Sprintf("%s/%s %s", e.Phase, e.Name, e.Timeout))
		if e.Image != "" || e.Description == "" || !slices.Equal(e.Args, []string{e.Name}) {
			t.Errorf("%+v", e)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsAskedForIsFound(t *testing.T) {
	l := loaded(t)
	for _, c := range []struct {
		rule  string
		asked spec.Criteria
		want  string
	}{
		{"every word that an overlay says is asked for", platforms()["h100-gke-cos-inference-dynamo"], "base h100-any gke-cos gke-cos-inference h100-gke-cos-inference h100-gke-cos-inference-dynamo"},
		{"a word that is asked for and not said is no hindrance", spec.Criteria{Service: "eks", Intent: "inference"}, "base eks eks-inference"},
		{"any is every word, on the overlay's side", spec.Criteria{Service: "eks", Accelerator: "h100", Intent: "inference"}, "base h100-any eks eks-inference h100-eks-inference"},
		{"any is no word, on the asker's side", spec.Criteria{Service: "eks", Accelerator: "any"}, "base eks"},
		{"nodes choose nothing", spec.Criteria{Service: "aks", Nodes: 7}, "base aks"},
		{"the simulator has no cluster below it", platforms()["sim"], "base sim"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r, err := resolved(l, c.asked)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(r.Resolution.AppliedOverlays, " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if r.Criteria != c.asked {
				t.Errorf("it is for %+v", r.Criteria)
			}
		})
	}
}

func TestWhatNoOverlayIsForIsAnError(t *testing.T) {
	l := loaded(t)
	for _, c := range []struct {
		rule, want, nearest string
		asked               spec.Criteria
	}{
		{"a word that nothing says", "no overlay is for service eks, accelerator h100, os rhel", "h100-eks-inference, with intent inference", spec.Criteria{Service: "eks", Accelerator: "h100", OS: "rhel"}},
		{"words that are never said together", "no overlay is for service gke, accelerator gb200, os ubuntu, intent inference, platform dynamo", "gb200-eks-ubuntu-inference-dynamo, with service eks", spec.Criteria{Service: "gke", Accelerator: "gb200", OS: "ubuntu", Intent: "inference", Platform: "dynamo"}},
		{"the nearest says few other words", "no overlay is for accelerator gb200, os cos", "gke-cos, with service gke", spec.Criteria{Accelerator: "gb200", OS: "cos"}},
		{"only what is for any service", "no overlay is for accelerator h100", "h100-aks-inference, with service aks, intent inference", spec.Criteria{Accelerator: "h100"}},
		{"nothing at all", "nothing is asked for: name a service, an accelerator, an os, an intent or a platform", "", spec.Criteria{Nodes: 3}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := resolved(l, c.asked)
			if err == nil || err.Error() != c.want {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
			if u, ok := errors.AsType[*Unmatched](err); ok && u.Nearest != c.nearest {
				t.Errorf("nearest is %s, want %s", u.Nearest, c.nearest)
			}
		})
	}
}

// folder is a folder of an organisation's, of files by name.
func folder(files map[string]string) fstest.MapFS {
	all := fstest.MapFS{}
	for name, text := range files {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

// layerText is an overlay, or a mixin, of what its spec says.
func layerText(kind, name, spec string) string {
	text := fmt.Sprintf("kind: %s\napiVersion: aicr.run/v1beta1\nmetadata:\n  name: %s\nspec:\n", kind, name)
	for line := range strings.SplitSeq(strings.TrimSpace(spec), "\n") {
		text += "  " + line + "\n"
	}
	return text
}

func overlayText(name, spec string) string  { return layerText("RecipeMetadata", name, spec) }
func mixinText(name, content string) string { return layerText("RecipeMixin", name, content) }

// lines are what a recipe says, one a line.
func lines(r *spec.Recipe) string {
	s := saidBy(r)
	var all []string
	for _, k := range s.keys {
		all = append(all, fmt.Sprintf("%s %s: %s", k.Of, k.Name, s.values[k]))
	}
	return strings.Join(all, "\n")
}

func TestLayersAreLaidOverEachOther(t *testing.T) {
	const bottom = `
constraints: [{name: K8s.server.version, value: ">= 1.30", remediation: upgrade}]
componentRefs: [{name: c, type: Helm, source: https://a, version: "1", overrides: {x: {y: 1, z: 2}}, dependencyRefs: [d], patches: [p]}]
validation:
  readiness: {constraints: [{name: GPU.hardware.gpu-count, value: "8"}]}
  conformance: {checks: [dra-support, gang-scheduling]}
  performance:
    checks: [inference-perf]
    constraints: [{name: inference-throughput, value: ">= 100", unit: tokens/s/GPU}, {name: inference-ttft-p99, value: "<= 2000"}]
    verdict: {stability: report, thresholds: {ttftGuardrailMs: 900}}`
	const below = `constraint K8s.server.version: >= 1.30
constraint readiness/GPU.hardware.gpu-count: 8
constraint performance/inference-throughput: >= 100 tokens/s/GPU
constraint performance/inference-ttft-p99: <= 2000
check conformance/dra-support: checked
check conformance/gang-scheduling: checked
check performance/inference-perf: checked
component c: 1, dependencyRefs ["d"], overrides {"x":{"y":1,"z":2}}, patches ["p"], source https://a, type Helm
verdict stability: report
verdict ttftGuardrailMs: 900
order deploymentOrder: c`
	change := func(pairs ...string) string {
		text := below
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("no %q", pairs[i])
			}
			text = strings.Replace(text, pairs[i], pairs[i+1], 1)
		}
		return text
	}
	for _, c := range []struct{ rule, top, want string }{
		{"what a layer does not say stays", `base: bottom`, below},
		{"a layer without a base stands on the root", `criteria: {service: eks}`, `criteria service: eks`},
		{"checks are united, in order, each once", "base: bottom\nvalidation: {conformance: {checks: [gang-scheduling, platform-health]}}",
			change("gang-scheduling: checked", "gang-scheduling: checked\ncheck conformance/platform-health: checked")},
		{"an empty list of checks clears them", "base: bottom\nvalidation: {conformance: {checks: []}}",
			change("check conformance/dra-support: checked\ncheck conformance/gang-scheduling: checked\n", "")},
		{"an empty list of constraints of a phase clears them", "base: bottom\nvalidation: {performance: {constraints: []}}",
			change("constraint performance/inference-throughput: >= 100 tokens/s/GPU\nconstraint performance/inference-ttft-p99: <= 2000\n", "")},
		{"a list that is named and not given says nothing", "base: bottom\nvalidation: {conformance: {checks: }}", below},
		{"an empty list of what is wanted of the cluster says nothing", "base: bottom\nconstraints: []", below},
		{"an empty list of components says nothing", "base: bottom\ncomponentRefs: []", below},
		{"a constraint replaces the one of its name, in its place", "base: bottom\nconstraints: [{name: K8s.server.version, value: \">= 1.34\"}]",
			change(">= 1.30", ">= 1.34")},
		{"a constraint is replaced whole: its unit goes too", "base: bottom\nvalidation: {performance: {constraints: [{name: inference-throughput, value: \">= 50000\"}]}}",
			change(">= 100 tokens/s/GPU", ">= 50000")},
		{"what is wanted before the phases is laid over as well", "base: bottom\nvalidation: {readiness: {constraints: [{name: GPU.hardware.gpu-count, value: \"4\"}]}}",
			change("gpu-count: 8", "gpu-count: 4")},
		{"another constraint is added", "base: bottom\nvalidation: {performance: {constraints: [{name: inference-model, value: m}]}}",
			change("ttft-p99: <= 2000", "ttft-p99: <= 2000\nconstraint performance/inference-model: m")},
		{"a component's fields are laid over, its values merged, its dependencies united", "base: bottom\ncomponentRefs: [{name: c, version: \"2\", overrides: {x: {z: 3}}, dependencyRefs: [e, d], patches: [q]}]",
			change("c: 1, dependencyRefs [\"d\"], overrides {\"x\":{\"y\":1,\"z\":2}}, patches [\"p\"]", "c: 2, dependencyRefs [\"d\",\"e\"], overrides {\"x\":{\"y\":1,\"z\":3}}, patches [\"q\"]")},
		{"another component is added", "base: bottom\ncomponentRefs: [{name: d, type: Helm, source: https://b}]",
			change("type Helm\n", "type Helm\ncomponent d: no version, source https://b, type Helm\n", "deploymentOrder: c", "deploymentOrder: d, c")},
		{"how it is judged is replaced value by value", "base: bottom\nvalidation: {performance: {verdict: {stability: gate, thresholds: {ttftGuardrailMs: 800}}}}",
			change("stability: report", "stability: gate", "900", "800")},
		{"mixins come before the overlay that names them, and after its base", "base: bottom\nmixins: [m]\ncomponentRefs: [{name: c, version: \"4\"}]",
			change(">= 1.30", ">= 1.33", "c: 1", "c: 4")},
	} {
		t.Run(c.rule, func(t *testing.T) {
			l := &Library{Catalog: &spec.Catalog{}}
			err := l.Add("ours", folder(map[string]string{
				"overlays/base.yaml":   overlayText("base", "criteria: {}"),
				"overlays/bottom.yaml": overlayText("bottom", bottom),
				"overlays/top.yaml":    overlayText("top", c.top),
				"mixins/m.yaml":        mixinText("m", "constraints: [{name: K8s.server.version, value: \">= 1.33\"}]\ncomponentRefs: [{name: c, version: \"3\"}]"),
			}))
			if err != nil {
				t.Fatal(err)
			}
			top, _ := l.Overlay("top")
			before := lines(top.Recipe)
			for range 2 { // what was read is not changed by what is made of it
				r, err := completed(l, top.Recipe, top.File, nil)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, lines(r)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if r.Kind != spec.RecipeResultKind || r.APIVersion != spec.RecipeVersion {
					t.Errorf("it is a %s of %s", r.Kind, r.APIVersion)
				}
			}
			if got := lines(top.Recipe); got != before {
				t.Errorf("the overlay became:\n%s", got)
			}
		})
	}
}

// TestEveryFieldIsLaidOver finds a field that a type has and the merge forgot.
func TestEveryFieldIsLaidOver(t *testing.T) {
	some := func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.Map:
			v.Set(reflect.ValueOf(spec.ThresholdValues{"x": 1}))
		default:
			t.Fatalf("a %s", v.Type())
		}
	}
	over := func(name string, above *spec.Recipe, got func(*spec.Recipe) any, want any) {
		t.Helper()
		below := &spec.Recipe{Components: []spec.Component{{Name: "c"}}, Phases: spec.RecipePhases{Performance: &spec.RecipePhase{}}}
		r, err := (&Library{}).Merge([]Overlay{{Recipe: below}, {Recipe: above}}, spec.Criteria{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got(r)); diff != "" {
			t.Errorf("%s is not laid over (-want +got):\n%s", name, diff)
		}
	}
	for i := range reflect.TypeFor[spec.Component]().NumField() {
		field := reflect.TypeFor[spec.Component]().Field(i)
		if field.Name == "Name" || field.Name == "Overrides" { // by which it is found; see spec's own test
			continue
		}
		c := spec.Component{Name: "c"}
		some(reflect.ValueOf(&c).Elem().Field(i))
		over("a component's "+field.Name, &spec.Recipe{Components: []spec.Component{c}}, func(r *spec.Recipe) any { return r.Components[0] }, c)
	}
	for i := range reflect.TypeFor[spec.RecipePhase]().NumField() {
		field := reflect.TypeFor[spec.RecipePhase]().Field(i)
		if field.Name == "Verdict" {
			continue
		}
		p := spec.RecipePhase{}
		some(reflect.ValueOf(&p).Elem().Field(i))
		over("a phase's "+field.Name, &spec.Recipe{Phases: spec.RecipePhases{Performance: &p}}, func(r *spec.Recipe) any { return *r.Phases.Performance }, p)
	}
	for i := range reflect.TypeFor[spec.RecipeVerdict]().NumField() {
		v := spec.RecipeVerdict{}
		some(reflect.ValueOf(&v).Elem().Field(i))
		over("a verdict's "+reflect.TypeFor[spec.RecipeVerdict]().Field(i).Name, &spec.Recipe{Phases: spec.RecipePhases{Performance: &spec.RecipePhase{Verdict: v}}}, func(r *spec.Recipe) any { return r.Verdict() }, v)
	}
	for i := range reflect.TypeFor[spec.RecipePhases]().NumField() {
		var p spec.RecipePhases
		reflect.ValueOf(&p).Elem().Field(i).Set(reflect.ValueOf(&spec.RecipePhase{Infrastructure: "x"}))
		over("the phase "+reflect.TypeFor[spec.RecipePhases]().Field(i).Name, &spec.Recipe{Phases: p}, func(r *spec.Recipe) any {
			return reflect.ValueOf(r.Phases).Field(i).Interface()
		}, reflect.ValueOf(p).Field(i).Interface())
	}
}

// TestAWholeRecipeHasWhatUpstreamRequires holds one against the required fields of
// upstream's schema of a RecipeResult.
func TestAWholeRecipeHasWhatUpstreamRequires(t *testing.T) {
	l := loaded(t)
	for name, criteria := range platforms() {
		r, err := resolved(l, criteria)
		if err != nil {
			t.Fatal(err)
		}
		text, err := spec.EncodeRecipeJSON(r)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]json.RawMessage
		var parts struct {
			ComponentRefs []map[string]any `json:"componentRefs"`
			Constraints   []map[string]any `json:"constraints"`
		}
		if err := errors.Join(json.Unmarshal(text, &doc), json.Unmarshal(text, &parts)); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"apiVersion", "componentRefs", "criteria", "deploymentOrder", "kind", "metadata"} {
			if doc[field] == nil {
				t.Errorf("%s has no %s", name, field)
			}
		}
		texts := func(all []map[string]any, fields ...string) {
			for _, one := range all {
				for _, field := range fields {
					if _, ok := one[field].(string); !ok {
						t.Errorf("%s: %v has no %s", name, one, field)
					}
				}
			}
		}
		texts(parts.ComponentRefs, "name", "source", "type")
		texts(parts.Constraints, "name", "value")
	}
}

func TestOriginsNameTheOverlayAndItsFile(t *testing.T) {
	l := loaded(t)
	err := l.Add("ours", folder(map[string]string{"overlays/acme.yaml": overlayText("acme", `
base: h100-eks-ubuntu-inference-dynamo
criteria: {service: eks, accelerator: h100, os: ubuntu, intent: inference, platform: dynamo}
validation:
  conformance: {checks: [dra-support, slinky-slurm-health]}
  performance: {constraints: [{name: inference-ttft-p99, value: "<= 500", unit: ms}], verdict: {stability: gate}}
`)}))
	if err != nil {
		t.Fatal(err)
	}
	r, err := resolved(l, platforms()["h100-eks-ubuntu-inference-dynamo"])
	if err != nil {
		t.Fatal(err)
	}
	ours := spec.Origin{Overlay: "acme", File: "ours/overlays/acme.yaml"}
	built := func(layer, file string) spec.Origin { return spec.Origin{Overlay: layer, File: BuiltIn + file} }
	for _, c := range []struct {
		group, name string
		want        spec.Origin
	}{
		{"", "K8s.server.version", built("gpu-cluster", "mixins/gpu-cluster.yaml")},
		{"conformance", "dra-support", built("eks", "overlays/eks.yaml")}, // who said it first
		{"conformance", "slinky-slurm-health", ours},
		{"deployment", "check-nvidia-smi", built("h100-any", "overlays/h100-any.yaml")},
		{"performance", "inference-ttft-p99", ours}, // who said it last
		{"performance", "inference-throughput", built("h100-eks-ubuntu-inference-dynamo", "overlays/h100-eks-ubuntu-inference-dynamo.yaml")},
		{"performance", OfVerdict, ours},
		{OfVerdict, "stability", ours},
		{OfComponents, "dynamo-platform", built("platform-dynamo", "mixins/platform-dynamo.yaml")},
	} {
		if got, _ := r.OriginOf(c.group, c.name); got != c.want {
			t.Errorf("%s/%s is from %+v, want %+v", c.group, c.name, got, c.want)
		}
	}
	if _, ok := r.OriginOf(OfVerdict, "profile"); ok {
		t.Error("what nobody said has an origin")
	}
}

func TestWhatIsAddedPrevails(t *testing.T) {
	l := loaded(t)
	before := len(l.Overlays)
	err := l.Add("ours/", folder(map[string]string{
		"overlays/eks.yaml":        overlayText("eks", "criteria: {service: eks}\nvalidation: {conformance: {checks: [our-check]}}"),
		"mixins/gpu-cluster.yaml":  mixinText("gpu-cluster", "constraints: []"),
		"validators/catalog.yaml":  "apiVersion: validator.nvidia.com/v1alpha1\nkind: ValidatorCatalog\nvalidators:\n- {name: our-check, phase: conformance}\n- {name: dra-support, phase: conformance, timeout: 1h}\n",
		"registry.yaml":            "kind: ComponentRegistry\n",
		"components/c/values.yaml": "a: {b: [",
		"checks/c/x.yaml":          "kind: Test\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Overlays) != before {
		t.Errorf("%d overlays became %d", before, len(l.Overlays))
	}
	r, err := resolved(l, spec.Criteria{Service: "eks"})
	if err != nil {
		t.Fatal(err)
	}
	if got := lines(r); got != "criteria service: eks\ncheck conformance/our-check: checked" {
		t.Errorf("got\n%s", got)
	}
	if o, _ := r.OriginOf("conformance", "our-check"); o.File != "ours/overlays/eks.yaml" {
		t.Errorf("it is from %s", o.File)
	}
	layers, _ := l.LayersNamed("eks")
	if err := l.CheckNames(layers); err != nil {
		t.Error(err)
	}
	for _, e := range l.Catalog.Validators {
		if e.Name == "dra-support" && e.Timeout != "1h" {
			t.Errorf("its timeout is %s", e.Timeout)
		}
	}
	if len(l.Catalog.Validators) != 25 {
		t.Errorf("%d checks", len(l.Catalog.Validators))
	}
}

// TestEquallyParticularOverlays are both taken; the one that was added has the last word.
func TestEquallyParticularOverlays(t *testing.T) {
	l := loaded(t)
	if err := l.Add("ours", folder(map[string]string{"registry.yaml": "kind: ComponentRegistry", "unasked.yaml": overlayText("unasked", "validation: {}"), "acme.yaml": overlayText("acme", `
criteria: {service: eks, accelerator: h100, os: ubuntu, intent: inference, platform: dynamo}
validation: {performance: {constraints: [{name: inference-concurrency-per-gpu, value: 64}]}}`)})); err != nil {
		t.Fatal(err)
	}
	r, err := resolved(l, platforms()["h100-eks-ubuntu-inference-dynamo"])
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := r.ConcurrencyPerGPU(); n != 64 {
		t.Errorf("%d in flight a GPU", n)
	}
	if got := r.Resolution.AppliedOverlays; got[len(got)-1] != "acme" || !slices.Contains(got, "h100-eks-ubuntu-inference-dynamo") || slices.Contains(got, "unasked") {
		t.Errorf("made of %v", got)
	}
}

func TestOverlaysMayBeInFoldersBelow(t *testing.T) {
	l := loaded(t)
	err := l.Add("ours", folder(map[string]string{
		"registry.yaml":               "kind: ComponentRegistry\n",
		"overlays/README.md":          "ours",
		"overlays/team-a/deep/a.yaml": overlayText("a", "base: b\nmixins: [m]"),
		"overlays/team-b/b.yml":       overlayText("b", "criteria: {service: eks}"),
		"mixins/shared/m.yaml":        mixinText("m", "constraints: []"),
		"components/a/values.yaml":    "kind: none of ours\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"a": "ours/overlays/team-a/deep/a.yaml", "b": "ours/overlays/team-b/b.yml"} {
		if o, ok := l.Overlay(name); !ok || o.File != file {
			t.Errorf("%s: %v %s", name, ok, o.File)
		}
	}
}

func TestMistakesOfAFolderAreToldAtOnce(t *testing.T) {
	good := overlayText("good", "criteria: {service: eks}")
	for _, c := range []struct {
		rule  string
		files map[string]string
		want  string
	}{
		{"a base that is not there", map[string]string{"overlays/a.yaml": overlayText("a", "base: eks-inferense")},
			"ours/overlays/a.yaml:6: spec.base: there is no overlay \"eks-inferense\" (did you mean eks-inference?)"},
		{"a mixin that is not there", map[string]string{"overlays/a.yaml": overlayText("a", "mixins:\n  - gpu-cluster\n  - gpu-clustre")},
			"ours/overlays/a.yaml:8: spec.mixins[1]: there is no mixin \"gpu-clustre\" (did you mean gpu-cluster?)"},
		{"bases in a circle", map[string]string{"overlays/a.yaml": overlayText("a", "base: b"), "overlays/b.yaml": overlayText("b", "base: c"), "overlays/c.yaml": overlayText("c", "base: b")},
			"ours/overlays/b.yaml:6: spec.base: the bases go in a circle: b -> c -> b (an overlay of the same name replaces the one that is built in; to extend that one, give yours a name of its own)\n" +
				"ours/overlays/c.yaml:6: spec.base: the bases go in a circle: c -> b -> c (an overlay of the same name replaces the one that is built in; to extend that one, give yours a name of its own)"},
		{"an overlay on itself", map[string]string{"overlays/eks.yaml": overlayText("eks", "base: eks")},
			"ours/overlays/eks.yaml:6: spec.base: the bases go in a circle: eks -> eks (an overlay of the same name replaces the one that is built in; to extend that one, give yours a name of its own)"},
		{"a name twice in a folder", map[string]string{"overlays/a.yaml": good, "overlays/b.yaml": good},
			"ours/overlays/b.yaml:4: metadata.name: good is there twice (it is at ours/overlays/a.yaml:4 already)"},
		{"a whole recipe among the layers", map[string]string{"overlays/a.yaml": "kind: RecipeResult\napiVersion: aicr.run/v1beta1\nmetadata: {}\ncriteria: {service: eks}\ncomponentRefs: []\ndeploymentOrder: []\n"},
			"ours/overlays/a.yaml:1: kind: a whole recipe is no layer of others (give it to 'aicr validate --recipe' as it is)"},
		{"several files", map[string]string{"overlays/a.yaml": overlayText("a", "bass: eks"), "mixins/m.yaml": mixinText("m", "componentRef: []"), "catalog.yaml": "kind: ValidatorCatalog\napiVersion: validator.nvidia.com/v1alpha1\nvalidators: [{name: x, phase: performanse}]\n"},
			"ours/overlays/a.yaml:6: spec.bass: unknown field (did you mean base?)\n" +
				"ours/mixins/m.yaml:6: spec.componentRef: unknown field (did you mean componentRefs?)\n" +
				"ours/catalog.yaml:3: validators[0].phase: \"performanse\" is not known here (did you mean performance?)"},
		{"a file that cannot be read makes no mistake of those that stand on it", map[string]string{"overlays/a.yaml": overlayText("a", "bass: eks"), "overlays/b.yaml": overlayText("b", "base: a")},
			"ours/overlays/a.yaml:6: spec.bass: unknown field (did you mean base?)"},
		{"nothing that is read", map[string]string{"overlays/README.md": "", "registry.yaml": "a: b"},
			"ours has no overlay, mixin or catalog: they are overlays/*.yaml, mixins/*.yaml and catalog.yaml"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			l := loaded(t)
			before := l.Names()
			err := l.Add("ours", folder(c.files))
			if got := told(err); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if diff := cmp.Diff(before, l.Names()); diff != "" {
				t.Errorf("some of it was added:\n%s", diff)
			}
		})
	}
}

// told is an error with its hints, one mistake a line.
func told(err error) string {
	if err == nil {
		return "no error"
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []string
		for _, one := range joined.Unwrap() {
			all = append(all, told(one))
		}
		return strings.Join(all, "\n")
	}
	bad, ok := errors.AsType[*spec.BadFile](err)
	if !ok {
		return err.Error()
	}
	var all []string
	for _, m := range bad.Mistakes {
		all = append(all, fmt.Sprintf("%s:%d: %s: %s (%s)", bad.File, m.Line, m.Path, m.Text, m.Hint))
	}
	return strings.Join(all, "\n")
}

func TestCheckNamesAreThoseOfTheCatalog(t *testing.T) {
	l := loaded(t)
	if err := l.Add("ours", folder(map[string]string{"a.yaml": overlayText("a", `
validation:
  performance:
    checks: [inference-perff]
  conformance:
    checks:
      - dra-support
      - inference-perf`)})); err != nil {
		t.Fatal(err)
	}
	layers, _ := l.LayersNamed("a")
	want := "ours/a.yaml:12: spec.validation.conformance.checks[1]: there is no check \"inference-perf\" in this phase (it is one of the performance phase)\n" +
		"ours/a.yaml:8: spec.validation.performance.checks[0]: there is no check \"inference-perff\" in this phase (did you mean inference-perf?)"
	if got := told(l.CheckNames(layers)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestChecksOfReadinessAreToldWithTheirLines(t *testing.T) {
	l := loaded(t)
	if err := l.Add("ours", folder(map[string]string{"a.yaml": overlayText("a", `
validation:
  readiness:
    checks:
      - operator-health
      - operator-helth
      - quite-another`)})); err != nil {
		t.Fatal(err)
	}
	const never = " would never run: readiness is no phase, and has constraints alone"
	layers, _ := l.LayersNamed("a")
	want := "ours/a.yaml:9: spec.validation.readiness.checks[0]: readiness: \"operator-health\"" + never + " (write it below spec.validation.deployment.checks)\n" +
		"ours/a.yaml:10: spec.validation.readiness.checks[1]: readiness: \"operator-helth\"" + never + " (did you mean operator-health?)\n" +
		"ours/a.yaml:11: spec.validation.readiness.checks[2]: readiness: \"quite-another\"" + never + " (write it below the checks of deployment, conformance, performance)"
	if got := told(l.CheckNames(layers)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAFileIsCompleted(t *testing.T) {
	l := loaded(t)
	decoded := func(text string) *spec.Recipe {
		t.Helper()
		r, err := spec.DecodeRecipe([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Run("with its bases, its mixins and what is for every such accelerator", func(t *testing.T) {
		r, err := completed(l, decoded(overlayText("mine", "base: eks-inference\ncriteria: {service: eks, accelerator: h100, intent: inference}")), "mine.yaml", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.Resolution.AppliedOverlays, " "); got != "base h100-any eks eks-inference mine" {
			t.Errorf("made of %s", got)
		}
	})
	t.Run("one that has the name of what it stands on", func(t *testing.T) {
		r, err := completed(l, decoded(overlayText("eks", "base: eks")), "mine.yaml", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.Resolution.AppliedOverlays, " "); got != "base eks eks" {
			t.Errorf("made of %s", got)
		}
	})
	t.Run("a mixin is no recipe", func(t *testing.T) {
		_, err := completed(l, decoded(mixinText("m", "constraints: []")), "mine.yaml", nil)
		if got := told(err); got != "mine.yaml:1: kind: a mixin is a part of recipes, not one (name it in the mixins of an overlay)" {
			t.Error(got)
		}
	})
	t.Run("a base that is not there", func(t *testing.T) {
		text := overlayText("mine", "base: eks-inferense\nmixins: [gpu-clustre]")
		_, err := completed(l, decoded(text), "mine.yaml", []byte(text))
		want := "mine.yaml:6: spec.base: there is no overlay \"eks-inferense\" (did you mean eks-inference?)\n" +
			"mine.yaml:7: spec.mixins[0]: there is no mixin \"gpu-clustre\" (did you mean gpu-cluster?)"
		if got := told(err); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestComponentsAreOrderedByWhatTheyWaitFor(t *testing.T) {
	of := func(text string) []spec.Component {
		t.Helper()
		r, err := spec.DecodeRecipe([]byte(overlayText("a", "componentRefs: "+text)))
		if err != nil {
			t.Fatal(err)
		}
		return r.Components
	}
	for _, c := range []struct{ rule, components, want string }{
		{"none", "[]", ""},
		{"as they are written", "[{name: b}, {name: a}]", "b a"},
		{"after what they wait for", "[{name: a, dependencyRefs: [b]}, {name: b, dependencyRefs: [c]}, {name: c}]", "c b a"},
		{"what the recipe does not install is there", "[{name: a, dependencyRefs: [b, x]}, {name: b, overrides: {enabled: false}}]", "a"},
		{"what is declined is not installed", "[{name: a}, {name: b, overrides: {install: false}}]", "a"},
		{"in a circle", "[{name: z}, {name: a, dependencyRefs: [b]}, {name: b, dependencyRefs: [z, c]}, {name: c, dependencyRefs: [b]}]", "components wait for each other: b -> c -> b"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			list, err := order(of(c.components))
			got := strings.Join(list, " ")
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if err == nil && list == nil {
				t.Error("none is not an empty list")
			}
		})
	}
}

func TestDiff(t *testing.T) {
	l := loaded(t)
	whole := func(spec string) string { return overlayText("x", spec) }
	of := func(text string) *spec.Recipe {
		t.Helper()
		r, err := spec.DecodeRecipe([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if r, err = completed(l, r, "x.yaml", nil); err != nil {
			t.Fatal(err)
		}
		return r
	}
	const same = `
criteria: {service: eks}
constraints: [{name: K8s.server.version, value: ">= 1.30"}]
componentRefs: [{name: c, source: https://a, version: "1"}]
validation:
  conformance: {checks: [dra-support]}
  performance: {constraints: [{name: inference-throughput, value: ">= 1", unit: tokens/s}], verdict: {stability: gate}}`
	for _, c := range []struct {
		what, from, to string
		want           []Change
	}{
		{"nothing", "", "", []Change{}},
		{"criteria", "eks", "aks", []Change{{"criteria", "service", "eks", "aks"}}},
		{"what is wanted of the cluster", ">= 1.30", ">= 1.34", []Change{{"constraint", "K8s.server.version", ">= 1.30", ">= 1.34"}}},
		{"a unit", "unit: tokens/s}", "unit: tokens/s/GPU}", []Change{{"constraint", "performance/inference-throughput", ">= 1 tokens/s", ">= 1 tokens/s/GPU"}}},
		{"a tolerance", "unit: tokens/s}", "unit: tokens/s, tolerance: 0.05}", []Change{{"constraint", "performance/inference-throughput", ">= 1 tokens/s", ">= 1 tokens/s, tolerance 5 %"}}},
		{"a check", "[dra-support]", "[gang-scheduling]", []Change{{"check", "conformance/dra-support", "checked", ""}, {"check", "conformance/gang-scheduling", "", "checked"}}},
		{"a version", `version: "1"`, `version: "2"`, []Change{{"component", "c", "1, source https://a", "2, source https://a"}}},
		{"how it is judged", "stability: gate", "stability: report", []Change{{"verdict", "stability", "gate", "report"}}},
		{"the order", "componentRefs: [{name: c, source: https://a, version: \"1\"}]", "componentRefs: [{name: c, source: https://a, version: \"1\"}, {name: d}]", []Change{{"component", "d", "", "no version"}, {"order", "deploymentOrder", "c", "c, d"}}},
	} {
		t.Run(c.what, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Diff(of(whole(same)), of(whole(strings.Replace(same, c.from, c.to, 1))))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestThePage keeps docs/recipes.md and the recipes alike: every platform has its row with
// its figures, and the example is an overlay that can be added.
func TestThePage(t *testing.T) {
	text, err := os.ReadFile("../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	l := loaded(t)
	rows := 0
	for line := range strings.SplitSeq(page, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 6 || !strings.HasPrefix(cells[0], "`") {
			continue
		}
		rows++
		name := strings.Trim(cells[0], "`")
		r, err := resolved(l, platforms()[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		floor := "none"
		for _, c := range r.Figures(1) {
			if c.Name == spec.ConstraintThroughput {
				floor = fmt.Sprintf("%.0f", c.Threshold)
			}
		}
		if got, _, _ := strings.Cut(strings.ReplaceAll(cells[2], ",", ""), " "); got != floor {
			t.Errorf("%s: the page has a floor of %s, the recipe one of %s", name, got, floor)
		}
		if name == "sim" {
			continue
		}
		o, _ := l.Overlay(name)
		tps, ttft, _ := strings.Cut(cells[5], " tokens/s, ")
		if comment := strings.Join(strings.Fields(strings.ReplaceAll(string(o.text), "\n# ", " ")), " "); !strings.Contains(comment, fmt.Sprintf("a baseline of %s tokens/s and %s on", tps, ttft)) {
			t.Errorf("%s: the overlay does not record %s and %s", name, tps, ttft)
		}
	}
	if rows != len(platforms()) {
		t.Errorf("the page has %d platforms", rows)
	}
	_, after, _ := strings.Cut(page, "```yaml\n")
	example, _, _ := strings.Cut(after, "```")
	if err := l.Add("ours", folder(map[string]string{"overlays/example.yaml": example})); err != nil {
		t.Fatal(err)
	}
	r, err := resolved(l, platforms()["h100-eks-ubuntu-inference-dynamo"])
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != "acme-h100" || r.Verdict().Reference == nil {
		t.Errorf("the example is not taken: %v", r.Resolution.AppliedOverlays)
	}
}

// What the usual way of a profile wants is wanted: a constraint that nobody holds would
// be one that everything meets.
func TestTheUsualWayOfAProfileIsLaidOverTheRest(t *testing.T) {
	l := loaded(t)
	text := overlayText("ours", `criteria: {service: acme, accelerator: h100}
componentRefs: [{name: gpu-operator, overrides: {driver: {enabled: true}}}]
profile:
  name: gpuStack
  default: managed
  values:
    managed:
      advertiser: external
      constraints: [{name: NodeTopology.gpu-nodes.label, value: "!own-plugin"}]
      readinessConstraints: [{name: GPU.hardware.gpu-count, value: ">= 8"}]
      componentRefs: [{name: gpu-operator, overrides: {driver: {enabled: false}}}]
    own:
      constraints: [{name: NodeTopology.gpu-nodes.label, value: "own-plugin=true"}]`)
	if err := l.Add("ours", fstest.MapFS{"overlays/ours.yaml": {Data: []byte(text)}}); err != nil {
		t.Fatal(err)
	}
	layers, ok := l.LayersNamed("ours")
	if !ok {
		t.Fatal("it is not there")
	}
	r, err := l.Merge(layers, spec.Criteria{Service: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	value := func(all []spec.RecipeConstraint, name string) string {
		for _, c := range all {
			if c.Name == name {
				return string(c.Value)
			}
		}
		return ""
	}
	if got := value(r.Wants, "NodeTopology.gpu-nodes.label"); got != "!own-plugin" {
		t.Errorf("it wants %q of the labels", got)
	}
	if r.Phases.Readiness == nil || value(r.Phases.Readiness.Constraints, "GPU.hardware.gpu-count") != ">= 8" {
		t.Errorf("readiness is %+v", r.Phases.Readiness)
	}
	for _, c := range r.Components {
		if text, _ := json.Marshal(c.Overrides); c.Name == "gpu-operator" && string(text) != `{"driver":{"enabled":false}}` {
			t.Errorf("its values are %s", text)
		}
	}
	if p := r.Resolution.SelectedProfile; p == nil || p.Name != "gpuStack" || p.Value != "managed" {
		t.Errorf("selected is %+v", p)
	}
	if _, err := spec.EncodeRecipe(r); err != nil {
		t.Error(err)
	}
}
