package aiperf

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strconv"

	"aicr/internal/load"
	"aicr/internal/load/metric"
)

// engine is what the records name as AIPerf's worker and record processor,
// which aicr is in one.
const engine = "aicr"

// WriteRecords writes a profile_export.jsonl: one line for each request, the
// warm-up included, sentinels not. Lines go out as they are made. keepTokens
// adds the gaps between events, where the log has stamps.
func WriteRecords(w io.Writer, log *load.Log, meta Meta, opt metric.Options, keepTokens bool) error {
	out := bufio.NewWriterSize(w, 1<<16)
	l := lineWriter{
		log: log, epoch: meta.Epoch.UnixNano(), keepTokens: keepTokens,
		figures: metric.PerRequest(opt),
	}
	for r := range log.All() {
		if r.Phase == load.Warmup && r.Lane != load.Sentinel {
			l.warmup = true
			break
		}
	}
	for r := range log.All() {
		if r.Lane == load.Sentinel {
			continue
		}
		if _, err := out.Write(l.line(r)); err != nil {
			return fmt.Errorf("writing records: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing records: %w", err)
	}
	return nil
}

type lineWriter struct {
	log        *load.Log
	epoch      int64
	keepTokens bool
	warmup     bool // the run had one, which makes the main stage the second
	figures    func(*load.Record, []metric.Value) []metric.Value

	buf    []byte
	values []metric.Value
}

// line gives the line of a record, valid until the next call.
func (l *lineWriter) line(r *load.Record) []byte {
	b := append(l.buf[:0], `{"metadata":`...)
	b = l.appendMetadata(b, r)
	b = append(b, `,"metrics":{`...)
	l.values = l.figures(r, l.values[:0])
	for i, v := range l.values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, v.Tag...)
		b = append(b, `":{"value":`...)
		if v.Whole {
			b = strconv.AppendInt(b, int64(v.Number), 10)
		} else {
			b = appendNumber(b, v.Number)
		}
		b = append(b, `,"unit":"`...)
		b = append(b, v.Unit...)
		b = append(b, `"}`...)
	}
	if r.OK() && l.keepTokens {
		b = appendGaps(b, l.log.Stamps(r))
	}
	b = append(b, '}')
	if !r.OK() {
		b = append(b, `,"error":`...)
		b = appendError(b, errorOf(l.log, r))
	}
	b = append(b, "}\n"...)
	l.buf = b
	return b
}

func appendGaps(b []byte, stamps []int64) []byte {
	if len(stamps) < 2 {
		return b
	}
	const perMilli = 1e-6
	b = append(b, `,"inter_chunk_latency":{"value":[`...)
	for i := 1; i < len(stamps); i++ {
		if i > 1 {
			b = append(b, ',')
		}
		b = appendNumber(b, float64(stamps[i]-stamps[i-1])*perMilli)
	}
	return append(b, `],"unit":"ms"}`...)
}

func (l *lineWriter) appendMetadata(b []byte, r *load.Record) []byte {
	number := func(key string, v int64) {
		b = append(b, `,"`...)
		b = append(b, key...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, v, 10)
	}
	text := func(key, v string) {
		b = append(b, `,"`...)
		b = append(b, key...)
		b = append(b, `":`...)
		b = appendString(b, v)
	}
	flag := func(key string, v bool) {
		b = append(b, `,"`...)
		b = append(b, key...)
		b = append(b, `":`...)
		b = strconv.AppendBool(b, v)
	}
	b = append(b, `{"session_num":`...)
	b = strconv.AppendInt(b, r.Seq, 10)
	number("turn_index", 0)
	number("credit_issued_ns", l.epoch+r.Intended)
	number("request_start_ns", l.epoch+cmp.Or(r.Sent, r.Intended))
	if r.FirstByte != 0 {
		number("request_ack_ns", l.epoch+r.FirstByte)
	}
	number("request_end_ns", l.epoch+cmp.Or(r.End, r.Sent, r.Intended))
	text("worker_id", engine)
	text("record_processor_id", engine)
	phase := "profiling"
	if r.Phase == load.Warmup {
		phase = "warmup"
	}
	text("benchmark_phase", phase)
	switch {
	case r.Phase == load.Warmup:
		number("phase_index", 0)
	case l.warmup:
		number("phase_index", 1)
		number("profiling_index", 0)
	default:
		number("phase_index", 0)
		number("profiling_index", 0)
	}
	text("phase_name", phase)
	text("phase_kind", phase)
	cancelled := r.Class == load.Interrupt
	flag("was_cancelled", cancelled)
	if cancelled {
		number("cancellation_time_ns", l.epoch+cmp.Or(r.End, r.Sent, r.Intended))
	}
	flag("context_overflow_skip", false)
	number("agent_depth", 0)
	return append(b, '}')
}
