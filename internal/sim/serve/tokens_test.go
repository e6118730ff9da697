package serve

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The puppet's model says 5 words where it is left alone, and has room for 64
// tokens.
func TestTokensAreCountedExactly(t *testing.T) {
	user := func(content any) []any { return []any{map[string]any{"role": "user", "content": content}} }
	hi := user("hi")
	words := func(n int) string { return strings.Repeat("word ", n) }
	for _, tt := range []struct {
		name   string
		path   string
		body   map[string]any
		prompt int
		output int
		finish string
	}{
		{"natural length", chatPath, map[string]any{"messages": hi}, 3, 5, "stop"},
		{"cut", chatPath, map[string]any{"messages": hi, "max_tokens": 4}, 3, 4, "length"},
		{"cut by the newer name", chatPath, map[string]any{"messages": hi, "max_completion_tokens": 4}, 3, 4, "length"},
		{"the newer name wins", chatPath, map[string]any{"messages": hi, "max_tokens": 2, "max_completion_tokens": 3}, 3, 3, "length"},
		{"limit not reached", chatPath, map[string]any{"messages": hi, "max_tokens": 9}, 3, 5, "stop"},
		{"limit just reached", chatPath, map[string]any{"messages": hi, "max_tokens": 5}, 3, 5, "stop"},
		{"ignore_eos goes on to the limit", chatPath, map[string]any{"messages": hi, "max_tokens": 9, "ignore_eos": true}, 3, 9, "length"},
		{"ignore_eos, just reached", chatPath, map[string]any{"messages": hi, "max_tokens": 5, "ignore_eos": true}, 3, 5, "length"},
		{"ignore_eos without a limit", chatPath, map[string]any{"messages": hi, "ignore_eos": true}, 3, 5, "stop"},
		{"min_tokens goes on", chatPath, map[string]any{"messages": hi, "min_tokens": 7}, 3, 7, "stop"},
		{"min_tokens below the limit", chatPath, map[string]any{"messages": hi, "min_tokens": 7, "max_tokens": 8}, 3, 7, "stop"},
		{"min_tokens is the limit", chatPath, map[string]any{"messages": hi, "min_tokens": 7, "max_tokens": 7}, 3, 7, "length"},
		{"min_tokens is the limit and the natural length", chatPath, map[string]any{"messages": hi, "min_tokens": 5, "max_tokens": 5}, 3, 5, "length"},
		{"min_tokens above the limit", chatPath, map[string]any{"messages": hi, "min_tokens": 9, "max_tokens": 7}, 3, 7, "length"},
		{"end of the context", chatPath, map[string]any{"messages": user(words(60)), "max_tokens": 9}, 62, 2, "length"},
		{"the last word of the context", chatPath, map[string]any{"messages": user(words(61)), "max_tokens": 1}, 63, 1, "length"},
		{"many choices are one", chatPath, map[string]any{"messages": hi, "n": 2}, 3, 5, "stop"},
		{"no words", chatPath, map[string]any{"messages": user("")}, 2, 5, "stop"},
		{"no content", chatPath, map[string]any{"messages": user(nil)}, 2, 5, "stop"},
		{"blanks of all sorts", chatPath, map[string]any{"messages": user(" one\ttwo\n\u00a0three ")}, 5, 5, "stop"},
		{"content parts", chatPath, map[string]any{"messages": user([]any{map[string]any{"type": "text", "text": "one two"},
			map[string]any{"type": "image_url", "image_url": map[string]any{"url": "x"}}, map[string]any{"type": "text", "text": "three"}})}, 5, 5, "stop"},
		{"two messages", chatPath, map[string]any{"messages": append([]any{map[string]any{"role": "system", "content": "be kind"}}, hi...)}, 6, 5, "stop"},
		{"plain", plainPath, map[string]any{"prompt": "one two three"}, 3, 5, "stop"},
		{"plain, of texts", plainPath, map[string]any{"prompt": []any{"one two", "three"}}, 3, 5, "stop"},
		{"plain, of ids", plainPath, map[string]any{"prompt": []any{1, 2, 3, 4}, "max_tokens": 2}, 4, 2, "length"},
		{"plain, of lists of ids", plainPath, map[string]any{"prompt": []any{[]any{1, 2}, []any{3}}}, 3, 5, "stop"},
		{"stop tokens are never said", plainPath, map[string]any{"prompt": "one", "stop_token_ids": []any{1}, "stop": []any{7}}, 1, 5, "stop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stream, whole := askBoth(t, serverOf(t, newPuppet()).Frontend(), tt.path, tt.body)
			if stream.parts != tt.output {
				t.Errorf("%d tokens in %d events", tt.output, stream.parts)
			}
			for _, s := range []said{stream, whole} {
				if s.prompt != tt.prompt || s.output != tt.output || s.finish != tt.finish {
					t.Errorf("prompt %d, output %d, %s; want %d, %d, %s", s.prompt, s.output, s.finish, tt.prompt, tt.output, tt.finish)
				}
				if n := len(strings.Fields(s.text)); n != tt.output {
					t.Errorf("%d words for %d tokens: %q", n, tt.output, s.text)
				}
			}
			if stream.text != whole.text {
				t.Errorf("streamed %q, else %q", stream.text, whole.text)
			}
		})
	}
}

