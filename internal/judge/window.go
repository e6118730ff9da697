package judge

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// The window that the rules look at. Inside it a value that is not known is NaN,
// which no comparison holds for; a Picture has nil for it.
const (
	second  = int64(1e9)
	lookS   = 120 // seconds that are kept of each source
	lookNS  = lookS * second
	mostOf  = 256 // states that are kept of each source
	bridges = 3   // periods that a rate is spread over when samples in between are missing
	silence = 3   // periods after which a source that says nothing is silent

	logNS  = 10 * second       // how often a log tells, at the least
	thinNS = second * 45 / 100 // who is asked more often than this is kept so often
)

// stamp is what every state has.
type stamp struct {
	t    int64
	from int64  // its rates are of the time since then; t where there are none
	gap  string // why there are no values
}

func (s *stamp) at() *stamp { return s }

// own says whether it was the watcher itself that missed it.
func (s *stamp) own() bool { return strings.HasPrefix(s.gap, spec.GapObserver) }

// stamped is a pointer to a state.
type stamped[S any] interface {
	*S
	at() *stamp
}

// track is what is kept of one source: its last states, oldest first, and what
// holds longer than they do.
type track[S any, P stamped[S]] struct {
	name, instance       string
	states               []S
	period               int64 // how often it is asked, as far as its samples tell
	least                int64 // how often it is asked, as the observer says
	first, last          int64 // samples, gaps too
	answered             int64 // last sample with values, kept or not
	stopped              int64 // until then the watcher itself had stopped
	log                  bool  // it is a log, which speaks when it has something to say
	good                 int64 // last sample with values; 0 with everGood false
	everGood             bool
	goodAt               int64 // the first sample with values
	notMeasured, derived map[string]string
}

func (t *track[S, P]) of(i int) P { return P(&t.states[i]) }

// newest is the last state with values, whatever has come after it.
func (t *track[S, P]) newest() P {
	for i := range slices.Backward(t.states) {
		if p := t.of(i); p.at().gap == "" {
			return p
		}
	}
	return nil
}

// current is the state that holds now: none in a gap, and none of a source that
// has fallen silent.
func (t *track[S, P]) current(now int64) P {
	if len(t.states) == 0 {
		return nil
	}
	p := t.of(len(t.states) - 1)
	if why, _ := t.gapAt(now); why != "" {
		return nil
	}
	return p
}

// gapAt says why there is no current sample, and for how long. A stop of the
// watcher itself is a reason only where there is no other.
func (t *track[S, P]) gapAt(now int64) (why string, forNS int64) {
	since := t.first
	if t.everGood {
		since = t.good
	}
	began := -1 // the first of the samples that are missing
	for i := len(t.states) - 1; i >= 0 && t.of(i).at().gap != ""; i-- {
		if t.of(i).at().own() {
			continue
		}
		if began = i; why == "" {
			why = t.of(i).at().gap
		}
	}
	if last := t.of(len(t.states) - 1).at(); last.gap != "" {
		if began > 0 && t.of(began-1).at().own() {
			since = t.of(began - 1).at().t
		}
		return cmp.Or(why, last.gap), now - since
	}
	if now-t.last < t.quietNS() {
		return "", 0
	}
	if t.log {
		return logSilent, now - since
	}
	return nothingHeard, now - max(since, t.stopped)
}

// quietNS is for how long it must say nothing to be silent.
func (t *track[S, P]) quietNS() int64 {
	if t.log {
		return silence * max(t.period, logNS)
	}
	return silence * t.period
}

// missed is how many samples in a row are missing. Those that the watcher missed
// by itself do not count, nor the one that was under way when it stopped.
func (t *track[S, P]) missed(now int64) int {
	n, own := 0, false
	for i := len(t.states) - 1; i >= 0 && t.of(i).at().gap != ""; i-- {
		before := own
		if own = t.of(i).at().own(); !own && !before {
			n++
		}
	}
	if late := now - max(t.last, t.stopped); late >= t.quietNS() {
		n += int(late / t.period)
	}
	return n
}

const (
	nothingHeard = "nothing was heard"
	logSilent    = "its log says nothing"
)

// take notes a sample's place in time; it is false for one that does not advance,
// and for those in between when there are very many.
func (t *track[S, P]) take(s *spec.Sample) bool {
	if s.Gap == "" {
		t.answered = max(t.answered, s.T)
	}
	switch {
	case len(t.states) == 0:
		t.first = s.T
		t.period = max(t.least, thinNS)
	case s.T <= t.last || t.thin(s):
		return false
	default:
		step := s.T - t.last
		if len(t.states) == 1 {
			t.period = min(step, lookNS/8)
		} else {
			t.period += (min(step, silence*t.period) - t.period) / 8
		}
		// Two who tell of the same one make it look as if it were asked more often.
		t.period = max(t.period, t.least, thinNS)
	}
	t.last = s.T
	if s.Instance != "" {
		t.instance = s.Instance
	}
	if s.NotMeasured != nil || s.Derived != nil {
		t.notMeasured, t.derived = s.NotMeasured, s.Derived
	}
	if s.Gap == "" {
		if !t.everGood {
			t.goodAt = s.T
		}
		t.good, t.everGood = s.T, true
	}
	return true
}

