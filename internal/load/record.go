package load

import (
	"cmp"
	"iter"
	"slices"
)

// Record is what is kept of one request: when each thing happened and what the
// server said. It holds no pointer, so that ten million of them cost the
// garbage collector nothing.
//
// Stamps are nanoseconds of the monotonic clock since the run's epoch, and are
// never 0 when the thing happened: 0 means "did not happen".
type Record struct {
	Seq      int64 // place in the request sequence, from 0 within its stage
	Intended int64 // when the schedule wanted it sent
	Sent     int64 // just before the first byte was written, connection already open

	FirstByte     int64 // first byte of the answer's head
	FirstChoice   int64 // first event with a choice, a role-only one included
	FirstContent  int64 // first event with text, reasoning included
	SecondContent int64
	FirstAnswer   int64 // first event with text that is not reasoning
	LastContent   int64
	LastChoice    int64 // last event with a choice, one without text included
	End           int64 // the answer was whole, or was given up

	Resolve int64 // durations: name look-up, TCP connect and TLS handshake,
	Connect int64 // paid before Sent by the request that opened the connection;
	TLS     int64 // 0 on a connection that was open already

	MaxGap   int64 // longest wait between two content events
	MaxGapAt int64 // the stamp at which that wait ended

	Worker uint64 // who served it, when Has(HasWorker), or BackendID of it, when Has(HasBackend)

	PromptTokens     int32 // as the server's usage tells them; see HasUsage
	CompletionTokens int32
	CachedTokens     int32
	ReasoningTokens  int32

	Asked     int32 // output tokens that were asked for, of all choices; 0: not known
	TextBytes int32 // of UTF-8, of all text that came: reasoning and calls of tools too
	Chunks    int32 // events with content
	Events    int32 // all events
	Reads     int32 // reads that brought at least one event
	MaxEvents int32 // most events in one read
	BytesIn   int64
	BytesOut  int32

	User   int32 // the closed loop's user, or the connection's number
	Detail int32 // index into Log.Details; 0: none
	Status uint16
	Flags  Flags
	Class  Class
	Phase  Phase
	Lane   Lane
	Finish Finish

	tokens int64 // where this record's stamps begin in its block's tokens, plus 1
	shard  int32
	blanks int32 // stamps of events with a choice and no text, which follow those of the content
}

// Has reports whether all flags of f are set.
func (r *Record) Has(f Flags) bool { return r.Flags&f == f }

// OK reports whether the request was served in full.
func (r *Record) OK() bool { return r.Class == OK }

// served is how long a request that was served was in flight; 0: it was not served.
func (r *Record) served() int64 {
	if !r.OK() {
		return 0
	}
	return r.End - r.Sent
}

// lateness is how long after its time a request was sent, what it took to open
// its connection aside.
func (r *Record) lateness() int64 {
	return max(0, r.Sent-r.Intended-r.Resolve-r.Connect-r.TLS)
}

// Tokens is the output length: the server's count where it gave one, the
// number of content events where it did not.
func (r *Record) Tokens() int32 {
	if r.Has(HasUsage) {
		return r.CompletionTokens
	}
	return r.Chunks
}

// BackedOff reports that the connection failed before it carried an answer, or brought one
// without an end: its user waits before it connects again (backoff.go), so that a server
// which refuses every connection is not asked as fast as the client can ask.
func (r *Record) BackedOff() bool {
	switch r.Class {
	case Connect, TLSFailed, Oversized:
		return true
	case Reset, BadStream:
		return r.Status == 0
	case Truncated:
		return r.Events == 0
	case OK, Timeout, HTTPStatus, ErrorEvent, NoTokens, Unsolicited, Interrupt, classes:
	}
	return false
}

// Flags are the yes-or-no facts of a Record.
type Flags uint16

