package spec_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"aicr/internal/spec"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite golden files")

const head = "apiVersion: aicr.run/v1alpha1\nkind: Scenario\nmetadata: {name: test}\n"

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// told writes mistakes as a person would be told them.
func told(t testing.TB, err error) string {
	t.Helper()
	var all spec.Mistakes
	if !errors.As(err, &all) || len(all) == 0 {
		t.Fatalf("%v is no list of mistakes", err)
	}
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintln(&b, m)
		if m.Hint != "" {
			fmt.Fprintf(&b, "    hint: %s\n", m.Hint)
		}
	}
	return b.String()
}

func TestEveryMistakeOfAFileIsToldAtOnceWithItsLine(t *testing.T) {
	badDocuments(t, "", spec.DecodeScenario)
}

func TestMistakesAreInOrderAndEachAnError(t *testing.T) {
	_, err := spec.DecodeScenario(mustRead(t, "testdata/bad/types.yaml"))
	var all spec.Mistakes
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(all, func(a, b spec.Mistake) int { return a.Line - b.Line }) {
		t.Errorf("not in the order of lines:\n%v", err)
	}
	var one spec.Mistake
	if !errors.As(err, &one) || one != all[0] {
		t.Errorf("unwraps to %v, want %v", one, all[0])
	}
	if got := len(strings.Split(err.Error(), "\n")); got != len(all) {
		t.Errorf("%d lines of text for %d mistakes", got, len(all))
	}
}

