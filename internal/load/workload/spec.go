package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// Spec is what to ask of the server. Synthetic takes all of it; ReadDataset
// takes what is not about the prompt.
type Spec struct {
	Model    string
	Endpoint Endpoint // zero: Chat

	InputTokens  Length
	OutputTokens Length

	Seed    uint64
	Count   int64 // planned requests; 0: not known, as in a run by time
	Entries int64 // prompts to recycle; 0: every prompt is unique

	Fields      Fields
	Extra       Extra
	Calibration Calibration
}

// An Endpoint is the API the bodies are written for, by AIPerf's names.
type Endpoint string

// The endpoints.
const (
	Chat        Endpoint = "chat"
	Completions Endpoint = "completions"
)

// A Length is a number of tokens, drawn from a normal distribution that is
// rounded and cut at what is possible; without a deviation it is exact.
type Length struct {
	Mean   int
	StdDev float64
}

// Fields are the optional fields of a body, each to be left out for a server
// that refuses it. "stream": true and "max_tokens" are always there: there is
// no first token to time without the one, and Dynamo answers 500 without the
// other.
type Fields struct {
	IncludeUsage bool // "stream_options": {"include_usage": true}
	MinTokens    bool // "min_tokens": the asked length, so that it is a fact and not a cap
	IgnoreEOS    bool // "ignore_eos": true, for the same reason
	Temperature0 bool // "temperature": 0
	WorkerID     bool // "nvext": {"extra_fields": ["worker_id"]}: Dynamo names who served it
}

// AllFields asks for everything, which the probe then finds accepted or not.
func AllFields() Fields {
	return Fields{IncludeUsage: true, MinTokens: true, IgnoreEOS: true, Temperature0: true, WorkerID: true}
}

// Calibration turns tokens into words: a prompt of n words costs
// Overhead + n × PerWord tokens on this server. The zero value is a word a
// token and no overhead.
type Calibration struct {
	Overhead float64 // what the chat template adds
	PerWord  float64 // 0: 1
}

func (c Calibration) perWord() float64 {
	if c.PerWord == 0 {
		return 1
	}
	return c.PerWord
}

// words is how many of them come nearest to so many tokens.
func (c Calibration) words(tokens int) int {
	n := math.Round((float64(tokens) - c.Overhead) / c.perWord())
	return int(min(max(n, 0), maxTokens))
}

// tokens is what so many words cost at most.
func (c Calibration) tokens(words int) int {
	return int(min(math.Ceil(c.Overhead+float64(words)*c.perWord()), maxTokens))
}

// maxTokens bounds a length in both directions. It is far above any context
// window and keeps one body within tens of megabytes.
const maxTokens = 1 << 22

func (s Spec) chat() bool { return s.Endpoint == Chat || s.Endpoint == "" }

// problems lists what is wrong with the parts of s that Synthetic and
// ReadDataset share.
func (s Spec) problems() []error {
	var errs []error
	bad := func(field, hint, format string, args ...any) {
		errs = append(errs, &FieldError{Field: field, Problem: fmt.Sprintf(format, args...), Hint: hint})
	}
	if !utf8.ValidString(s.Model) {
		bad("model", "", "%q is not UTF-8", s.Model)
	}
	switch s.Endpoint {
	case "", Chat, Completions:
	default:
		bad("endpoint", fmt.Sprintf("use %s or %s", Chat, Completions), "%q is not known", s.Endpoint)
	}
	errs = append(errs, s.OutputTokens.problems("output tokens")...)
	if s.Count < 0 {
		bad("request count", "0 leaves it open", "%d is below 0", s.Count)
	}
	if s.Entries < 0 {
		bad("dataset entries", "0 makes every prompt unique", "%d is below 0", s.Entries)
	}
	if c := s.Calibration; !(c.Overhead >= 0) || math.IsInf(c.Overhead, 0) {
		bad("calibration overhead", "", "%v tokens is not possible", c.Overhead)
	}
	if c := s.Calibration; !(c.PerWord >= 0) || math.IsInf(c.PerWord, 0) {
		bad("calibration per word", "", "%v tokens is not possible", c.PerWord)
	}
	return append(errs, s.Extra.problems()...)
}

func (l Length) problems(field string) []error {
	var errs []error
	if l.Mean < 1 || l.Mean > maxTokens {
		errs = append(errs, &FieldError{
			Field: field + " mean", Problem: fmt.Sprintf("%d is not possible", l.Mean),
			Hint: fmt.Sprintf("ask for 1 to %d", maxTokens),
		})
	}
	if !(l.StdDev >= 0) || l.StdDev > maxTokens {
		errs = append(errs, &FieldError{
			Field: field + " stddev", Problem: fmt.Sprintf("%v is not possible", l.StdDev),
			Hint: "0 makes every length the mean",
		})
	}
	return errs
}

// problems lists the fields that cannot be given as extra inputs, because the
// engine depends on writing them itself.
func (x Extra) problems() []error {
	var errs []error
	bad := func(key, hint, format string, args ...any) {
		errs = append(errs, &FieldError{Field: "extra input " + key, Problem: fmt.Sprintf(format, args...), Hint: hint})
	}
	lengths := 0
	seen := make(map[string]bool, len(x))
	for _, f := range x {
		if f.Key == "" || !utf8.ValidString(f.Key) {
			bad(strconv.Quote(f.Key), "", "is not a field's name")
		}
		if seen[f.Key] {
			bad(f.Key, "", "is given twice")
		}
		seen[f.Key] = true
		if _, err := syntax(f.Value); err != nil {
			bad(f.Key, "", "value is not JSON: %v", err)
			continue
		}
		switch f.Key {
		case "model":
			bad(f.Key, "give it with --model", "is set by the run")
		case "messages", "prompt":
			bad(f.Key, "give prompts with --dataset", "is set by the run")
		case "stream":
			if string(f.Value) != "true" {
				bad(f.Key, "", "cannot be %s: nothing can be timed without streaming", f.Value)
			}
		case "max_tokens", "max_completion_tokens":
			lengths++
			if _, err := tokenCount(f.Value); err != nil {
				bad(f.Key, "", "%v", err)
			}
		}
	}
	if lengths > 1 {
		bad("max_completion_tokens", "give one of them", "and max_tokens are the same thing")
	}
	return errs
}

// output is the length that extra inputs fix for every request, if they do.
func (x Extra) output() (tokens int, ok bool) {
	for _, f := range x {
		if f.Key == "max_tokens" || f.Key == "max_completion_tokens" {
			n, err := tokenCount(f.Value)
			return n, err == nil
		}
	}
	return 0, false
}

func (x Extra) has(key string) bool {
	_, ok := x.find(key)
	return ok
}

func (x Extra) find(key string) (int, bool) {
	for i, f := range x {
		if f.Key == key {
			return i, true
		}
	}
	return 0, false
}

var errNotCount = errors.New("is not a whole number of tokens from 1 to " + strconv.Itoa(maxTokens))

func tokenCount(raw json.RawMessage) (int, error) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 1 || n > maxTokens {
		return 0, fmt.Errorf("%s %w", clip(raw), errNotCount)
	}
	return int(n), nil
}

// clip keeps a quoted piece of input short enough for a terminal.
func clip(raw []byte) string {
	const most = 40
	if len(raw) <= most {
		return string(raw)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(raw[cut]) {
		cut--
	}
	return string(raw[:cut]) + "…"
}
