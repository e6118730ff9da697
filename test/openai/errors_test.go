package conformance

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// answerOf is the body of the answer that made an error, which the client keeps.
func answerOf(t *testing.T, err error) string {
	t.Helper()
	var refused *openai.Error
	if !errors.As(err, &refused) {
		t.Fatalf("%T, want an *openai.Error: %v", err, err)
	}
	body, err := io.ReadAll(refused.Response.Body)
	if err != nil {
		t.Fatal(err)
	}
	refused.Response.Body = io.NopCloser(bytes.NewReader(body)) // to be read again
	return string(body)
}

// wantRefusal checks what the client makes of an error answer: the status, and
// the reason, which it finds in the "error" that the answer has for its sake. An
// answer without a body has none.
func wantRefusal(t *testing.T, err error, status int, reason string) {
	t.Helper()
	var refused *openai.Error
	if !errors.As(err, &refused) {
		t.Fatalf("%T, want an *openai.Error: %v", err, err)
	}
	if refused.StatusCode != status {
		t.Errorf("status %d, want %d", refused.StatusCode, status)
	}
	if !strings.Contains(refused.Message, reason) {
		t.Errorf("the client's message is %q, want %q in it", refused.Message, reason)
	}
	if reason != "" && (refused.Type == "" || refused.Code != strconv.Itoa(status)) {
		t.Errorf("type %q, code %q", refused.Type, refused.Code)
	}
	if body := answerOf(t, err); !strings.Contains(body, reason) {
		t.Errorf("the answer is %q, want %q in it", body, reason)
	}
}

// attempts counts what a client sends.
func attempts(n *atomic.Int64) option.RequestOption {
	return option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		n.Add(1)
		return next(r)
	})
}

func keepRefusals(t *testing.T, s *server) {
	type chat = openai.ChatCompletionNewParams
	hello := []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")}
	for _, c := range []struct {
		name   string
		params chat
		status int
		reason string
	}{
		{"unknown model", chat{Model: "nobody", Messages: hello}, 404, "Model not found"},
		{"empty messages", chat{Model: s.Model, Messages: hello[:0]}, 400, "The 'messages' field cannot be empty"},
		{"no messages", chat{Model: s.Model}, 400, "missing field `messages`"},
		{"no model", chat{Messages: hello}, 400, "missing field `model`"},
		{"max_tokens 0", chat{Model: s.Model, Messages: hello, MaxTokens: openai.Int(0)}, 400, "Max tokens must be greater than 0"},
		{"temperature out of range", chat{Model: s.Model, Messages: hello, Temperature: openai.Float(-5)}, 400, "Temperature must be between 0 and 2"},
		{"past the context", s.chat(strings.Repeat("word ", 1<<15), 1), 400, "This model's maximum context length is 32768 tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for how, get := range ways() {
				var sent atomic.Int64
				_, err := get(t.Context(), s.client(attempts(&sent)), c.params)
				wantRefusal(t, err, c.status, c.reason)
				if sent.Load() != 1 {
					t.Errorf("%s: sent %d times", how, sent.Load())
				}
			}
		})
	}
	_, err := ask(t.Context(), s.client(option.WithJSONSet("foo_bar", 1)), s.chat("hello", 1))
	wantRefusal(t, err, 400, "Unsupported parameter(s): `foo_bar`")
	_, err = s.client().Completions.New(t.Context(), openai.CompletionNewParams{Model: "nobody",
		Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("hello")}})
	wantRefusal(t, err, 404, "Model not found")
}

func keepNoWorkers(t *testing.T, s *server) {
	s.breaks(t, `[{kind: worker-missing, workers: [0, 1]}]`)
	page, err := s.client().Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Data) != 0 {
		t.Errorf("the list: %s", page.RawJSON())
	}
	_, err = ask(t.Context(), s.client(), s.chat("hello", 1))
	wantRefusal(t, err, 404, "")
	if body := answerOf(t, err); body != "" {
		t.Errorf("the answer has a body: %q", body)
	}
}
