package judge

import (
	"cmp"
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// The witnesses of a stall.
const (
	byTelemetry = "telemetry"
	byClient    = "client"
)

// standstill is a stretch without progress: seconds from (inclusive) to until.
type standstill struct {
	worker      string // "": the whole fleet
	part        bool   // of a fleet whose workers are not distinguished: some streams, and not most
	from, until int
	open        bool // it had not ended when the load did
	told, seen  bool // who says so
	asleep      bool // its engine said that it slept

	gpus               int // of the worker, and what they did meanwhile
	odd                []oddity
	power, peers, duty float64
	throttled          bool
}

func (s *standstill) overlaps(o *standstill, slack int) bool {
	return s.from < o.until+slack && o.from < s.until+slack
}

// standstills finds the stretches in which a worker or the fleet stood still, on the
// uncut series. Past is what earlier episodes, or a reference, say of good seconds: an
// episode that is stalled from end to end has none of its own.
func standstills(t *timeline, r *spec.EpisodeRecord, past *past, th *spec.Thresholds) []standstill {
	f := &finder{t: t, th: th, past: past, least: max(1, int(math.Ceil(th.StallS)))}
	f.usual(r)
	fleet := f.fleet(r)
	workers := f.workers()
	held := f.heldUp(r)
	return f.settle(fleet, workers, held)
}

// past is what is known of good seconds.
type past struct {
	fleet   float64            // tokens of the fleet in a second; 0: not known
	workers map[string]float64 // and of each worker, by name
}

type finder struct {
	t          *timeline
	th         *spec.Thresholds
	past       *past
	least      int                // seconds that make a stall
	good       float64            // tokens of the fleet in a good second
	worker     map[group]float64  // and of one worker
	own        map[string]float64 // and of each, by itself
	perRequest map[group]float64  // tokens a second for each request that a worker has, when all is well
	planned    int                // workers that there should be
	asked      float64            // requests that were to be in flight
	starts     float64            // first tokens in a second, on average
	prompts    map[string]float64 // prompts that a worker takes in, in a second, on average
}

func (f *finder) usual(r *spec.EpisodeRecord) {
	t := f.t
	f.asked = float64(r.Episode.Point.Concurrency)
	f.planned = r.Episode.Point.Workers
	f.good = orZero(quantileOf(t.fleet, 75))
	f.starts = mean(t.starts)
	f.own, f.prompts = map[string]float64{}, map[string]float64{}
	f.worker, f.perRequest = map[group]float64{}, map[group]float64{}
	answering := 0
	for g, workers := range t.groups() {
		var each, rates []float64
		for _, l := range workers {
			all := l.progressAll()
			if q := quantileOf(all, 75); q > 0 {
				each = append(each, q)
			}
			f.own[l.name] = max(orZero(quantileOf(all, 95)), f.past.workers[l.name])
			f.prompts[l.name] = orZero(meanKnown(l.taken()))
			for k, p := range all {
				if has := l.has(k); has >= 1 && !math.IsNaN(p) {
					rates = append(rates, p/has)
				}
			}
		}
		if g.role != spec.RolePrefill {
			answering += len(workers)
		}
		f.worker[g] = orZero(median(each))
		f.perRequest[g] = orZero(quantileOf(rates, 75)) // most may stand still
	}
	for g, usual := range f.worker {
		if usual == 0 && g.role != spec.RolePrefill {
			f.worker[g] = f.past.fleet / float64(answering)
		}
	}
}

// taken is what a worker takes in, second by second: the client's first tokens where
// it knows whose they are, else the prompts' tokens by its metrics.
func (l *lane) taken() []float64 {
	if len(l.starts) > 0 && !math.IsNaN(l.starts[0]) {
		return l.starts
	}
	return l.prompts
}

func (l *lane) progressAll() []float64 {
	all := make([]float64, 0, len(l.told))
	for k := range l.told {
		all = append(all, l.progress(k))
	}
	return all
}

// meanKnown is the mean of what is known.
func meanKnown(v []float64) float64 {
	return mean(slices.DeleteFunc(slices.Clone(v), math.IsNaN))
}

// quantileOf is a percentile of what is known.
func quantileOf(v []float64, p float64) float64 {
	known := slices.DeleteFunc(slices.Clone(v), math.IsNaN)
	slices.Sort(known)
	return stats.Percentile(known, p)
}

// takesIn is by how many times its usual number of prompts, or its peers' number, a
// worker must take in in a second in which its tokens are few because it reads them.
// One that stalls goes on to take in what it is sent, slowly.
const takesIn = 1.5

// nothingMade is the share of good seconds below which nothing is made, whatever an
// episode's own seconds were like.
const nothingMade = 0.05

// fleet is where the client got next to nothing though it awaited as much as ever,
// and no prompts were being read either.
func (f *finder) fleet(r *spec.EpisodeRecord) []standstill {
	t := f.t
	first := f.firstToken(r)
	return f.stretches(func(k int) verdictOfSecond {
		if k < first {
			return fine
		}
		awaited := math.Min(1, t.inFlight[k]/max(1, f.asked))
		switch {
		case awaited < 0.5 || f.good <= 0 && f.past.fleet <= 0:
			return fine
		case t.starts[k] > 0 && t.starts[k] >= f.th.FreezeShare*f.starts:
			return fine // where answers begin, nothing stands still
		case t.fleet[k] < f.th.FreezeShare*f.good*awaited, t.fleet[k] < nothingMade*f.past.fleet*awaited:
			return silent
		case t.fleet[k] >= f.th.RecoveredRate*f.good*awaited:
			return well
		}
		return fine
	})
}

// firstToken is the second of the episode's first token, as far as waiting for it is
// no more than waiting for any: how long that is is no matter of stalls.
func (f *finder) firstToken(r *spec.EpisodeRecord) int {
	first := int64(math.MaxInt64)
	var waits []float64
	for i := range r.Requests {
		if q := &r.Requests[i]; q.First > 0 {
			first = min(first, q.First)
			waits = append(waits, float64(q.First-q.Sent))
		}
	}
	if len(waits) == 0 || float64(first) > 2*median(waits) {
		return 0
	}
	return int(first / second)
}

// verdictOfSecond is what one second says.
type verdictOfSecond uint8

const (
	fine   verdictOfSecond = iota // neither
	silent                        // next to no progress
	well                          // as usual
	dark                          // not known
)

// stretches joins silent seconds: so many in a row begin a stall, and it is over
// when things went well for a while, or tolerably for longer. What is not known
// begins nothing and ends nothing.
func (f *finder) stretches(of func(k int) verdictOfSecond) []standstill {
	var all []standstill
	run, calm, good, first := 0, 0, 0, 0
	var now *standstill
	for k := range f.t.seconds {
		switch of(k) {
		case silent:
			if run++; run == 1 {
				first = k
			}
			calm, good = 0, 0
			if now == nil && run >= f.least {
				all = append(all, standstill{from: first})
				now = &all[len(all)-1]
			}
			if now != nil {
				now.until = k + 1
			}
			continue
		case well:
			good++
			calm++
		case fine:
			good = 0
			calm++
		case dark:
			continue
		}
		run = 0
		if now != nil && (float64(good) >= f.th.RecoveredS || calm >= tolerably) {
			now = nil
		}
	}
	if now != nil && now.until >= f.t.seconds-1 {
		now.open, now.until = true, f.t.seconds
	}
	return all
}

// tolerably is for how many seconds a stall must show itself no more to be over.
const tolerably = 5

// workers is where one worker stood still while its peers did not.
func (f *finder) workers() []standstill {
	var all []standstill
	for _, l := range f.t.workers {
		had := false // traffic, so far
		found := f.stretches(func(k int) verdictOfSecond {
			v := f.second(l, k, had)
			had = had || l.progress(k) > 0
			return v
		})
		for _, s := range found {
			s.worker = l.name
			s.told = slices.ContainsFunc(l.told[s.from:s.until], func(v float64) bool { return !math.IsNaN(v) })
			s.seen = !s.told
			s.asleep = slices.Contains(l.asleep[s.from:s.until], true)
			all = append(all, s)
		}
	}
	return all
}

// second says whether a worker stood still in a second: it made next to nothing
// compared with a good second of a worker, and with one of its own, though it had
// work and somebody else made tokens.
func (f *finder) second(l *lane, k int, had bool) verdictOfSecond {
	p, has := l.progress(k), l.has(k)
	if l.refused[k] && !(l.streams[k] >= 1) {
		return fine // it is not there: that is no stall
	}
	if math.IsNaN(p) {
		return dark
	}
	peers := peerWorkers(l, f.t.workers)
	alone := len(peers) == 0
	others, each := 0.0, f.worker[l.group] // the best of its peers
	for _, o := range peers {
		others = max(others, orZero(o.progress(k)))
	}
	hoards := has > f.t.inFlight[k]/2 && !alone
	if others < each/2 && !hoards && !alone {
		return fine // they stand still as well, or there is nothing to do
	}
	usual := each * math.Min(1, f.t.inFlight[k]/max(1, f.asked))
	if p >= f.th.StallShare*usual || p > 0 && p >= f.th.FreezeShare*f.own[l.name] {
		if p >= f.th.RecoveredRate*usual {
			return well
		}
		return fine
	}
	if f.reads(l, k) {
		return fine
	}
	// It makes next to nothing. That is no fault of who has next to nothing to do.
	switch {
	case has > 0:
		if !hoards && !alone && p > 0 && p >= f.th.FreezeShare*f.perRequest[l.group]*has {
			return fine
		}
		if has < 1 && p == 0 && !hoards {
			return fine // a part of a second is no sign
		}
		return silent
	case !had && f.madeBefore(l) && f.hides(l, k):
		return silent // a gauge that reads 0 is no proof that there is nothing
	case l.streams[k] == 0:
		return fine // the client has nothing open with it
	case had && !f.ownedByOthers(l, k):
		return silent
	}
	return fine
}

// madeBefore says whether a worker has made tokens before this episode.
func (f *finder) madeBefore(l *lane) bool { return l.madeBefore || f.past.workers[l.name] > 0 }

// hides says whether a worker that makes nothing and says that it has nothing must have
// what the client awaits: it alone stands empty, and the others own up to so much less that
// half a fair share is left.
func (f *finder) hides(l *lane, k int) bool {
	left := f.t.inFlight[k]
	for _, o := range f.t.workers {
		if math.IsNaN(o.most[k]) {
			return false // it does not tell what it has, and may have it
		}
		if o == l {
			continue
		}
		owned := f.owns(o, k)
		if !(owned > 0) {
			return false
		}
		left -= owned
	}
	return left >= max(2, gaugeZeroPart*f.t.inFlight[k]/float64(len(f.t.workers)))
}

// owns is the most that a worker owns up to in a second, or at the start of the next.
func (f *finder) owns(o *lane, k int) float64 {
	most := o.most[k]
	if k+1 < f.t.seconds {
		most = maxKnown(most, o.most[k+1])
	}
	return maxKnown(most, o.streams[k])
}

// ownedByOthers says whether the others own up to all that is under way, or one of them,
// which does not tell, may have it: a worker that is wedged behind a gauge of 0 leaves
// requests that no worker has.
func (f *finder) ownedByOthers(l *lane, k int) bool {
	owned, told := f.ownedBeside(l, k)
	return !told || owned >= 0.95*f.t.inFlight[k]
}

// ownedBeside is what the others own up to in a second, and whether all of them tell.
func (f *finder) ownedBeside(l *lane, k int) (owned float64, told bool) {
	told = len(f.t.workers) >= f.planned
	for _, o := range f.t.workers {
		if o != l {
			owned += f.owns(o, k)
			told = told && !math.IsNaN(o.most[k])
		}
	}
	return owned, told
}

// reads says whether a worker is busy with prompts.
func (f *finder) reads(l *lane, k int) bool {
	taken := l.taken()[k]
	if !(taken > 0) {
		return false
	}
	var others []float64
	for _, o := range peerWorkers(l, f.t.workers) {
		others = appendKnown(others, o.taken()[k])
	}
	return taken >= takesIn*f.prompts[l.name] || taken >= takesIn*median(others) && taken >= f.prompts[l.name]
}

// hold is a stream that was held up, and when.
type hold struct {
	worker      string
	from, until int64
	late        bool // it only took long in all: other things do that as well
}

// heldUp is where many streams waited much longer for a token than is usual: what
// the client's own record tells when nobody tells the workers apart, and the second
// witness where somebody does.
func (f *finder) heldUp(r *spec.EpisodeRecord) []standstill {
	var each []float64
	for i := range r.Requests {
		if q := &r.Requests[i]; q.Served() && q.Tokens > 1 {
			each = append(each, float64(q.Last-q.First)/float64(q.Tokens-1))
		}
	}
	slices.Sort(each)
	usual := stats.Percentile(each, 50)
	if math.IsNaN(usual) {
		usual = 0
	}
	least := max(f.th.StallS*float64(second), f.th.GapFactor*usual)
	until := int64(f.t.seconds) * second
	var held []hold
	for i := range r.Requests {
		q := &r.Requests[i]
		if q.First == 0 {
			continue
		}
		gap, from, to := q.Gap, q.GapEnd-q.Gap, q.GapEnd
		if q.Class == spec.ClassInterrupted && q.End-q.Last > gap {
			gap, from, to = min(q.End, until)-q.Last, q.Last, min(q.End, until)
		}
		late := float64(q.Last-q.First) - float64(float64(q.Tokens)*usual)
		switch {
		case float64(gap) >= least && from < until:
			held = append(held, hold{q.Worker, from, to, false})
		case late >= least && usual > 0 && q.First < until:
			held = append(held, hold{q.Worker, q.First, q.Last, true})
		}
	}
	slices.SortFunc(held, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.until, b.until), cmp.Compare(a.from, b.from), cmp.Compare(a.worker, b.worker))
	})
	needed := max(2, int(math.Ceil(f.th.GapStreams*f.asked)))
	var all []standstill
	for len(held) > 0 {
		// Those that were released together were held by one thing.
		n := 1
		for n < len(held) && held[n].until-held[n-1].until <= second {
			n++
		}
		late := 0
		for _, h := range held[:n] {
			if h.late {
				late++
			}
		}
		// A worker that crawls holds up all that it has.
		if n >= needed && (2*late <= n || float64(n) >= f.asked/2/float64(max(1, r.Episode.Point.Workers, len(f.t.workers)))) {
			found := f.cluster(held[:n])
			if 2*late > n {
				found = slices.DeleteFunc(found, f.wentOn)
			}
			all = append(all, found...)
		}
		held = held[n:]
	}
	return all
}

