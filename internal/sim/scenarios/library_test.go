package scenarios_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/sim/scenarios"
	"aicr/internal/spec"
)

func decode(t *testing.T, e scenarios.Entry) *spec.Scenario {
	t.Helper()
	s, err := spec.DecodeScenario(e.Data)
	if err != nil {
		t.Fatalf("%s.yaml:\n%v", e.Name, err)
	}
	return s
}

func TestEveryFileIsInTheLibraryAndEveryNameHasAFile(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(file, ".yaml")
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(files)), slices.Sorted(slices.Values(scenarios.Names()))); diff != "" {
		t.Errorf("files (-), names (+):\n%s", diff)
	}
	var all []string
	for _, e := range scenarios.All() {
		all = append(all, e.Name)
	}
	if diff := cmp.Diff(scenarios.Names(), all); diff != "" {
		t.Errorf("names (-), entries (+):\n%s", diff)
	}
}

func TestEveryScenarioIsWhole(t *testing.T) {
	for _, e := range scenarios.All() {
		s := decode(t, e)
		if e.Title != s.Metadata.Name {
			t.Errorf("%s: the title is %q, the document's name %q", e.Name, e.Title, s.Metadata.Name)
		}
		if s.Expect == nil {
			t.Errorf("%s expects nothing", e.Name)
		}
		if e.Line == "" || strings.HasPrefix(e.Line, "#") || utf8.RuneCountInString(e.Line) > 80 {
			t.Errorf("%s: a line of 1 to 80 characters begins the file, not %q", e.Name, e.Line)
		}
		if !strings.HasPrefix(string(e.Data), "# "+e.Line+"\n") {
			t.Errorf("%s: the first line is not the comment %q", e.Name, e.Line)
		}
	}
}

func TestNoNameMeansTwoScenarios(t *testing.T) {
	means := map[string]string{}
	lines := map[string]string{}
	for _, e := range scenarios.All() {
		for _, name := range []string{e.Name, e.Title} {
			if other, taken := means[name]; taken && other != e.Name {
				t.Errorf("%s is %s and %s", name, other, e.Name)
			}
			means[name] = e.Name
		}
		if other, taken := lines[e.Line]; taken {
			t.Errorf("%s and %s have the same line", other, e.Name)
		}
		lines[e.Line] = e.Name
	}
}

