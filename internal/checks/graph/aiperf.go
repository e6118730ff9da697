package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"aicr/internal/judge"
	"aicr/internal/load"
	"aicr/internal/spec"
)

// mostAIPerfLog is how much of AIPerf's log is kept, in bytes: its result has some
// kilobytes, and what it draws on a terminal may be long.
const mostAIPerfLog = 16 << 20

// mostAIPerfRequests is more than any run has.
const mostAIPerfRequests = 1e9

// AIPerfResult is what AIPerf prints of a run, as far as it is used.
type AIPerfResult struct {
	Version    string
	Throughput float64 // output tokens/s
	TTFT       map[string]float64
	Served     int
	Failed     int
	Held       *float64 // requests in flight, on average
	Latency    *float64 // mean of a request, ms
	Rate       *float64 // requests/s
	TokensOut  *float64 // mean of an answer, as AIPerf counts them
	TokensIn   *float64
	Start, End string
}

// ReadAIPerfLog finds the result in AIPerf's log: the one JSON object between two lines
// of the sentinel. All that is missing or is no number is told at once.
func ReadAIPerfLog(log []byte) (*AIPerfResult, error) {
	var at [][2]int
	for from := 0; from < len(log); {
		end := len(log)
		if n := bytes.IndexByte(log[from:], '\n'); n >= 0 {
			end = from + n
		}
		if string(bytes.TrimSpace(log[from:end])) == AIPerfSentinel {
			at = append(at, [2]int{from, end})
		}
		from = end + 1
	}
	switch {
	case len(at) == 0:
		return nil, fmt.Errorf("AIPerf's log has no %s", AIPerfSentinel)
	case len(at) == 1:
		return nil, fmt.Errorf("AIPerf's log has %s once: its result was cut off", AIPerfSentinel)
	case len(at) > 2:
		return nil, fmt.Errorf("AIPerf's log has %s %d times, and there is one result between two", AIPerfSentinel, len(at))
	}
	return readAIPerf(log[at[0][1]:at[1][0]])
}

func readAIPerf(text []byte) (*AIPerfResult, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	var doc map[string]json.RawMessage
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("AIPerf's result is not one JSON object: %w", err)
	}
	if d.More() {
		return nil, errors.New("AIPerf's result is more than one JSON object")
	}
	var wrong []error
	number := func(block, field string, needed bool) *float64 {
		v, err := aiperfNumber(doc, block, field)
		if err != nil && (needed || !errors.Is(err, errAIPerfMissing)) {
			wrong = append(wrong, err)
		}
		return v
	}
	r := &AIPerfResult{TTFT: map[string]float64{}}
	r.Version = aiperfText(doc, "aiperf_version")
	r.Start, r.End = aiperfText(doc, "start_time"), aiperfText(doc, "end_time")
	throughput := number("output_token_throughput", "avg", true)
	ttft := map[string]*float64{}
	for _, p := range []string{"p50", "p90", "p99"} {
		ttft[p] = number("time_to_first_token", p, true)
	}
	served := number("request_count", "avg", true)
	failed := number("error_request_count", "avg", false)
	r.Held = number("effective_concurrency", "avg", false)
	r.Latency, r.Rate = number("request_latency", "avg", false), number("request_throughput", "avg", false)
	r.TokensOut, r.TokensIn = number("output_sequence_length", "avg", false), number("input_sequence_length", "avg", false)
	if unit := aiperfUnit(doc, "output_token_throughput"); unit != "" && unit != "tokens/sec" {
		wrong = append(wrong, fmt.Errorf("output_token_throughput is in %s, not in tokens/sec", unit))
	}
	if unit := aiperfUnit(doc, "time_to_first_token"); unit != "" && unit != "ms" {
		wrong = append(wrong, fmt.Errorf("time_to_first_token is in %s, not in ms", unit))
	}
	for name, v := range map[string]*float64{"request_count.avg": served, "error_request_count.avg": failed} {
		if v != nil && (*v != math.Trunc(*v) || *v > mostAIPerfRequests) {
			wrong = append(wrong, fmt.Errorf("%s is no count: %v", name, *v))
		}
	}
	var cancelled, complete *bool
	_ = json.Unmarshal(doc["was_cancelled"], &cancelled)
	_ = json.Unmarshal(doc["is_complete"], &complete)
	if cancelled != nil && *cancelled {
		wrong = append(wrong, errors.New("was_cancelled: AIPerf says that it was cut short"))
	}
	if complete != nil && !*complete {
		wrong = append(wrong, fmt.Errorf("is_complete: AIPerf says that its run is not whole: %s", aiperfText(doc, "incomplete_reason")))
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("AIPerf's result cannot be used: %w", errors.Join(wrong...))
	}
	r.Throughput, r.Served = *throughput, int(*served)
	for p, v := range ttft {
		r.TTFT[p] = *v
	}
	if failed != nil {
		r.Failed = int(*failed)
	}
	return r, nil
}

