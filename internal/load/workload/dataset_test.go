package workload_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"aicr/internal/load/workload"

	"github.com/google/go-cmp/cmp"
)

func lean() workload.Spec {
	return workload.Spec{Model: "m", OutputTokens: workload.Length{Mean: 9}}
}

// asks is the chat body that lean makes of a prompt.
func asks(prompt string, output int) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%s}],"stream":true,"max_tokens":%d}`, prompt, output)
}

func TestDatasetForms(t *testing.T) {
	t.Parallel()
	with := func(change func(*workload.Spec)) workload.Spec {
		s := lean()
		change(&s)
		return s
	}
	for _, tt := range []struct {
		name string
		spec workload.Spec
		text string
		want []string
	}{
		{"string", lean(), `"hi"`, []string{asks(`"hi"`, 9)}},
		{"escapes stay as written", lean(), `"a\u00e9\n\"<é"`, []string{asks(`"a\u00e9\n\"<é"`, 9)}},
		{"prompt", lean(), `{"id":7, "prompt" : "hi"}`, []string{asks(`"hi"`, 9)}},
		{"text", lean(), `{"text":"hi"}`, []string{asks(`"hi"`, 9)}},
		{"text_input", lean(), `{"text_input":"hi","output_length":3}`, []string{asks(`"hi"`, 3)}},
		{"own output length", lean(), "{\"prompt\":\"a\",\"output_tokens\":3}\n{\"prompt\":\"b\",\"max_tokens\":4}\n\"c\"", []string{asks(`"a"`, 3), asks(`"b"`, 4), asks(`"c"`, 9)}},
		{"ShareGPT", lean(), `{"id":"x","conversations":[{"from":"system","value":"s"},{"from":"human","value":"q"},{"from":"gpt","value":"a"},{"from":"human","value":"r"}]}`, []string{asks(`"q"`, 9)}},
		{"ShareGPT as one array", lean(), "[\n  {\"conversations\": [\n {\"from\":\"human\",\"value\":\"q, ]\\\"\"}]},\n\n {\"conversations\":[{\"from\":\"user\",\"value\":\"r\"}]}\n]\n", []string{asks(`"q, ]\""`, 9), asks(`"r"`, 9)}},
		{"array of strings", lean(), `["a","b"]`, []string{asks(`"a"`, 9), asks(`"b"`, 9)}},
		{"conversation without a human is left out", lean(), "{\"conversations\":[]}\n{\"conversations\":[{\"from\":\"gpt\",\"value\":\"a\"}]}\n{\"conversations\":[{\"from\":\"human\",\"value\":\"\"}]}\n\"a\"", []string{asks(`"a"`, 9)}},
		{"blank lines, CRLF, BOM, no last line end", lean(), "\ufeff\r\n\"a\"\r\n\r\n  \t\n \"b\" \r\n\"c\"", []string{asks(`"a"`, 9), asks(`"b"`, 9), asks(`"c"`, 9)}},
		{"completions", with(func(s *workload.Spec) { s.Endpoint = workload.Completions }), `"a"`, []string{`{"model":"m","prompt":"a","stream":true,"max_tokens":9}`}},
		{"whole body keeps its own", with(func(s *workload.Spec) { s.Fields = workload.AllFields() }),
			`{"messages":[ {"role":"system","content":"s"} ],"temperature":0.70,"stream_options":{"include_usage":false},"model":"other","stream":false}`,
			[]string{`{"messages":[{"role":"system","content":"s"}],"temperature":0.70,"stream_options":{"include_usage":false},"model":"m","stream":true,"max_tokens":9,"min_tokens":9,"ignore_eos":true,"nvext":{"extra_fields":["worker_id"]}}`}},
		{"whole body's length is what is asked", with(func(s *workload.Spec) { s.Fields.MinTokens = true }), `{"messages":[1],"max_completion_tokens":4}`,
			[]string{`{"messages":[1],"max_completion_tokens":4,"model":"m","stream":true,"min_tokens":4}`}},
		{"our own length field is not sent", lean(), `{"messages":[1],"output_tokens":4}`, []string{`{"messages":[1],"model":"m","stream":true,"max_tokens":4}`}},
		{"whole body names the model", with(func(s *workload.Spec) { s.Model = "" }), `{"model":"own","messages":[1]}`, []string{`{"model":"own","messages":[1],"stream":true,"max_tokens":9}`}},
		{"extra inputs prevail", with(func(s *workload.Spec) {
			s.Extra = workload.Extra{{Key: "temperature", Value: []byte("1")}, {Key: "max_tokens", Value: []byte("5")}}
		}), `{"messages":[1],"temperature":0,"max_completion_tokens":4}`, []string{`{"messages":[1],"temperature":1,"model":"m","stream":true,"max_tokens":5}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for chunk, wrap := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
			} {
				w, err := workload.ReadDataset(wrap(strings.NewReader(tt.text)), "f.jsonl", tt.spec)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, bodies(w)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", chunk, diff)
				}
				if want := fmt.Sprintf("dataset f.jsonl (%d lines, no nonce)", len(tt.want)); w.Kind() != want {
					t.Errorf("Kind %q, want %q", w.Kind(), want)
				}
				if n, ok := w.Recycled(); !ok || n != len(tt.want) || w.Distinct() != int64(n) {
					t.Errorf("Recycled %d %v", n, ok)
				}
				for i := range tt.want {
					var b struct {
						A int `json:"max_tokens"`
						B int `json:"max_completion_tokens"`
					}
					if err := json.Unmarshal(w.Body(nil, int64(i)), &b); err != nil {
						t.Fatal(err)
					}
					if in, out := w.Asked(int64(i)); in != 0 || out != b.A+b.B {
						t.Errorf("request %d asks %d and %d", i, in, out)
					}
				}
			}
		})
	}
}

