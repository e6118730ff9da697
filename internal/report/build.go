package report

import (
	"cmp"
	"slices"
	"time"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// Builder makes a Report of a run as its record is read, an episode at a time. It
// keeps no request: what it needs of them it adds up by the second.
type Builder struct {
	run    spec.Run
	plan   *spec.Plan
	events []spec.Event
	start  time.Time

	episodes []*episodeTrack
	lanes    map[string]*laneTrack
	gpus     map[string]*gpuTrack
	waits    *waits
	unlaned  bool // there were more workers than there are lanes for
	later    int  // requests and samples that are too late in their episode to be drawn
}

// NewBuilder begins a report of a run.
func NewBuilder(run spec.Run, plan *spec.Plan, events []spec.Event) *Builder {
	start, _ := time.Parse(time.RFC3339, run.Start) // one that is none is told of by Begin
	return &Builder{run: run, plan: plan, events: events, start: start,
		lanes: map[string]*laneTrack{}, gpus: map[string]*gpuTrack{}, waits: newWaits()}
}

// episodeTrack is what is kept of an episode.
type episodeTrack struct {
	spec.ReportEpisode
	place int
	over  bool
	end   int64 // the latest stamp of it
	fleet fleetBins
	count clientCount
	waits waitCounts
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
	b.episodes = append(b.episodes, &episodeTrack{place: len(b.episodes),
		ReportEpisode: spec.ReportEpisode{Episode: *e, At: at, Until: at}})
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
	e.fleet.recount(&e.count)
	e.waits = b.waits.take()
	for _, l := range b.lanes {
		l.settle()
	}
}

// Request takes a request in. It may be used again when Request returns.
func (b *Builder) Request(q *spec.Request) {
	e := b.current()
	if e == nil {
		return
	}
	b.waits.add(q)
	l := b.lane(q.Worker)
	if l != nil {
		l.count(q)
	}
	if q.End >= latest {
		b.later++
		return
	}
	e.end = max(e.end, q.End)
	e.fleet.add(q)
	if l != nil {
		l.served(e.place, q)
	}
}

// Sample takes a sample in.
func (b *Builder) Sample(s *spec.Sample) {
	e := b.current()
	if e == nil {
		return
	}
	if s.T < 0 || s.T >= latest {
		b.later++
		return
	}
	e.end = max(e.end, s.T)
	at := e.At + seconds(s.T)
	switch s.Source {
	case spec.SourceWorker:
		if l := b.lane(s.Name); l != nil {
			l.told(e.place, at, s)
		}
	case spec.SourceGPU:
		b.gpu(s.Name).told(e.place, at, s)
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
			said.Cut, said.Counted = &cut, v.Parts[i].Counted
		}
		r.Episodes = append(r.Episodes, said)
	}
	r.Fleet = b.fleetTrack()
	b.addLanes(r)
	b.addMarks(r)
	if b.later > 0 {
		r.Notes = append(r.Notes, layout.Plural(b.later, "line")+" not drawn: they tell of more than a day after their episode's start")
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

const (
	second = int64(time.Second)
	latest = 86400 * second // of an episode, that is drawn
)

func seconds(ns int64) float64 { return float64(ns) / float64(second) }
func ms(ns int64) float64      { return float64(ns) / float64(time.Millisecond) }

const (
	laneSentinel     = "sentinel"
	phaseSteady      = "steady"
	classOK          = "ok"
	classInterrupted = "interrupted"
)

// served and failed are as the judge has them: who was answered without a token was
// not served, and who was interrupted did not fail.
func served(q *spec.Request) bool { return q.Class == classOK && q.First > 0 && q.Tokens > 0 }
func failed(q *spec.Request) bool { return !served(q) && q.Class != classInterrupted }
