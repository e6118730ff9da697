package spec_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"aicr/internal/spec"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func somePlan(t testing.TB) *spec.Plan {
	t.Helper()
	thresholds, ok := spec.DefaultThresholds(spec.ProfileStandard)
	if !ok {
		t.Fatal("no standard profile")
	}
	scenario, ok := spec.NewScenario("healthy", "small")
	if !ok {
		t.Fatal("no small fleet")
	}
	scenario.Faults = []spec.Fault{{Kind: spec.WorkerWedge, Workers: &spec.Workers{List: []int{1}}, Running: "zero"}}
	return &spec.Plan{
		Schema: spec.PlanSchema, Profile: spec.ProfileStandard,
		Point: spec.OperatingPoint{Workers: 8, Concurrency: 1024, RampS: 2, DurationS: 50, InputTokens: 128, OutputTokens: 128,
			Prompts: "unique", SentinelRate: 10, Router: "least-loaded", RequestTimeout: 600},
		Reference:   &spec.ReferenceFigure{Throughput: 70139.44532622363, Dispersion: 0.05, N: 20, From: "recipe h100-eks"},
		Constraints: []spec.Constraint{{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: 50000, Unit: "tokens/s", Tolerance: 0.1, From: "recipe"}},
		Thresholds:  thresholds, Stability: spec.StabilityGate, NoFreeGPUs: spec.NoFreeGPUsFail,
		Half: &spec.HalfLook{Concurrency: 512, DurationS: 15}, Seed: math.MaxUint64,
		PriorMinutes: 12.5, Prior: []spec.PriorStall{{GPU: "GPU-1", Worker: "5", Count: 0.5, Last: "2026-06-04T12:00:00Z"}},
		Cost:     spec.Cost{ExpectedEpisodes: 5, WorstEpisodes: 11, ExpectedS: 270, WorstS: 600, ExpectedGPUMinutes: 36, WorstGPUMinutes: 80},
		Inputs:   map[string]spec.Input{"profile": {Value: "standard", From: "default"}, "url": {Value: "http://127.0.0.1:1/v1", From: "flag", Place: "--url"}},
		Scenario: scenario,
		Checks: []spec.PlannedCheck{{Name: "inference-perf", Phase: spec.PhasePerformance, Runs: true, Why: "the recipe asks for it", TimeoutS: 3900, From: "recipe h100 h100.yaml"},
			{Name: "dra-support", Phase: spec.PhaseConformance, Why: "the recipe does not ask for it"}},
		Readiness: []spec.Held{{Name: "K8s.server.version", Want: ">= 1.34", Value: "v1.34.1", State: spec.HeldMet},
			{Name: "GPU.hardware.model", Want: "h100", State: spec.HeldError, Reason: "forbidden", Remediation: "ask", From: "recipe h100"}},
		Creates: []spec.PlannedObject{{Kind: "Namespace", Name: "aicr-inference-perf-<8 hex>", Why: "everything is in it"}, {Kind: "Secret", Name: "aicr-hf-token", Namespace: "x", Why: "it is set"}, {Kind: "Job", Name: "aicr-load", Namespace: "x", Image: "registry.example/aicr", Why: "loads it"}},
		Nodes:   []spec.PlannedNode{{Node: "gpu-0", Workers: 8, By: "claim", Cost: spec.Cost{ExpectedEpisodes: 5, WorstEpisodes: 11, ExpectedS: 270, WorstS: 600}}},
		Unused:  []spec.Unused{{Path: "spec.validation.performance.timeout", Line: 7}},
	}
}

