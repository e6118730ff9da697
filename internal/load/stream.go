package load

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"syscall"

	"aicr/internal/load/chat"
	"aicr/internal/load/http1"
	"aicr/internal/load/sse"
	"aicr/internal/redact"
)

// stream turns the bytes of one answer, as they come, into its Record. It is
// reused for one request after the other and knows neither clock nor socket.
type stream struct {
	rec    *Record
	answer http1.Decoder
	events sse.Scanner
	reader chat.Reader
	chunk  chat.Chunk

	at     int64   // the stamp of the read that is being taken
	stamps []int64 // of each content event
	blanks []int64 // of each event with a choice and no text: a role, the end, half a character
	isSSE  bool
	isHTML bool
	body   []byte // the beginning of an answer that is no event stream
	fault  []byte // the error that the server told inside the stream
	broken error  // the stream is not what it should be
	over   bool   // the server has said behind the answer that it closes the connection

	mostEvents int32
	mostBytes  int64

	mask *redact.Mask // of what the server is told in confidence, which it may repeat
	said [2]excerpted // the last excerpts: servers repeat themselves
}

// excerpted is an excerpt and what it was made of.
type excerpted struct {
	text   string
	source []byte
	limit  int
}

// maxBody is how much of an error's body is kept.
const maxBody = 2048

// The bounds of an answer, so that one without an end has one. They are far beyond what
// servers send: a token takes some 300 bytes of events, or 3 KB with 20 logprobs, and a
// server may say that it is still there.
const (
	eventsAlways  = 4096
	eventsAToken  = 16
	bytesAlways   = 4 << 20
	bytesAToken   = 8 << 10
	bytesAsked    = 4       // for each byte of the request, which may be echoed
	unknownTokens = 1 << 16 // where the request does not bound its answer
)

// begin makes the stream ready for the next answer. What the request asked for is in rec.
func (s *stream) begin(rec *Record) {
	s.rec = rec
	tokens := rec.Asked
	if tokens <= 0 {
		tokens = unknownTokens
	}
	s.mostEvents = int32(min(eventsAlways+eventsAToken*int64(tokens), math.MaxInt32))
	s.mostBytes = bytesAlways + bytesAToken*int64(tokens)
	s.answer.Reset()
	s.events.Reset()
	s.stamps, s.blanks = s.stamps[:0], s.blanks[:0]
	s.isSSE, s.isHTML = false, false
	s.body, s.fault, s.broken, s.over = s.body[:0], s.fault[:0], nil, false
}

// feed takes what one read brought, stamped at. It reports whether the answer
// is whole, or cannot become so.
func (s *stream) feed(b []byte, at int64) (whole bool) {
	r := s.rec
	if r.FirstByte == 0 {
		r.FirstByte = at
	}
	s.at = at
	r.BytesIn += int64(len(b))
	before := r.Events
	n, err := s.answer.Feed(b, s)
	s.count(before)
	if err != nil {
		s.broken = err
		return true
	}
	if n < len(b) {
		if s.over = idleStateOf(b[n:]) == idleEnded; !s.over {
			s.broken = &surplusError{s.excerpt(b[n:], 80)}
		}
	}
	return s.oversized() || s.answer.Done()
}

// oversized reports, in s.broken too, that the answer is beyond its bounds.
func (s *stream) oversized() bool {
	r := s.rec
	switch bytes := s.mostBytes + bytesAsked*int64(r.BytesOut); {
	case r.Events > s.mostEvents:
		s.broken = &oversizedError{int64(r.Events), "events", int64(s.mostEvents), r.Asked}
	case r.BytesIn > bytes:
		s.broken = &oversizedError{r.BytesIn, "bytes", bytes, r.Asked}
	default:
		return false
	}
	return true
}

// feedBody is feed for a body whose transfer coding someone else has undone.
func (s *stream) feedBody(b []byte, at int64) error {
	s.at = at
	s.rec.BytesIn += int64(len(b))
	before := s.rec.Events
	err := s.Body(b)
	s.count(before)
	if err == nil && s.oversized() {
		err = s.broken
	}
	return err
}

func (s *stream) count(before int32) {
	if n := s.rec.Events - before; n > 0 {
		s.rec.Reads++
		s.rec.MaxEvents = max(s.rec.MaxEvents, n)
	}
}

// Head implements http1.Sink.
func (s *stream) Head(h http1.Head) error {
	s.rec.Status = uint16(h.Status)
	s.isSSE = h.EventStream && h.Status == 200
	s.isHTML = h.HTML
	if h.Backend != 0 {
		s.rec.Flags |= HasBackend
		s.rec.Worker = h.Backend
	}
	return nil
}

