package spec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"aicr/internal/spec"
)

// slip is a single mistake in a sound recipe: a text that is there once, what stands in
// its place, and what has to be said of it. The mistake is in the line in which the text
// begins, or so many below.
type slip struct {
	name, old, new string
	below          int
	want, hint     string
}

func slips() []slip {
	return []slip{
		{"a misspelt section", "  validation:\n", "  validaton:\n", 0, "spec.validaton: unknown field", "did you mean validation?"},
		{"a misspelt phase", "    performance:\n", "    preformance:\n", 0, "spec.validation.preformance: unknown field", "did you mean performance?"},
		{"a misspelt list of checks", "      checks:\n        - inference-perf", "      check:\n        - inference-perf", 0, "performance.check: unknown field", "did you mean checks?"},
		{"a misspelt list of constraints", "  constraints:\n    - name: K8s", "  contraints:\n    - name: K8s", 0, "spec.contraints: unknown field", "did you mean constraints?"},
		{"a misspelt list of components", "  componentRefs:\n    - name: dynamo", "  componentRef:\n    - name: dynamo", 0, "spec.componentRef: unknown field", "did you mean componentRefs?"},
		{"a misspelt key", "      dependencyRefs:", "      dependancyRefs:", 0, "componentRefs[0].dependancyRefs: unknown field", "did you mean dependencyRefs?"},
		{"a key in another case", "      nodeSelection:", "      nodeselection:", 0, "deployment.nodeselection: unknown field", "did you mean nodeSelection?"},
		{"a key that nobody knows", "  base: h100-eks\n", "  base: h100-eks\n  frobnication: 1\n", 1, "spec.frobnication: unknown field", "the fields here are base,"},
		{"a key of another place", "metadata:\n", "metadata:\n  labels: {a: b}\n", 1, "metadata.labels: unknown field", "the fields here are name"},
		{"a misspelt key of a profile", "        componentRefs:\n          - name: gpu", "        componentsRefs:\n          - name: gpu", 0, "values.own.componentsRefs: unknown field", "did you mean componentRefs?"},
		{"a misspelt criterion", "    accelerator: h100", "    acelerator: h100", 0, "criteria.acelerator: unknown field", "did you mean accelerator?"},
		{"a misspelt threshold", "ttftGuardrailMs:", "ttftGuardrailms:", 0, "thresholds.ttftGuardrailms: unknown field", "did you mean ttftGuardrailMs?"},
		{"an unknown threshold", "ttftGuardrailMs:", "frobnication:", 0, "thresholds.frobnication: unknown field", "the fields here are"},

		{"a key twice", "    os: ubuntu\n", "    os: ubuntu\n    os: cos\n", 1, "criteria.os: written twice", "it is at line 11 already"},
		{"a section twice", "  mixins:\n", "  base: eks\n  mixins:\n", 0, "spec.base: written twice", "it is at line 7 already"},
		{"a check twice", "        - expected-resources\n", "        - operator-health\n", 0, `deployment.checks[1]: "operator-health" is there twice`, "it is at line 47 already"},
		{"a constraint twice", "name: inference-ttft-p99\n          value: \"<= 2000\"\n          unit: ms", "name: inference-throughput\n          value: \">= 2000\"", 0,
			`constraints[1].name: "inference-throughput" is there twice`, "it is at line 61 already"},
		{"a wanted fact twice", "    - name: NodeTopology.gpu-nodes.label\n      value: \"!drained\"", "    - name: K8s.server.version\n      value: \">= 1.35\"", 0, `"K8s.server.version" is there twice`, "it is at line 18 already"},
		{"a component twice", "    - name: gpu-operator\n  profile", "    - name: dynamo-platform\n  profile", 0, `componentRefs[1].name: "dynamo-platform" is there twice`, "it is at line 23 already"},
		{"a mixin twice", "    - os-ubuntu\n", "    - os-ubuntu\n    - os-ubuntu\n", 1, `mixins[1]: "os-ubuntu" is there twice`, "it is at line 16 already"},

		{"a check that is no name", "        - dra-support", "        - DRA support", 0, `conformance.checks[0]: "DRA support" is no name`, "lower-case letters"},
		{"an empty check", "        - dra-support", `        - ""`, 0, "conformance.checks[0]: no value", "write a name"},
		{"a check that is nothing", "        - dra-support", "        -", 0, "conformance.checks[0]: no value", "write a value"},
		{"a check that is a map", "        - dra-support", "        - name: dra-support", 0, "conformance.checks[0]: want text, got a map", ""},

		{"a comparator that is none", `">= 50000"`, `"=> 50000"`, 0, `value: "=>" is no comparator`, `inference-throughput takes >=, as ">= 50000"`},
		{"a comparator the wrong way round", `">= 50000"`, `"<= 50000"`, 0, "inference-throughput cannot be held with <=", "it takes >= alone"},
		{"a floor for a latency", `"<= 2000"`, `">= 2000"`, 0, "inference-ttft-p99 cannot be held with >=", "it takes <= alone"},
		{"no comparator", `">= 50000"`, "50000", 0, `"50000" says no comparator`, `write it as ">= 50000"`},
		{"a comparator and no number", `">= 50000"`, `">="`, 0, `"" is no number`, `write it as ">= 50000"`},
		{"a number with another unit", `">= 50000"`, `">= 50000 tokens/s/GPU"`, 0, `it is in tokens/s/GPU, and unit: says tokens/s`, `say one of them`},
		{"a number with a misspelt unit", `">= 50000"`, `">= 50000 token/s"`, 0, `"50000 token/s" is no number`, `write ">= 50000", and the unit as unit: tokens/s`},
		{"a number with a comma", `">= 50000"`, `">= 50,000"`, 0, `"50,000" is no number`, `write ">= 50000"`},
		{"a word for a number", `">= 50000"`, `">= fast"`, 0, `"fast" is no number`, `write it as ">= 50000"`},
		{"a floor of nothing", `">= 50000"`, `">= 0"`, 0, "want more than 0", ""},
		{"no quotes before a comparator", `">= 50000"`, ">= 50000", 0, "not YAML", `put quotes around text that begins with a sign, as ">= 50000"`},
		{"no quotes before an exclamation mark", `"!drained"`, "!drained", 0, "constraints[1].value: want text, got something tagged", `write "!drained", with quotes`},
		{"a misspelt unit", "unit: tokens/s", "unit: token/s", 0, `unit: "token/s" is not known here`, "did you mean tokens/s?"},
		{"a unit of another language", "unit: ms", "unit: msec", 0, `unit: "msec" is not known here`, "did you mean ms?"},
		{"a unit of another figure", "unit: ms", "unit: tokens/s", 0, `unit: "tokens/s" is not known here`, "one of ms, s"},
		{"a tolerance below nothing", "tolerance: 0.1", "tolerance: -0.1", 0, "tolerance: want 0 to 0.5, got -0.1", "a share of the threshold"},
		{"a tolerance in percent", "tolerance: 0.1", "tolerance: 10", 0, "tolerance: want 0 to 0.5, got 10", "0.1 is a tenth"},
		{"a tolerance with its sign", "tolerance: 0.1", "tolerance: 10%", 0, `tolerance: want a number, got text "10%"`, ""},
		{"a tolerance of a fact", `      value: ">= 1.34"`, "      value: \">= 1.34\"\n      tolerance: 0.1", 1, "K8s.server.version takes no tolerance", "leave it out"},
		{"a figure that is misspelt", "name: inference-throughput", "name: inference-troughput", 0, `"inference-troughput" is no constraint that is known here`, "did you mean inference-throughput?"},
		{"a figure that nobody knows", "name: inference-ttft-p99", "name: frobnication", 0, `"frobnication" is no constraint that is known here`, "one of inference-throughput,"},
		{"another check's figure, misspelt", "name: nccl-all-reduce-bw", "name: nccl-all-reduce-bandwith", 0, "is no constraint that is known here", "one of"},
		{"another check's figure, slightly misspelt", "name: nccl-all-reduce-bw", "name: nccl-allreduce-bwx", 0, "is no constraint that is known here", "did you mean nccl-all-reduce-bw?"},
		{"another check's figure the wrong way round", `">= 300"`, `"< 300"`, 0, "nccl-all-reduce-bw cannot be held with <", "it takes >= alone"},
		{"a figure among the facts", "name: NodeTopology.gpu-nodes.label", "name: inference-throughput", 0, "inference-throughput is no fact of a cluster", "validation.performance.constraints"},
		{"an input with a comparator", "value: Qwen/Qwen3-8B", `value: "== Qwen/Qwen3-8B"`, 0, "inference-model takes a bare value", `write "Qwen/Qwen3-8B"`},
		{"an input with a unit", "value: Qwen/Qwen3-8B", "value: Qwen/Qwen3-8B\n          unit: ms", 1, "inference-model takes no unit", "leave it out"},
		{"half a request", "value: 128\n        - name: inference-routing", "value: 12.8\n        - name: inference-routing", 0, `want a whole number from 1 to 1000000, got "12.8"`, "requests in flight"},
		{"a routing mode that is none", "value: dynamo-router", "value: dynamo-ruter", 0, `"dynamo-ruter" is not known here`, "did you mean dynamo-router?"},
		{"no name of a constraint", "        - name: inference-model\n          value", "        - value", 0, "constraints[2].name: is missing", "name what is wanted"},
		{"no value of a constraint", "        - name: inference-routing-mode\n          value: dynamo-router", "        - name: inference-routing-mode", 0, "constraints[4].value: is missing", "write what is wanted"},
		{"a value that was forgotten", "value: dynamo-router", "value:", 0, "constraints[4].value: no value", "write a value"},

		{"a fact of a type that is none", "name: K8s.server.version", "name: Kbs.server.version", 0, "constraints[0].name", "did you mean K8s.server.version?"},
		{"a fact of a group that is none", "name: K8s.server.version", "name: K8s.sever.version", 0, "constraints[0].name", "did you mean server?"},
		{"a fact that is none", "name: K8s.server.version", "name: K8s.server.verison", 0, "constraints[0].name", "did you mean version?"},
		{"a fact with a comparator that is none", `">= 1.34"`, `"=> 1.34"`, 0, "constraints[0].value", ">="},
		{"a fact that is compared with no version", `">= 1.34"`, `">= new"`, 0, "constraints[0].value: \"new\" is no version", ">= takes a version or a number"},
		{"a number that is none", `">= 8"`, `">= eight"`, 0, `readiness.constraints[0].value: "eight" is no`, "a number"},
		{"a version of nothing", "name: Deployment.gpu-operator.version", "name: Deployment.gpu-operater.version", 0, "is no constraint that is known here", "did you mean Deployment.gpu-operator.version?"},
		{"a version of a misspelt component", "name: Deployment.gpu-operator.version", "name: dynamo-platfrom.version", 0, `"dynamo-platfrom" is no component that is known here`, "did you mean dynamo-platform.version?"},
		{"a version that is none", `">= v25.10.0"`, `">= latest"`, 0, `deployment.constraints[0].value: "latest" is no version`, ">= takes a version or a number"},

		{"a service that is misspelt", "service: eks", "service: ekss", 0, `criteria.service: "ekss" is not known here`, "did you mean eks?"},
		{"a service in capitals", "service: eks", "service: EKS", 0, `criteria.service: "EKS" is not known here`, "did you mean eks?"},
		{"an accelerator that is no word", "accelerator: h100", "accelerator: TPU v5", 0, `criteria.accelerator: "TPU v5" is not known here`, "one of a100, any, b200"},
		{"an intent that nobody has", "intent: inference", "intent: mining", 0, `criteria.intent: "mining" is not known here`, "one of any, inference"},
		{"an intent that is misspelt", "intent: inference", "intent: inferense", 0, `"inferense" is not known here`, "did you mean inference?"},
		{"no nodes", "nodes: 1", "nodes: 0", 0, "criteria.nodes: want at least 1, got 0", ""},
		{"nodes in words", "nodes: 1", "nodes: one", 0, `criteria.nodes: want a whole number, got text "one"`, ""},
		{"nodes in quotes", "nodes: 1", `nodes: "1"`, 0, "criteria.nodes: want a whole number", "write 1, without quotes"},

		{"a name that is none", "name: h100-eks-inference", "name: H100 EKS", 0, `metadata.name: "H100 EKS" is no name`, "lower-case letters"},
		{"no name", "metadata:\n  name: h100-eks-inference", "metadata: {}", 0, "metadata.name: is missing", "write metadata: {name: a-name}"},
		{"a name that is a number", "name: h100-eks-inference", "name: 100", 0, "metadata.name: want text, got 100", `write "100", with quotes`},
		{"a component without a name", "    - name: dynamo-platform\n      type: Helm", "    - type: Helm", 0, "componentRefs[0].name: is missing", "name the component"},
		{"a type that is misspelt", "type: Helm", "type: Heml", 0, `type: "Heml" is not known here`, "did you mean Helm?"},
		{"a version that is true", `version: "1.4.1"`, "version: true", 0, "version: want text, got true", `write "true", with quotes`},
		{"yes for true", "cleanup: true", "cleanup: yes", 0, `cleanup: want true or false, got text "yes"`, "write true"},
		{"no for false", "cleanup: true", "cleanup: no", 0, `cleanup: want true or false, got text "no"`, "write false"},
		{"text for a list", "      dependencyRefs:\n        - gpu-operator", "      dependencyRefs: gpu-operator", 0, "dependencyRefs: want a list", "write [gpu-operator]"},
		{"a list for a map", "metadata:\n  name: h100-eks-inference", "metadata: [h100-eks-inference]", 0, "metadata: want a map of fields, got a list", ""},
		{"a map for a list", "  mixins:\n    - os-ubuntu", "  mixins:\n    os: ubuntu", 0, "mixins: want a list, got a map", ""},
		{"a map for text", "  base: h100-eks", "  base: {name: h100-eks}", 0, "spec.base: want text, got a map", ""},
		{"a timeout without its unit", "timeout: 10m", "timeout: 10", 0, "deployment.timeout: want text, got 10", "with quotes"},
		{"a timeout in words", "timeout: 10m", "timeout: 10 min", 0, `deployment.timeout: "10 min" is not a duration`, "write 10m"},
		{"fewer nodes than none", "maxNodes: 4", "maxNodes: -1", 0, "nodeSelection.maxNodes: want at least 0, got -1", ""},
		{"a profile without its default", "default: own", "default: owm", 0, `profile.default: "owm" is not known here`, "did you mean own?"},

		{"a verdict of another phase", "      nodeSelection:\n        maxNodes: 4", "      verdict:\n        profile: standard", 0, "only the performance phase has a verdict", "write it below spec.validation.performance"},
		{"a profile that is misspelt", "profile: standard", "profile: standart", 0, `profile: "standart" is not known here`, "did you mean standard?"},
		{"a stability that is none", "stability: gate", "stability: off", 0, `stability: "off" is not known here`, "one of gate, report"},
		{"a reference without its point", "          gpus: 8\n", "", -2, "reference.gpus: is missing", "a reference holds at the point"},
		{"a reference below nothing", "throughput: 79800", "throughput: -1", 0, "reference.throughput: want more than 0", ""},
		{"a date that is none", `measured: "2026-06-04"`, "measured: last week", 0, `"last week" is no date`, `write it as "2026-06-04"`},
		{"a date without quotes", `measured: "2026-06-04"`, "measured: 2026-06-04", 0, "measured: want text, got the date 2026-06-04", "with quotes"},
		{"a threshold that is text", "ttftGuardrailMs: 1500", `ttftGuardrailMs: "1500"`, 0, "ttftGuardrailMs: want a number", "write 1500, without quotes"},
		{"a threshold that cannot be", "ttftGuardrailMs: 1500", "ttftGuardrailMs: 0", 0, "ttftGuardrailMs: want more than 0", "in milliseconds"},

		{"another kind", "kind: RecipeMetadata", "kind: Snapshot", 0, "kind: this is a Snapshot, not a recipe", "a recipe is one of RecipeMetadata"},
		{"a kind that is misspelt", "kind: RecipeMetadata", "kind: RecipeMetdata", 0, `kind: "RecipeMetdata" is not known here`, "did you mean RecipeMetadata?"},
		{"a kind that nobody knows", "kind: RecipeMetadata", "kind: Cookbook", 0, `kind: "Cookbook" is not known here`, "one of RecipeMetadata, RecipeResult, RecipeMixin, ValidationInput"},
		{"no kind", "kind: RecipeMetadata\n", "", 0, "kind: is missing", "write kind: RecipeMetadata"},
		{"a misspelt kind", "kind: RecipeMetadata", "kin: RecipeMetadata", 0, "kin: unknown field", "did you mean kind?"},
		{"another apiVersion", "aicr.run/v1beta1", "aicr.run/v1beta9", 0, `apiVersion: "aicr.run/v1beta9" is not known here`, "did you mean aicr.run/v1beta1?"},
		{"the apiVersion of an older product", "aicr.run/v1beta1", "eidos.nvidia.com/v1alpha1", 0, "is not known here", "one of aicr.run/v1beta1"},
		{"no apiVersion", "apiVersion: aicr.run/v1beta1\n", "", -1, "apiVersion: is missing", "write apiVersion: aicr.run/v1beta1"},

		{"a tab", "    service: eks", "\tservice: eks", 0, "not YAML", "indent with spaces"},
		{"a line that is indented too far", "    os: ubuntu", "      os: ubuntu", 0, "not YAML", ""},
		{"a quote that is not closed", `version: "1.4.1"`, `version: "1.4.1`, 0, "not YAML", "a quote that opens here is not closed"},
		{"a bracket that is not closed", "{enabled: false}", "{enabled: false", 0, "not YAML", "a comma is missing, or the bracket"},
		{"text that is not UTF-8", "os: ubuntu", "os: ub\xffntu", 0, "the document is not UTF-8 text", ""},
		{"a second document", "kind: RecipeMetadata", "kind: RecipeMetadata\n---\nkind: RecipeMetadata", 2, "a second document in the same file", "write one document"},
		{"an alias of nothing", "base: h100-eks", "base: *nothing", 0, "not YAML: unknown anchor 'nothing' referenced", ""},
		{"an alias of itself", "etcd: {enabled: false}", "etcd: &a {b: *a}", 0, "nested too deep", ""},
		{"a list of itself", "      dependencyRefs:\n        - gpu-operator", "      dependencyRefs: &a [*a]", 0, "want text, got a list", ""},
		{"an anchor bomb", "etcd: {enabled: false}", bomb(), 0, "more values than are read", ""},
		{"a tag of somebody's own", "etcd: {enabled: false}", "etcd: !vault secret", 0, "want a value that JSON has too, got something tagged", ""},
		{"an endless number", "etcd: {enabled: false}", "etcd: !!float inf", 0, "want a value that JSON has too, got inf", ""},
		{"a key of Helm values twice", "etcd: {enabled: false}", "etcd: {enabled: false, enabled: true}", 0, "overrides.etcd.enabled: written twice", "it is at line 30 already"},
	}
}