func TestFindTakesANameOrATitle(t *testing.T) {
	for _, want := range scenarios.All() {
		for _, name := range []string{want.Name, want.Title} {
			got, ok := scenarios.Find(name)
			if !ok {
				t.Errorf("%s is not found", name)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	for _, name := range []string{"", "s0", "s20", "S1", "s1.yaml", "../s1", "doc.go"} {
		if e, ok := scenarios.Find(name); ok {
			t.Errorf("%q is found as %s", name, e.Name)
		}
	}
}

func TestNearIsWhatWasMeant(t *testing.T) {
	for written, want := range map[string]string{
		"helthy":      "healthy",
		"Small":       "small",
		"S4":          "s4",
		"s111":        "s11",
		"smal":        "small",
		"smallstall":  "small-stall",
		"s20":         "s2",
		"slow-wroker": "slow-worker",
		"slowworker":  "slow-worker",
		"blackhole":   "black-hole",
		"":            "",
		"x":           "",
		"my-own.yaml": "",
		"recipe":      "",
	} {
		if got := scenarios.Near(written); got != want {
			t.Errorf("%q is near %q, want %q", written, got, want)
		}
	}
	for _, name := range scenarios.Names() {
		if got := scenarios.Near(name); got != name {
			t.Errorf("%q is nearest to %q", name, got)
		}
	}
}

func TestEveryKindOfFaultHasAScenario(t *testing.T) {
	used := map[spec.FaultKind]bool{}
	for _, e := range scenarios.All() {
		for _, f := range decode(t, e).Faults {
			used[f.Kind] = true
		}
	}
	for _, kind := range spec.FaultKinds() {
		if !used[kind.Kind] {
			t.Errorf("no scenario has %s", kind.Kind)
		}
	}
}

func TestEveryIncidentNamesItsSource(t *testing.T) {
	source := regexp.MustCompile(`(?m)^# Source: [\w./-]+#\d+`)
	incident := regexp.MustCompile(`^i\d+$`)
	seen := 0
	for _, e := range scenarios.All() {
		if !incident.MatchString(e.Name) {
			continue
		}
		seen++
		if !source.Match(e.Data) {
			t.Errorf("%s names no repository and number", e.Name)
		}
	}
	if seen == 0 {
		t.Error("there are no incidents")
	}
}

func seconds(s float64) *spec.Duration { return new(spec.Duration(s * float64(time.Second))) }

func on(workers ...int) *spec.Workers { return &spec.Workers{List: workers} }

func expect(verdict spec.State, ledger, finding string, workers ...int) *spec.Expectation {
	return &spec.Expectation{Verdict: []spec.State{verdict}, Ledger: ledger, Finding: finding, Workers: workers}
}

// The table is that of the oracle: what is not said is as by default.
func TestTheOracleIsPlayedAsItIsWritten(t *testing.T) {
	anyWorker, everyWorker := &spec.Workers{Any: true}, &spec.Workers{All: true}
	stall := func(on *spec.Workers) spec.Fault {
		return spec.Fault{Kind: spec.WorkerStall, Workers: on, Factor: new(40.0)}
	}
	often := func(f spec.Fault, perMinute, lasts, spread float64) spec.Fault {
		f.PerMinute, f.Lasts, f.Spread = &perMinute, seconds(lasts), &spread
		return f
	}
	freeze := spec.Fault{Kind: spec.FrontendFreeze}
	oracle := []struct {
		title, profile string
		differs        func(s *spec.Scenario)
		expect         *spec.Expectation
		faults         []spec.Fault
	}{
		1: {title: "healthy", expect: expect(spec.Pass, "", "")},
		2: {title: "healthy-gke", profile: "h100-gke", expect: expect(spec.Pass, "", ""),
			differs: func(s *spec.Scenario) { s.Reference.Throughput = 69900 }},
		3: {title: "past-the-knee",
			differs: func(s *spec.Scenario) {
				s.Load.ConcurrencyPerGPU, s.Load.Ramp, s.Fleet.Router = 256, 0, "round-robin"
			},
			expect: &spec.Expectation{Verdict: []spec.State{spec.Pass, spec.Invalid, spec.Inconclusive}, Finding: "load/past-knee"}},
		4: {title: "one-worker-stall", expect: expect(spec.Pass, "", "worker/stall", 4),
			faults: []spec.Fault{{Kind: spec.WorkerStall, Workers: on(4), Factor: new(40.0),
				At: seconds(20), Lasts: seconds(8), Episodes: []int{2}}}},
		5: {title: "stalls-and-freezes", expect: expect(spec.Fail, "stability", ""),
			differs: func(s *spec.Scenario) { s.Fleet.Router = "round-robin" },
			faults:  []spec.Fault{often(stall(anyWorker), 0.675, 8, 0.5), often(freeze, 0.675, 8, 0.5)}},
		6: {title: "stalls-on-any-worker", expect: expect(spec.Fail, "stability", "worker/stall"),
			faults: []spec.Fault{often(stall(anyWorker), 1.35, 8, 0.5)}},
		7: {title: "frontend-freezes", expect: expect(spec.Fail, "stability", "fleet/stall"),
			faults: []spec.Fault{often(freeze, 3, 5, 0)}},
		8: {title: "under-driven-client", expect: expect(spec.Invalid, "", "client/under-driven"),
			differs: func(s *spec.Scenario) { s.Load.ConcurrencyPerGPU, s.Load.SendsPerSecond = 256, 370 }},
		9: {title: "prefix-affinity", expect: expect(spec.Invalid, "", "load/prefix-affinity"),
			differs: func(s *spec.Scenario) { s.Fleet.Router, s.Fleet.KVCredit, s.Load.Prompts = "kv", 160, 1 }},
		10: {title: "cold-start", expect: expect(spec.Pass, "", "start/cold"),
			faults: []spec.Fault{{Kind: spec.ColdStart, Takes: seconds(42)}}},
		11: {title: "discovery-panic", expect: expect(spec.Fail, "", "config/discovery-panic"),
			faults: []spec.Fault{{Kind: spec.DiscoveryPanic, Panics: new(24), BucketMissing: new(97), Runtime: "0.9.0", Chart: "1.0.2"}}},
		12: {title: "zero-tokens", faults: []spec.Fault{{Kind: spec.ZeroTokens, Share: new(1.0)}},
			expect: &spec.Expectation{Verdict: []spec.State{spec.Invalid, spec.Fail}, Finding: "serving/no-tokens"}},
		13: {title: "missing-workers", expect: expect(spec.Fail, "integrity", "worker/absent", 5, 6, 7),
			faults: []spec.Fault{{Kind: spec.WorkerMissing, Workers: on(5, 6, 7)}}},
		14: {title: "slow-worker", expect: expect(spec.Fail, "capability", "worker/slow", 3),
			faults: []spec.Fault{{Kind: spec.WorkerSlow, Workers: on(3), Factor: new(2.0)}}},
		15: {title: "thermal-throttle", expect: expect(spec.Fail, "integrity", "gpu/throttle"),
			faults: []spec.Fault{{Kind: spec.WorkerSlow, Workers: everyWorker, Factor: new(1.6)},
				{Kind: spec.GPUThrottle, Workers: everyWorker, Reason: "hw_thermal", Share: new(0.3)}}},
		16: {title: "slow-host", expect: expect(spec.Fail, "capability", "fleet/slow-host"),
			faults: []spec.Fault{{Kind: spec.HostSlow, Factor: new(3.5)}}},
		17: {title: "no-free-gpus", expect: expect(spec.Skip, "", "cluster/no-free-gpus"),
			faults: []spec.Fault{{Kind: spec.GPUsClaimed}}},
		18: {title: "gpu-error", expect: expect(spec.Fail, "integrity", "gpu/error", 6),
			faults: []spec.Fault{{Kind: spec.GPUError, Workers: on(6), XID: new(48), DoubleBit: new(1)}}},
		19: {title: "stalls-on-one-worker", expect: expect(spec.Fail, "", "worker/stall", 5),
			faults: []spec.Fault{often(stall(on(5)), 0.8, 9, 0)}},
	}
	names := scenarios.Names()[:19]
	for n, c := range oracle[1:] {
		if c.profile == "" {
			c.profile = "h100-eks"
		}
		want, ok := spec.NewScenario(c.title, c.profile)
		if !ok {
			t.Fatalf("no profile %s", c.profile)
		}
		if c.differs != nil {
			c.differs(want)
		}
		want.Expect, want.Faults = c.expect, append([]spec.Fault{}, c.faults...)
		e, ok := scenarios.Find(names[n])
		if !ok {
			t.Fatalf("no %s", names[n])
		}
		if diff := cmp.Diff(want, decode(t, e)); diff != "" {
			t.Errorf("%s (-oracle +file):\n%s", e.Name, diff)
		}
	}
}

func TestTheSmallFleetIsTheOneThatWasAskedFor(t *testing.T) {
	want, _ := spec.NewScenario("small", "small")
	want.Fleet.Workers = 2
	want.Load = spec.Load{ConcurrencyPerGPU: 4, Ramp: *seconds(1), Episode: *seconds(20), InputTokens: 64, OutputTokens: 64}
	want.Faults, want.Expect = []spec.Fault{}, expect(spec.Pass, "", "")
	small, _ := scenarios.Find("small")
	if diff := cmp.Diff(want, decode(t, small)); diff != "" {
		t.Errorf("small (-want +file):\n%s", diff)
	}
	stall, _ := scenarios.Find("small-stall")
	got := decode(t, stall)
	got.Metadata, got.Faults, got.Expect = want.Metadata, want.Faults, want.Expect
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("small-stall is another fleet or load (-small +small-stall):\n%s", diff)
	}
}
