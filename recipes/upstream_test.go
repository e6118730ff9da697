package recipes

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"aicr/internal/spec"
)

// required compiles what upstream requires of a whole recipe.
func required(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("testdata/upstream/recipe_result.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("required", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("required")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON is a recipe as it is written, and read by others.
func asJSON(t *testing.T, r *spec.Recipe) map[string]any {
	t.Helper()
	text, err := spec.EncodeRecipeJSON(r)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc.(map[string]any)
}

func TestThePlatformsRecipesHaveWhatUpstreamRequires(t *testing.T) {
	s := required(t)
	for name, criteria := range platforms() {
		t.Run(name, func(t *testing.T) {
			r, err := resolved(loaded(t), criteria)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(asJSON(t, r)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A recipe with a profile has more to say, of which upstream requires some too.
func TestARecipeWithAProfileHasWhatUpstreamRequires(t *testing.T) {
	l := loaded(t)
	if err := l.Add("ours", folder(map[string]string{"a.yaml": overlayText("a", `
base: h100-eks-inference
profile:
  name: gpuStack
  default: managed
  values:
    managed:
      constraints: [{name: K8s.server.version, value: ">= 1.34"}]`)})); err != nil {
		t.Fatal(err)
	}
	layers, _ := l.LayersNamed("a")
	r, err := l.Merge(layers, spec.Criteria{Service: "eks"})
	if err != nil {
		t.Fatal(err)
	}
	doc := asJSON(t, r)
	if metadata, _ := doc["metadata"].(map[string]any); metadata["selectedProfile"] == nil {
		t.Fatalf("no profile is selected: %v", metadata)
	}
	if err := required(t).Validate(doc); err != nil {
		t.Error(err)
	}
}

// What the schema does not miss it does not require.
func TestWhatUpstreamRequiresIsMissed(t *testing.T) {
	s := required(t)
	for path := range strings.FieldsSeq("apiVersion componentRefs criteria deploymentOrder kind metadata componentRefs.name componentRefs.source componentRefs.type constraints.name constraints.value") {
		t.Run(path, func(t *testing.T) {
			r, err := resolved(loaded(t), platforms()["h100-eks-ubuntu-inference-dynamo"])
			if err != nil {
				t.Fatal(err)
			}
			doc := asJSON(t, r)
			from, key := doc, path
			if list, field, inItem := strings.Cut(path, "."); inItem {
				from, key = doc[list].([]any)[0].(map[string]any), field
			}
			if _, ok := from[key]; !ok {
				t.Fatal("the recipe does not say it")
			}
			delete(from, key)
			if s.Validate(doc) == nil {
				text, _ := json.Marshal(doc)
				t.Errorf("nothing is missed in %s", text)
			}
		})
	}
}