func TestLeftOutConversationsAreNoted(t *testing.T) {
	t.Parallel()
	w, err := workload.ReadDataset(strings.NewReader("\"a\"\n{\"conversations\":[]}\n"), "f", lean())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 conversations without a human turn were left out"}, w.Notes()); diff != "" {
		t.Error(diff)
	}
}

func TestBrokenDatasetSaysWhere(t *testing.T) {
	t.Parallel()
	none := lean()
	none.Model = ""
	completions := lean()
	completions.Endpoint = workload.Completions
	for _, tt := range []struct {
		name string
		spec workload.Spec
		text string
		want string // the whole text
	}{
		{"empty", lean(), "", "reading f: there is no prompt in it"},
		{"blank", lean(), "\ufeff\n \r\n", "reading f: there is no prompt in it"},
		{"empty array", lean(), " [ ] ", "reading f: there is no prompt in it"},
		{"only conversations without a human", lean(), `{"conversations":[]}`, "reading f: none of its 1 conversations has a human turn"},
		{"syntax", lean(), "\"a\"\n\n{\"prompt\":x}\n", "f:3:11: invalid character 'x' looking for beginning of value"},
		{"cut line", lean(), "\"a\"\r\n{\"prompt\":\"b\r\n\"c\"", "f:2:12: unexpected end of JSON input"},
		{"two values on a line", lean(), `"a" "b"`, "f:1:5: invalid character '\"' after top-level value"},
		{"indented first line", lean(), "\n  x", "f:2:3: invalid character 'x' looking for beginning of value"},
		{"several", lean(), "1\n\"a\"\n{}\n", "f:1: 1 is neither a string nor an object\nf:3: has no prompt, text, text_input, messages or conversations"},
		{"not UTF-8", lean(), "\"a\"\n\"b\xffc\"", "f:2:3: byte 0xff is not UTF-8"},
		{"empty prompt", lean(), `{"prompt":""}`, "f:1: the prompt is empty"},
		{"prompt of tokens", lean(), `{"prompt":[1,2]}`, "f:1: prompt is [1,2], not a string"},
		{"messages not a list", lean(), `{"messages":"x"}`, "f:1: messages is not a list of messages"},
		{"no messages", lean(), `{"messages":[ ]}`, "f:1: messages is not a list of messages"},
		{"chat body to completions", completions, `{"messages":[1]}`, "f:1: a body with messages cannot go to the completions endpoint"},
		{"conversations not turns", lean(), `{"conversations":[1]}`, "f:1: conversations is not a list of turns with from and value"},
		{"turn not text", lean(), `{"conversations":[{"from":"human","value":1}]}`, "f:1: the human turn's value is not a string"},
		{"length not a number", lean(), `{"prompt":"a","output_tokens":"3"}`, `f:1: output_tokens "3" is not a whole number of tokens from 1 to 4194304`},
		{"length 0", lean(), `{"prompt":"a","max_tokens":0}`, "f:1: max_tokens 0 is not a whole number of tokens from 1 to 4194304"},
		{"length twice", lean(), `{"messages":[1],"max_tokens":1,"output_tokens":2}`, "f:1: max_tokens and output_tokens both give the output length"},
		{"key twice", lean(), `{"prompt":"a","prompt":"b"}`, `f:1: has "prompt" twice`},
		{"no model", none, `"a"`, "f:1: no model is named, here or with --model"},
		{"no model in a body", none, `{"messages":[1]}`, "f:1: no model is named, here or with --model"},
		{"array: element", lean(), "[\n \"a\",\n {\"prompt\":\n  x}\n]", "f:4:3: invalid character 'x' looking for beginning of value"},
		{"array: stray brackets", lean(), "[\"a\",\n}},\n\"b\"]", "f:2:1: invalid character '}' looking for beginning of value"},
		{"array: nothing between commas", lean(), `["a",,"b"]`, "f:1: there is nothing between two commas, or before the end"},
		{"array: comma at the end", lean(), `["a",]`, "f:1: there is nothing between two commas, or before the end"},
		{"array: cut", lean(), "[\"a\",\n\"b", "f:2: the array does not end: a bracket or a quote is missing"},
		{"array: cut after a comma", lean(), "[\"a\",\n", "f:2: the array does not end: a bracket or a quote is missing"},
		{"array: two", lean(), "[\"a\"]\n[\"b\"]", "f:2: '[' after the end of the array"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, err := workload.ReadDataset(strings.NewReader(tt.text), "f", tt.spec)
			if err == nil || err.Error() != tt.want {
				t.Fatalf("%v\n got %v\nwant %s", w, err, tt.want)
			}
			f, ok := errors.AsType[*workload.FileError](err)
			if !ok || f.Hint == "" {
				t.Fatalf("%T %+v has no hint", err, f)
			}
			if l, ok := errors.AsType[*workload.LineError](err); ok != strings.HasPrefix(tt.want, "f:") || ok && l.Line == 0 {
				t.Errorf("LineError %v: %+v", ok, l)
			}
		})
	}
}

