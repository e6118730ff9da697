package workload_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"aicr/internal/load/workload"

	"github.com/google/go-cmp/cmp"
)

// The first sessions of an inputs.json that AIPerf wrote.
//
//go:embed testdata/aiperf_inputs.json
var aiperfInputs string

func TestInputsAreReplayedByteForByte(t *testing.T) {
	t.Parallel()
	w, err := workload.ReadInputs(strings.NewReader(aiperfInputs), "inputs.json", workload.Replay{})
	if err != nil {
		t.Fatal(err)
	}
	// The same bytes by another way: the whole file without its white space
	// holds the bodies, in order.
	var flat bytes.Buffer
	if err := json.Compact(&flat, []byte(aiperfInputs)); err != nil {
		t.Fatal(err)
	}
	rest := flat.Bytes()
	for i := range int64(3) {
		b := w.Body(nil, i)
		at := bytes.Index(rest, b)
		if at < 0 {
			t.Fatalf("request %d, %s, is not what stands in the file after request %d", i, b, i-1)
		}
		if !bytes.HasPrefix(b, []byte(`{"messages":[{"role":"user","content":"`)) || !bytes.HasSuffix(b, []byte(`"}],"model":"tiny","stream":true,"max_completion_tokens":128,"temperature":0,"stream_options":{"include_usage":true}}`)) {
			t.Errorf("request %d is not a whole payload: %s", i, b)
		}
		rest = rest[at+len(b):]
		if !bytes.Equal(b, w.Body(nil, i+3)) || !bytes.Equal(b, w.Body(nil, workload.Warmup(i))) {
			t.Errorf("request %d is not cycled", i)
		}
		if in, out := w.Asked(i); in != 0 || out != 128 {
			t.Errorf("request %d asks %d and %d", i, in, out)
		}
	}
	if n, ok := w.Recycled(); n != 3 || !ok || w.Len() != 3 || w.Kind() != "replay inputs.json (3 payloads)" || w.Endpoint() != workload.Chat || len(w.Notes()) != 0 {
		t.Errorf("%d %v, %d bodies, %q, %s, %q", n, ok, w.Len(), w.Kind(), w.Endpoint(), w.Notes())
	}
}

func TestInputs(t *testing.T) {
	t.Parallel()
	const payload = `{"messages":[{"role":"user","content":"hi"}],"stream":true}`
	for _, tt := range []struct {
		name   string
		text   string
		replay workload.Replay
		want   []string
		notes  int
	}{
		{"keys and numbers stay as written", `{"data":[{"payloads":[{ "z":1.50, "messages" : [], "stream":true, "n":18446744073709551615, "e":"\u00e9<" }]}]}`, workload.Replay{},
			[]string{`{"z":1.50,"messages":[],"stream":true,"n":18446744073709551615,"e":"\u00e9<"}`}, 0},
		{"several payloads are flattened and noted", `{"data":[{"payloads":[` + payload + `,{"messages":[],"stream":true}]},{"payloads":[` + payload + `]}]}`, workload.Replay{},
			[]string{payload, `{"messages":[],"stream":true}`, payload}, 1},
		{"a payload that does not stream is noted", `{"data":[{"payloads":[{"messages":[]}]}]}`, workload.Replay{}, []string{`{"messages":[]}`}, 1},
		{"model replaced where it stands", `{"data":[{"payloads":[{"model":"a","messages":[],"stream":true}]}]}`, workload.Replay{Model: "b/c"},
			[]string{`{"model":"b/c","messages":[],"stream":true}`}, 0},
		{"model added", `{"data":[{"payloads":[{"messages":[ 1 ],"stream":true}]}]}`, workload.Replay{Model: "b"},
			[]string{`{"messages":[1],"stream":true,"model":"b"}`}, 0},
		{"completions", `{"data":[{"payloads":[{"prompt":"x","stream":true}]}]}`, workload.Replay{}, []string{`{"prompt":"x","stream":true}`}, 0},
		{"BOM, CRLF and other fields", "\ufeff{\r\n\"version\":2,\"data\":[{\"payloads\":[" + payload + "]}]}\r\n", workload.Replay{}, []string{payload}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, err := workload.ReadInputs(strings.NewReader(tt.text), "f", tt.replay)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, bodies(w)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(w.Notes()) != tt.notes {
				t.Errorf("notes: %q", w.Notes())
			}
		})
	}
}

