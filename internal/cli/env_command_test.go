package cli

import (
	"os"
	"strings"
	"testing"

	"aicr/internal/spec"
)

// TestThePageOfVariablesHasEveryOne keeps the list of the code and the tables of the
// page alike.
func TestThePageOfVariablesHasEveryOne(t *testing.T) {
	text, err := os.ReadFile("../../docs/environment.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") && len(cells) > 1 {
			rows[strings.Trim(cells[0], "| `")] = line
		}
	}
	for _, k := range spec.Knobs() {
		for _, want := range []string{k.Default, k.Recipe, k.Meaning} {
			if !strings.Contains(rows[k.Name], want) {
				t.Errorf("the row of %s has no %q: %q", k.Name, want, rows[k.Name])
			}
		}
		if strings.Contains(rows[k.Name], "on a cluster alone") != k.Cluster || strings.Contains(rows[k.Name], "a catalog cannot set it") != k.Shell {
			t.Errorf("the row of %s is not as the code has it: %q", k.Name, rows[k.Name])
		}
		delete(rows, k.Name)
	}
	for _, v := range ownVariables() {
		if !strings.Contains(strings.ReplaceAll(rows[v.Name], "`", ""), v.Meaning) {
			t.Errorf("the row of %s has no %q: %q", v.Name, v.Meaning, rows[v.Name])
		}
		delete(rows, v.Name)
	}
	for name := range rows {
		t.Errorf("%s is on the page, and no such variable is known", name)
	}
}