func TestBrokenLinesBeyondTenAreCounted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		broken int
		last   string
	}{
		{10, "f:11:1: invalid character 'x' looking for beginning of value"},
		{11, "and 1 more"},
		{500, "and 490 more"},
		{30_000, "and 10000 more, where reading was given up"},
	} {
		_, err := workload.ReadDataset(strings.NewReader("\"a\"\n"+strings.Repeat("x\n", tt.broken)), "f", lean())
		if err == nil {
			t.Fatalf("%d broken lines accepted", tt.broken)
		}
		lines := strings.Split(err.Error(), "\n")
		if got := lines[len(lines)-1]; got != tt.last || len(lines) > 11 {
			t.Errorf("%d broken: %d lines, the last %q, want %q", tt.broken, len(lines), got, tt.last)
		}
	}
}

func TestInputsGivenAsADatasetAreRecognised(t *testing.T) {
	t.Parallel()
	var flat bytes.Buffer
	if err := json.Compact(&flat, []byte(aiperfInputs)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{aiperfInputs, flat.String()} {
		_, err := workload.ReadDataset(strings.NewReader(text), "f", lean())
		f, ok := errors.AsType[*workload.FileError](err)
		if !ok || !strings.Contains(f.Hint, "--inputs") {
			t.Errorf("%v: %+v", err, f)
		}
	}
}

func TestDatasetReadErrorIsTheCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk gone")
	for _, head := range []string{"", "\"a\"\n", "\"a\"\n\"b", "[\"a\",", "[\"a\",\"b", "[\"a\"]"} {
		_, err := workload.ReadDataset(io.MultiReader(strings.NewReader(head), iotest.ErrReader(cause)), "f", lean())
		if !errors.Is(err, cause) {
			t.Errorf("after %q: %v does not carry %v", head, err, cause)
		}
	}
}

