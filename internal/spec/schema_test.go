package spec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aicr/internal/spec"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func TestEverySchemaIsMadeFromTheTypesOfItsDocuments(t *testing.T) {
	want := map[string]bool{}
	for _, k := range spec.DocumentKinds() {
		made, err := spec.GenerateSchema(k)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("schemas", k.Name+".schema.json")
		want[filepath.Base(file)] = true
		if *update {
			if err := os.WriteFile(file, made, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(string(mustRead(t, file)), string(made)); diff != "" {
			t.Errorf("%s is not what its types say: go test ./internal/spec -run Schema -update (-file +types):\n%s", file, diff)
		}
	}
	files, err := os.ReadDir("schemas")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !want[f.Name()] {
			t.Errorf("schemas/%s is of no kind", f.Name())
		}
	}
}

func TestEveryRuleOfTheSchemasIsOfAField(t *testing.T) {
	for _, key := range spec.SchemaRulesOfNothing() {
		t.Errorf("%s: no document has such a field", key)
	}
}

func compiled(t testing.TB, k spec.DocumentKind) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("schemas", k.Name+".schema.json")) // what -update wrote, not what was embedded before
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(k.Name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(k.Name)
	if err != nil {
		t.Fatalf("%s: %v", k.Name, err)
	}
	return s
}

func TestEverySchemaIsOneOfDraft2020(t *testing.T) {
	c := jsonschema.NewCompiler()
	meta, err := c.Compile("https://json-schema.org/draft/2020-12/schema")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, k := range spec.DocumentKinds() {
		text, err := k.Schema()
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := meta.Validate(doc); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
		head := doc.(map[string]any)
		id, _ := head["$id"].(string)
		if head["$schema"] != "https://json-schema.org/draft/2020-12/schema" || head["title"] != k.Kind || id == "" || ids[id] {
			t.Errorf("%s has the head %v %v %v", k.Name, head["$schema"], head["title"], id)
		}
		ids[id] = true
		compiled(t, k)
	}
}

// readAs reads a document as its kind is read.
func readAs(k spec.DocumentKind, data []byte) error {
	var err error
	switch k.Kind {
	case spec.RecipeKind, spec.RecipeResultKind, spec.RecipeMixinKind, spec.ValidationInputKind:
		_, err = spec.DecodeRecipe(data)
	case spec.SnapshotKind:
		_, err = spec.DecodeSnapshot(data)
	case spec.CatalogKind:
		_, err = spec.DecodeCatalog(data)
	case spec.ConfigKind:
		_, err = spec.DecodeConfig(data)
	case spec.VersionsKind:
		_, err = spec.DecodeVersions(data)
	case spec.ScenarioKind:
		_, err = spec.DecodeScenario(data)
	case "Plan":
		_, err = spec.DecodePlan(data)
	default:
		err = fmt.Errorf("%s has no decoder here", k.Kind)
	}
	return err
}

// valueOf is a document as a schema sees it.
func valueOf(t testing.TB, data []byte) any {
	t.Helper()
	v, err := asJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func asJSON(data []byte) (any, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(text))
}

// kindOf is the kind that a document names; a plan names a schema instead.
func kindOf(v any) (spec.DocumentKind, bool) {
	m, _ := v.(map[string]any)
	if m["schema"] == spec.PlanSchema {
		return spec.DocumentKindNamed("plan")
	}
	kind, _ := m["kind"].(string)
	return spec.DocumentKindNamed(kind)
}