// goesOn is the share of its usual first tokens by which a worker that is only
// crowded goes on: one that stands still begins few answers.
const goesOn = 0.6

func (f *finder) wentOn(s standstill) bool {
	l := f.t.index[s.worker]
	return l != nil && mean(l.starts[s.from:s.until]) >= goesOn*mean(l.starts)
}

// cluster makes a stall of streams that were held up together: of the worker that
// most of them were on, where that is known.
func (f *finder) cluster(held []hold) []standstill {
	by := map[string]int{}
	for _, h := range held {
		by[h.worker]++
	}
	name, most := "", 0
	for worker, n := range by {
		if worker != "" && (n > most || n == most && worker < name) {
			name, most = worker, n
		}
	}
	if !f.t.named || float64(most) < mostOnOne*float64(len(held)) {
		name = ""
	}
	var from, to []float64
	for _, h := range held {
		from, to = append(from, float64(h.from)), append(to, float64(h.until))
	}
	slices.Sort(from)
	slices.Sort(to)
	a, b := stats.Percentile(from, 90), stats.Percentile(to, 10)
	if b-a < f.th.StallS*float64(second)/2 {
		a, b = stats.Percentile(from, 50), stats.Percentile(to, 50)
	}
	s := standstill{worker: name, part: !f.t.named && 2*float64(len(held)) < f.asked, from: int(a / float64(second)), until: int(math.Ceil(b / float64(second))), seen: true}
	if s.from = max(0, s.from); s.until-s.from < f.least || s.from >= f.t.seconds {
		return nil
	}
	s.open = s.until >= f.t.seconds
	s.until = min(s.until, f.t.seconds)
	return []standstill{s}
}

