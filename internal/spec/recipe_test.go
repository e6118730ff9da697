package spec_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"aicr/internal/spec"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func mustRecipe(t testing.TB, text string) *spec.Recipe {
	t.Helper()
	r, err := spec.DecodeRecipe([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return r
}

func TestEveryMistakeOfARecipeIsToldAtOnceWithItsLine(t *testing.T) {
	badDocuments(t, "recipe", spec.DecodeRecipe)
}

func TestARecipeOfUpstreamIsReadAsFarAsTheVerdictGoes(t *testing.T) {
	got := mustRecipe(t, string(mustRead(t, "testdata/recipe/good.yaml")))
	want := &spec.Recipe{
		Kind: spec.RecipeKind, APIVersion: "aicr.run/v1alpha2",
		Name: "h100-eks-inference", Base: "h100-eks",
		Criteria: spec.Criteria{Service: "eks", Accelerator: "h100", OS: "ubuntu", Intent: "inference", Platform: "dynamo", Nodes: 1},
		Wants:    []spec.RecipeConstraint{{Name: "K8s.server.version", Value: ">= 1.34"}},
	}
	performance := &spec.RecipePhase{
		Timeout: "65m", NodeSelection: &spec.NodeSelection{MaxNodes: 1}, Infrastructure: "any",
		Checks: []string{"inference-perf", "nccl-all-reduce-bw"},
		Constraints: []spec.RecipeConstraint{
			{Name: "inference-throughput", Value: ">= 6250", Unit: "tokens/s/GPU", Severity: "error", Remediation: "look at the host", Tolerance: new(0.05)},
			{Name: "inference-ttft-p99", Value: "<=2", Unit: "s"},
			{Name: "inference-model", Value: "Qwen/Qwen3-8B"},
			{Name: "inference-concurrency-per-gpu", Value: "128"},
			{Name: "inference-routing-mode", Value: "dynamo-router"},
			{Name: "inference-model-cache-storage-class", Value: "gp3"},
			{Name: "nccl-all-reduce-bw", Value: ">= 300"},
			{Name: "nccl-benchmark-profile", Value: "h100-eks"},
		},
		Verdict: spec.RecipeVerdict{Profile: "certify", Stability: "report",
			Reference: &spec.RecipeReference{Throughput: 79800, GPUs: 8, ConcurrencyPerGPU: 128, InputTokens: 128, OutputTokens: 128,
				Dispersion: 0.03, N: 20, Measured: "2026-06-04"},
			Thresholds: spec.ThresholdValues{"ttftGuardrailMs": 1500, "maxEpisodes": 30, "rateBad": 0.2}},
	}
	want.Phases = spec.RecipePhases{Readiness: &spec.RecipePhase{Constraints: []spec.RecipeConstraint{}}, Performance: performance,
		Deployment: &spec.RecipePhase{Checks: []string{"operator-health"}}, Conformance: &spec.RecipePhase{Checks: []string{"dra-support"}}}
	want.Unused = []spec.Unused{
		{Path: "spec.componentRefs[0].overrides", Line: 12},
		{Path: "spec.validation.performance.timeout", Line: 20},
		{Path: "spec.validation.performance.nodeSelection", Line: 21},
		{Path: "spec.validation.performance.infrastructure", Line: 22},
		{Path: "spec.validation.performance.constraints[0].severity", Line: 25},
		{Path: "spec.validation.performance.constraints[6]", Line: 31},
		{Path: "spec.validation.performance.constraints[7]", Line: 32},
	}
	if len(got.Components) != 1 || got.Components[0].Name != "dynamo-platform" || got.Components[0].Version == "" || !got.HasComponent("dynamo-platform") {
		t.Errorf("components %+v", got.Components)
	}
	want.Components = got.Components
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{spec.InputModel: "Qwen/Qwen3-8B", spec.InputRouting: "dynamo-router", spec.InputConcurrency: "128"} {
		if value, ok := got.Input(name); !ok || value != want {
			t.Errorf("%s is %q, %v", name, value, ok)
		}
	}
	if n, ok := got.ConcurrencyPerGPU(); n != 128 || !ok {
		t.Errorf("%d in flight a GPU, %v", n, ok)
	}
}

func TestEveryVersionOfARecipeIsRead(t *testing.T) {
	for _, version := range spec.RecipeVersions() {
		mustRecipe(t, "kind: RecipeMetadata\napiVersion: "+version+"\nmetadata: {name: x}\nspec:\n")
	}
}

func constraintRecipe(constraints string) string {
	return "kind: RecipeMetadata\napiVersion: aicr.run/v1beta1\nmetadata: {name: x}\nspec: {validation: {performance: {constraints: [" + constraints + "]}}}\n"
}

func TestConstraintsAreResolvedToCanonicalUnits(t *testing.T) {
	throughput := func(threshold, tolerance float64) []spec.Constraint {
		return []spec.Constraint{{Name: "inference-throughput", Comparator: ">=", Threshold: threshold, Unit: "tokens/s", Tolerance: tolerance, From: "recipe x"}}
	}
	ttft := func(threshold, tolerance float64) []spec.Constraint {
		return []spec.Constraint{{Name: "inference-ttft-p99", Comparator: "<=", Threshold: threshold, Unit: "ms", Tolerance: tolerance, From: "recipe x"}}
	}
	for text, want := range map[string][]spec.Constraint{
		"": nil,
		`{name: inference-throughput, value: ">= 50000"}`:                                throughput(50000, 0.1),
		`{name: inference-throughput, value: ">=50000.5", unit: tokens/s, tolerance: 0}`: throughput(50000.5, 0),
		`{name: inference-throughput, value: " >= 6e3 ", unit: tokens/s/GPU}`:            throughput(24000, 0.1),
		`{name: inference-throughput, value: ">= 6000 tokens/s/GPU"}`:                    throughput(24000, 0.1),
		`{name: inference-throughput, value: ">= 50000tokens/s", unit: tokens/s}`:        throughput(50000, 0.1),
		`{name: inference-ttft-p99, value: "<= 2 s"}`:                                    ttft(2000, 0.1),
		`{name: inference-ttft-p99, value: "<= 2000ms"}`:                                 ttft(2000, 0.1),
		`{name: inference-ttft-p99, value: "<= 2000"}`:                                   ttft(2000, 0.1),
		`{name: inference-ttft-p99, value: "<= 1.5", unit: s, tolerance: 0.5}`:           ttft(1500, 0.5),
		`{name: inference-model, value: x}, {name: nccl-all-reduce-bw, value: ">= 300"}`: nil,
	} {
		if diff := cmp.Diff(want, mustRecipe(t, constraintRecipe(text)).Figures(4)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestAReferenceTellsTheLoadWhereNoInputDoes(t *testing.T) {
	r := &spec.Recipe{}
	if n, ok := r.ConcurrencyPerGPU(); ok {
		t.Errorf("a recipe that says none has %d", n)
	}
	r.Phases.Performance = &spec.RecipePhase{Verdict: spec.RecipeVerdict{Reference: &spec.RecipeReference{ConcurrencyPerGPU: 96}}}
	if n, ok := r.ConcurrencyPerGPU(); n != 96 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	r.Phases.Performance.Constraints = []spec.RecipeConstraint{{Name: spec.InputConcurrency, Value: "64"}}
	if n, ok := r.ConcurrencyPerGPU(); n != 64 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
}

func TestARecipeIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ -~äß日]{0,12}`)
		performance := &spec.RecipePhase{
			Checks: rapid.SampledFrom([][]string{nil, {}, {"inference-perf"}}).Draw(t, "checks"),
			Constraints: []spec.RecipeConstraint{
				{Name: "inference-throughput", Value: spec.Wanted(rapid.StringMatching(`>= [1-9][0-9]{0,6}(\.[0-9]{1,3})?`).Draw(t, "value")),
					Unit: rapid.SampledFrom([]string{"", "tokens/s", "tokens/s/GPU"}).Draw(t, "unit"), Remediation: text.Draw(t, "remediation"),
					Tolerance: new(rapid.Float64Range(0, 0.5).Draw(t, "tolerance"))},
				{Name: "inference-concurrency-per-gpu", Value: spec.Wanted(rapid.StringMatching(`[1-9][0-9]{0,4}`).Draw(t, "per GPU"))},
			},
			Verdict: spec.RecipeVerdict{
				Profile: rapid.SampledFrom(append(spec.Profiles(), "")).Draw(t, "profile"),
				Reference: &spec.RecipeReference{Throughput: rapid.Float64Range(0.001, 1e9).Draw(t, "throughput"), GPUs: 8, ConcurrencyPerGPU: 128,
					InputTokens: 128, OutputTokens: 128, Dispersion: rapid.Float64Range(0, 1).Draw(t, "dispersion"), Measured: "2026-06-04T12:00:00Z"},
				Thresholds: spec.ThresholdValues{"minStalls": float64(rapid.IntRange(1, 9).Draw(t, "minStalls")), "prefixHit": rapid.Float64Range(0, 1).Draw(t, "prefixHit")},
			},
		}
		r := &spec.Recipe{
			Comment: "measured by aicr knee\n" + text.Draw(t, "comment"),
			Kind:    rapid.SampledFrom([]string{spec.RecipeKind, spec.RecipeResultKind}).Draw(t, "kind"), APIVersion: rapid.SampledFrom(spec.RecipeVersions()).Draw(t, "version"),
			Criteria: spec.Criteria{Service: rapid.SampledFrom(append(spec.CriteriaWords("service"), "")).Draw(t, "service"), Nodes: rapid.IntRange(0, 100).Draw(t, "nodes")},
			Components: []spec.Component{{Name: "a", Source: text.Draw(t, "source"), HealthCheckAsserts: text.Draw(t, "asserts") + "\n " + text.Draw(t, "more")},
				{Name: "b", Patches: rapid.SampledFrom([][]string{nil, {}, {"x"}}).Draw(t, "patches")}},
			Phases: spec.RecipePhases{Performance: performance},
		}
		if r.Kind == spec.RecipeKind {
			r.Name = rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?`).Draw(t, "name")
		}
		data, err := spec.EncodeRecipe(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := spec.DecodeRecipe(data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		got.Comment = r.Comment
		if diff := cmp.Diff(r, got, whereverWritten); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, data)
		}
	})
}

