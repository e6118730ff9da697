package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
)

func keepCompletions(t *testing.T, s *server) {
	client := s.client()
	for _, c := range []struct {
		name   string
		prompt openai.CompletionNewParamsPromptUnion
		atMost int64 // 0: not said
		finish string
		tokens tokens
	}{
		{"a text", openai.CompletionNewParamsPromptUnion{OfString: openai.String("once upon a time")}, 6,
			"length", tokens{4, 6, 10}},
		{"no limit", openai.CompletionNewParamsPromptUnion{OfString: openai.String("once upon a time")}, 0,
			"stop", tokens{4, naturalLength, 4 + naturalLength}},
		{"texts, and they are one", openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"once upon", "a time"}}, 2,
			"length", tokens{4, 2, 6}},
		{"token ids", openai.CompletionNewParamsPromptUnion{OfArrayOfTokens: []int64{7, 8, 9}}, 2,
			"length", tokens{3, 2, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			params := openai.CompletionNewParams{Model: openai.CompletionNewParamsModel(s.Model), Prompt: c.prompt}
			if c.atMost > 0 {
				params.MaxTokens = openai.Int(c.atMost)
			}
			whole, err := client.Completions.New(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			if len(whole.Choices) != 1 || !strings.HasPrefix(whole.ID, "cmpl-") || whole.Object != "text_completion" {
				t.Fatalf("the answer: %s", whole.RawJSON())
			}
			text := whole.Choices[0].Text
			want := said{text, c.finish, c.tokens}
			if diff := cmp.Diff(want, said{text, string(whole.Choices[0].FinishReason), tokensOf(whole.Usage)}); diff != "" {
				t.Error("whole (-want +got):\n" + diff)
			}
			if words := int64(len(strings.Fields(text))); words != c.tokens.Completion {
				t.Errorf("%d words in %q, want one a token: %d", words, text, c.tokens.Completion)
			}

			params.StreamOptions.IncludeUsage = openai.Bool(true)
			stream := client.Completions.NewStreaming(t.Context(), params)
			defer stream.Close()
			var got said
			for stream.Next() {
				chunk := stream.Current()
				for _, choice := range chunk.Choices {
					got.Text += choice.Text
					got.Finish += string(choice.FinishReason)
				}
				if chunk.JSON.Usage.Valid() {
					got.Tokens = tokensOf(chunk.Usage)
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error("streamed (-want +got):\n" + diff)
			}
		})
	}
}