// goodDocuments are the documents of the repository that the decoders read, by kind:
// fixtures, what is embedded, and the examples of the pages.
func goodDocuments(t testing.TB) map[string]map[string][]byte {
	t.Helper()
	good := map[string]map[string][]byte{}
	add := func(name string, data []byte) {
		v, err := asJSON(data)
		if err != nil {
			return // a bad one, or of something else
		}
		k, ok := kindOf(v)
		if !ok || readAs(k, data) != nil {
			return
		}
		if good[k.Kind] == nil {
			good[k.Kind] = map[string][]byte{}
		}
		good[k.Kind][name] = data
	}
	for _, root := range []string{"testdata", "../sim/scenarios", "../../recipes"} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".yaml" && filepath.Ext(path) != ".json" {
				return err
			}
			if info, err := e.Info(); err != nil || info.Size() > 1<<20 {
				return err
			}
			data, err := os.ReadFile(path)
			add(path, data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range spec.DocumentKinds() {
		add(pageOf(k), []byte(exampleOn(t, pageOf(k))))
	}
	return good
}

func TestEveryGoodDocumentIsAcceptedByItsSchema(t *testing.T) {
	good := goodDocuments(t)
	for _, k := range spec.DocumentKinds() {
		schema := compiled(t, k)
		if len(good[k.Kind]) == 0 {
			t.Errorf("there is no good %s", k.Kind)
		}
		for _, name := range slices.Sorted(maps.Keys(good[k.Kind])) {
			if err := schema.Validate(valueOf(t, good[k.Kind][name])); err != nil {
				t.Errorf("%s is read and its schema refuses it: %v", name, err)
			}
		}
	}
}

// TestWhatASchemaRefusesIsNotRead changes each example in one place at a time. An
// editor that underlines what the program would read is worse than none.
func TestWhatASchemaRefusesIsNotRead(t *testing.T) {
	for _, k := range spec.DocumentKinds() {
		t.Run(k.Name, func(t *testing.T) {
			schema := compiled(t, k)
			tried, both := 0, 0
			for name, changed := range changes(valueOf(t, []byte(exampleOn(t, pageOf(k))))) {
				text, err := json.Marshal(changed)
				if err != nil {
					t.Fatal(err)
				}
				tried++
				refused := schema.Validate(changed)
				if refused == nil {
					continue
				}
				both++
				if readAs(k, text) == nil {
					t.Errorf("%s: it is read, and the schema refuses it: %v", name, refused)
				}
			}
			if tried < 20 || both*3 < tried {
				t.Errorf("%d changes, of which both refuse %d: does this try anything?", tried, both)
			}
		})
	}
}

// changes are a document with one thing wrong at a time: a field too many, a field too
// few, a value of another type. Most are mistakes, some are not.
func changes(doc any) map[string]any {
	all := map[string]any{}
	text, _ := json.Marshal(doc)
	fresh := func() any {
		v, _ := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		return v
	}
	var walk func(v any, path []any)
	change := func(name string, path []any, with func(parent any, last any)) {
		root := fresh()
		parent := root
		for _, step := range path[:len(path)-1] {
			parent = stepInto(parent, step)
		}
		with(parent, path[len(path)-1])
		all[fmt.Sprint(path, " ", name)] = root
	}
	walk = func(v any, path []any) {
		if len(path) > 0 {
			for name, other := range map[string]any{"null": nil, "a list": []any{[]any{}}, "a map": map[string]any{"zzz": "y"}, "text": "zzz", "negative": json.Number("-1"), "true": true, "empty": ""} {
				change(name, path, func(parent, last any) { putAt(parent, last, other) })
			}
		}
		switch v := v.(type) {
		case map[string]any:
			change("with zzz", append(slices.Clone(path), "zzz"), func(parent, last any) { putAt(parent, last, "x") })
			for key, inner := range v {
				at := append(slices.Clone(path), key)
				change("without it", at, func(parent, last any) { delete(parent.(map[string]any), last.(string)) })
				walk(inner, at)
			}
		case []any:
			for i, inner := range v {
				walk(inner, append(slices.Clone(path), i))
			}
		}
	}
	walk(doc, nil)
	return all
}

func stepInto(v, step any) any {
	if i, ok := step.(int); ok {
		return v.([]any)[i]
	}
	return v.(map[string]any)[step.(string)]
}

func putAt(parent, last, value any) {
	if i, ok := last.(int); ok {
		parent.([]any)[i] = value
		return
	}
	parent.(map[string]any)[last.(string)] = value
}

func TestDecoderAndSchemaRefuseTheSameMistakes(t *testing.T) {
	for _, m := range []struct{ kind, name, old, new string }{
		{"recipe", "a misspelt field", "checks:", "cheks:"},
		{"recipe", "a misspelt section", "spec:", "specs:"},
		{"recipe", "another kind", "kind: RecipeMetadata", "kind: Recipe"},
		{"recipe", "a version that there is not", "apiVersion: aicr.run/v1beta1", "apiVersion: aicr.run/v9"},
		{"recipe", "a word that is no intent", "intent: inference", "intent: inferense"},
		{"recipe", "a tolerance of text", "tolerance: 0.05", "tolerance: small"},
		{"recipe", "a tolerance beyond all", "tolerance: 0.05", "tolerance: 5"},
		{"recipe", "a profile that there is not", "profile: standard", "profile: standart"},
		{"recipe", "a threshold that there is not", "ttftGuardrailMs:", "ttftGuardrail:"},
		{"recipe", "a name with capitals", "name: example-h100-eks", "name: Example"},
		{"mixin", "a phase in a mixin", "spec:", "spec:\n  validation: {}"},
		{"mixin", "no name", "metadata:", "annotations:"},
		{"recipe-result", "a component without a name", "  - name: serving-platform", "  - chart: serving-platform"},
		{"recipe-result", "a list that is a map", "componentRefs:", "componentRefs: {}\nother:"},
		{"validation-input", "a policy that there is not", "gpuAllocationPolicy: dra-resource-claim", "gpuAllocationPolicy: dra"},
		{"validation-input", "a kind alone", "apiVersion: validator.nvidia.com/v1alpha1", ""},
		{"snapshot", "a type that there is not", "type: K8s", "type: k8s"},
		{"snapshot", "a reason that there is not", "reason: forbidden", "reason: because"},
		{"snapshot", "a fact that is a list", "version: v1.34.2", "version: [1, 34]"},
		{"catalog", "a phase that there is not", "phase: performance", "phase: perf"},
		{"catalog", "cpu without memory", ", memory: 2Gi", ""},
		{"catalog", "a secret in a catalog", "name: AICR_INFERENCE_PERF_CONCURRENCY_PER_GPU", "name: HF_TOKEN"},
		{"catalog", "a time without a unit", "timeout: 1h5m", `timeout: "65"`},
		{"catalog", "an image that is none", "image: registry.example/", "image: https://registry.example/"},
		{"config", "a format that there is not", "format: yaml", "format: yml"},
		{"config", "a phase that there is not", "phases: [", "phases: [readiness, "},
		{"config", "a truth in quotes", "failFast: true", `failFast: "true"`},
		{"config", "no section", "spec:", "spec: {}\nother:"},
		{"versions", "no tag", "tag:", "tags:"},
		{"versions", "a list that is empty", "releases:", "releases: []\nother:"},
		{"scenario", "a fault that there is not", "kind: worker-stall", "kind: worker-stal"},
		{"scenario", "a field of another fault", "kind: worker-stall", "kind: worker-stall\n    share: 0.5"},
		{"scenario", "a duration without a unit", "episode: 50s", "episode: 50"},
		{"scenario", "a router that there is not", "router: least-loaded", "router: leastloaded"},
		{"plan", "a field that is missing", "seed:", "sed:"},
		{"plan", "a profile that there is not", "profile: standard", "profile: standart"},
	} {
		t.Run(m.kind+"/"+m.name, func(t *testing.T) {
			k, ok := spec.DocumentKindNamed(m.kind)
			if !ok {
				t.Fatal("no such kind")
			}
			example := exampleOn(t, pageOf(k))
			if !strings.Contains(example, m.old) {
				t.Fatalf("the example has no %q", m.old)
			}
			text := []byte(strings.Replace(example, m.old, m.new, 1))
			if err := readAs(k, text); err == nil {
				t.Error("the decoder reads it")
			}
			if compiled(t, k).Validate(valueOf(t, text)) == nil {
				t.Error("the schema accepts it")
			}
		})
	}
}

func TestAKindIsFoundByEitherNameInAnyCase(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range spec.DocumentKinds() {
		for _, name := range []string{k.Name, k.Kind, strings.ToUpper(k.Name), strings.ToLower(k.Kind)} {
			if found, ok := spec.DocumentKindNamed(name); !ok || found != k {
				t.Errorf("%s is %+v", name, found)
			}
		}
		if seen[k.Name] || seen[k.Kind] || k.About == "" {
			t.Errorf("%+v", k)
		}
		seen[k.Name], seen[k.Kind] = true, true
	}
	if k, ok := spec.DocumentKindNamed("thing"); ok {
		t.Errorf("thing is %+v", k)
	}
}

const pages = "../../docs/documents"

func pageOf(k spec.DocumentKind) string { return filepath.Join(pages, k.Name+".md") }

// exampleOn is the first block of YAML on a page.
func exampleOn(t testing.TB, page string) string {
	t.Helper()
	_, rest, ok := strings.Cut(string(mustRead(t, page)), "\n```yaml\n")
	example, _, closed := strings.Cut(rest, "\n```\n")
	if !ok || !closed {
		t.Fatalf("%s has no example", page)
	}
	return example + "\n"
}

func TestEveryDocumentPageHasAnExampleThatIsRead(t *testing.T) {
	index := string(mustRead(t, filepath.Join(pages, "README.md")))
	want := map[string]bool{"README.md": true}
	for _, k := range spec.DocumentKinds() {
		page := pageOf(k)
		want[filepath.Base(page)] = true
		text := string(mustRead(t, page))
		for _, part := range []string{"# " + k.Kind, "aicr schema " + k.Name} {
			if !strings.Contains(text, part) {
				t.Errorf("%s has no %q", page, part)
			}
		}
		if !strings.Contains(index, fmt.Sprintf("| [`%s`](%s.md) | `%s` | %s |", k.Kind, k.Name, k.Name, k.About)) {
			t.Errorf("README.md has no row of %s: %s", k.Kind, k.About)
		}
		example := exampleOn(t, page)
		if err := readAs(k, []byte(example)); err != nil {
			t.Errorf("%s: %v", page, err)
		}
		if !strings.Contains(example, "# ") {
			t.Errorf("%s: an example without a comment", page)
		}
		// Every field that the kind has at its top is in the example.
		v := valueOf(t, []byte(example))
		if found, ok := kindOf(v); !ok || found != k {
			t.Errorf("%s shows a %+v", page, found)
		}
		var schema struct{ Properties map[string]any }
		file, err := k.Schema()
		if err != nil || json.Unmarshal(file, &schema) != nil {
			t.Fatal(err)
		}
		for field := range schema.Properties {
			if _, ok := v.(map[string]any)[field]; !ok && !strings.Contains(text, "`"+field+"`") {
				t.Errorf("%s says nothing of %s", page, field)
			}
		}
	}
	files, err := os.ReadDir(pages)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !want[f.Name()] {
			t.Errorf("%s is of no kind", f.Name())
		}
	}
}
