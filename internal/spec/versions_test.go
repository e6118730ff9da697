package spec_test

import (
	"os"
	"strings"
	"testing"

	"aicr/internal/spec"
)

const pinnedVersions = "../../recipes/versions.yaml"

func TestAMistakeInTheVersionsHasItsLine(t *testing.T) {
	data, err := os.ReadFile(pinnedVersions)
	if err != nil {
		t.Fatal(err)
	}
	pins, err := spec.DecodeVersions(data)
	if err != nil {
		t.Fatal(err)
	}
	of := strings.NewReplacer("{last}", pins.Charts[len(pins.Charts)-1].Version)
	for name, test := range map[string]struct{ old, replacement, want, hint string }{
		"a misspelt field":           {"repository: nvcr.io", "repositry: nvcr.io", "images[0].repositry: unknown field", "did you mean repository?"},
		"a misspelt list":            {"\nreleases:", "\nrelaeses:", "relaeses: unknown field", "did you mean releases?"},
		"another kind":               {"kind: Versions", "kind: Version", `kind: "Version" is not known here`, "write kind: Versions"},
		"another apiVersion":         {"apiVersion: aicr.run/v1alpha1", "apiVersion: aicr.run/v1", `apiVersion: "aicr.run/v1" is not known here`, "write apiVersion: aicr.run/v1alpha1"},
		"a number where text is":     {"version: {last}", "version: 1.5", "charts[9].version: want text, got 1.5", `write "1.5", with quotes`},
		"a version that is missing":  {"    version: {last}\n", "", "charts[9].version: is missing", "write version: a-value"},
		"a version that is empty":    {"version: {last}", `version: ""`, "charts[9].version: no value", "write a value"},
		"a lock file that is none":   {"locked: [tools/go.mod]", "locked: []", "tools[2].locked: nothing is there", "write at least one"},
		"a lock file out of a list":  {"locked: [tools/go.mod]", "locked: tools/go.mod", `tools[2].locked: want a list, got text "tools/go.mod"`, "write [tools/go.mod]"},
		"no router mode":             {"  routerMode: least-loaded\n", "", "uses.routerMode: is missing", "write routerMode: a-value"},
		"a release without a source": {"    source: tag v1.3.0, its CRD, frontend and container\n", "", "releases[3].source: is missing", "write source: a-value"},
		"written twice":              {"    version: {last}\n", "    version: {last}\n    version: {last}\n", "charts[9].version: written twice", "it is at line"},
	} {
		t.Run(name, func(t *testing.T) {
			test.old, test.replacement = of.Replace(test.old), of.Replace(test.replacement)
			before, _, ok := strings.Cut(string(data), test.old)
			if !ok {
				t.Fatalf("%q is not in the document", test.old)
			}
			_, err := spec.DecodeVersions([]byte(strings.Replace(string(data), test.old, test.replacement, 1)))
			mistakes, _ := err.(spec.Mistakes) //nolint:errorlint // what is asked for
			if len(mistakes) != 1 {
				t.Fatalf("want one mistake, got %v", err)
			}
			m := mistakes[0]
			if got := m.Path + ": " + m.Text; got != test.want || !strings.HasPrefix(m.Hint, test.hint) {
				t.Errorf("got %s\nhint: %s\nwant %s\nhint: %s", got, m.Hint, test.want, test.hint)
			}
			if line := 1 + strings.Count(before, "\n"); m.Line < line-6 || m.Line > line+1 {
				t.Errorf("line %d, near %d was meant", m.Line, line)
			}
		})
	}
}

func TestAVersionKnowsItsLine(t *testing.T) {
	data, err := os.ReadFile(pinnedVersions)
	if err != nil {
		t.Fatal(err)
	}
	v, err := spec.DecodeVersions(data)
	if err != nil {
		t.Fatal(err)
	}
	if line := strings.Split(string(data), "\n")[v.Line("images[0].tag")-1]; !strings.Contains(line, "tag:") {
		t.Errorf("images[0].tag is said to be %q", line)
	}
	if v.Line("images[0].digest") != v.Line("images[0]") {
		t.Error("what is not written is not where it would be")
	}
}

func FuzzVersions(f *testing.F) {
	data, err := os.ReadFile(pinnedVersions)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("kind: Versions\nimages: [{name: x}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := spec.DecodeVersions(data)
		if err == nil && (v.Kind != spec.VersionsKind || len(v.Images) == 0 || v.Uses.RouterMode == "") {
			t.Errorf("accepted %+v", v)
		}
	})
}