// The facts that a Record keeps a bit for.
const (
	HasUsage   Flags = 1 << iota // the server counted the tokens of the whole answer
	HasCached                    // usage told cached prompt tokens
	HasWorker                    // the server named the worker
	Reused                       // the connection had carried a request before: the first one, of a request sent again
	Done                         // [DONE] was seen
	Cancelled                    // ended by us: interrupt, or the grace period ran out
	Exhausted                    // not sent for want of ports or file descriptors: the client's fault
	Resent                       // sent once more on a new connection; Sent is of the first time (resend.go)
	HasBackend                   // a proxy's header named the server that answered
)

// Class says how a request ended. Failures are data: each has one class.
type Class uint8

// The classes, in the order in which reports list them.
const (
	OK          Class = iota
	Connect           // no connection: refused, unreachable, timed out while connecting
	TLSFailed         // the handshake failed
	Timeout           // no whole answer within the request's time limit
	Reset             // the connection was reset, or closed before any byte of the answer
	Truncated         // the stream ended without a finish reason, or its body was cut
	HTTPStatus        // an answer other than 200
	ErrorEvent        // an error told inside a stream that had begun with 200
	NoTokens          // a whole answer without any content
	BadStream         // not HTTP, or not an event stream
	Oversized         // more events or bytes than an answer of the tokens asked for can have
	Unsolicited       // bytes on its connection that no request asked for
	Interrupt         // stopped by the user or by the end of the run; not the server's doing
	classes
)

var classNames = [classes]string{
	"ok", "connect", "tls", "timeout", "reset", "truncated",
	"http-status", "error-event", "no-tokens", "bad-stream", "oversized", "unsolicited", "interrupted",
}

func (c Class) String() string { return classNames[c] }

// Classes lists every class.
func Classes() []Class {
	all := make([]Class, classes)
	for i := range all {
		all[i] = Class(i)
	}
	return all
}

// Phase is the part of a run that a request belongs to.
type Phase uint8

// A request of the main stage is in Ramp when it was sent before every user
// had started, in Drain when it ended after the engine had stopped sending,
// and otherwise in Steady.
const (
	Warmup Phase = iota
	Ramp
	Steady
	Drain
)

var phaseNames = [...]string{"warmup", "ramp", "steady", "drain"}

func (p Phase) String() string { return phaseNames[p] }

// Lane is the schedule that sent a request.
type Lane uint8

// The schedules. Sentinel requests run beside a closed loop at a fixed rate and
// are left out of its figures.
const (
	Closed Lane = iota
	Open
	Sentinel
)

var laneNames = [...]string{"closed", "open", "sentinel"}

func (l Lane) String() string { return laneNames[l] }

// Finish is the server's finish reason.
type Finish uint8

// The finish reasons that matter here.
const (
	Unfinished Finish = iota
	FinishStop
	FinishLength
	FinishOther
)

var finishNames = [...]string{"", "stop", "length", "other"}

func (f Finish) String() string { return finishNames[f] }

const blockLen = 2048

// Log holds the records of a run, in blocks that never move.
type Log struct {
	Details []string // distinct failure messages; index 0 is ""
	shards  []*shardLog
	sorted  []*Record
}

// shardLog is the part of a Log that one sender fills alone.
type shardLog struct {
	id      int32
	blocks  [][]Record
	tokens  []int64 // of the kept streams, one after the other: the content's stamps, then the blanks
	details map[string]int32
	names   []string
}

// maxDetails bounds the memory that failure messages can take.
const maxDetails = 1000

func (s *shardLog) add() *Record {
	if n := len(s.blocks); n == 0 || len(s.blocks[n-1]) == cap(s.blocks[n-1]) {
		s.blocks = append(s.blocks, make([]Record, 0, blockLen))
	}
	b := &s.blocks[len(s.blocks)-1]
	*b = (*b)[:len(*b)+1]
	r := &(*b)[len(*b)-1]
	*r = Record{shard: s.id}
	return r
}

