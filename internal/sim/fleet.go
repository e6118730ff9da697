package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"aicr/internal/spec"
)

// Fleet is the model. Time in it is what its driver says; it holds no clock.
type Fleet struct {
	scenario *spec.Scenario
	profile  spec.Profile
	now      time.Duration
	queue    queue

	workers  []*worker
	frontend frontend
	view     view // of the workers that answer
	prefill  view // of those that read prompts for them, if there are any
	faults   faults
	node     NodeState

	perRequest, perToken float64 // nanoseconds of the frontend, this episode's jitter included
	pace                 float64 // this episode's jitter of the workers' steps
	hiccups              *rand.Rand
	fates                *rand.Rand
	telemetry            *rand.Rand

	eachToken bool
	observer  Observer // or nil
	onTick    func()
	onWake    func(int)
	idle      []*batch // to be used again
}

// settings are what a driver wants of a fleet.
type settings struct {
	seed      uint64
	episode   int       // from 1
	eachToken bool      // clients are told of every token, not of the first alone
	endless   bool      // windows recur with every stretch of the episode's length
	warm      bool      // the workers have answered before: no cold start
	onTick    func()    // each second, once its telemetry is there
	onWake    func(int) // at the times that wakeAt was given
}

// newFleet makes a fleet at time 0, which is the start of its episode.
func newFleet(s *spec.Scenario, set settings) *Fleet {
	profile, _ := spec.ProfileNamed(s.Fleet.Profile)
	c := chance{set.seed, uint64(set.episode)}
	f := &Fleet{
		scenario: s, profile: profile,
		hiccups:   c.of(useHiccups),
		fates:     c.of(useFates),
		telemetry: c.of(useTelemetry),
		eachToken: set.eachToken, onTick: set.onTick, onWake: set.onWake,
	}
	jitter := c.of(useJitter)
	// A host that is slow today is slow in all that it does, but tokens are
	// written many at a time, which softens it.
	host := lognormal(jitter, 1, s.Fleet.Timing.HostJitter)
	f.perRequest = float64(s.Fleet.Frontend.PerRequest) * host
	f.perToken = float64(s.Fleet.Frontend.PerToken) * math.Sqrt(host)
	f.pace = lognormal(jitter, 1, s.Fleet.Timing.StepJitter)

	f.view, f.prefill = newView(&s.Fleet, c.of(useRouting)), newView(&s.Fleet, c.of(usePrefill))
	for i := range s.Fleet.Workers {
		w := newWorker(i, s.Fleet.GPUsPerWorker, set.seed)
		w.reads = i < s.Fleet.PrefillWorkers
		f.workers = append(f.workers, w)
	}
	f.faults = faults{draws: func() *rand.Rand { return c.of(useWindows) }, first: set.episode, endless: set.endless}
	f.plan(s.Faults, set.warm)
	f.queue.push(event{at: time.Second, kind: tick})
	return f
}

// submit hands the fleet a request that arrives then. It may be called by a
// Client that is being told something.
func (f *Fleet) submit(at time.Duration, s *Stream, c Client) {
	s.client = c
	s.Arrived = at
	f.queue.push(event{at: at, kind: arrival, stream: s})
}

// wakeAt has the driver told when it is then.
func (f *Fleet) wakeAt(at time.Duration, who int) {
	f.queue.push(event{at: at, kind: wake, worker: int32(who)})
}

// next is when the next thing happens.
func (f *Fleet) next() time.Duration { return f.queue.heap[0].at }

// advance lets everything happen up to and including then.
func (f *Fleet) advance(then time.Duration) {
	for len(f.queue.heap) > 0 && f.queue.heap[0].at <= then {
		e := f.queue.pop()
		f.now = e.at
		f.happen(&e)
	}
	f.now = max(f.now, then)
}

func (f *Fleet) happen(e *event) {
	switch e.kind {
	case arrival:
		f.arrive(e.stream)
	case passed:
		f.pass(job{stream: e.stream, batch: e.batch})
	case kick:
		if w := f.workers[e.worker]; e.turn == w.life {
			f.startStep(w)
		}
	case stepped:
		if w := f.workers[e.worker]; e.turn == w.turn {
			f.endStep(w)
		}
	case delivery:
		f.deliver(e.batch)
	case refusal:
		f.viewOf(f.workers[e.worker]).count(int(e.worker), -1)
		f.fail(e.stream, Refused, 500)
	case handed:
		if e.stream.state != gone {
			e.stream.read = true
			f.route(e.stream)
		}
	case answer:
		f.end(e.stream, e.stream.Outcome)
	case begins:
		f.begin(e.window)
	case ends:
		f.cease(e.window)
	case period:
		if e.window.version == f.faults.version {
			f.planPeriod()
		}
	case tick:
		f.sample()
		if f.onTick != nil {
			f.onTick()
		}
		f.queue.push(event{at: f.now + time.Second, kind: tick})
	case wake:
		f.onWake(int(e.worker))
	}
}

