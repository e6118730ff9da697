package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"aicr/internal/spec"
)

// Load is what the modelled client does beyond the scenario's operating point.
// The zero value is an episode by time, with no sentinel.
type Load struct {
	Sentinel float64       // requests a second of an open loop beside the closed one
	Grace    time.Duration // how long the last answers are waited for; 0 is DefaultGrace

	// Count, when not 0, ends the episode after so many requests instead of by
	// time, and Wave sends as many requests as there are users first, in one go,
	// and waits for all of them: what the published gate did. Either waits for
	// ever for a fleet that never answers. Where WavePerUser is more than 1, each
	// user sends so many in the wave, one after another.
	Count       int
	Wave        bool
	WavePerUser int
}

// DefaultGrace is how long the last answers are waited for.
const DefaultGrace = 30 * time.Second

// Recording is what a client and an observer have of an episode.
type Recording struct {
	Point    spec.OperatingPoint
	Requests []spec.Request
	Series   []spec.Sample
	Lags     []float64     // milliseconds by which the client's stamps were late, which it knows of itself
	Peak     []int         // most requests that each worker ran at once
	Took     time.Duration // from the episode's start until nothing was awaited any more
}

// Play plays one episode of a scenario, whose workers have answered before. It
// gives up when ctx is done.
func Play(ctx context.Context, s *spec.Scenario, seed uint64, episode int, l Load) (*Recording, error) {
	p := newPlayer(s, seed, episode, l)
	for n := 0; !p.over(); n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		p.fleet.advance(min(p.fleet.next(), p.horizon()))
	}
	return p.recording(), nil
}

// player is a modelled client: it sends, and notes what it sees when.
type player struct {
	load     Load
	scenario *spec.Scenario
	fleet    *Fleet
	names    []string   // of the workers
	prompts  [][]uint64 // recycled; none: each is its own
	choose   *rand.Rand
	lags     *rand.Rand
	lag      float64 // mean lateness of its stamps, nanoseconds

	users    int
	wave     int           // requests of the first wave that are not back yet
	unsent   int           // those of them that are still to be sent
	from     time.Duration // the episode's start in fleet time
	allSent  time.Duration // when the last of the users so far has sent its first
	stop     time.Duration // when sending stops; unknown while a count decides
	stopped  bool
	free     time.Duration // when it can send again
	spacing  time.Duration // between two sends
	sequence [lanes]int64
	slots    slots
	waiting  int // users without a slot

	streams  []*Stream // of the requests with the same index
	slab     []Stream
	requests []spec.Request
	series   []spec.Sample
	stamps   []float64 // lateness, milliseconds
	inFlight int
	ended    int64

	waved, wavedTokens int64 // requests and tokens of the first wave
}

// The lanes of a player, and whom it has itself woken as.
const (
	closed = iota
	sentinel
	lanes
	wakeSentinel = -1
)

// sendsApart is what a client that is not limited needs from one send to the
// next.
const sendsApart = 20 * time.Microsecond

func newPlayer(s *spec.Scenario, seed uint64, episode int, l Load) *player {
	c := chance{seed, uint64(episode)}
	p := &player{load: l, scenario: s, choose: c.of(usePrompts), lags: c.of(useStamps),
		users: s.Load.ConcurrencyPerGPU * s.Fleet.GPUs(), spacing: sendsApart,
		lag: float64(s.Load.ClientLag) / math.Log(100)} // of an exponential with that p99
	set := settings{seed: seed, episode: episode, warm: true, onTick: p.observe, onWake: p.send}
	if p.load.Grace == 0 {
		p.load.Grace = DefaultGrace
	}
	if s.Load.SendsPerSecond > 0 {
		p.spacing, _ = after(0, float64(time.Second)/s.Load.SendsPerSecond)
	}
	for i := range s.Fleet.Workers {
		p.names = append(p.names, strconv.Itoa(i))
	}
	for i := range int(s.Load.Prompts) {
		p.prompts = append(p.prompts, promptOf(i, s.Load.InputTokens))
	}
	n := p.expected()
	p.requests, p.streams = make([]spec.Request, 0, n), make([]*Stream, 0, n)
	if !l.Wave {
		p.fleet = newFleet(s, set)
		p.begin()
		return p
	}
	p.fleet = newFleet(withoutWindows(s), set)
	p.wave = p.users * max(1, l.WavePerUser)
	p.unsent = p.wave
	for range p.users {
		p.submitWave(0)
	}
	return p
}