// thin says whether a sample is one too many. One that is missing among many that
// come is.
func (t *track[S, P]) thin(s *spec.Sample) bool {
	if t.least >= thinNS {
		return false
	}
	if s.Gap != "" {
		return s.T-max(t.answered, t.last) < thinNS
	}
	return t.everGood && s.T-t.good < thinNS
}

// keep adds a state and lets go of those that are too old.
func (t *track[S, P]) keep(state S) {
	t.states = append(t.states, state)
	old := 0
	for old < len(t.states)-1 && (t.last-t.of(old).at().t > lookNS || len(t.states)-old > mostOf) {
		old++
	}
	if old > 0 && (old >= 32 || len(t.states) > mostOf) { // not for each one
		t.states = slices.Delete(t.states, 0, old)
	}
}

// since is the index of the first state that is not older than this.
func (t *track[S, P]) since(from int64) int {
	i := len(t.states)
	for i > 0 && t.of(i-1).at().t > from {
		i--
	}
	return i
}

type (
	workerTrack struct {
		track[workerState, *workerState]
		generated, prompted, ended, failed stats.Counter
		aborted, preempted                 stats.Counter
		made                               bool    // it has made a token, ever
		barren                             int64   // since when it has work and makes none; 0: it is not so
		total                              float64 // of its tokens
		restarts                           []restart
		gpus                               []string // names
		pod                                string
		role                               spec.Role
	}
	gpuTrack struct {
		track[gpuState, *gpuState]
		index, model, node, pod string
	}
	nodeTrack struct {
		track[nodeState, *nodeState]
	}
	frontendTrack struct {
		track[frontendState, *frontendState]
		served, failed, tokens, stalls stats.Counter
		outcomes                       map[string]*stats.Counter
		made                           bool
		barren                         int64
	}
	clientTrack struct {
		track[clientState, *clientState]
	}
)

// workerState is a worker at one time, its rates since the time before.
type workerState struct {
	stamp
	running, waiting, inFlight, kv float64
	ran                            float64 // running requests on average since the time before
	tokens                         float64 // a second, or prompt tokens where they are its work
	generated, prompts             float64 // a second
	ended, failed                  float64 // a second; those whose client went away are no failures
	preempted                      float64 // requests a second
	asleep                         bool    // it serves nothing until it is woken up
	made                           bool    // it has made a token, ever
	barrenS                        float64 // for how long it has had work and made no token
}

// hasWork says whether the worker says that it has something to do.
func (s *workerState) hasWork() bool { return s.running > 0 || s.waiting > 0 || s.inFlight > 0 }

// holds is how many requests it has, by whichever of its counts is greater.
func (s *workerState) holds() float64 {
	held := orZero(s.running) + orZero(s.waiting)
	return max(held, orZero(s.inFlight))
}

type gpuState struct {
	stamp
	utilization, power, clock, temperature, memory float64
	xid, doubleBit, remap                          float64
	throttle                                       []string
	throttleKnown                                  bool
	harm                                           uint8 // of the reasons, those that are harmful
}

type nodeState struct {
	stamp
	cpu, memory, io, load1 float64
}

// frontendState is a frontend at one time, its rates since the time before.
type frontendState struct {
	stamp
	inFlight, queued, busy         float64
	served, failed, tokens, stalls float64            // a second
	outcomes                       map[string]float64 // a second
	made                           bool
	barrenS                        float64
}

type clientState struct {
	stamp
	inFlight float64
}

// window is what the rules look at: every source's states, and the workers' laid
// on a grid of seconds that ends now. A rule is a function of it alone.
type window struct {
	now       int64
	period    int64 // how often each source is asked
	heard     int64 // the newest sample of anybody
	workers   []*workerTrack
	gpus      []*gpuTrack
	nodes     []*nodeTrack
	frontends []*frontendTrack
	clients   []*clientTrack

	grid    [][]int16 // of worker and second before now: the state that tells of it, or -1
	peers   map[group]*[lookS]seen
	groupOf []group // of worker
	gpusOf  [][]int // of worker: its GPUs, as far as they are known
	stall   []*stall

	fleet     *fleetStall
	fleetDone bool

	workerOf []int             // of GPU: the first worker that is on it, or -1
	loads    [lookS]load       // of the workers together, by second
	flow     *flow             // of the workers together, now
	atWork   map[group]*atWork // of the GPUs, now
}

// load is what the workers have in one second, all together.
type load struct {
	done  bool
	held  float64 // requests
	empty int     // workers that have none
	told  bool    // by every worker
	sent  float64 // requests under way, by the count of whoever sent them
}

// loadAt is the workers' load in second k. It is added up once, however many workers are
// asked about.
func (w *window) loadAt(k int) *load {
	l := &w.loads[k]
	if l.done {
		return l
	}
	l.done, l.told, l.sent = true, true, w.sentAt(k)
	for i := range w.workers {
		s := w.told(i, k)
		if s == nil {
			l.told = false // whoever does not answer may have them
			continue
		}
		l.held += s.holds()
		if !s.hasWork() {
			l.empty++
		}
	}
	return l
}

