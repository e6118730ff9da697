package report

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// Builder makes a Report of a run as its record is read, an episode at a time. It
// keeps no request: what it needs of them it adds up by the second, and besides has the
// wait of each until its episode is over. Of an episode that is over it keeps no more
// points of a worker or a GPU than mostKeptPoints, and fewer where there are many.
type Builder struct {
	run    spec.Run
	plan   *spec.Plan
	events []spec.Event
	start  time.Time

	episodes []*episodeTrack
	lanes    map[string]*laneTrack
	gpus     map[string]*gpuTrack
	waits    *waits
	served   int  // workers that a request was the first to name
	asked    int  // and a sample
	heard    bool // some worker's page said something
	unlaned  bool // there were more workers than are kept
	uncarded bool // and more GPUs
	later    int  // requests and samples at times that their episode cannot have had
}

// NewBuilder begins a report of a run. Secrets that stand in the address of what was
// loaded are in no report.
func NewBuilder(run spec.Run, plan *spec.Plan, events []spec.Event) *Builder {
	start, _ := time.Parse(time.RFC3339, run.Start) // one that is none is told of by Begin
	run.Target.URL = withoutSecrets(run.Target.URL)
	return &Builder{run: run, plan: plan, events: events, start: start,
		lanes: map[string]*laneTrack{}, gpus: map[string]*gpuTrack{}, waits: newWaits()}
}

// withoutSecrets is an address without the parts that may hold some. Of one that cannot
// be read nobody can tell which those are, so that nothing of it is shown.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// episodeTrack is what is kept of an episode.
type episodeTrack struct {
	spec.ReportEpisode
	place  int
	over   bool
	latest int64 // a stamp that it cannot have
	end    int64 // the latest stamp that it has
	tokens int64 // of all its requests
	width  int64 // of its bins, nanoseconds
	last   int64 // the latest stamp in its bins
	fleet  fleetBins
	bins   int     // how many there are, when it is over
	drawn  stretch // what the fleet did, when it is over
	count  clientCount
	waits  waitCounts
}

// Begin begins an episode: the requests and samples that follow are its.
func (b *Builder) Begin(e *spec.Episode) {
	b.settle()
	start, err := time.Parse(time.RFC3339, e.Start)
	at := start.Sub(b.start).Seconds()
	if err != nil || b.start.IsZero() {
		at = 0 // the record has no clock: one after the other
		if n := len(b.episodes); n > 0 {
			at = b.episodes[n-1].Until
		}
	}
	b.episodes = append(b.episodes, &episodeTrack{place: len(b.episodes), latest: latestOf(e), width: second,
		ReportEpisode: spec.ReportEpisode{Episode: *e, At: at, Until: at}})
}

// latestOf is a stamp that an episode cannot have, by the load that it says it had: a clock
// that was wrong for one request shall not make a day of a minute.
func latestOf(e *spec.Episode) int64 {
	const aDay, margin = 86400, 600 // the margin is for what comes before the load and after it
	loaded := e.LoadedS
	if e.Point.Requests == 0 { // it ended by time
		loaded = max(loaded, e.Point.RampS+e.Point.DurationS)
	}
	if loaded <= 0 {
		return aDay * second // nobody says
	}
	const usual = 3600 // longer than anybody waits for an answer
	until := loaded + margin + max(0, cmp.Or(e.Point.RequestTimeout, usual))
	return int64(min(until, aDay) * float64(second))
}

// reach widens the bins of the episode under way until a stamp is within the last one.
func (b *Builder) reach(e *episodeTrack, stamp int64) {
	e.last = max(e.last, stamp)
	most := int64(min(mostBins, mostBinsOfAll/max(1, len(b.lanes))))
	for e.last/e.width >= most {
		e.width *= 2
		e.fleet.widen()
		for _, l := range b.lanes {
			l.now.tokens.widen()
			l.now.streams.widen()
		}
	}
}

func (b *Builder) current() *episodeTrack {
	if len(b.episodes) == 0 {
		return nil
	}
	return b.episodes[len(b.episodes)-1]
}