// Whatever the stop strings, the stream says what the whole says, which is the
// unstopped text up to the first of them.
func TestAStopStringIsNeverSaid(t *testing.T) {
	h := serverOf(t, newPuppet()).Frontend()
	rapid.Check(t, func(rt *rapid.T) {
		body := map[string]any{"prompt": rapid.StringMatching(`[a-z]{1,3}( [a-z]){0,2}`).Draw(rt, "prompt"), "max_tokens": 20, "ignore_eos": true}
		free, _ := askBoth(t, h, plainPath, maps.Clone(body))
		stop := rapid.OneOf(
			rapid.StringMatching(`[ w0-9]{1,3}`), // often there, often in part
			rapid.Custom(func(rt *rapid.T) string { // there for sure
				from := rapid.IntRange(0, len(free.text)-1).Draw(rt, "from")
				return free.text[from:rapid.IntRange(from+1, min(len(free.text), from+20)).Draw(rt, "to")]
			}),
			rapid.Custom(func(rt *rapid.T) string { // begun, never ended
				from := rapid.IntRange(0, len(free.text)-1).Draw(rt, "from")
				return free.text[from:] + "."
			}),
		)
		stops := rapid.SliceOfN(stop, 1, 3).Draw(rt, "stops")
		body["stop"] = stops
		stream, whole := askBoth(t, h, plainPath, body)

		// The first token with which one is complete is the last; the text ends
		// where the first of those begins that are complete by then.
		want, tokens, finish := free.text, 20, "length"
		for n := 1; n <= 20; n++ {
			text, cut := free.text[:n*wordLength], -1
			for _, s := range stops {
				if i := strings.Index(text, s); i >= 0 && (cut < 0 || i < cut) {
					cut = i
				}
			}
			if cut >= 0 {
				want, tokens, finish = text[:cut], n, "stop"
				break
			}
		}
		for _, s := range []said{stream, whole} {
			if s.text != want || s.output != tokens || s.finish != finish {
				rt.Fatalf("%q, %d tokens, %s; want %q, %d, %s", s.text, s.output, s.finish, want, tokens, finish)
			}
		}
	})
}

// Of the stop strings that one token completes, the one that begins first counts.
func TestTheFirstBeginningCounts(t *testing.T) {
	a, refused := parse([]byte(`{"model":"m","prompt":"hi","max_tokens":4,"ignore_eos":true}`), plain)
	if refused != nil {
		t.Fatal(refused.message)
	}
	free, _ := planOf(a, 1, 64)
	text := string(free.appendText(nil, 0, 4*wordLength))
	for _, stops := range [][]string{
		{text[7:9], text[3:10]},
		{text[3:10], text[7:9]},
	} {
		a.stops = stops
		p, _ := planOf(a, 1, 64)
		if p.output != 2 || p.visible(2) != 3 {
			t.Errorf("of %q, stopped by %q: %d tokens, %d bytes", text, stops, p.output, p.visible(2))
		}
	}
}

// The stopper agrees with what looks at the whole text each time.
func TestTheStopperSeesWhatIsThere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`(aab|aabaa|a|b){1,12}`).Draw(rt, "text")
		stops := rapid.SliceOfN(rapid.StringMatching(`(aab|aa|ab){1,4}`), 1, 4).Draw(rt, "stops")
		s := newStopper(stops)
		for n := 1; n <= len(text); n++ {
			completed, held := 0, 0
			for _, stop := range stops {
				for k := range len(stop) + 1 {
					if strings.HasSuffix(text[:n], stop[:k]) {
						held = max(held, k)
						if k == len(stop) {
							completed = max(completed, k)
						}
					}
				}
			}
			if got := s.feed(text[n-1]); got != completed || s.held() != held {
				rt.Fatalf("after %q: completed %d, held %d; want %d, %d", text[:n], got, s.held(), completed, held)
			}
		}
	})
}

// What could be the beginning of a stop string is not shown before it is known
// not to be.
func TestTheBeginningOfAStopStringIsHeldBack(t *testing.T) {
	a, refused := parse([]byte(`{"model":"m","prompt":"hi","max_tokens":4,"ignore_eos":true}`), plain)
	if refused != nil {
		t.Fatal(refused.message)
	}
	free, _ := planOf(a, 1, 64)
	text := string(free.appendText(nil, 0, 4*wordLength))
	a.stops = []string{text[4:10] + "!", text[15:20]}
	p, _ := planOf(a, 1, 64)
	var shown []string
	for n := range 5 {
		shown = append(shown, string(p.appendText(nil, 0, p.visible(n))))
	}
	// The first stop string is broken off in the second word; the second is
	// complete in the fourth.
	want := []string{"", text[:4], text[:12], text[:15], text[:15]}
	if !slices.Equal(shown, want) {
		t.Errorf("of %q: %q, want %q", text, shown, want)
	}
	if p.output != 4 || p.finish != "stop" {
		t.Errorf("%d tokens, %s", p.output, p.finish)
	}
}

