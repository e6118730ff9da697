package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// Evidence is all that a diagnosis looks at: the plan, what was seen before any
// load, and the digests of the episodes.
type Evidence struct {
	plan     *spec.Plan
	th       *spec.Thresholds
	start    start
	half     *digest   // the look at half the load
	episodes []*digest // that count
	invalid  []*digest // in which the client failed its audit
	tests    *sequence
	floor    *spec.Constraint
	guardMS  float64 // the TTFT guardrail

	speeds      map[string][]float64
	doubling    Doubling // of half the load to the first episode's
	throughputs []float64
	overall     figure // tokens/s, over the episodes
	shares      map[string][]float64
	starved     map[string]int // episodes in which the router gave a worker next to nothing
	lagging     map[string]*lagging

	elsewhere bool // it was loaded, and judged, and the episodes are not here

	claims Claims // of the episodes that count
}

// start is what was seen before any load.
type start struct {
	gpus, freeGPUs     *int     // of all the nodes that were told of
	holders            []string // who has the others
	runtime, chart     string
	wantWorkers        *int
	haveWorkers        *int
	places             map[string]place // of workers, by name
	answers            []spec.Event     // of workers
	notServed          *spec.Event
	pods               []spec.Event
	cannotPass         []string     // why, where the run ended before any load
	unseen             *spec.Event  // it could not be found out whether pods that serve have ended
	requests           []spec.Event // those outside the episodes, of which some failed
	nodes              []spec.Event // what befell the node
	removed            *spec.Event  // somebody else deleted what the run had made
	logs               []spec.Event
	interrupted, ended bool
	taken              *spec.Event // somebody else took the GPUs, and the run ended before any load
	broken             *spec.Event // the instrument itself broke off, and says why
}

// place is where a worker is, as far as it is known.
type place struct{ node, gpu string }

func startOf(events []spec.Event) start {
	s := start{places: map[string]place{}}
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case spec.EventGPUs:
			s.gpus, s.freeGPUs = plus(s.gpus, e.Want), plus(s.freeGPUs, e.Have)
			if e.Text != "" {
				s.holders = append(s.holders, e.Source+": "+e.Text)
			}
		case spec.EventVersions:
			s.runtime, s.chart = e.Runtime, e.Chart
		case spec.EventWorkers:
			s.wantWorkers, s.haveWorkers = e.Want, e.Have
		case spec.EventPlaced:
			s.places[e.Worker] = place{e.Source, e.GPU}
		case spec.EventAnswer:
			s.answers = append(s.answers, *e)
		case spec.EventNotServed:
			s.notServed = e
		case spec.EventPod:
			s.pods = append(s.pods, *e)
			if e.Reason == spec.PodsUnseen {
				s.unseen = e
			}
		case spec.EventRequests:
			s.requests = append(s.requests, *e)
		case spec.EventNode:
			s.nodes = append(s.nodes, *e)
		case spec.EventRemoved:
			s.removed = cmp.Or(s.removed, e)
		case spec.EventLog:
			s.logs = append(s.logs, *e)
		case spec.EventCannotPass:
			s.cannotPass = append(s.cannotPass, cmp.Or(e.Text, Hindrance{Code: e.Reason}.Words()))
		case spec.EventInterrupt:
			s.interrupted = true
			switch e.Reason {
			case "":
			case spec.GPUsTaken:
				s.taken = e
			default:
				s.broken = e
			}
		case spec.EventStage:
			s.ended = s.ended || e.Stage == "end"
		}
	}
	return s
}

// plus adds what is known.
func plus(a, b *int) *int {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a + *b
	return &sum
}

