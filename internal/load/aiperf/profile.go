// Package aiperf writes a run in the files of AIPerf, so that what reads
// AIPerf's results reads ours, and reads such a file whichever of the two tools
// wrote it.
//
// Read Summarize and Profile first. What the figures mean is package metric's
// business; this one knows keys, order and number format. testdata/README.md
// tells how it was checked against AIPerf itself.
//
// The files carry schema_version, which names their shape, but aiperf_version
// only when AIPerf wrote them: a key "aicr" says which of us did otherwise.
package aiperf

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"aicr/internal/load"
	"aicr/internal/load/metric"
)

// SchemaVersion names the shape of the files that this package writes.
const SchemaVersion = "1.4"

// Meta is what a run's files say about the run beside its figures.
type Meta struct {
	Version     string // aicr's own
	BenchmarkID string
	Epoch       time.Time // wall clock of stamp 0; its zone is that of start_time
	CommandLine string
	Seed        *uint64

	// InputConfig is written as it is. AIPerf's own reader wants its
	// configuration there: see Input.
	InputConfig json.RawMessage

	Cancelled bool // stopped before its end
}

// Input is the least configuration that AIPerf's reader takes for one.
type Input struct {
	Model       string
	URL         string
	Requests    int64
	Concurrency int
	Input       int // tokens of each prompt
	Output      int // tokens asked for
}

// JSON gives the configuration as Meta.InputConfig wants it.
func (in Input) JSON() json.RawMessage {
	var b []byte
	b = append(b, `{"models":{"items":[{"name":`...)
	b = appendString(b, in.Model)
	b = append(b, `}]},"endpoint":{"urls":[`...)
	b = appendString(b, in.URL)
	b = append(b, `],"type":"chat","streaming":true,"use_server_token_count":true},"datasets":[{"name":"main","type":"synthetic","prompts":{"isl":{"mean":`...)
	b = appendNumber(b, float64(in.Input))
	b = append(b, `,"stddev":0.0},"osl":{"mean":`...)
	b = appendNumber(b, float64(in.Output))
	b = append(b, `,"stddev":0.0}}}],"phases":[{"name":"profiling","kind":"profiling","type":"concurrency","requests":`...)
	b = strconv.AppendInt(b, in.Requests, 10)
	b = append(b, `,"concurrency":`...)
	b = strconv.AppendInt(b, int64(in.Concurrency), 10)
	return append(b, `}],"tokenizer":{}}`...)
}

// Profile is the content of a profile_export_aiperf.json.
type Profile struct {
	SchemaVersion string
	AIPerfVersion string // of the AIPerf that wrote it; "" when aicr did
	AICRVersion   string // of the aicr that wrote it
	BenchmarkID   string

	Metrics []metric.Figure // in the order of the file
	Warmup  []metric.Figure

	InputConfig      json.RawMessage
	Seed             *uint64
	CommandLine      string
	WasCancelled     bool
	IsComplete       bool
	IncompleteReason string
	Errors           []ErrorCount
	Start, End       string // wall clock without a zone, as AIPerf writes it
}

// Get finds a figure by its tag.
func (p *Profile) Get(tag string) (metric.Distribution, bool) {
	for _, f := range p.Metrics {
		if f.Tag == tag {
			return f.Distribution, true
		}
	}
	return metric.Distribution{}, false
}

// Error says why a request failed, in AIPerf's terms.
type Error struct {
	Code    int    `json:"code"` // 0: none
	Type    string `json:"type"`
	Message string `json:"message"`
}

// ErrorCount is how often an Error happened.
type ErrorCount struct {
	Details Error `json:"error_details"`
	Count   int64 `json:"count"`
}