func TestAPlanIsReadAsItWasWritten(t *testing.T) {
	minimal := func(p *spec.Plan) {
		p.Reference, p.Half, p.Prior, p.Scenario, p.Constraints = nil, nil, nil, nil, []spec.Constraint{}
		p.Inputs = map[string]spec.Input{}
		p.Checks, p.Readiness, p.Creates, p.Nodes, p.Unused = nil, nil, nil, nil, nil
	}
	for name, change := range map[string]func(*spec.Plan){
		"all of it":       func(*spec.Plan) {},
		"the least":       minimal,
		"a wave by count": func(p *spec.Plan) { p.Point.Requests, p.Point.Wave, p.Point.DurationS = 16384, true, 0 },
		"a longer wave": func(p *spec.Plan) {
			p.Point.Requests, p.Point.Wave, p.Point.WavePerUser, p.Point.DurationS = 16384, true, 3, 0
		},
		"text that looks else": func(p *spec.Plan) { p.Inputs["x"] = spec.Input{Value: "yes", From: "1e3", Place: "2026-06-04"} },
		"text of many lines": func(p *spec.Plan) {
			p.Inputs["many lines"] = spec.Input{Value: " a\n\n b \n", From: "# no: comment", Place: "\u2028\x07"}
		},
		"odd octal text": func(p *spec.Plan) { p.Inputs["y"] = spec.Input{Value: "0o17", From: "~", Place: "!!x"} },
	} {
		t.Run(name, func(t *testing.T) {
			p := somePlan(t)
			change(p)
			data, err := spec.EncodePlan(p)
			if err != nil {
				t.Fatal(err)
			}
			got, err := spec.DecodePlan(data)
			if err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			if diff := cmp.Diff(p, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again, err := spec.EncodePlan(got)
			if err != nil || string(again) != string(data) {
				t.Errorf("%v: other bytes the second time:\n%s", err, cmp.Diff(string(data), string(again)))
			}
		})
	}
}

func TestAnyTextOfAnInputIsReadAsItWasWritten(t *testing.T) {
	p := somePlan(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune(" \n\t:#-'\"{}[]>|&*!%@`~0179eoxn.\r\u2028"))))
		p.Inputs = map[string]spec.Input{"x": {Value: text.Draw(t, "value"), From: text.Draw(t, "from"), Place: text.Draw(t, "place")}}
		data, err := spec.EncodePlan(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := spec.DecodePlan(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p.Inputs, got.Inputs); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestAPlanThatCannotBeReadIsNotWritten(t *testing.T) {
	for name, change := range map[string]func(*spec.Plan){
		"no number":        func(p *spec.Plan) { p.Thresholds.Sigma = math.NaN() },
		"infinite":         func(p *spec.Plan) { p.Cost.WorstS = math.Inf(1) },
		"no schema":        func(p *spec.Plan) { p.Schema = "" },
		"no thresholds":    func(p *spec.Plan) { p.Thresholds = spec.Thresholds{} },
		"no load":          func(p *spec.Plan) { p.Point = spec.OperatingPoint{} },
		"more of no wave":  func(p *spec.Plan) { p.Point.WavePerUser = 3 },
		"less than a wave": func(p *spec.Plan) { p.Point.Wave, p.Point.WavePerUser = true, -1 },
	} {
		t.Run(name, func(t *testing.T) {
			p := somePlan(t)
			change(p)
			if data, err := spec.EncodePlan(p); err == nil {
				t.Errorf("written:\n%s", data)
			}
		})
	}
}

func TestWhatIsWrongWithAPlanIsToldAtOnce(t *testing.T) {
	data, err := spec.EncodePlan(somePlan(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"a field is missing":               {"stability: gate\n", "", "line 1: stability: is missing"},
		"a field has another name":         {"stability:", "stabilty:", "stabilty: unknown field\n    hint: did you mean stability?"},
		"stability is neither":             {"stability: gate", "stability: gated", "stability: \"gated\" is not known here\n    hint: did you mean gate?"},
		"a share of more than all":         {"peerShare: 0.9\n", "peerShare: 1.9\n", "thresholds.peerShare: want more than 0 and at most 1, got 1.9"},
		"bad is better than good":          {"ratioBad: 0.8\n", "ratioBad: 0.95\n", "thresholds.ratioBad: want less than ratioGood, which is 0.92, got 0.95"},
		"a seed below zero":                {"seed: 18446744073709551615", "seed: -1", "seed: want a whole number from 0, got -1"},
		"a seed that is text":              {"seed: 18446744073709551615", "seed: '1'", "seed: want a whole number from 0, got text \"1\""},
		"a constraint of another kind":     {"name: inference-throughput", "name: nccl-all-reduce-bw", `constraints[0].name: "nccl-all-reduce-bw" is not known here`},
		"a constraint that is there twice": {"constraints:\n", "constraints:\n  - {name: inference-throughput, comparator: '>=', threshold: 1, unit: tokens/s, tolerance: 0, from: x}\n", `constraints[1].name: "inference-throughput" is there twice`},
		"a comparator that is not its":     {`comparator: '>='`, `comparator: '<='`, `constraints[0].comparator: "<=" is not known here`},
		"a unit that is not canonical":     {"unit: tokens/s", "unit: tokens/s/GPU", `constraints[0].unit: "tokens/s/GPU" is not known here`},
		"a reference of nothing":           {"throughput: 70139.44532622363", "throughput: 0", "reference.throughput: want more than 0 and at most 1000000000000, got 0"},
		"an input without its source":      {"value: standard\n    from: default", "value: standard", "inputs.profile.from: is missing"},
		"no end of an episode":             {"duration_s: 50", "duration_s: 0", "point.duration_s: an episode that ends neither by time nor by count"},
		"a scenario that is none":          {"router: least-loaded\n    kvCredit", "router: leest-loaded\n    kvCredit", "scenario.fleet.router: \"leest-loaded\" is not known here\n    hint: did you mean least-loaded?"},
		"a check of no phase":              {"phase: performance", "phase: perfomance", "checks[0].phase: \"perfomance\" is not known here\n    hint: did you mean performance?"},
		"a check without its reason":       {"    why: the recipe asks for it\n", "", "checks[0].why: is missing"},
		"a constraint held in no way":      {"state: met\n", "state: meet\n", "readiness[0].state: \"meet\" is not known here"},
		"an object without a name":         {"    name: aicr-hf-token\n", "", "creates[1].name: is missing"},
		"a stall of no time":               {"last: \"2026-06-04T12:00:00Z\"", "last: yesterday", `prior[0].last: "yesterday" is no time`},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(data), c.from) {
				t.Fatalf("no %q in\n%s", c.from, data)
			}
			p, err := spec.DecodePlan([]byte(strings.Replace(string(data), c.from, c.to, 1)))
			if err == nil {
				t.Fatalf("decoded to %+v", p)
			}
			if got := told(t, err); !strings.Contains(got, c.want) || strings.Count(got, "\nline ") > 0 {
				t.Errorf("%s, want %s and nothing else", got, c.want)
			}
		})
	}
	_, err = spec.DecodePlan([]byte("schema: " + spec.PlanSchema + "\nprofile: x\npoint: {}\n"))
	for _, want := range []string{"profile: \"x\"", "point.concurrency: is missing", "thresholds: is missing", "seed: is missing", "cost: is missing", "inputs: is missing"} {
		if !strings.Contains(told(t, err), want) {
			t.Errorf("not told of at once: %s\n%v", want, err)
		}
	}
}

// Every field that a plan has is one that it is read with.
func TestEveryFieldOfAPlanIsReadBack(t *testing.T) {
	p := reflect.ValueOf(somePlan(t)).Elem()
	for i := range p.NumField() {
		if p.Field(i).IsZero() {
			t.Errorf("%s is not in the plan that is written and read", p.Type().Field(i).Name)
		}
	}
}
