package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatAnEventSays(t *testing.T) {
	for _, tc := range []struct {
		rule, data string
		want       Chunk
	}{
		{"content is text that is not empty", `{"choices":[{"delta":{"content":" w1"}}]}`, Chunk{Choice: true, Content: true, Text: 3}},
		{"a role alone is a choice without content", `{"choices":[{"delta":{"role":"assistant","content":""}}]}`, Chunk{Choice: true}},
		{"null content is none", `{"choices":[{"delta":{"content":null},"finish_reason":null}]}`, Chunk{Choice: true}},
		{"reasoning is not an answer", `{"choices":[{"delta":{"reasoning_content":"hm"}}]}`, Chunk{Choice: true, Reasoning: true, Text: 2}},
		{"reasoning by its other name", `{"choices":[{"delta":{"reasoning":"hm","content":null}}]}`, Chunk{Choice: true, Reasoning: true, Text: 2}},
		{"a tool call is content", `{"choices":[{"delta":{"tool_calls":[{"id":"x"}]}}]}`, Chunk{Choice: true, Content: true}},
		{"no tool call is none", `{"choices":[{"delta":{"tool_calls":[ ]}}]}`, Chunk{Choice: true}},
		{"the completions API has text", `{"choices":[{"text":"a"}]}`, Chunk{Choice: true, Content: true, Text: 1}},
		{"and empty text", `{"choices":[{"text":"","finish_reason":"stop"}]}`, Chunk{Choice: true, Finish: []byte("stop")}},
		{"a finish reason", `{"choices":[{"delta":{"role":"assistant"},"finish_reason":"length"}]}`, Chunk{Choice: true, Finish: []byte("length")}},
		{"no choices", `{"choices":[]}`, Chunk{}},
		{"usage", `{"choices":[],"usage":{"prompt_tokens":6,"completion_tokens":5,"total_tokens":11}}`,
			Chunk{HasUsage: true, Prompt: 6, Completion: 5}},
		{"usage in detail", `{"usage":{"prompt_tokens":6,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}}`,
			Chunk{HasUsage: true, HasCached: true, Prompt: 6, Completion: 5, Cached: 4, Thought: 3}},
		{"null usage is none", `{"choices":[],"usage":null}`, Chunk{}},
		{"an error", `{"error":{"message":"boom","code":500}}`, Chunk{Failed: true, Message: []byte(`{"message":"boom","code":500}`)}},
		{"an error that is a text", `{"error":"boom"}`, Chunk{Failed: true, Message: []byte(`"boom"`)}},
		{"a null error is none", `{"error":null,"choices":[{"delta":{"content":"x"}}]}`, Chunk{Choice: true, Content: true, Text: 1}},
		{"the decoding worker, beyond 2^63", `{"nvext":{"worker_id":{"prefill_worker_id":1,"decode_worker_id":13508364658517883845}}}`,
			Chunk{HasWorker: true, Worker: 13508364658517883845}},
		{"the prefilling worker when it is alone", `{"nvext":{"worker_id":{"prefill_worker_id":7}}}`, Chunk{HasWorker: true, Worker: 7}},
		{"words in the text say nothing", `{"choices":[{"delta":{"content":"\"error\":{} \"finish_reason\":\"stop\""}}]}`, Chunk{Choice: true, Content: true, Text: 33}},
		{"an escaped quote does not end the text", `{"choices":[{"delta":{"content":"\\\""},"finish_reason":"stop"}]}`,
			Chunk{Choice: true, Content: true, Text: 2, Finish: []byte("stop")}},
		{"keys elsewhere say nothing", `{"x":{"error":1,"usage":{"prompt_tokens":9}},"choices":[{"index":0,"logprobs":{"content":[{"token":"a"}]},"delta":{}}]}`, Chunk{Choice: true}},
		{"a key with escapes is read all the same", `{"ch\u006fices":[{"delta":{"c\u006fntent":"x"}}],"nvext":{"worker_id":{"decode_worker_id":18446744073709551615}}}`,
			Chunk{Choice: true, Content: true, Text: 1, HasWorker: true, Worker: 18446744073709551615}},
		{"a key that cannot be without escapes", `{"choices":[{"text":"a","logprobs":{"top_logprobs":[{"\n":-0.5,"\"":-1}]}}]}`, Chunk{Choice: true, Content: true, Text: 1}},
		{"text is counted in UTF-8, escaped or not", `{"choices":[{"delta":{"content":"é\u00e9\u20ac\ud83d\ude00\n\u0041"}}]}`, Chunk{Choice: true, Content: true, Text: 13}},
		{"of every choice", `{"choices":[{"delta":{"content":"ab"}},{"delta":{"content":"cde","reasoning_content":"f"}}]}`,
			Chunk{Choice: true, Content: true, Reasoning: true, Text: 6}},
		{"of content parts, but not what labels them", `{"choices":[{"delta":{"content":[{"type":"text","text":"abc"},{"type":"text","text":"d"}]}}]}`,
			Chunk{Choice: true, Content: true, Text: 4}},
		{"of a tool's name and arguments, but not its id", `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_0123456789","type":"function","function":{"name":"now","arguments":"{\"a\":1}"}}]}}]}`,
			Chunk{Choice: true, Content: true, Text: 10}},
		{"of a function's call by its old name", `{"choices":[{"delta":{"function_call":{"name":"now","arguments":"{}"}}}]}`, Chunk{Choice: true, Content: true, Text: 5}},
		{"space is allowed", " {\n\"choices\" : [ { \"delta\" : { \"content\" : \"x\" } } ] } ", Chunk{Choice: true, Content: true, Text: 1}},
		{"a count that is no whole number is not told", `{"usage":{"prompt_tokens":1.5,"completion_tokens":-2}}`, Chunk{Uncounted: true}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			var got Chunk
			if err := Parse([]byte(tc.data), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Usage whose count of output tokens cannot be read is no usage: such an answer is not one of
// no tokens. The largest number that can be read is.
func TestUsageWithoutAReadableCountIsNone(t *testing.T) {
	for _, count := range []string{`null`, `"8"`, `8.0`, `8e0`, `-8`, `[8]`, `{}`, `true`, `18446744073709551615`, `9223372036854775808`, `99999999999999999999999`} {
		var c Chunk
		data := `{"choices":[],"usage":{"prompt_tokens":6,"completion_tokens":` + count + `}}`
		if err := Parse([]byte(data), &c); err != nil || c.HasUsage || !c.Uncounted || c.Completion != 0 {
			t.Errorf("%s: %+v, %v", data, c, err)
		}
	}
	for data, want := range map[string]Chunk{
		`{"usage":{}}`: {Uncounted: true}, `{"usage":{"prompt_tokens":6}}`: {Uncounted: true, Prompt: 6}, `{"usage":[]}`: {}, `{"usage":"x"}`: {},
		`{"usage":{"completion_tokens":9223372036854775807}}`:                    {HasUsage: true, Completion: 1<<63 - 1},
		`{"usage":{"completion_tokens":0}}`:                                      {HasUsage: true},
		`{"usage":{"completion_tokens":8,"completion_tokens":null}}`:             {Uncounted: true},
		`{"usage":{"completion_tokens":null},"usage":{"completion_tokens":8}}`:   {HasUsage: true, Completion: 8},
		`{"usage":{"prompt_tokens":18446744073709551615,"completion_tokens":8}}`: {HasUsage: true, Completion: 8},
	} {
		var c Chunk
		if err := Parse([]byte(data), &c); err != nil || !cmp.Equal(want, c) {
			t.Errorf("%s: %+v, %v", data, c, err)
		}
	}
}

func TestWhatIsNoObjectIsRefused(t *testing.T) {
	for _, data := range []string{"", "null", "[1]", "<html>", `"x"`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"choices":[}`, `{"a":"b`, `{}{}`, `{"\u0061":1}{}`, `{"\n":1}x`,
		strings.Repeat(`{"a":`, 1000)} {
		var c Chunk
		if err := Parse([]byte(data), &c); err == nil {
			t.Errorf("%.40q was taken", data)
		}
	}
	var c Chunk
	if err := Parse([]byte("[DONE]"), &c); !errors.Is(err, ErrNotObject) {
		t.Errorf("[DONE]: %v", err)
	}
}

func TestReaderSaysWhatParseSays(t *testing.T) {
	shape := func(text, rest string) string {
		return `{"id":"1","choices":[{"index":0,"delta":{"content":"` + text + `","role":"assistant"},` + rest + `}]}`
	}
	var r Reader
	for _, data := range []string{
		shape("a", `"finish_reason":null`), shape("bb", `"finish_reason":null`), shape("", `"finish_reason":null`),
		shape("c", `"finish_reason":null`), shape("d", `"finish_reason":"stop"`), shape("e", `"finish_reason":null`),
		shape(`f\"`, `"finish_reason":null`), shape(`g","finish_reason":"stop","x":"`, `"finish_reason":null`),
		shape("h", `"finish_reason":null`), `{"choices":[],"usage":{"prompt_tokens":1}}`, shape("i", `"finish_reason":null`),
		`{"error":"x"}`, shape("j", `"finish_reason":null`), "nonsense", shape("k", `"finish_reason":null`),
	} {
		var want, got Chunk
		wantErr := Parse([]byte(data), &want)
		gotErr := r.Parse([]byte(data), &got)
		if diff := cmp.Diff(want, got); diff != "" || (wantErr == nil) != (gotErr == nil) {
			t.Errorf("%s: %v, %v (-Parse +Reader):\n%s", data, wantErr, gotErr, diff)
		}
	}
}

func TestParsingAllocatesNothing(t *testing.T) {
	data := []byte(`{"id":"x","choices":[{"index":0,"delta":{"content":" w","role":"assistant","reasoning":"\\u00e9","tool_calls":[{"id":"x","function":{"arguments":"{}"}}]},"finish_reason":null}],"usage":{"prompt_tokens":1},"nvext":{"worker_id":{"decode_worker_id":3}}}`)
	var c Chunk
	if n := testing.AllocsPerRun(100, func() { _ = Parse(data, &c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// slowly is what encoding/json makes of an event.
func slowly(data []byte) (c Chunk, ok bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v map[string]any
	if !json.Valid(data) || d.Decode(&v) != nil || v == nil {
		return c, false
	}
	filled := func(v any) bool {
		switch v := v.(type) {
		case string:
			return v != ""
		case []any:
			return len(v) > 0
		case map[string]any:
			return len(v) > 0
		}
		return false
	}
	choices, _ := v["choices"].([]any)
	for _, one := range choices {
		choice, ok := one.(map[string]any)
		if !ok {
			continue
		}
		c.Choice = true
		for _, key := range []string{"delta", "message"} {
			delta, _ := choice[key].(map[string]any)
			c.Content = c.Content || filled(delta["content"]) || filled(delta["refusal"]) || filled(delta["tool_calls"]) || filled(delta["function_call"])
			c.Reasoning = c.Reasoning || filled(delta["reasoning_content"]) || filled(delta["reasoning"])
		}
		c.Content = c.Content || filled(choice["text"])
	}
	if usage, ok := v["usage"].(map[string]any); ok {
		count, _ := usage["completion_tokens"].(json.Number)
		_, err := strconv.ParseUint(string(count), 10, 63)
		c.HasUsage, c.Uncounted = err == nil, err != nil
	}
	c.Failed = v["error"] != nil
	return c, true
}

// FuzzChunk compares with encoding/json whatever encoding/json accepts.
func FuzzChunk(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"delta":{"content":"x"},"finish_reason":null}]}`, `{"error":{"message":"x"}}`,
		`{"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":1}}}`, `{"choices":[{"text":"\\\""}]}`,
		`{"nvext":{"worker_id":{"decode_worker_id":18446744073709551615}}}`, `{"\rror":{"message":"x"}}`,
	} {
		f.Add([]byte(s), []byte(s))
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var r Reader
		for _, data := range [][]byte{one, two} {
			var c, again Chunk
			err := Parse(data, &c)
			if errAgain := r.Parse(data, &again); (err == nil) != (errAgain == nil) || !cmp.Equal(c, again) {
				t.Fatalf("%q: Parse %+v %v, Reader %+v %v", data, c, err, again, errAgain)
			}
			want, ok := slowly(data)
			if !ok || repeats(data) {
				continue
			}
			if err != nil {
				if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) > maxDepth {
					continue
				}
				t.Fatalf("%q is JSON: %v", data, err)
			}
			if c.Choice != want.Choice || c.Content != want.Content || c.Reasoning != want.Reasoning ||
				c.HasUsage != want.HasUsage || c.Uncounted != want.Uncounted || c.Failed != want.Failed {
				t.Fatalf("%q: got %+v, want %+v", data, c, want)
			}
		}
	})
}

// repeats tells whether some object has a key twice: then both readings take
// the last, but what the first one had inside may still show.
func repeats(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	var walk func() bool
	walk = func() bool {
		token, err := d.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('{'):
			keys := map[string]bool{}
			for d.More() {
				key, err := d.Token()
				if err != nil {
					return false
				}
				name, _ := key.(string)
				if keys[name] {
					return true
				}
				keys[name] = true
				if walk() {
					return true
				}
			}
			_, _ = d.Token()
		case json.Delim('['):
			for d.More() {
				if walk() {
					return true
				}
			}
			_, _ = d.Token()
		}
		return false
	}
	return walk()
}