// bomb is a value that is small on paper and has ten to the ninth parts.
func bomb() string {
	var b strings.Builder
	b.WriteString("etcd: {a0: &a0 [1,1,1,1,1,1,1,1,1,1]")
	for i := range 9 {
		fmt.Fprintf(&b, ", a%d: &a%d [%s*a%d]", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return b.String() + "}"
}

func TestASingleMistakeInARecipeIsToldWithItsLine(t *testing.T) {
	sound := string(mustRead(t, "testdata/recipe/sound.yaml"))
	mustRecipe(t, sound)
	for _, s := range slips() {
		t.Run(s.name, func(t *testing.T) {
			if strings.Count(sound, s.old) != 1 {
				t.Fatalf("%q is there %d times", s.old, strings.Count(sound, s.old))
			}
			before, _, _ := strings.Cut(sound, s.old)
			line := 1 + strings.Count(before, "\n") + s.below
			r, err := spec.DecodeRecipe([]byte(strings.Replace(sound, s.old, s.new, 1)))
			var all spec.Mistakes
			if !errors.As(err, &all) || r != nil {
				t.Fatalf("read as %+v, %v", r, err)
			}
			if len(all) != 1 {
				t.Fatalf("%d mistakes:\n%s", len(all), told(t, err))
			}
			if m := all[0]; m.Line != line || !strings.Contains(m.Error(), s.want) || !strings.Contains(m.Hint, s.hint) || s.hint == "" && m.Hint != "" {
				t.Errorf("want line %d: %s\n    hint: %s\ngot %s", line, s.want, s.hint, told(t, err))
			}
		})
	}
}

func TestNoDocumentKeepsTheProgramBusy(t *testing.T) {
	const head = "kind: RecipeMetadata\napiVersion: aicr.run/v1beta1\nmetadata: {name: x}\nspec:\n"
	many := func(n int, line func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i))
		}
		return b.String()
	}
	wants := func(i int) string { return fmt.Sprintf("  - {name: x%d, value: y}\n", i) }
	for name, c := range map[string]struct{ text, want string }{
		"nothing":           {"", "line 1: the document is empty"},
		"a comment alone":   {"# nothing\n", "line 1: the document is empty"},
		"50 MB":             {head + strings.Repeat("# padding\n", 5_000_000), "line 1: the document is larger than 1 MiB"},
		"many constraints":  {head + "  constraints:\n" + many(20_000, wants), "more than 1000 mistakes: the rest is not told"},
		"many unknown keys": {head + many(20_000, func(i int) string { return fmt.Sprintf("  frobnicated-%d: 1\n", i) }), "more than 1000 mistakes: the rest is not told"},
		"many checks":       {head + "  validation: {deployment: {checks: [" + strings.Repeat("a, ", 60_000) + "]}}\n", "more than 1000 mistakes: the rest is not told"},
		"many names to slip": {"kind: RecipeResult\napiVersion: aicr.run/v1\nx: 1\ncomponentRefs:\n" + many(8000, func(i int) string { return fmt.Sprintf("- {name: component-of-many-%d}\n", i) }) +
			"deploymentOrder:\n" + many(8000, func(i int) string { return fmt.Sprintf("- another-part-of-many-%d\n", i) }), "line 3: x: unknown field"},
		"a deep document":  {head + "  base: " + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "\n", "want text, got a list"},
		"deep Helm values": {head + "  componentRefs: [{name: x, overrides: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}]\n", "nested too deep"},
		"a bomb of fields": {"a: &a {<<: [*b]}\nb: &b {<<: [*a, *a]}\n" + head, "not YAML: unknown anchor 'b' referenced"},
		"many merges": {"x: &x {" + many(5000, func(i int) string { return fmt.Sprintf("k%d: 1, ", i) }) + "}\n" + head + "  <<: [" + strings.Repeat("*x, ", 60_000) + "]\n",
			"more is merged than is read"},
		"a deep bracket": {head + "  base: " + strings.Repeat("[", 500_000) + "\n", "not YAML"},
		"a list":         {"- a\n- b\n", "want a map of fields, got a list"},
		"text":           {"recipe\n", "want a map of fields, got text \"recipe\""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := spec.DecodeRecipe([]byte(c.text))
			if text := told(t, err); !strings.Contains(text, c.want) {
				t.Errorf("want %s, got %.2000s", c.want, text)
			}
			var all spec.Mistakes
			if errors.As(err, &all); len(all) > 1001 {
				t.Errorf("%d mistakes", len(all))
			}
		})
	}
}

