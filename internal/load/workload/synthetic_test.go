package workload_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"aicr/internal/load/workload"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// gate is the workload of the pinned gate call, but with unique prompts.
func gate() workload.Spec {
	return workload.Spec{
		Model:        "Qwen/Qwen3-8B",
		InputTokens:  workload.Length{Mean: 128},
		OutputTokens: workload.Length{Mean: 128},
		Seed:         100,
		Count:        8192,
		Fields:       workload.AllFields(),
	}
}

func synthetic(t testing.TB, s workload.Spec) *workload.Workload {
	t.Helper()
	w, err := workload.Synthetic(s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// body is what a test looks at in a request.
type body struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	Prompt    string `json:"prompt"`
	MaxTokens int    `json:"max_tokens"`
	MinTokens int    `json:"min_tokens"`
}

func decode(t testing.TB, raw []byte) body {
	t.Helper()
	var b body
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return b
}

func prompt(t testing.TB, w *workload.Workload, i int64) string {
	t.Helper()
	b := decode(t, w.Body(nil, i))
	if len(b.Messages) == 1 {
		return b.Messages[0].Content
	}
	return b.Prompt
}

func TestBodyIsPinnedByTheSeed(t *testing.T) {
	t.Parallel()
	s := gate()
	s.InputTokens.Mean, s.OutputTokens.Mean, s.Count = 6, 7, 3
	chat := synthetic(t, s)
	s.Endpoint = workload.Completions
	completions := synthetic(t, s)
	for _, tt := range []struct {
		name string
		w    *workload.Workload
		i    int64
		want string
	}{
		{"chat", chat, 0, `{"model":"Qwen/Qwen3-8B","messages":[{"role":"user","content":"then does wood edge call week"}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":7,"min_tokens":7,"ignore_eos":true,"temperature":0,"nvext":{"extra_fields":["worker_id"]}}`},
		{"completions", completions, 2, `{"model":"Qwen/Qwen3-8B","prompt":"draw gray paid read fact bank","stream":true,"stream_options":{"include_usage":true},"max_tokens":7,"min_tokens":7,"ignore_eos":true,"temperature":0,"nvext":{"extra_fields":["worker_id"]}}`},
	} {
		if got := string(tt.w.Body(nil, tt.i)); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// These change only when the rule by which requests are made changes, which
// makes older results not comparable: change the version in seal with them.
func TestHashIsPinned(t *testing.T) {
	t.Parallel()
	spread := gate()
	spread.InputTokens.StdDev, spread.OutputTokens.StdDev = 30, 20
	recycled := gate()
	recycled.Entries = 100
	for _, tt := range []struct {
		name string
		spec workload.Spec
		want string
	}{
		{"unique", gate(), "42979c09184a77e21d8901ff61f943fcf2fbc28cfd89b2a480788f404e79b5ef"},
		{"spread lengths", spread, "06af76f604ec1538d458311a7059ff1e0f2a9fce53e358acfab4a300dc0abcf7"},
		{"recycled", recycled, "e96eef23c6f00d4bdfbf7e1a90d088e3222ac3d279a0c67c0cef3a4e6a6c3676"},
	} {
		if got := synthetic(t, tt.spec).Hash(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestHashChangesWithWhateverIsAsked(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, tt := range []struct {
		name   string
		change func(*workload.Spec)
	}{
		{"nothing", func(*workload.Spec) {}},
		{"seed", func(s *workload.Spec) { s.Seed++ }},
		{"count within the pool", func(s *workload.Spec) { s.Count = 100 }},
		{"count beyond the pool", func(s *workload.Spec) { s.Count++ }},
		{"count open", func(s *workload.Spec) { s.Count = 0 }},
		{"entries", func(s *workload.Spec) { s.Entries = 100 }},
		{"entries beyond the pool", func(s *workload.Spec) { s.Entries = 5000 }},
		{"model", func(s *workload.Spec) { s.Model = "other" }},
		{"endpoint", func(s *workload.Spec) { s.Endpoint = workload.Completions }},
		{"input", func(s *workload.Spec) { s.InputTokens.Mean++ }},
		{"output", func(s *workload.Spec) { s.OutputTokens.Mean++ }},
		{"field", func(s *workload.Spec) { s.Fields.WorkerID = false }},
		{"extra", func(s *workload.Spec) { s.Extra = workload.Extra{{Key: "top_k", Value: []byte("1")}} }},
		{"calibration", func(s *workload.Spec) { s.Calibration.Overhead = 9 }},
	} {
		s := gate()
		tt.change(&s)
		h := synthetic(t, s).Hash()
		if other, ok := seen[h]; ok {
			t.Errorf("changing %s gives the hash of %s", tt.name, other)
		}
		seen[h] = tt.name
		if again := synthetic(t, s).Hash(); again != h {
			t.Errorf("%s: built twice, hashed differently", tt.name)
		}
	}
}

func TestUniquePromptsNeverMeet(t *testing.T) {
	t.Parallel()
	s := gate()
	s.InputTokens.Mean = 12
	w := synthetic(t, s)
	seen := make(map[string]int64)
	for k := range int64(w.Len() + 1000) {
		for _, i := range []int64{k, workload.Warmup(k), workload.Sentinel(k), workload.Probe(k)} {
			opening := prompt(t, w, i)[:8*5-1]
			if other, ok := seen[opening]; ok {
				t.Fatalf("requests %d and %d both open with %q", other, i, opening)
			}
			seen[opening] = i
		}
	}
}

func TestUniquePromptsNeverMeetWhateverIsAsked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := gate()
		s.Count = rapid.Int64Range(1, 200).Draw(rt, "count")
		s.InputTokens.Mean = rapid.IntRange(2, 20).Draw(rt, "mean")
		s.InputTokens.StdDev = rapid.Float64Range(0, 20).Draw(rt, "stddev")
		s.Seed = rapid.Uint64().Draw(rt, "seed")
		w := synthetic(t, s)
		most := min(w.Distinct(), 1<<59)
		draw := func(name string) int64 {
			k := rapid.Int64Range(0, most-1).Draw(rt, name)
			return rapid.SampledFrom([]func(int64) int64{
				func(k int64) int64 { return k }, workload.Warmup, workload.Sentinel, workload.Probe,
			}).Draw(rt, name+" lane")(k)
		}
		i, j := draw("i"), draw("j")
		if (i == j) != (prompt(t, w, i) == prompt(t, w, j)) {
			rt.Fatalf("requests %d and %d: %q and %q", i, j, prompt(t, w, i), prompt(t, w, j))
		}
	})
}

func TestSeedsShareNoPrompt(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for seed := range uint64(20) {
		s := gate()
		s.Seed, s.Count, s.InputTokens.Mean = seed, 100, 16
		w := synthetic(t, s)
		for i := range int64(100) {
			p := prompt(t, w, i)
			if seen[p] {
				t.Fatalf("seed %d repeats %q", seed, p)
			}
			seen[p] = true
		}
	}
}

func TestRecycledPromptsAreExactlySoMany(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 100, 5000} {
		s := gate()
		s.Entries, s.InputTokens.Mean = n, 10
		w := synthetic(t, s)
		if got, ok := w.Recycled(); !ok || int64(got) != n || w.Kind() != fmt.Sprintf("recycled %d", n) || w.Distinct() != n {
			t.Errorf("%d: Recycled %d %v, Kind %q, Distinct %d", n, got, ok, w.Kind(), w.Distinct())
		}
		seen := make(map[string]bool)
		for i := range 2*n + 1 {
			b := w.Body(nil, i)
			seen[string(b)] = true
			if !bytes.Equal(b, w.Body(nil, i+n)) {
				t.Fatalf("%d: request %d does not come again after %d", n, i, n)
			}
			for _, j := range []int64{workload.Warmup(i), workload.Sentinel(i), workload.Probe(i)} {
				if !bytes.Equal(b, w.Body(nil, j)) {
					t.Fatalf("%d: request %d is not from the pool", n, j)
				}
			}
		}
		if int64(len(seen)) != n {
			t.Errorf("%d entries asked, %d found", n, len(seen))
		}
	}
}

func TestMemoryStaysFlat(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		count        int64
		tokens, most int
	}{
		{"ten million", 10_000_000, 128, 4096},
		{"by time", 0, 128, 4096},
		{"few", 10, 128, 10},
		{"long prompts", 10_000_000, 100_000, 16},
		{"one prompt above the pool", 10, 4 << 20, 1},
	} {
		s := gate()
		s.Count, s.InputTokens.Mean = tt.count, tt.tokens
		w := synthetic(t, s)
		if w.Len() != tt.most {
			t.Errorf("%s: %d bodies, want %d", tt.name, w.Len(), tt.most)
		}
		if got := w.Len() * w.MaxBodyLen(); w.Len() > 1 && got > 8<<20 {
			t.Errorf("%s: %d bytes", tt.name, got)
		}
		if _, ok := w.Recycled(); ok || w.Kind() != "unique" {
			t.Errorf("%s: Kind %q", tt.name, w.Kind())
		}
	}
}

func TestBodyHasTheAskedLengths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                string
		in, out             workload.Length
		cal                 workload.Calibration
		words               func(asked int) int
		leastInput, meanTol float64
	}{
		{"exact", workload.Length{Mean: 128}, workload.Length{Mean: 64}, workload.Calibration{}, func(n int) int { return n }, 128, 0},
		{"template", workload.Length{Mean: 128}, workload.Length{Mean: 64}, workload.Calibration{Overhead: 9}, func(n int) int { return n - 9 }, 128, 0},
		{"costly words", workload.Length{Mean: 128}, workload.Length{Mean: 64}, workload.Calibration{Overhead: 8, PerWord: 1.5}, func(n int) int { return int(math.Round(float64(n-8) / 1.5)) }, 128, 0},
		{"spread", workload.Length{Mean: 128, StdDev: 30}, workload.Length{Mean: 64, StdDev: 10}, workload.Calibration{}, func(n int) int { return n }, 2, 2},
		{"spread wide", workload.Length{Mean: 20, StdDev: 30}, workload.Length{Mean: 3, StdDev: 10}, workload.Calibration{Overhead: 4}, func(n int) int { return n - 4 }, 6, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := gate()
			s.InputTokens, s.OutputTokens, s.Calibration = tt.in, tt.out, tt.cal
			w := synthetic(t, s)
			var sum, n float64
			for i := range s.Count {
				raw := w.Body(nil, i)
				b := decode(t, raw)
				in, out := w.Asked(i)
				if got := len(strings.Split(b.Messages[0].Content, " ")); got != tt.words(in) {
					t.Fatalf("request %d asks %d tokens with %d words, want %d", i, in, got, tt.words(in))
				}
				if b.MaxTokens != out || b.MinTokens != out || out < 1 {
					t.Fatalf("request %d asks %d: %d to %d", i, out, b.MinTokens, b.MaxTokens)
				}
				if float64(in) < tt.leastInput {
					t.Fatalf("request %d asks %d, below %v", i, in, tt.leastInput)
				}
				if len(raw) != w.BodyLen(i) || len(raw) > w.MaxBodyLen() {
					t.Fatalf("request %d has %d bytes, said %d, at most %d", i, len(raw), w.BodyLen(i), w.MaxBodyLen())
				}
				sum, n = sum+float64(in), n+1
			}
			if mean := sum / n; math.Abs(mean-float64(tt.in.Mean)) > tt.meanTol {
				t.Errorf("the mean input is %v, want %d", mean, tt.in.Mean)
			}
		})
	}
}