// Body implements http1.Sink.
func (s *stream) Body(b []byte) error {
	if s.isSSE {
		return s.events.Feed(b, s)
	}
	s.body = append(s.body, b[:min(len(b), maxBody-len(s.body))]...)
	return nil
}

// Event implements sse.Sink.
func (s *stream) Event(name, data []byte) {
	r := s.rec
	r.Events++
	if string(data) == "[DONE]" {
		r.Flags |= Done
		return
	}
	if string(name) == "error" {
		s.failed(data)
		return
	}
	if len(data) == 0 {
		return
	}
	c := &s.chunk
	if err := s.reader.Parse(data, c); err != nil {
		if s.broken == nil {
			s.broken = fmt.Errorf("event %d: %w: %s", r.Events, err, s.excerpt(data, 80))
		}
		return
	}
	if c.Failed {
		s.failed(c.Message)
		return
	}
	if c.Choice {
		r.FirstChoice, r.LastChoice = cmp.Or(r.FirstChoice, s.at), s.at
		if !c.Content && !c.Reasoning {
			s.blanks = append(s.blanks, s.at)
		}
	}
	if c.Content || c.Reasoning {
		if r.Has(Done) {
			if s.broken == nil {
				s.broken = fmt.Errorf("event %d has content, and [DONE] came before it", r.Events)
			}
			return
		}
		s.content(c.Content)
		r.TextBytes = int32(min(int64(r.TextBytes)+int64(c.Text), math.MaxInt32))
		r.Flags &^= HasUsage // what was counted before is not all of it
	}
	if c.Finish != nil {
		r.Finish = finishOf(c.Finish)
	}
	switch {
	case c.Uncounted:
		r.Flags &^= HasUsage | HasCached
	case c.HasUsage:
		r.Flags |= HasUsage
		r.PromptTokens = clamp(c.Prompt)
		r.CompletionTokens = clamp(c.Completion)
		r.ReasoningTokens = clamp(c.Thought)
		if c.HasCached {
			r.Flags |= HasCached
			r.CachedTokens = clamp(c.Cached)
		}
	}
	if c.HasWorker {
		r.Flags = r.Flags&^HasBackend | HasWorker
		r.Worker = c.Worker
	}
}

func (s *stream) content(answer bool) {
	r := s.rec
	r.Chunks++
	switch r.Chunks {
	case 1:
		r.FirstContent = s.at
	case 2:
		r.SecondContent = s.at
	}
	if answer && r.FirstAnswer == 0 {
		r.FirstAnswer = s.at
	}
	if r.LastContent != 0 {
		if gap := s.at - r.LastContent; gap > r.MaxGap {
			r.MaxGap, r.MaxGapAt = gap, s.at
		}
	}
	r.LastContent = s.at
	s.stamps = append(s.stamps, s.at)
}

func (s *stream) failed(message []byte) {
	if len(s.fault) == 0 {
		s.fault = append(s.fault, message[:min(len(message), maxBody)]...)
		if len(s.fault) == 0 {
			s.fault = append(s.fault, "(no message)"...)
		}
	}
}

func finishOf(reason []byte) Finish {
	switch string(reason) {
	case "stop":
		return FinishStop
	case "length":
		return FinishLength
	}
	return FinishOther
}

func clamp(n int64) int32 { return int32(min(max(n, 0), 1<<31-1)) }

// Why a request ended, where the stream itself cannot know.
var (
	errTimeout     = errors.New("no whole answer within the request's time limit")
	errInterrupted = errors.New("stopped before the answer was whole")
)

// resetError says that the connection failed after it had been opened.
type resetError struct {
	cause    error
	answered bool // bytes of an answer lie unread behind it
}

func (e *resetError) Error() string { return e.cause.Error() }
func (e *resetError) Unwrap() error { return e.cause }

// connectError says that there was no connection.
type connectError struct {
	cause error
	tls   bool
}

func (e *connectError) Error() string { return e.cause.Error() }
func (e *connectError) Unwrap() error { return e.cause }

// surplusError says that bytes came that no request asked for.
type surplusError struct{ excerpt string }

func (e *surplusError) Error() string {
	return "bytes on the connection that no request asked for: " + strconv.Quote(e.excerpt)
}

// oversizedError says that an answer was given up because it had no end in sight.
type oversizedError struct {
	got   int64
	what  string
	limit int64
	asked int32
}