// evidenceOf weighs what there is.
func evidenceOf(p *spec.Plan, events []spec.Event, half *digest, all []*digest) *Evidence {
	ev := &Evidence{plan: p, th: &p.Thresholds, start: startOf(events), half: half, tests: newSequence(p), guardMS: p.Thresholds.TTFTGuardrailMS,
		doubling: notDoubled(), overall: notMeasured(), shares: map[string][]float64{}, speeds: map[string][]float64{}, starved: map[string]int{}, lagging: map[string]*lagging{}}
	for i := range p.Constraints {
		switch c := &p.Constraints[i]; c.Name {
		case spec.ConstraintThroughput:
			ev.floor = c
		case spec.ConstraintTTFT:
			ev.guardMS = effective(c)
		}
	}
	for _, d := range all {
		if !d.client.Valid && !d.nothingServed() {
			ev.invalid = append(ev.invalid, d)
			continue
		}
		ev.episodes = append(ev.episodes, d)
		ev.claims.addAll(&d.claims)
	}
	ev.tests.stalls.priorBy = ev.priorOfStalled()
	if ev.tests.stalls.workers == 0 {
		ev.tests.stalls.workers = ev.mostWorkers()
	}
	for _, d := range ev.episodes {
		ev.tests.add(ev.reading(d))
	}
	ev.overall = over(ev.throughputs)
	if half != nil && len(ev.episodes) > 0 && half.comparable(ev.th) && ev.episodes[0].comparable(ev.th) {
		full := ev.episodes[0]
		ev.doubling = doublingOf(half.point.Concurrency, full.point.Concurrency, half.throughput, full.throughput, ev.scatter(), ev.th)
	}
	return ev
}

// effective is a threshold after its tolerance.
func effective(c *spec.Constraint) float64 {
	if strings.HasPrefix(c.Comparator, ">") {
		return c.Threshold * (1 - c.Tolerance)
	}
	return c.Threshold * (1 + c.Tolerance)
}

// over is the mean over episodes of a figure that is above 0 by its nature, with the
// interval that their spread gives.
func over(values []float64) figure {
	switch len(values) {
	case 0:
		return notMeasured()
	case 1:
		return figure{values[0], math.NaN(), math.NaN(), 1}
	}
	mean, low, high := stats.PositiveMeanInterval(values, confidence)
	return figure{mean, low, high, len(values)}
}

// nothingServed reports that requests failed and none was served. That is the deployment's
// failure, whatever the client's audit says of the load: users whose connections fail hold
// nothing in flight. Unless what came was not asked for: then it is not known what was served.
func (d *digest) nothingServed() bool {
	return d.requests.Served == 0 && d.requests.Failed > 0 && d.requests.Classes[spec.ClassUnsolicited] == 0
}

// scatter is the ln-sd from one episode to the next, as the reference has it; 0: not known.
func (ev *Evidence) scatter() float64 {
	if ev.plan.Reference == nil {
		return 0
	}
	return ev.plan.Reference.Dispersion
}

func (ev *Evidence) pastKnee() bool { return ev.doubling.Past(ev.th.Elasticity) }

// reading is what an episode adds to the tests.
func (ev *Evidence) reading(d *digest) reading {
	r := reading{ratio: math.NaN(), stalls: d.stallEvents(), minutes: d.loadedS / 60, ttftBad: d.ttft.low > ev.guardMS}
	// Without an interval only what lies on one side throughout tells anything.
	if math.IsNaN(d.ttft.low) {
		r.ttftBad = d.ttft50 > ev.guardMS
		r.noTTFT = !r.ttftBad && !(d.ttftMax <= ev.guardMS)
	}
	if d.judgeable(ev.th) {
		ev.throughputs = append(ev.throughputs, d.throughput.value)
		if ref := ev.plan.Reference; ref != nil && ref.Throughput > 0 {
			r.ratio = d.throughput.value / ref.Throughput
		}
	}
	r.slow = ev.peers(d)
	return r
}

// judgeable says whether enough of an episode was clean to speak of capability.
func (d *digest) judgeable(th *spec.Thresholds) bool {
	return d.throughput.value >= 0 && d.allBatches > 0 && float64(len(d.batches)) >= th.CleanShare*float64(d.allBatches) && d.cleanS >= th.MinSteadyS
}