func TestWordsStayWhenOnlyTheOutputChanges(t *testing.T) {
	t.Parallel()
	s := gate()
	a := synthetic(t, s)
	s.OutputTokens = workload.Length{Mean: 50, StdDev: 9}
	b := synthetic(t, s)
	for i := range int64(100) {
		if x, y := prompt(t, a, i), prompt(t, b, i); x != y {
			t.Fatalf("request %d: %q and %q", i, x, y)
		}
	}
}

func TestEachFieldCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	for key, off := range map[string]func(*workload.Fields){
		"stream_options": func(f *workload.Fields) { f.IncludeUsage = false },
		"min_tokens":     func(f *workload.Fields) { f.MinTokens = false },
		"ignore_eos":     func(f *workload.Fields) { f.IgnoreEOS = false },
		"temperature":    func(f *workload.Fields) { f.Temperature0 = false },
		"nvext":          func(f *workload.Fields) { f.WorkerID = false },
	} {
		s := gate()
		all := keys(t, synthetic(t, s).Body(nil, 0))
		off(&s.Fields)
		var want []string
		for _, k := range all {
			if k != key {
				want = append(want, k)
			}
		}
		if diff := cmp.Diff(want, keys(t, synthetic(t, s).Body(nil, 0))); diff != "" {
			t.Errorf("%s switched off (-want +got):\n%s", key, diff)
		}
	}
	s := gate()
	s.Fields = workload.Fields{}
	if diff := cmp.Diff([]string{"model", "messages", "stream", "max_tokens"}, keys(t, synthetic(t, s).Body(nil, 0))); diff != "" {
		t.Errorf("all switched off (-want +got):\n%s", diff)
	}
}

