package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// said is what an answer to a chat came down to.
type said struct {
	Text   string
	Finish string
	Tokens tokens
}

// way is a way to get an answer.
type way func(context.Context, *openai.Client, openai.ChatCompletionNewParams) (said, error)

func ways() map[string]way { return map[string]way{"whole": ask, "streamed": listen} }

// ask asks for a whole answer.
func ask(ctx context.Context, c *openai.Client, params openai.ChatCompletionNewParams) (said, error) {
	whole, err := c.Chat.Completions.New(ctx, params)
	if err != nil {
		return said{}, err
	}
	return saidBy(whole)
}

// listen asks for a stream, and puts it together as the client does. What came
// before an error is returned with it.
func listen(ctx context.Context, c *openai.Client, params openai.ChatCompletionNewParams) (said, error) {
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	var text strings.Builder
	var finished []string
	for stream.Next() {
		chunk := stream.Current()
		if chunk.Object != "chat.completion.chunk" || !acc.AddChunk(chunk) {
			return said{}, fmt.Errorf("not a chunk that the accumulator takes: %s", chunk.RawJSON())
		}
		for _, choice := range chunk.Choices {
			text.WriteString(choice.Delta.Content)
		}
		if content, ok := acc.JustFinishedContent(); ok {
			finished = append(finished, content)
		}
	}
	if err := stream.Err(); err != nil {
		return said{Text: text.String()}, err
	}
	got, err := saidBy(&acc.ChatCompletion)
	switch {
	case err != nil:
		return said{}, err
	case got.Text != text.String():
		return said{}, fmt.Errorf("the deltas are %q, the accumulator has %q", &text, got.Text)
	case got.Text != "" && got.Finish != "" && !slices.Equal(finished, []string{got.Text}):
		return said{}, fmt.Errorf("the content was finished with %q, the accumulator has %q", finished, got.Text)
	}
	return got, nil
}

// saidBy takes down an answer that is well formed.
func saidBy(c *openai.ChatCompletion) (said, error) {
	switch {
	case len(c.Choices) != 1:
		return said{}, fmt.Errorf("%d choices", len(c.Choices))
	case !strings.HasPrefix(c.ID, "chatcmpl-"), c.Object != "chat.completion", c.Created == 0, c.Choices[0].Message.Role != "assistant":
		return said{}, fmt.Errorf("an answer with id %q, object %q, created %d, role %q",
			c.ID, c.Object, c.Created, c.Choices[0].Message.Role)
	}
	return said{c.Choices[0].Message.Content, c.Choices[0].FinishReason, tokensOf(c.Usage)}, nil
}

// chat is a short conversation with the model.
func (s *server) chat(prompt string, atMost int64) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: s.Model, MaxTokens: openai.Int(atMost),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
	}
}

// naturalLength is how many tokens the model of the scenario says when nobody
// stops it.
const naturalLength = 64

func keepChat(t *testing.T, s *server) {
	type messages = []openai.ChatCompletionMessageParamUnion
	hello := messages{openai.UserMessage("how are you")}
	for _, c := range []struct {
		name   string
		params openai.ChatCompletionNewParams
		finish string
		tokens tokens
	}{
		{"max_tokens", openai.ChatCompletionNewParams{Messages: hello, MaxTokens: openai.Int(5)},
			"length", tokens{5, 5, 10}},
		{"max_completion_tokens", openai.ChatCompletionNewParams{Messages: hello, MaxCompletionTokens: openai.Int(3)},
			"length", tokens{5, 3, 8}},
		{"no limit", openai.ChatCompletionNewParams{Messages: hello},
			"stop", tokens{5, naturalLength, 5 + naturalLength}},
		{"a limit that is not reached", openai.ChatCompletionNewParams{Messages: hello, MaxTokens: openai.Int(1000)},
			"stop", tokens{5, naturalLength, 5 + naturalLength}},
		{"a conversation", openai.ChatCompletionNewParams{MaxTokens: openai.Int(4), Messages: messages{
			openai.SystemMessage("be brief"), openai.UserMessage("how are you"),
			openai.AssistantMessage("fine"), openai.UserMessage("why")}},
			"length", tokens{1 + 3 + 4 + 2 + 2, 4, 16}},
		{"a developer and a tool", openai.ChatCompletionNewParams{MaxTokens: openai.Int(2), Messages: messages{
			openai.DeveloperMessage("be brief"), openai.ToolMessage("21 degrees", "call-1")}},
			"length", tokens{1 + 3 + 3, 2, 9}},
		{"content parts", openai.ChatCompletionNewParams{MaxTokens: openai.Int(2), Messages: messages{
			openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
				openai.TextContentPart("how are"), openai.TextContentPart("you")})}},
			"length", tokens{5, 2, 7}},
		{"n is 2, and as with Dynamo one choice is given", openai.ChatCompletionNewParams{
			Messages: hello, MaxTokens: openai.Int(2), N: openai.Int(2)},
			"length", tokens{5, 2, 7}},
		{"temperature and top_p", openai.ChatCompletionNewParams{
			Messages: hello, MaxTokens: openai.Int(2), Temperature: openai.Float(0.7), TopP: openai.Float(0.9)},
			"length", tokens{5, 2, 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.params.Model = s.Model
			whole, err := ask(t.Context(), s.client(), c.params)
			if err != nil {
				t.Fatal(err)
			}
			want := said{whole.Text, c.finish, c.tokens}
			if diff := cmp.Diff(want, whole); diff != "" {
				t.Error("whole (-want +got):\n" + diff)
			}
			if words := int64(len(strings.Fields(whole.Text))); words != c.tokens.Completion {
				t.Errorf("%d words in %q, want one a token: %d", words, whole.Text, c.tokens.Completion)
			}
			streamed, err := listen(t.Context(), s.client(), c.params)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, streamed); diff != "" {
				t.Error("streamed (-want +got):\n" + diff)
			}
		})
	}
}

