package browser

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The published schemas of JUnit's XML, and the reports that are held against them:
// those of reports made by hand, and those of real runs. No validator of such schemas
// is written in Go alone, which is why this is here and not beside the format.
const (
	junitSchemas = "../../internal/report/testdata/schema/*.xsd"
	junitByHand  = "../../internal/report/testdata/junit/*.xml"
	junitOfRuns  = "../../internal/cli/testdata/report/*/report.junit"
)

func TestJUnitIsWhatTheSchemasSay(t *testing.T) {
	files := append(found(t, junitByHand), found(t, junitOfRuns)...)
	for _, schema := range found(t, junitSchemas) {
		t.Run(filepath.Base(schema), func(t *testing.T) {
			if faults := junitFaults(t, schema, files...); faults != "" {
				t.Error(faults)
			}
		})
	}
}

// TestTheSchemasSee: a report that is broken once for every rule does not pass.
func TestTheSchemasSee(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(junitByHand), "fail-stability.xml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string][3]string{ // the schema that sees it, what is there, what is put for it
		"a time that is none":     {"JUnit.xsd", `timestamp="2026-03-01T10:00:00"`, `timestamp="2026-03-01T10:00:00Z"`},
		"a count that is none":    {"JUnit.xsd", `failures="2"`, `failures="two"`},
		"no output":               {"JUnit.xsd", `<system-err></system-err>`, ``},
		"an unknown attribute":    {"junit-10.xsd", `<testcase `, `<testcase state="FAIL" `},
		"an unknown element":      {"junit-10.xsd", `<properties>`, `<finding></finding><properties>`},
		"a case without its name": {"junit-10.xsd", `<testcase name="integrity"`, `<testcase`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "broken.xml")
			if err := os.WriteFile(file, []byte(strings.Replace(string(text), broken[1], broken[2], 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if junitFaults(t, filepath.Join(filepath.Dir(junitSchemas), broken[0]), file) == "" {
				t.Error("it passes")
			}
		})
	}
}

// found is what a pattern finds, which is not nothing.
func found(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: there is nothing (%v)", pattern, err)
	}
	return files
}

// junitFaults is what a schema has against files.
func junitFaults(t *testing.T, schema string, files ...string) string {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	node := exec.CommandContext(ctx, "node", append([]string{"junit_schema.js", os.Getenv("BROWSER_HOME"), schema}, files...)...)
	var wrong strings.Builder
	node.Stderr = &wrong
	out, err := node.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &wrong)
	}
	return string(out)
}
