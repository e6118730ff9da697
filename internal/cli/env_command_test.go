package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

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

// TestWhatAConfigSpeaksForIsAFlag keeps an AICRConfig from naming a flag that the
// command does not have.
func TestWhatAConfigSpeaksForIsAFlag(t *testing.T) {
	config, err := spec.DecodeConfig([]byte(`
kind: AICRConfig
apiVersion: aicr.run/v1alpha2
spec:
  snapshot:
    output: {path: s.yaml, format: yaml}
    execution: {timeout: 1m, maxNodesPerEntry: 5}
  recipe:
    criteria: {service: eks, accelerator: h100, os: ubuntu, intent: inference, platform: dynamo, nodes: 2}
    output: {path: r.yaml, format: yaml}
    data: ours
  validate:
    input: {recipe: r.yaml, snapshot: s.yaml}
    execution: {phases: [all], failOnError: false, failFast: true, noCluster: true, skipChecks: [x]}
`))
	if err != nil {
		t.Fatal(err)
	}
	a := newApp(testEnv(nil))
	for command, c := range map[string]struct {
		cmd   *cobra.Command
		flags int
	}{"validate": {newValidate(a), 7}, "snapshot": {newSnapshot(a), 4}, "recipe": {newRecipe(a), 9}} {
		flags := config.Flags(command)
		if len(flags) != c.flags {
			t.Errorf("%s: %d flags, want %d: %v", command, len(flags), c.flags, flags)
		}
		for name, values := range flags {
			f := c.cmd.Flags().Lookup(name)
			if f == nil {
				t.Errorf("aicr %s has no flag --%s", command, name)
				continue
			}
			for _, v := range values {
				if err := f.Value.Set(v); err != nil {
					t.Errorf("aicr %s --%s %s: %v", command, name, v, err)
				}
			}
		}
	}
}