func bodies(w *workload.Workload) []string {
	var all []string
	for i := range w.Len() {
		all = append(all, string(w.Body(nil, int64(i))))
	}
	return all
}

func TestInputsHashTakesInTheCount(t *testing.T) {
	t.Parallel()
	hash := func(name string, r workload.Replay) string {
		w, err := workload.ReadInputs(strings.NewReader(aiperfInputs), name, r)
		if err != nil {
			t.Fatal(err)
		}
		return w.Hash()
	}
	base := hash("a", workload.Replay{Count: 1})
	if hash("b", workload.Replay{Count: 1}) != base {
		t.Error("the file's name changes the hash")
	}
	if hash("a", workload.Replay{Count: 2}) == base || hash("a", workload.Replay{Count: 1, Model: "x"}) == base {
		t.Error("the count or the model does not change the hash")
	}
}

func TestBrokenInputsSayWhere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"empty", " \n", "reading f: the file is empty"},
		{"no data", `{}`, "reading f: there is no payload in it"},
		{"no payloads", `{"data":[{"payloads":[]}]}`, "reading f: there is no payload in it"},
		{"syntax", "{\n \"data\": [}\n", "f:2:11: invalid character '}'"},
		{"cut", "{\n \"data\": [", "f:2:10: unexpected end of JSON input"},
		{"HTML", "<html>", "f:1:1: invalid character '<'"},
		{"another document", `{"data":3}`, "f:1:9: not of the shape of inputs.json"},
		{"not UTF-8", "{\n\"a\":\"\xff\"}", "f:2:6: byte 0xff is not UTF-8"},
		{"payload not an object", `{"data":[{"session_id":"s7","payloads":[1]}]}`, "reading f: s7, payload 0: is not a JSON object"},
		{"another API", `{"data":[{"payloads":[{"input":"x"}]}]}`, "reading f: session 0, payload 0: has neither messages nor a prompt"},
		{"two APIs", `{"data":[{"payloads":[{"messages":[]},{"prompt":""}]}]}`, "payload 1: is for the completions endpoint and those before it for chat"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, err := workload.ReadInputs(strings.NewReader(tt.text), "f", workload.Replay{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, %v; want %s", w, err, tt.want)
			}
			if f, ok := errors.AsType[*workload.FileError](err); !ok || f.Hint == "" {
				t.Errorf("%T %+v has no hint", err, f)
			}
		})
	}
	cause := errors.New("disk gone")
	if _, err := workload.ReadInputs(iotest.ErrReader(cause), "f", workload.Replay{}); !errors.Is(err, cause) {
		t.Errorf("%v does not carry %v", err, cause)
	}
}

// accepted checks what holds for every workload that was accepted.
func accepted(t *testing.T, w *workload.Workload) {
	t.Helper()
	if w.Len() == 0 || len(w.Hash()) != 64 || w.Kind() == "" {
		t.Fatalf("%d bodies, hash %q, kind %q", w.Len(), w.Hash(), w.Kind())
	}
	for i := range min(w.Len(), 64) {
		b := w.Body(nil, int64(i))
		if !json.Valid(b) || b[0] != '{' {
			t.Fatalf("body %d is not a JSON object: %q", i, b)
		}
		if len(b) != w.BodyLen(int64(i)) || len(b) > w.MaxBodyLen() {
			t.Fatalf("body %d has %d bytes, said %d, at most %d", i, len(b), w.BodyLen(int64(i)), w.MaxBodyLen())
		}
	}
}

func FuzzInputs(f *testing.F) {
	f.Add([]byte(`{
 "data": [ {"session_id": "s", "payloads": [ {"messages": [{"content": "hi"}], "max_completion_tokens": 128} ]} ]
}`), "") // small, for the sake of the rate
	f.Add([]byte(`{"data":[{"payloads":[{"prompt":"x"},{"prompt":"y","model":"z"}]}]}`), "m\xff\"")
	f.Add([]byte("\ufeff{\"data\":[{}]}"), "m")
	f.Fuzz(func(t *testing.T, text []byte, model string) {
		w, err := workload.ReadInputs(bytes.NewReader(text), "f", workload.Replay{Model: model})
		if err != nil {
			_ = err.Error()
			return
		}
		accepted(t, w)
	})
}
