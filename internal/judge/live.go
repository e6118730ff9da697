package judge

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// Live follows a fleet as it is observed: it is given samples as they come and
// says at any time what they show. It keeps two minutes of each source, and no
// clock: the same samples give the same pictures. It is not for use by several
// goroutines at once.
type Live struct {
	workers   map[string]*workerTrack
	gpus      map[string]*gpuTrack
	nodes     map[string]*nodeTrack
	frontends map[string]*frontendTrack
	clients   map[string]*clientTrack

	period  int64 // how often each source is asked
	begun   bool
	heard   int64 // the newest sample of anybody, gaps too
	stopped int64 // until then the watcher itself had stopped, as far as is known; 0: never
}

// mostNames is how many sources of a kind are kept. A fleet whose names change all
// the time must not grow without end: who was silent longest goes.
const mostNames = 1024

// mostOutcomes is how many kinds of outcomes of a frontend are followed beside those that
// its page has now.
const mostOutcomes = 512

// NewLive has seen nothing. Period is how often the observer asks each source.
func NewLive(period time.Duration) *Live {
	if period <= 0 {
		period = time.Second
	}
	return &Live{period: int64(period), workers: map[string]*workerTrack{}, gpus: map[string]*gpuTrack{}, nodes: map[string]*nodeTrack{},
		frontends: map[string]*frontendTrack{}, clients: map[string]*clientTrack{}}
}

// Add takes a sample. Those of one name come in the order of their times, and one
// that does not advance is passed over; between names any order will do.
func (l *Live) Add(s spec.Sample) {
	l.hear(&s)
	switch s.Source {
	case spec.SourceWorker:
		each(l.workers, l.period, &s, func(t *workerTrack) *track[workerState, *workerState] { return &t.track }, addWorker)
	case spec.SourceGPU:
		each(l.gpus, l.period, &s, func(t *gpuTrack) *track[gpuState, *gpuState] { return &t.track }, addGPU)
	case spec.SourceNode:
		each(l.nodes, l.period, &s, func(t *nodeTrack) *track[nodeState, *nodeState] { return &t.track }, addNode)
	case spec.SourceFrontend:
		each(l.frontends, l.period, &s, func(t *frontendTrack) *track[frontendState, *frontendState] { return &t.track }, addFrontend)
	case spec.SourceClient:
		each(l.clients, l.period, &s, func(t *clientTrack) *track[clientState, *clientState] { return &t.track }, addClient)
	}
}

// hear follows whether the watcher itself was stopped: it says so, or nobody was
// heard for a while, which is no fault of anybody.
func (l *Live) hear(s *spec.Sample) {
	if strings.HasPrefix(s.Gap, spec.GapObserver) || l.begun && s.T-l.heard > nobodyNS(l.period) {
		l.stopped = max(l.stopped, s.T)
	}
	l.heard, l.begun = max(l.heard, s.T), true
}

// nobodyNS is for how long nobody at all must be silent, before it is the watcher.
func nobodyNS(period int64) int64 { return period * 5 / 2 }

// each finds whom a sample tells of and adds it to them. A gap may know no more
// than where was asked: it is then of everything that was told of from there.
func each[T any, S any, P stamped[S]](all map[string]*T, period int64, s *spec.Sample, of func(*T) *track[S, P], add func(*T, *spec.Sample)) {
	anonymous := s.Name == "" || s.Name == s.Instance
	if strings.HasPrefix(s.Gap, spec.GapUnlisted) || ofProxy(s) {
		for name, t := range all {
			at := of(t).instance
			if (name == s.Name || anonymous) && (at == s.Instance || at == "") {
				delete(all, name)
			}
		}
		return
	}
	if s.Gap != "" && anonymous && s.Instance != "" {
		told := false
		for name, t := range all {
			if k := of(t); k.instance == s.Instance && name != s.Instance {
				told = true
				if k.take(s) {
					add(t, s)
				}
			}
		}
		if told {
			return
		}
	}
	name := cmp.Or(s.Name, s.Instance)
	t := all[name]
	if t == nil {
		if s.Gap == "" && !anonymous && s.Instance != "" {
			if before := all[s.Instance]; before != nil && !of(before).everGood {
				delete(all, s.Instance) // it stood for this one while its name was not known
			}
		}
		if len(all) >= mostNames {
			forgetOne(all, of)
		}
		t = new(T)
		of(t).name, of(t).least, of(t).period = name, period, period
		all[name] = t
	}
	if of(t).take(s) {
		add(t, s)
	}
}