// whereverWritten leaves out where fields were written that are not used.
var whereverWritten = cmpopts.IgnoreFields(spec.Recipe{}, "Unused")

func TestARecipeThatCannotBeReadIsNotWritten(t *testing.T) {
	performance := func(p spec.RecipePhase) spec.RecipePhases { return spec.RecipePhases{Performance: &p} }
	for name, r := range map[string]*spec.Recipe{
		"no name":           {},
		"a wrong value":     {Name: "x", Phases: performance(spec.RecipePhase{Constraints: []spec.RecipeConstraint{{Name: "inference-throughput", Value: "50000"}}})},
		"no such threshold": {Name: "x", Phases: performance(spec.RecipePhase{Verdict: spec.RecipeVerdict{Thresholds: spec.ThresholdValues{"frobnication": 1}}})},
		"no such kind":      {Name: "x", Kind: "Snapshot"},
		"another version":   {Name: "x", APIVersion: "aicr.run/v2"},
		"an input's":        {Kind: spec.ValidationInputKind, APIVersion: spec.RecipeVersion},
	} {
		if data, err := spec.EncodeRecipe(r); err == nil {
			t.Errorf("%s: written\n%s", name, data)
		}
	}
}

func TestWhatAKindHasNoPlaceForIsNotLost(t *testing.T) {
	for name, r := range map[string]*spec.Recipe{
		"a RecipeMixin has no base":                       {Kind: spec.RecipeMixinKind, Name: "x", Base: "y"},
		"a RecipeMixin has no criteria":                   {Kind: spec.RecipeMixinKind, Name: "x", Criteria: spec.Criteria{OS: "any"}},
		"a RecipeMixin has no validation":                 {Kind: spec.RecipeMixinKind, Name: "x", Phases: spec.RecipePhases{Readiness: &spec.RecipePhase{}}},
		"a RecipeResult has no mixins":                    {Kind: spec.RecipeResultKind, Mixins: []string{}},
		"a RecipeResult has no profile":                   {Kind: spec.RecipeResultKind, Profile: &spec.RecipeProfile{}},
		"a RecipeResult has no GPU allocation policy":     {Kind: spec.RecipeResultKind, GPUPolicy: spec.PolicyDRAClaim},
		"a RecipeMetadata has no deployment order":        {Name: "x", DeploymentOrder: []string{}},
		"a RecipeMetadata has no configuration":           {Name: "x", Configuration: &spec.RecipeConfiguration{}},
		"a RecipeMetadata has no resolution":              {Name: "x", Resolution: &spec.Resolution{}},
		"a ValidationInput has no resolution":             {Kind: spec.ValidationInputKind, Resolution: &spec.Resolution{Version: "1", AppliedOverlays: []string{"a"}}},
		"a ValidationInput has no deployment order":       {Kind: spec.ValidationInputKind, DeploymentOrder: []string{"a"}},
		`no recipe is of the kind "recipemetadata"`:       {Kind: "recipemetadata", Name: "x"},
		"a recipe that could not be read again: line 4: ": {Kind: spec.RecipeMixinKind, Name: "No Name"},
	} {
		if data, err := spec.EncodeRecipe(r); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v\n%s", name, err, data)
		}
	}
}