// mostOnOne is the share of held streams on one worker that makes it that
// worker's standstill.
const mostOnOne = 0.8

// settle says who stood still: what one worker's standstill explains is not the
// fleet's, and what the fleet's explains is no worker's.
func (f *finder) settle(fleet, workers, held []standstill) []standstill {
	var all []standstill
	for i := range fleet {
		s := &fleet[i]
		s.seen = true
		if name := f.holder(s); name != "" {
			s.worker = name
			s.open = s.open && f.silentAtTheEnd(name)
		}
		for j := range workers {
			if w := &workers[j]; s.worker == "" && w.from+f.least <= s.from && w.until >= s.from {
				s.worker = w.worker // it began before the fleet stood still
			}
		}
	}
	for _, w := range workers {
		together := 0
		for _, o := range workers {
			if o.worker != w.worker && o.overlaps(&w, 0) && o.from-w.from <= 2 && w.from-o.from <= 2 {
				together++
			}
		}
		switch {
		case f.toldOldNumbers(&w):
		case slices.ContainsFunc(fleet, func(s standstill) bool {
			return s.overlaps(&w, int(f.th.AfterStallS)) && (s.worker == "" || s.worker != w.worker && f.empty(&w))
		}):
		case together+1 >= f.working() && together > 0:
			w.worker = ""
			all = merge(all, w)
		default:
			all = merge(all, w)
		}
	}
	for _, s := range fleet {
		all = merge(all, s)
	}
	for _, h := range held {
		all = f.witness(all, h)
	}
	slices.SortFunc(all, func(a, b standstill) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.worker, b.worker)) })
	return all
}