func forgetOne[T any, S any, P stamped[S]](all map[string]*T, of func(*T) *track[S, P]) {
	oldest := ""
	for name, t := range all {
		// By name among equals, so that the same samples always give the same.
		if oldest == "" || cmp.Or(cmp.Compare(of(t).last, of(all[oldest]).last), cmp.Compare(name, oldest)) < 0 {
			oldest = name
		}
	}
	delete(all, oldest)
}

func rate(c *stats.Counter, t int64, v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	r, ok := c.Rate(t, *v)
	if !ok {
		return math.NaN()
	}
	return r
}

// begin is the time that a new state's rates are of.
func (t *track[S, P]) begin(s *spec.Sample) stamp {
	from := s.T
	if before := t.newest(); before != nil {
		from = before.at().t
	}
	return stamp{t: s.T, from: from, gap: s.Gap}
}

func addWorker(t *workerTrack, s *spec.Sample) {
	state := workerState{stamp: t.begin(s)}
	v := s.Worker
	if s.Gap != "" || v == nil {
		state.gap = cmp.Or(s.Gap, "a sample without values")
		t.keep(state)
		return
	}
	state.running, state.waiting, state.inFlight, state.kv = valueOf(v.Running), valueOf(v.Waiting), valueOf(v.InFlight), valueOf(v.KVUsage)
	state.ran = state.running
	if before := t.newest(); before != nil && !math.IsNaN(before.running) {
		state.ran = (before.running + state.running) / 2
	}
	state.tokens, state.prompts = rate(&t.generated, s.T, v.Generated), rate(&t.prompted, s.T, v.PromptTokens)
	if t.countedDown(cmp.Or(v.Generated, v.EndedTokens)) {
		t.again(restart{s.T, countersAnew})
	}
	t.log = v.Generated == nil && v.TokensPerS != nil
	if v.Generated == nil {
		state.tokens = valueOf(v.TokensPerS)
		state.from = min(state.from, s.T-t.period)
	}
	t.role = cmp.Or(v.Role, t.role)
	if state.generated = state.tokens; t.role == spec.RolePrefill { // its work
		state.tokens = state.prompts
	}
	state.ended, state.failed = rate(&t.ended, s.T, v.Ended), rate(&t.failed, s.T, v.Failed)
	if aborted := rate(&t.aborted, s.T, v.Aborted); aborted > 0 {
		state.failed = max(0, state.failed-aborted)
	}
	state.preempted, state.asleep = rate(&t.preempted, s.T, v.Preemptions), v.Asleep != nil && *v.Asleep == 1
	t.pod = cmp.Or(v.Pod, t.pod)
	if gpus := v.Holds(); len(gpus) > 0 {
		t.gpus = gpus
	}
	counted := v.Generated != nil && *v.Generated > 0 || v.EndedTokens != nil && *v.EndedTokens > 0
	t.made = t.made || state.tokens > 0 || t.role != spec.RolePrefill && counted
	state.made = t.made
	// Who counts tokens when a request ends does not tell whether it makes any now.
	blind := v.Generated == nil && v.EndedTokens != nil
	state.barrenS = barren(&t.barren, state.hasWork() && !blind, state.tokens, state.from, s.T)
	t.keep(state)
}