func TestTheWordsOfTheCriteria(t *testing.T) {
	published := map[string]string{ // with sim, which is our own
		"service":     "aks any bcm eks generic gke k0s kind lke metal3 ocp oke rke2 sim togetherai",
		"accelerator": "a100 any b200 gb200 gb300 h100 h200 l40 l40s rtx-pro-6000 sim vr200",
		"os":          "amazonlinux any cos ol rhel sles talos ubuntu",
		"intent":      "any inference training",
		"platform":    "any dynamo kubeflow kueue nim runai slurm",
	}
	for _, field := range spec.CriteriaFields() {
		words := spec.CriteriaWords(field)
		if got := strings.Join(words, " "); got != published[field] {
			t.Errorf("%s is one of %s", field, got)
		}
		for _, word := range append(words, "") {
			text := fmt.Sprintf("kind: RecipeMetadata\napiVersion: aicr.run/v1beta1\nmetadata: {name: x}\nspec: {criteria: {%s: %q}}\n", field, word)
			if got := mustRecipe(t, text).Criteria.Named(field); got != word {
				t.Errorf("%s %q is read as %q", field, word, got)
			}
			if mistake, _ := spec.CriteriaMistake(field, word); mistake != "" {
				t.Errorf("%s %q: %s", field, word, mistake)
			}
		}
	}
	own := mustRecipe(t, "kind: RecipeMetadata\napiVersion: aicr.run/v1beta1\nmetadata: {name: x}\nspec: {criteria: {service: acme}}\n")
	if own.Criteria.Service != "acme" {
		t.Errorf("an organisation's own word is read as %q", own.Criteria.Service)
	}
	if spec.CriteriaWords("nodes") != nil {
		t.Error("nodes are counted")
	}
}

