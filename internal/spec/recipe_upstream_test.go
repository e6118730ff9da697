package spec_test

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aicr/internal/spec"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// leaves lists every value of a document that nothing is below, by its path. It reads
// the document as any program would, so that a field that ours forgets is missed.
func leaves(t testing.TB, data []byte) map[string]string {
	t.Helper()
	var root any
	if err := yaml.Unmarshal(data, &root); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	all := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, one := range v {
				walk(path+"."+name, one)
			}
			if len(v) == 0 {
				all[path] = "{}"
			}
		case map[any]any:
			for name, one := range v {
				walk(fmt.Sprintf("%s.%v", path, name), one)
			}
		case []any:
			for i, one := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), one)
			}
			if len(v) == 0 {
				all[path] = "[]"
			}
		default:
			all[path] = fmt.Sprintf("%T %v", v, v)
		}
	}
	walk("", root)
	return all
}

func TestEveryFieldOfUpstreamIsReadAndWrittenWithoutLoss(t *testing.T) {
	files, err := filepath.Glob("testdata/recipe/upstream/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		text := mustRead(t, file)
		versions := spec.RecipeVersions()
		if bytes.Contains(text, []byte("validation-input")) || strings.Contains(file, "validation-input") {
			versions = []string{spec.CatalogVersion}
		}
		for _, version := range versions {
			t.Run(filepath.Base(file)+" "+version, func(t *testing.T) {
				data := bytes.Replace(text, []byte("apiVersion: aicr.run/v1beta1\n"), []byte("apiVersion: "+version+"\n"), 1)
				first := mustRecipe(t, string(data))
				written, err := spec.EncodeRecipe(first)
				if err != nil {
					t.Fatal(err)
				}
				want, got := leaves(t, data), leaves(t, written)
				for path, value := range want {
					switch {
					case value == "string " && strings.HasSuffix(path, ".unit"): // no unit is none
						delete(want, path)
					case strings.HasSuffix(path, ".value") && value == "int 256": // a constraint's value is text
						want[path] = "string 256"
					case strings.HasSuffix(path, ".day"): // JSON has no days
						want[path] = "string 2026-06-04"
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-read +written):\n%s", diff)
				}
				if second := mustRecipe(t, string(written)); cmp.Diff(first, second, whereverWritten) != "" {
					t.Errorf("(-first +second):\n%s", cmp.Diff(first, second, whereverWritten))
				}
			})
		}
	}
}

// The fields that upstream's schemas have, of a phase and of a component, of an overlay
// and of a whole recipe (NVIDIA/aicr, api/aicr/v1/schemas).
const (
	fieldsOfConstraint = "name value severity unit remediation"
	fieldsOfPhase      = "timeout checks constraints nodeSelection.selector nodeSelection.maxNodes nodeSelection.excludeNodes infrastructure"
	fieldsOfComponent  = "name namespace chart type source version tag valuesFile overrides patches dependencyRefs manifestFiles preManifestFiles path cleanup " +
		"expectedResources[0].kind expectedResources[0].name expectedResources[0].namespace healthCheckAsserts healthCheckSkip"
	fieldsOfCriteria = "service accelerator os intent platform nodes"
	fieldsOfResult   = "version appliedOverlays excludedOverlays[0].name excludedOverlays[0].reason constraintWarnings[0].overlay constraintWarnings[0].constraint " +
		"constraintWarnings[0].expected constraintWarnings[0].actual constraintWarnings[0].reason defaultStorageClassState gpuDriverState mariaDBOperatorState " +
		"perconaOperatorState selectedProfile.name selectedProfile.value selectedProfile.advertiser selectedProfile.ownedPaths"
	fieldsOfConfiguration = "gke.tcpxoInterfaces[0].interfaceName gke.tcpxoInterfaces[0].network runtimeInventory.mode slurm.accounting.mode"
	fieldsOfProfileValue  = "advertiser componentRefs constraints readinessConstraints"
)