// silentAtTheEnd says whether a worker itself made next to nothing in the last
// seconds of the load.
func (f *finder) silentAtTheEnd(name string) bool {
	l := f.t.index[name]
	last := l.progressAll()[max(0, f.t.seconds-3):]
	return !(meanKnown(last) >= f.th.StallShare*f.worker[l.group])
}

// toldOldNumbers says whether the client got a worker's tokens all the while: then
// its page stands still and not the worker, which is told as a disagreement.
func (f *finder) toldOldNumbers(s *standstill) bool {
	l := f.t.index[s.worker]
	if !f.t.named || l == nil {
		return false
	}
	var others []float64
	for _, o := range peerWorkers(l, f.t.workers) {
		others = append(others, mean(o.seen[s.from:s.until]))
	}
	usual := max(orZero(median(others)), f.worker[l.group]/2) // most of them may stand still as well
	return mean(l.seen[s.from:s.until]) >= f.th.RecoveredRate*usual && usual > 0
}

// empty says whether all that is known of a worker meanwhile is that it had nothing.
func (f *finder) empty(s *standstill) bool {
	l := f.t.index[s.worker]
	return l != nil && !slices.ContainsFunc(l.most[s.from:s.until], func(v float64) bool { return v > 0 })
}

// working is how many workers there are to stand still.
func (f *finder) working() int {
	n := 0
	for _, l := range f.t.workers {
		if !slices.Contains(l.refused, false) {
			continue
		}
		n++
	}
	return n
}