func TestEachKindHasItsOwnFields(t *testing.T) {
	for text, want := range map[string]string{
		"kind: RecipeMixin\napiVersion: aicr.run/v1\nmetadata: {name: x}\nspec: {base: eks}\n":                 "spec.base: unknown field",
		"kind: RecipeMixin\napiVersion: aicr.run/v1\nmetadata: {name: x}\nspec: {criteria: {service: eks}}\n":  "spec.criteria: unknown field",
		"kind: RecipeMixin\napiVersion: aicr.run/v1\nmetadata: {name: x}\nspec: {validation: {}}\n":            "spec.validation: unknown field",
		"kind: RecipeResult\napiVersion: aicr.run/v1\nmetadata: {name: x}\n":                                   "metadata.name: unknown field",
		"kind: RecipeResult\napiVersion: aicr.run/v1\nspec: {}\n":                                              "spec: unknown field",
		"kind: RecipeResult\napiVersion: aicr.run/v1\nconfiguration: {gke: {tcpxoInterface: []}}\n":            "did you mean tcpxoInterfaces?",
		"kind: RecipeResult\napiVersion: aicr.run/v1\ncomponentRefs: [{name: ab-cd}]\ndeploymentOrder: [abdc]": "did you mean ab-cd?",
		"kind: RecipeResult\napiVersion: validator.nvidia.com/v1alpha1\n":                                      "is not known here",
		"kind: ValidationInput\napiVersion: aicr.run/v1\nconfig: {}\n":                                         "is not known here",
		"kind: ValidationInput\nconfig: {}\n":                                                                  "apiVersion: is missing",
		"apiVersion: validator.nvidia.com/v1alpha1\nconfig: {}\n":                                              "kind: is missing",
		"config: {}\ngpuAllocationPolicy: dra-resource-claims\n":                                               "did you mean dra-resource-claim?",
		"config: {performence: {}}\n":                                                                          "did you mean performance?",
		"criteria: {service: eks}\napiVersion: aicr.run/v1\n":                                                  "write kind: RecipeResult",
	} {
		_, err := spec.DecodeRecipe([]byte(text))
		if err == nil {
			t.Errorf("read:\n%s", text)
			continue
		}
		if got := told(t, err); !strings.Contains(got, want) {
			t.Errorf("want %s, got\n%s", want, got)
		}
	}
}

func TestAVersionWithoutQuotesIsItsText(t *testing.T) {
	for written, want := range map[string]string{"1.20": "1.20", "26": "26", `"1.4"`: "1.4", "v1.2.3": "v1.2.3", "0.10": "0.10"} {
		r := mustRecipe(t, "kind: RecipeMetadata\napiVersion: aicr.run/v1beta1\nmetadata: {name: x}\nspec: {componentRefs: [{name: a, version: "+written+", tag: "+written+"}]}\n")
		if c := r.Components[0]; c.Version != want || c.Tag != want {
			t.Errorf("%s is read as %q and %q", written, c.Version, c.Tag)
		}
	}
}
