package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// endpoint is one of the two ways to ask for a completion.
type endpoint string

// The endpoints, as the metrics name them.
const (
	chat  endpoint = "chat_completions"
	plain endpoint = "completions"
)

// ask is what a completion request asks for.
type ask struct {
	endpoint   endpoint
	model      string
	stream     bool
	usage      bool // at the end of a stream
	everyUsage bool // in every event of it
	prompt     prompt
	atMost     int // tokens; 0: not said
	atLeast    int
	ignoreEOS  bool
	stops      []string
	nameWorker bool
	timing     bool
}

// kind is how the metrics name the way of the answer.
func (a *ask) kind() string {
	if a.stream {
		return "stream"
	}
	return "unary"
}

// parameters are the fields that every completion request may have. Those that
// change nothing here are known so that no client is refused for them.
var parameters = []string{
	// OpenAI's
	"model", "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "n", "presence_penalty", "seed",
	"stop", "stream", "stream_options", "temperature", "top_p", "user",
	// vLLM's and Dynamo's
	"add_special_tokens", "allowed_token_ids", "bad_words", "bad_words_token_ids", "best_of", "cache_salt",
	"detokenize", "echo", "guided_choice", "guided_decoding_backend", "guided_grammar", "guided_json",
	"guided_regex", "guided_whitespace_pattern", "ignore_eos", "include_stop_str_in_output",
	"kv_transfer_params", "length_penalty", "logits_processors", "min_p", "min_tokens", "nvext", "priority",
	"prompt_logprobs", "repetition_penalty", "request_id", "return_token_ids", "return_tokens_as_token_ids",
	"response_format", "skip_special_tokens", "spaces_between_special_tokens", "stop_token_ids",
	"structured_outputs", "top_k", "truncate_prompt_tokens", "use_beam_search", "vllm_xargs",
}

// ownParameters are those that only one endpoint knows.
var ownParameters = map[endpoint][]string{
	chat: {
		"messages", "audio", "function_call", "functions", "max_completion_tokens", "metadata", "modalities", "moderation",
		"parallel_tool_calls", "prediction", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort",
		"safety_identifier", "service_tier", "store", "tool_choice", "tools", "top_logprobs", "verbosity",
		"web_search_options",
		"add_generation_prompt", "chat_template", "chat_template_args", "chat_template_kwargs",
		"continue_final_message", "documents", "include_reasoning", "media_io_kwargs", "mm_processor_kwargs",
		"thinking_token_budget",
	},
	plain: {"prompt", "prompt_embeds", "suffix"},
}

// extensions are the fields of nvext.
var extensions = []string{
	"greed_sampling", "use_raw_prompt", "annotations", "backend_instance_id", "token_data", "max_thinking_tokens",
	"cache_salt", "extra_fields", "metadata_upload", "prefill_worker_id", "decode_worker_id", "dp_rank",
	"prefill_dp_rank", "agent_hints", "request_timestamp_ms", "routing_constraints", "router",
}

// roles are those that a message may have.
var roles = []string{"developer", "system", "user", "assistant", "tool", "function"}

// maxStops is how many stop strings a request may have.
const maxStops = 32

// parse reads a completion request. Of a request that it could decode and
// refuses all the same, the ask tells the metrics what it was.
func parse(body []byte, e endpoint) (*ask, *refusal) {
	a := &ask{endpoint: e}
	f, refused := open(body)
	if refused != nil {
		return a, refused
	}
	a.readSwitches(f)
	switch e {
	case chat:
		a.readMessages(f)
	case plain:
		a.readPrompt(f)
	}
	a.readExtensions(f)
	f.checkNames(e)
	a.readLimits(f)
	a.readStops(f)
	if strings.TrimSpace(a.model) == "" {
		f.invalid("Model cannot be empty")
	}
	if f.undecodable != "" {
		return &ask{endpoint: e}, f.verdict()
	}
	return a, f.verdict()
}

func (a *ask) readSwitches(f fields) {
	if f.need("model") {
		read(f, "model", "a string", &a.model)
	}
	read(f, "stream", "a boolean", &a.stream)
	read(f, "ignore_eos", "a boolean", &a.ignoreEOS)
	options := struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	}{}
	if read(f, "stream_options", "stream options", &options) {
		a.usage, a.everyUsage = options.IncludeUsage, options.ContinuousUsageStats
		if !a.stream {
			f.invalid("The 'stream_options' field is only allowed when 'stream' is set to true.")
		}
	}
}

