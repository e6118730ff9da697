package metric

import (
	"cmp"
	"math"
	"slices"

	"aicr/internal/load"
	"aicr/internal/stats"
)

// Tool is a benchmark client whose words Rosetta translates.
type Tool string

// The tools, as their source stood in autumn 2026.
const (
	AIPerf        Tool = "AIPerf"
	VLLM          Tool = "vLLM bench serve"
	SGLang        Tool = "SGLang bench_serving"
	GuideLLM      Tool = "GuideLLM"
	InferencePerf Tool = "inference-perf"
)

// Measure is a question that every tool has some answer to.
type Measure string

// The questions.
const (
	TTFT              Measure = "TTFT"
	ITL               Measure = "ITL"
	TPOT              Measure = "TPOT"
	E2ELatency        Measure = "E2E latency"
	Duration          Measure = "duration"
	OutputThroughput  Measure = "output throughput"
	RequestThroughput Measure = "request throughput"
)

// Row is one tool's answer to one question about the same requests.
type Row struct {
	Tool       Tool
	Measure    Measure
	Name       string // what the tool calls it; "": it has no such figure
	Definition string // one line
	Rank       string // how it takes percentiles; "" for a single value

	Unit           string
	N              int64
	Mean, P50, P99 float64 // NaN: not defined

	// Caveat says where the figure is not what the tool would have printed; ""
	// where it is.
	Caveat string
}

// Table is the Rosetta stone: the rows of each Measure stand together.
type Table struct{ Rows []Row }

// Get finds a tool's answer.
func (t Table) Get(tool Tool, m Measure) (Row, bool) {
	i := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Tool == tool && r.Measure == m })
	if i < 0 {
		return Row{}, false
	}
	return t.Rows[i], true
}

const (
	linear  = "linear interpolation (numpy)"
	stepped = "first value at which the cumulated weight reaches p"

	caveatGaps = "from pooled gaps, within 0.1 %: stamps of single events were not kept"
	caveatNone = "stamps of single events were not kept for these phases"
	caveatVLLM = "as of vLLM 0.32"
	caveatOpen = "SGLang opens a connection for each request and counts that time too"
)

