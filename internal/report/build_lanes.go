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

// mostLanes is how many workers are drawn. A server that names each of its answers
// another worker has no workers that mean anything.
const mostLanes = 512

// laneTrack is what is kept of a worker.
type laneTrack struct {
	name, gpu string

	scraped []scrapes     // by episode
	counter stats.Counter // of the tokens, in the episode under way
	asked   bool          // there is telemetry of it, if only that it is silent
	heard   bool          // and it is not always
	silence silence

	client           []clientBins // by episode
	requests, failed int
	tokens           int64
}

// scrapes are what a worker's page said in an episode.
type scrapes struct{ t, running, waiting, rate []float64 }

// clientBins are what the client had of a worker in an episode.
type clientBins struct{ tokens, streams bins }

// lane is a worker's, or nil where there is no worker or no room for it.
func (b *Builder) lane(name string) *laneTrack {
	l := b.lanes[name]
	if l != nil || name == "" {
		return l
	}
	if len(b.lanes) == mostLanes {
		b.unlaned = true
		return nil
	}
	l = &laneTrack{name: strings.Clone(name)}
	b.lanes[l.name] = l
	return l
}

// count counts a request that the worker had.
func (l *laneTrack) count(q *spec.Request) {
	l.requests++
	l.tokens += int64(q.Tokens)
	if failed(q) {
		l.failed++
	}
}

// served draws a request that the worker had.
func (l *laneTrack) served(episode int, q *spec.Request) {
	l.client = reach(l.client, episode)
	c := &l.client[episode]
	if !refusedAtOnce(q) {
		c.streams.spread(cmp.Or(q.First, q.Sent), q.End, 1/float64(second))
	}
	c.tokens.tokens(q)
}

