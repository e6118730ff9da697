package truth

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// request is what a driver has read.
type request struct {
	method, path, query string
	auth                string // the Authorization header
	body                []byte
	arrival             time.Duration // when the whole of it had come, by the best clock there is
	read                time.Duration // when the driver had read it
}

// asked is what a completion request asks for.
type asked struct {
	chat       bool // else a plain completion
	model      string
	stream     bool
	prompt     int // tokens: words and two more, as Dynamo's mocker counts them
	tokens     int // output length; 0 is not said
	atLeast    int
	usage      bool // usage at the end
	everyUsage bool // usage in every event
	worker     bool // name the worker
}

type completionBody struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Content text `json:"content"`
	} `json:"messages"`
	Prompt              text `json:"prompt"`
	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
	MinTokens           int  `json:"min_tokens"`
	StreamOptions       struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	NVExt struct {
		ExtraFields []string `json:"extra_fields"`
	} `json:"nvext"`
}

// text is a string, a list of strings or a list of content parts; only its
// number of words is kept.
type text struct{ words int }

func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		t.words = words(s)
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	for _, raw := range list {
		var part struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &s) == nil {
			t.words += words(s)
		} else if err := json.Unmarshal(raw, &part); err != nil {
			return err
		} else {
			t.words += words(part.Text)
		}
	}
	return nil
}

func words(s string) int {
	n, inside := 0, false
	for _, r := range s {
		space := unicode.IsSpace(r)
		if !space && !inside {
			n++
		}
		inside = !space
	}
	return n
}

// parse reads a completion request. A reason that is not "" is that of a 400.
func parse(body []byte, refuse []string) (a asked, reason string) {
	var b completionBody
	if err := json.Unmarshal(body, &b); err != nil {
		return asked{}, "Failed to parse the request body as JSON: " + err.Error()
	}
	if len(refuse) > 0 {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			return asked{}, "Failed to parse the request body as JSON: " + err.Error()
		}
		var found []string
		for name := range fields {
			if slices.Contains(refuse, name) {
				found = append(found, name)
			}
		}
		if len(found) > 0 {
			slices.Sort(found)
			return asked{}, "Unsupported parameter(s): " + strings.Join(found, ", ")
		}
	}
	a = asked{
		model:      b.Model,
		stream:     b.Stream,
		prompt:     b.Prompt.words + 2,
		atLeast:    b.MinTokens,
		usage:      b.StreamOptions.IncludeUsage,
		everyUsage: b.StreamOptions.ContinuousUsageStats,
		worker:     slices.Contains(b.NVExt.ExtraFields, "worker_id"),
	}
	for _, m := range b.Messages {
		a.prompt += m.Content.words
	}
	for _, n := range []*int{b.MaxTokens, b.MaxCompletionTokens} {
		if n == nil {
			continue
		}
		if *n < 1 {
			return asked{}, fmt.Sprintf("max_tokens must be at least 1, got %d", *n)
		}
		a.tokens = *n
	}
	return a, ""
}
