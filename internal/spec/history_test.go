package spec_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

func TestADeploymentIsKnownByWhereItIsItsModelAndItsWorkers(t *testing.T) {
	base := spec.NewDeployment(spec.Target{URL: "http://gpu.example:8000/v1", Model: "qwen"}, 8)
	for _, test := range []struct {
		rule string
		of   spec.Deployment
		same bool
	}{
		{"the path is not asked", spec.NewDeployment(spec.Target{URL: "http://gpu.example:8000", Model: "qwen"}, 8), true},
		{"nor the case of the host", spec.NewDeployment(spec.Target{URL: "http://GPU.example:8000/v1", Model: "qwen"}, 8), true},
		{"nor a scheme that was left out", spec.NewDeployment(spec.Target{URL: "gpu.example:8000", Model: "qwen"}, 8), true},
		{"nor the runtime and the GPUs", spec.Deployment{Target: "gpu.example:8000", Model: "qwen", Workers: 8, Runtime: "1.4.1", GPUs: []string{"GPU-1"}}, true},
		{"another host", spec.NewDeployment(spec.Target{URL: "http://gpu2.example:8000/v1", Model: "qwen"}, 8), false},
		{"another port", spec.NewDeployment(spec.Target{URL: "http://gpu.example/v1", Model: "qwen"}, 8), false},
		{"another model", spec.NewDeployment(spec.Target{URL: "http://gpu.example:8000/v1", Model: "qwen2"}, 8), false},
		{"fewer workers", spec.NewDeployment(spec.Target{URL: "http://gpu.example:8000/v1", Model: "qwen"}, 7), false},
		{"a scenario, wherever it is served", spec.NewDeployment(spec.Target{URL: "http://gpu.example:8000/v1", Model: "qwen", Scenario: "small", Simulated: true}, 8), false},
	} {
		if got := test.of.Digest() == base.Digest(); got != test.same {
			t.Errorf("%s: same is %v (%+v)", test.rule, got, test.of)
		}
	}
	if a, b := spec.NewDeployment(spec.Target{URL: "https://h/"}, 1), spec.NewDeployment(spec.Target{URL: "https://h:443"}, 1); a.Digest() != b.Digest() {
		t.Errorf("%+v and %+v are one", a, b)
	}
}

// On a cluster the node is a part of the name. A run for which nothing was free had none,
// and is a line of a history all the same.
func TestADeploymentOnAClusterIsKnownByItsNode(t *testing.T) {
	on := func(context, node string) spec.Deployment {
		return spec.NewDeployment(spec.Target{Context: context, Node: node, Model: "qwen"}, 8)
	}
	for _, test := range []struct {
		of   spec.Deployment
		want string
	}{
		{on("prod", "gpu-0"), "cluster:prod/gpu-0"},
		{on("prod", ""), "cluster:prod/"},
		{on("", "gpu-0"), "cluster:/gpu-0"}, // from inside
		{spec.NewDeployment(spec.Target{Scenario: "small", Simulated: true}, 8), "sim:small"},
	} {
		if test.of.Target != test.want {
			t.Errorf("%q, want %q", test.of.Target, test.want)
		}
		e := spec.HistoryEntry{Schema: spec.HistorySchema, Run: "r", Start: "2026-10-03T08:00:00Z", Digest: test.of.Digest(), Deployment: test.of,
			Profile: spec.ProfileQuick, Verdict: spec.Skip, Capability: spec.NotJudged}
		if _, err := e.Line(); err != nil {
			t.Errorf("%q is no line of a history: %v", test.want, err)
		}
	}
	if on("prod", "gpu-0").Digest() == on("prod", "gpu-1").Digest() {
		t.Error("two nodes are one deployment")
	}
}

func TestNothingOfAURLButItsHostIsKept(t *testing.T) {
	d := spec.NewDeployment(spec.Target{URL: "https://user:hush@gpu.example:8443/v1/hush?key=hush#hush"}, 1)
	if d.Target != "gpu.example:8443" {
		t.Error(d.Target)
	}
}

