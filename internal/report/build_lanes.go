package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

const (
	mostLanes = 512 // that are drawn

	// mostTracked is how many workers and GPUs are kept track of, so that those that the
	// verdict names can be drawn. A server that names each of its answers another worker
	// has no workers that mean anything.
	mostTracked = 4096
)

// laneTrack is what is kept of a worker.
type laneTrack struct {
	name       string
	named, pod string   // the GPU that it names in the episode under way, and its pod
	gpu        string   // the one that it had last
	cards      []string // and in each episode

	scraped track         // running, waiting and rate as its page has them
	counter stats.Counter // of the tokens, in the episode under way
	asked   bool          // there is telemetry of it, if only that it is silent
	heard   bool          // and it is not always
	silence silence

	client           track      // running, waiting and rate as the client has them
	now              clientBins // of the episode under way
	requests, failed int
	tokens           int64
}

// clientBins are what the client has of a worker.
type clientBins struct{ tokens, streams bins }

// lane is a worker's, or nil where there is no worker or no room for it. Known is how
// many are known by those who ask: names that the client makes up take no room from those
// that telemetry has.
func (b *Builder) lane(name string, known *int) *laneTrack {
	l := b.lanes[name]
	if l != nil || name == "" {
		return l
	}
	if *known == mostTracked {
		b.unlaned = true
		return nil
	}
	*known++
	l = &laneTrack{name: strings.Clone(name)}
	b.lanes[l.name] = l
	return l
}

// count counts a request that the worker had.
func (l *laneTrack) count(q *spec.Request) {
	l.requests++
	l.tokens += int64(q.Tokens)
	if q.Failed() {
		l.failed++
	}
}

// draw draws a request that the worker had.
func (l *laneTrack) draw(width int64, q *spec.Request) {
	if !q.RefusedAtOnce() {
		l.now.streams.spread(width, cmp.Or(q.First, q.Sent), q.End, 1/float64(second))
	}
	q.TokensOver(func(from, until int64, rate float64) { l.now.tokens.spread(width, from, until, rate) })
}

// told takes a sample of the worker in.
func (l *laneTrack) told(episode int, at float64, s *spec.Sample) {
	l.asked = true
	running, waiting, rate := math.NaN(), math.NaN(), math.NaN()
	if w := s.Worker; w != nil {
		l.heard = true
		l.silence.heard(at)
		keep(&l.named, w.GPU)
		keep(&l.pod, w.Pod)
		running, waiting = valueOf(w.Running), valueOf(w.Waiting)
		switch {
		case w.Generated != nil:
			if r, ok := l.counter.Rate(s.T, *w.Generated); ok {
				rate = r
			}
		case w.TokensPerS != nil:
			rate = *w.TokensPerS
		}
	} else {
		l.silence.missed(at)
	}
	l.scraped.add(episode, at, running, waiting, rate)
}

// settle ends an episode. What a counter says in the next is not held against it.
func (l *laneTrack) settle(e *episodeTrack, scrapes, points int) {
	l.counter = stats.Counter{}
	l.silence.settle()
	l.scraped.settle(e.place, scrapes)
	if len(l.now.tokens.amounts)+len(l.now.streams.amounts) > 0 {
		l.client = reach(l.client, e.place)
		l.client[e.place] = l.now.drawn(e).thinned(points)
		l.now = clientBins{}
	}
}

// drawn is what the client has of a worker in an episode that is over.
func (c *clientBins) drawn(e *episodeTrack) stretch {
	c.streams.settle()
	c.tokens.settle()
	n := e.bins
	s := stretch{t: e.middles(), rows: [][]float64{make([]float64, n), make([]float64, n), make([]float64, n)}}
	for k := range n {
		s.rows[0][k], s.rows[1][k], s.rows[2][k] = c.streams.rate(k, e.width), math.NaN(), c.tokens.rate(k, e.width)
	}
	return s
}

// keep keeps a text, if there is one, beyond the line that it was read from.
func keep(all *string, said string) {
	if said != "" && said != *all {
		*all = strings.Clone(said)
	}
}

// has tells which GPU a worker had in an episode, as the judge does: the one that it
// names or, where it names none, the one of its pod.
func (l *laneTrack) has(episode int, pods map[string]string) {
	card := l.named
	if card == "" && l.pod != "" {
		card = pods[l.pod]
	}
	if card != "" {
		l.gpu = card
		l.cards = reach(l.cards, episode)
		l.cards[episode] = card
	}
	l.named, l.pod = "", ""
}

// had reports whether a worker had some GPU in some episode.
func (l *laneTrack) had(some func(gpu string) bool) bool {
	return slices.ContainsFunc(l.cards, func(card string) bool { return card != "" && some(card) })
}