// frontend is one thread that does its jobs in the order in which they came:
// requests on their way in, tokens on their way out.
type frontend struct {
	jobs   []job
	head   int
	busy   bool
	frozen bool
	since  time.Duration // of the freeze that is on
	slow   float64

	stalls  int64
	stalled time.Duration

	given                  int // up, since the jobs were tidied
	arrived                int64
	inFlight, queued       int
	served, failed, tokens int64
}

// job is a request or a worker's step.
type job struct {
	stream *Stream
	batch  *batch
}

func (f *Fleet) enqueue(j job) {
	f.frontend.jobs = append(f.frontend.jobs, j)
	f.work()
}

// work lets the frontend begin its next job, if it can.
func (f *Fleet) work() {
	fe := &f.frontend
	if fe.busy || fe.frozen || fe.head == len(fe.jobs) {
		return
	}
	j := fe.jobs[fe.head]
	fe.jobs[fe.head] = job{}
	fe.head++
	if fe.head == len(fe.jobs) {
		fe.jobs, fe.head = fe.jobs[:0], 0
	} else if fe.head > 1024 && fe.head > len(fe.jobs)/2 {
		fe.jobs, fe.head = append(fe.jobs[:0], fe.jobs[fe.head:]...), 0
	}
	cost := f.perRequest
	switch {
	case j.batch != nil:
		cost = f.perToken * float64(j.batch.tokens)
	case j.stream.state == failing:
		cost = f.perToken // an error is one event on its way out
	}
	fe.busy = true
	if at, ever := after(f.now, cost*fe.slow); ever {
		f.queue.push(event{at: at, kind: passed, stream: j.stream, batch: j.batch})
	}
}

func (f *Fleet) arrive(s *Stream) {
	if s.state == gone { // given up before it came
		return
	}
	f.frontend.arrived++
	f.frontend.inFlight++
	f.frontend.queued++
	s.state = arriving
	s.fate = f.draw()
	f.enqueue(job{stream: s})
}

// pass is the end of a job of the frontend.
func (f *Fleet) pass(j job) {
	f.frontend.busy = false
	switch {
	case j.batch != nil:
		f.passTokens(j.batch)
	case j.stream.state == arriving:
		f.route(j.stream)
	case j.stream.state == failing:
		f.answer(j.stream)
	}
	f.work()
}

// The time that a dead worker's connection takes to be refused, and that its
// frontend takes to say so.
const refusedAfter = 2 * time.Millisecond

// listed are the workers that the frontend knows, by their number.
func (f *Fleet) listed() []int {
	all := slices.Concat(f.view.workers, f.prefill.workers)
	slices.Sort(all)
	return all
}

// viewOf is the frontend's view of those that a worker is one of.
func (f *Fleet) viewOf(w *worker) *view {
	if w.reads {
		return &f.prefill
	}
	return &f.view
}

// handedAfter is what it takes to hand the KV of a prompt on to the worker that answers.
const handedAfter = 2 * time.Millisecond

// handOver sends a prompt that has been read on its way to the worker that answers it.
func (f *Fleet) handOver(w *worker, s *Stream) {
	s.state, s.Made = arriving, 0
	f.prefill.count(w.index, -1)
	f.queue.push(event{at: f.now + handedAfter, kind: handed, stream: s})
}

// route gives a request to a worker: to one that reads its prompt, if there are such and
// none has, else to one that answers it.
func (f *Fleet) route(s *Stream) {
	switch {
	case !f.faults.serving() || len(f.view.workers) == 0:
		f.refuse(s, 404)
		return
	case s.fate.status != 0:
		f.refuse(s, s.fate.status)
		return
	}
	v := &f.view
	if len(f.prefill.workers) > 0 && !s.read {
		v = &f.prefill
	}
	i := s.Pin - 1
	if i < 0 || !v.has(i) {
		i = v.router.pick(v, s)
	}
	w := f.workers[i]
	s.Worker = i
	v.count(i, 1)
	if f.scenario.Fleet.Router == "kv" {
		v.known[i].use(s.Blocks)
		v.known[i].keep(f.scenario.Fleet.KVBlocks)
	}
	if w.dead {
		s.state = failing
		f.queue.push(event{at: f.now + refusedAfter, kind: refusal, worker: int32(i), stream: s})
		return
	}
	if !w.reads {
		s.client.Routed(f.now, s)
	}
	f.queueAt(w, s)
}

