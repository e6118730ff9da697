package spec_test

import (
	"path/filepath"
	"slices"
	"testing"

	"aicr/internal/spec"

	"github.com/google/go-cmp/cmp"
)

func mustConfig(t testing.TB, text string) *spec.Config {
	t.Helper()
	c, err := spec.DecodeConfig([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

func configWith(sections string) string {
	return "kind: AICRConfig\napiVersion: aicr.run/v1beta1\nspec: {" + sections + "}\n"
}

func TestEveryMistakeOfAConfigIsToldAtOnceWithItsLine(t *testing.T) {
	badDocuments(t, "config", spec.DecodeConfig)
}

func TestEveryFieldOfUpstreamsConfigIsRead(t *testing.T) {
	c := mustConfig(t, string(mustRead(t, "testdata/config/good.yaml")))
	if got := c.Spec.Recipe.Criteria; *got != (spec.Criteria{Service: "eks", Accelerator: "h100", OS: "ubuntu", Intent: "inference", Platform: "dynamo", Nodes: 2}) {
		t.Errorf("criteria %+v", got)
	}
	if got := c.Spec.Validate.Agent.Tolerations; got == nil || len(got) != 0 {
		t.Errorf("an empty list is not none: %v", got)
	}
	if got := c.Spec.Recipe.Configuration.GKE.TCPXOInterfaces; !slices.Equal(got, []spec.TCPXOInterface{{InterfaceName: "eth1", Network: "rail-0"}}) {
		t.Errorf("interfaces %v", got)
	}
	var unused []string
	for _, u := range c.Unused {
		unused = append(unused, u.Path)
	}
	want := []string{
		"spec.snapshot.output.template", "spec.snapshot.agent", "spec.snapshot.execution.noCleanup", "spec.snapshot.execution.privileged",
		"spec.recipe.configuration", "spec.recipe.profile", "spec.recipe.criteriaStrict", "spec.bundle",
		"spec.validate.agent", "spec.validate.evidence", "spec.verify",
	}
	if diff := cmp.Diff(want, unused); diff != "" {
		t.Errorf("unused (-want +got):\n%s", diff)
	}
}

func TestEveryVersionOfAConfigIsRead(t *testing.T) {
	for _, version := range spec.ConfigVersions() {
		mustConfig(t, "kind: AICRConfig\napiVersion: "+version+"\nspec: {validate: {}}\n")
	}
}

func TestASectionThatIsThereAndEmptyIsASection(t *testing.T) {
	for _, section := range []string{"snapshot", "recipe", "bundle", "validate", "verify"} {
		mustConfig(t, configWith(section+": {}"))
		if _, err := spec.DecodeConfig([]byte(configWith(section + ": "))); err == nil {
			t.Errorf("%s without a word in it is one", section)
		}
	}
}

func TestTheBundledRecipeIsTheOneThatIsWritten(t *testing.T) {
	for pair, good := range map[[2]string]bool{
		{"recipe.yaml", "./recipe.yaml"}: true, {"a//recipe.yaml", "a/recipe.yaml"}: true, {"a/../recipe.yaml", "recipe.yaml"}: true,
		{"", "recipe.yaml"}: true, {"recipe.yaml", ""}: true,
		{"recipe.yaml", "/recipe.yaml"}: false, {"recipe.yaml", "recipes.yaml"}: false,
	} {
		_, err := spec.DecodeConfig([]byte(configWith(`recipe: {output: {path: "` + pair[0] + `"}}, bundle: {input: {recipe: "` + pair[1] + `"}}`)))
		if (err == nil) != good {
			t.Errorf("%q: %v", pair, err)
		}
	}
}

func TestCriteriaAndASnapshotExcludeEachOther(t *testing.T) {
	mustConfig(t, configWith(`recipe: {input: {snapshot: s.yaml}}`))
	mustConfig(t, configWith(`recipe: {criteria: {service: eks}, input: {snapshot: ""}}`))
	if _, err := spec.DecodeConfig([]byte(configWith(`recipe: {criteria: {service: eks}, input: {snapshot: s.yaml}}`))); err == nil {
		t.Error("both are taken")
	}
}

func TestAConfigSpeaksForFlags(t *testing.T) {
	type flags = map[string][]string
	whole := string(mustRead(t, "testdata/config/good.yaml"))
	for _, c := range []struct {
		name, command, text string
		want                flags
	}{
		{"all of validate", "validate", whole, flags{"recipe": {"recipe.yaml"}, "snapshot": {"snapshot.yaml"}, "phase": {"deployment", "conformance", "performance"},
			"fail-fast": {"false"}, "no-cluster": {"true"}, "skip-check": {"gang-scheduling", "pod-autoscaling"}, "fail-on": {"never"}, "no-cleanup": {"false"}, "timeout": {"40m"}, "data": {"./ours"}}},
		{"all of snapshot", "snapshot", whole, flags{"write": {"snapshot.yaml"}, "output": {"yaml"}, "timeout": {"5m"}, "max-nodes-per-entry": {"0"}}},
		{"all of recipe", "recipe", whole, flags{"service": {"eks"}, "accelerator": {"h100"}, "os": {"ubuntu"}, "intent": {"inference"}, "platform": {"dynamo"}, "nodes": {"2"},
			"write": {"./recipe.yaml"}, "output": {"json"}, "data": {"./ours"}}},
		{"a recipe of a snapshot", "recipe", configWith(`recipe: {input: {snapshot: s.yaml}}`), flags{"snapshot": {"s.yaml"}}},
		{"nothing is said", "validate", configWith(`validate: {execution: {}}`), flags{}},
		{"no section", "validate", configWith(`recipe: {data: x}`), flags{}},
		{"another command", "bench", whole, flags{}},
		{"an empty list is said", "validate", configWith(`validate: {execution: {phases: [], skipChecks: []}}`), flags{"phase": {}, "skip-check": {}}},
		{"a failure fails as ever", "validate", configWith(`validate: {execution: {failOnError: true}}`), flags{}},
		{"an empty text is not said", "snapshot", configWith(`snapshot: {output: {path: "", format: ""}, execution: {timeout: ""}}`), flags{}},
	} {
		if diff := cmp.Diff(c.want, mustConfig(t, c.text).Flags(c.command)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, pattern := range []string{"testdata/config/*.yaml", "testdata/config/bad/*.yaml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			f.Add(mustRead(f, file))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := fuzzDocument(t, data, spec.DecodeConfig)
		if c == nil {
			return
		}
		for _, command := range []string{"validate", "snapshot", "recipe"} {
			for name, values := range c.Flags(command) {
				if several := name == "phase" || name == "skip-check"; !several && (len(values) != 1 || slices.Contains(values, "")) {
					t.Fatalf("%s %s is %q", command, name, values)
				}
			}
		}
	})
}
