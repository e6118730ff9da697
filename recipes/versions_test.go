package recipes_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"aicr/internal/spec"
	"aicr/recipes"
)

func pinned(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("versions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// placeholders lets a test speak of what is pinned without naming it.
func placeholders(t *testing.T) *strings.Replacer {
	t.Helper()
	v, err := recipes.Versions()
	if err != nil {
		t.Fatal(err)
	}
	chart, _ := v.Chart(recipes.DynamoChart)
	gpus, _ := v.Chart("gpu-operator")
	release, ok := recipes.ReleaseOf(v, chart.Version)
	tool := slices.IndexFunc(v.Tools, func(p spec.PinnedTool) bool { return p.Name == "aiperf" })
	if !ok || tool < 0 {
		t.Fatal("what is pinned is not known")
	}
	minor := chart.Version[:strings.LastIndex(chart.Version, ".")]
	return strings.NewReplacer("{dynamo}", chart.Version, "{dynamo-patched}", minor+".99", "{release}", release.Since, "{vllm}", release.VLLM,
		"{gpu-operator}", gpus.Version, "{aiperf}", v.Tools[tool].Version)
}

// edit replaces the first text after a place with another one.
func edit(t *testing.T, document, after, old, replacement string) string {
	t.Helper()
	of := placeholders(t)
	after, old, replacement = of.Replace(after), of.Replace(old), of.Replace(replacement)
	from := strings.Index(document, after)
	if from < 0 {
		t.Fatalf("%q is not in the document", after)
	}
	at := strings.Index(document[from:], old)
	if at < 0 {
		t.Fatalf("%q does not come after %q", old, after)
	}
	return document[:from+at] + replacement + document[from+at+len(old):]
}

func TestTheVersionsThatArePinnedGoTogether(t *testing.T) {
	v, err := recipes.Versions()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range recipes.CheckVersions(v) {
		t.Errorf("%s:%d: %s: %s", recipes.VersionsFile, d.Line, d.Rule, d.Text)
	}
	for _, name := range []string{recipes.RuntimeImage, "dynamo-epp", "aicr"} {
		if _, ok := v.Image(name); !ok {
			t.Errorf("there is no image %s", name)
		}
	}
}

func TestEachDriftIsCaughtByItsName(t *testing.T) {
	chart, runtime := "name: dynamo-platform", "name: dynamo-vllm-runtime"
	for name, test := range map[string]struct {
		after, old, replacement string
		rule, words             string
	}{
		"the published skew: chart and image of two releases": {runtime, "tag: {dynamo}", "tag: 0.9.0", recipes.RuleMinor, "image dynamo-vllm-runtime is at 0.9.0 and chart dynamo-platform at {dynamo}"},
		"the chart is bumped alone":                           {chart, "version: {dynamo}", "version: 1.3.0", recipes.RuleMinor, "chart dynamo-platform at 1.3.0"},
		"what the tests hold it against is left behind":       {chart, "version: {dynamo}", "version: 1.3.0", recipes.RuleMinor, "tool ai-dynamo is at {dynamo}"},
		"another major":                               {runtime, "tag: {dynamo}", "tag: 2.4.1", recipes.RuleMinor, "2.4.1"},
		"the endpoint picker is left behind":          {"name: dynamo-epp", "tag: {dynamo}", "tag: 1.2.1", recipes.RuleMinor, "dynamo-epp is at 1.2.1"},
		"a release that nothing is known of":          {chart, "version: {dynamo}", "version: 99.0.0", recipes.RuleReleaseAbsent, "nothing is known of Dynamo 99"},
		"a release is taken out of the table":         {"releases:", "since: {release}", "since: 99.0.0", recipes.RuleReleaseAbsent, "nothing is known of Dynamo {dynamo}"},
		"a router mode of a later release":            {"uses:", "least-loaded", "least-tokens", recipes.RuleRouterMode, "no router mode least-tokens"},
		"an API version of a later release":           {"uses:", "v1beta1", "v1", recipes.RuleGraphAPI, "no DynamoGraphDeployment v1"},
		"the tag latest":                              {runtime, "tag: {dynamo}", "tag: latest", recipes.RuleLatest, "latest"},
		"a tag that is no version":                    {runtime, "tag: {dynamo}", "tag: my-build", recipes.RuleTag, "my-build"},
		"a tag of two numbers":                        {runtime, "tag: {dynamo}", `tag: "1.4"`, recipes.RuleTag, "1.4"},
		"our own image is pinned":                     {"name: aicr", "tag: latest", "tag: v1.2.3", recipes.RuleOwnTag, "goes with the build"},
		"two images of a name":                        {"name: dynamo-epp", "dynamo-epp", "dynamo-vllm-runtime", recipes.RuleDuplicate, "two images are called dynamo-vllm-runtime"},
		"two charts of a name":                        {"name: kai-scheduler", "kai-scheduler", "gpu-operator", recipes.RuleDuplicate, "two charts are called gpu-operator"},
		"two charts for a component":                  {"component: grove", "component: grove", "component: gpu-operator", recipes.RuleDuplicate, "two charts are called gpu-operator"},
		"two tools of a name":                         {"name: aiperf\n    version", "aiperf", "ai-dynamo", recipes.RuleDuplicate, "two tools are called ai-dynamo"},
		"a reference that is none":                    {runtime, "nvcr.io/nvidia", "nvcr.io/NVIDIA", recipes.RuleReference, "dynamo-vllm-runtime"},
		"a reference without a registry":              {runtime, "nvcr.io/nvidia/ai-dynamo/", "", recipes.RuleReference, "dynamo-vllm-runtime"},
		"a tag in the repository":                     {"repository: nvcr.io", "vllm-runtime\n", "vllm-runtime:tagged\n", recipes.RuleReference, "dynamo-vllm-runtime"},
		"a tag that cannot be one":                    {runtime, "tag: {dynamo}", "tag: {dynamo}+cuda13", recipes.RuleReference, "dynamo-vllm-runtime"},
		"a digest that is none":                       {runtime, "tag: {dynamo}", "tag: {dynamo}\n    digest: sha256:123", recipes.RuleDigest, "dynamo-vllm-runtime"},
		"follows a chart that is not there":           {runtime, "follows: dynamo-platform", "follows: dynamo-platfrom", recipes.RuleFollows, "dynamo-platfrom"},
		"the runtime follows nothing":                 {runtime, "    follows: dynamo-platform\n", "", recipes.RuleNoRuntime, "could drift"},
		"the releases are out of order":               {"releases:", "since: 1.2.0", "since: 1.0.0", recipes.RuleReleaseOrder, "release 1.0.0 comes after 1.1.0"},
		"a release is there twice":                    {"releases:", "since: 1.2.0", "since: 1.1.3", recipes.RuleReleaseOrder, "release 1.1.3 comes after 1.1.0"},
		"a release that is no version":                {"releases:", "since: 1.2.0", "since: main", recipes.RuleReleaseOf, "main"},
		"the vLLM of the pinned release is not known": {"since: {release}", "    vllm: {vllm}\n", "", recipes.RuleVLLM, "is not known"},
		"there is no chart of Dynamo":                 {chart, "dynamo-platform", "dynamo", recipes.RuleChartMissing, "there is no chart dynamo-platform"},
		"a chart version that is none":                {"name: gpu-operator", "{gpu-operator}", "newest", recipes.RuleChartVersion, "newest"},
		"a tool version that is none":                 {"name: aiperf\n    version", "{aiperf}", "newest", recipes.RuleToolVersion, "newest"},
	} {
		t.Run(name, func(t *testing.T) {
			document := edit(t, pinned(t), test.after, test.old, test.replacement)
			v, err := spec.DecodeVersions([]byte(document))
			if err != nil {
				t.Fatal(err)
			}
			all := recipes.CheckVersions(v)
			if !slices.ContainsFunc(all, func(d recipes.Drift) bool {
				return d.Rule == test.rule && strings.Contains(d.Text, placeholders(t).Replace(test.words)) && d.Line > 0
			}) {
				t.Errorf("no %s with %q and a line in %+v", test.rule, test.words, all)
			}
		})
	}
}

// An old pin as a whole is no skew, but lacks what is used.
func TestAnOlderReleaseLacksWhatIsUsed(t *testing.T) {
	for version, want := range map[string][]string{
		"1.0.2": {recipes.RuleGraphAPI, recipes.RuleRouterMode},
		"1.1.0": {recipes.RuleGraphAPI},
		"1.2.1": nil,
	} {
		t.Run(version, func(t *testing.T) {
			document := strings.ReplaceAll(pinned(t), ": "+placeholders(t).Replace("{dynamo}")+"\n", ": "+version+"\n")
			v, err := spec.DecodeVersions([]byte(document))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range recipes.CheckVersions(v) {
				got = append(got, d.Rule)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestWhatIsNoDriftIsNotCalledOne(t *testing.T) {
	runtime := "name: dynamo-vllm-runtime"
	for name, test := range map[string]struct{ after, old, replacement string }{
		"another patch":      {runtime, "tag: {dynamo}", "tag: {dynamo-patched}"},
		"a build for a CUDA": {runtime, "tag: {dynamo}", "tag: {dynamo}-cuda13"},
		"with a v":           {runtime, "tag: {dynamo}", "tag: v{dynamo}"},
		"with its digest":    {runtime, "tag: {dynamo}", "tag: {dynamo}\n    digest: sha256:" + strings.Repeat("ab", 32)},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := spec.DecodeVersions([]byte(edit(t, pinned(t), test.after, test.old, test.replacement)))
			if err != nil {
				t.Fatal(err)
			}
			if all := recipes.CheckVersions(v); len(all) != 0 {
				t.Errorf("got %+v", all)
			}
		})
	}
}

// A component without a pin would have no version at all: no overlay may name one.
func TestEveryComponentOfTheLibraryIsPinned(t *testing.T) {
	v, err := recipes.Versions()
	if err != nil {
		t.Fatal(err)
	}
	library, err := recipes.Load()
	if err != nil {
		t.Fatal(err)
	}
	components := 0
	for _, o := range slices.Concat(library.Overlays, library.Mixins) {
		for _, c := range o.Components {
			components++
			chart, ok := v.Chart(c.Name)
			if !ok {
				t.Errorf("%s: component %s is not pinned", o.File, c.Name)
			}
			if c.Source != "" && c.Source != chart.Source {
				t.Errorf("%s: component %s is of %s, and pinned of %s", o.File, c.Name, c.Source, chart.Source)
			}
			if c.Version != "" || c.Tag != "" {
				t.Errorf("%s: component %s names a version", o.File, c.Name)
			}
		}
	}
	if components == 0 {
		t.Error("no overlay has a component")
	}
}