// witness adds what the client's streams tell: that they saw a stall that is known,
// or one that nobody else could.
func (f *finder) witness(all []standstill, h standstill) []standstill {
	known := false
	for i := range all {
		if s := &all[i]; s.overlaps(&h, 2) && (s.worker == h.worker || s.worker == "" || h.worker == "") {
			s.seen, known = true, true
		}
	}
	if known {
		return all
	}
	// Telemetry that was there and saw nothing is believed about a worker: streams
	// are held up by other things as well. It is told as a disagreement.
	if l := f.t.index[h.worker]; l != nil && f.saw(l, h) {
		return all
	}
	if h.worker == "" && f.t.told && f.sawAll(h) {
		return all
	}
	return merge(all, h)
}

func (f *finder) saw(l *lane, h standstill) bool {
	if l.apart > f.th.StallS {
		return false // it was asked too seldom to have seen it
	}
	for k := h.from; k < h.until; k++ {
		if math.IsNaN(l.told[k]) {
			return false
		}
	}
	return true
}

func (f *finder) sawAll(h standstill) bool {
	if len(f.t.workers) < f.planned {
		return false // nobody looked at the others
	}
	for _, l := range f.t.workers {
		if !f.saw(l, h) {
			return false
		}
	}
	return true
}

// holder is the one worker that has most of what is under way while the fleet
// stands still, if there is one.
func (f *finder) holder(s *standstill) string {
	if len(f.t.workers) == 1 {
		// One that made tokens while the client got none is not the one that stands.
		l, made := f.t.workers[0], 0.0
		for k := s.from; k < s.until; k++ {
			made += orZero(l.told[k])
		}
		if made >= f.worker[l.group]/2 {
			return ""
		}
		return l.name
	}
	for _, l := range f.t.workers {
		n := 0
		for k := s.from; k < s.until; k++ {
			if l.has(k) > holdsMost*f.t.inFlight[k] {
				n++
			}
		}
		if 2*n > s.until-s.from {
			return l.name
		}
	}
	return f.leftTo(s)
}