// settle ends the episode that was under way, if any.
func (b *Builder) settle() {
	e := b.current()
	if e == nil || e.over {
		return
	}
	e.over = true
	e.Until = e.At + seconds(e.end)
	e.fleet.settle()
	e.fleet.recount(e.width, &e.count, float64(e.tokens))
	e.bins = e.fleet.length()
	e.drawn = e.fleet.drawn(e).thinned(mostKeptPoints)
	e.fleet, e.count = fleetBins{}, clientCount{}
	e.waits = b.waits.take()
	pods, asked, served := b.pods(), 0, 0
	for _, l := range b.lanes {
		if l.asked {
			asked++
		}
		if l.requests > 0 {
			served++
		}
	}
	for _, l := range b.lanes {
		l.has(e.place, pods)
		l.settle(e, kept(asked), kept(served))
	}
	for _, g := range b.gpus {
		g.pod = ""
		g.power.settle(e.place, kept(len(b.gpus)))
	}
}

// Request takes a request in. It may be used again when Request returns.
func (b *Builder) Request(q *spec.Request) {
	e := b.current()
	if e == nil {
		return
	}
	e.tokens += int64(q.Tokens)
	b.waits.add(q)
	l := b.lane(q.Worker, &b.served)
	if l != nil {
		l.count(q)
	}
	last := max(q.Sent, q.First, q.Last, q.End)
	if last >= e.latest {
		b.later++
		return
	}
	b.reach(e, last)
	e.end = max(e.end, q.End)
	e.fleet.add(e.width, q)
	if l != nil {
		l.draw(e.width, q)
	}
}

// Sample takes a sample in.
func (b *Builder) Sample(s *spec.Sample) {
	e := b.current()
	if e == nil {
		return
	}
	if s.T < 0 || s.T >= e.latest {
		b.later++
		return
	}
	e.end = max(e.end, s.T)
	at := e.At + seconds(s.T)
	switch s.Source {
	case spec.SourceWorker:
		if strings.HasPrefix(s.Gap, spec.GapProxy) { // of no worker
			break
		}
		if l := b.lane(s.Name, &b.asked); l != nil {
			b.heard = b.heard || s.Worker != nil
			l.told(e.place, at, s)
		}
	case spec.SourceGPU:
		if g := b.gpu(s.Name); g != nil {
			g.told(e.place, at, s)
		}
	case spec.SourceClient:
		e.count.add(s)
	}
}

// Report is what it came to.
func (b *Builder) Report(v *spec.Verdict) *spec.Report {
	b.settle()
	r := &spec.Report{Run: b.run, Plan: b.plan, Verdict: v, Distributions: b.distributions(v), Facts: b.facts()}
	for _, e := range b.episodes {
		said := e.ReportEpisode
		if i := slices.IndexFunc(v.Parts, func(p spec.Part) bool { return p.Episode == e.Number }); i >= 0 {
			cut := e.At + v.Parts[i].Cut
			said.Cut, said.Counted, said.Throughput = &cut, v.Parts[i].Counted, v.Parts[i].Throughput
		}
		r.Episodes = append(r.Episodes, said)
	}
	r.Fleet = b.fleetTrack()
	b.addLanes(r)
	b.addMarks(r)
	if b.later > 0 {
		r.Notes = append(r.Notes, layout.Plural(b.later, "line")+" not drawn: their episode cannot have had the times that they tell")
	}
	return r
}

// stall is a stall on the run's clock.
func (b *Builder) stall(s spec.Stall) (spec.Span, bool) {
	for _, e := range b.episodes {
		if e.Number == s.Episode {
			return spec.Span{From: e.At + s.At, Until: e.At + s.At + s.Seconds, Open: s.Open}, true
		}
	}
	return spec.Span{}, false
}

// mostSpans is how many spans of a kind are drawn on one lane.
const mostSpans = 100

// longest keeps the longest of the spans, by time, and says how many it left out.
func longest(all []spec.Span) ([]spec.Span, int) {
	out := max(0, len(all)-mostSpans)
	if out > 0 {
		slices.SortStableFunc(all, func(a, b spec.Span) int { return cmp.Compare(b.Until-b.From, a.Until-a.From) })
		all = all[:mostSpans]
	}
	slices.SortStableFunc(all, func(a, b spec.Span) int { return cmp.Compare(a.From, b.From) })
	if all == nil {
		all = []spec.Span{} // in a page's data no list is null
	}
	return all, out
}

func leftOut(n int, what string) []string {
	if n == 0 {
		return nil
	}
	return []string{layout.Plural(n, what) + " not shown: there are too many"}
}

const second = int64(time.Second)

func seconds(ns int64) float64 { return float64(ns) / float64(second) }
func ms(ns int64) float64      { return float64(ns) / float64(time.Millisecond) }