// barren follows since when there is work and no token: a token, or nothing to do,
// begins it anew. What is not known leaves it as it is.
func barren(since *int64, work bool, tokens float64, from, t int64) float64 {
	if tokens > 0 || !work {
		*since = 0
		return 0
	}
	if *since == 0 {
		// When the work came is not known: of a long rate only the last second counts.
		if *since = t; tokens == 0 {
			*since = max(from, t-second)
		}
	}
	return seconds(t - *since)
}

func addGPU(t *gpuTrack, s *spec.Sample) {
	state := gpuState{stamp: t.begin(s)}
	v := s.GPU
	if s.Gap != "" || v == nil {
		state.gap = cmp.Or(s.Gap, "a sample without values")
		t.keep(state)
		return
	}
	state.utilization, state.power, state.clock, state.temperature = valueOf(v.Utilization), valueOf(v.PowerW), valueOf(v.SMClockMHz), valueOf(v.TemperatureC)
	state.xid, state.doubleBit, state.remap, state.memory = valueOf(v.XID), valueOf(v.DoubleBit), valueOf(v.RemapFailure), valueOf(v.MemoryUsed)
	if v.Throttle != nil {
		state.throttle, state.throttleKnown, state.harm = *v.Throttle, true, harmBits(*v.Throttle)
	}
	t.index, t.model, t.node, t.pod = cmp.Or(v.Index, t.index), cmp.Or(v.Model, t.model), cmp.Or(v.Node, t.node), v.Pod
	t.keep(state)
}

func addNode(t *nodeTrack, s *spec.Sample) {
	state := nodeState{stamp: t.begin(s)}
	v := s.Node
	if s.Gap != "" || v == nil {
		state.gap = cmp.Or(s.Gap, "a sample without values")
		t.keep(state)
		return
	}
	state.cpu, state.memory, state.io, state.load1 = valueOf(v.CPUPressure), valueOf(v.MemoryPressure), valueOf(v.IOPressure), valueOf(v.Load1)
	t.keep(state)
}

func addFrontend(t *frontendTrack, s *spec.Sample) {
	state := frontendState{stamp: t.begin(s)}
	v := s.Frontend
	if s.Gap != "" || v == nil {
		state.gap = cmp.Or(s.Gap, "a sample without values")
		t.keep(state)
		return
	}
	state.inFlight, state.queued, state.busy = valueOf(v.InFlight), valueOf(v.Queued), valueOf(v.Busy)
	state.served, state.failed = rate(&t.served, s.T, v.Served), rate(&t.failed, s.T, v.Failed)
	state.tokens, state.stalls = rate(&t.tokens, s.T, v.Tokens), rate(&t.stalls, s.T, v.Stalls)
	if v.Outcomes != nil {
		if t.outcomes == nil {
			t.outcomes = map[string]*stats.Counter{}
		}
		state.outcomes = make(map[string]float64, len(v.Outcomes))
		for kind, n := range v.Outcomes {
			c := t.outcomes[kind]
			if c == nil {
				c = &stats.Counter{}
				t.outcomes[kind] = c
				if state.from < s.T { // the page was there and had none of this kind: it began at nothing
					c.Rate(state.from, 0)
				}
			}
			if r, ok := c.Rate(s.T, n); ok {
				state.outcomes[kind] = r
			}
		}
		if len(t.outcomes) > mostOutcomes { // those that are told no more give way
			maps.DeleteFunc(t.outcomes, func(kind string, _ *stats.Counter) bool { _, told := v.Outcomes[kind]; return !told })
		}
	}
	t.made = t.made || state.tokens > 0 || v.Tokens != nil && *v.Tokens > 0
	state.made = t.made
	state.barrenS = barren(&t.barren, state.inFlight > 0, state.tokens, state.from, s.T)
	t.keep(state)
}

func addClient(t *clientTrack, s *spec.Sample) {
	state := clientState{stamp: t.begin(s)}
	if s.Gap != "" || s.Client == nil {
		state.gap = cmp.Or(s.Gap, "a sample without values")
	} else {
		state.inFlight = float64(s.Client.InFlight)
	}
	t.keep(state)
}

