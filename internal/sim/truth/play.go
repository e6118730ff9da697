package truth

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// play is the answer to one request, step by step. A driver waits until due,
// takes the step from next, stamps, writes, and tells the ledger.
type play struct {
	script Script
	ledger *ledger
	entry  *Request // nil for what is no completion request
	frozen []window

	status      int
	contentType string
	body        []byte // the whole answer, when it is no stream
	stream      bool

	asked    asked
	fault    Fault
	failAt   int // tokens before the fault; -1 is never
	limited  bool
	tokens   int // that the answer has in all
	sent     int
	headLeft bool // the head is a step of its own, still to come
	roleLeft bool

	due   time.Duration // of the next step
	first time.Duration // planned first token

	prefix []byte // an event up to its choices
}

// act says what a driver does once it has written a step's bytes.
type act uint8

const (
	actGoOn  act = iota // wait for the next step
	actEnd              // the body is whole
	actReset            // RST
	actCut              // FIN
	actStall            // nothing, for ever
)

// step is what next yields beside the bytes.
type step struct {
	act    act
	due    time.Duration
	tokens int
	events [eventKinds]int64
}

// The kinds of event that are counted.
const (
	eventContent = iota
	eventRole
	eventFinish
	eventUsage
	eventDone
	eventError
	eventKinds
)

// whole makes a play of an answer that is no stream, due at once.
func whole(status int, contentType string, body []byte) *play {
	return &play{status: status, contentType: contentType, body: body, failAt: -1}
}

// refusal is an error answer in Dynamo's shape.
func refusal(status int, message string) *play {
	body, err := json.Marshal(struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    int    `json:"code"`
	}{message, http.StatusText(status), status})
	if err != nil {
		body = nil // cannot be: strings and a number
	}
	return whole(status, "application/json", body)
}

// completion makes the play of a completion request that was let in.
func completion(s Script, l *ledger, e *Request, frozen []window, a asked, created int64) *play {
	p := &play{
		script: s, ledger: l, entry: e, frozen: frozen,
		status: http.StatusOK, contentType: "text/event-stream", stream: true,
		asked: a, fault: s.FaultAt(e.Index), failAt: -1,
		limited: a.tokens > 0, tokens: a.tokens, first: e.PlannedFirst,
		headLeft: s.HeadersFirst, roleLeft: s.RoleFirst && a.chat,
	}
	if p.tokens == 0 {
		p.tokens = max(s.Tokens, a.atLeast)
	}
	p.asked.everyUsage = s.Usage == UsageEvery || s.Usage == UsageFinal && a.everyUsage
	p.asked.usage = a.usage && s.Usage != UsageNone

	switch p.fault.Kind {
	case HTTP500:
		return p.instead(refusal(http.StatusInternalServerError, "Failed to generate completions"))
	case HTTP429:
		return p.instead(refusal(http.StatusTooManyRequests, "Too many requests"))
	case Empty500:
		return p.instead(whole(http.StatusInternalServerError, "", nil))
	case HTML200:
		return p.instead(whole(http.StatusOK, "text/html; charset=utf-8", []byte("<!DOCTYPE html>\n<html><body><h1>It works</h1></body></html>\n")))
	case Reset, Cut, Truncated, ErrorEvent, ErrorData, Stall:
		switch after := p.fault.After; {
		case after < 0:
			p.failAt, p.headLeft, p.roleLeft = 0, false, false
		case after == 0:
			p.failAt = max(1, p.tokens/2)
		default:
			p.failAt = min(after, p.tokens)
		}
	case ZeroTokens:
		p.tokens = 0
	case Endless:
		if a.stream {
			p.tokens = math.MaxInt
		}
	case NoDone, Unsolicited: // only the end is different
	}
	if !a.stream {
		return p.unary(created)
	}

	object, id := "chat.completion.chunk", "chatcmpl-"
	if !a.chat {
		object, id = "text_completion", "cmpl-"
	}
	p.prefix = fmt.Appendf(nil, `data: {"id":"%s%016x%016x","object":"%s","created":%d,"model":%s,`,
		id, s.draw(drawID, uint64(e.Index), 0), e.Index, object, created, quote(s.Model))
	if e.Worker != 0 {
		p.prefix = fmt.Appendf(p.prefix, `"nvext":{"worker_id":{"prefill_worker_id":%d,"decode_worker_id":%d}},`, e.Worker, e.Worker)
	}
	p.schedule()
	return p
}

// instead keeps the play's entry and schedule but answers with another's body.
func (p *play) instead(other *play) *play {
	p.status, p.contentType, p.body, p.stream = other.status, other.contentType, other.body, false
	p.failAt = -1
	p.due = advance(p.frozen, p.entry.Arrival, 0)
	return p
}