// Summarize computes the profile of a run's main stage. opt's Epoch is taken
// from meta.
func Summarize(log *load.Log, gaps *load.Gaps, meta Meta, opt metric.Options) *Profile {
	opt.Epoch = meta.Epoch.UnixNano()
	main := metric.Summarize(log, gaps, opt)
	warmup := opt
	warmup.Phases, warmup.Start, warmup.End = []load.Phase{load.Warmup}, 0, 0
	p := &Profile{
		SchemaVersion: SchemaVersion,
		AICRVersion:   meta.Version,
		BenchmarkID:   meta.BenchmarkID,
		Metrics:       main.Figures,
		Warmup:        metric.Summarize(log, nil, warmup).Figures,
		InputConfig:   meta.InputConfig,
		Seed:          meta.Seed,
		CommandLine:   meta.CommandLine,
		WasCancelled:  meta.Cancelled,
		IsComplete:    !meta.Cancelled,
		Errors:        countErrors(log, opt),
		Start:         clock(meta.Epoch, main.Start),
		End:           clock(meta.Epoch, main.End),
	}
	if meta.Cancelled {
		p.IncompleteReason = "Run cancelled before all records were processed."
	}
	return p
}

func clock(epoch time.Time, stamp int64) string {
	return epoch.Add(time.Duration(stamp)).Round(time.Microsecond).Format("2006-01-02T15:04:05.000000")
}

func countErrors(log *load.Log, opt metric.Options) []ErrorCount {
	counts := []ErrorCount{}
	at := map[Error]int{}
	for _, r := range metric.Select(log, opt) {
		if r.OK() {
			continue
		}
		e := errorOf(log, r)
		i, ok := at[e]
		if !ok {
			i = len(counts)
			at[e] = i
			counts = append(counts, ErrorCount{Details: e})
		}
		counts[i].Count++
	}
	return counts
}

// statusCancelled is the code under which AIPerf files a request that it
// stopped itself.
const statusCancelled = 499

func errorOf(log *load.Log, r *load.Record) Error {
	e := Error{Type: r.Class.String(), Message: cmp.Or(log.Details[r.Detail], r.Class.String())}
	switch r.Class {
	case load.HTTPStatus:
		e.Code = int(r.Status)
		e.Type = cmp.Or(http.StatusText(e.Code), e.Type)
	case load.Interrupt:
		e.Code, e.Type = statusCancelled, "RequestCancellationError"
	default: // no answer, so no code
	}
	return e
}

// WriteJSON writes the profile as AIPerf formats it.
func (p *Profile) WriteJSON(w io.Writer) error {
	o := objectWriter{w: bufio.NewWriter(w)}
	o.open()
	o.text("schema_version", p.SchemaVersion)
	o.text("aiperf_version", p.AIPerfVersion)
	o.text("benchmark_id", p.BenchmarkID)
	named := namedBySchema()
	for _, f := range p.Metrics {
		if named[f.Tag] {
			o.figure(f)
		}
	}
	if len(p.InputConfig) > 0 {
		o.raw("input_config", p.InputConfig)
	}
	o.object("run_info", func() {
		o.text("benchmark_id", p.BenchmarkID)
		if p.Seed != nil {
			o.literal("random_seed", strconv.FormatUint(*p.Seed, 10))
		}
		o.literal("trial", "0")
		o.text("cli_command", p.CommandLine)
	})
	o.literal("was_cancelled", strconv.FormatBool(p.WasCancelled))
	o.literal("is_complete", strconv.FormatBool(p.IsComplete))
	o.text("incomplete_reason", p.IncompleteReason)
	o.raw("error_summary", errorSummary(p.Errors))
	o.text("start_time", p.Start)
	o.text("end_time", p.End)
	if len(p.Warmup) > 0 {
		o.object("warmup_metrics", func() {
			for _, f := range p.Warmup {
				o.figure(f)
			}
		})
	}
	for _, f := range p.Metrics {
		if !named[f.Tag] {
			o.figure(f)
		}
	}
	if p.AICRVersion != "" {
		o.object("aicr", func() { o.text("version", p.AICRVersion) })
	}
	o.close()
	if o.err == nil {
		o.err = o.w.Flush()
	}
	if o.err != nil {
		return fmt.Errorf("writing the profile: %w", o.err)
	}
	return nil
}

// namedBySchema are the figures that AIPerf's schema declares; they come before
// its other keys.
func namedBySchema() map[string]bool {
	named := map[string]bool{}
	for _, tag := range []string{
		"request_throughput", "request_latency", "request_count",
		"time_to_first_token", "time_to_second_token", "inter_token_latency",
		"output_token_throughput", "output_token_throughput_per_user",
		"output_sequence_length", "input_sequence_length", "goodput", "good_request_count",
		"output_token_count", "reasoning_token_count", "min_request_timestamp", "max_response_timestamp",
		"inter_chunk_latency", "total_output_tokens", "total_reasoning_tokens", "benchmark_duration",
		"total_isl", "total_osl", "error_request_count", "error_isl", "total_error_isl",
	} {
		named[tag] = true
	}
	return named
}

