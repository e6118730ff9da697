package spec

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValuesAreLaidOverOthers(t *testing.T) {
	of := func(text string) Anything {
		t.Helper()
		root, err := parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var a Anything
		decode(root, &a)
		return a
	}
	for _, c := range []struct{ rule, below, above, want string }{
		{"maps are merged", `{a: {x: 1, y: 2}, b: 1}`, `{a: {y: 3, z: 4}}`, `{a: {x: 1, y: 3, z: 4}, b: 1}`},
		{"lists are replaced", `{a: [1, 2]}`, `{a: [3]}`, `{a: [3]}`},
		{"a null is a value", `{a: {x: 1}}`, `{a: null}`, `{a: null}`},
		{"a map replaces what is none", `{a: 1}`, `{a: {x: 1}}`, `{a: {x: 1}}`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			below := of(c.below)
			if got := of(c.above).Over(below); !got.Equal(of(c.want)) {
				t.Errorf("got %v, want %s", got.Value(), c.want)
			}
			if !below.Equal(of(c.below)) {
				t.Errorf("what is below was changed: %v", below.Value())
			}
		})
	}
	some := of("{a: 1}")
	if !some.Over(Anything{}).Equal(some) || !(Anything{}).Over(some).Equal(some) {
		t.Error("nothing changes something")
	}
}

func TestALineIsThatOfTheValue(t *testing.T) {
	doc := []byte("kind: X\nspec:\n  base: b\n  mixins:\n    - one\n    - two\n")
	for path, want := range map[string]int{
		"kind": 1, "spec": 2, "spec.base": 3, "spec.mixins[1]": 6, "spec.mixins[7]": 4, "spec.none.at.all": 2, "": 1,
	} {
		if got := LineOf(doc, path); got != want {
			t.Errorf("%q: line %d, want %d", path, got, want)
		}
	}
	if got := LineOf([]byte("a: [\n"), "a"); got != 1 {
		t.Errorf("of what is no YAML: line %d", got)
	}
}

func FuzzLineOf(f *testing.F) {
	f.Add([]byte("spec:\n  mixins: [a, b]\n"), "spec.mixins[1]")
	f.Add([]byte("a: &x {b: *x}\n"), "a.b.b.b")
	f.Fuzz(func(t *testing.T, data []byte, path string) {
		last := 1
		for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
			last += bytes.Count(data, []byte(end))
		}
		if line := LineOf(data, path); line < 1 || line > last {
			t.Errorf("line %d of %d", line, last)
		}
	})
}

func TestARecipeThatIsWrittenAsJSONIsReadAgain(t *testing.T) {
	r := &Recipe{Kind: RecipeKind, APIVersion: RecipeVersion, Name: "a", Wants: []RecipeConstraint{{Name: FactServerVersion, Value: ">= 1.34", Remediation: "next\u0085line, <b> & \u2028 and 😀"}}}
	text, err := EncodeRecipeJSON(r)
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeRecipe(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
