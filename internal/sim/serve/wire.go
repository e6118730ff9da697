package serve

import (
	"fmt"
	"strconv"
	"time"
)

// writer puts an answer down as Dynamo's frontend does. An event is made by
// appending to a buffer that is used again: at a thousand streams, what a token
// costs is what the server costs.
type writer struct {
	ask  *ask
	plan *plan

	// An event with text is opening, text, middle, usage, closing.
	opening []byte
	middle  []byte
	closing []byte

	id       string
	created  int64
	received time.Time
	model    []byte // as JSON
	worker   uint64 // 0: not to be named

	tokens int // said so far
	shown  int // bytes of text
	buf    []byte
}

func newWriter(a *ask, p *plan, id string, received time.Time) *writer {
	w := &writer{ask: a, plan: p, id: "chatcmpl-" + id, received: received, created: received.Unix(), model: encode(a.model)}
	if a.endpoint == plain {
		w.id = "cmpl-" + id
	}
	return w
}

// begin is told which worker serves, before anything is written.
func (w *writer) begin(worker uint64) {
	if w.ask.nameWorker {
		w.worker = worker
	}
	w.opening = append(w.appendHead(nil), `,"choices":[{"index":0,"delta":{"content":"`...)
	w.middle = append(w.middle, `","role":"assistant"},"finish_reason":null,"logprobs":null}]`...)
	if w.ask.endpoint == plain {
		w.opening = append(w.appendHead(nil), `,"choices":[{"text":"`...)
		w.middle = append(w.middle[:0], `","index":0}]`...) // no nulls here, unlike in a chat
	}
	w.middle = w.appendFacts(w.middle)
	w.closing = append(w.appendExtensions(nil, untimed), "}\n\n"...)
}

// token is the event of the tokens up to given, or nothing when their text has
// to be held back.
func (w *writer) token(given int) []byte {
	w.tokens = given
	to := w.plan.visible(given)
	if to <= w.shown {
		return nil
	}
	w.buf = append(w.buf[:0], w.opening...)
	w.buf = w.plan.appendText(w.buf, w.shown, to)
	w.buf = append(w.buf, w.middle...)
	w.buf = w.appendUsage(w.buf, w.ask.everyUsage)
	w.buf = append(w.buf, w.closing...)
	w.shown = to
	return w.buf
}

// finish is the event that says why the answer ends.
func (w *writer) finish(reason string, total time.Duration) []byte {
	w.buf = append(w.appendHead(w.buf[:0]), `,"choices":[{`...)
	if w.ask.endpoint == plain {
		w.buf = fmt.Appendf(w.buf, `"text":"","index":0,"finish_reason":"%s"}]`, reason)
	} else {
		w.buf = fmt.Appendf(w.buf, `"index":0,"delta":{"role":"assistant"},"finish_reason":"%s","logprobs":null}]`, reason)
	}
	w.buf = w.appendFacts(w.buf)
	w.buf = w.appendUsage(w.buf, w.ask.everyUsage)
	w.buf = w.appendExtensions(w.buf, total)
	w.buf = append(w.buf, "}\n\n"...)
	return w.buf
}

// usage is the event that counts the tokens.
func (w *writer) usage() []byte {
	w.buf = append(w.appendHead(w.buf[:0]), `,"choices":[]`...)
	w.buf = w.appendFacts(w.buf)
	w.buf = w.appendUsage(w.buf, true)
	w.buf = append(w.buf, "}\n\n"...)
	return w.buf
}

// The events that say the same of every stream.
const (
	eventDone  = "data: [DONE]\n\n"
	eventError = `data: {"error":{"message":"Internal server error","type":"internal_server_error","code":500}}` + "\n\n"
)

// whole is an answer that is no stream. A reason that is "" was never given.
func (w *writer) whole(given int, reason string, total time.Duration) []byte {
	w.tokens = given
	finish := "null"
	if reason != "" {
		finish = `"` + reason + `"`
	}
	b := fmt.Appendf(nil, `{"id":"%s","choices":[{`, w.id)
	if w.ask.endpoint == plain {
		b = w.plan.appendText(append(b, `"text":"`...), 0, w.plan.visible(given))
		b = fmt.Appendf(b, `","index":0,"finish_reason":%s}]`, finish)
	} else {
		b = w.plan.appendText(append(b, `"index":0,"message":{"content":"`...), 0, w.plan.visible(given))
		b = fmt.Appendf(b, `","role":"assistant","reasoning_content":null},"finish_reason":%s,"logprobs":null}]`, finish)
	}
	b = w.appendFacts(b)
	b = w.appendUsage(b, true)
	b = w.appendExtensions(b, total)
	return append(b, '}')
}

func (w *writer) appendHead(dst []byte) []byte {
	dst = append(dst, `data: {"id":"`...)
	dst = append(dst, w.id...)
	return append(dst, '"')
}

// appendFacts appends what stands between the choices and the usage.
func (w *writer) appendFacts(dst []byte) []byte {
	dst = append(dst, `,"created":`...)
	dst = strconv.AppendInt(dst, w.created, 10)
	dst = append(dst, `,"model":`...)
	dst = append(dst, w.model...)
	switch {
	case w.ask.endpoint == plain:
		dst = append(dst, `,"system_fingerprint":null,"object":"text_completion"`...)
	case w.ask.stream:
		dst = append(dst, `,"service_tier":null,"system_fingerprint":null,"object":"chat.completion.chunk"`...)
	default:
		dst = append(dst, `,"service_tier":null,"system_fingerprint":null,"object":"chat.completion"`...)
	}
	return append(dst, `,"usage":`...)
}

func (w *writer) appendUsage(dst []byte, tell bool) []byte {
	if !tell {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(w.ask.prompt.tokens), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(w.tokens), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(w.ask.prompt.tokens+w.tokens), 10)
	return append(dst, '}')
}

// untimed is the total of an answer that has not ended.
const untimed time.Duration = -1

// appendExtensions appends what was asked for by nvext. The time is told at the
// end, when there is a total.
func (w *writer) appendExtensions(dst []byte, total time.Duration) []byte {
	timing := w.ask.timing && total >= 0
	if w.worker == 0 && !timing {
		return dst
	}
	dst = append(dst, `,"nvext":{`...)
	if w.worker != 0 {
		dst = append(dst, `"worker_id":{"prefill_worker_id":`...)
		dst = strconv.AppendUint(dst, w.worker, 10)
		dst = append(dst, `,"decode_worker_id":`...)
		dst = strconv.AppendUint(dst, w.worker, 10)
		dst = append(dst, '}')
		if timing {
			dst = append(dst, ',')
		}
	}
	if timing {
		dst = append(dst, `"timing":{"request_received_ms":`...)
		dst = strconv.AppendInt(dst, w.received.UnixMilli(), 10)
		dst = append(dst, `,"total_time_ms":`...)
		dst = strconv.AppendFloat(dst, float64(total)/float64(time.Millisecond), 'f', -1, 64)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