var errAIPerfMissing = errors.New("is missing")

// aiperfNumber is a figure of a block. It is one that was measured: below no figure of a
// run is anything but a missing one, and no percentile is 0 by having nothing to be of.
func aiperfNumber(doc map[string]json.RawMessage, block, field string) (*float64, error) {
	name := block + "." + field
	raw, ok := doc[block]
	if !ok || string(raw) == "null" {
		return nil, fmt.Errorf("%s %w", name, errAIPerfMissing)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("%s: %s is no block of figures", name, block)
	}
	value, ok := fields[field]
	if !ok || string(value) == "null" {
		return nil, fmt.Errorf("%s %w", name, errAIPerfMissing)
	}
	var v float64
	if err := json.Unmarshal(value, &v); err != nil {
		return nil, fmt.Errorf("%s is no number: %s", name, sentence(string(value), 40))
	}
	if v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return nil, fmt.Errorf("%s is below 0: %v", name, v)
	}
	return &v, nil
}

func aiperfUnit(doc map[string]json.RawMessage, block string) string {
	var b struct{ Unit string }
	_ = json.Unmarshal(doc[block], &b) // told where its figures are read
	return b.Unit
}

func aiperfText(doc map[string]json.RawMessage, name string) string {
	var text string
	_ = json.Unmarshal(doc[name], &text) // one that is no text says nothing
	return text
}

// Episode is the result as an episode: a summary, without any request or second of it.
// What AIPerf's own client held it tells itself; that it was not the limit is not known.
func (r *AIPerfResult) Episode(point spec.OperatingPoint, start time.Time) *spec.EpisodeRecord {
	e := spec.Episode{Schema: spec.EpisodeSchema, Number: 1, SummaryOf: spec.SummaryAIPerf, Start: start.UTC().Format(time.RFC3339Nano), Point: point,
		Requests: spec.RequestCounts{Sent: r.Served + r.Failed, Served: r.Served, Failed: r.Failed, Classes: map[string]int{}},
		Sentinel: spec.RequestCounts{Classes: map[string]int{}}, Workers: []spec.BenchWorker{}, Samples: []spec.SampleCount{}}
	if r.Served > 0 {
		e.Requests.Classes[spec.ClassOK] = r.Served
	}
	if r.Failed > 0 {
		e.Requests.Classes[load.HTTPStatus.String()] = r.Failed // most are; its summary does not tell them apart for certain
	}
	if r.TokensOut != nil {
		e.Tokens.Completion = int64(math.Round(*r.TokensOut * float64(r.Served)))
	}
	if r.TokensIn != nil {
		e.Tokens.Prompt = int64(math.Round(*r.TokensIn * float64(r.Served)))
	}
	if r.Throughput > 0 && e.Tokens.Completion > 0 {
		e.LoadedS = float64(e.Tokens.Completion) / r.Throughput
	}
	p50, p90, p99, throughput := r.TTFT["p50"], r.TTFT["p90"], r.TTFT["p99"], r.Throughput
	e.Figures = []spec.BenchFigure{
		{Name: judge.OutputThroughput, Unit: "tokens/sec", Mean: &throughput},
		{Name: judge.FirstToken, Unit: "ms", N: int64(r.Served), P50: &p50, P90: &p90, P99: &p99},
	}
	e.Client = spec.BenchClient{Valid: true, InFlightAsked: point.Concurrency}
	if e.Client.InFlight = r.Held; r.Rate != nil && r.Latency != nil {
		held := *r.Rate * *r.Latency / 1000
		e.Client.Little = &held
		if e.Client.InFlight == nil {
			e.Client.InFlight = &held
		}
	}
	return &spec.EpisodeRecord{Episode: e}
}

