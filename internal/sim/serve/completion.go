package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"aicr/internal/sim"
	"aicr/internal/sim/exporter"
)

// maxBody is the longest request that is read, which is Dynamo's limit.
const maxBody = 45 << 20

// complete answers a completion request.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, e endpoint) {
	received := time.Now()
	switch {
	case len(s.present()) == 0:
		refuseEmpty(w, http.StatusNotFound)
		return
	case r.Method != http.MethodPost:
		refuseMethod(w, http.MethodPost)
		return
	case !isJSON(r.Header.Get("Content-Type")):
		(&refusal{http.StatusUnsupportedMediaType, saysNoJSON}).write(w)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			(&refusal{http.StatusRequestEntityTooLarge, saysTooLarge}).write(w)
		}
		return // else the client is gone
	}
	ask, refused := parse(body, e)
	var p plan
	switch {
	case refused != nil:
	case ask.model != s.options.Model:
		refused = &refusal{http.StatusNotFound, saysNotFound}
	default:
		p, refused = planOf(ask, s.scenario.Load.OutputTokens, s.context)
	}
	if refused != nil {
		s.count(ask, refused)
		refused.write(w)
		return
	}
	a := &answer{
		server: s, http: w, flush: http.NewResponseController(w).Flush, ask: ask, plan: &p,
		writer: newWriter(ask, &p, s.nameOf(r), received),
		stream: &sim.Stream{Prompt: ask.prompt.tokens, Output: p.output, Blocks: ask.prompt.blocks, Tag: exporter.EndsByLength},
	}
	if p.finish == finishStop {
		a.stream.Tag = exporter.EndsByStop
	}
	s.metrics.Started(string(ask.endpoint), ask.kind())
	a.serve(r)
}

// count tells the metrics of a request that never reached the fleet. One that
// could not be decoded is not counted, which is how Dynamo has it.
func (s *Server) count(a *ask, r *refusal) {
	if a.model == "" {
		return
	}
	if a.model == s.options.Model {
		s.metrics.Started(string(a.endpoint), a.kind())
	}
	s.metrics.Finished(exporter.Finished{Worker: -1, Endpoint: string(a.endpoint), Kind: a.kind(),
		Status: "error", ErrorType: r.errorType(), Model: a.model})
}

// nameOf names a request: by the x-request-id that came with it, when that is a
// UUID, or else by one that no other request of this server has.
func (s *Server) nameOf(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); isUUID(id) {
		return id
	}
	n := s.requests.Add(1)
	a := mix(uint64(s.started.UnixNano()) + n)
	b := mix(a ^ n)
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, 0x8000|b>>48&0x3fff, b&0xffffffffffff)
}

// isUUID reports whether s is written as UUIDs are.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		default:
			return false
		}
	}
	return true
}

// isJSON reports whether a content type is one of JSON's.
func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json"))
}

// answer is one request in the fleet's hands.
type answer struct {
	server *Server
	http   http.ResponseWriter
	flush  func() error
	ask    *ask
	plan   *plan
	writer *writer
	stream *sim.Stream

	headSent bool
	counted  int           // tokens that the metrics know of
	last     time.Duration // when the latest of them came
}

// serve hands the request to the fleet and writes down what becomes of it, until
// it ends or the client goes away.
func (a *answer) serve(r *http.Request) {
	box := newInbox()
	a.server.fleet.Submit(a.stream, box)
	var room []time.Duration
	for {
		select {
		case <-box.wake:
		case <-r.Context().Done():
			a.abandon(box)
			return
		}
		n := box.take(room)
		a.tellTokens(n)
		room = n.tokensAt
		var err error
		if a.ask.stream {
			err = a.writeNews(n)
		}
		switch {
		case err != nil:
			a.abandon(box)
			return
		case n.ended:
			a.tellEnd(n)
			a.end(n)
			return
		}
	}
}

// abandon takes the request back from the fleet, whose client is gone.
func (a *answer) abandon(box *inbox) {
	a.server.fleet.Abandon(a.stream)
	n := box.take(nil)
	a.tellTokens(n)
	n.outcome = sim.Abandoned
	a.tellEnd(n)
}

