package judge

import (
	"cmp"
	"math"
	"slices"

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
}

// mostNames is how many sources of a kind are kept. A fleet whose names change all
// the time must not grow without end: who was silent longest goes.
const mostNames = 1024

// NewLive has seen nothing.
func NewLive() *Live {
	return &Live{workers: map[string]*workerTrack{}, gpus: map[string]*gpuTrack{}, nodes: map[string]*nodeTrack{},
		frontends: map[string]*frontendTrack{}, clients: map[string]*clientTrack{}}
}

// Add takes a sample. Those of one name come in the order of their times, and one
// that does not advance is passed over; between names any order will do.
func (l *Live) Add(s spec.Sample) {
	switch s.Source {
	case spec.SourceWorker:
		each(l.workers, &s, func(t *workerTrack) *track[workerState, *workerState] { return &t.track }, addWorker)
	case spec.SourceGPU:
		each(l.gpus, &s, func(t *gpuTrack) *track[gpuState, *gpuState] { return &t.track }, addGPU)
	case spec.SourceNode:
		each(l.nodes, &s, func(t *nodeTrack) *track[nodeState, *nodeState] { return &t.track }, addNode)
	case spec.SourceFrontend:
		each(l.frontends, &s, func(t *frontendTrack) *track[frontendState, *frontendState] { return &t.track }, addFrontend)
	case spec.SourceClient:
		each(l.clients, &s, func(t *clientTrack) *track[clientState, *clientState] { return &t.track }, addClient)
	}
}

// each finds whom a sample tells of and adds it to them. A gap may know no more
// than where was asked: it is then of everything that was told of from there.
func each[T any, S any, P stamped[S]](all map[string]*T, s *spec.Sample, of func(*T) *track[S, P], add func(*T, *spec.Sample)) {
	anonymous := s.Name == "" || s.Name == s.Instance
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
		of(t).name = name
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
	if v.Generated == nil {
		state.tokens = valueOf(v.TokensPerS)
		state.from = min(state.from, s.T-t.period)
	}
	state.ended, state.failed = rate(&t.ended, s.T, v.Ended), rate(&t.failed, s.T, v.Failed)
	t.gpu, t.pod = cmp.Or(v.GPU, t.gpu), cmp.Or(v.Pod, t.pod)
	t.made = t.made || state.tokens > 0 || v.Generated != nil && *v.Generated > 0
	state.made = t.made
	state.barrenS = barren(&t.barren, state.hasWork(), state.tokens, state.from, s.T)
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
		if *since = t; tokens == 0 {
			*since = from
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
	w := newWindow(now)
	forgetReplaced(l.workers)
	w.workers = present(l.workers, now, func(t *workerTrack) *track[workerState, *workerState] { return &t.track })
	w.gpus = present(l.gpus, now, func(t *gpuTrack) *track[gpuState, *gpuState] { return &t.track })
	w.nodes = present(l.nodes, now, func(t *nodeTrack) *track[nodeState, *nodeState] { return &t.track })
	w.frontends = present(l.frontends, now, func(t *frontendTrack) *track[frontendState, *frontendState] { return &t.track })
	w.clients = present(l.clients, now, func(t *clientTrack) *track[clientState, *clientState] { return &t.track })
	w.lay()
	w.join()
	return w
}

func present[T any, S any, P stamped[S]](all map[string]*T, now int64, of func(*T) *track[S, P]) []*T {
	list := make([]*T, 0, len(all))
	for name, t := range all {
		if now-of(t).last > lookNS {
			delete(all, name)
			continue
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *T) int { return byName(of(a).name, of(b).name) })
	return list
}

// forgetReplaced forgets the workers in whose place there is another since: one
// that is started anew has a new name at the old address, and the old one is not
// missing.
func forgetReplaced(all map[string]*workerTrack) {
	begun := make(map[string]int64, len(all)) // of instance: when its newest worker first answered
	for _, t := range all {
		if t.everGood && t.instance != "" {
			begun[t.instance] = max(begun[t.instance], t.goodAt)
		}
	}
	for name, t := range all {
		gone := t.of(len(t.states)-1).at().gap != ""
		if new, ok := begun[t.instance]; ok && (gone && new > t.good || new > t.last+silence*t.period) {
			delete(all, name)
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

// join finds each worker's GPU: the one that it names, or the one of its pod.
func (w *window) join() {
	w.gpuOf = make([]int, len(w.workers))
	byUUID, byPod := make(map[string]int, len(w.gpus)), map[string]int{}
	for i, g := range w.gpus {
		byUUID[g.name] = i
		if g.pod != "" {
			if _, several := byPod[g.pod]; several {
				byPod[g.pod] = -1 // a pod with several GPUs does not say which is the worker's
			} else {
				byPod[g.pod] = i
			}
		}
	}
	for i, t := range w.workers {
		w.gpuOf[i] = -1
		if g, ok := byUUID[t.gpu]; ok && t.gpu != "" {
			w.gpuOf[i] = g
		} else if g, ok := byPod[t.pod]; ok && t.pod != "" {
			w.gpuOf[i] = g
		}
	}
}