// window is what there is to look at now. Who was silent for longer than is kept,
// and who was replaced by another at the same place, is forgotten.
func (l *Live) window(now int64) *window {
	w := &window{now: now, period: l.period, heard: l.heard}
	forgetReplaced(l.workers)
	w.workers = present(l.workers, l, now, func(t *workerTrack) *track[workerState, *workerState] { return &t.track })
	w.gpus = present(l.gpus, l, now, func(t *gpuTrack) *track[gpuState, *gpuState] { return &t.track })
	w.nodes = present(l.nodes, l, now, func(t *nodeTrack) *track[nodeState, *nodeState] { return &t.track })
	w.frontends = present(l.frontends, l, now, func(t *frontendTrack) *track[frontendState, *frontendState] { return &t.track })
	w.clients = present(l.clients, l, now, func(t *clientTrack) *track[clientState, *clientState] { return &t.track })
	w.lay()
	w.join()
	return w
}

func present[T any, S any, P stamped[S]](all map[string]*T, l *Live, now int64, of func(*T) *track[S, P]) []*T {
	list := make([]*T, 0, len(all))
	for name, t := range all {
		if now-of(t).last > lookNS {
			delete(all, name)
			continue
		}
		of(t).stopped = l.stopped
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *T) int { return byName(of(a).name, of(b).name) })
	return list
}

// forgetReplaced forgets the workers in whose place there is another since: one
// that is started anew has a new name at the old address, and the old one is not
// missing.
func forgetReplaced(all map[string]*workerTrack) {
	begun := make(map[string]*workerTrack, len(all)) // of instance: its newest worker
	for _, t := range all {
		if o := begun[t.instance]; t.everGood && t.instance != "" && (o == nil || cmp.Or(cmp.Compare(t.goodAt, o.goodAt), cmp.Compare(t.name, o.name)) > 0) {
			begun[t.instance] = t
		}
	}
	var replaced []*workerTrack
	for name, t := range all {
		gone := t.of(len(t.states)-1).at().gap != ""
		if new := begun[t.instance]; new != nil && new != t && (gone && new.goodAt > t.good || new.goodAt > t.last+silence*t.period) {
			delete(all, name)
			replaced = append(replaced, t)
		}
	}
	// In the order of their times, so that the newest has them all.
	slices.SortFunc(replaced, func(a, b *workerTrack) int {
		return cmp.Or(cmp.Compare(a.good, b.good), cmp.Compare(a.name, b.name))
	})
	for i, t := range replaced {
		new := begun[t.instance]
		for _, r := range t.restarts {
			new.again(r)
		}
		at := new.goodAt
		for _, o := range replaced[i+1:] { // it was replaced itself
			if o.instance == t.instance {
				at = o.goodAt
				break
			}
		}
		if t.everGood {
			new.again(restart{at, anotherID})
		}
	}
}

// byName orders names as people count: 2 before 10.
func byName(a, b string) int {
	if len(a) != len(b) && digits(a) && digits(b) {
		return cmp.Compare(len(a), len(b))
	}
	return cmp.Compare(a, b)
}

func digits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// join finds each worker's GPUs, and who its peers are.
func (w *window) join() {
	holders, gpus := make([]holder, len(w.workers)), make([]located, len(w.gpus))
	for i, t := range w.workers {
		holders[i] = holder{t.role, t.gpus, t.pod}
	}
	for i, g := range w.gpus {
		gpus[i] = located{g.name, g.pod}
	}
	w.gpusOf, w.groupOf = make([][]int, len(w.workers)), make([]group, len(w.workers))
	w.workerOf = make([]int, len(w.gpus))
	for g := range w.workerOf {
		w.workerOf[g] = -1
	}
	for i, h := range holdings(holders, gpus) {
		w.gpusOf[i], w.groupOf[i] = h.gpus, h.group
		for _, g := range h.gpus {
			if w.workerOf[g] < 0 {
				w.workerOf[g] = i
			}
		}
	}
}