// writeNews sends the head once a worker has the request, and then the tokens,
// each as a chunk of its own.
func (a *answer) writeNews(n news) error {
	if n.routed && !a.headSent {
		a.headSent = true
		a.writer.begin(a.server.workers[n.worker])
		h := a.http.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		a.http.WriteHeader(http.StatusOK)
		if err := a.send(nil); err != nil {
			return err
		}
	}
	for i := a.writer.tokens + 1; i <= n.given; i++ {
		if event := a.writer.token(i); event != nil {
			if err := a.send(event); err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends an event as an HTTP chunk.
func (a *answer) send(event []byte) error {
	if _, err := a.http.Write(event); err != nil {
		return err
	}
	return a.flush()
}

// end writes how the request ended. A client that is gone by now misses it.
func (a *answer) end(n news) {
	switch {
	case n.outcome == sim.Reset:
		reset(a.http)
	case a.headSent:
		a.endStream(n)
	case n.outcome == sim.Refused && n.status == http.StatusNotFound && len(a.server.present()) == 0: // the last worker has gone
		refuseEmpty(a.http, http.StatusNotFound)
	case n.outcome == sim.Refused:
		a.server.refusalOf(n.status).write(a.http)
	case n.outcome == sim.ErrorTold || !n.routed:
		a.server.refusalOf(http.StatusInternalServerError).write(a.http)
	default:
		a.writer.begin(a.server.workers[n.worker])
		writeChunked(a.http, http.StatusOK, a.writer.whole(n.given, a.finishReason(n), n.wallTime.Sub(a.writer.received)))
	}
}

func (a *answer) endStream(n news) {
	var events []string
	switch n.outcome {
	case sim.Truncated:
	case sim.Served, sim.Empty:
		events = append(events, string(a.writer.finish(a.finishReason(n), n.wallTime.Sub(a.writer.received))))
		if a.ask.usage {
			events = append(events, string(a.writer.usage()))
		}
		events = append(events, eventDone)
	default:
		events = append(events, eventError, eventDone)
	}
	for _, event := range events {
		if a.send([]byte(event)) != nil {
			return
		}
	}
}

// finishReason is why the answer ended, or "" when that was never said.
func (a *answer) finishReason(n news) string {
	switch n.outcome {
	case sim.Served:
		return a.plan.finish
	case sim.Empty:
		return finishStop
	default:
		return ""
	}
}

// tellTokens tells the metrics of the tokens that are new. It is done here and
// not where the fleet tells of them, which must not wait for a lock.
func (a *answer) tellTokens(n news) {
	for _, at := range n.tokensAt {
		if a.counted == 0 {
			a.server.metrics.FirstToken(n.worker, (at - a.stream.Arrived).Seconds())
		} else {
			a.server.metrics.Gap(n.worker, (at - a.last).Seconds())
		}
		a.counted++
		a.last = at
	}
}

// tellEnd tells the metrics of the request.
func (a *answer) tellEnd(n news) {
	f := exporter.Finished{
		Worker: n.worker, Endpoint: string(a.ask.endpoint), Kind: a.ask.kind(), Status: "error",
		Model: a.ask.model, Prompt: a.stream.Prompt, Cached: n.cached, Output: n.given,
	}
	if n.ended {
		f.Duration = (n.endedAt - a.stream.Arrived).Seconds()
	}
	switch n.outcome {
	case sim.Served, sim.Empty: // the frontend takes any answer with an end for a good one
		f.Status = "success"
	case sim.Refused:
		f.ErrorType = a.server.refusalOf(n.status).errorType()
	case sim.Abandoned:
		f.ErrorType = "cancelled"
	default:
		f.ErrorType = "internal"
	}
	a.server.metrics.Finished(f)
}

// reset breaks the connection by RST, where it is one that knows how.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: there is only the stream to break
	}
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn() // a close of the tls.Conn would say goodbye first
	}
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // without it there is a FIN, and nobody to tell
	}
	_ = conn.Close()
}