func entry() spec.HistoryEntry {
	d := spec.Deployment{Target: "gpu.example:8000", Model: "qwen", Workers: 8, Runtime: "1.4.1", GPUs: []string{"GPU-1", "GPU-2"}}
	throughput, reference := 101_200.5, 100_000.0
	return spec.HistoryEntry{Schema: spec.HistorySchema, Run: "run-1", Start: "2026-10-03T08:00:00.5Z", Digest: d.Digest(), Deployment: d,
		Profile: spec.ProfileStandard, Verdict: spec.Fail, Capability: spec.Pass, Reference: &reference, Episodes: 5, LoadedMin: 4.2,
		Point:   spec.OperatingPoint{Workers: 8, Concurrency: 1024, RampS: 2, DurationS: 50, InputTokens: 128, OutputTokens: 128, Prompts: "unique", SentinelRate: 10},
		Figures: []spec.Figure{{Name: spec.ConstraintThroughput, Value: &throughput, N: 50, Unit: "tokens/s", By: "t"}},
		Stalls:  []spec.HistoryStall{{GPU: "GPU-1", Worker: "5", Count: 2}, {Count: 1}}}
}

func lineOf(t testing.TB, e spec.HistoryEntry) string {
	t.Helper()
	line, err := e.Line()
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func TestAHistoryIsReadAsItWasWritten(t *testing.T) {
	first, second := entry(), entry()
	second.Run, second.Verdict, second.Figures, second.Stalls, second.Deployment.GPUs = "run-2", spec.Pass, nil, nil, nil
	h, err := spec.DecodeHistory([]byte(lineOf(t, first) + lineOf(t, second)))
	if err != nil {
		t.Fatal(err)
	}
	second.Figures, second.Stalls = []spec.Figure{}, []spec.HistoryStall{}
	if diff := cmp.Diff(&spec.History{Entries: []spec.HistoryEntry{first, second}}, h); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(lineOf(t, first), `{"schema":"aicr.run/history/v1alpha1"`) {
		t.Error("a torn line is known by its beginning: ", lineOf(t, first))
	}
}

// A crash may cut the last line anywhere. Whatever else is not an entry is a
// mistake, so that no file is ever taken for a history and written to.
func TestALastLineThatWasCutShortIsLeftOutAndNothingElse(t *testing.T) {
	whole, last := lineOf(t, entry()), lineOf(t, entry())
	for cut := 1; cut < len(last)-1; cut++ {
		h, err := spec.DecodeHistory([]byte(whole + last[:cut]))
		if err != nil || len(h.Entries) != 1 || h.Torn != cut {
			t.Fatalf("cut after %d bytes: %+v, %v", cut, h, err)
		}
	}
	if h, err := spec.DecodeHistory([]byte(whole + last[:len(last)-1])); err != nil || len(h.Entries) != 2 || h.Torn != 0 {
		t.Errorf("without its end alone a line is whole: %+v, %v", h, err)
	}
	for rule, text := range map[string]string{
		"a text without an end":      "hello",
		"another document":           `{"schema":"aicr.run/bench`,
		"half a line in the middle":  last[:40] + "\n" + whole,
		"half a line that has ended": whole + last[:40] + "\n",
		"an empty line":              "\n" + whole,
		"zeros":                      whole + "\x00\x00",
		"whole, with one field wrong": strings.TrimSuffix(strings.Replace(whole,
			`"verdict":"FAIL"`, `"verdict":"OK"`, 1), "\n"),
	} {
		if h, err := spec.DecodeHistory([]byte(text)); err == nil {
			t.Errorf("%s is a history: %+v", rule, h)
		}
	}
}

func TestEveryMistakeOfAHistoryIsToldWithItsLine(t *testing.T) {
	good := lineOf(t, entry())
	change := func(pairs ...string) string {
		line := strings.NewReplacer(pairs...).Replace(good)
		if line == good {
			t.Fatalf("nothing to change: %q", pairs)
		}
		return line
	}
	for _, test := range []struct{ rule, line, want string }{
		{"an unknown schema", change("v1alpha1", "v9"), `line 2: schema: "aicr.run/history/v9" is not known here`},
		{"an unknown field, and what was meant", change(`"profile"`, `"profil"`), "line 2: profil: unknown field\n    hint: did you mean profile?"},
		{"a field that is missing", change(`"loadedMinutes":4.2,`, ""), "line 2: loadedMinutes: is missing"},
		{"a field twice", change(`"run":"run-1"`, `"run":"run-1","run":"run-1"`), "line 2: run: written twice"},
		{"a verdict that there is not", change(`"FAIL"`, `"GOOD"`), `line 2: verdict: "GOOD" is not known here`},
		{"no time", change("2026-10-03T08:00:00.5Z", "yesterday"), `line 2: start: "yesterday" is no time`},
		{"a digest of something else", change(`"model":"qwen"`, `"model":"llama"`), "line 2: digest: is not that of the deployment beside it\n    hint: write sha256:"},
		{"negative time", change(`"loadedMinutes":4.2`, `"loadedMinutes":-1`), "line 2: loadedMinutes: -1 is negative"},
		{"no stall", change(`"count":2`, `"count":0`), "line 2: stalls[0].count: want at least 1, got 0"},
		{"text for a number", change(`"value":101200.5`, `"value":"much"`), "line 2: figures"},
		{"a figure of nothing", change(spec.ConstraintThroughput, ""), "line 2: figures[0]: a figure without a name"},
		{"no run", change(`"run":"run-1"`, `"run":""`), "line 2: run: is empty"},
		{"no target", change(`"target":"gpu.example:8000"`, `"target":""`), "line 2: deployment.target: is empty"},
		{"not JSON", "hello\n", "line 2: not JSON"},
		{"a number too large", change("4.2", "1e999"), "line 2: loadedMinutes"},
		{"a line too long", change("run-1", strings.Repeat("r", spec.MaxHistoryLine)), "line 2: a line of more than 64 KiB"},
	} {
		_, err := spec.DecodeHistory([]byte(good + test.line + good))
		if err == nil {
			t.Errorf("%s: no mistake", test.rule)
			continue
		}
		if got := told(t, err); !strings.Contains(got, test.want) {
			t.Errorf("%s: want %q, got:\n%s", test.rule, test.want, got)
		}
	}
	_, err := spec.DecodeHistory([]byte("x\n" + good + "y\n" + change(`"FAIL"`, `"GOOD"`, `"count":2`, `"count":-2`)))
	if got := told(t, err); strings.Count(got, "line") != 4 || !strings.Contains(got, "line 3") || !strings.Contains(got, "line 4: stalls[0].count") {
		t.Errorf("not all at once:\n%s", got)
	}
	if _, err := spec.DecodeHistory(bytes.Repeat([]byte("x\n"), 5000)); strings.Count(told(t, err), "\n") > 1001 {
		t.Error("a file that is no history is told about line by line")
	}
}

func TestWhatCouldNotBeReadAgainIsNotWritten(t *testing.T) {
	for rule, spoil := range map[string]func(*spec.HistoryEntry){
		"no number":            func(e *spec.HistoryEntry) { e.LoadedMin = math.NaN() },
		"a line too long":      func(e *spec.HistoryEntry) { e.Run = strings.Repeat("r", spec.MaxHistoryLine) },
		"no start":             func(e *spec.HistoryEntry) { e.Start = "" },
		"no verdict":           func(e *spec.HistoryEntry) { e.Verdict = "" },
		"no deployment":        func(e *spec.HistoryEntry) { e.Deployment = spec.Deployment{}; e.Digest = e.Deployment.Digest() },
		"a digest of another":  func(e *spec.HistoryEntry) { e.Deployment.Workers++ },
		"an impossible amount": func(e *spec.HistoryEntry) { e.Stalls[0].Count = -1 },
	} {
		e := entry()
		spoil(&e)
		if line, err := e.Line(); err == nil {
			t.Errorf("%s: %s", rule, line)
		}
	}
}

func FuzzHistory(f *testing.F) {
	line := lineOf(f, entry())
	f.Add([]byte(line + line))
	f.Add([]byte(line + line[:100]))
	f.Add([]byte(strings.Replace(line, `"workers":8`, `"workers":-8`, 1)))
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := spec.DecodeHistory(data)
		if err != nil {
			told(t, err)
			return
		}
		if h.Torn > len(data) || h.Torn > 0 && bytes.Contains(data[len(data)-h.Torn:], []byte{'\n'}) {
			t.Fatalf("%d of %d bytes are torn", h.Torn, len(data))
		}
		var again []byte
		for _, e := range h.Entries {
			again = append(again, lineOf(t, e)...)
		}
		second, err := spec.DecodeHistory(again)
		if err != nil {
			t.Fatalf("%s\n%v", again, err)
		}
		h.Torn = 0
		if diff := cmp.Diff(h, second); diff != "" {
			t.Fatalf("(-first +second):\n%s", diff)
		}
	})
}