// Rosetta says what other tools would have reported of the requests that opt
// chooses. gaps are those between events with content, and choices those between events
// with a choice, for a log without stamps; nil: not pooled.
func Rosetta(log *load.Log, gaps, choices *load.Gaps, opt Options) Table {
	s := newStone(log, gaps, choices, opt)
	var t Table
	add := func(rows ...Row) { t.Rows = append(t.Rows, rows...) }

	first := func(r *load.Record) float64 { return float64(r.FirstContent - r.Sent) }
	choice := func(r *load.Record) float64 { return float64(cmp.Or(r.FirstChoice, r.FirstContent) - r.Sent) }
	end := func(r *load.Record) float64 { return float64(r.End - r.Sent) }
	lastChoice := func(r *load.Record) float64 { return float64(cmp.Or(r.LastChoice, r.LastContent) - r.Sent) }
	last := func(r *load.Record) float64 { return float64(r.LastContent - r.Sent) }
	perToken := func(from, to func(*load.Record) float64) func(*load.Record) float64 {
		return func(r *load.Record) float64 {
			if r.Tokens() < 2 {
				return math.NaN()
			}
			return (to(r) - from(r)) / float64(r.Tokens()-1)
		}
	}

	add(
		s.each(Row{Tool: AIPerf, Measure: TTFT, Name: "time_to_first_token", Definition: "sent to first event with text or reasoning"}, first),
		s.each(Row{Tool: VLLM, Measure: TTFT, Name: "ttft", Definition: "sent to first event with a choice, a role-only one included"}, choice),
		s.each(Row{Tool: SGLang, Measure: TTFT, Name: "ttft", Definition: "sent to first event with text or reasoning", Caveat: caveatOpen}, first),
		s.weighted(Row{Tool: GuideLLM, Measure: TTFT, Name: "time_to_first_token_ms", Definition: "sent to first event with text"}, first, nil),
		s.each(Row{Tool: InferencePerf, Measure: TTFT, Name: "time_to_first_token", Definition: "sent to first event with text; none for an answer of one token"},
			func(r *load.Record) float64 {
				if r.Tokens() < 2 {
					return math.NaN()
				}
				return first(r)
			}),
	)
	add(
		s.each(Row{Tool: AIPerf, Measure: ITL, Name: "inter_token_latency", Definition: "mean of each request: (last - first content) / (tokens - 1)"}, perToken(first, last)),
		s.pooled(Row{Tool: VLLM, Measure: ITL, Name: "itl", Definition: "gaps between events with a choice, those without text included, pooled over requests"}, s.choices, 0),
		s.pooled(Row{Tool: SGLang, Measure: ITL, Name: "itl", Definition: "gaps between events with text, pooled over requests"}, s.content, 0),
		s.weighted(Row{Tool: GuideLLM, Measure: ITL, Name: "inter_token_latency_ms", Definition: "mean of each request, weighted by tokens - 1"},
			perToken(first, last), func(r *load.Record) float64 { return float64(r.Tokens() - 1) }),
		s.pooled(Row{Tool: InferencePerf, Measure: ITL, Name: "inter_token_latency", Definition: "gaps between tokens, pooled; 0 within an event"}, s.content, s.within()),
	)
	add(
		Row{Tool: AIPerf, Measure: TPOT, Definition: "AIPerf calls it inter_token_latency", Unit: "ms", Mean: math.NaN(), P50: math.NaN(), P99: math.NaN()},
		s.each(Row{Tool: VLLM, Measure: TPOT, Name: "tpot", Definition: "mean of each request: (latency - TTFT) / (tokens - 1)", Caveat: caveatVLLM}, perToken(choice, lastChoice)),
		s.each(Row{Tool: SGLang, Measure: TPOT, Name: "tpot", Definition: "mean of each request: (latency - TTFT) / (tokens - 1)"}, perToken(first, end)),
		s.weighted(Row{Tool: GuideLLM, Measure: TPOT, Name: "time_per_output_token_ms", Definition: "mean of each request with TTFT in it: (last - sent) / tokens, weighted by tokens"},
			func(r *load.Record) float64 { return last(r) / float64(r.Tokens()) },
			func(r *load.Record) float64 { return float64(r.Tokens()) }),
		s.each(Row{Tool: InferencePerf, Measure: TPOT, Name: "time_per_output_token", Definition: "mean of each request: (last - first content) / (tokens - 1)"}, perToken(first, last)),
	)
	add(
		s.each(Row{Tool: AIPerf, Measure: E2ELatency, Name: "request_latency", Definition: "sent to last event with text or reasoning"}, last),
		s.each(Row{Tool: VLLM, Measure: E2ELatency, Name: "e2el", Definition: "sent to last event with a choice; the usage event does not count", Caveat: caveatVLLM}, lastChoice),
		s.each(Row{Tool: SGLang, Measure: E2ELatency, Name: "e2e_latency", Definition: "sent to last line, [DONE] included", Caveat: caveatOpen}, end),
		s.weighted(Row{Tool: GuideLLM, Measure: E2ELatency, Name: "request_latency", Definition: "sent to end of stream"}, end, nil),
		s.each(Row{Tool: InferencePerf, Measure: E2ELatency, Name: "request_latency", Definition: "sent to end of response"}, end),
	)

	type clock struct {
		tool                   Tool
		name, output, requests string
		definition, rate, note string
		ns, rateNs             float64
	}
	stage := float64(s.end - s.start)
	span := float64(s.lastEnd - s.firstSent)
	for _, m := range []Measure{Duration, OutputThroughput, RequestThroughput} {
		for _, c := range []clock{
			{AIPerf, "benchmark_duration", "output_token_throughput", "request_throughput",
				"first send to last content, over served requests", "per second of the stage, which is longer than benchmark_duration", "",
				benchmarkDuration(s.served, opt), stage},
			{VLLM, "benchmark_duration", "output_throughput", "request_throughput",
				"wall clock of the stage, failures included", "per second of that", "", stage, stage},
			{SGLang, "duration", "output_throughput", "request_throughput",
				"wall clock of the stage, failures included", "per second of that", "", stage, stage},
			{GuideLLM, "duration", "output_tokens_per_second", "requests_per_second",
				"first send to last end, less what its warm-up and cool-down cut", "mean rate over that", "nothing is cut here", span, span},
			{InferencePerf, "benchmark_time_seconds", "output_tokens_per_sec", "requests_per_sec",
				"first send to last end, failures included", "per second of that", "", span, span},
		} {
			row := Row{Tool: c.tool, Measure: m, Name: c.name, Definition: c.definition, Unit: "sec",
				N: int64(len(s.served)), Mean: c.ns * perSecond, P50: math.NaN(), P99: math.NaN(), Caveat: c.note}
			switch m {
			case OutputThroughput:
				row.Name, row.Definition, row.Unit, row.Mean = c.output, "output tokens "+c.rate, "tokens/sec", ratio(s.tokens, c.rateNs*perSecond)
			case RequestThroughput:
				row.Name, row.Definition, row.Unit, row.Mean = c.requests, "served requests "+c.rate, "requests/sec", ratio(float64(len(s.served)), c.rateNs*perSecond)
			default: // the duration itself
			}
			if len(s.served) == 0 {
				row.Mean = math.NaN()
			}
			add(row)
		}
	}
	return t
}

// stone is what the rows are computed from.
type stone struct {
	served             []*load.Record
	content, choices   waits
	tokens             float64
	start, end         int64
	firstSent, lastEnd int64
}

// waits are the stamps of one kind of event, of each served request, or else the gaps
// between them, pooled; both nil: not kept.
type waits struct {
	stamps [][]int64
	gaps   *load.Gaps
}

