package judge

import (
	"fmt"
	"math"
	"strings"

	"aicr/internal/spec"
)

// The fleet that the tables below load: every stream makes a token each 20 ms and
// every answer has 100, so that a user's request takes 2 s, a worker makes 400
// tokens a second and the fleet 1,600.
const (
	handTokens  = 100
	handPerS    = 50.0 // tokens of a stream in a second
	handFleet   = 1600.0
	handPerUser = 8
)

// bout is an episode made by hand: the pace of each worker in each second, and what
// else is unusual. Everything follows from it without chance: the requests by the
// client's clock, and the pages by the same tokens.
type bout struct {
	workers int // 4
	seconds int // 30
	users   int // 8 a worker
	asked   int // in flight; as many as there are users
	number  int // 1
	ramp    float64

	pace  func(s, w int) float64                  // of a worker in a second; 1 is usual, 0 stands still
	wait  func(s int) float64                     // seconds that a request waits before its worker has it
	route func(u, n int, s float64) int           // who gets the n-th request of a user
	ends  func(u, n int, s float64, w int) ending // how a request ends that is not served
	spoil func(*spec.Request)                     // the last word on each request

	nameless bool                            // the client is not told who serves
	blind    bool                            // there are no metrics pages
	page     func(s, w int, p *spec.Sample)  // the last word on each page
	gpu      func(s, g int) *spec.GPUSample  // nil: there is no exporter
	front    func(s int) spec.FrontendSample // nil: the frontend tells nothing
	sentinel func(n int) (waitS float64)     // one a second; NaN: never answered
	lag      float64                         // ms by which the client's stamps are late
	counted  bool                            // the client counts its tokens as they come
}

// ending is how a request that is not served ends: after so long, with so many
// tokens.
type ending struct {
	class  string
	afterS float64
	tokens int
	detail string
}

const never = int64(math.MaxInt64)

// after is when a worker has done so much more work: a unit is a token.
func (b *bout) after(t int64, units float64, w int) int64 {
	for k := t / second; k < int64(b.seconds)+20; k++ {
		rate := handPerS
		if b.pace != nil {
			rate *= b.pace(int(k), w)
		}
		left := float64((k+1)*second - t)
		if could := left / 1e9 * rate; could < units {
			units -= could
			t = (k + 1) * second
			continue
		}
		return t + int64(math.Round(units/rate*1e9))
	}
	return never
}

func (b *bout) defaults() {
	if b.workers == 0 {
		b.workers = 4
	}
	if b.seconds == 0 {
		b.seconds = 30
	}
	if b.users == 0 {
		b.users = handPerUser * b.workers
	}
	if b.asked == 0 {
		b.asked = b.users
	}
	if b.number == 0 {
		b.number = 1
	}
	if b.ramp == 0 {
		b.ramp = 2
	}
}

// point is the load that it asks for.
func (b bout) point() spec.OperatingPoint {
	b.defaults()
	return spec.OperatingPoint{Workers: b.workers, Concurrency: b.asked, RampS: b.ramp, DurationS: float64(b.seconds), InputTokens: 128, OutputTokens: handTokens, Prompts: "unique"}
}

// record plays it.
func (b bout) record() *spec.EpisodeRecord {
	b.defaults()
	load := int64(b.seconds) * second
	given := load + 5*second // when what is still open is given up
	made := make([][]float64, b.workers)
	for w := range made {
		made[w] = make([]float64, b.seconds+8)
	}
	var requests []spec.Request
	for u := range b.users {
		t := int64(float64(u) / float64(b.users) * b.ramp * 1e9)
		for n := 0; t < load; n++ {
			w := u % b.workers
			if b.route != nil {
				w = b.route(u, n, float64(t)/1e9)
			}
			q := b.request(u, n, w, t, given, made[w])
			requests = append(requests, q)
			t = q.End
		}
	}
	for n := range b.seconds {
		if b.sentinel == nil {
			break
		}
		q := spec.Request{Seq: int64(len(requests)), Lane: spec.LaneSentinel, Phase: "steady", Intended: int64(n) * second, Sent: int64(n)*second + second/10, Prompt: 128, Class: spec.ClassOK}
		if wait := b.sentinel(n); math.IsNaN(wait) {
			q.Class, q.End = "timeout", given
		} else {
			q.First, q.Tokens = q.Intended+int64(wait*1e9), 1
			q.Last, q.End = q.First, q.First
		}
		requests = append(requests, q)
	}
	if b.spoil != nil {
		for i := range requests {
			b.spoil(&requests[i])
		}
	}
	r := &Record{Number: b.number, Start: "2026-11-15T12:00:00Z", Requests: requests, Lags: []float64{b.lag}, LagBy: "hand", Point: b.point()}
	r.Series = b.series(requests, made)
	return &spec.EpisodeRecord{Episode: *Summarize(r), Requests: requests, Series: r.Series}
}

// request is the n-th of a user, with its tokens laid down in made.
func (b *bout) request(u, n, w int, t, given int64, made []float64) spec.Request {
	q := spec.Request{Seq: int64(n*b.users + u), Lane: "closed", Phase: "steady", Intended: t, Sent: t, Prompt: 128, Class: spec.ClassOK, Finish: "length", Status: 200}
	if !b.nameless {
		q.Worker = fmt.Sprint(w)
	}
	want, class := handTokens, spec.ClassOK
	if b.ends != nil {
		if e := b.ends(u, n, float64(t)/1e9, w); e.class != "" {
			if e.tokens == 0 {
				q.Class, q.Detail, q.End, q.Finish, q.Status = e.class, e.detail, t+int64(e.afterS*1e9), "", 500
				return q
			}
			want, class, q.Detail = e.tokens, e.class, e.detail
		}
	}
	at := t
	if b.wait != nil {
		at += int64(b.wait(int(t/second)) * 1e9)
	}
	for range want {
		next := b.after(at, 1, w)
		if next > given {
			q.Class, q.End, q.Finish = spec.ClassInterrupted, given, ""
			return q
		}
		if q.Tokens++; q.First == 0 {
			q.First = next
		} else if gap := next - at; gap > q.Gap {
			q.Gap, q.GapEnd = gap, next
		}
		if k := int((next - 1) / second); k < len(made) {
			made[k]++
		}
		at, q.Last = next, next
	}
	q.End, q.Class = at, class
	return q
}