func (s *shardLog) keep(r *Record, stamps, blanks []int64) {
	r.tokens, r.blanks = int64(len(s.tokens))+1, int32(len(blanks))
	s.tokens = append(append(s.tokens, stamps...), blanks...)
}

func (s *shardLog) detail(msg string) int32 {
	if id, ok := s.details[msg]; ok {
		return id
	}
	if len(s.names) >= maxDetails {
		msg = "(further messages not kept)"
		if id, ok := s.details[msg]; ok {
			return id
		}
	}
	if s.details == nil {
		s.details = map[string]int32{}
	}
	s.names = append(s.names, msg)
	id := int32(len(s.names)) // 0 is "none"
	s.details[msg] = id
	return id
}

// seal joins what the senders kept: details become indices of one table, and
// records are put in the order in which they were sent.
func (l *Log) seal() {
	l.Details = []string{""}
	known := map[string]int32{"": 0}
	n := 0
	for _, s := range l.shards {
		for _, b := range s.blocks {
			n += len(b)
		}
	}
	l.sorted = make([]*Record, 0, n)
	for _, s := range l.shards {
		ids := make([]int32, len(s.names)+1)
		for i, name := range s.names {
			id, ok := known[name]
			if !ok {
				id = int32(len(l.Details))
				known[name] = id
				l.Details = append(l.Details, name)
			}
			ids[i+1] = id
		}
		for _, b := range s.blocks {
			for i := range b {
				b[i].Detail = ids[b[i].Detail]
				l.sorted = append(l.sorted, &b[i])
			}
		}
	}
	bySchedule := func(a, b *Record) int {
		return cmp.Or(cmp.Compare(a.Phase.stage(), b.Phase.stage()), cmp.Compare(a.Intended, b.Intended),
			cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Seq, b.Seq))
	}
	if !slices.IsSortedFunc(l.sorted, bySchedule) { // one sender's records are, already
		slices.SortFunc(l.sorted, bySchedule)
	}
}

func (p Phase) stage() int {
	if p == Warmup {
		return 0
	}
	return 1
}

// Len is the number of records.
func (l *Log) Len() int { return len(l.sorted) }

// All yields the records in the order in which they were meant to be sent,
// the warm-up first.
func (l *Log) All() iter.Seq[*Record] { return slices.Values(l.sorted) }

// Stamps gives the stamps of the record's content events, or nil when the run
// did not keep them.
func (l *Log) Stamps(r *Record) []int64 {
	if r.tokens == 0 {
		return nil
	}
	return l.shards[r.shard].tokens[r.tokens-1:][:r.Chunks]
}

// Choices gives the stamps of the record's events with a choice, those without text
// included, or nil when the run did not keep them.
func (l *Log) Choices(r *Record) []int64 {
	if r.tokens == 0 {
		return nil
	}
	all := l.shards[r.shard].tokens[r.tokens-1:]
	return inOrder(nil, all[:r.Chunks], all[r.Chunks:][:r.blanks])
}

// inOrder appends two lists of stamps to dst as one, each of which is in order.
func inOrder(dst, a, b []int64) []int64 {
	for _, at := range a {
		for len(b) > 0 && b[0] <= at {
			dst, b = append(dst, b[0]), b[1:]
		}
		dst = append(dst, at)
	}
	return append(dst, b...)
}

// NewLog makes a Log of given records, for tests and readers of old runs.
// stamps may be nil, or hold the content stamps of each record, and behind them those of
// its events with a choice and no text.
func NewLog(records []Record, stamps [][]int64, details []string) *Log {
	s := &shardLog{}
	for _, d := range details {
		s.detail(d)
	}
	for i := range records {
		r := s.add()
		*r = records[i]
		r.shard = 0
		if stamps != nil && stamps[i] != nil {
			s.keep(r, stamps[i][:r.Chunks], stamps[i][r.Chunks:])
		}
	}
	l := &Log{shards: []*shardLog{s}}
	l.seal()
	return l
}