// pods are the GPUs by their pods in the episode under way. A pod with several does not
// say which is the worker's.
func (b *Builder) pods() map[string]string {
	by := map[string]string{}
	for name, g := range b.gpus {
		if _, several := by[g.pod]; several {
			name = ""
		}
		by[g.pod] = name
	}
	return by
}

func valueOf(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// silence gathers when nobody could tell: from the last sample that came to the next.
type silence struct {
	spans       []spec.Span
	last, since float64
	heardOnce   bool // in this episode
	open        bool
}

func (s *silence) heard(at float64) {
	if s.open {
		s.spans = append(s.spans, spec.Span{From: s.since, Until: at})
	}
	s.last, s.heardOnce, s.open = at, true, false
}

func (s *silence) missed(at float64) {
	if !s.open {
		s.open, s.since = true, at
		if s.heardOnce {
			s.since = s.last
		}
	}
	s.last = at
}

func (s *silence) settle() {
	if s.open {
		s.spans = append(s.spans, spec.Span{From: s.since, Until: s.last})
	}
	s.open, s.heardOnce = false, false
}

// gpuTrack is what is kept of a GPU.
type gpuTrack struct {
	model string
	pod   string // that has it, by the last sample of the episode under way
	power track  // one row: watts
}

// gpu is a GPU's, or nil where there is no room for it.
func (b *Builder) gpu(name string) *gpuTrack {
	g := b.gpus[name]
	if g != nil {
		return g
	}
	if len(b.gpus) == mostTracked {
		b.uncarded = true
		return nil
	}
	g = &gpuTrack{}
	b.gpus[strings.Clone(name)] = g
	return g
}

func (g *gpuTrack) told(episode int, at float64, s *spec.Sample) {
	watts := math.NaN()
	if s.GPU != nil {
		keep(&g.model, s.GPU.Model)
		if g.pod != s.GPU.Pod {
			g.pod = strings.Clone(s.GPU.Pod)
		}
		watts = valueOf(s.GPU.PowerW)
	}
	g.power.add(episode, at, watts)
}

// addLanes makes the lanes, and the stalls of the fleet.
func (b *Builder) addLanes(r *spec.Report) {
	stalls := map[string][]spec.Span{}
	for _, s := range r.Verdict.Stalls {
		if span, ok := b.stall(s); ok {
			stalls[s.Worker] = append(stalls[s.Worker], span)
		}
	}
	known := b.join(r)
	b.lanesOfTheVerdict(r, stalls)
	names := b.drawnNames(r.Verdict.Findings, stalls)
	tokens := int64(0)
	for _, l := range b.lanes {
		tokens += l.tokens
	}
	spansOut := 0
	few := func(all []spec.Span) []spec.Span {
		all, out := longest(all)
		spansOut += out
		return all
	}
	r.Fleet.Stalls = few(stalls[""])
	for _, name := range names {
		l := b.lanes[name]
		lane := b.drawnLane(l, len(names), known)
		lane.Worker = r.Verdict.Named(name)
		lane.Findings, lane.Stalls, lane.Silent = naming(r.Verdict.Findings, l), few(stalls[name]), few(l.silence.spans)
		if known {
			lane.Known, lane.Requests, lane.Failed, lane.Tokens = true, l.requests, l.failed, l.tokens
			if tokens > 0 {
				lane.Share = float64(l.tokens) / float64(tokens) * float64(len(b.lanes))
			}
		}
		r.Lanes = append(r.Lanes, lane)
	}
	r.Notes = append(r.Notes, leftOut(spansOut, "stall or silence")...)
}

// join takes the lanes of whoever knows less away where the client and the telemetry
// know no worker in common, and reports whether the client knows what those served that
// are left.
func (b *Builder) join(r *spec.Report) (known bool) {
	var asked, named, joined bool
	for _, l := range b.lanes {
		asked, named = asked || l.asked, named || l.requests > 0
		joined = joined || l.asked && l.requests > 0
	}
	switch {
	case joined || !asked || !named:
	case b.heard:
		r.Notes = append(r.Notes, "the client and the telemetry name the workers differently, so that the lanes are of the telemetry alone")
		maps.DeleteFunc(b.lanes, func(_ string, l *laneTrack) bool { return !l.asked })
		return false
	default: // a page that never answered may go by another name than its worker
		r.Notes = append(r.Notes, "no page of a worker ever answered, and the client names the workers differently, so that the lanes are of the client alone")
		maps.DeleteFunc(b.lanes, func(_ string, l *laneTrack) bool { return l.asked })
	}
	return named
}

// lanesOfTheVerdict makes lanes of those that the verdict names and nobody heard of, and
// tells of those that have none.
func (b *Builder) lanesOfTheVerdict(r *spec.Report, stalls map[string][]spec.Span) {
	named := 0
	for _, f := range r.Verdict.Findings {
		for _, w := range f.Workers {
			b.lane(w, &named)
		}
	}
	for _, w := range slices.Sorted(maps.Keys(stalls)) {
		b.lane(w, &named)
	}
	if len(b.lanes) > mostLanes {
		r.Notes = append(r.Notes, fmt.Sprintf("more than %d workers are named: the others have no lane", mostLanes))
	}
	if b.unlaned {
		r.Notes = append(r.Notes, fmt.Sprintf("more than %d workers are named: of the others nothing was kept", mostTracked))
	}
	if b.uncarded {
		r.Notes = append(r.Notes, fmt.Sprintf("more than %d GPUs are named: the power of the others is not drawn", mostTracked))
	}
}

// drawnNames are the workers that are drawn, in order. Where there are too many, those
// that the verdict names come before the others.
func (b *Builder) drawnNames(findings []spec.Finding, stalls map[string][]spec.Span) []string {
	workers, gpus := map[string]bool{}, map[string]bool{}
	for w := range stalls {
		workers[w] = true
	}
	for _, f := range findings {
		for _, w := range f.Workers {
			workers[w] = true
		}
		for _, g := range f.GPUs {
			gpus[g] = true
		}
	}
	names := slices.SortedFunc(maps.Keys(b.lanes), natural)
	if len(names) <= mostLanes {
		return names
	}
	var named, others []string
	for _, name := range names {
		if workers[name] || b.lanes[name].had(func(gpu string) bool { return gpus[gpu] }) {
			named = append(named, name)
		} else {
			others = append(others, name)
		}
	}
	names = append(named, others...)[:mostLanes]
	slices.SortFunc(names, natural)
	return names
}

// drawnLane is the lines of one of so many lanes. Where telemetry never said anything of
// a worker that the client has, the client draws, and so it does of all, if it knows
// them, where telemetry said nothing at all.
func (b *Builder) drawnLane(l *laneTrack, lanes int, known bool) spec.Lane {
	lane := spec.Lane{Worker: l.name, GPU: l.gpu, By: "client"}
	values := b.clientTrack(l)
	if l.heard || l.asked && len(values) == 0 && (b.heard || !known) {
		lane.By, values = "telemetry", l.scraped
	}
	var rows []spec.Values
	lane.T, rows = values.thinned(3, mostLanePoints/lanes)
	lane.Running, lane.Waiting, lane.Rate = rows[0], rows[1], rows[2]
	lane.PowerT, rows = b.powerTrack(l).thinned(1, mostPowerPoints/lanes)
	lane.Power = rows[0]
	return lane
}

// powerTrack is the power of the GPU that a worker had in each episode; in one in which
// nobody told, of the one that it had last.
func (b *Builder) powerTrack(l *laneTrack) track {
	all := make(track, len(b.episodes))
	cards := reach(l.cards, len(all)-1)
	for i := range all {
		if g := b.gpus[cmp.Or(cards[i], l.gpu)]; g != nil && l.gpu != "" && i < len(g.power) {
			all[i] = g.power[i]
		}
	}
	return all
}

// naming lists the findings that name a worker or its GPU.
func naming(all []spec.Finding, l *laneTrack) []string {
	ids := []string{}
	for _, f := range all {
		if (slices.Contains(f.Workers, l.name) || l.had(func(gpu string) bool { return slices.Contains(f.GPUs, gpu) })) && !slices.Contains(ids, f.ID) {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// clientTrack is a worker by the client's record. Of one that it never heard of in the
// whole run it has nothing to say.
func (b *Builder) clientTrack(l *laneTrack) track {
	if l.requests == 0 {
		return nil
	}
	all := make(track, len(b.episodes))
	copy(all, l.client)
	for i, s := range all { // before it was first heard of, it had nothing
		if s.t == nil {
			all[i] = new(clientBins).drawn(b.episodes[i]).thinned(mostKeptPoints)
		}
	}
	return all
}

// natural orders names as people do: worker 9 before worker 10.
func natural(a, b string) int {
	for x, y := a, b; x != "" && y != ""; {
		nx, ny := digits(x), digits(y)
		if nx == 0 || ny == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		numX, numY := strings.TrimLeft(x[:nx], "0"), strings.TrimLeft(y[:ny], "0")
		if c := cmp.Or(cmp.Compare(len(numX), len(numY)), cmp.Compare(numX, numY)); c != 0 {
			return c
		}
		x, y = x[nx:], y[ny:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// digits is how many digits a text begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