func TestDatasetSettingsAreCheckedFirst(t *testing.T) {
	t.Parallel()
	_, err := workload.ReadDataset(strings.NewReader(`"a"`), "f", workload.Spec{Count: -1})
	if n := len(joined(t, err)); n != 2 {
		t.Errorf("%d of 2 errors: %v", n, err)
	}
}

func TestDatasetHashIsPinned(t *testing.T) {
	t.Parallel()
	hash := func(text string, s workload.Spec) string {
		w, err := workload.ReadDataset(strings.NewReader(text), "f", s)
		if err != nil {
			t.Fatal(err)
		}
		return w.Hash()
	}
	const want = "fea143641f0921452103524816735df1839a3561b24ed0a44dc552ee5ce3e4df"
	if got := hash("\"a\"\n\"b\"\n", lean()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if hash(`["a", "b"]`, lean()) != want {
		t.Error("the form of the file changes the hash")
	}
	if hash("\"b\"\n\"a\"\n", lean()) == want {
		t.Error("the order does not change the hash")
	}
	more := lean()
	more.Count = 7
	if hash("\"a\"\n\"b\"\n", more) == want {
		t.Error("the count does not change the hash")
	}
}

func FuzzDataset(f *testing.F) {
	for _, s := range []string{
		`"hi"`, "{\"prompt\":\"a\",\"output_tokens\":3}\r\n\n\"b\"", `[{"conversations":[{"from":"human","value":"q"}]},"x"]`,
		`{"messages":[{"role":"user","content":"x"}],"max_tokens":4,"stream":false}`, "\ufeff[\"a\",\n{}}]", "[", "[,]", `{"text":"\ud800"}`,
	} {
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, completions bool) {
		s := lean()
		s.Fields = workload.AllFields()
		if completions {
			s.Endpoint = workload.Completions
		}
		w, err := workload.ReadDataset(bytes.NewReader(text), "f", s)
		if err != nil {
			_ = err.Error()
			return
		}
		accepted(t, w)
		for i := range min(w.Len(), 64) {
			var b struct {
				Model  string `json:"model"`
				Stream bool   `json:"stream"`
			}
			if raw := w.Body(nil, int64(i)); json.Unmarshal(raw, &b) != nil || b.Model != "m" || !b.Stream {
				t.Fatalf("body %d is not for this run: %s", i, raw)
			}
			if _, out := w.Asked(int64(i)); out < 1 {
				t.Fatalf("body %d asks for nothing", i)
			}
		}
	})
}

func BenchmarkDataset(b *testing.B) {
	text := strings.Repeat(`{"id":"x","conversations":[{"from":"human","value":"`+strings.Repeat("word ", 100)+`"},{"from":"gpt","value":"`+strings.Repeat("word ", 300)+`"}]}`+"\n", 1000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := workload.ReadDataset(strings.NewReader(text), "f", lean()); err != nil {
			b.Fatal(err)
		}
	}
}
