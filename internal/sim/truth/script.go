package truth

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Script is what a server does. The zero value is usable: it answers at once
// with 128 tokens, one an event.
//
// Everything random is a function of Seed and the request's index, which
// counts completion requests by their arrival from 0, so that a request's
// schedule does not depend on what else is going on.
type Script struct {
	Seed  uint64
	Model string // "" is DefaultModel; any other model asked for is a 404

	TTFT       time.Duration // from the request's arrival to the first token
	TTFTSpread time.Duration // uniform, plus or minus
	ITL        time.Duration // from one token to the next
	ITLSpread  time.Duration // uniform, plus or minus, drawn for every gap

	Tokens          int // output length when the request sets none; 0 is DefaultTokens
	TokensPerChunk  int // tokens in one event, which then come every TokensPerChunk × ITL; 0 is 1
	ReasoningTokens int // so many of the first tokens are reasoning

	RoleFirst    bool // a role-only event is sent at once, before the first token
	HeadersFirst bool // the head is sent at arrival, as Dynamo does, not with the first event
	NoDone       bool // leave out [DONE]
	CRLF         bool // lines of the event stream end in CRLF
	Usage        Usage
	UsageCount   string // JSON that stands where the output tokens are told; "" is their number
	OneLetter    bool   // the whole answer comes in one event of one letter, and usage claims all of its tokens
	CachedTokens int    // told in usage, at most the prompt's tokens; 0 is not told, less is told as 0

	// Workers, when not 0, is how many workers take the requests in turn. The
	// one that served is named when nvext.extra_fields asks for worker_id.
	Workers int

	// Close is what becomes of a connection behind its answers. No head says so.
	Close Close

	Refuse []string // fields of the request's body that are answered with 400
	APIKey string   // "" lets everybody in

	// Fragment, when not 0, is the most bytes that one write carries.
	Fragment int
	// Nagle leaves TCP_NODELAY off and sends the head first, which together
	// with the client's delayed ACK holds back an early first token on a reused
	// connection, as Dynamo's frontend does. The Handler knows no sockets and
	// only sends the head first.
	Nagle bool

	// Freezes are windows in which the server's clock stands still, as that of
	// a stopped process: nothing is read, nothing is written, and afterwards
	// everything goes on as much later as it was frozen.
	Freezes []Freeze

	Faults []Fault
	// Spare is how many of the first requests no fault falls on: a client's
	// probe. They are counted in the index all the same.
	Spare int
}

// Close ends a connection behind an answer, as a server does that keeps none, or keeps
// one for so many requests. What the client sends on it meanwhile is not answered, and is
// no request of the ledger.
type Close struct {
	After int           // answers that a connection carries; 0: as many as the client likes
	Delay time.Duration // between the last of them and the end
	Half  bool          // the server ends its own side alone, and goes on reading
	Reset bool          // by RST
}

// What a Script stands for when it does not say.
const (
	DefaultModel  = "truth"
	DefaultTokens = 128
)

// Usage says which events tell the token counts.
type Usage uint8

// The habits of telling usage.
const (
	UsageFinal Usage = iota // one event at the end, when stream_options.include_usage asks for it
	UsageEvery              // every event with a choice as well, asked or not
	UsageNone               // never
)

// Freeze is a window in which no byte is moved.
type Freeze struct {
	At         time.Duration // since the first completion request
	Lasts      time.Duration
	SinceStart bool // At counts from the start of the server instead
}

// Kind is a kind of fault; "" is none.
type Kind string