// expected is about how many requests there will be, so that room for them is made
// once.
func (p *player) expected() int {
	if p.load.Count > 0 {
		return p.load.Count + p.users
	}
	l, t := &p.scenario.Load, &p.scenario.Fleet.Timing
	step := t.Base + t.Host + spec.Duration(l.ConcurrencyPerGPU)*t.PerSequence
	rounds := 2 + float64(l.Episode)/float64(step)/float64(l.OutputTokens)
	return int(min(1e6, float64(p.users)*rounds))
}

// promptOf names the KV blocks of a recycled prompt, the last and partial one
// too: it is the same prompt to its end.
func promptOf(i, tokens int) []uint64 {
	blocks := make([]uint64, blocksFor(tokens))
	for b := range blocks {
		blocks[b] = uint64(i+1)<<32 | uint64(b)
	}
	return blocks
}

// withoutWindows is the scenario as it is before the episode begins: what is
// wrong then is what is always wrong, GPUs aside: they break under load.
func withoutWindows(s *spec.Scenario) *spec.Scenario {
	before := *s
	before.Faults = slices.DeleteFunc(slices.Clone(s.Faults), func(f spec.Fault) bool {
		return f.Lasts != nil || f.Kind == spec.GPUError
	})
	return &before
}

// begin starts the episode.
func (p *player) begin() {
	p.from = p.fleet.now
	p.stop = p.from + p.scenario.Load.Episode.D()
	ramp := p.scenario.Load.Ramp.D()
	for user := range p.users {
		p.fleet.wakeAt(p.from+ramp*time.Duration(user)/time.Duration(p.users), user)
	}
	p.slots = slots{most: p.users}
	if p.load.Sentinel > 0 {
		p.slots.due, p.slots.period = p.from, time.Duration(float64(time.Second)/p.load.Sentinel)
		p.fleet.wakeAt(p.from, wakeSentinel)
	}
}

// send sends the request that is due now.
func (p *player) send(who int) {
	if who != wakeSentinel {
		p.allSent = max(p.fleet.now, p.free)
		p.again()
		return
	}
	// Before any request has ended none could yield a slot to it.
	if p.ended > 0 {
		p.submit(sentinel, p.fleet.now)
	} else {
		p.sequence[sentinel]++
	}
	p.slots.due = p.fleet.now + p.slots.period
	if !p.stopped {
		p.fleet.wakeAt(p.slots.due, wakeSentinel)
	}
	p.admit()
}

// again lets a user send when there is a slot for it.
func (p *player) again() {
	p.waiting++
	p.admit()
}

// admit lets those users send that there is a slot for.
func (p *player) admit() {
	for p.waiting > 0 && (p.stopped || p.slots.room(p.fleet.now)) {
		p.waiting--
		p.submit(closed, p.fleet.now)
	}
}

// submit sends a request as soon as the client can, unless the episode is over
// by then.
func (p *player) submit(lane int, intended time.Duration) {
	at := max(intended, p.free)
	if p.wave == 0 && !p.sends(lane, at) {
		p.stopped = true
		return
	}
	p.free = at + p.spacing
	if len(p.slab) == 0 {
		p.slab = make([]Stream, 1024)
	}
	s := &p.slab[0]
	p.slab = p.slab[1:]
	s.Prompt, s.Output, s.Tag = p.scenario.Load.InputTokens, p.scenario.Load.OutputTokens, len(p.requests)
	if n := len(p.prompts); n > 0 {
		s.Blocks = p.prompts[p.choose.IntN(n)]
	}
	p.streams = append(p.streams, s)
	p.requests = append(p.requests, spec.Request{Seq: p.sequence[lane], Lane: laneNames[lane],
		Intended: int64(intended), Sent: int64(at), Prompt: s.Prompt})
	p.sequence[lane]++
	p.inFlight++
	if p.wave == 0 {
		p.slots.take(at)
	}
	p.fleet.submit(at, s, p)
}