// unary answers a request that did not ask for a stream: the whole of it when
// the last token would have come. Faults of a stream end it before any byte.
func (p *play) unary(created int64) *play {
	p.stream, p.contentType = false, "application/json"
	p.due = p.first
	if k := p.fault.Kind; k == Reset || k == Cut || k == Stall {
		p.failAt = 0
		return p
	} else if k == Truncated || k == ErrorEvent || k == ErrorData {
		return p.instead(refusal(http.StatusInternalServerError, "Failed to generate completions"))
	}
	var content []byte
	for ; p.sent < p.tokens; p.sent++ {
		if p.sent > 0 {
			p.due = advance(p.frozen, p.due, p.script.gap(p.entry.Index, p.sent, 1))
		}
		content = appendToken(content, p.sent)
	}
	object, choice := "chat.completion", `"message":{"role":"assistant","content":"`+string(content)+`"}`
	if !p.asked.chat {
		object, choice = "text_completion", `"text":"`+string(content)+`"`
	}
	p.body = fmt.Appendf(nil, `{"id":"cmpl-%d","object":"%s","created":%d,"model":%s,"choices":[{"index":0,%s,"finish_reason":"%s"}]`,
		p.entry.Index, object, created, quote(p.script.Model), choice, p.finish())
	if p.script.Usage != UsageNone {
		p.body = p.appendUsage(append(p.body, ','))
	}
	p.body = append(p.body, '}')
	return p
}

// schedule sets when the next step is due. It goes from plan to plan, never
// from what really happened: a late write does not delay the next one.
func (p *play) schedule() {
	switch {
	case p.headLeft || p.roleLeft:
		p.due = advance(p.frozen, p.entry.Arrival, 0)
	case p.sent == 0:
		p.due = p.first
	default:
		n := max(1, p.chunkLen()) // 1 where a fault comes after the last token
		p.due = advance(p.frozen, p.due, p.script.gap(p.entry.Index, p.sent, n))
	}
}

// next appends the bytes of the step that is due, without the head, each event
// as an HTTP chunk of its own where chunked.
func (p *play) next(dst []byte, chunked bool) ([]byte, step) {
	st := step{due: p.due}
	switch {
	case p.sent == p.failAt: // before the head, when it comes after no token
		return p.fail(dst, chunked, st)
	case !p.stream:
		st.act, st.tokens = actEnd, p.sent
		return append(dst, p.body...), st
	case p.headLeft:
		p.headLeft = false
		p.schedule()
		return dst, st
	case p.roleLeft:
		p.roleLeft = false
		st.events[eventRole]++
		dst = p.event(dst, chunked, func(dst []byte) []byte {
			return p.appendChoice(dst, `"delta":{"role":"assistant","content":""}`, "")
		})
		p.schedule()
		return dst, st
	case p.sent < p.tokens:
		st.tokens = p.chunkLen()
		st.events[eventContent]++
		dst = p.event(dst, chunked, func(dst []byte) []byte { return p.appendContent(dst, st.tokens) })
		if p.sent < p.tokens || p.failAt == p.tokens {
			p.schedule()
			return dst, st
		}
	}
	return p.tail(dst, chunked, st)
}

// bare reports whether a step moves no byte at all, not even the head.
func (s step) bare() bool { return s.act == actReset || s.act == actCut || s.act == actStall }

// chunkLen is how many tokens the next event carries. Reasoning and answer
// never share one, and a fault comes after exactly as many as it says.
func (p *play) chunkLen() int {
	n := min(p.script.TokensPerChunk, p.tokens-p.sent)
	for _, border := range []int{p.script.ReasoningTokens, p.failAt} {
		if p.sent < border {
			n = min(n, border-p.sent)
		}
	}
	return n
}

// tail ends a stream in good order. It goes out in the same write as the last
// token, which is how engines do it.
func (p *play) tail(dst []byte, chunked bool, st step) ([]byte, step) {
	st.act = actEnd
	st.events[eventFinish]++
	dst = p.event(dst, chunked, func(dst []byte) []byte {
		if p.asked.chat {
			return p.appendChoice(dst, `"delta":{}`, p.finish())
		}
		return p.appendChoice(dst, `"text":""`, p.finish())
	})
	if p.asked.usage {
		st.events[eventUsage]++
		dst = p.event(dst, chunked, func(dst []byte) []byte {
			dst = append(append(dst, p.prefix...), `"choices":[],`...)
			return append(p.appendUsage(dst), '}')
		})
	}
	if !p.script.NoDone && p.fault.Kind != NoDone {
		st.events[eventDone]++
		dst = p.event(dst, chunked, func(dst []byte) []byte { return append(dst, "data: [DONE]"...) })
	}
	return dst, st
}

