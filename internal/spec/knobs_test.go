package spec_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aicr/internal/spec"
)

// inShell is an environment of these variables.
func inShell(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func catalogWith(pairs ...string) *spec.Catalog {
	e := spec.CatalogEntry{Name: spec.InferencePerf, Phase: spec.PhasePerformance}
	for i := 0; i < len(pairs); i += 2 {
		e.Env = append(e.Env, spec.EnvVar{Name: pairs[i], Value: pairs[i+1]})
	}
	return &spec.Catalog{Validators: []spec.CatalogEntry{{Name: "other", Env: []spec.EnvVar{{Name: spec.KnobModel, Value: "of another check"}}}, e}}
}

func knob(t *testing.T, all spec.KnobValues, name string) spec.KnobValue {
	t.Helper()
	i := slices.IndexFunc(all, func(v spec.KnobValue) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("no %s", name)
	}
	return all[i]
}

func TestEveryPublishedKnobIsThereWithItsDefault(t *testing.T) {
	const prefix = "AICR_INFERENCE_PERF_"
	want := map[string]string{ // as published; those of this product's own operating point begin with its value
		prefix + "CONCURRENCY_PER_GPU": "128, with profile classic 256", prefix + "WARMUP_PER_CONCURRENCY": "1", prefix + "MIN_REQUESTS": "1000",
		prefix + "REQUESTS_PER_CONCURRENCY": "8", prefix + "INPUT_TOKENS_MEAN": "128", prefix + "OUTPUT_TOKENS_MEAN": "128",
		prefix + "MODEL": "Qwen/Qwen3-8B; of a URL the only one that is served", prefix + "ROUTER_MODE": "least-loaded",
		prefix + "WORKLOAD_READY_TIMEOUT": "10m", prefix + "HEALTH_TIMEOUT": "5m", prefix + "MODEL_CACHE_SIZE": "100Gi",
		prefix + "MODEL_CACHE_STORAGE_CLASS": "the cluster's own", prefix + "MODEL_CACHE_POPULATE_TIMEOUT": "13m",
		prefix + "MODEL_CACHE_EXTRA_COMPATIBLE_TYPES": "", prefix + "WORKER_RESOURCES": "", prefix + "FRONTEND_RESOURCES": "", prefix + "JOB_RESOURCES": "", prefix + "LOAD_RESOURCES": "", prefix + "NO_CLEANUP": "false",
		"AICR_VALIDATOR_IMAGE_REGISTRY": "", "AICR_VALIDATOR_IMAGE_TAG": "this program's release", "HF_TOKEN": "",
	}
	all := spec.ReadKnobs(inShell(), nil)
	if len(all) != len(want) {
		t.Errorf("%d knobs, want %d", len(all), len(want))
	}
	for name, value := range want {
		if v := knob(t, all, name); v.Value != value || v.From != spec.KnobFromDefault || v.Wrong != "" || v.Meaning == "" {
			t.Errorf("%s: %+v, want the default %q", name, v, value)
		}
	}
}

func TestAKnobTakesAndRefuses(t *testing.T) {
	good := map[string][]string{
		spec.KnobConcurrency:   {"1", "256", "1000000"},
		spec.KnobRequests:      {"8"},
		spec.KnobRouter:        spec.RouterModes(),
		spec.KnobReadyTimeout:  {"10m", "90s", "1h30m"},
		spec.KnobCacheSize:     {"100Gi", "200G", "1.5Ti", "off", "0", "none", "disabled", "OFF"},
		spec.KnobCacheClass:    {"gp3", "standard-rwo"},
		spec.KnobNoCleanup:     {"1", "true", "0", "false"},
		spec.KnobRegistry:      {"registry.example.com", "localhost:5001", "localhost:65535", "registry.example.com:5000/mirror/nvidia", "localhost/x", "mirror.example/gpu/"},
		spec.KnobTag:           {"v1.2.3", "sha-abcdef0"},
		spec.KnobToken:         {"a-token"},
		spec.KnobCacheTypes:    {"pd-ssd,hyperdisk-balanced"},
		spec.KnobModel:         {"Qwen/Qwen3-8B"},
		spec.KnobHealthTimeout: {"5m"},

		spec.KnobWorkerResources: {"cpu=4", "cpu=4,memory=16Gi", "requests.cpu=500m,limits.cpu=1.5", " cpu=1, memory=1e9", "ephemeral-storage=10Gi"},
	}
	for _, name := range spec.ResourceKnobs() {
		good[name] = good[spec.KnobWorkerResources]
	}
	bad := map[string][]string{
		spec.KnobConcurrency:   {"0", "-1", "1.5", "12x", "1e3", " 5", "1000001", "many", "+5", "007"},
		spec.KnobWarmup:        {"0", "none", "+3"},
		spec.KnobMinRequests:   {"0", "1k"},
		spec.KnobRequests:      {"0"},
		spec.KnobInputTokens:   {"0", "128 "},
		spec.KnobOutputTokens:  {"-128"},
		spec.KnobModel:         {"two words", "a\nb"},
		spec.KnobRouter:        {"direct", "leastloaded", "KV", "round_robin"},
		spec.KnobReadyTimeout:  {"10", "0s", "-5m", "ten minutes", "25h"},
		spec.KnobHealthTimeout: {"5 m"},
		spec.KnobCacheSize:     {"100GB", "0Gi", "-1Gi", "big", "no", "1 Gi"},
		spec.KnobCacheClass:    {"GP3", "a b", "-x"},
		spec.KnobNoCleanup:     {"yes", "keep"},
		spec.KnobRegistry:      {"https://registry.example.com", "a b", "registry.example.com/x:tag", "/x", "mirror", "mirror/gpu", "registry.example.com:99999", "registry.example.com:0/x", "localhost:65536", "user:pw@registry.example.com/x"},
		spec.KnobTag:           {"a/b", "-x", strings.Repeat("x", 129)},
		spec.KnobToken:         {"a token", "token\n"},

		spec.KnobWorkerResources: {"4", "cpu", "cpu=", "cpu=4;memory=16Gi", "cpu=four", "memory=16GB", "memory=-1Gi", "cpu=0", "cpu=0.0", "cpu=4,cpu=5", "cpu=4,limits.cpu=8", "gpu=1",
			"nvidia.com/gpu=1", "limits.nvidia.com/gpu=1", "storage=1Gi", "request.cpu=1", "requests.=1", "cpu=4,", ",", "cpu=1e999", "CPU=4", "cpu==4"},
	}
	for _, name := range spec.ResourceKnobs() {
		bad[name] = bad[spec.KnobWorkerResources]
	}
	for name, values := range good {
		for _, value := range values {
			if v := knob(t, spec.ReadKnobs(inShell(name, value), nil), name); v.Wrong != "" || v.From != spec.KnobFromEnv {
				t.Errorf("%s=%s: %s (%s)", name, value, v.Wrong, v.From)
			}
		}
	}
	for name, values := range bad {
		for _, value := range values {
			all := spec.ReadKnobs(inShell(name, value), nil)
			v := knob(t, all, name)
			if v.Wrong == "" || v.Hint == "" {
				t.Errorf("%s=%q is taken (hint %q)", name, value, v.Hint)
			}
			if _, _, ok := all.Said(name); ok {
				t.Errorf("%s=%q is malformed and said", name, value)
			}
		}
	}
	for _, k := range spec.Knobs() {
		if bad[k.Name] == nil && k.Name != spec.KnobPopulateTimeout && k.Name != spec.KnobCacheTypes {
			t.Errorf("%s: nothing is refused", k.Name)
		}
	}
}

func TestTheHintOfAWordIsTheOneThatWasMeant(t *testing.T) {
	v := knob(t, spec.ReadKnobs(inShell(spec.KnobRouter, "leest-loaded"), nil), spec.KnobRouter)
	if v.Hint != "did you mean least-loaded?" {
		t.Errorf("%q", v.Hint)
	}
	if v := knob(t, spec.ReadKnobs(inShell(spec.KnobReadyTimeout, "10"), nil), spec.KnobReadyTimeout); v.Hint != "write 10s or 10m" {
		t.Errorf("%q", v.Hint)
	}
}

func TestTheShellPrevailsOverTheCatalogAndThatOverTheDefault(t *testing.T) {
	for name, c := range map[string]struct {
		shell   func(string) (string, bool)
		catalog *spec.Catalog
		value   string
		from    string
	}{
		"nobody":            {inShell(), catalogWith(), "8", spec.KnobFromDefault},
		"the catalog":       {inShell(), catalogWith(spec.KnobRequests, "16"), "16", spec.KnobFromCatalog},
		"the shell":         {inShell(spec.KnobRequests, "32"), catalogWith(spec.KnobRequests, "16"), "32", spec.KnobFromEnv},
		"empty is not set":  {inShell(spec.KnobRequests, ""), catalogWith(spec.KnobRequests, "16"), "16", spec.KnobFromCatalog},
		"another check's":   {inShell(), catalogWith(spec.KnobModel, ""), "8", spec.KnobFromDefault},
		"there is no entry": {inShell(), &spec.Catalog{}, "8", spec.KnobFromDefault},
	} {
		t.Run(name, func(t *testing.T) {
			all := spec.ReadKnobs(c.shell, c.catalog)
			if v := knob(t, all, spec.KnobRequests); v.Value != c.value || v.From != c.from || v.Wrong != "" {
				t.Errorf("%+v, want %s from %s", v, c.value, c.from)
			}
			if v := knob(t, all, spec.KnobModel); v.From == spec.KnobFromCatalog {
				t.Errorf("it has the variable of another check: %+v", v)
			}
		})
	}
}

func TestWhatACatalogCannotSetIsSaid(t *testing.T) {
	all := spec.ReadKnobs(inShell(), catalogWith(spec.KnobToken, "SECRET", spec.KnobNoCleanup, "1", "AICR_INFERENCE_PERF_MODLE", "x", "PATH", "/bin"))
	for _, name := range []string{spec.KnobToken, spec.KnobNoCleanup} {
		if v := knob(t, all, name); v.Wrong != "a catalog cannot set it" {
			t.Errorf("%+v", v)
		}
	}
	if v := knob(t, all, "AICR_INFERENCE_PERF_MODLE"); v.Wrong != "no check listens to it" || v.Hint != "did you mean AICR_INFERENCE_PERF_MODEL?" {
		t.Errorf("%+v", v)
	}
	if slices.ContainsFunc(all, func(v spec.KnobValue) bool { return v.Name == "PATH" }) {
		t.Error("a variable that is no knob is listed")
	}
}

func TestASecretIsInNoValue(t *testing.T) {
	for _, token := range []string{"hf_SECRET", "hf_SECRET with a space"} {
		for _, v := range spec.ReadKnobs(inShell(spec.KnobToken, token), catalogWith(spec.KnobToken, token)) {
			if text := v.Value + v.Wrong + v.Hint; strings.Contains(text, "SECRET") || strings.Contains(text, "hf_") {
				t.Errorf("%s: %q", v.Name, text)
			}
		}
	}
}

func TestWhoSignsInToARegistryIsInNoValue(t *testing.T) {
	for _, registry := range []string{"user:SECRET@registry.example/x", "https://user:SECRET@registry.example/x", "user:SEC@RET@registry.example/x", "SECRET@"} {
		v := knob(t, spec.ReadKnobs(inShell(spec.KnobRegistry, registry), nil), spec.KnobRegistry)
		if text := v.Value + v.Wrong + v.Hint; v.Wrong == "" || strings.Contains(text, "SEC") || strings.Contains(text, "RET") || strings.Contains(text, "user:") || !strings.HasPrefix(v.Value, "(hidden)@") {
			t.Errorf("%q: %q", registry, text)
		}
	}
}

func TestACatalogIsHeldAgainstTheKnobsOfItsOwnCheckAlone(t *testing.T) {
	const of = "validators: [{name: %s, phase: performance, env: [{name: AICR_INFERENCE_PERF_MODLE, value: x}, {name: AICR_INFERENCE_PERF_MIN_REQUESTS, value: 1k}, {name: AICR_VALIDATOR_IMAGE_TAG, value: v1}]}]"
	if _, err := spec.DecodeCatalog(fmt.Appendf(nil, of, "another-check")); err != nil {
		t.Error(err)
	}
	_, err := spec.DecodeCatalog(fmt.Appendf(nil, of, spec.InferencePerf))
	if all, _ := errors.AsType[spec.Mistakes](err); len(all) != 3 {
		t.Errorf("%v, want three mistakes", err)
	}
}

func TestACacheIsOffInEveryPublishedWord(t *testing.T) {
	for value, want := range map[string]string{"": "100Gi", "200Gi": "200Gi", "off": "", "0": "", "none": "", "disabled": "", "Off": "", "100GB": ""} {
		if got := spec.ReadKnobs(inShell(spec.KnobCacheSize, value), nil).CacheSize(); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

func TestATimeOfAKnobIsItsDefaultWhereItIsMalformed(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 10 * time.Minute, "90s": 90 * time.Second, "soon": 10 * time.Minute} {
		if got := spec.ReadKnobs(inShell(spec.KnobReadyTimeout, value), nil).Duration(spec.KnobReadyTimeout); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func TestResourcesAreReadOfBothSides(t *testing.T) {
	all := spec.ReadKnobs(inShell(spec.KnobLoadResources, "cpu=4,requests.memory=8Gi,limits.memory=16Gi"), nil)
	got := fmt.Sprint(all.Resources(spec.KnobLoadResources))
	if want := "{map[cpu:4 memory:8Gi] map[cpu:4 memory:16Gi]}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if r := all.Resources(spec.KnobWorkerResources); len(r.Requests)+len(r.Limits) > 0 {
		t.Errorf("what is not set is %v", r)
	}
}
