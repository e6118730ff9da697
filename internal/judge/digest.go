package judge

import (
	"fmt"
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// digest is all that the judge keeps of an episode.
type digest struct {
	number  int
	point   spec.OperatingPoint
	loadedS float64
	client  spec.BenchClient

	requests spec.RequestCounts // both lanes
	arrived  float64            // tokens of the clean part, by the client
	stalls   []standstill
	named    bool // the client knows who served what
	told     bool // there is telemetry of the workers
	unjoined bool
	proxy    string // where a page was passed on to several workers
	crowded  int    // names of workers that are too many to be those of workers
	asked    int    // worker samples that were wanted
	lost     int    // of those, that did not come

	workers []*workerDigest
	gpus    []*gpuDigest
	host    hostDigest

	lifeS      float64   // of a request that was served, median; NaN: none was
	steadyFrom float64   // seconds; throughput is of what comes after
	settled    bool      // it begins a lifetime of a request after the ramp
	cutS       float64   // the same in whole seconds, for what is counted by them
	steady     bool      // MSER-5 found where the start ends
	batches    []float64 // tokens/s of those without a stall
	batchS     float64
	allBatches int
	batchedS   float64 // that all of them take
	cleanS     float64
	throughput figure // of the batches
	gross      float64
	ttft       figure // p99 of the clean part, ms
	ttft50     float64
	ttftMax    float64
	ttftGross  float64
	sentinel   []float64 // waits for the first token from the intended send, ms; +Inf unanswered
	good       int       // requests that were served as a user wants it
	over       int       // requests that had ended, or should have
	begun      int       // requests that got a token, served or not
	inputMean  float64   // tokens
	outputMean float64
	cached     float64 // share of the prompts' tokens that came from a prefix cache
	errors     errorDigest
	claims     Claims
	// unsolicited is what a request's record says of bytes that no request asked for.
	unsolicited string
	whole       wholeDigest
}

// wholeDigest is what a client without a judge reports: everything, start and end.
type wholeDigest struct {
	throughput, ttft99 float64
	served, failed     int
}

// figure is a value and its interval.
type figure struct {
	value, low, high float64
	n                int
}

func notMeasured() figure { return figure{math.NaN(), math.NaN(), math.NaN(), 0} }

// workerDigest is what both witnesses have of one worker.
type workerDigest struct {
	name, pod string
	instance  string   // host:port of its page
	gpus      []string // names, as far as they are known
	group     group
	told      float64 // tokens of the clean part by telemetry
	seen      float64 // by the client
	made      float64 // tokens of the whole episode, by whoever knows
	has       float64 // requests that it had, on average over the clean part
	rate      float64 // tokens a second for each of them
	unsure    float64 // half of the rate's interval by how its seconds scatter, relative; NaN: not known
	itl       float64 // mean by the client, over the clean part, ms
	paced     int     // requests that it is of
	ttft      float64 // median by the client, ms
	failed    int     // requests that it failed, by the client
	requests  int
	absent    absence
	goneS     float64  // since when, for one that left
	waiting   float64  // requests without an answer that no other worker has, the most at a time, for one that answers none
	hits      float64  // share of its prompt tokens that it found cached; NaN: not told
	preempted float64  // how often it put requests back, in the whole episode
	kvMost    float64  // the most of its KV cache in use; NaN: not told
	odd       []oddity // of its GPUs
	power     float64  // of its GPUs, each on average, median over the clean part
	best      float64  // tokens of a good second
}

// absence is whether a worker served.
type absence uint8

const (
	stays       absence = iota
	neverThere          // nobody answers in its place
	left                // it was there, and went
	answersNone         // it is there and makes no token, while requests wait that no other worker has
	neverServed         // it is there, and got nothing to do
)

// there says whether the worker was there throughout.
func (a absence) there() bool { return a == stays || a == answersNone || a == neverServed }

// hostDigest is what tells a slow host from slow GPUs.
type hostDigest struct {
	running  float64 // share of what is in flight that the workers run
	queued   float64 // and that the frontend has not had a first token for
	busy     float64 // the frontend's busiest thread
	pressure float64 // of the node's CPUs
}

// errorDigest is how requests failed.
type errorDigest struct {
	failed  int
	classes map[string]int
	fast    int // without a token, and faster than an answer takes
	burst   int // the most of those in a second
	empty   []string
	named   map[string]int // of those that were with a worker
	refused map[string]int // of the fast ones
	example string
}

// digestOf takes an episode in. Past is what is known of good seconds before it.
func digestOf(p *spec.Plan, r *spec.EpisodeRecord, past *past) *digest {
	th := &p.Thresholds
	d, t, clean := beginDigest(p, r, past)
	d.firstTokens(t, r, clean, p)
	d.perWorker(t, r, clean, th)
	d.hardware(t, r, clean, th)
	d.hosts(t, r, clean)
	d.served(r, th)
	d.failures(t, r)
	d.whole = wholeDigest{math.NaN(), math.NaN(), r.Episode.Requests.Served, r.Episode.Requests.Failed}
	for _, f := range r.Episode.Figures {
		switch f.Name {
		case OutputThroughput:
			d.whole.throughput = valueOf(f.Mean)
		case FirstToken:
			d.whole.ttft99 = valueOf(f.P99)
		}
	}
	return d
}

// beginDigest finds the steady part of an episode that no stall touched, and measures
// throughput in it.
func beginDigest(p *spec.Plan, r *spec.EpisodeRecord, past *past) (*digest, *timeline, []bool) {
	th := &p.Thresholds
	e := &r.Episode
	d := &digest{number: e.Number, point: e.Point, loadedS: e.LoadedS, client: auditAnew(e.Client, th), throughput: notMeasured(), ttft: notMeasured(),
		ttft50: math.NaN(), ttftMax: math.NaN(), ttftGross: math.NaN(), gross: math.NaN(), inputMean: math.NaN(), outputMean: math.NaN(), cached: math.NaN()}
	if !(d.loadedS >= 0 && d.loadedS <= longestEpisode) {
		d.loadedS = 0 // whatever that was, it is not known
	}
	t := newTimeline(r, d.loadedS)
	d.named, d.told, d.unjoined, d.crowded, d.proxy = t.named, t.told, t.unjoined, t.crowded, t.proxy
	d.stalls = standstills(t, r, past, th)
	d.lifeS = lifetime(r)
	clean, stalled := d.cut(t, r, th)
	if t.seconds > 0 {
		d.gross = stats.Sum(t.fleet) / float64(t.seconds)
	}
	d.measureThroughput(r.Requests, stalled, th)
	return d, t, clean
}

// title is what an episode goes by: 0 is the look before the first.
func (d *digest) title() string {
	if d.number == 0 {
		return "half the load"
	}
	return fmt.Sprintf("episode %d", d.number)
}

// longestEpisode is how long an episode can be, in seconds: a day.
const longestEpisode = 86400

// cut says which seconds are steady and free of stalls, and which a stall touched.
func (d *digest) cut(t *timeline, r *spec.EpisodeRecord, th *spec.Thresholds) (clean, stalled []bool) {
	clean, stalled = make([]bool, t.seconds), make([]bool, t.seconds)
	d.steadyFrom, d.settled = d.settles(r.Episode.Point.RampS, th)
	if t.seconds == 0 {
		return clean, stalled
	}
	// The start is cut where the rest is steadiest, which a stall would hide.
	if len(d.stalls) == 0 {
		most := int(th.WarmupCut * float64(t.seconds) * fine5)
		if n, ok := stats.MSER5(fineSeries(r, t.seconds), most); ok {
			d.steady = true
			d.steadyFrom = max(d.steadyFrom, float64(n)/fine5)
		}
	}
	from := min(int(math.Ceil(d.steadyFrom)), t.seconds)
	d.cutS = float64(from)
	for _, s := range d.stalls {
		for k := max(0, s.from-int(th.BeforeStallS)); k < min(t.seconds, s.until+int(th.AfterStallS)); k++ {
			stalled[k] = true
		}
	}
	for k := from; k < t.seconds; k++ {
		if clean[k] = !stalled[k]; clean[k] {
			d.cleanS++
		}
	}
	return clean, stalled
}

// settles is when the load has settled: its users have started, and each has ended the
// request with which it began. Where requests take so long that too little would be left
// to judge, it is a moment after the ramp, and the load has not settled.
func (d *digest) settles(ramp float64, th *spec.Thresholds) (from float64, settled bool) {
	moment := min(1, 0.1*max(0, d.loadedS-ramp))
	from = ramp + max(d.lifeS, moment)
	enough := th.MinSteadyS <= 0 || math.Ceil(from)+th.MinSteadyS <= d.loadedS // counted in whole seconds
	if enough && d.lifeS > 0 && from+max(d.lifeS, th.BatchS) <= d.loadedS {
		return from, true
	}
	return ramp + moment, false
}

// fine5 is how many observations a second MSER-5 is given: its batches of five are
// then a second long.
const fine5 = 5

// fineSeries is the client's tokens in fifths of a second, by its requests.
func fineSeries(r *spec.EpisodeRecord, seconds int) []float64 {
	v := make([]float64, seconds*fine5)
	for i := range r.Requests {
		q := &r.Requests[i]
		if q.Tokens == 0 || q.First == 0 {
			continue
		}
		from, until := q.First*fine5, max(q.Last, q.First+1)*fine5
		add(v, from, until, float64(q.Tokens)/float64(until-from))
	}
	return v
}

// firstTokens measures TTFT by requests, of the clean part.
func (d *digest) firstTokens(t *timeline, r *spec.EpisodeRecord, clean []bool, p *spec.Plan) {
	th := &p.Thresholds
	blocks := make([][]float64, t.seconds)
	var all, gross []float64
	for i := range r.Requests {
		q := &r.Requests[i]
		if q.Lane == spec.LaneSentinel {
			if q.First > 0 && q.Class == spec.ClassOK {
				d.sentinel = append(d.sentinel, ms(q.First-q.Intended))
			} else {
				d.sentinel = append(d.sentinel, math.Inf(1))
			}
			continue
		}
		if q.First == 0 {
			continue
		}
		wait := ms(q.First - q.Sent)
		gross = append(gross, wait)
		if k := int(q.Sent / second); k >= 0 && k < t.seconds && clean[k] {
			blocks[k] = append(blocks[k], wait)
			all = append(all, wait)
		}
	}
	slices.Sort(all)
	slices.Sort(gross)
	d.ttftGross = stats.Percentile(gross, 99)
	d.ttft50 = stats.Percentile(all, 50)
	d.ttftMax = stats.Percentile(all, 100)
	if len(all) >= leastTTFT {
		d.ttft = figure{value: stats.Percentile(all, 99), n: len(all)}
		d.ttft.low, d.ttft.high = stats.BlockBootstrap(slices.DeleteFunc(blocks, func(b []float64) bool { return len(b) == 0 }),
			max(1, int(th.BootstrapBlockS)), th.BootstrapDraws, p.Seed+uint64(d.number), 99, confidence)
	}
}

const (
	confidence = 0.95
	leastTTFT  = 20 // with fewer requests there is no speaking of a p99
)

// perWorker compares the workers over the clean part.
func (d *digest) perWorker(t *timeline, r *spec.EpisodeRecord, clean []bool, th *spec.Thresholds) {
	type waits struct{ ttft, itl []float64 }
	by := map[string]*waits{}
	for k := range t.seconds {
		if clean[k] {
			d.arrived += t.fleet[k]
		}
	}
	for _, l := range t.workers {
		w := &workerDigest{name: l.name, gpus: l.gpus, group: l.group, pod: l.pod, instance: l.instance, hits: math.NaN(), power: math.NaN(),
			preempted: l.preempted, kvMost: l.kvMost}
		by[l.name] = &waits{}
		var has, rate []float64
		work, of := 0.0, 0.0
		for k := range t.seconds {
			w.made += orZero(l.progress(k))
			if !clean[k] {
				continue
			}
			w.seen += l.seen[k]
			if p, h := l.progress(k), l.most[k]; !math.IsNaN(p + h) {
				work, of = work+p, of+h
			}
			if h := l.has(k); !math.IsNaN(h) {
				has = append(has, h)
				if p := l.progress(k); h >= 1 && !math.IsNaN(p) {
					rate = append(rate, p/h)
				}
			}
		}
		w.told, w.best = toldOver(l.told, clean), orZero(quantileOf(l.progressAll(), 95))
		w.has = stats.Mean(has)
		mean, low, high := stats.MeanInterval(rate, confidence)
		w.rate, w.unsure = mean, (high-low)/2/mean
		if l.role == spec.RolePrefill { // it has most requests for less than a second
			w.rate = work / of
		}
		if l.prefixQueries > 0 {
			w.hits = l.prefixHits / l.prefixQueries
		}
		if w.absent, w.goneS = l.gone(t, th); w.absent == answersNone {
			w.waiting = t.heldBySilent(l, th)
		}
		d.asked += l.asked
		if w.absent.there() {
			d.lost += l.lost
		}
		d.workers = append(d.workers, w)
	}
	for i := range r.Requests {
		q := &r.Requests[i]
		w := d.worker(q.Worker)
		if w == nil {
			continue
		}
		w.requests++
		if !q.Served() {
			if q.Failed() {
				w.failed++
			}
			continue
		}
		of := by[w.name]
		of.ttft = append(of.ttft, ms(q.First-q.Sent))
		// What a stall did to a stream is the stall's.
		from, until := int(max(0, q.Sent)/second), int(q.Last/second)
		if q.Tokens > 1 && until < t.seconds && from <= until && !slices.Contains(clean[from:until+1], false) {
			of.itl = append(of.itl, ms(q.Last-q.First)/float64(q.Tokens-1))
		}
	}
	for _, w := range d.workers {
		w.ttft, w.itl, w.paced = median(by[w.name].ttft), stats.Mean(by[w.name].itl), len(by[w.name].itl)
	}
}

// toldOver is the sum over the clean seconds, of which a few may be missing: then
// their mean stands for them.
func toldOver(v []float64, clean []bool) float64 {
	sum, n, of := 0.0, 0, 0
	for k := range v {
		if clean[k] {
			of++
			if !math.IsNaN(v[k]) {
				sum += v[k]
				n++
			}
		}
	}
	if n == 0 || 2*n < of {
		return math.NaN()
	}
	return sum / float64(n) * float64(of)
}

func (d *digest) worker(name string) *workerDigest {
	for _, w := range d.workers {
		if w.name == name && name != "" {
			return w
		}
	}
	return nil
}

// gone says whether the worker served, and since when it does not.
func (l *lane) gone(t *timeline, th *spec.Thresholds) (absence, float64) {
	last, refused, known := -1, 0, 0
	for k := range t.seconds {
		p := l.progress(k)
		if p > 0 {
			last = k
		}
		if !math.IsNaN(p) {
			known++
		}
		if l.refused[k] {
			refused++
		}
	}
	// Wherever its page was refused for some seconds in a row, it was gone.
	for k, gone := 0, 0; k < t.seconds; k++ {
		if gone++; !l.refused[k] || l.streams[k] >= 1 {
			gone = 0
		}
		if gone >= goneFor && last >= 0 {
			return left, float64(k + 1 - gone)
		}
	}
	empty := func(from int) bool { // nobody has anything with it, from then on
		for k := from; k < t.seconds; k++ {
			if l.has(k) > 0 {
				return false
			}
		}
		return true
	}
	since := last + 1
	switch {
	case last < 0 && 2*refused > t.seconds:
		return neverThere, 0
	case known == 0 && refused == 0:
		return stays, 0 // nobody tells
	case last < 0 && empty(0) && t.heldBySilent(l, th) > 0:
		return answersNone, 0
	case last < 0 && empty(0) && t.stuckWithout(l, th):
		return stays, 0 // what could be its work is with one that stands still
	case last < 0 && empty(0):
		return neverServed, 0
	case last < 0:
		return stays, 0
	case float64(t.seconds-since) < th.WedgedS:
		return stays, 0
	}
	// It has nothing to do by the client's own record, so that no gauge that reads 0
	// can deceive.
	if t.named && l.role != spec.RolePrefill && empty(min(t.seconds, since+1)) && t.busyWithout(l, since) {
		return left, float64(since)
	}
	return stays, 0
}

// goneFor is for how many seconds in a row nobody must answer in a worker's place,
// before it is gone: a page that is refused once is no sign.
const goneFor = 3

// heldBySilent is how many requests that never had a token were in flight at most beyond
// those that the other workers' pages have; 0: there were none for long. Where one worker
// alone makes no token, it holds them, whatever its gauges read: a page may be served by
// another process than the engine that stopped.
func (t *timeline) heldBySilent(l *lane, th *spec.Thresholds) (most float64) {
	known := 0
	for k := range t.seconds {
		others := 0.0
		for _, o := range t.workers {
			if o != l {
				others += o.held[k]
			}
		}
		if held := min(t.unanswered[k], t.inFlight[k]-others); held >= 1 {
			known++
			most = max(most, held)
		}
	}
	if float64(known) < th.WedgedS {
		return 0
	}
	return most
}

// busyWithout says whether the others went on.
func (t *timeline) busyWithout(l *lane, from int) bool {
	for _, o := range t.workers {
		if o == l {
			continue
		}
		for k := from; k < t.seconds; k++ {
			if o.progress(k) > 0 {
				return true
			}
		}
	}
	return false
}

// stuckWithout says whether others have all that the client awaits, for long, and make
// nothing of it.
func (t *timeline) stuckWithout(l *lane, th *spec.Thresholds) bool {
	if t.busyWithout(l, 0) {
		return false
	}
	stuck := 0
	for k := range t.seconds {
		held := 0.0
		for _, o := range t.workers {
			if o != l {
				held += orZero(o.has(k))
			}
		}
		if held > 0 && held >= holdsMost*t.inFlight[k] {
			stuck++
		}
	}
	return float64(stuck) >= th.WedgedS
}

// hosts takes what the frontend and the node say over the clean part.
func (d *digest) hosts(t *timeline, r *spec.EpisodeRecord, clean []bool) {
	var running, queued, busy, pressure []float64
	for i := range r.Series {
		s := &r.Series[i]
		k := int(s.T / second)
		if s.T < 0 || k >= t.seconds || !clean[k] {
			continue
		}
		if f := s.Frontend; f != nil {
			if f.Queued != nil && f.InFlight != nil && *f.InFlight > 0 {
				queued = append(queued, *f.Queued / *f.InFlight)
			}
			if f.Busy != nil {
				busy = append(busy, *f.Busy)
			}
		}
		if n := s.Node; n != nil && n.CPUPressure != nil {
			pressure = append(pressure, *n.CPUPressure)
		}
	}
	for k := range t.seconds {
		if !clean[k] || t.inFlight[k] <= 0 {
			continue
		}
		sum := 0.0
		for _, l := range t.workers {
			if !l.refused[k] {
				sum += l.held[k]
			}
		}
		if !math.IsNaN(sum) && t.told {
			running = append(running, sum/t.inFlight[k])
		}
	}
	d.host = hostDigest{median(running), median(queued), median(busy), median(pressure)}
}

// served counts what was served as a user wants it, and what was declared against
// what came.
func (d *digest) served(r *spec.EpisodeRecord, th *spec.Thresholds) {
	d.requests.Classes = map[string]int{}
	var prompt, output, cachedOf, cached float64
	n := 0
	for i := range r.Requests {
		q := &r.Requests[i]
		d.requests.Add(q)
		d.claims.Add(q, d.point.OutputTokens)
		if q.First > 0 {
			d.begun++
		}
		if q.Class == spec.ClassUnsolicited && d.unsolicited == "" {
			d.unsolicited = q.Detail
		}
		if q.Lane == spec.LaneSentinel {
			continue
		}
		d.over++
		if !q.Served() {
			continue
		}
		n++
		if ms(q.First-q.Sent) <= th.GoodTTFTMS && ms(q.Gap) <= th.GoodGapMS {
			d.good++
		}
		prompt += float64(q.Prompt)
		output += float64(q.Tokens)
		if q.Cached != nil {
			cachedOf += float64(q.Prompt)
			cached += float64(*q.Cached)
		}
	}
	if n > 0 {
		d.inputMean, d.outputMean = prompt/float64(n), output/float64(n)
	}
	var queries, hits float64
	for _, w := range d.workers {
		if !math.IsNaN(w.hits) {
			queries++
			hits += w.hits
		}
	}
	switch {
	case cachedOf > 0:
		d.cached = cached / cachedOf
	case queries > 0:
		d.cached = hits / queries
	}
}

// failures looks at how requests failed and who stood empty meanwhile: a worker that
// fails fast draws every request.
func (d *digest) failures(t *timeline, r *spec.EpisodeRecord) {
	e := &d.errors
	e.classes, e.named, e.refused = map[string]int{}, map[string]int{}, map[string]int{}
	var took []float64
	for i := range r.Requests {
		if q := &r.Requests[i]; q.Served() {
			took = append(took, float64(q.End-q.Sent))
		}
	}
	usual := median(took)
	refused, sent := make([]float64, t.seconds), make([]float64, t.seconds)
	for i := range r.Requests {
		q := &r.Requests[i]
		k := int(q.Sent / second)
		if k >= 0 && k < t.seconds {
			sent[k]++
		}
		if !q.Failed() {
			continue
		}
		e.failed++
		e.classes[q.Class]++
		if e.example == "" || q.Detail != "" && len(q.Detail) < len(e.example) {
			e.example = q.Detail
		}
		if q.Worker != "" {
			e.named[q.Worker]++
		}
		// Without an HTTP status nobody behind the frontend was asked: that it cannot be
		// reached is no worker's refusal.
		if q.Status > 0 && q.Tokens == 0 && (math.IsNaN(usual) || float64(q.End-q.Sent) < usual) {
			e.fast++
			if q.Worker != "" {
				e.refused[q.Worker]++
			}
			if k >= 0 && k < t.seconds {
				refused[k]++
			}
		}
	}
	// The seconds in which so many were refused at once.
	var burst []int
	for k := range refused {
		if refused[k] >= leastBurst && refused[k] >= burstShare*sent[k] {
			burst = append(burst, k)
			e.burst = max(e.burst, int(refused[k]))
		}
	}
	if len(burst) < 2 || len(t.workers) < 2 {
		return
	}
	for _, l := range t.workers {
		idle, known := 0, 0
		for _, k := range burst {
			p, has := l.progress(k), l.has(k)
			if math.IsNaN(p) && math.IsNaN(has) {
				continue
			}
			known++
			if has < 1 || p == 0 || math.IsNaN(has) && p < 1 {
				idle++
			}
		}
		if known > 0 && 2*idle >= known && idle > 0 && !l.refused[burst[len(burst)-1]] {
			e.empty = append(e.empty, l.name)
		}
	}
}

const (
	leastBurst = 5    // fast failures in a second
	burstShare = 0.05 // of those that were sent in it: round-robin sends a hole no more than its share
)
