package conformance

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

// unset are the fields of params, by their JSON names, that say nothing. A newer
// client with a new parameter shows here.
func unset(params any) (names []string) {
	v := reflect.ValueOf(params)
	for _, field := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if len(field.Index) == 1 && name != "" && name != "-" && v.FieldByIndex(field.Index).IsZero() {
			names = append(names, name)
		}
	}
	return names
}

func keepChatParameters(t *testing.T, s *server) {
	nothing := shared.FunctionParameters{"type": "object"}
	params := openai.ChatCompletionNewParams{
		Messages:             []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
		Model:                s.Model,
		FrequencyPenalty:     openai.Float(0.5),
		Logprobs:             openai.Bool(true),
		MaxCompletionTokens:  openai.Int(2),
		MaxTokens:            openai.Int(2),
		N:                    openai.Int(1),
		PresencePenalty:      openai.Float(-0.5),
		PromptCacheKey:       openai.String("key"),
		SafetyIdentifier:     openai.String("someone"),
		Seed:                 openai.Int(7),
		Store:                openai.Bool(false),
		Temperature:          openai.Float(0),
		TopLogprobs:          openai.Int(2),
		TopP:                 openai.Float(1),
		ParallelToolCalls:    openai.Bool(true),
		User:                 openai.String("someone"),
		Audio:                openai.ChatCompletionAudioParam{Format: "wav", Voice: openai.ChatCompletionAudioParamVoiceUnion{OfString: openai.String("alloy")}},
		LogitBias:            map[string]int64{"50256": -100},
		Metadata:             shared.Metadata{"team": "a"},
		Modalities:           []string{"text"},
		PromptCacheRetention: openai.ChatCompletionNewParamsPromptCacheRetention24h,
		ReasoningEffort:      shared.ReasoningEffortLow,
		ServiceTier:          openai.ChatCompletionNewParamsServiceTierAuto,
		Stop:                 openai.ChatCompletionNewParamsStopUnion{OfString: openai.String("never")},
		StreamOptions:        openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true), IncludeObfuscation: openai.Bool(false)},
		Verbosity:            openai.ChatCompletionNewParamsVerbosityLow,
		FunctionCall:         openai.ChatCompletionNewParamsFunctionCallUnion{OfFunctionCallMode: openai.String("none")},
		Functions:            []openai.ChatCompletionNewParamsFunction{{Name: "f", Parameters: nothing}},
		Prediction:           openai.ChatCompletionPredictionContentParam{Content: openai.ChatCompletionPredictionContentContentUnionParam{OfString: openai.String("hello")}},
		ResponseFormat:       openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONObject: &shared.ResponseFormatJSONObjectParam{}},
		ToolChoice:           openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("auto")},
		Tools:                []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "f", Parameters: nothing})},
		WebSearchOptions:     openai.ChatCompletionNewParamsWebSearchOptions{SearchContextSize: "low"},
	}
	params.Moderation.Model = "omni-moderation-latest"
	params.PromptCacheOptions.Mode = "auto"
	if names := unset(params); len(names) > 0 {
		t.Errorf("parameters that are not sent: %v", names)
	}
	got, err := listen(t.Context(), s.client(), params)
	if err != nil {
		t.Fatalf("%v\n%s", err, answerOf(t, err))
	}
	if want := (tokens{3, 2, 5}); got.Tokens != want {
		t.Errorf("%+v, want %+v", got.Tokens, want)
	}
}

func keepCompletionParameters(t *testing.T, s *server) {
	params := openai.CompletionNewParams{
		Prompt:           openai.CompletionNewParamsPromptUnion{OfString: openai.String("hello")},
		Model:            openai.CompletionNewParamsModel(s.Model),
		BestOf:           openai.Int(1),
		Echo:             openai.Bool(false),
		FrequencyPenalty: openai.Float(0.5),
		Logprobs:         openai.Int(1),
		MaxTokens:        openai.Int(2),
		N:                openai.Int(1),
		PresencePenalty:  openai.Float(0.5),
		Seed:             openai.Int(7),
		Suffix:           openai.String("the end"),
		Temperature:      openai.Float(0),
		TopP:             openai.Float(1),
		User:             openai.String("someone"),
		LogitBias:        map[string]int64{"50256": -100},
		Stop:             openai.CompletionNewParamsStopUnion{OfString: openai.String("never")},
		StreamOptions:    openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	if names := unset(params); len(names) > 0 {
		t.Errorf("the client has parameters that this test does not send: %q", names)
	}
	stream := s.client().Completions.NewStreaming(t.Context(), params)
	defer stream.Close()
	var last openai.Completion
	for stream.Next() {
		last = stream.Current()
	}
	if err := stream.Err(); err != nil {
		t.Fatalf("%v\n%s", err, answerOf(t, err))
	}
	if got, want := tokensOf(last.Usage), (tokens{1, 2, 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