func TestTheCommentStandsBeforeTheDocument(t *testing.T) {
	data, err := spec.EncodeRecipe(&spec.Recipe{Name: "x", Comment: "one\n\ntwo\nkind: x"})
	want := "# one\n#\n# two\n# kind: x\nkind: RecipeMetadata\n"
	if err != nil || !strings.HasPrefix(string(data), want) {
		t.Errorf("%v\n%s", err, data)
	}
}

func TestARecipeLiesOverTheThresholdsOfAProfile(t *testing.T) {
	got, _ := spec.DefaultThresholds(spec.ProfileQuick)
	want := got
	want.TTFTGuardrailMS, want.MaxEpisodes, want.RateBad = 1500, 30, 0.2
	mustRecipe(t, string(mustRead(t, "testdata/recipe/good.yaml"))).Overlay(&got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzRecipe(f *testing.F) {
	f.Add(mustRead(f, "testdata/recipe/good.yaml"))
	for _, folder := range []string{"bad", "upstream"} {
		files, err := filepath.Glob("testdata/recipe/" + folder + "/*.yaml")
		if err != nil || len(files) == 0 {
			f.Fatal("no files", err)
		}
		for _, file := range files {
			f.Add(mustRead(f, file))
		}
	}
	f.Add([]byte(constraintRecipe(`{name: inference-throughput, value: ">= 1e300", unit: tokens/s/GPU}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := spec.DecodeRecipe(data)
		if err != nil {
			var all spec.Mistakes
			if !errors.As(err, &all) || len(all) == 0 || all[0].Line < 1 || all[0].Text == "" {
				t.Fatalf("%v is no list of mistakes", err)
			}
			return
		}
		for _, c := range r.Figures(8) {
			if !(c.Threshold > 0 && c.Tolerance >= 0 && c.Tolerance <= 0.5) || c.Comparator == "" || c.Unit == "" {
				t.Fatalf("%+v", c)
			}
		}
		text, err := spec.EncodeRecipe(r)
		if err != nil {
			t.Fatal(err)
		}
		second, err := spec.DecodeRecipe(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(r, second, whereverWritten); diff != "" {
			t.Fatalf("%s\n(-first +second):\n%s", text, diff)
		}
	})
}