// series is what everybody else says of it, once a second.
func (b *bout) series(requests []spec.Request, made [][]float64) []spec.Sample {
	var all []spec.Sample
	total := make([]float64, b.workers)
	var sum int64
	for s := range b.seconds + 4 {
		t := int64(s) * second
		has := make([]float64, b.workers)
		for i := range requests {
			if q := &requests[i]; q.Lane != spec.LaneSentinel && q.Tokens > 0 && q.Sent <= t && q.End > t {
				if w := b.servedBy(q); w >= 0 {
					has[w]++
				}
			}
		}
		for w := range b.workers {
			if s > 0 {
				total[w] += made[w][s-1]
				sum += int64(made[w][s-1])
			}
			if !b.blind {
				p := spec.Sample{T: t, Source: spec.SourceWorker, Name: fmt.Sprint(w), Worker: &spec.WorkerSample{Running: &has[w], Waiting: new(0.0), Generated: new(1e6 + total[w]), GPU: fmt.Sprintf("GPU-%d", w)}}
				if b.page != nil {
					b.page(s, w, &p)
				}
				if p.Gap != "" {
					p.Worker = nil
				}
				all = append(all, p)
			}
			if b.gpu != nil {
				all = append(all, spec.Sample{T: t, Source: spec.SourceGPU, Name: fmt.Sprintf("GPU-%d", w), GPU: b.gpu(s, w)})
			}
		}
		if b.front != nil {
			all = append(all, spec.Sample{T: t, Source: spec.SourceFrontend, Name: "frontend", Frontend: new(b.front(s))})
		}
		if b.counted {
			all = append(all, spec.Sample{T: t, Source: spec.SourceClient, Name: "client", Client: &spec.ClientSample{Tokens: sum}})
		}
	}
	return all
}

// servedBy is who had a request, though the client may not be told.
func (b *bout) servedBy(q *spec.Request) int {
	w := -1
	if b.nameless {
		u, n := int(q.Seq)%b.users, int(q.Seq)/b.users
		w = u % b.workers
		if b.route != nil {
			w = b.route(u, n, float64(q.Sent)/1e9)
		}
		return w
	}
	if _, err := fmt.Sscan(q.Worker, &w); err != nil || w >= b.workers {
		return -1
	}
	return w
}

// only is the pace of a fleet of which one worker is different for a while.
func only(who, from, until int, pace float64) func(s, w int) float64 {
	return func(s, w int) float64 {
		if w == who && s >= from && s < until {
			return pace
		}
		return 1
	}
}

// allAt is the pace of a fleet that is different for a while.
func allAt(from, until int, pace float64) func(s, w int) float64 {
	return func(s, w int) float64 {
		if s >= from && s < until {
			return pace
		}
		return 1
	}
}

// darkened takes samples away.
func darkened(who, from, until int, why string) func(s, w int, p *spec.Sample) {
	return func(s, w int, p *spec.Sample) {
		if w == who && s >= from && s < until {
			p.Gap = why
		}
	}
}

// handPlan is a plan for it, with what the fleet makes when it is well as reference.
func handPlan(with ...func(*spec.Plan)) *spec.Plan {
	th, _ := spec.DefaultThresholds(spec.ProfileStandard)
	th.BootstrapDraws = 100 // the least that a plan may have
	p := &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileStandard, Thresholds: th, Stability: spec.StabilityGate, Seed: 1,
		Point:     bout{}.point(),
		Reference: &spec.ReferenceFigure{Throughput: handFleet, From: "hand"}}
	for _, f := range with {
		f(p)
	}
	return p
}

// times is the same episode so many times, under its own number each.
func times(n int, b bout) []*spec.EpisodeRecord {
	r := b.record()
	var all []*spec.EpisodeRecord
	for i := range n {
		one := *r
		one.Episode.Number = i + 1
		all = append(all, &one)
	}
	return all
}

// sequel puts episodes behind others, and numbers them anew.
func sequel(parts ...[]*spec.EpisodeRecord) []*spec.EpisodeRecord {
	var all []*spec.EpisodeRecord
	for _, part := range parts {
		for _, r := range part {
			one := *r
			one.Episode.Number = len(all) + 1
			all = append(all, &one)
		}
	}
	return all
}

// digested is an episode as the judge keeps it, when the fleet is known to make so
// many tokens in a second; 0: nothing is known.
func digested(b bout, usual float64) *digest {
	r := b.record()
	c := NewCase(handPlan(func(p *spec.Plan) {
		p.Point = r.Episode.Point
		if p.Reference.Throughput = usual; usual == 0 {
			p.Reference = nil
		}
	}))
	c.Add(r)
	return c.all[0]
}

// stood is what the judge finds to have stood still: who, from when to when, and by
// whose word.
func stood(b bout, usual float64) []string {
	lines := []string{}
	for _, s := range digested(b, usual).stalls {
		who := s.worker
		if who == "" {
			who = "fleet"
		}
		open := ""
		if s.open {
			open = " open"
		}
		lines = append(lines, fmt.Sprintf("%s %d-%d%s by %s", who, s.from, s.until, open, strings.Join(s.by(), " and ")))
	}
	return lines
}
