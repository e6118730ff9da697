package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/sim"
)

// What Dynamo really answered lies in testdata/dynamo. An answer here has
// the same keys in the same order, and the same kinds of values.
func TestAnswersHaveTheShapeOfDynamos(t *testing.T) {
	ask := func(more string) string {
		return `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true` + more
	}
	for _, tt := range []struct {
		recorded string
		puppet   func(*puppet)
		path     string
		body     string // "": GET
		ours     string // a part of the shape that is meant to be here alone
	}{
		{recorded: "models", path: "/v1/models"},
		{recorded: "model", path: "/v1/models/tiny"},
		{recorded: "ready", path: "/v1/models/tiny/ready"},
		{recorded: "health", path: "/health"},
		{recorded: "live", path: "/live"},
		{recorded: "unknown_model", path: chatPath, body: `{"model":"huge","messages":[{"role":"user","content":"hi"}]}`,
			ours: "error:{message:string type:string param:null code:json.Number } "},
		{recorded: "unary", path: chatPath, body: whole},
		{recorded: "stream", path: chatPath, body: ask(`}}`)},
		{recorded: "stream_every_usage", path: chatPath, body: ask(`,"continuous_usage_stats":true},"max_tokens":2}`)},
		{recorded: "stream_nvext", path: chatPath, body: ask(`},"max_tokens":2,"nvext":{"extra_fields":["worker_id","timing"]}}`)},
		{recorded: "stream_error", puppet: ends(sim.ErrorTold, 0), path: chatPath, body: ask(`}}`)},
	} {
		t.Run(tt.recorded, func(t *testing.T) {
			p := newPuppet()
			if tt.puppet != nil {
				tt.puppet(p)
			}
			recorded, err := os.ReadFile("testdata/dynamo/" + tt.recorded + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			got := request(serverOf(t, p).Frontend(), tt.path, tt.body).Body.String()
			here := shapes(t, got)
			for i := range here {
				if !strings.Contains(here[i], tt.ours) {
					t.Errorf("%q has no %q", here[i], tt.ours)
				}
				here[i] = strings.Replace(here[i], tt.ours, "", 1)
			}
			if diff := cmp.Diff(shapes(t, string(recorded)), here); diff != "" {
				t.Errorf("(-Dynamo +here):\n%s", diff)
			}
		})
	}
}

// request asks a handler that answers at once.
func request(h http.Handler, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if body != "" {
		r = httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// shapes is the shape of each line that is JSON, or an event of it.
func shapes(t *testing.T, text string) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "data: ")
		switch line {
		case "":
		case "[DONE]":
			all = append(all, line)
		default:
			d := json.NewDecoder(strings.NewReader(line))
			d.UseNumber()
			var b bytes.Buffer
			if err := shape(d, &b); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, b.String())
		}
	}
	return all
}

// shape writes the next value of d with its members in their order and words
// for its leaves.
func shape(d *json.Decoder, b *bytes.Buffer) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		b.WriteString(v.String())
		for d.More() {
			if v == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				fmt.Fprintf(b, "%v:", key)
			}
			if err := shape(d, b); err != nil {
				return err
			}
			b.WriteByte(' ')
		}
		end, err := d.Token()
		fmt.Fprint(b, end)
		return err
	case nil:
		b.WriteString("null")
	default:
		fmt.Fprintf(b, "%T", v)
	}
	return nil
}

// event is what a client gets of one.
type event struct {
	Choices []struct {
		Text  string
		Delta struct {
			Content *string
			Role    string
		}
		Message struct{ Content string }
		Finish  *string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
	Error *struct{ Message string }
}

// said is an answer as a client adds it up.
type said struct {
	text   string
	parts  int // events with text
	finish string
	prompt int
	output int
}

func (s *said) add(t testing.TB, data []byte) {
	t.Helper()
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if e.Usage != nil {
		s.prompt, s.output = e.Usage.Prompt, e.Usage.Completion
		if e.Usage.Total != s.prompt+s.output {
			t.Errorf("%d tokens in all, of %d and %d", e.Usage.Total, s.prompt, s.output)
		}
	}
	for _, c := range e.Choices {
		text := c.Text + c.Message.Content
		if c.Delta.Content != nil {
			text += *c.Delta.Content
		}
		if text != "" {
			s.parts++
		}
		s.text += text
		if c.Finish != nil {
			s.finish = *c.Finish
		}
	}
}

// askBoth asks for the same answer as a stream and as a whole.
func askBoth(t testing.TB, h http.Handler, path string, body map[string]any) (stream, whole said) {
	t.Helper()
	body["model"] = testModel
	whole.add(t, request(h, path, string(encode(body))).Body.Bytes())
	body["stream"] = true
	body["stream_options"] = map[string]bool{"include_usage": true}
	answer := request(h, path, string(encode(body)))
	lines := slices.Collect(strings.SplitSeq(strings.TrimSuffix(answer.Body.String(), "\n\n"), "\n\n"))
	if last := lines[len(lines)-1]; last != "data: [DONE]" {
		t.Fatalf("the stream ends with %q", last)
	}
	for _, line := range lines[:len(lines)-1] {
		stream.add(t, []byte(strings.TrimPrefix(line, "data: ")))
	}
	return stream, whole
}