var laneNames = [lanes]string{"closed", "sentinel"}

// sends says whether the episode has room for one more request then.
func (p *player) sends(lane int, at time.Duration) bool {
	if p.stopped {
		return false
	}
	if p.load.Count == 0 {
		return at < p.stop
	}
	if lane == closed && p.sequence[closed] == int64(p.load.Count) {
		p.stop = p.fleet.now
		return false
	}
	return true
}

// over says whether there is nothing left to wait for.
func (p *player) over() bool {
	if p.wave > 0 {
		return false
	}
	if p.load.Count == 0 && p.fleet.now >= p.stop {
		p.stopped = true
	}
	if p.stopped && p.fleet.now >= p.stop+p.load.Grace {
		for _, s := range p.streams {
			p.fleet.abandon(s)
		}
	}
	return p.stopped && p.inFlight == 0 && p.fleet.now >= p.stop
}

// horizon is how far the fleet may go before over is asked again.
func (p *player) horizon() time.Duration {
	switch {
	case p.wave > 0 || p.load.Count > 0 && !p.stopped:
		return math.MaxInt64
	case p.fleet.now < p.stop:
		return p.stop
	}
	return p.stop + p.load.Grace
}

// Routed is told when the head of an answer is there, which proves nothing.
func (p *player) Routed(time.Duration, *Stream) {}

// Token is told of the first token, whose time the stream keeps.
func (p *player) Token(time.Duration, *Stream) {}

// Ended notes the request and lets its user send the next.
func (p *player) Ended(now time.Duration, s *Stream) {
	p.inFlight--
	if p.wave > 0 {
		if p.wave--; p.wave == 0 {
			p.forgetWave()
		} else if p.unsent > 0 {
			p.submitWave(now)
		}
		return
	}
	p.ended++
	r := &p.requests[s.Tag]
	p.note(r, now, s)
	if s.Outcome == Served {
		p.slots.yield(now - time.Duration(r.Sent))
	} else {
		p.slots.yield(0)
	}
	if r.Lane == laneNames[closed] {
		p.waiting++
	}
	p.admit()
}

// submitWave sends the next request of the first wave.
func (p *player) submitWave(at time.Duration) {
	p.unsent--
	p.submit(closed, at)
}

// forgetWave begins the episode proper, with the faults that it has.
func (p *player) forgetWave() {
	p.requests, p.streams, p.sequence = p.requests[:0], p.streams[:0], [lanes]int64{}
	p.waved, p.wavedTokens = p.fleet.frontend.arrived, p.fleet.frontend.tokens
	p.fleet.plan(p.scenario.Faults, true)
	p.begin()
}

// note completes a request's record by what the client saw of it.
func (p *player) note(r *spec.Request, now time.Duration, s *Stream) {
	r.End = int64(p.late(now))
	r.Tokens, r.Gap, r.GapEnd = s.Given, int64(s.Gap), int64(s.GapEnd)
	r.Class, r.Finish, r.Detail = ending(s)
	if s.Outcome == Served && s.Given == 0 {
		panic("sim: a stream was served without a token")
	}
	if s.First > 0 {
		r.First = int64(p.late(s.First))
		r.Last = max(r.First, r.End)
		if s.Outcome != Served {
			r.Last = max(r.First, int64(s.Last))
		}
		r.End = max(r.End, r.Last)
	}
	switch s.Outcome {
	case Refused:
		r.Status = s.Status
	case Abandoned:
		if s.First > 0 {
			r.Status = 200
		}
	default:
		r.Status = 200
	}
	// The worker's name comes with the first event that is not an error.
	if s.First > 0 || s.Outcome == Empty {
		r.Worker = p.names[s.Worker]
	}
	if s.First > 0 {
		r.Cached = &s.Cached
	}
}