// flow is how many workers make tokens now, and how many have work and make none.
type flow struct{ flows, stands int }

func (w *window) flowNow() flow {
	if w.flow == nil {
		w.flow = &flow{}
		for _, t := range w.workers {
			if s := t.current(w.now); s != nil {
				if s.tokens > 0 {
					w.flow.flows++
				}
				if s.hasWork() && s.tokens == 0 {
					w.flow.stands++
				}
			}
		}
	}
	return *w.flow
}

// seen is what the workers that are at work did in one second, each sorted.
type seen struct {
	done                        bool
	tokens, perRequest, running []float64
}

// span is so many seconds, or so many periods when they are longer: a rule that
// needs several rates needs as many samples.
func (w *window) span(seconds int, periods int64) int {
	return max(seconds, int((periods*w.period+second-1)/second))
}

// lay lays the workers' states on the grid. A state tells of the seconds whose
// middle lies in the time that its rates are of.
func (w *window) lay() {
	w.grid = make([][]int16, len(w.workers))
	cells := make([]int16, len(w.workers)*lookS)
	for i, t := range w.workers {
		row := cells[i*lookS : (i+1)*lookS]
		w.grid[i] = row
		at := len(t.states) - 1
		next := -1 // the state with values that follows
		for k := range row {
			row[k] = -1
			middle := w.now - int64(k)*second - second/2
			for at >= 0 && t.states[at].t >= middle {
				if t.states[at].gap == "" {
					next = at
				}
				at--
			}
			if next < 0 {
				continue
			}
			s := &t.states[next]
			if from := max(s.from, s.t-bridges*t.period); from < middle && middle <= s.t {
				row[k] = int16(next)
			}
		}
	}
}

// told is what worker i's state tells of second k before now; nil when that is not
// known.
func (w *window) told(i, k int) *workerState {
	if k >= lookS || w.grid[i][k] < 0 {
		return nil
	}
	return &w.workers[i].states[w.grid[i][k]]
}

// latest is the newest second that worker i tells of, if it is new enough.
func (w *window) latest(i int) (k int, ok bool) {
	most := int(min(lookS, silence*w.workers[i].period/second+1))
	for k := range most {
		if w.grid[i][k] >= 0 {
			return k, true
		}
	}
	return 0, false
}

// at is what worker i and its peers, those at work, did in second k.
func (w *window) at(i, k int) *seen {
	of := w.groupOf[i]
	if w.peers == nil {
		w.peers = map[group]*[lookS]seen{}
	}
	if w.peers[of] == nil {
		w.peers[of] = new([lookS]seen)
	}
	c := &w.peers[of][k]
	if c.done {
		return c
	}
	c.done = true
	n := len(w.workers)
	room := make([]float64, 3*n)
	c.tokens, c.perRequest, c.running = room[:0:n], room[n:n:2*n], room[2*n:2*n]
	for i := range w.workers {
		s := w.told(i, k)
		if w.groupOf[i] != of || s == nil || math.IsNaN(s.tokens) || !(s.tokens > 0 || s.hasWork()) {
			continue
		}
		c.tokens = append(c.tokens, s.tokens)
		if s.ran > 0 {
			c.perRequest = append(c.perRequest, s.tokens/s.ran)
			c.running = append(c.running, s.ran)
		}
	}
	slices.Sort(c.tokens)
	slices.Sort(c.perRequest)
	slices.Sort(c.running)
	return c
}

// medianBut is the median of sorted values without one that may be among them;
// NaN when none is left.
func medianBut(sorted []float64, one float64) float64 {
	i, found := slices.BinarySearch(sorted, one)
	n := len(sorted)
	if !found {
		return stats.Percentile(sorted, 50)
	}
	if n--; n == 0 {
		return math.NaN()
	}
	without := func(j int) float64 {
		if j >= i {
			j++
		}
		return sorted[j]
	}
	return (without((n-1)/2) + without(n/2)) / 2
}

// median sorts its values.
func median(values []float64) float64 {
	slices.Sort(values)
	return stats.Percentile(values, 50)
}

// sentAt is how many requests were under way in a second by the count of whoever
// sent them: the frontends, or else the load engine. NaN when nobody tells.
func (w *window) sentAt(k int) float64 {
	if _, inFlight := w.passedAt(k); !math.IsNaN(inFlight) {
		return inFlight
	}
	total := math.NaN()
	middle := w.now - int64(k)*second - second/2
	for _, t := range w.clients {
		if i := t.since(middle - 1); i < len(t.states) && t.states[i].gap == "" {
			total = orZero(total) + t.states[i].inFlight
		}
	}
	return total
}

func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// known is a value as a Picture has it. What is no number, as a sum of very large ones, is
// not known.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// valueOf is a value as a state has it.
func valueOf(v *float64) float64 {
	if v == nil || math.IsInf(*v, 0) {
		return math.NaN()
	}
	return *v
}