// The kinds of fault. Those of a stream happen at the time at which the next
// token was due.
const (
	HTTP500    Kind = "http-500"
	HTTP429    Kind = "http-429"
	Empty500   Kind = "empty-500"   // a 500 with no body
	HTML200    Kind = "html-200"    // a page of HTML
	Reset      Kind = "reset"       // RST in mid-stream
	Cut        Kind = "cut"         // the connection ends in mid-stream, without the terminal chunk
	Truncated  Kind = "truncated"   // the body ends in good order, with no finish reason and no [DONE]
	NoDone     Kind = "no-done"     // all is there but [DONE]: still a success
	ErrorEvent Kind = "error-event" // "event: error" in mid-stream
	ErrorData  Kind = "error-data"  // "data: {"error":…}" in mid-stream and then [DONE], as Dynamo does
	ZeroTokens Kind = "zero-tokens" // 200 and a finish reason, but no content
	Stall      Kind = "stall"       // never another byte; the connection stays open

	Endless     Kind = "endless"     // tokens without an end
	Unsolicited Kind = "unsolicited" // a second answer follows the first at once, which no request asked for
)

// Kinds lists every kind of fault.
func Kinds() []Kind {
	return []Kind{HTTP500, HTTP429, Empty500, HTML200, Reset, Cut, Truncated, NoDone, ErrorEvent, ErrorData, ZeroTokens, Stall,
		Endless, Unsolicited}
}

// Fault gives a kind of fault to a share of the requests: to exactly
// round(100 × Share) of each hundred, in a seeded order.
type Fault struct {
	Kind  Kind
	Share float64 // 0 to 1
	// After is how many tokens come before a fault of a stream: 0 is half of
	// them; less than 0 is none, and a connection that breaks or stalls then
	// does so without a byte of the answer.
	After int
}

// block is how many requests the shares of the faults are exact over.
const block = 100

func (f Fault) perBlock() int { return int(math.Round(f.Share * block)) }

// Check finds what cannot be played.
func (s Script) Check() error {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"TTFT", int64(s.TTFT)}, {"TTFTSpread", int64(s.TTFTSpread)}, {"ITL", int64(s.ITL)}, {"ITLSpread", int64(s.ITLSpread)},
		{"Tokens", int64(s.Tokens)}, {"TokensPerChunk", int64(s.TokensPerChunk)}, {"ReasoningTokens", int64(s.ReasoningTokens)},
		{"Close", int64(min(s.Close.After, int(s.Close.Delay)))}, {"Workers", int64(s.Workers)}, {"Fragment", int64(s.Fragment)}, {"Spare", int64(s.Spare)},
	} {
		if n.value < 0 {
			return fmt.Errorf("truth: %s is negative", n.name)
		}
	}
	if s.TTFTSpread > s.TTFT || s.ITLSpread > s.ITL {
		return errors.New("truth: a spread is larger than what it spreads")
	}
	if s.Usage > UsageNone {
		return fmt.Errorf("truth: unknown usage %d", s.Usage)
	}
	for _, f := range s.Freezes {
		if f.At < 0 || f.Lasts < 0 {
			return errors.New("truth: a freeze begins or lasts less than 0")
		}
	}
	total := 0
	for _, f := range s.Faults {
		if !slices.Contains(Kinds(), f.Kind) {
			return fmt.Errorf("truth: unknown kind of fault %q", f.Kind)
		}
		if !(f.Share >= 0 && f.Share <= 1) {
			return fmt.Errorf("truth: share %v of %s is not between 0 and 1", f.Share, f.Kind)
		}
		total += f.perBlock()
	}
	if total > block {
		return fmt.Errorf("truth: the faults' shares add up to %d %%", total)
	}
	return nil
}

func (s Script) withDefaults() Script {
	if s.Model == "" {
		s.Model = DefaultModel
	}
	if s.Tokens == 0 {
		s.Tokens = DefaultTokens
	}
	if s.TokensPerChunk == 0 {
		s.TokensPerChunk = 1
	}
	s.HeadersFirst = s.HeadersFirst || s.Nagle
	if s.OneLetter {
		s.TokensPerChunk = math.MaxInt32
	}
	return s
}

// FaultAt is the fault of the request with that index; its Kind is "" when
// there is none.
func (s Script) FaultAt(index int64) Fault {
	index -= int64(s.Spare)
	if index < 0 || len(s.Faults) == 0 {
		return Fault{}
	}
	slot := s.slot(uint64(index))
	for _, f := range s.Faults {
		if slot -= f.perBlock(); slot < 0 {
			return f
		}
	}
	return Fault{}
}