// fail ends a stream as its fault says.
func (p *play) fail(dst []byte, chunked bool, st step) ([]byte, step) {
	const message = `data: {"error":{"message":"Internal server error","type":"internal_server_error","code":500}}`
	switch p.fault.Kind {
	case Reset:
		st.act = actReset
	case Cut:
		st.act = actCut
	case Stall:
		st.act = actStall
	case ErrorEvent:
		st.act = actEnd
		st.events[eventError]++
		dst = p.event(dst, chunked, func(dst []byte) []byte {
			dst = append(append(dst, "event: error"...), p.newline()...)
			return append(dst, message...)
		})
	case ErrorData:
		st.act = actEnd
		st.events[eventError]++
		st.events[eventDone]++
		dst = p.event(dst, chunked, func(dst []byte) []byte { return append(dst, message...) })
		dst = p.event(dst, chunked, func(dst []byte) []byte { return append(dst, "data: [DONE]"...) })
	default: // Truncated
		st.act = actEnd
	}
	return dst, st
}

// event appends what line appends, ended as an event and framed as a chunk.
func (p *play) event(dst []byte, chunked bool, line func([]byte) []byte) []byte {
	start := len(dst)
	dst = line(dst)
	dst = append(append(dst, p.newline()...), p.newline()...)
	if !chunked {
		return dst
	}
	// The size comes first and is only known now: move the event up.
	var head [18]byte
	size := append(strconv.AppendUint(head[:0], uint64(len(dst)-start), 16), "\r\n"...)
	dst = append(dst, size...)
	copy(dst[start+len(size):], dst[start:])
	copy(dst[start:], size)
	return append(dst, "\r\n"...)
}

func (p *play) newline() string {
	if p.script.CRLF {
		return "\r\n"
	}
	return "\n"
}

// appendContent appends an event of n tokens and counts them as sent.
func (p *play) appendContent(dst []byte, n int) []byte {
	dst = append(dst, p.prefix...)
	switch {
	case !p.asked.chat:
		dst = append(dst, `"choices":[{"index":0,"text":"`...)
	case p.sent < p.script.ReasoningTokens:
		dst = append(dst, `"choices":[{"index":0,"delta":{"reasoning_content":"`...)
	default:
		dst = append(dst, `"choices":[{"index":0,"delta":{"content":"`...)
	}
	if p.script.OneLetter {
		dst = append(dst, 'x')
		p.sent += n
		n = 0
	}
	for range n {
		dst = appendToken(dst, p.sent)
		p.sent++
	}
	if p.asked.chat {
		dst = append(dst, `"}`...)
	} else {
		dst = append(dst, '"')
	}
	dst = append(dst, `,"logprobs":null,"finish_reason":null}],`...)
	return p.closeEvent(dst)
}

// appendChoice appends an event whose choice has no tokens.
func (p *play) appendChoice(dst []byte, inside, finish string) []byte {
	dst = append(append(dst, p.prefix...), `"choices":[{"index":0,`...)
	dst = append(dst, inside...)
	if finish == "" {
		dst = append(dst, `,"logprobs":null,"finish_reason":null}],`...)
	} else {
		dst = append(append(append(dst, `,"logprobs":null,"finish_reason":"`...), finish...), `"}],`...)
	}
	return p.closeEvent(dst)
}

// closeEvent ends the object of an event with a choice.
func (p *play) closeEvent(dst []byte) []byte {
	if p.asked.everyUsage {
		return append(p.appendUsage(dst), '}')
	}
	return append(dst, `"usage":null}`...)
}

// appendUsage appends the member "usage", with the tokens sent so far.
func (p *play) appendUsage(dst []byte) []byte {
	dst = append(dst, `"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(p.asked.prompt), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(p.asked.prompt+p.sent), 10)
	dst = append(dst, `,"completion_tokens":`...)
	if count := p.script.UsageCount; count != "" {
		dst = append(dst, count...)
	} else {
		dst = strconv.AppendInt(dst, int64(p.sent), 10)
	}
	if cached := p.script.CachedTokens; cached != 0 {
		dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
		dst = strconv.AppendInt(dst, int64(max(0, min(cached, p.asked.prompt))), 10)
		dst = append(dst, '}')
	}
	if p.script.ReasoningTokens > 0 {
		dst = append(dst, `,"completion_tokens_details":{"reasoning_tokens":`...)
		dst = strconv.AppendInt(dst, int64(min(p.sent, p.script.ReasoningTokens)), 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// surplus is what follows the answer on its connection, and no request asked for.
func (p *play) surplus() []byte {
	if p.fault.Kind != Unsolicited || !p.stream {
		return nil
	}
	body := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" w\"},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n"
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%s", len(body), body)
}

func (p *play) finish() string {
	if p.limited {
		return "length"
	}
	return "stop"
}

// appendToken appends the text of a token: one word with a space before it,
// as long as any other, so that all events of a stream have one size.
func appendToken(dst []byte, n int) []byte {
	return append(dst, ' ', 'w', digit(n/1000), digit(n/100), digit(n/10), digit(n))
}

func digit(n int) byte { return '0' + byte(n%10) }

// quote is s as a JSON string.
func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`) // cannot be: s is a string
	}
	return b
}