// told takes a sample of the worker in.
func (l *laneTrack) told(episode int, at float64, s *spec.Sample) {
	l.asked = true
	l.scraped = reach(l.scraped, episode)
	p := &l.scraped[episode]
	running, waiting, rate := math.NaN(), math.NaN(), math.NaN()
	if w := s.Worker; w != nil {
		l.heard = true
		l.silence.heard(at)
		if w.GPU != "" && w.GPU != l.gpu {
			l.gpu = strings.Clone(w.GPU)
		}
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
	p.t = append(p.t, at)
	p.running = append(p.running, running)
	p.waiting = append(p.waiting, waiting)
	p.rate = append(p.rate, rate)
}

// settle ends an episode. What a counter says in the next is not held against it.
func (l *laneTrack) settle() {
	l.counter = stats.Counter{}
	l.silence.settle()
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
	power []scrapedPower // by episode
}

type scrapedPower struct{ t, watts []float64 }

func (b *Builder) gpu(name string) *gpuTrack {
	g := b.gpus[name]
	if g == nil {
		g = &gpuTrack{}
		b.gpus[strings.Clone(name)] = g
	}
	return g
}

func (g *gpuTrack) told(episode int, at float64, s *spec.Sample) {
	watts := math.NaN()
	if s.GPU != nil {
		if s.GPU.Model != "" && s.GPU.Model != g.model {
			g.model = strings.Clone(s.GPU.Model)
		}
		watts = valueOf(s.GPU.PowerW)
	}
	g.power = reach(g.power, episode)
	p := &g.power[episode]
	p.t, p.watts = append(p.t, at), append(p.watts, watts)
}

// addLanes makes the lanes, and the stalls of the fleet.
func (b *Builder) addLanes(r *spec.Report) {
	stalls := map[string][]spec.Span{}
	for _, s := range r.Verdict.Stalls {
		if span, ok := b.stall(s); ok {
			stalls[s.Worker] = append(stalls[s.Worker], span)
		}
	}
	unjoined := b.unjoined()
	if unjoined {
		r.Notes = append(r.Notes, "the client and the telemetry name the workers differently, so that the lanes are of the telemetry alone")
		maps.DeleteFunc(b.lanes, func(_ string, l *laneTrack) bool { return !l.asked })
	}
	for _, f := range r.Verdict.Findings { // one that nobody heard of has an empty lane
		for _, w := range f.Workers {
			b.lane(w)
		}
	}
	for w := range stalls {
		b.lane(w)
	}
	if b.unlaned {
		r.Notes = append(r.Notes, fmt.Sprintf("more than %d workers are named: the others have no lane", mostLanes))
	}
	names := slices.SortedFunc(maps.Keys(b.lanes), natural)
	named, tokens := false, int64(0)
	for _, l := range b.lanes {
		named = named || l.requests > 0
		tokens += l.tokens
	}
	spansOut := 0
	keep := func(all []spec.Span) []spec.Span {
		all, out := longest(all)
		spansOut += out
		return all
	}
	r.Fleet.Stalls = keep(stalls[""])
	for _, name := range names {
		l := b.lanes[name]
		lane := spec.Lane{Worker: name, GPU: l.gpu, By: "client", Findings: naming(r.Verdict.Findings, l), Stalls: keep(stalls[name]), Silent: keep(l.silence.spans)}
		if named && !unjoined {
			lane.Known, lane.Requests, lane.Failed, lane.Tokens = true, l.requests, l.failed, l.tokens
			if tokens > 0 {
				lane.Share = float64(l.tokens) / float64(tokens) * float64(len(names))
			}
		}
		values := b.clientTrack(l)
		if l.heard || l.asked && len(values) == 0 {
			lane.By = "telemetry"
			values = l.track()
		}
		var rows []spec.Values
		lane.T, rows = values.thinned(3, mostLanePoints/len(names))
		lane.Running, lane.Waiting, lane.Rate = rows[0], rows[1], rows[2]
		if g := b.gpus[l.gpu]; g != nil && l.gpu != "" {
			lane.PowerT, rows = g.track().thinned(1, mostPowerPoints/len(names))
			lane.Power = rows[0]
		}
		r.Lanes = append(r.Lanes, lane)
	}
	r.Notes = append(r.Notes, leftOut(spansOut, "stall or silence")...)
}

// unjoined reports whether the client and the telemetry know no worker in common.
func (b *Builder) unjoined() bool {
	asked, named := false, false
	for _, l := range b.lanes {
		if l.asked && l.requests > 0 {
			return false
		}
		asked, named = asked || l.asked, named || l.requests > 0
	}
	return asked && named
}

// naming lists the findings that name a worker or its GPU.
func naming(all []spec.Finding, l *laneTrack) []string {
	ids := []string{}
	for _, f := range all {
		if (slices.Contains(f.Workers, l.name) || l.gpu != "" && slices.Contains(f.GPUs, l.gpu)) && !slices.Contains(ids, f.ID) {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

func (l *laneTrack) track() track {
	var all track
	for _, s := range l.scraped {
		sortByTime(s.t, [][]float64{s.running, s.waiting, s.rate})
		all = append(all, stretch{s.t, [][]float64{s.running, s.waiting, s.rate}})
	}
	return all
}

func (g *gpuTrack) track() track {
	var all track
	for _, s := range g.power {
		sortByTime(s.t, [][]float64{s.watts})
		all = append(all, stretch{s.t, [][]float64{s.watts}})
	}
	return all
}

// clientTrack is a worker by the client's record. Of one that it never heard of in the
// whole run it has nothing to say.
func (b *Builder) clientTrack(l *laneTrack) track {
	var all track
	if l.requests == 0 {
		return nil
	}
	l.client = reach(l.client, len(b.episodes)-1)
	for i, e := range b.episodes {
		n := e.fleet.length()
		rows := [][]float64{make([]float64, n), make([]float64, n), make([]float64, n)}
		for k := range n {
			rows[0][k], rows[1][k], rows[2][k] = l.client[i].streams.at(k), math.NaN(), l.client[i].tokens.at(k)
		}
		all = append(all, stretch{middles(e, n), rows})
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