// leftTo is the one worker that must have what is under way, since its peers say that they
// have next to none of it: a router that deals requests out in turn has all of them wait
// for one that stands still, whatever its own page says, if that answers at all.
func (f *finder) leftTo(s *standstill) string {
	found := ""
	for _, l := range f.t.workers {
		n := 0
		for k := s.from; k < s.until; k++ {
			if owned, told := f.ownedBeside(l, k); told && owned <= (1-holdsMost)*f.t.inFlight[k] {
				n++
			}
		}
		switch {
		case 2*n <= s.until-s.from || f.silentBefore(l, s.from):
		case found != "":
			return "" // all of them stand empty: it is what is before them
		default:
			found = l.name
		}
	}
	return found
}

// silentBefore says whether a worker's page did not answer before a second either.
func (f *finder) silentBefore(l *lane, k int) bool {
	return !slices.ContainsFunc(l.most[:k], func(v float64) bool { return !math.IsNaN(v) })
}

// holdsMost is the share of all requests under way that makes a worker the one that
// they wait for.
const holdsMost = 0.6

// merge joins a stall to those of the same worker that it touches.
func merge(all []standstill, s standstill) []standstill {
	for i := range all {
		if o := all[i]; o.worker == s.worker && o.overlaps(&s, 2) {
			s.from, s.until = min(o.from, s.from), max(o.until, s.until)
			s.part = o.part && s.part
			s.asleep = o.asleep || s.asleep
			s.open, s.told, s.seen = o.open || s.open, o.told || s.told, o.seen || s.seen
			return merge(slices.Delete(all, i, i+1), s) // it may touch another now
		}
	}
	return append(all, s)
}