// keys lists the fields of an object in their order.
func keys(t testing.TB, raw []byte) []string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	var all []string
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k.(string))
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestExtraReplacesADefaultWhereItStands(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		extra  []string
		tail   string
		output int
	}{
		{"temperature", []string{"temperature:0.7"}, `"stream":true,"max_tokens":128,"temperature":0.7}`, 128},
		{"new field at the end", []string{"top_k:1"}, `"stream":true,"max_tokens":128,"temperature":0,"top_k":1}`, 128},
		{"max_tokens is then what is asked", []string{"max_tokens:5"}, `"stream":true,"max_tokens":5,"temperature":0}`, 5},
		{"max_completion_tokens takes the place of max_tokens", []string{"max_completion_tokens:5"}, `"stream":true,"temperature":0,"max_completion_tokens":5}`, 5},
		{"stream said again", []string{"stream:true"}, `"stream":true,"max_tokens":128,"temperature":0}`, 128},
	} {
		s := gate()
		s.Fields = workload.Fields{Temperature0: true}
		x, err := workload.ParseExtra(tt.extra)
		if err != nil {
			t.Fatal(err)
		}
		s.Extra = x
		w := synthetic(t, s)
		if got := string(w.Body(nil, 1)); !strings.HasSuffix(got, `"}],`+tt.tail) {
			t.Errorf("%s: %s, want …%s", tt.name, got, tt.tail)
		}
		if _, out := w.Asked(1); out != tt.output {
			t.Errorf("%s: asks %d, want %d", tt.name, out, tt.output)
		}
	}
	s := gate()
	s.Extra = workload.Extra{{Key: "max_tokens", Value: []byte("5")}}
	if b := decode(t, synthetic(t, s).Body(nil, 0)); b.MinTokens != 5 {
		t.Errorf("min_tokens is %d above a max_tokens of 5", b.MinTokens)
	}
}