func errorSummary(errors []ErrorCount) []byte {
	b := []byte{'['}
	for i, e := range errors {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"error_details":`...)
		b = appendError(b, e.Details)
		b = append(b, `,"count":`...)
		b = strconv.AppendInt(b, e.Count, 10)
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendError(b []byte, e Error) []byte {
	b = append(b, '{')
	if e.Code != 0 {
		b = append(b, `"code":`...)
		b = strconv.AppendInt(b, int64(e.Code), 10)
		b = append(b, ',')
	}
	b = append(b, `"type":`...)
	b = appendString(b, e.Type)
	b = append(b, `,"message":`...)
	b = appendString(b, e.Message)
	return append(b, '}')
}

// objectWriter writes an indented JSON object key by key and remembers the
// first error.
type objectWriter struct {
	w     *bufio.Writer
	err   error
	depth int
	keys  bool // the object at hand has one already
	buf   []byte
}

func (o *objectWriter) write(b []byte) {
	if o.err == nil {
		_, o.err = o.w.Write(b)
	}
}

func (o *objectWriter) open() {
	o.write([]byte{'{'})
	o.depth++
	o.keys = false
}

func (o *objectWriter) close() {
	o.depth--
	if o.keys {
		o.newline()
	}
	o.write([]byte{'}'})
	o.keys = true
}

func (o *objectWriter) newline() {
	o.write([]byte{'\n'})
	for range o.depth {
		o.write([]byte("  "))
	}
}

func (o *objectWriter) key(k string) {
	if o.keys {
		o.write([]byte{','})
	}
	o.newline()
	o.keys = true
	o.write(append(appendString(o.buf[:0], k), ": "...))
}

// text writes a string, unless it is empty.
func (o *objectWriter) text(k, v string) {
	if v == "" {
		return
	}
	o.key(k)
	o.write(appendString(o.buf[:0], v))
}

func (o *objectWriter) literal(k, v string) {
	o.key(k)
	o.write([]byte(v))
}

func (o *objectWriter) raw(k string, v []byte) {
	o.key(k)
	var b bytes.Buffer
	indent := make([]byte, 2*o.depth)
	for i := range indent {
		indent[i] = ' '
	}
	if err := json.Indent(&b, bytes.TrimSpace(v), string(indent), "  "); err != nil && o.err == nil {
		o.err = fmt.Errorf("%s: %w", k, err)
	}
	o.write(b.Bytes())
}

func (o *objectWriter) object(k string, fields func()) {
	o.key(k)
	o.open()
	fields()
	o.close()
}

// figure writes a metric block: what is not finite is left out.
func (o *objectWriter) figure(f metric.Figure) {
	o.object(f.Tag, func() {
		o.key("unit")
		o.write(appendString(o.buf[:0], f.Unit))
		for _, s := range blockStats(&f.Distribution) {
			if s.key == "sum" && f.N > 0 {
				o.literal("count", strconv.FormatInt(f.N, 10))
			}
			if !math.IsNaN(*s.v) && !math.IsInf(*s.v, 0) {
				o.key(s.key)
				o.write(appendNumber(o.buf[:0], *s.v))
			}
		}
	})
}

type blockStat struct {
	key string
	v   *float64
}

// blockStats are the statistics of a metric block in the order of the file; the
// count comes before the sum.
func blockStats(d *metric.Distribution) []blockStat {
	return []blockStat{
		{"avg", &d.Avg},
		{"p1", &d.P1}, {"p5", &d.P5}, {"p10", &d.P10}, {"p25", &d.P25}, {"p50", &d.P50},
		{"p75", &d.P75}, {"p90", &d.P90}, {"p95", &d.P95}, {"p99", &d.P99},
		{"min", &d.Min}, {"max", &d.Max}, {"std", &d.Std}, {"sum", &d.Sum},
	}
}