// readMessages makes tokens of a conversation: one that begins it, one that
// begins each message, and the words.
func (a *ask) readMessages(f fields) {
	var messages []map[string]json.RawMessage
	if !f.need("messages") || !read(f, "messages", "a list of messages", &messages) {
		return
	}
	a.prompt.add(sumOf("<conversation>"))
	for _, m := range messages {
		message := f.within(m)
		var role string
		if !message.need("role") || !read(message, "role", "a string", &role) {
			return
		}
		if !slices.Contains(roles, role) {
			f.fail(fmt.Sprintf("unknown variant `%s`, expected one of `%s` at %s", cut(role), strings.Join(roles, "`, `"), f.end))
			return
		}
		a.prompt.add(sumOf("<" + role + ">"))
		if content, said := m["content"]; said && !a.prompt.addContent(content) {
			f.mistyped(content, "a string or a list of content parts")
			return
		}
	}
	if len(messages) == 0 {
		f.invalid("The 'messages' field cannot be empty. At least one message is required.")
	}
}

// addContent takes in a message's content: words, or parts of which some have
// words.
func (p *prompt) addContent(content json.RawMessage) bool {
	var text *string
	if json.Unmarshal(content, &text) == nil {
		if text != nil {
			p.addWords(*text)
		}
		return true
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return false
	}
	for _, part := range parts {
		p.addWords(part.Text)
	}
	return true
}

// readPrompt takes in a text, a list of texts, a list of token ids, or a list of
// such lists.
func (a *ask) readPrompt(f fields) {
	if !f.need("prompt") {
		return
	}
	raw := f.members["prompt"]
	if !a.prompt.addPrompt(raw) {
		f.mistyped(raw, "a string, a list of strings, or lists of token ids")
		return
	}
	if a.prompt.tokens == 0 {
		f.invalid("Prompt string cannot be empty")
	}
}

func (p *prompt) addPrompt(raw json.RawMessage) bool {
	var text string
	var texts []string
	var ids []uint32
	var lists [][]uint32
	switch {
	case isNull(raw):
		return false
	case json.Unmarshal(raw, &text) == nil:
		p.addWords(text)
	case json.Unmarshal(raw, &texts) == nil:
		for _, text := range texts {
			p.addWords(text)
		}
	case json.Unmarshal(raw, &ids) == nil:
		p.addIDs(ids)
	case json.Unmarshal(raw, &lists) == nil:
		for _, ids := range lists {
			p.addIDs(ids)
		}
	default:
		return false
	}
	return true
}

func (p *prompt) addIDs(ids []uint32) {
	for _, id := range ids {
		p.add(mix(uint64(id)))
	}
}

func (a *ask) readExtensions(f fields) {
	var members map[string]json.RawMessage
	if !read(f, "nvext", "NVIDIA's extensions", &members) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(extensions, name) {
			f.fail(fmt.Sprintf("unknown field `%s`, expected one of `%s` at %s", cut(name), strings.Join(extensions, "`, `"), f.end))
			return
		}
	}
	var extra []string
	read(f.within(members), "extra_fields", "a list of strings", &extra)
	a.nameWorker = slices.Contains(extra, "worker_id")
	a.timing = slices.Contains(extra, "timing")
}

func (a *ask) readLimits(f fields) {
	var n, most, completion *uint32
	var least uint32
	read(f, "n", "u8", &n)
	read(f, "max_tokens", "u32", &most)
	read(f, "min_tokens", "u32", &least)
	if a.endpoint == chat {
		read(f, "max_completion_tokens", "u32", &completion)
	}
	a.atLeast = int(least)
	f.between("temperature", "Temperature", 0, 2)
	f.between("top_p", "Top_p", 0, 1)
	f.between("frequency_penalty", "Frequency penalty", -2, 2)
	f.between("presence_penalty", "Presence penalty", -2, 2)
	f.between("min_p", "Min_p", 0, 1)
	if n != nil && (*n < 1 || *n > 128) {
		f.invalid(fmt.Sprintf("n must be between 1 and 128, got %d", *n))
	}
	for _, limit := range []struct {
		name   string
		tokens *uint32
	}{{"Max tokens", most}, {"Max completion tokens", completion}} {
		switch {
		case limit.tokens == nil:
		case *limit.tokens == 0:
			f.invalid(limit.name + " must be greater than 0, got 0")
		default:
			a.atMost = int(*limit.tokens)
		}
	}
}

func (a *ask) readStops(f fields) {
	raw, said := f.members["stop"]
	if !said || isNull(raw) {
		return
	}
	var one string
	var ids []uint32
	switch {
	case json.Unmarshal(raw, &one) == nil:
		a.stops = []string{one}
	case json.Unmarshal(raw, &a.stops) == nil:
		if len(a.stops) == 0 {
			f.invalid("Stop sequences array cannot be empty")
		}
		if len(a.stops) > maxStops {
			f.invalid(fmt.Sprintf("Maximum of %d stop sequences allowed, got %d", maxStops, len(a.stops)))
		}
	case json.Unmarshal(raw, &ids) == nil: // as with stop_token_ids: none is ever said
		a.stops = nil
	default:
		f.mistyped(raw, "a string or a list of strings")
	}
	if slices.Contains(a.stops, "") {
		f.invalid("Stop sequence cannot be empty")
	}
}