// joined lists the errors that errors.Join put together.
func joined(t *testing.T, err error) []error {
	t.Helper()
	j, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if !ok {
		t.Fatalf("%v is not several errors", err)
	}
	return j.Unwrap()
}

func TestSettingsAreRefusedAllAtOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*workload.Spec)
		fields []string
	}{
		{"no model", func(s *workload.Spec) { s.Model = "" }, []string{"model"}},
		{"model not UTF-8", func(s *workload.Spec) { s.Model = "\xff" }, []string{"model"}},
		{"unknown endpoint", func(s *workload.Spec) { s.Endpoint = "embeddings" }, []string{"endpoint"}},
		{"no input", func(s *workload.Spec) { s.InputTokens.Mean = 0 }, []string{"input tokens mean"}},
		{"huge input", func(s *workload.Spec) { s.InputTokens.Mean = 1 << 30 }, []string{"input tokens mean"}},
		{"no output", func(s *workload.Spec) { s.OutputTokens.Mean = -1 }, []string{"output tokens mean"}},
		{"negative deviation", func(s *workload.Spec) { s.InputTokens.StdDev = -1 }, []string{"input tokens stddev"}},
		{"deviation not a number", func(s *workload.Spec) { s.OutputTokens.StdDev = math.NaN() }, []string{"output tokens stddev"}},
		{"negative count", func(s *workload.Spec) { s.Count = -1 }, []string{"request count"}},
		{"negative entries", func(s *workload.Spec) { s.Entries = -1 }, []string{"dataset entries"}},
		{"calibration", func(s *workload.Spec) { s.Calibration = workload.Calibration{Overhead: -1, PerWord: math.Inf(1)} }, []string{"calibration overhead", "calibration per word"}},
		{"too short for a run by time", func(s *workload.Spec) { s.Count, s.InputTokens.Mean = 0, 3 }, []string{"input tokens mean"}},
		{"too short for the count", func(s *workload.Spec) { s.Count, s.InputTokens.Mean = 20_000, 2 }, []string{"input tokens mean"}},
		{"nothing left by the template", func(s *workload.Spec) { s.InputTokens.Mean, s.Calibration.Overhead = 8, 20 }, []string{"input tokens mean"}},
		{"too short for the entries", func(s *workload.Spec) { s.Entries, s.InputTokens.Mean = 100, 1 }, []string{"input tokens mean"}},
		{"extra inputs that are the run's", func(s *workload.Spec) {
			s.Extra = workload.Extra{{"model", []byte(`"x"`)}, {"messages", []byte(`[]`)}, {"prompt", []byte(`""`)}, {"stream", []byte(`false`)}}
		}, []string{"extra input model", "extra input messages", "extra input prompt", "extra input stream"}},
		{"extra inputs that are wrong", func(s *workload.Spec) {
			s.Extra = workload.Extra{{"a", []byte(`{`)}, {"", []byte(`1`)}, {"max_tokens", []byte(`null`)}, {"max_completion_tokens", []byte(`0`)}, {"b", []byte("1")}, {"b", []byte("2")}}
		}, []string{"extra input a", `extra input ""`, "extra input max_tokens", "extra input max_completion_tokens", "extra input b", "extra input max_completion_tokens"}},
		{"several", func(s *workload.Spec) { *s = workload.Spec{Count: -1} }, []string{"output tokens mean", "request count", "input tokens mean", "model"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := gate()
			tt.change(&s)
			w, err := workload.Synthetic(s)
			if err == nil || w != nil {
				t.Fatalf("accepted: %v", err)
			}
			var got []string
			for _, e := range joined(t, err) {
				f, ok := errors.AsType[*workload.FieldError](e)
				if !ok {
					t.Fatalf("%T is not a FieldError", e)
				}
				got = append(got, f.Field)
				if f.Problem == "" || !strings.Contains(err.Error(), f.Field+": "+f.Problem) {
					t.Errorf("%v does not tell %+v", err, f)
				}
			}
			if diff := cmp.Diff(tt.fields, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%v", diff, err)
			}
		})
	}
}