// late is the time that the client's own stamp shows.
func (p *player) late(at time.Duration) time.Duration {
	if p.lag == 0 {
		return at
	}
	by := p.lags.ExpFloat64() * p.lag
	p.stamps = append(p.stamps, by/float64(time.Millisecond))
	return at + time.Duration(by)
}

// ending words how a stream ended as the load engine does.
func ending(s *Stream) (class, finish, detail string) {
	switch s.Outcome {
	case Served:
		return "ok", "length", ""
	case Refused:
		return "http-status", "", fmt.Sprintf("HTTP %d", s.Status)
	case Reset:
		return "reset", "", "connection reset by peer"
	case Truncated:
		return "truncated", "", "the stream ended without a finish reason"
	case ErrorTold:
		return "error-event", "", "Internal server error"
	case Empty:
		return "no-tokens", "stop", "an answer without any content"
	case Unended, Abandoned:
	}
	return "interrupted", "", "no whole answer when the grace period was over"
}

// recording is the episode as it is kept: times count from its start.
func (p *player) recording() *Recording {
	l := &p.scenario.Load
	r := &Recording{Requests: p.requests, Series: p.series, Lags: p.stamps, Took: p.fleet.now - p.from,
		Point: spec.OperatingPoint{Concurrency: p.users,
			RampS: l.Ramp.D().Seconds(), DurationS: (p.stop - p.from).Seconds(),
			InputTokens: l.InputTokens, OutputTokens: l.OutputTokens, Prompts: l.Prompts.String(),
			SentinelRate: p.load.Sentinel, Router: p.scenario.Fleet.Router}}
	r.Point.Shape(&p.scenario.Fleet)
	for _, w := range p.fleet.workers {
		r.Peak = append(r.Peak, w.peak)
	}
	for i := range r.Requests {
		q := &r.Requests[i]
		q.Phase = p.phase(q)
		for _, t := range []*int64{&q.Intended, &q.Sent, &q.End} {
			*t -= int64(p.from)
		}
		for _, t := range []*int64{&q.First, &q.Last, &q.GapEnd} {
			if *t != 0 {
				*t -= int64(p.from)
			}
		}
	}
	return r
}

// phase is the part of the episode that a request belongs to, as the load engine
// tells it.
func (p *player) phase(q *spec.Request) string {
	switch {
	case q.Lane == laneNames[closed] && q.Sent < int64(p.allSent):
		return "ramp"
	case q.End > int64(p.stop):
		return "drain"
	}
	return "steady"
}

// observe keeps the telemetry of the second that ends now.
func (p *player) observe() {
	if p.wave > 0 {
		return
	}
	p.series = appendSamples(p.series, p.fleet.now-p.from, p.fleet.snapshot(), p.names)
	fe := &p.fleet.frontend
	p.series = append(p.series, spec.Sample{T: int64(p.fleet.now - p.from), Source: spec.SourceClient, Name: "client",
		Client: &spec.ClientSample{InFlight: fe.inFlight, Sent: fe.arrived - p.waved, Ended: p.ended, Tokens: fe.tokens - p.wavedTokens}})
}

// Healthy is the same fleet at the same operating point with nothing wrong: no
// faults, no jitter, a client that is not the limit.
func Healthy(s *spec.Scenario) *spec.Scenario {
	h := *s
	h.Faults = nil
	h.Fleet.Timing.HostJitter, h.Fleet.Timing.StepJitter = 0, 0
	h.Load.SendsPerSecond, h.Load.ClientLag = 0, 0
	return &h
}