func TestTheSamePromptHasTheSameAnswer(t *testing.T) {
	ask := func(path string, body map[string]any) string {
		s, _ := askBoth(t, serverOf(t, newPuppet()).Frontend(), path, body)
		return s.text
	}
	one := ask(plainPath, map[string]any{"prompt": "one two"})
	if again := ask(plainPath, map[string]any{"prompt": "one two"}); again != one {
		t.Errorf("%q, then %q", one, again)
	}
	others := []string{
		one,
		ask(plainPath, map[string]any{"prompt": "two one"}),
		ask(plainPath, map[string]any{"prompt": []any{1, 2}}),
		ask(chatPath, map[string]any{"messages": []any{map[string]any{"role": "user", "content": "one two"}}}),
		ask(chatPath, map[string]any{"messages": []any{map[string]any{"role": "system", "content": "one two"}}}),
	}
	slices.Sort(others)
	if len(slices.Compact(others)) != 5 {
		t.Errorf("different prompts have the same answer: %q", others)
	}
}

// The prefix cache knows a prompt by its whole blocks, each of which stands for
// all that came before it.
func TestBlocksAreThoseOfThePromptsWords(t *testing.T) {
	of := func(text string) []uint64 {
		a, refused := parse(encode(map[string]string{"model": "m", "prompt": text}), plain)
		if refused != nil {
			t.Fatal(refused.message)
		}
		return a.prompt.blocks
	}
	words := strings.Split("a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5", " ")
	join := func(words []string) string { return strings.Join(words, " ") }
	if n := len(of(join(words[:15]))); n != 0 {
		t.Errorf("15 words have %d blocks", n)
	}
	all := of(join(words))
	if len(all) != 2 {
		t.Fatalf("32 words have %d blocks", len(all))
	}
	if other := of(join(words[:31]) + " other"); other[0] != all[0] || other[1] == all[1] {
		t.Error("the last of 32 words is told by the second block and not by the first")
	}
	if other := of("other " + join(words[1:])); other[0] == all[0] || other[1] == all[1] {
		t.Error("the first of 32 words is told by both blocks")
	}
}

// One of each parameter that openai-python 2's create methods have, and of those
// that vLLM's clients send beside them.
func TestNoParameterOfTheClientsIsRefused(t *testing.T) {
	const shared = `frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop stream
		temperature top_p user ignore_eos min_tokens top_k min_p repetition_penalty stop_token_ids skip_special_tokens
		include_stop_str_in_output guided_json priority nvext cache_salt best_of`
	for e, names := range map[endpoint]string{
		chat: shared + ` audio function_call functions max_completion_tokens metadata modalities parallel_tool_calls
			prediction prompt_cache_key prompt_cache_retention reasoning_effort response_format safety_identifier service_tier store tool_choice
			tools top_logprobs verbosity web_search_options chat_template chat_template_kwargs add_generation_prompt`,
		plain: shared + ` echo suffix`,
	} {
		body := map[string]any{"model": "m", "messages": []any{map[string]any{"role": "user", "content": "hi"}}}
		if e == plain {
			body = map[string]any{"model": "m", "prompt": "hi"}
		}
		for name := range strings.FieldsSeq(names) {
			body[name] = nil
		}
		if _, refused := parse(encode(body), e); refused != nil {
			t.Errorf("%s: %s", e, refused.message)
		}
	}
}

func FuzzRequestBody(f *testing.F) {
	for _, tt := range transcripts {
		if _, body, ok := strings.Cut(tt.request, "\r\n\r\n"); ok {
			f.Add([]byte(body), strings.Contains(tt.request, chatPath))
		}
	}
	f.Add([]byte(`{"model":"m","prompt":[[1,2],[3]],"stop":["a","ab"],"min_tokens":4294967295}`), false)
	f.Fuzz(func(t *testing.T, body []byte, chatty bool) {
		e := plain
		if chatty {
			e = chat
		}
		a, refused := parse(body, e)
		if refused != nil {
			if refused.status != 400 || refused.message == "" || !json.Valid(encode(refused.page())) {
				t.Errorf("refused with %+v", refused)
			}
			return
		}
		if !json.Valid(body) || a.model == "" || a.prompt.tokens == 0 || len(a.prompt.blocks) != a.prompt.tokens/16 {
			t.Errorf("accepted %q as %+v", body, a)
		}
		p, refused := planOf(a, 5, 64)
		if refused != nil {
			return
		}
		if p.output < 1 || p.output+a.prompt.tokens > 64 || a.atMost > 0 && p.output > a.atMost {
			t.Errorf("%d tokens for %+v", p.output, a)
		}
		for n := range p.output {
			if p.visible(n) > p.visible(n+1) || p.visible(n+1) > (n+1)*wordLength {
				t.Errorf("after %d tokens %d bytes are shown, then %d", n, p.visible(n), p.visible(n+1))
			}
		}
	})
}