func TestParseExtraReadsAIPerfsForms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		want string // as an object, in order; "" for an error
	}{
		{"nothing", nil, `{}`},
		{"number", []string{"temperature:0"}, `{"temperature":0}`},
		{"bool", []string{"ignore_eos:true"}, `{"ignore_eos":true}`},
		{"Python's bool and none", []string{"a:True", "b:FALSE", "c:None"}, `{"a":true,"b":false,"c":null}`},
		{"Python's float", []string{"a:.5", "b:1.", "c:-.5"}, `{"a":0.5,"b":1,"c":-0.5}`},
		{"string", []string{"reasoning_effort:low"}, `{"reasoning_effort":"low"}`},
		{"string with colon", []string{"url:http://x:1"}, `{"url":"http://x:1"}`},
		{"string with a comma", []string{"note:hello, world"}, `{"note":"hello, world"}`},
		{"zip code is no number", []string{"zip:007"}, `{"zip":"007"}`},
		{"empty string", []string{"stop:"}, `{"stop":""}`},
		{"no HTML escapes", []string{"stop:</s>"}, `{"stop":"</s>"}`},
		{"JSON value", []string{`stop:["a", "b"]`}, `{"stop":["a","b"]}`},
		{"JSON value with pairs inside", []string{`nvext:{"a":1, "b":2}`}, `{"nvext":{"a":1,"b":2}}`},
		{"object", []string{`{"b":1, "a":{"c":1e2}}`}, `{"b":1,"a":{"c":1e2}}`},
		{"several in one", []string{"a:1,b:x"}, `{"a":1,"b":"x"}`},
		{"a key again replaces", []string{"a:1", "b:2", `{"a":3}`}, `{"a":3,"b":2}`},
		{"big number kept", []string{"seed:18446744073709551615"}, `{"seed":18446744073709551615}`},
		{"no colon", []string{"temperature"}, ""},
		{"no key", []string{":1"}, ""},
		{"empty", []string{""}, ""},
		{"broken object", []string{`{"a":`}, ""},
		{"key twice in an object", []string{`{"a":1,"a":2}`}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			x, err := workload.ParseExtra(tt.args)
			if (err != nil) != (tt.want == "") {
				t.Fatalf("%v, %v", x, err)
			}
			if err != nil {
				if _, ok := errors.AsType[*workload.FieldError](err); !ok {
					t.Fatalf("%T is not a FieldError", err)
				}
				return
			}
			var parts []string
			for _, f := range x {
				var flat bytes.Buffer
				if err := json.Compact(&flat, f.Value); err != nil {
					t.Fatalf("%s: %v", f.Value, err)
				}
				parts = append(parts, fmt.Sprintf("%q:%s", f.Key, flat.String()))
			}
			if got := "{" + strings.Join(parts, ",") + "}"; got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
	_, err := workload.ParseExtra([]string{"a", "b:1", "c"})
	if n := len(joined(t, err)); n != 2 {
		t.Errorf("%d of 2 errors told: %v", n, err)
	}
}

func TestBodyAppendsAndAllocatesNothing(t *testing.T) {
	w := synthetic(t, gate())
	dst := append(make([]byte, 0, w.MaxBodyLen()+4), "head"...)
	var i int64
	if n := testing.AllocsPerRun(1000, func() { i++; w.Body(dst, i) }); n != 0 {
		t.Errorf("%v allocations a body", n)
	}
	if got := w.Body(dst, 9); string(got[:4]) != "head" || !bytes.Equal(got[4:], w.Body(nil, 9)) {
		t.Error("the body was not appended")
	}
}

func TestBodyIsTheSameFromAnyGoroutine(t *testing.T) {
	t.Parallel()
	w := synthetic(t, gate())
	want := make([][]byte, 5000)
	for i := range want {
		want[i] = w.Body(nil, int64(i))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var dst []byte
			for i := range want {
				if dst = w.Body(dst[:0], int64(i)); !bytes.Equal(dst, want[i]) {
					t.Errorf("request %d differs", i)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestAnyIndexGivesABody(t *testing.T) {
	t.Parallel()
	w := synthetic(t, gate())
	rapid.Check(t, func(rt *rapid.T) {
		i := rapid.Int64().Draw(rt, "i")
		if !json.Valid(w.Body(nil, i)) {
			rt.Fatalf("request %d is not JSON", i)
		}
	})
}

func BenchmarkBody(b *testing.B) {
	w := synthetic(b, gate())
	dst := make([]byte, 0, w.MaxBodyLen())
	b.ReportAllocs()
	b.SetBytes(int64(w.MaxBodyLen()))
	var i int64
	for b.Loop() {
		dst = w.Body(dst[:0], i)
		i++
	}
}

// BenchmarkBuild must stay well under the 50 ms in which the engine is ready
// to send.
func BenchmarkBuild(b *testing.B) {
	for _, tokens := range []int{128, 4096} {
		b.Run(fmt.Sprintf("8192x%d", tokens), func(b *testing.B) {
			s := gate()
			s.InputTokens.Mean = tokens
			b.ReportAllocs()
			for b.Loop() {
				synthetic(b, s)
			}
		})
	}
}
