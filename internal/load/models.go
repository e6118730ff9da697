package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Model is one that a server lists.
type Model struct {
	ID     string
	Limits Limits
}

// Limits are the most tokens that a model takes; 0: not known.
type Limits struct {
	Context int // of prompt and answer together
	Input   int // of the prompt
	Output  int // of the answer
}

// TooLong says that a request cannot be served, whatever is sent.
type TooLong struct {
	In, Out int
	Limits  Limits
}

func (e *TooLong) Error() string {
	switch l := e.Limits; {
	case l.Context > 0 && e.In+e.Out > l.Context:
		return fmt.Sprintf("a prompt of %d tokens and an answer of %d do not fit in the model's context of %d", e.In, e.Out, l.Context)
	case l.Input > 0 && e.In > l.Input:
		return fmt.Sprintf("a prompt of %d tokens is more than the %d that the server lists for the model", e.In, l.Input)
	default:
		return fmt.Sprintf("an answer of %d tokens is more than the %d that the server lists for the model", e.Out, l.Output)
	}
}

// ContextHint is what to do about a request that does not fit in the model's context.
const ContextHint = "ask for fewer tokens with --prompt-input-tokens-mean and --prompt-output-tokens-mean, or serve the model with a longer context"

// Refuse returns why a prompt and an answer of so many tokens cannot be served, or nil.
func (l Limits) Refuse(in, out int) *TooLong {
	if l.Context > 0 && in+out > l.Context || l.Input > 0 && in > l.Input || l.Output > 0 && out > l.Output {
		return &TooLong{in, out, l}
	}
	return nil
}

// ReadModels reads a list of models, and the lengths that servers tell in it: max_model_len
// (vLLM, SGLang), max_input_tokens and max_output_tokens (LiteLLM), meta.n_ctx. llama.cpp
// lists what the model was trained with, n_ctx_train, which is not what a request may have:
// that is on its page /props, for which page is asked.
func ReadModels(list []byte, page func(path string) ([]byte, error)) ([]Model, error) {
	var answer struct {
		Data []struct {
			ID     string `json:"id"`
			Length int    `json:"max_model_len"`
			Input  int    `json:"max_input_tokens"`
			Output int    `json:"max_output_tokens"`
			Meta   struct {
				Context int `json:"n_ctx"`
				Trained int `json:"n_ctx_train"`
			} `json:"meta"`
		} `json:"data"`
	}
	if err := json.Unmarshal(list, &answer); err != nil {
		if _, wrongType := errors.AsType[*json.UnmarshalTypeError](err); !wrongType || answer.Data == nil {
			return nil, errors.New("its answer is not a list of models")
		}
	}
	if answer.Data == nil {
		return nil, errors.New("its answer is not a list of models")
	}
	models := []Model{}
	for _, m := range answer.Data {
		l := Limits{Context: max(0, m.Length), Input: max(0, m.Input), Output: max(0, m.Output)}
		if l.Context == 0 {
			l.Context = max(0, m.Meta.Context)
		}
		if l.Context == 0 && m.Meta.Trained > 0 && len(answer.Data) == 1 {
			l.Context = slotContext(page)
		}
		models = append(models, Model{m.ID, l})
	}
	return models, nil
}

// slotContext is the context of one request at llama.cpp's server; 0: not known.
func slotContext(page func(path string) ([]byte, error)) int {
	var props struct {
		Settings struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	body, err := page("/props")
	if err != nil || json.Unmarshal(body, &props) != nil {
		return 0
	}
	return max(0, props.Settings.Context)
}

// Models asks the server what it serves.
func (t *Target) Models(ctx context.Context) ([]Model, error) {
	body, err := t.ask(ctx, modelsPath)
	if err != nil {
		return nil, err
	}
	return ReadModels(body, func(path string) ([]byte, error) { return t.ask(ctx, path) })
}

// Names are those of models.
func Names(models []Model) []string {
	names := make([]string, len(models))
	for i := range models {
		names[i] = models[i].ID
	}
	return names
}

// PageError is an answer to a question for a page that is none.
type PageError struct {
	Status  int
	Message string // the server's words, fit to be shown
}

func (e *PageError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Status, e.Message) }

// unlisted is the failure of a server that does not list its models when none was named.
func unlisted(err error) *Failure {
	f := &Failure{Class: BadStream, Unlisted: true, Err: err, Message: "no model was named, and asking the server for its models failed: " + err.Error()}
	if page, ok := errors.AsType[*PageError](err); ok {
		f.Class, f.Status = HTTPStatus, page.Status
	}
	return f
}

// Worded is the message of an error that a server told as JSON, with the parameter that it
// is about; what is put otherwise is left as it is. An error is {"error": {…}} or an object
// like the inner one (OpenAI, vLLM, llama.cpp; Dynamo), {"error": "…"}, {"detail": "…"}
// (FastAPI) or a string.
func Worded(b []byte) []byte {
	var text string
	if json.Unmarshal(b, &text) == nil {
		return []byte(text)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) != nil {
		return b
	}
	if inner, ok := members["error"]; ok {
		if json.Unmarshal(inner, &text) == nil && text != "" {
			return []byte(text)
		}
		members = nil
		if json.Unmarshal(inner, &members) != nil {
			return b
		}
	}
	for _, key := range []string{"message", "detail"} {
		if json.Unmarshal(members[key], &text) != nil || text == "" {
			continue
		}
		var param string
		if json.Unmarshal(members["param"], &param) == nil && param != "" && !strings.Contains(text, param) {
			text += " (" + param + ")"
		}
		return []byte(text)
	}
	return b
}

// overContext recognises the words with which servers refuse a request that is longer than
// the model's context: vLLM and OpenAI, Dynamo, SGLang, llama.cpp.
func overContext(status int, body []byte) bool {
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity && status != http.StatusRequestEntityTooLarge {
		return false
	}
	body = bytes.ToLower(body)
	for _, words := range []string{"context length", "context_length", "context size", "context_size", "max_model_len", "maximum model length"} {
		if bytes.Contains(body, []byte(words)) {
			return true
		}
	}
	return false
}
