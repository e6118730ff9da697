package load_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"aicr/internal/load"
	"aicr/internal/load/workload"
)

// counting is a server of a model whose words cost many tokens: it refuses what does not
// fit in its context, and counts what was sent.
type counting struct {
	perWord float64
	context int
	list    string // its list of models; "": it has none
	props   string

	asked, refused int
	longest        int // tokens of a prompt
}

func (s *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := map[string]string{"/v1/models": s.list, "/props": s.props}[r.URL.Path]
	if r.URL.Path != "/v1/chat/completions" {
		if page == "" {
			http.NotFound(w, r)
		}
		_, _ = io.WriteString(w, page)
		return
	}
	var body struct {
		Messages []struct{ Content string }
		Most     int `json:"max_tokens"`
	}
	raw, _ := io.ReadAll(r.Body)
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.asked++
	in := 10 + int(s.perWord*float64(len(strings.Fields(body.Messages[0].Content))))
	s.longest = max(s.longest, in)
	if in+body.Most > s.context {
		s.refused++
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":"This model's maximum context length is %d tokens. However, you requested %d","type":"BadRequestError","code":400}}`, s.context, in+body.Most)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range body.Most {
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", in, body.Most)
}

// fitting is a spec of prompts and answers of so many tokens.
func fitting(in, out int) workload.Spec {
	s := asking()
	s.InputTokens.Mean, s.OutputTokens.Mean = in, out
	return s
}

// A word may cost several tokens: prompts that fill the model's context are calibrated
// without one that does not fit.
func TestProbeFitsInTheContext(t *testing.T) {
	for _, perWord := range []float64{0.5, 1, 1.6, 7} {
		t.Run(fmt.Sprint(perWord), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &counting{perWord: perWord, context: 1024}
				target := serveInBubble(t, &http.Server{Handler: s}, load.TargetOptions{URL: "http://truth.test"})
				spec := fitting(1000, 24)
				p, err := load.Examine(t.Context(), target, spec, hang)
				if err != nil || !p.Calibrated {
					t.Fatalf("%+v, %v", p, err)
				}
				spec.Calibration, spec.Fields = p.Calibration, p.Fields
				work, err := workload.Synthetic(spec)
				if err != nil {
					t.Fatal(err)
				}
				res := mustRun(t, &load.Plan{Target: target, Work: work, Main: load.Schedule{Users: 1, Count: 5}, Timeout: hang})
				for r := range res.Log.All() {
					if off := int(r.PromptTokens) - spec.InputTokens.Mean; !r.OK() || max(off, -off) > 1+int(perWord) {
						t.Errorf("%v, a prompt of %d tokens: %v", r.Class, r.PromptTokens, res.Log.Details)
					}
				}
				if s.refused > 0 || s.longest < 900 {
					t.Errorf("%d refused; the longest prompt had %d tokens", s.refused, s.longest)
				}
			})
		})
	}
}

// What a server lists as its model's lengths is asked for, and a request that cannot fit
// is refused before one of its length is sent.
func TestWhatCannotFitIsRefusedBeforeItIsSent(t *testing.T) {
	const vllm = `{"object":"list","data":[{"id":"truth","object":"model","root":"truth","max_model_len":1024}]}`
	const llama = `{"data":[{"id":"truth","meta":{"n_vocab":32000,"n_ctx_train":131072}}]}`
	for name, c := range map[string]struct {
		list, props string
		in, out     int
		words       string // "": it fits, as far as is known
	}{
		"vLLM":                      {vllm, "", 700, 400, "a prompt of 700 tokens and an answer of 400 do not fit in the model's context of 1024"},
		"vLLM, to the last token":   {vllm, "", 700, 324, ""},
		"vLLM, one more":            {vllm, "", 700, 325, "context of 1024"},
		"another model's length":    {`{"data":[{"id":"a","max_model_len":64},{"id":"truth"}]}`, "", 700, 200, ""},
		"LiteLLM, the prompt":       {`{"data":[{"id":"truth","max_input_tokens":512,"max_output_tokens":256}]}`, "", 700, 200, "a prompt of 700 tokens is more than the 512"},
		"LiteLLM, the answer":       {`{"data":[{"id":"truth","max_input_tokens":512,"max_output_tokens":256}]}`, "", 500, 300, "an answer of 300 tokens is more than the 256"},
		"llama.cpp, by its page":    {llama, `{"default_generation_settings":{"n_ctx":512},"total_slots":4}`, 400, 200, "context of 512"},
		"llama.cpp, in its list":    {`{"data":[{"id":"truth","meta":{"n_ctx_train":131072,"n_ctx":512}}]}`, "", 400, 200, "context of 512"},
		"llama.cpp without a page":  {llama, "", 700, 200, ""},
		"a list of other types":     {`{"data":[{"id":"truth","max_model_len":"1024","meta":7}]}`, "", 700, 200, ""},
		"no list, and it is sent":   {"", "", 700, 200, ""},
		"no length, and it is sent": {`{"data":[{"id":"truth"}]}`, "", 700, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &counting{perWord: 1, context: 1 << 20, list: c.list, props: c.props}
				target := serveInBubble(t, &http.Server{Handler: s}, load.TargetOptions{URL: "http://truth.test"})
				_, err := load.Examine(t.Context(), target, fitting(c.in, c.out), hang)
				if c.words == "" {
					if err != nil || s.asked == 0 {
						t.Errorf("%d asked, %v", s.asked, err)
					}
					return
				}
				f, _ := errors.AsType[*load.Failure](err)
				if _, ok := errors.AsType[*load.TooLong](err); !ok || !f.TooLong || !strings.Contains(f.Message, c.words) || s.asked > 1 {
					t.Errorf("%d asked, %v", s.asked, err)
				}
			})
		})
	}
}

// A refusal for the model's context is known as one, in the words of each server, and
// costs no field of the request.
func TestARefusalForTheContextIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		tooLong bool
		words   string
	}{
		"vLLM":      {`{"error":{"message":"This model's maximum context length is 1024 tokens. However, your request has 1500 input tokens.","type":"BadRequestError","param":"input_tokens","code":400}}`, true, "HTTP 400: This model's maximum context length is 1024 tokens. However, your request has 1500 input tokens. (input_tokens)"},
		"llama.cpp": {`{"error":{"code":400,"message":"request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9412,"n_ctx":8192}}`, true, "HTTP 400: request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it"},
		"SGLang":    {`{"object":"error","message":"The input (1500 tokens) is longer than the model's context length (1024 tokens).","type":"BadRequest","code":400}`, true, "HTTP 400: The input (1500 tokens) is longer than the model's context length (1024 tokens)."},
		"another":   {`{"detail":"the template has no such role"}`, false, "HTTP 400: the template has no such role"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						asked++
					}
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(w, c.body)
				})
				target := serveInBubble(t, &http.Server{Handler: h}, load.TargetOptions{URL: "http://truth.test"})
				_, err := load.Examine(t.Context(), target, asking(), hang)
				f, ok := errors.AsType[*load.Failure](err)
				if !ok || f.TooLong != c.tooLong || f.Message != c.words || c.tooLong && asked != 1 {
					t.Errorf("%d asked, %+v", asked, f)
				}
			})
		})
	}
}
