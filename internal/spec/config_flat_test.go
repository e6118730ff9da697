package spec_test

import (
	"errors"
	"strings"
	"testing"

	"aicr/internal/spec"

	"github.com/google/go-cmp/cmp"
)

func TestAMapOfFlagsIsReadAsItWasWritten(t *testing.T) {
	const text = `# ours
output: json
ramp: 90s
workers: 0010
sentinel-rate: 1e3
dry-run: true
tag: 2026-06-04
header: &h
  - "a: b"
  - c
proxy: [*h]
`
	one := func(name string, line int, text string) spec.FlatSetting {
		return spec.FlatSetting{Name: name, Line: line, Values: []spec.FlatValue{{Text: text, Line: line}}}
	}
	want := []spec.FlatSetting{one("output", 2, "json"), one("ramp", 3, "90s"), one("workers", 4, "0010"), one("sentinel-rate", 5, "1e3"),
		one("dry-run", 6, "true"), one("tag", 7, "2026-06-04"),
		{Name: "header", Line: 8, List: true, Values: []spec.FlatValue{{Text: "a: b", Line: 9}, {Text: "c", Line: 10}}}}
	got, err := spec.DecodeFlat([]byte(strings.TrimSuffix(text, "proxy: [*h]\n")))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := spec.DecodeFlat([]byte(text)); err == nil {
		t.Errorf("a list in a list is %+v", got)
	}
}

func TestEveryMistakeOfAMapOfFlagsHasItsLine(t *testing.T) {
	for text, want := range map[string][]spec.Mistake{
		"a: 1\nb: 2\na: 3\nc:\n":  {{Path: "a", Line: 3, Text: "written twice"}, {Path: "c", Line: 4, Text: "want text, a number, true or false, got nothing"}},
		"a:\n  - x\n  - {y: z}\n": {{Path: "a[1]", Line: 3, Text: "want text, a number, true or false, got a map"}},
		"# none\n\njust text\n":   {{Line: 3, Text: "not a map of flag names to values"}},
		"a: 1\nb: \"x\n":          {{Line: 2, Text: "not YAML: found unexpected end of stream"}},
		"a: 1\n---\nb: 2\n":       {{Line: 3, Text: "a second document in the same file"}},
	} {
		_, err := spec.DecodeFlat([]byte(text))
		all, _ := errors.AsType[spec.Mistakes](err)
		for i := range all {
			all[i].Column, all[i].Hint = 0, ""
		}
		if diff := cmp.Diff(spec.Mistakes(want), all); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestAMapOfFlagsMayBeEmpty(t *testing.T) {
	for _, text := range []string{"", "\n", "# output: json\n", "---\n# none\n", "{}"} {
		if all, err := spec.DecodeFlat([]byte(text)); len(all) != 0 || err != nil {
			t.Errorf("%q: %+v, %v", text, all, err)
		}
	}
}

func TestAConfigIsToldFromAMapOfFlagsByItsHead(t *testing.T) {
	for text, want := range map[string]bool{
		"kind: AICRConfig": true, "apiVersion: x\n": true, "spec:\n": true, "kind:\n": true, `{"output": "json", "spec": {}}`: true,
		"output: json": false, "": false, "- kind": false, "kind": false, "kind: {": false,
	} {
		if got := spec.IsConfig([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzFlat(f *testing.F) {
	for _, text := range []string{"a: 1\nb: [x, 2]\n", "a: &a [x]\nb: *a\n<<: {c: d}\n", "a:\n\t- b", "{\"a\": true, \"a\": null}", "---\n---\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := spec.DecodeFlat(data)
		if err != nil {
			if wrong, _ := errors.AsType[spec.Mistakes](err); len(wrong) == 0 || wrong[0].Line < 1 || wrong[0].Text == "" {
				t.Fatalf("%v is no list of mistakes", err)
			}
			return
		}
		seen := map[string]bool{}
		for _, s := range all {
			if seen[s.Name] || s.Line < 1 || !s.List && len(s.Values) != 1 {
				t.Fatalf("%+v", s)
			}
			seen[s.Name] = true
		}
	})
}