// FaultCounts says how many of the first n requests get each kind of fault.
func (s Script) FaultCounts(n int64) map[Kind]int {
	counts := map[Kind]int{}
	for i := range n {
		if f := s.FaultAt(i); f.Kind != "" {
			counts[f.Kind]++
		}
	}
	return counts
}

// FirstAfter is how long after its arrival the request with that index gets
// its first token.
func (s Script) FirstAfter(index int64) time.Duration {
	return s.TTFT + spread(s.TTFTSpread, s.draw(drawTTFT, uint64(index), 0))
}

// gap is the scripted time between the events before and after the token with
// that number, counted from 0, when the later event carries n tokens.
func (s Script) gap(index int64, token, n int) time.Duration {
	if s.FaultAt(index).Kind == Endless {
		return endlessGap
	}
	return time.Duration(n)*s.ITL + spread(s.ITLSpread, s.draw(drawITL, uint64(index), uint64(token)))
}

// endlessGap is the time between two events of an answer without an end: as little as
// leaves the server time for something else.
const endlessGap = 50 * time.Microsecond

// WorkerAt is the id of the worker that serves the request with that index.
// Ids are odd and above 2^53, so that a reader that makes floats of them is
// found out.
func (s Script) WorkerAt(index int64) uint64 {
	if s.Workers == 0 {
		return 0
	}
	return s.draw(drawWorker, uint64(index%int64(s.Workers)), 0)>>1 | 1<<62 | 1
}

// The uses of chance. Each draws from its own sequence, so that a change of
// one setting leaves the others' values as they were.
const (
	drawTTFT uint64 = iota + 1
	drawITL
	drawWorker
	drawFault
	drawID
)

// draw is a hash and not a generator, since a request's values must not depend
// on the order in which requests are served.
func (s Script) draw(use, a, b uint64) uint64 {
	h := mix(s.Seed + use*0x9e3779b97f4a7c15)
	h = mix(h ^ a)
	return mix(h + b)
}

// mix is the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// slot is the place of a request in its block's seeded order.
func (s Script) slot(index uint64) int {
	var order [block]int
	for i := range order {
		order[i] = i
	}
	for i := block - 1; i > 0; i-- {
		j := s.draw(drawFault, index/block, uint64(i)) % uint64(i+1)
		order[i], order[j] = order[j], order[i]
	}
	return order[index%block]
}

// spread maps a draw to the whole range from -d to d.
func spread(d time.Duration, draw uint64) time.Duration {
	if d == 0 {
		return 0
	}
	unit := float64(draw>>11) / (1 << 53)
	return time.Duration((2*unit - 1) * float64(d))
}

// window is a Freeze in time since the epoch, without its end.
type window struct{ from, to time.Duration }

// windows anchors the freezes and joins those that overlap. Without a first
// request, only those since the start are known.
func (s Script) windows(first time.Duration, begun bool) []window {
	var all []window
	for _, f := range s.Freezes {
		at := f.At
		if !f.SinceStart {
			if !begun {
				continue
			}
			at += first
		}
		if f.Lasts > 0 {
			all = append(all, window{at, at + f.Lasts})
		}
	}
	slices.SortFunc(all, func(a, b window) int { return int(a.from - b.from) })
	joined := all[:0]
	for _, w := range all {
		if n := len(joined); n > 0 && w.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, w.to)
			continue
		}
		joined = append(joined, w)
	}
	return joined
}

// advance is the time at which a clock that stands still in the windows has
// gone on by d.
func advance(windows []window, from, d time.Duration) time.Duration {
	for _, w := range windows {
		if from+d < w.from {
			break
		}
		if w.to <= from {
			continue
		}
		d -= max(0, w.from-from)
		from = w.to
	}
	return from + d
}
