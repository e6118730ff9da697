package checks_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/checks"
	"aicr/internal/spec"
)

// paperRecipe is a recipe with its components, and with what each phase says.
func paperRecipe(t *testing.T, components string, phases ...string) *spec.Recipe {
	t.Helper()
	text := "kind: RecipeMetadata\napiVersion: aicr.run/v1beta1\nmetadata: {name: paper}\nspec:\n"
	for c := range strings.FieldsSeq(components) {
		if !strings.Contains(text, "componentRefs") {
			text += "  componentRefs:\n"
		}
		text += "    - {name: " + c + ", type: Helm}\n"
	}
	if len(phases) > 0 {
		text += "  validation:\n"
	}
	for _, p := range phases {
		text += "    " + p + "\n"
	}
	r, err := spec.DecodeRecipe([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return r
}

// paperSnapshot is a cluster of these facts: lines below K8s and GPU.
func paperSnapshot(t *testing.T, subtypes ...string) *spec.Snapshot {
	t.Helper()
	text := "kind: Snapshot\napiVersion: aicr.run/v1alpha2\nmeasurements:\n"
	for _, kind := range []string{"K8s", "GPU"} {
		head := "  - type: " + kind + "\n    subtypes:\n"
		for _, s := range subtypes {
			if rest, ok := strings.CutPrefix(s, kind+" "); ok {
				text += head + "      - " + rest + "\n"
				head = ""
			}
		}
	}
	s, err := spec.DecodeSnapshot([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}

func paperCatalog() *spec.Catalog {
	entry := func(name, phase, timeout string) spec.CatalogEntry {
		return spec.CatalogEntry{Name: name, Phase: phase, Timeout: timeout}
	}
	return &spec.Catalog{Validators: []spec.CatalogEntry{
		entry("inference-perf", "performance", "65m"), entry("nccl-all-reduce-bw", "performance", "30m"),
		entry("gpu-operator-version", "deployment", "2m"), entry("check-nvidia-smi", "deployment", "10m"), entry("gke-gpu-nic-networks", "deployment", "2m"),
		entry("dra-support", "conformance", "5m"), entry("gang-scheduling", "conformance", "10m"), entry("platform-health", "conformance", "5m"),
	}}
}

const (
	crdServed = "K8s {subtype: dynamo-crds, data: {dynamographdeployments: 'v1alpha1,v1beta1'}}"
	crdAbsent = "K8s {subtype: dynamo-crds, unknown: {dynamographdeployments: {reason: absent}}}"
	gpus      = "GPU {subtype: hardware, data: {gpu-count: 8, driver-version: 580.95.05}}"
	noGPUs    = "GPU {subtype: hardware, data: {gpu-count: 0}}"
	operator  = "K8s {subtype: gpu-operator, data: {installed: true, version: v25.10.0}}"

	wantsThroughput = "performance: {checks: [inference-perf], constraints: [{name: inference-throughput, value: '>= 50000'}]}"
	wantsTTFT       = "performance: {checks: [inference-perf], constraints: [{name: inference-ttft-p99, value: '<= 2000'}]}"
	wantsNothing    = "performance: {checks: [inference-perf], constraints: [{name: inference-model, value: Qwen/Qwen3-8B}]}"
	wantsReference  = "performance: {checks: [inference-perf], verdict: {reference: {throughput: 80000, gpus: 8, concurrencyPerGPU: 128, inputTokens: 128, outputTokens: 128}}}"
	undeclared      = "performance: {checks: [nccl-all-reduce-bw], constraints: [{name: inference-throughput, value: '>= 50000'}]}"
)

type guardCase struct {
	recipe   *spec.Recipe
	snapshot *spec.Snapshot
	state    spec.State
	reason   string
}

func holdGuards(t *testing.T, check string, cases map[string]guardCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := checks.Preflight(c.recipe, c.snapshot, paperCatalog(), checks.PreflightOptions{})
			for _, phase := range p.Phases {
				for _, got := range phase.Checks {
					if got.Name != check {
						continue
					}
					if got.State != c.state || !strings.Contains(got.Reason, c.reason) {
						t.Errorf("%s %q, want %s %q", got.State, got.Reason, c.state, c.reason)
					}
					return
				}
			}
			t.Fatalf("%s is not listed: %+v", check, p)
		})
	}
}

func TestGuardA(t *testing.T) {
	all := paperSnapshot(t, crdServed, gpus)
	holdGuards(t, "inference-perf", map[string]guardCase{
		"neither is wanted":         {paperRecipe(t, "dynamo-platform", wantsNothing), all, spec.Skip, "neither inference-throughput nor inference-ttft-p99"},
		"throughput alone":          {paperRecipe(t, "dynamo-platform", wantsThroughput), all, spec.Skip, "no-cluster: nothing was run"},
		"first tokens alone":        {paperRecipe(t, "dynamo-platform", wantsTTFT), all, spec.Skip, "no-cluster: nothing was run"},
		"our own reference":         {paperRecipe(t, "dynamo-platform", wantsReference), all, spec.Skip, "no-cluster: nothing was run"},
		"it comes before B":         {paperRecipe(t, "grove", wantsNothing), all, spec.Skip, "neither inference-throughput"},
		"it comes before C":         {paperRecipe(t, "dynamo-platform", wantsNothing), paperSnapshot(t, crdAbsent, gpus), spec.Skip, "neither inference-throughput"},
		"what is not declared":      {paperRecipe(t, "dynamo-platform", undeclared), all, spec.Skip, "the recipe does not ask for it"},
		"not declared, and absent":  {paperRecipe(t, "dynamo-platform", undeclared), paperSnapshot(t, crdAbsent, gpus), spec.Skip, "the recipe does not ask for it"},
		"not declared, and unknown": {paperRecipe(t, "dynamo-platform", undeclared), paperSnapshot(t, gpus), spec.Skip, "the recipe does not ask for it"},
	})
}

func TestGuardB(t *testing.T) {
	holdGuards(t, "inference-perf", map[string]guardCase{
		"dynamo is not declared":            {paperRecipe(t, "grove gpu-operator", wantsThroughput), paperSnapshot(t, crdServed, gpus), spec.Skip, "dynamo-platform is not among the recipe's components"},
		"no component at all":               {paperRecipe(t, "", wantsThroughput), paperSnapshot(t, crdServed, gpus), spec.Skip, "dynamo-platform is not among"},
		"it comes before C":                 {paperRecipe(t, "grove", wantsThroughput), paperSnapshot(t, crdAbsent, gpus), spec.Skip, "dynamo-platform is not among"},
		"it is declared":                    {paperRecipe(t, "grove dynamo-platform", wantsThroughput), paperSnapshot(t, crdServed, gpus), spec.Skip, "no-cluster"},
		"a component of a name that begins": {paperRecipe(t, "dynamo-platform-x", wantsThroughput), paperSnapshot(t, crdServed, gpus), spec.Skip, "dynamo-platform is not among"},
	})
}

// Before #2130 it was a skip. Since then what is declared and absent fails.
func TestGuardC(t *testing.T) {
	r := paperRecipe(t, "dynamo-platform", wantsThroughput)
	unknown := func(reason string) *spec.Snapshot {
		return paperSnapshot(t, fmt.Sprintf("K8s {subtype: dynamo-crds, unknown: {'*': {reason: %s, detail: why not}}}", reason), gpus)
	}
	holdGuards(t, "inference-perf", map[string]guardCase{
		"the resource is served":     {r, paperSnapshot(t, crdServed, gpus), spec.Skip, "no-cluster"},
		"the resource is absent":     {r, paperSnapshot(t, crdAbsent, gpus), spec.Fail, "dynamographdeployments.nvidia.com is not there, and the recipe wants it"},
		"no version of it is served": {r, paperSnapshot(t, "K8s {subtype: dynamo-crds, data: {dynamographdeployments: ''}}", gpus), spec.Fail, "is not there"},
		"RBAC":                       {r, unknown("forbidden"), spec.Inconclusive, "forbidden (why not)"},
		"a timeout":                  {r, unknown("timed out"), spec.Inconclusive, "timed out"},
		"transport":                  {r, unknown("unreachable"), spec.Inconclusive, "unreachable"},
		"the snapshot is silent":     {r, paperSnapshot(t, gpus), spec.Inconclusive, "is not known"},
		"no snapshot":                {r, nil, spec.Inconclusive, "there is no snapshot"},
		"no GPU":                     {r, paperSnapshot(t, crdServed, noGPUs), spec.Fail, "a GPU is not there"},
	})
}

func TestApplicability(t *testing.T) {
	kai := "conformance: {checks: [gang-scheduling]}"
	holdGuards(t, "gang-scheduling", map[string]guardCase{
		"declared and there":                 {paperRecipe(t, "kai-scheduler", kai), paperSnapshot(t, "K8s {subtype: kai-scheduler, data: {installed: true}}"), spec.Skip, "no-cluster"},
		"declared and absent":                {paperRecipe(t, "kai-scheduler", kai), paperSnapshot(t, "K8s {subtype: kai-scheduler, data: {installed: false}, unknown: {version: {reason: absent}}}"), spec.Fail, "the KAI scheduler is not there"},
		"declared and unknown":               {paperRecipe(t, "kai-scheduler", kai), paperSnapshot(t, "K8s {subtype: kai-scheduler, unknown: {'*': {reason: forbidden}}}"), spec.Inconclusive, "forbidden"},
		"there, its version is unreadable":   {paperRecipe(t, "kai-scheduler", kai), paperSnapshot(t, "K8s {subtype: kai-scheduler, data: {installed: true}, unknown: {version: {reason: unreadable}}}"), spec.Skip, "no-cluster"},
		"its version alone is known":         {paperRecipe(t, "kai-scheduler", kai), paperSnapshot(t, "K8s {subtype: kai-scheduler, data: {version: v0.10.2}}"), spec.Skip, "no-cluster"},
		"component not declared, absent":     {paperRecipe(t, "grove", kai), paperSnapshot(t, "K8s {subtype: kai-scheduler, data: {installed: false}}"), spec.Skip, "kai-scheduler is not among the recipe's components"},
		"component not declared, unknown":    {paperRecipe(t, "grove", kai), paperSnapshot(t, "K8s {subtype: kai-scheduler, unknown: {'*': {reason: timed out}}}"), spec.Inconclusive, "timed out"},
		"the check is not declared, absent":  {paperRecipe(t, "kai-scheduler", "conformance: {checks: [platform-health]}"), paperSnapshot(t, "K8s {subtype: kai-scheduler, data: {installed: false}}"), spec.Skip, "the recipe does not ask for it"},
		"the check is not declared, unknown": {paperRecipe(t, "kai-scheduler", "conformance: {checks: [platform-health]}"), paperSnapshot(t, gpus), spec.Skip, "the recipe does not ask for it"},
	})
	holdGuards(t, "gke-gpu-nic-networks", map[string]guardCase{
		"its component is not declared": {paperRecipe(t, "gpu-operator", "deployment: {checks: [gke-gpu-nic-networks]}"), paperSnapshot(t, gpus), spec.Skip, "gke-nccl-tcpxo is not among"},
		"its component is declared":     {paperRecipe(t, "gke-nccl-tcpxo", "deployment: {checks: [gke-gpu-nic-networks]}"), paperSnapshot(t, gpus), spec.Skip, "no-cluster"},
	})
	holdGuards(t, "nccl-all-reduce-bw", map[string]guardCase{
		"nothing to hold it against": {paperRecipe(t, "", "performance: {checks: [nccl-all-reduce-bw]}"), paperSnapshot(t, noGPUs), spec.Skip, "the recipe sets no nccl-all-reduce-bw"},
		"no GPU":                     {paperRecipe(t, "", "performance: {checks: [nccl-all-reduce-bw], constraints: [{name: nccl-all-reduce-bw, value: '>= 300'}]}"), paperSnapshot(t, noGPUs), spec.Fail, "a GPU is not there"},
		"GPUs":                       {paperRecipe(t, "", "performance: {checks: [nccl-all-reduce-bw], constraints: [{name: nccl-all-reduce-bw, value: '>= 300'}]}"), paperSnapshot(t, gpus), spec.Skip, "no-cluster"},
	})
	dra := "conformance: {checks: [dra-support]}"
	classes := "K8s {subtype: device-classes, data: {count: 2}}"
	holdGuards(t, "dra-support", map[string]guardCase{
		"the API and classes":  {paperRecipe(t, "nvidia-dra-driver-gpu", dra), paperSnapshot(t, "K8s {subtype: dra, data: {api-version: v1}}", classes), spec.Skip, "no-cluster"},
		"no API":               {paperRecipe(t, "nvidia-dra-driver-gpu", dra), paperSnapshot(t, "K8s {subtype: dra, unknown: {'*': {reason: absent}}}", classes), spec.Fail, "resource.k8s.io is not there"},
		"no class":             {paperRecipe(t, "nvidia-dra-driver-gpu", dra), paperSnapshot(t, "K8s {subtype: dra, data: {api-version: v1}}", "K8s {subtype: device-classes, data: {count: 0}}"), spec.Fail, "a device class is not there"},
		"classes not readable": {paperRecipe(t, "nvidia-dra-driver-gpu", dra), paperSnapshot(t, "K8s {subtype: dra, data: {api-version: v1}}", "K8s {subtype: device-classes, unknown: {'*': {reason: forbidden}}}"), spec.Inconclusive, "forbidden"},
	})
}

func TestWhatASnapshotDecides(t *testing.T) {
	version := func(value string) *spec.Recipe {
		return paperRecipe(t, "gpu-operator", "deployment: {checks: [gpu-operator-version, check-nvidia-smi], constraints: [{name: Deployment.gpu-operator.version, value: '"+value+"'}, {name: Deployment.gpu-driver.version, value: '>= 570'}]}")
	}
	holdGuards(t, "gpu-operator-version", map[string]guardCase{
		"new enough":         {version(">= v25.3.0"), paperSnapshot(t, operator, gpus), spec.Pass, "Deployment.gpu-operator.version is v25.10.0, wanted >= v25.3.0"},
		"too old":            {version(">= v26.1.0"), paperSnapshot(t, operator, gpus), spec.Fail, "is v25.10.0, wanted >= v26.1.0"},
		"version unreadable": {version(">= v25.3.0"), paperSnapshot(t, "K8s {subtype: gpu-operator, data: {installed: true}, unknown: {version: {reason: unreadable}}}", gpus), spec.Inconclusive, "cannot be held"},
		"the short name":     {paperRecipe(t, "gpu-operator", "deployment: {checks: [gpu-operator-version], constraints: [{name: gpu-operator.version, value: '== v26.7.1'}]}"), paperSnapshot(t, operator), spec.Fail, "wanted == v26.7.1"},
		"no constraint":      {paperRecipe(t, "gpu-operator", "deployment: {checks: [gpu-operator-version]}"), paperSnapshot(t, operator), spec.Skip, "the recipe sets no Deployment.gpu-operator.version"},
		"not installed":      {version(">= v25.3.0"), paperSnapshot(t, "K8s {subtype: gpu-operator, data: {installed: false}}", gpus), spec.Fail, "the GPU operator is not there"},
	})
	floor := func(value string) *spec.Recipe {
		return paperRecipe(t, "gpu-operator", "deployment: {checks: [check-nvidia-smi], constraints: [{name: Deployment.gpu-driver.version, value: '"+value+"'}]}")
	}
	holdGuards(t, "check-nvidia-smi", map[string]guardCase{
		"the floor holds":       {floor(">= 570"), paperSnapshot(t, gpus), spec.Skip, "is met; nvidia-smi was not run"},
		"the driver is too old": {floor(">= 590"), paperSnapshot(t, gpus), spec.Fail, "580.95.05, wanted >= 590"},
		"an unmeasurable floor": {floor(">= 570"), paperSnapshot(t, "GPU {subtype: hardware, data: {gpu-count: 8}}"), spec.Inconclusive, "cannot be held"},
		"no floor":              {paperRecipe(t, "gpu-operator", "deployment: {checks: [check-nvidia-smi]}"), paperSnapshot(t, gpus), spec.Skip, "no-cluster"},
	})
}

// whole is a recipe that asks for a check of each phase.
func wholePaper(t *testing.T) *spec.Recipe {
	return paperRecipe(t, "gpu-operator dynamo-platform",
		"deployment: {checks: [gpu-operator-version], constraints: [{name: Deployment.gpu-operator.version, value: '>= v26.1.0'}]}",
		"conformance: {checks: [platform-health]}", wantsThroughput)
}

func TestPhasesComeInTheirOrderAndOnlyThoseThatWereAskedFor(t *testing.T) {
	s := paperSnapshot(t, operator, crdServed, gpus)
	for name, c := range map[string]struct {
		asked []string
		want  []string
	}{
		"all":                    {nil, []string{"deployment FAIL", "conformance SKIP", "performance SKIP"}},
		"in another order":       {[]string{"performance", "deployment"}, []string{"deployment FAIL", "performance SKIP"}},
		"one":                    {[]string{"conformance"}, []string{"conformance SKIP"}},
		"the same one once more": {[]string{"performance", "performance"}, []string{"performance SKIP"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range checks.Preflight(wholePaper(t), s, paperCatalog(), checks.PreflightOptions{Phases: c.asked}).Phases {
				got = append(got, p.Name+" "+string(p.State))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPhaseStatus(t *testing.T) {
	s := paperSnapshot(t, operator, crdServed, gpus)
	version := func(value string) *spec.Recipe {
		return paperRecipe(t, "gpu-operator", "deployment: {checks: [gpu-operator-version, check-nvidia-smi], constraints: [{name: Deployment.gpu-operator.version, value: '"+value+"'}]}")
	}
	for name, c := range map[string]struct {
		recipe  *spec.Recipe
		state   spec.State
		reason  string
		verdict string
	}{
		"one fails":             {version(">= v26.1.0"), spec.Fail, "gpu-operator-version: Deployment", "gpu-operator-version: Deployment.gpu-operator.version is v25.10.0, wanted >= v26.1.0"},
		"one passes":            {version(">= v25.1.0"), spec.Pass, "1 passed, 2 skipped", "; 1 of 2 checks passed, 1 needs the cluster"},
		"everything is skipped": {paperRecipe(t, "", "deployment: {checks: [check-nvidia-smi]}"), spec.Skip, "all 3 checks were skipped", "nothing was validated"},
	} {
		t.Run(name, func(t *testing.T) {
			p := checks.Preflight(c.recipe, s, paperCatalog(), checks.PreflightOptions{Phases: []string{"deployment"}})
			got := p.Phases[0]
			if got.State != c.state || !strings.Contains(got.Reason, c.reason) || p.Verdict != c.state || !strings.Contains(p.Reason, c.verdict) {
				t.Errorf("phase %s %q, verdict %s %q; want %s %q, %q", got.State, got.Reason, p.Verdict, p.Reason, c.state, c.reason, c.verdict)
			}
		})
	}
	t.Run("what is not known is no pass", func(t *testing.T) {
		p := checks.Preflight(version(">= v25.1.0"), paperSnapshot(t, operator), paperCatalog(), checks.PreflightOptions{Phases: []string{"deployment"}})
		if p.Verdict != spec.Inconclusive || p.Phases[0].State != spec.Inconclusive {
			t.Errorf("%s, phase %s", p.Verdict, p.Phases[0].State)
		}
	})
}

func TestFailFastSkipsWhatComesLater(t *testing.T) {
	s := paperSnapshot(t, operator, crdAbsent, gpus)
	states := func(fast bool) (all []string) {
		for _, p := range checks.Preflight(wholePaper(t), s, paperCatalog(), checks.PreflightOptions{FailFast: fast}).Phases {
			for _, c := range p.Checks {
				if c.Declared {
					all = append(all, string(c.State)+" "+c.Reason)
				}
			}
		}
		return all
	}
	slow, fast := states(false), states(true)
	if !strings.HasPrefix(slow[2], "FAIL") {
		t.Errorf("without it: %q", slow)
	}
	for _, got := range fast[1:] {
		if got != "SKIP --fail-fast: the phase deployment did not hold" {
			t.Errorf("with it: %q", fast)
		}
	}
	if !strings.HasPrefix(fast[0], "FAIL") {
		t.Errorf("the first: %q", fast[0])
	}
	s = paperSnapshot(t, "K8s {subtype: gpu-operator, unknown: {'*': {reason: forbidden}}}", crdServed, gpus)
	if open := states(true); !strings.HasPrefix(open[0], "INCONCLUSIVE") || open[len(open)-1] != "SKIP --fail-fast: the phase deployment did not hold" {
		t.Errorf("of a phase that is not known to hold: %q", open)
	}
}

func TestACheckThatIsLeftOutSaysSo(t *testing.T) {
	p := checks.Preflight(wholePaper(t), paperSnapshot(t, operator, crdServed, gpus), paperCatalog(), checks.PreflightOptions{Skip: []string{"gpu-operator-version"}})
	if got := p.Phases[0].Checks[0]; got.State != spec.Skip || got.Reason != "left out by --skip-check" || p.Verdict != spec.Skip {
		t.Errorf("%+v, verdict %s", got, p.Verdict)
	}
}

func TestReadinessComesFirst(t *testing.T) {
	r := wholePaper(t)
	r.Wants = []spec.RecipeConstraint{{Name: "K8s.server.version", Value: ">= 1.34"}}
	r.Phases.Readiness = &spec.RecipePhase{Constraints: []spec.RecipeConstraint{{Name: "GPU.hardware.gpu-count", Value: "8"}}}
	server := func(v string) string { return "K8s {subtype: server, data: {version: " + v + "}}" }
	for name, c := range map[string]struct {
		snapshot *spec.Snapshot
		verdict  spec.State
		reason   string
		phases   int
	}{
		"all met":      {paperSnapshot(t, server("v1.34.1"), operator, crdServed, gpus), spec.Fail, "gpu-operator-version", 3},
		"one not met":  {paperSnapshot(t, server("v1.33.1"), operator, crdServed, gpus), spec.Fail, "1 of 2 readiness constraints are not met; no check was looked at", 3},
		"both not met": {paperSnapshot(t, server("v1.33.1"), noGPUs), spec.Fail, "2 of 2 readiness constraints are not met", 3},
		"one unknown":  {paperSnapshot(t, server("v1.34.1"), operator, crdServed), spec.Inconclusive, "1 of 2 readiness constraints cannot be held", 3},
		"no snapshot":  {nil, spec.Inconclusive, "2 of 2 readiness constraints cannot be held", 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := checks.Preflight(r, c.snapshot, paperCatalog(), checks.PreflightOptions{})
			if p.Verdict != c.verdict || !strings.Contains(p.Reason, c.reason) || len(p.Phases) != c.phases || len(p.Readiness) != 2 {
				t.Errorf("%s %q, %d phases, %+v", p.Verdict, p.Reason, len(p.Phases), p.Readiness)
			}
			looked := false
			for _, phase := range p.Phases {
				for _, check := range phase.Checks {
					looked = looked || check.Declared && check.Reason != "not looked at: the cluster is not ready"
				}
			}
			if checks.Ready(p.Readiness) != looked {
				t.Errorf("ready, and no check was looked at, or the other way round: %+v", p.Phases)
			}
		})
	}
}

func TestEveryMistakeInTheNamesOfChecksIsToldAtOnce(t *testing.T) {
	r := paperRecipe(t, "", "deployment: {checks: [gpu-operator-versoin, inference-perf]}", "performance: {checks: [nccl-all-reduce-bw, somethingelse]}")
	r.Phases.Conformance = &spec.RecipePhase{Checks: []string{"dra-support", "dra-support"}}
	var got []string
	for _, m := range checks.Names(r, paperCatalog(), checks.PreflightOptions{Skip: []string{"inference-pref", "dra-support"}}) {
		got = append(got, m.Text+" ("+m.Hint+")")
	}
	all := "the catalog has check-nvidia-smi, dra-support, gang-scheduling, gke-gpu-nic-networks, gpu-operator-version, inference-perf, nccl-all-reduce-bw, platform-health"
	want := []string{
		`deployment: there is no check "gpu-operator-versoin" (did you mean gpu-operator-version?)`,
		`deployment: "inference-perf" is a check of the phase performance (write it below validation.performance.checks)`,
		`conformance: "dra-support" is there twice (leave one of them out)`,
		`performance: there is no check "somethingelse" (` + all + `)`,
		`--skip-check: there is no check "inference-pref" (did you mean inference-perf?)`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all := checks.Names(wholePaper(t), paperCatalog(), checks.PreflightOptions{}); len(all) > 0 {
		t.Errorf("of a sound recipe: %v", all)
	}
}

func TestNothingToCheckIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		recipe  *spec.Recipe
		options checks.PreflightOptions
		nothing bool
	}{
		"no check at all":          {paperRecipe(t, ""), checks.PreflightOptions{}, true},
		"an empty list":            {paperRecipe(t, "", "performance: {checks: []}"), checks.PreflightOptions{}, true},
		"none of the phase":        {paperRecipe(t, "", wantsThroughput), checks.PreflightOptions{Phases: []string{"deployment"}}, true},
		"all of them left out":     {paperRecipe(t, "", wantsThroughput), checks.PreflightOptions{Skip: []string{"inference-perf"}}, true},
		"one":                      {paperRecipe(t, "", wantsThroughput), checks.PreflightOptions{}, false},
		"one of the phase":         {paperRecipe(t, "", wantsThroughput), checks.PreflightOptions{Phases: []string{"performance"}}, false},
		"one left beside a skip":   {wholePaper(t), checks.PreflightOptions{Skip: []string{"inference-perf"}}, false},
		"one that is not declared": {wholePaper(t), checks.PreflightOptions{Skip: []string{"gang-scheduling"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := checks.Nothing(c.recipe, c.options); (got != nil) != c.nothing {
				t.Errorf("%v", got)
			}
		})
	}
}

func knobs(pairs ...string) spec.KnobValues {
	return spec.ReadKnobs(func(name string) (string, bool) {
		i := slices.Index(pairs, name)
		if i < 0 {
			return "", false
		}
		return pairs[i+1], true
	}, nil)
}

func TestWhatWouldBeMadeOnTheCluster(t *testing.T) {
	data, err := os.ReadFile("../spec/testdata/snapshot/eks-h100.yaml")
	if err != nil {
		t.Fatal(err)
	}
	claims, err := spec.DecodeSnapshot(data)
	if err != nil {
		t.Fatal(err)
	}
	plain, routed := paperRecipe(t, "dynamo-platform", wantsThroughput), paperRecipe(t, "dynamo-platform",
		"performance: {checks: [inference-perf], constraints: [{name: inference-routing-mode, value: gateway-epp}, {name: inference-model-cache-storage-class, value: fast}]}")
	for name, c := range map[string]struct {
		recipe   *spec.Recipe
		snapshot *spec.Snapshot
		knobs    spec.KnobValues
		kinds    string
		why      string
	}{
		"by claims":   {plain, claims, knobs(), "PersistentVolumeClaim Job ResourceClaimTemplate Queue DynamoGraphDeployment", "a frontend and 8 workers on one node; every worker claims one GPU"},
		"by plugin":   {plain, paperSnapshot(t, gpus), knobs(), "PersistentVolumeClaim Job DynamoGraphDeployment", "a worker a free GPU of one node; every worker asks for one GPU of the device plugin"},
		"no cache":    {plain, claims, knobs(spec.KnobCacheSize, "off"), "ResourceClaimTemplate Queue DynamoGraphDeployment", "8 workers"},
		"with token":  {plain, claims, knobs(spec.KnobToken, "x"), "Secret PersistentVolumeClaim Job ResourceClaimTemplate Queue DynamoGraphDeployment", "HF_TOKEN is set"},
		"gateway-epp": {routed, claims, knobs(), "PersistentVolumeClaim Job ResourceClaimTemplate Queue DynamoGraphDeployment InferencePool HTTPRoute", "100Gi of storage class fast"},
		"a class":     {plain, claims, knobs(spec.KnobCacheClass, "gp2", spec.KnobCacheSize, "50Gi"), "PersistentVolumeClaim Job ResourceClaimTemplate Queue DynamoGraphDeployment", "50Gi of storage class gp2"},
	} {
		t.Run(name, func(t *testing.T) {
			var kinds, why []string
			pulls := map[string]string{"Job aicr-model-cache-populate-<8 hex>": "runtime", "Job aicr-load-<8 hex>": "load", "Job aicr-load-<8 hex>-trial": "load",
				"DynamoGraphDeployment aicr-inference-perf": "runtime", "InferencePool aicr-inference-perf-pool": "picker"}
			for _, o := range checks.ClusterCreates(c.recipe, c.snapshot, c.knobs, checks.Images{Runtime: "runtime", EndpointPicker: "picker", Load: "load"}) {
				if want := pulls[o.Kind+" "+o.Name]; o.Image != want {
					t.Errorf("%s %s pulls %q, want %q", o.Kind, o.Name, o.Image, want)
				}
				kinds, why = append(kinds, o.Kind), append(why, o.Why)
				if o.Why == "" || o.Name == "" || (o.Namespace == "") != slices.Contains([]string{"Namespace", "Queue", "ClusterRole", "ClusterRoleBinding"}, o.Kind) {
					t.Errorf("%+v", o)
				}
			}
			always := "Namespace Lease ConfigMap Namespace Job " + c.kinds + " ServiceAccount Role RoleBinding ClusterRole ClusterRoleBinding Job"
			if got := strings.Join(kinds, " "); got != always {
				t.Errorf("%s\nwant %s", got, always)
			}
			if got := strings.Join(why, "\n"); !strings.Contains(got, c.why) {
				t.Errorf("%s\nwant %s", got, c.why)
			}
		})
	}
}

// The published sum is 53 minutes, of which 15 are the load.
func TestTheWorstTimeBeforeTheLoadIsThePublishedOne(t *testing.T) {
	sum := func(k spec.KnobValues) (all time.Duration) {
		for _, w := range checks.ClusterWaits(k) {
			all += w.Most
		}
		return all
	}
	for want, k := range map[time.Duration]spec.KnobValues{
		38 * time.Minute: knobs(), 25 * time.Minute: knobs(spec.KnobCacheSize, "off"),
		48 * time.Minute: knobs(spec.KnobReadyTimeout, "20m"), 40 * time.Minute: knobs(spec.KnobPopulateTimeout, "15m"), 39 * time.Minute: knobs(spec.KnobHealthTimeout, "6m"),
	} {
		if got := sum(k); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestThePlanSaysOfEachCheckWhetherItRuns(t *testing.T) {
	r := wholePaper(t)
	r.Origins = map[string]spec.Origin{"performance/inference-perf": {Overlay: "top", File: "top.yaml"}}
	s := paperSnapshot(t, operator, crdAbsent, gpus)
	said := func(all []spec.PlannedCheck) (lines []string) {
		for _, c := range all {
			lines = append(lines, fmt.Sprintf("%s/%s %t %s (%s, %.0f s)", c.Phase, c.Name, c.Runs, c.Why, c.From, c.TimeoutS))
		}
		return lines
	}
	unasked := func(at string, s int) string {
		return fmt.Sprintf("%s false the recipe does not ask for it (, %d s)", at, s)
	}
	want := []string{
		"deployment/gpu-operator-version false Deployment.gpu-operator.version is v25.10.0, wanted >= v26.1.0 (paper, 120 s)",
		unasked("deployment/check-nvidia-smi", 600), unasked("deployment/gke-gpu-nic-networks", 120),
		unasked("conformance/dra-support", 300), unasked("conformance/gang-scheduling", 600),
		"conformance/platform-health false this version of aicr cannot run it on a cluster (paper, 300 s)",
		"performance/inference-perf false the resource dynamographdeployments.nvidia.com is not there, and the recipe wants it (top top.yaml, 3900 s)",
		unasked("performance/nccl-all-reduce-bw", 1800),
	}
	if diff := cmp.Diff(want, said(checks.PlannedChecks(r, s, paperCatalog(), checks.PreflightOptions{}))); diff != "" {
		t.Errorf("on a cluster (-want +got):\n%s", diff)
	}
	want[0] = "deployment/gpu-operator-version false left out by --phase (paper, 120 s)"
	want[5] = "conformance/platform-health false left out by --skip-check (paper, 300 s)"
	if diff := cmp.Diff(want, said(checks.PlannedChecks(r, s, paperCatalog(), checks.PreflightOptions{Phases: []string{"conformance", "performance"}, Skip: []string{"platform-health"}}))); diff != "" {
		t.Errorf("some of them (-want +got):\n%s", diff)
	}
	s = paperSnapshot(t, operator, crdServed, gpus)
	fast := said(checks.PlannedChecks(r, s, paperCatalog(), checks.PreflightOptions{FailFast: true}))
	for i, name := range map[int]string{5: "conformance/platform-health", 6: "performance/inference-perf"} {
		if !strings.HasPrefix(fast[i], name+" false --fail-fast: the phase deployment did not hold") {
			t.Errorf("with --fail-fast: %s", fast[i])
		}
	}
	want[0] = "deployment/gpu-operator-version false it needs a cluster; this run loads an endpoint (paper, 120 s)"
	want[5] = "conformance/platform-health false it needs a cluster; this run loads an endpoint (paper, 300 s)"
	want[6] = "performance/inference-perf true it is what the target is loaded for (top top.yaml, 3900 s)"
	if diff := cmp.Diff(want, said(checks.EndpointChecks(r, paperCatalog(), checks.PreflightOptions{}))); diff != "" {
		t.Errorf("of an endpoint (-want +got):\n%s", diff)
	}
}

func TestASkewFailsTheBenchmarkAndNothingElse(t *testing.T) {
	const why = "version skew: runtime 0.9.0 does not go with chart 1.0.2"
	state := func(skew string) map[string]spec.CheckResult {
		all := map[string]spec.CheckResult{}
		for _, phase := range checks.Preflight(wholePaper(t), paperSnapshot(t, operator, crdServed, gpus), paperCatalog(), checks.PreflightOptions{Skew: skew}).Phases {
			for _, c := range phase.Checks {
				all[c.Name] = c
			}
		}
		return all
	}
	sound, skewed := state(""), state(why)
	for name, c := range skewed {
		switch was := sound[name]; {
		case name == spec.InferencePerf && (c.State != spec.Fail || c.Reason != why || was.State != spec.Skip):
			t.Errorf("%s: %s %q, and %s without a skew", name, c.State, c.Reason, was.State)
		case name != spec.InferencePerf && c.State != was.State:
			t.Errorf("%s is %s, and %s without a skew", name, c.State, was.State)
		}
	}
}

// A value that says "none of it" is not there, however it is written.
func TestWhatAFactSaysIsThere(t *testing.T) {
	for value, want := range map[string]spec.State{
		"8": spec.Skip, `"8"`: spec.Skip, "0.5": spec.Skip,
		"0": spec.Fail, "0.0": spec.Fail, "-8": spec.Fail, `"0"`: spec.Fail, "none": spec.Fail, `"No"`: spec.Fail, "false": spec.Fail, `"False"`: spec.Fail, `" "`: spec.Fail,
	} {
		s := paperSnapshot(t, operator, crdServed, "GPU {subtype: hardware, data: {gpu-count: "+value+"}}")
		for _, phase := range checks.Preflight(wholePaper(t), s, paperCatalog(), checks.PreflightOptions{}).Phases {
			for _, c := range phase.Checks {
				if c.Name == spec.InferencePerf && c.State != want {
					t.Errorf("gpu-count %s: %s %s, want %s", value, c.State, c.Reason, want)
				}
			}
		}
	}
}

// Readiness is no phase: a check there would silently never run.
func TestACheckOfReadinessIsAnError(t *testing.T) {
	r := paperRecipe(t, "", "readiness: {checks: [gpu-operator-version, gpu-operator-versoin]}")
	var got []string
	for _, m := range checks.Names(r, paperCatalog(), checks.PreflightOptions{}) {
		got = append(got, m.Hint)
	}
	if diff := cmp.Diff([]string{"write it below validation.deployment.checks", "did you mean gpu-operator-version?"}, got); diff != "" {
		t.Error(diff)
	}
}

// Every check that needs something which a snapshot shows fails where the recipe declares
// it and it is absent.
func TestEachDeclaredCheckFailsWithoutWhatItNeeds(t *testing.T) {
	gone := func(subtype string) string {
		return "K8s {subtype: " + subtype + ", unknown: {'*': {reason: absent}}}"
	}
	s := paperSnapshot(t, gone("gpu-operator"), gone("dcgm-exporter"), gone("dra"), gone("device-classes"), gone("kai-scheduler"), crdAbsent, noGPUs)
	for phase, names := range map[string][]string{
		spec.PhaseDeployment:  {"operator-health", "gpu-operator-version", "check-nvidia-smi"},
		spec.PhaseConformance: {"gpu-operator-health", "accelerator-metrics", "dra-support", "gang-scheduling", "secure-accelerator-access"},
		spec.PhasePerformance: {"inference-perf", "nccl-all-reduce-bw", "nccl-all-reduce-bw-net", "nccl-all-reduce-bw-nvls", "nccl-cre-all-reduce-bw"},
	} {
		for _, name := range names {
			wants := ""
			switch {
			case name == spec.InferencePerf:
				wants = `, constraints: [{name: inference-throughput, value: ">= 1"}]`
			case strings.HasPrefix(name, "nccl-"):
				wants = `, constraints: [{name: ` + name + `, value: ">= 300"}]`
			}
			r := paperRecipe(t, "gpu-operator nvidia-dra-driver-gpu kai-scheduler dynamo-platform", phase+": {checks: ["+name+"]"+wants+"}")
			one := &spec.Catalog{Validators: []spec.CatalogEntry{{Name: name, Phase: phase}}}
			if got := checks.Preflight(r, s, one, checks.PreflightOptions{}); got.Verdict != spec.Fail {
				t.Errorf("%s: %s, %s", name, got.Verdict, got.Reason)
			}
		}
	}
}

// What the recipe does not ask for is no part of the answer, and two are both.
func TestTheAnswerCountsWhatTheRecipeAsksFor(t *testing.T) {
	s := paperSnapshot(t, operator, crdServed, gpus, "K8s {subtype: server, data: {version: v1.34.1}}")
	wants := []spec.RecipeConstraint{{Name: "K8s.server.version", Value: ">= 1.30"}, {Name: "GPU.hardware.gpu-count", Value: "8"}, {Name: "K8s.server.version", Value: "< 2"}}
	recipe := func(ready int, deployment string) *spec.Recipe {
		r := paperRecipe(t, "gpu-operator dynamo-platform", "deployment: {checks: ["+deployment+"], constraints: [{name: Deployment.gpu-operator.version, value: '>= v25.1.0'}]}", wantsThroughput)
		r.Wants = wants[:ready]
		return r
	}
	for want, c := range map[string]struct {
		recipe *spec.Recipe
		skip   []string
		phases []string
	}{
		"on paper: the recipe wants nothing of the cluster itself; 1 of 2 checks passed, 1 needs the cluster": {recipe: recipe(0, "gpu-operator-version")},
		"on paper: the readiness constraint is met; 1 of 3 checks passed, 2 need the cluster":                 {recipe: recipe(1, "gpu-operator-version, check-nvidia-smi")},
		"on paper: both readiness constraints are met; 1 of 2 checks passed, 1 was skipped":                   {recipe: recipe(2, "gpu-operator-version"), skip: []string{"inference-perf"}},
		"on paper: all 3 readiness constraints are met; the check passed":                                     {recipe: recipe(3, "gpu-operator-version"), phases: []string{"deployment"}},
	} {
		p := checks.Preflight(c.recipe, s, paperCatalog(), checks.PreflightOptions{Skip: c.skip, Phases: c.phases})
		if p.Reason != want || p.Verdict != spec.Pass {
			t.Errorf("%s %q, want %q", p.Verdict, p.Reason, want)
		}
	}
}

func TestARecipeForAnotherKindOfClusterIsNoted(t *testing.T) {
	data, err := os.ReadFile("../spec/testdata/snapshot/eks-h100.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := spec.DecodeSnapshot(data)
	if err != nil {
		t.Fatal(err)
	}
	simulated := paperSnapshot(t, "GPU {subtype: hardware, data: {model: Simulated H100, gpu-count: 8}}")
	if c, _, _ := spec.InferCriteria(simulated); c.Accelerator != "sim" {
		t.Fatalf("%+v is no simulator", c)
	}
	for name, c := range map[string]struct {
		recipe   spec.Criteria
		snapshot *spec.Snapshot
		notes    int
	}{
		"the same":          {spec.Criteria{Service: "eks", Accelerator: "h100", OS: "ubuntu"}, s, 0},
		"another GPU":       {spec.Criteria{Service: "eks", Accelerator: "gb200"}, s, 1},
		"another of each":   {spec.Criteria{Service: "gke", Accelerator: "gb200", OS: "cos"}, s, 3},
		"any":               {spec.Criteria{Service: "any", Accelerator: "any", OS: "any"}, s, 0},
		"generic":           {spec.Criteria{Service: "generic"}, s, 0},
		"the simulator's":   {spec.Criteria{Service: "sim", Accelerator: "sim"}, s, 0},
		"on the simulator":  {spec.Criteria{Accelerator: "h100"}, simulated, 0},
		"a word of our own": {spec.Criteria{Service: "ours"}, s, 0},
		"no snapshot":       {spec.Criteria{Accelerator: "gb200"}, nil, 0},
	} {
		r := wholePaper(t)
		r.Criteria = c.recipe
		if got := checks.Preflight(r, c.snapshot, paperCatalog(), checks.PreflightOptions{}).Notes; len(got) != c.notes {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A name that nobody knows is told before, with its place. Whoever did not look for that
// gets no verdict in which the check is missing.
func TestADeclaredCheckThatTheCatalogLacksFails(t *testing.T) {
	for name, phases := range map[string]string{
		"a misspelt one":       "conformance: {checks: [platform-helth]}",
		"one of another phase": "conformance: {checks: [check-nvidia-smi]}",
	} {
		t.Run(name, func(t *testing.T) {
			p := checks.Preflight(paperRecipe(t, "gpu-operator dynamo-platform", phases), paperSnapshot(t, operator, crdServed, gpus), paperCatalog(), checks.PreflightOptions{})
			if p.Verdict != spec.Fail || !strings.Contains(p.Reason, "the catalog has no such check") {
				t.Errorf("%s: %s", p.Verdict, p.Reason)
			}
		})
	}
}