// peers are the workers of an episode that are slower than the others. A worker
// that is not there has no share, and who was only sent less is not slow: what it
// makes of each request tells, by the client's clock where it can.
func (ev *Evidence) peers(d *digest) []string {
	stalled := map[string]bool{}
	for _, s := range d.stalls {
		stalled[s.worker] = true
	}
	var among []*workerDigest
	for _, w := range d.workers {
		if w.absent.there() {
			among = append(among, w)
		}
	}
	if len(among) < 2 || stalled[""] && !d.judgeable(ev.th) {
		return nil
	}
	total, n := map[group]float64{}, map[group]float64{}
	for _, w := range among {
		total[w.group] += d.tokens(w)
		n[w.group]++
	}
	hits := d.prefixHits()
	var slow []string
	for _, w := range among {
		if n[w.group] < 2 {
			continue // it has no peers
		}
		shared := d.judgeable(ev.th) && total[w.group] > 0 // else the clean part is too short for shares
		speed, unsure := d.speed(w, among)
		ev.speeds[w.name] = appendKnown(ev.speeds[w.name], speed)
		share := math.NaN()
		if shared {
			share = d.tokens(w) / total[w.group] * n[w.group]
			ev.shares[w.name] = append(ev.shares[w.name], share)
		}
		switch {
		case share < ev.th.StarvedShare && hits >= ev.th.PrefixHit && !(speed < ev.th.PeerPerRequest):
			ev.starved[w.name]++
		case w.absent != stays, stalled[w.name] && !shared:
		case ev.lags(w.name, share, speed, unsure):
			slow = append(slow, w.name)
		}
	}
	return slow
}

// tokens is what a worker made of the clean part: what reached the client is what counts,
// where its answers name who made it.
func (d *digest) tokens(w *workerDigest) float64 {
	if d.named && w.group.role != spec.RolePrefill {
		return w.seen
	}
	return w.told
}

// asFast is the share of its peers' speed from which on a worker that makes less than
// its share was only sent less.
const asFast = 0.95

// leastPaced is how many requests a worker's pace is taken from.
const leastPaced = 20

// speed is what a worker makes of each request, over what its peers do: by the time
// between tokens that the client saw, else by tokens for each request that it has. The
// latter comes from gauges that are read once a second, and is as unsure, relative to
// itself, as its seconds scatter: with two requests at a worker it says little.
func (d *digest) speed(w *workerDigest, among []*workerDigest) (speed, unsure float64) {
	var itl, rate, off []float64
	for _, o := range peerWorkers(w, among) {
		itl, rate, off = appendKnown(itl, o.itl), appendKnown(rate, o.rate), append(off, orZero(o.unsure))
	}
	if m := median(itl); w.paced >= leastPaced && w.itl > 0 && m > 0 {
		return m / w.itl, 0
	}
	return w.rate / median(rate), math.Hypot(orZero(w.unsure), median(off)/math.Sqrt(float64(len(off))))
}

// toldWhole says whether telemetry tells the tokens of all of them.
func (d *digest) toldWhole(among []*workerDigest) bool {
	return !slices.ContainsFunc(among, func(w *workerDigest) bool { return math.IsNaN(w.told) })
}

// prefixHits is the share of the prompts' tokens that prefix caches had, by the
// workers that served.
func (d *digest) prefixHits() float64 {
	if !math.IsNaN(d.cached) {
		return d.cached
	}
	return 0
}

// looked are the digests in which hardware and workers were looked at: those of a
// client that failed its audit too, since what an exporter says is not the client's.
func (ev *Evidence) looked() []*digest {
	var all []*digest
	if ev.half != nil {
		all = append(all, ev.half)
	}
	all = append(all, ev.episodes...)
	return append(all, ev.invalid...)
}

func (ev *Evidence) loaded() bool {
	return len(ev.episodes)+len(ev.invalid) > 0 || ev.half != nil || ev.elsewhere
}

// stallCount counts stalls by worker; "" is the fleet.
func (ev *Evidence) stallCount() map[string]int {
	by := map[string]int{}
	for _, d := range ev.episodes {
		for _, s := range d.stalls {
			by[s.worker]++
		}
	}
	return by
}

