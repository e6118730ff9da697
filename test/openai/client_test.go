package conformance

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
)

func TestOfficialClient(t *testing.T) {
	program := build(t)
	for _, rule := range []struct {
		name string
		keep func(*testing.T, *server)
	}{
		{"models are listed and found", keepModels},
		{"an answer is the same whole and streamed", keepChat},
		{"a stop string ends the answer and is not in it", keepStop},
		{"a stream has no usage unless it is asked for", keepUsageOnRequest},
		{"a legacy completion is the same whole and streamed", keepCompletions},
		{"every official parameter of a chat is taken", keepChatParameters},
		{"every official parameter of a completion is taken", keepCompletionParameters},
		{"NVIDIA's extensions pass through", keepExtensions},
		{"16 clients at once get their own answers", keepParallel},
		{"a bad request is an error with its status, at once", keepRefusals},
		{"without workers there is no model", keepNoWorkers},
		{"dead workers are a 500", keepDeadWorkers},
		{"an error in mid-stream ends the stream with it", keepErrorEvent},
		{"a reset in mid-stream ends the stream with an error", keepReset},
		{"a truncated stream has no finish reason", keepTruncated},
		{"an answer without tokens is empty and whole", keepZeroTokens},
		{"by default an error is retried twice", keepGivingUp},
		{"a retry gets what the first try did not", keepRetry},
		{"with patience half of the requests failing is no matter", keepPatience},
		{"a cancelled stream leaves the worker", keepCancel},
		{"an interrupt ends a stream with an error", keepInterrupt},
	} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			rule.keep(t, start(t, program))
		})
	}
}

func keepModels(t *testing.T, s *server) {
	client := s.client()
	page, err := client.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range page.Data {
		ids = append(ids, m.ID)
	}
	if diff := cmp.Diff([]string{s.Model}, ids); diff != "" {
		t.Error("the list (-want +got):\n" + diff)
	}

	var paged []string
	pages := client.Models.ListAutoPaging(t.Context())
	for pages.Next() {
		paged = append(paged, pages.Current().ID)
	}
	if pages.Err() != nil || !slices.Equal(paged, ids) {
		t.Errorf("page by page: %q, error %v", paged, pages.Err())
	}

	model, err := client.Models.Get(t.Context(), s.Model)
	if err != nil {
		t.Fatal(err)
	}
	if model.ID != s.Model || model.Object != "model" || model.OwnedBy == "" || model.Created == 0 {
		t.Errorf("the model: %s", model.RawJSON())
	}

	_, err = client.Models.Get(t.Context(), "nobody")
	wantRefusal(t, err, 404, "Model not found")
}

// tokens is a usage.
type tokens struct{ Prompt, Completion, Total int64 }

func tokensOf(u openai.CompletionUsage) tokens {
	return tokens{u.PromptTokens, u.CompletionTokens, u.TotalTokens}
}