func newStone(log *load.Log, gaps, choices *load.Gaps, opt Options) *stone {
	s := &stone{start: opt.Start, end: opt.End}
	records := Select(log, opt)
	if s.start == 0 && s.end == 0 {
		s.start, s.end = bounds(records)
	}
	for _, r := range records {
		if r.Sent > 0 && (s.firstSent == 0 || r.Sent < s.firstSent) {
			s.firstSent = r.Sent
		}
		s.lastEnd = max(s.lastEnd, r.End)
		if r.OK() {
			s.served = append(s.served, r)
			s.tokens += float64(r.Tokens())
		}
	}
	s.content.stamps = keptStamps(log, s.served)
	switch {
	case s.content.stamps != nil:
		for _, r := range s.served {
			s.choices.stamps = append(s.choices.stamps, log.Choices(r))
		}
	case slices.Equal(opt.phases(), mainStage()):
		s.content.gaps, s.choices.gaps = gaps, choices
	}
	return s
}

// within is the number of tokens that came in an event with another.
func (s *stone) within() int64 {
	var n int64
	for _, r := range s.served {
		n += int64(max(0, r.Tokens()-r.Chunks))
	}
	return n
}

// each fills a row from one value of each request, NaN meaning none.
func (s *stone) each(row Row, value func(*load.Record) float64) Row {
	values := make([]float64, 0, len(s.served))
	for _, r := range s.served {
		if v := value(r); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return fill(row, values, 0)
}

// fill computes a row from values and a number of zeros.
func fill(row Row, values []float64, zeros int64) Row {
	row.Unit, row.Rank = "ms", linear
	row.N = int64(len(values)) + zeros
	if row.N == 0 {
		row.Mean, row.P50, row.P99 = math.NaN(), math.NaN(), math.NaN()
		return row
	}
	row.Mean = stats.Sum(values) / float64(row.N) * perMilli
	slices.Sort(values)
	row.P50 = percentileAfterZeros(values, zeros, 50) * perMilli
	row.P99 = percentileAfterZeros(values, zeros, 99) * perMilli
	return row
}

// percentileAfterZeros is stats.Percentile of sorted values that follow zeros
// which are not stored: there can be a thousand million of them.
func percentileAfterZeros(sorted []float64, zeros int64, p float64) float64 {
	if zeros == 0 {
		return stats.Percentile(sorted, p)
	}
	at := p / 100 * float64(zeros+int64(len(sorted))-1)
	i := int64(at)
	value := func(i int64) float64 {
		if i < zeros {
			return 0
		}
		return sorted[min(i-zeros, int64(len(sorted))-1)]
	}
	if len(sorted) == 0 {
		return 0
	}
	low, high := value(i), value(i+1)
	return low + float64((at-float64(i))*(high-low))
}

// pooled fills a row from the gaps between events, and zeros.
func (s *stone) pooled(row Row, of waits, zeros int64) Row {
	if of.stamps != nil {
		return fill(row, chunkGaps(of.stamps), zeros)
	}
	row.Unit, row.Rank = "ms", linear
	row.Mean, row.P50, row.P99 = math.NaN(), math.NaN(), math.NaN()
	row.Caveat = caveatNone
	if of.gaps == nil || of.gaps.Count == 0 {
		return row
	}
	row.Caveat = caveatGaps
	row.N = of.gaps.Count + zeros
	row.Mean = of.gaps.Sum / float64(row.N) * perMilli
	quantile := func(q float64) float64 {
		at := q*float64(row.N) - float64(zeros)
		if at <= 0 {
			return 0
		}
		return of.gaps.Quantile(at/float64(of.gaps.Count)) * perMilli
	}
	row.P50, row.P99 = quantile(0.5), quantile(0.99)
	return row
}

// weighted fills a row as GuideLLM does: a request weighs as much as weight
// says, or 1.
func (s *stone) weighted(row Row, value, weight func(*load.Record) float64) Row {
	type pair struct{ value, weight float64 }
	var pairs []pair
	var total, sum float64
	for _, r := range s.served {
		p := pair{value(r), 1}
		if weight != nil {
			p.weight = weight(r)
		}
		if math.IsNaN(p.value) || p.weight <= 0 {
			continue
		}
		pairs = append(pairs, p)
		total += p.weight
		sum += p.value * p.weight
	}
	row.Unit, row.Rank, row.N = "ms", stepped, int64(len(pairs))
	if len(pairs) == 0 {
		row.Mean, row.P50, row.P99 = math.NaN(), math.NaN(), math.NaN()
		return row
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.value, b.value) })
	reach := func(share float64) float64 {
		held := 0.0
		for _, p := range pairs {
			if held += p.weight; held/total >= share {
				return p.value * perMilli
			}
		}
		return pairs[len(pairs)-1].value * perMilli
	}
	row.Mean, row.P50, row.P99 = sum/total*perMilli, reach(0.5), reach(0.99)
	return row
}