// wedged are the workers whose stall was still open, and long, at the end of two
// episodes: that is no stall that passes.
func (ev *Evidence) wedged() []string {
	by := map[string]int{}
	for _, d := range ev.episodes {
		for _, s := range d.stalls {
			told := s.told || !ev.claims.CameAtOnce() // else the client sees no token until the answer's end
			if s.open && told && s.worker != "" && float64(s.until-s.from) >= ev.th.WedgedS {
				by[s.worker]++
			}
		}
	}
	var all []string
	for w, n := range by {
		if n >= 2 {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, naturally)
	return all
}

// escalated are the workers that all stalls fell on, so often that it is no chance;
// those of earlier runs count for their GPU.
func (ev *Evidence) escalated() string {
	by := ev.stallCount()
	if len(by) != 1 || len(ev.digestWorkers()) < 2 {
		return ""
	}
	for worker, n := range by {
		if worker == "" {
			return ""
		}
		if float64(n)+ev.priorOf(worker) >= float64(ev.th.SameWorker) {
			return worker
		}
	}
	return ""
}

// stallEvents are the stalls of an episode, as the tests count them.
func (d *digest) stallEvents() []stallEvent {
	var all []stallEvent
	for _, s := range d.stalls {
		all = append(all, stallEvent{worker: s.worker, fleet: s.worker == "" && !s.part})
	}
	return all
}

// mostWorkers is how many workers were seen in one episode: the size of a fleet whose
// plan does not have it.
func (ev *Evidence) mostWorkers() int {
	n := 0
	for _, d := range ev.episodes {
		n = max(n, len(d.workers))
	}
	return n
}

// priorOfStalled is priorOf of the workers that stalled.
func (ev *Evidence) priorOfStalled() map[string]float64 {
	by := map[string]float64{}
	if len(ev.plan.Prior) == 0 {
		return by
	}
	for worker := range ev.stallCount() {
		if worker != "" {
			by[worker] = ev.priorOf(worker)
		}
	}
	return by
}

// priorOf is how often a worker's GPU stalled in earlier runs, or the worker where none is
// known of them.
func (ev *Evidence) priorOf(worker string) float64 {
	count := 0.0
	for _, p := range ev.plan.Prior {
		if p.GPU != "" && slices.Contains(ev.held(worker), p.GPU) || p.GPU == "" && p.Worker != "" && (p.Worker == worker || p.Worker == ev.shortName(worker)) {
			count += p.Count
		}
	}
	return count
}

func (ev *Evidence) digestWorkers() []*workerDigest {
	if len(ev.episodes) == 0 {
		return nil
	}
	return ev.episodes[0].workers
}

// held are a worker's GPUs: the one that it was given, else what telemetry says.
func (ev *Evidence) held(worker string) []string {
	if given := ev.start.places[worker].gpu; given != "" {
		return []string{given}
	}
	for _, d := range ev.looked() {
		if w := d.worker(worker); w != nil && len(w.gpus) > 0 {
			return w.gpus
		}
	}
	return nil
}

// gpuOf is a worker's GPU, where it has one.
func (ev *Evidence) gpuOf(worker string) string {
	if gpus := ev.held(worker); len(gpus) == 1 {
		return gpus[0]
	}
	return ""
}

func (ev *Evidence) gpusOf(workers []string) []string {
	var all []string
	for _, w := range workers {
		all = append(all, ev.held(w)...)
	}
	return all
}

// placed are workers in a sentence, with their node and their GPUs where the record says
// where they were put.
func (ev *Evidence) placed(workers []string) string {
	words := several("worker", workers)
	var nodes []string
	for _, w := range workers {
		if node := ev.start.places[w].node; node != "" && !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return words
	}
	words += " (" + several("node", nodes)
	if gpus := ev.gpusOf(workers); len(gpus) > 0 {
		words += ", " + several("GPU", gpus)
	}
	return words + ")"
}

// ratio is the throughput over the reference; NaN without one.
func (ev *Evidence) ratio() float64 {
	if ref := ev.plan.Reference; ref != nil && ref.Throughput > 0 {
		return ev.overall.value / ref.Throughput
	}
	return math.NaN()
}

// grouped writes a number with its thousands apart.
func grouped(v float64) string {
	if math.IsNaN(v) {
		return "?"
	}
	s := fmt.Sprintf("%.0f", math.Abs(v))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v < 0 {
		return "-" + s
	}
	return s
}