// concludeAIPerf takes AIPerf's result out of its log. That it ended well is not enough,
// and that it ended badly is told in words.
func (f *follower) concludeAIPerf(l *loadSeen, out *Outcome, log []byte) error {
	code, ended := l.container().Int("state", "terminated", "exitCode")
	f.mu.Lock()
	out.Answer, out.Began = f.answer.events(ServiceURL(f.s)), f.startOf(l)
	f.mu.Unlock()
	if neverAnswered(out.Answer) {
		out.By = ByAIPerf
		return nil
	}
	if !ended || code != 0 {
		out.explain(l)
		if ended && (out.Reason == "Exit" || out.Reason == "Killed") && !l.neverRan() {
			out.Why = aiperfEnd(int(code)) + lastSaid(out.Tail)
		}
		return nil
	}
	result, err := ReadAIPerfLog(log)
	if err != nil {
		exit := int(code)
		out.Reason, out.Why, out.Exit = "NoResult", err.Error(), &exit
		return nil
	}
	if result.Served == 0 {
		out.Reason, out.Why = "NoResult", fmt.Sprintf("AIPerf served nothing: all %d requests failed", result.Failed)
		return nil
	}
	out.By, out.Episode = ByAIPerf, result.Episode(f.s.aiperfPoint(), out.Began)
	return nil
}

// aiperfEnd words an exit code of AIPerf's container, as published.
func aiperfEnd(code int) string {
	switch code {
	case 137:
		return "AIPerf was killed (exit code 137): its memory was used up, or its node ended it"
	case 127:
		return "AIPerf is not in its image (exit code 127)"
	case noAnswer:
		return fmt.Sprintf("nothing answered, so that AIPerf was not begun (exit code %d), and the log that says why could not be read", noAnswer)
	case 2:
		return "AIPerf did not take its arguments (exit code 2): its command line may have changed between versions"
	}
	return fmt.Sprintf("AIPerf failed (exit code %d)", code)
}

// lastSaid is the last line that says something.
func lastSaid(tail []string) string {
	for _, line := range slices.Backward(tail) {
		if text := strings.Trim(line, " \t│─╭╮╰╯"); text != "" {
			return ": " + sentence(text, 300)
		}
	}
	return ""
}

// startOf is when the load's container began, as the cluster has it.
func (f *follower) startOf(l *loadSeen) time.Time {
	t, err := time.Parse(time.RFC3339, l.container().Text("state", "terminated", "startedAt"))
	if err != nil {
		return time.Now()
	}
	return t
}

// aiperfPoint is the operating point that AIPerf was told to make.
func (s *Settings) aiperfPoint() spec.OperatingPoint {
	l := s.AIPerf
	if l == nil {
		l = &AIPerfLoad{}
	}
	p := spec.OperatingPoint{Workers: s.Workers, Concurrency: l.Concurrency, InputTokens: l.InputTokens, OutputTokens: l.OutputTokens,
		Prompts: "100", Router: s.Router, Requests: l.Requests, Wave: l.Warmup > 0}
	if l.Concurrency > 0 {
		p.WavePerUser = l.Warmup / l.Concurrency
	}
	return p
}