func (e *oversizedError) Error() string {
	asked := fmt.Sprintf("%d output tokens were asked for", e.asked)
	if e.asked <= 0 {
		asked = "the request does not bound its output tokens"
	}
	return fmt.Sprintf("the answer was given up after %d %s, where %d is the most (%s)", e.got, e.what, e.limit, asked)
}

// maxMessage bounds what is kept of a failure's words: a certificate's names, for
// instance, may be as many as the server likes.
const maxMessage = 480

// finish closes the record: it says how the request ended, and returns a
// message when it failed. cause is nil when the answer is whole. What the
// server said comes before how the connection ended.
func (s *stream) finish(at int64, cause error) (message string) {
	message = s.close(at, cause)
	if s.rec.OK() {
		return ""
	}
	return s.excerpt([]byte(message), maxMessage)
}

func (s *stream) close(at int64, cause error) (message string) {
	r := s.rec
	r.End = at
	if r.Chunks > 0 && r.CompletionTokens == 0 {
		r.Flags &^= HasUsage // no tokens, and yet there is content: that counts nothing
	}
	surplus, unsolicited := errors.AsType[*surplusError](cmp.Or(s.broken, cause))
	connect, unconnected := errors.AsType[*connectError](cause)
	_, oversized := errors.AsType[*oversizedError](s.broken)
	_, tooLong := errors.AsType[*sse.TooLongError](s.broken)
	switch {
	case errors.Is(cause, errInterrupted):
		r.Class, message = Interrupt, cause.Error()
		r.Flags |= Cancelled
	case unconnected:
		r.Class, message = Connect, cause.Error()
		if connect.tls {
			r.Class = TLSFailed
		}
		if exhausted(cause) {
			r.Flags |= Exhausted
		}
	case unsolicited:
		r.Class, message = Unsolicited, surplus.Error()
	case r.Status != 0 && r.Status != 200:
		r.Class, message = HTTPStatus, s.statusMessage()
	case len(s.fault) > 0:
		r.Class, message = ErrorEvent, s.excerpt(Worded(s.fault), 400)
	case errors.Is(cause, errTimeout):
		r.Class, message = Timeout, cause.Error()
	case r.Status == 200 && !s.isSSE:
		r.Class, message = BadStream, "an answer that is no event stream: "+s.bodyMessage()
	case s.broken != nil:
		r.Class, message = BadStream, s.broken.Error()
		if oversized || tooLong {
			r.Class = Oversized
		}
	case errors.Is(cause, http1.ErrTruncated):
		r.Class, message = Truncated, cause.Error()
	case cause != nil:
		r.Class, message = Reset, cause.Error()
		if r.Has(Reused) && !r.Has(Resent) && r.FirstByte == 0 {
			message += "; it had carried a request before: --connection-reuse-strategy never opens one for each request"
		}
	case r.Chunks == 0 && (r.Finish != Unfinished || r.Events == 0 || r.Has(Done)):
		r.Class, message = NoTokens, "a whole answer without any content"
	case r.Finish == Unfinished:
		r.Class, message = Truncated, "the stream ended without a finish reason"
	default:
		r.Class = OK
	}
	return message
}

// exhausted tells a machine that has no more of something from a server that
// does not answer.
func exhausted(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (s *stream) statusMessage() string {
	return "HTTP " + strconv.Itoa(int(s.rec.Status)) + ": " + s.bodyMessage()
}

func (s *stream) bodyMessage() string {
	switch {
	case len(s.body) == 0:
		return "(empty body)"
	case s.isHTML:
		return "(a page of HTML)"
	}
	return s.excerpt(Worded(s.body), 400)
}

// excerpt makes a server's bytes fit for one line of a report: masked, cleaned, and then
// cut. What the bytes are a part of may go on with the rest of a secret.
func (s *stream) excerpt(b []byte, limit int) string {
	last := &s.said[0]
	if limit == maxMessage {
		last = &s.said[1]
	}
	if last.limit != limit || !bytes.Equal(last.source, b) {
		last.text, last.source, last.limit = excerpt(s.mask, b, limit), append(last.source[:0], b...), limit
	}
	return last.text
}

func excerpt(mask *redact.Mask, b []byte, limit int) string {
	text := redact.Clean(redact.Masked(mask.Part(string(bytes.TrimSpace(b)))))
	if len(text) > limit {
		text = redact.Cut(text, limit+len("…"))
	}
	return text
}