func decoded(t testing.TB, text string) *spec.Scenario {
	t.Helper()
	s, err := spec.DecodeScenario([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The example is that of the contract, word for word; its numbers are the
// defaults, so a document that says nothing must come to the same.
func TestTheExampleOfTheContractIsTheDefault(t *testing.T) {
	s := decoded(t, string(mustRead(t, "testdata/example.yaml")))
	want := decoded(t, head)
	want.Metadata.Name = "stalls-on-one-worker"
	want.Expect = &spec.Expectation{Verdict: []spec.State{spec.Pass}, Ledger: "stability", Finding: "worker/stall", Workers: []int{5}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsWrittenLiesOverTheProfile(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		change func(*spec.Scenario)
	}{
		"nothing":  {"", func(*spec.Scenario) {}},
		"one time": {"fleet: {profile: small, timing: {host: 7ms}}", func(s *spec.Scenario) { s.Fleet.Timing.Host = spec.Duration(7 * time.Millisecond) }},
		"numbers": {"fleet: {profile: small, workers: 2, kvCredit: 160, router: kv}\nreference: {throughput: 1e5}", func(s *spec.Scenario) {
			s.Fleet.Workers, s.Fleet.KVCredit, s.Fleet.Router, s.Reference.Throughput = 2, 160, "kv", 1e5
		}},
		"zero durations": {"load: {ramp: 0, clientLag: 0s}", func(s *spec.Scenario) { s.Load.Ramp = 0 }},
		"prompts":        {"load: {prompts: 100}", func(s *spec.Scenario) { s.Load.Prompts = 100 }},
		"unique prompts": {"load: {prompts: unique}", func(*spec.Scenario) {}},
		"null sections":  {"load:\nexpect: ~\nfaults:\n# - {kind: dra-stale}\nreference: null", func(*spec.Scenario) {}},
		"an alias":       {"load: {ramp: &r 3s, clientLag: *r}", func(s *spec.Scenario) { s.Load.Ramp, s.Load.ClientLag = seconds(3), seconds(3) }},
		"what is merged is overridden": {"load:\n  <<: [{ramp: 3s, inputTokens: 5}, {ramp: 4s, outputTokens: 6}]\n  inputTokens: 7", func(s *spec.Scenario) {
			s.Load.Ramp, s.Load.InputTokens, s.Load.OutputTokens = seconds(3), 7, 6
		}},
	} {
		t.Run(name, func(t *testing.T) {
			profile := spec.DefaultProfile
			if strings.Contains(c.text, "small") {
				profile = "small"
			}
			want, _ := spec.NewScenario("test", profile)
			want.Faults = []spec.Fault{}
			c.change(want)
			if diff := cmp.Diff(want, decoded(t, head+c.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func seconds(n int) spec.Duration { return spec.Duration(time.Duration(n) * time.Second) }

func TestFaultsGetTheirDefaults(t *testing.T) {
	fleet := decoded(t, head)
	for text, want := range map[string]spec.Fault{
		"{kind: worker-stall, workers: any, at: 10s, lasts: 8s}": {Kind: spec.WorkerStall, Workers: &spec.Workers{Any: true},
			At: new(seconds(10)), Lasts: new(seconds(8)), Factor: new(40.0)},
		"{kind: worker-stall, workers: [4], factor: 20, perMinute: 1.35, lasts: 8s, episodes: [2]}": {Kind: spec.WorkerStall, Workers: &spec.Workers{List: []int{4}},
			PerMinute: new(1.35), Lasts: new(seconds(8)), Factor: new(20.0), Spread: new(0.5), Episodes: []int{2}},
		"{kind: frontend-freeze, perMinute: 3, lasts: 5s, spread: 0}": {Kind: spec.FrontendFreeze, PerMinute: new(3.0), Lasts: new(seconds(5)), Spread: new(0.0)},
		"{kind: worker-wedge, workers: all}":                          {Kind: spec.WorkerWedge, Workers: &spec.Workers{All: true}, Running: "real"},
		"{kind: worker-wedge, workers: any, running: zero}":           {Kind: spec.WorkerWedge, Workers: &spec.Workers{Any: true}, Running: "zero"},
		"{kind: zero-tokens}":                                         {Kind: spec.ZeroTokens, Share: new(1.0)},
		"{kind: zero-tokens, share: 0}":                               {Kind: spec.ZeroTokens, Share: new(0.0)},
		"{kind: gpu-error, workers: [6], remapFailure: true}":         {Kind: spec.GPUError, Workers: &spec.Workers{List: []int{6}}, RemapFailure: new(true)},
		"{kind: worker-missing, workers: all}":                        {Kind: spec.WorkerMissing, Workers: &spec.Workers{All: true}},
		"{kind: discovery-panic, panics: 24, bucketMissing: 0, runtime: 1.3.0, chart: '1.2'}": {Kind: spec.DiscoveryPanic,
			Panics: new(24), BucketMissing: new(0), Runtime: "1.3.0", Chart: "1.2"},
	} {
		t.Run(text, func(t *testing.T) {
			inScenario := decoded(t, head+"faults: ["+text+"]").Faults
			if diff := cmp.Diff([]spec.Fault{want}, inScenario); diff != "" {
				t.Errorf("in a scenario (-want +got):\n%s", diff)
			}
			for form, body := range map[string]string{"a list": "- " + text, "a map": "faults: [" + text + "]"} {
				got, err := spec.DecodeFaults([]byte(body), fleet)
				if diff := cmp.Diff([]spec.Fault{want}, got); diff != "" || err != nil {
					t.Errorf("%s: %v (-want +got):\n%s", form, err, diff)
				}
			}
		})
	}
}

func TestFaultsAloneAreHeldAgainstTheFleet(t *testing.T) {
	fleet := decoded(t, head+"fleet: {workers: 2}\nload: {episode: 20s}")
	for text, want := range map[string]string{
		"[]":                                     "",
		"faults: []":                             "",
		`{"faults": null}`:                       "",
		`[{"kind":"worker-dead","workers":[1]}]`: "",
		`[{"kind":"worker-dead","workers":[2]}]`: "line 1: [0].workers[0]: worker 2 of 2\n    hint: workers are counted from 0, so the last is 1\n",
		"faults:\n- {kind: worker-slow, workers: [7], facter: 2}": "line 2: faults[0].workers[0]: worker 7 of 2\n    hint: workers are counted from 0, so the last is 1\n" +
			"line 2: faults[0].facter: unknown field\n    hint: did you mean factor?\n",
		"- {kind: frontend-freeze, at: 20s, lasts: 1s}": "line 1: [0].at: 20s is not within the episode of 20s\n    hint: at counts from the episode's start\n",
		"":   "line 1: the document is empty\n",
		"{}": "line 1: faults: is missing\n    hint: give a list of faults; [] is none\n",
		"kind: dra-stale": "line 1: kind: unknown field\n    hint: the fields here are faults\n" +
			"line 1: faults: is missing\n    hint: give a list of faults; [] is none\n",
		"none": "line 1: want a map of fields, got text \"none\"\n",
	} {
		t.Run(text, func(t *testing.T) {
			faults, err := spec.DecodeFaults([]byte(text), fleet)
			if want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatalf("decoded to %+v", faults)
			}
			if diff := cmp.Diff(want, told(t, err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDocumentsThatAreMadeToHurtAreRefused(t *testing.T) {
	laughs := "a: &a0 [x, x]\n"
	for i := range 40 {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	merges := "a: &a0 {workers: 1}\n"
	for i := range 40 {
		merges += fmt.Sprintf("a%d: &a%d {<<: [%s]}\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	for name, c := range map[string]struct{ text, want string }{
		"too large":             {head + strings.Repeat("#", spec.MaxDocument), "the document is larger than 1 MiB"},
		"billion laughs":        {head + laughs + "faults: *a40", "faults[0]: want a map of fields, got a list"},
		"billion merges":        {head + merges + "fleet: *a40", "more is merged than is read"},
		"a merge of itself":     {head + "fleet: &f {<<: *f}", "more is merged than is read"},
		"a list of itself":      {head + "faults: &f [*f]", "faults[0]: want a map of fields, got a list"},
		"many aliases":          {head + "x: &f {kind: dra-stale}\nfaults: [" + strings.Repeat("*f,", 1<<17) + "]", "more than 65536 values"},
		"many workers":          {head + "faults: [{kind: worker-dead, workers: [" + strings.Repeat("1,", 1<<17) + "]}]", "more than 65536 values"},
		"many mistakes":         {head + strings.Repeat("x: 1\n", 5000), "more than 1000 mistakes: the rest is not told"},
		"deep brackets":         {strings.Repeat("[", 1<<19), "not YAML"},
		"deep dashes":           {strings.Repeat("- ", 1<<19), "not YAML"},
		"deep maps":             {strings.Repeat("{a: ", 1<<17), "not YAML"},
		"an unknown field deep": {head + "x: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "x: unknown field"},
		"a long word":           {head + strings.Repeat("x", 1000) + ": 1", `"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…": unknown field`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := spec.DecodeScenario([]byte(c.text))
			if err == nil {
				t.Fatal("decoded")
			}
			if text := told(t, err); !strings.Contains(text, c.want) {
				t.Errorf("%.2000s\nwant %q", text, c.want)
			} else if n := strings.Count(text, "\nline "); n > 1001 {
				t.Errorf("%d mistakes", n)
			}
		})
	}
}

func TestAWordIsTakenForTheOneItIsCloseTo(t *testing.T) {
	for written, want := range map[string]string{
		"wrokers": "workers", "worker": "workers", "WORKERS": "workers", "max_sequences": "maxSequences", "kvblocks": "kvBlocks",
		"maxSequence": "maxSequences", "timings": "timing", "rooter": "router", "kv": "", "x": "", "frobnicate": "", "": "",
	} {
		_, err := spec.DecodeScenario([]byte(head + "fleet: {" + strconv.Quote(written) + ": 1}"))
		hint := "did you mean " + want + "?"
		if want == "" {
			hint = "the fields here are workers, gpusPerWorker, prefillWorkers, profile, timing, frontend, maxSequences, maxBatchedTokens, kvBlocks, router, kvCredit"
		}
		if text := told(t, err); !strings.Contains(text, "unknown field\n    hint: "+hint+"\n") {
			t.Errorf("%q: %s, want %q", written, text, hint)
		}
	}
}

// faultKindConstants reads the constants from the source, which is the only
// place that has them all.
func faultKindConstants(t *testing.T) []spec.FaultKind {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "scenario.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []spec.FaultKind
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == "FaultKind" {
			for _, value := range v.Values {
				word, err := strconv.Unquote(value.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				kinds = append(kinds, spec.FaultKind(word))
			}
		}
		return true
	})
	return kinds
}

func TestEveryKindOfFaultIsDescribed(t *testing.T) {
	var described []spec.FaultKind
	taken := map[string]bool{"kind": true, "at": true, "lasts": true, "perMinute": true, "spread": true, "episodes": true}
	for _, k := range spec.FaultKinds() {
		described = append(described, k.Kind)
		if k.Effect == "" || strings.Contains(k.Effect, "\n") {
			t.Errorf("%s: effect %q, want a line", k.Kind, k.Effect)
		}
		for _, field := range k.Requires {
			if !slices.Contains(k.Takes, field) {
				t.Errorf("%s requires %s and does not take it", k.Kind, field)
			}
		}
		if k.AnyWorker && !slices.Contains(k.Takes, "workers") {
			t.Errorf("%s falls on any worker and takes no workers", k.Kind)
		}
		for _, field := range k.Takes {
			taken[field] = true
		}
		if got, ok := spec.FaultKindNamed(k.Kind); !ok || got.Effect != k.Effect {
			t.Errorf("%s is not found by its name", k.Kind)
		}
	}
	if diff := cmp.Diff(faultKindConstants(t), described); diff != "" {
		t.Errorf("constants and descriptions differ (-constants +described):\n%s", diff)
	}
	fields := map[string]bool{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[spec.Fault]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields[name] = true
	}
	if diff := cmp.Diff(fields, taken); diff != "" {
		t.Errorf("fields of a fault and what kinds take differ (-fields +taken):\n%s", diff)
	}
}

func TestMarshalWritesWhatADocumentSays(t *testing.T) {
	for want, value := range map[string]any{
		`"5.6ms"`: spec.Duration(5600 * time.Microsecond), `"33us"`: spec.Duration(33 * time.Microsecond), `"3.2us"`: spec.Duration(3200),
		`"0s"`: spec.Duration(0), `"1m30s"`: seconds(90),
		`"unique"`: spec.Prompts(0), `100`: spec.Prompts(100),
		`"any"`: spec.Workers{Any: true}, `"all"`: &spec.Workers{All: true}, `[3,0]`: spec.Workers{List: []int{3, 0}},
	} {
		got, err := json.Marshal(value)
		if err != nil || string(got) != want {
			t.Errorf("%#v: %s %v, want %s", value, got, err, want)
		}
	}
}

// again encodes a scenario and decodes that.
func again(s *spec.Scenario) (*spec.Scenario, []byte, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, nil, err
	}
	second, err := spec.DecodeScenario(data)
	return second, data, err
}

func TestAScenarioSurvivesJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		first, data, err := again(s)
		if err != nil {
			t.Fatalf("%s\n%v", data, err)
		}
		second, data, err := again(first)
		if err != nil {
			t.Fatalf("%s\n%v", data, err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%s\n(-first +second):\n%s", data, diff)
		}
		first.Faults = s.Faults // their defaults were filled in
		if diff := cmp.Diff(s, first); diff != "" {
			t.Errorf("%s\n(-drawn +decoded):\n%s", data, diff)
		}
	})
}

func drawScenario(t *rapid.T) *spec.Scenario {
	s, _ := spec.NewScenario(rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?`).Draw(t, "name"),
		rapid.SampledFrom(spec.ProfileNames()).Draw(t, "profile"))
	duration := func(name string, least, most time.Duration) spec.Duration {
		return spec.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(t, name))
	}
	s.Fleet.Workers = rapid.IntRange(1, 4096).Draw(t, "workers")
	s.Fleet.GPUsPerWorker = rapid.IntRange(1, min(8, 4096/s.Fleet.Workers)).Draw(t, "gpusPerWorker")
	s.Fleet.PrefillWorkers = rapid.IntRange(0, s.Fleet.Workers-1).Draw(t, "prefillWorkers")
	s.Fleet.Router = rapid.SampledFrom(spec.Routers()).Draw(t, "router")
	s.Fleet.KVCredit = rapid.Float64Range(0, 1e12).Draw(t, "kvCredit")
	s.Fleet.Timing.Base = duration("base", 10*time.Microsecond, time.Hour)
	s.Fleet.Frontend.PerToken = duration("perToken", 0, time.Minute)
	s.Load.Prompts = spec.Prompts(rapid.IntRange(0, 1000).Draw(t, "prompts"))
	s.Load.Episode = duration("episode", 2*time.Second, 24*time.Hour)
	s.Reference.Throughput = rapid.Float64Range(0, 1e6).Draw(t, "throughput")
	for range rapid.IntRange(0, 4).Draw(t, "faults") {
		s.Faults = append(s.Faults, drawFault(t, s))
	}
	if rapid.Bool().Draw(t, "expects") {
		s.Expect = &spec.Expectation{Verdict: []spec.State{rapid.SampledFrom([]spec.State{spec.Pass, spec.Fail, spec.Skip}).Draw(t, "verdict")},
			Finding: rapid.SampledFrom(append(spec.FindingIDs(), "")).Draw(t, "finding")}
	}
	return s
}

// drawFault gives every field that a kind takes, and now and then leaves out one
// that it can do without.
func drawFault(t *rapid.T, s *spec.Scenario) spec.Fault {
	kind := rapid.SampledFrom(spec.FaultKinds()).Draw(t, "kind")
	f := spec.Fault{Kind: kind.Kind}
	for _, field := range kind.Takes {
		if !slices.Contains(kind.Requires, field) && kind.Kind != spec.GPUError && rapid.Bool().Draw(t, "leave out") {
			continue
		}
		switch field {
		case "workers":
			f.Workers = &spec.Workers{List: rapid.SliceOfNDistinct(rapid.IntRange(0, s.Fleet.Workers-1), 1, min(4, s.Fleet.Workers), rapid.ID).Draw(t, "list")}
			if rapid.Bool().Draw(t, "all") {
				f.Workers = &spec.Workers{All: true}
			} else if kind.AnyWorker && rapid.Bool().Draw(t, "any") {
				f.Workers = &spec.Workers{Any: true}
			}
		case "factor":
			f.Factor = new(rapid.Float64Range(0.01, 1e6).Draw(t, field))
		case "running":
			f.Running = rapid.SampledFrom([]string{"real", "zero"}).Draw(t, field)
		case "takes":
			f.Takes = new(seconds(42))
		case "status":
			f.Status = new(rapid.IntRange(400, 599).Draw(t, field))
		case "share":
			f.Share = new(rapid.Float64Range(0, 1).Draw(t, field))
		case "how":
			f.How = rapid.SampledFrom([]string{"reset", "truncated", "error-event"}).Draw(t, field)
		case "gpu":
			f.GPU = new(rapid.IntRange(0, s.Fleet.GPUsPerWorker-1).Draw(t, field))
		case "xid":
			f.XID = new(rapid.IntRange(1, 1000).Draw(t, field))
		case "doubleBit":
			f.DoubleBit = new(1)
		case "remapFailure":
			f.RemapFailure = new(rapid.Bool().Draw(t, field))
		case "reason":
			f.Reason = rapid.SampledFrom([]string{"hw_thermal", "hw_slowdown", "hw_power_brake", "sw_thermal", "power_cap"}).Draw(t, field)
		case "source":
			f.Source = rapid.SampledFrom([]string{"workers", "gpus", "node"}).Draw(t, field)
		case "panics":
			f.Panics = new(rapid.IntRange(0, 50).Draw(t, field))
		case "bucketMissing":
			f.BucketMissing = new(0)
		case "runtime":
			f.Runtime = rapid.StringMatching(`[0-9]\.[0-9]+`).Draw(t, field) // what YAML would take for a number
		case "chart":
			f.Chart = rapid.StringMatching(`[0-9A-Za-z][-0-9A-Za-z._+:/@]{0,127}`).Draw(t, field)
		default:
			t.Fatalf("no value for %s", field)
		}
	}
	window := rapid.IntRange(0, 2).Draw(t, "window")
	if kind.NeedsWindow {
		window = max(window, 1)
	}
	switch window {
	case 1:
		f.At, f.Lasts = new(spec.Duration(time.Second)), new(seconds(8))
	case 2:
		f.PerMinute, f.Lasts = new(rapid.Float64Range(0.01, 100).Draw(t, "perMinute")), new(seconds(8))
	}
	f.Episodes = rapid.SliceOfN(rapid.IntRange(1, 20), 0, 3).Draw(t, "episodes")
	if len(f.Episodes) == 0 {
		f.Episodes = nil
	}
	return f
}

func FuzzScenario(f *testing.F) {
	f.Add(mustRead(f, "testdata/example.yaml"))
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, file := range files {
		f.Add(mustRead(f, file))
	}
	f.Add([]byte(head + "faults: [{kind: worker-stall, workers: any, perMinute: 1, lasts: 8s}, {kind: gpu-error, workers: all, xid: 48}]"))
	fleet, _ := spec.NewScenario("fleet", "small")
	f.Fuzz(func(t *testing.T, data []byte) {
		if faults, err := spec.DecodeFaults(data, fleet); err != nil {
			told(t, err)
		} else {
			body, err := json.Marshal(faults)
			if err != nil {
				t.Fatal(err)
			}
			if faults == nil { // null is an empty document, not an empty list
				body = []byte("[]")
			}
			second, err := spec.DecodeFaults(body, fleet)
			if diff := cmp.Diff(faults, second); diff != "" || err != nil {
				t.Fatalf("%s\n%v (-first +second):\n%s", body, err, diff)
			}
		}
		s, err := spec.DecodeScenario(data)
		if err != nil {
			told(t, err)
			var all spec.Mistakes
			errors.As(err, &all)
			lines := 1
			for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} { // what YAML takes for a line's end
				lines += strings.Count(string(data), end)
			}
			for _, m := range all {
				if m.Line < 1 || m.Line > lines || m.Column < 1 || m.Text == "" {
					t.Fatalf("%+v in a document of %d lines", m, lines)
				}
			}
			return
		}
		second, text, err := again(s)
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		if diff := cmp.Diff(s, second); diff != "" {
			t.Fatalf("%s\n(-first +second):\n%s", text, diff)
		}
	})
}