// refuse answers a request that is at the frontend with a status instead of
// tokens.
func (f *Fleet) refuse(s *Stream, status int) {
	s.state, s.Outcome, s.Status = failing, Refused, status
	f.answer(s)
}

// fail ends a request for its worker: the frontend has yet to tell its client.
func (f *Fleet) fail(s *Stream, o Outcome, status int) {
	if s.state == gone { // its client may be reading it
		return
	}
	s.state, s.Outcome, s.Status = failing, o, status
	f.enqueue(job{stream: s})
}

// answer sends the end of a request that has failed on its way to its client.
func (f *Fleet) answer(s *Stream) {
	f.queue.push(event{at: f.now + f.network(), kind: answer, stream: s})
}

func (f *Fleet) network() time.Duration { return f.profile.Network.D() }

// passTokens is the frontend having written a step's tokens: from now on its
// counts know who has ended.
func (f *Fleet) passTokens(b *batch) {
	f.view.count(b.worker.index, -int32(len(b.done)))
	f.queue.push(event{at: f.now + f.network(), kind: delivery, batch: b})
}

// deliver is a step's tokens reaching their clients.
func (f *Fleet) deliver(b *batch) {
	w := b.worker
	f.frontend.tokens += int64(b.tokens)
	w.noteDelivery(b.step, f.now, f.eachToken)
	for _, s := range b.fresh {
		if s.state == gone || s.fate.empty || s.First != 0 {
			continue
		}
		s.First = f.now
		f.frontend.queued--
		if !f.eachToken { // otherwise below, with the others
			s.Given, s.Last = 1, f.now
			s.client.Token(f.now, s)
		}
	}
	for _, s := range b.each {
		if s.state == gone || s.fate.empty {
			continue
		}
		if s.Given > 0 && f.now-s.Last > s.Gap {
			s.Gap, s.GapEnd = f.now-s.Last, f.now
		}
		s.Given++
		s.Last = f.now
		s.client.Token(f.now, s)
	}
	for _, s := range b.done {
		if s.state == finishing {
			f.end(s, s.fate.outcome())
		}
	}
	f.release(b)
}

// catchUp tells a stream of the tokens that have reached it, from the steps in
// which it was in its worker's batch: while they came, nobody had to know.
func (f *Fleet) catchUp(s *Stream) {
	w := f.workers[s.Worker]
	s.Given, s.Last = 0, s.First
	for _, in := range append(s.past, span{s.enter, s.leave}) {
		steps := w.delivered(in)
		for _, at := range steps {
			if at-s.Last > s.Gap {
				s.Gap, s.GapEnd = at-s.Last, at
			}
			s.Last = at
		}
		s.Given += len(steps)
	}
}

// end tells the client that nothing more will come.
func (f *Fleet) end(s *Stream, o Outcome) {
	if s.state == gone {
		return
	}
	s.state, s.Outcome = gone, o
	if !f.eachToken && s.First != 0 {
		f.catchUp(s)
	}
	f.frontend.inFlight--
	if s.First == 0 {
		f.frontend.queued--
	}
	if o == Served || o == Empty { // an answer with an end is a good one to a frontend
		f.frontend.served++
	} else {
		f.frontend.failed++
	}
	s.client.Ended(f.now, s)
}

// abandon is the client going away.
func (f *Fleet) abandon(s *Stream) {
	switch s.state {
	case gone:
		return
	case created: // it has not even arrived
		s.state, s.Outcome = gone, Abandoned
		s.client.Ended(f.now, s)
		return
	case waiting, running:
		f.drop(f.workers[s.Worker], s)
		f.viewOf(f.workers[s.Worker]).count(s.Worker, -1)
	case finishing, arriving, failing:
		// Its last tokens are on their way, or its refusal is: the counts that it
		// still stands in are those of the job that carries it.
	}
	f.end(s, Abandoned)
	f.frontend.tidy()
}

// tidy drops the jobs of those who are gone, when they are the most: a frontend
// that is frozen must not keep all who gave up on it.
func (fe *frontend) tidy() {
	if fe.given++; fe.given < 16 || fe.given < (len(fe.jobs)-fe.head)/2 {
		return
	}
	fe.given = 0
	kept := fe.jobs[:0]
	for _, j := range fe.jobs[fe.head:] {
		if j.batch != nil || j.stream.state != gone {
			kept = append(kept, j)
		}
	}
	clear(fe.jobs[len(kept):])
	fe.jobs, fe.head = kept, 0
}