func keepStop(t *testing.T, s *server) {
	client, params := s.client(), s.chat("tell me of stop strings", 8)
	free, err := ask(t.Context(), client, params)
	if err != nil {
		t.Fatal(err)
	}
	third := strings.Fields(free.Text)[2]
	before, _, _ := strings.Cut(free.Text, third)
	want := said{before, "stop", tokens{free.Tokens.Prompt, 3, free.Tokens.Prompt + 3}}
	for name, stop := range map[string]openai.ChatCompletionNewParamsStopUnion{
		"one":  {OfString: openai.String(third)},
		"many": {OfStringArray: []string{"never", third}},
	} {
		params.Stop = stop
		for how, get := range ways() {
			got, err := get(t.Context(), client, params)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, how, diff)
			}
		}
	}
}

func keepUsageOnRequest(t *testing.T, s *server) {
	stream := s.client().Chat.Completions.NewStreaming(t.Context(), s.chat("hello", 3))
	defer stream.Close()
	chunks := 0
	for ; stream.Next(); chunks++ {
		if chunk := stream.Current(); chunk.JSON.Usage.Valid() || len(chunk.Choices) != 1 {
			t.Errorf("not asked for: %s", chunk.RawJSON())
		}
	}
	if stream.Err() != nil || chunks != 3+1 {
		t.Errorf("%d chunks, error %v; want one a token and one with the finish reason", chunks, stream.Err())
	}
}

func keepExtensions(t *testing.T, s *server) {
	client := s.client(option.WithJSONSet("nvext", map[string]any{"extra_fields": []string{"worker_id"}}))
	whole, err := client.Chat.Completions.New(t.Context(), s.chat("who serves", 1))
	if err != nil {
		t.Fatal(err)
	}
	got := whole.JSON.ExtraFields["nvext"].Raw()
	if !slices.ContainsFunc(s.Workers, func(w struct{ ID, Metrics string }) bool {
		return got == `{"worker_id":{"prefill_worker_id":`+w.ID+`,"decode_worker_id":`+w.ID+`}}`
	}) {
		t.Errorf("the answer names %s, want one of %v", got, s.Workers)
	}
}

func keepParallel(t *testing.T, s *server) {
	const clients = 16
	client := s.client()
	var openings [clients]string // the answers differ in length anyway
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			params := s.chat(fmt.Sprintf("question %d", i), int64(10+i))
			want := said{Finish: "length", Tokens: tokens{4, int64(10 + i), int64(14 + i)}}
			for _, get := range []way{ask, listen, ask} {
				got, err := get(t.Context(), client, params)
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				if want.Text == "" {
					want.Text = got.Text
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("client %d (-want +got):\n%s", i, diff)
				}
			}
			openings[i] = want.Text[:min(40, len(want.Text))]
		})
	}
	wg.Wait()
	slices.Sort(openings[:])
	if got := len(slices.Compact(openings[:])); got != clients {
		t.Errorf("%d different answers to %d questions", got, clients)
	}
	s.awaitRunning(t, 0)
}