func TestTheDocumentsOfTheTestsHaveEveryFieldThatUpstreamHas(t *testing.T) {
	for file, fields := range map[string]map[string]string{
		"overlay.yaml": {"": "kind apiVersion metadata.name spec.base spec.mixins spec.profile.name spec.profile.description spec.profile.default",
			".spec.criteria": fieldsOfCriteria, ".spec.constraints[0]": fieldsOfConstraint, ".spec.componentRefs[0]": fieldsOfComponent,
			".spec.profile.values.managed": fieldsOfProfileValue, ".spec.validation.readiness": strings.ReplaceAll(fieldsOfPhase, "nodeSelection.maxNodes ", ""),
			".spec.validation.deployment": fieldsOfPhase, ".spec.validation.performance": fieldsOfPhase, ".spec.validation.conformance": "timeout checks constraints nodeSelection.maxNodes infrastructure"},
		"result.yaml": {"": "kind apiVersion deploymentOrder", ".metadata": fieldsOfResult, ".criteria": fieldsOfCriteria, ".componentRefs[0]": fieldsOfComponent,
			".constraints[0]": "name value", ".configuration": fieldsOfConfiguration, ".validation": "readiness deployment conformance performance"},
		"validation-input.yaml": {"": "kind apiVersion metadata.name metadata.version config.readiness config.deployment config.conformance config.performance " +
			"componentRefs criteria constraints gpuAllocationPolicy"},
	} {
		has := slices.Collect(maps.Keys(leaves(t, mustRead(t, "testdata/recipe/upstream/"+file))))
		for below, names := range fields {
			for name := range strings.FieldsSeq(names) {
				path := below + "." + name
				if !slices.ContainsFunc(has, func(leaf string) bool {
					return leaf == path || strings.HasPrefix(leaf, path+".") || strings.HasPrefix(leaf, path+"[")
				}) {
					t.Errorf("%s has no %s", file, path)
				}
			}
		}
	}
}

func TestALayerSaysNothingOrClears(t *testing.T) {
	read := func(list string) *spec.RecipePhase {
		return mustRecipe(t, "kind: RecipeMetadata\napiVersion: aicr.run/v1beta1\nmetadata: {name: x}\nspec: {validation: {deployment: {"+list+"}}}\n").Phases.Deployment
	}
	for list, want := range map[string][]string{"": nil, "checks: ": nil, "checks: null": nil, "checks: []": {}, "checks: [a]": {"a"}} {
		got := read(list)
		if diff := cmp.Diff(want, got.Checks); diff != "" {
			t.Errorf("%q (-want +got):\n%s", list, diff)
		}
	}
}

func TestAnExcludedOverlayMayBeABareName(t *testing.T) {
	got := mustRecipe(t, "kind: RecipeResult\napiVersion: aicr.run/v1\nmetadata: {excludedOverlays: [h100-any, {name: base, reason: constraint-failed}]}\ncomponentRefs: []\n")
	want := []spec.ExcludedOverlay{{Name: "h100-any"}, {Name: "base", Reason: "constraint-failed"}}
	if diff := cmp.Diff(want, got.Resolution.ExcludedOverlays); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAValueIsReadWithOrWithoutQuotes(t *testing.T) {
	for written, want := range map[string]spec.Wanted{`"1.30"`: "1.30", "1.30": "1.30", "24.04": "24.04", "true": "true", "yes": "yes", "'>= 1.30'": ">= 1.30", "0x10": "0x10"} {
		text := "kind: RecipeMetadata\napiVersion: aicr.run/v1beta1\nmetadata: {name: x}\nspec: {validation: {conformance: {constraints: [{name: A, value: " + written + "}]}}}\n"
		if got := mustRecipe(t, text).Phases.Conformance.Constraints[0].Value; got != want {
			t.Errorf("%s is read as %q", written, got)
		}
	}
}

func TestAFieldThatIsNotUsedIsListedOnceWithItsLine(t *testing.T) {
	r := mustRecipe(t, string(mustRead(t, "testdata/recipe/upstream/result.yaml")))
	var got []string
	for _, u := range r.Unused {
		got = append(got, fmt.Sprintf("%d %s", u.Line, u.Path))
	}
	want := []string{
		"19 metadata.defaultStorageClassState", "20 metadata.gpuDriverState", "21 metadata.mariaDBOperatorState", "22 metadata.perconaOperatorState", "23 metadata.selectedProfile",
		"48 componentRefs[0].valuesFile", "49 componentRefs[0].overrides", "51 componentRefs[0].patches", "54 componentRefs[0].manifestFiles",
		"56 componentRefs[0].preManifestFiles", "58 componentRefs[0].path", "59 componentRefs[0].cleanup", "60 componentRefs[0].expectedResources", "64 componentRefs[0].healthCheckAsserts",
		"65 componentRefs[0].healthCheckSkip", "72 componentRefs[2].manifestFiles", "74 deploymentOrder", "83 validation.deployment.timeout", "98 validation.performance.constraints[1]", "100 configuration",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, u := range mustRecipe(t, string(mustRead(t, "testdata/recipe/upstream/overlay.yaml"))).Unused {
		if strings.HasPrefix(u.Path, "spec.profile.") && !strings.HasSuffix(u.Path, ".advertiser") && !strings.Contains(u.Path, "componentRefs") {
			t.Errorf("%s is listed, and used where its profile is chosen", u.Path)
		}
	}
}

func TestAValidationInputIsAWholeRecipe(t *testing.T) {
	r := mustRecipe(t, string(mustRead(t, "testdata/recipe/upstream/validation-input.yaml")))
	if !r.Whole() || r.Name != "nightly" || r.Resolution.Version != "v1.2.0" || r.GPUPolicy != spec.PolicyDRAClaim || r.Criteria.Service != "eks" ||
		len(r.Phases.Performance.Checks) != 2 || !r.HasComponent("gpu-operator") || r.Phases.Performance.NodeSelection.MaxNodes != 2 {
		t.Errorf("%+v", r)
	}
	headless := mustRecipe(t, string(mustRead(t, "testdata/recipe/upstream/validation-input-headless.yaml")))
	if data, err := spec.EncodeRecipe(headless); err != nil || bytes.Contains(data, []byte("kind")) {
		t.Errorf("%v\n%s", err, data)
	}
	if mustRecipe(t, string(mustRead(t, "testdata/recipe/upstream/overlay.yaml"))).Whole() {
		t.Error("an overlay is whole")
	}
}

// Upstream writes the type and the source of every component of a whole recipe, and its
// schema wants them; of an overlay it does not.
func TestAWholeRecipeSaysTheTypeAndTheSourceOfEachComponent(t *testing.T) {
	for kind, wants := range map[string]bool{spec.RecipeResultKind: true, spec.ValidationInputKind: true, spec.RecipeKind: false, spec.RecipeMixinKind: false} {
		r := &spec.Recipe{Kind: kind, Components: []spec.Component{{Name: "nfd"}}}
		if kind == spec.RecipeKind || kind == spec.RecipeMixinKind {
			r.Name = "ours"
		}
		data, err := spec.EncodeRecipe(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(data, []byte("type: \"\"")) && bytes.Contains(data, []byte("source: \"\"")); got != wants {
			t.Errorf("%s: want %v\n%s", kind, wants, data)
		}
	}
}

func TestACriterionThatNamesSomethingRealIsNoSlip(t *testing.T) {
	for field, words := range map[string][]string{"service": {"k3s", "ncp", "rke"}, "accelerator": {"b300", "gb400", "gh200", "h20", "l4"}} {
		for _, word := range words {
			if text, _ := spec.CriteriaMistake(field, word); text != "" {
				t.Errorf("%s %s: %s", field, word, text)
			}
			if _, close := spec.Nearest(word, spec.CriteriaWords(field)); !close || slices.Contains(spec.CriteriaWords(field), word) {
				t.Errorf("%s %s need not be in the list", field, word)
			}
		}
	}
}
