package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// KneeLevel is what one stretch of load at one level came to. What was not
// measured is nil.
type KneeLevel struct {
	InFlight int      `json:"in_flight"` // that were to be held
	Held     *float64 `json:"held,omitempty"`
	PerGPU   float64  `json:"per_gpu"`
	SteadyS  float64  `json:"steady_s"` // that the figures are of

	Throughput spec.Figure `json:"throughput"`
	TTFT50     *float64    `json:"ttft_p50_ms,omitempty"` // failures count as infinitely slow
	TTFT99     *float64    `json:"ttft_p99_ms,omitempty"`
	Goodput    *float64    `json:"goodput,omitempty"` // of all that were sent, the share that was served well
	LifetimeS  *float64    `json:"lifetime_s,omitempty"`
	Sent       int         `json:"sent"`
	Failed     int         `json:"failed"`           // or not answered
	Resent     int         `json:"resent,omitempty"` // the server closed their kept connections

	// Elasticity is d ln(throughput) / d ln(in flight) on the way to this level,
	// from the next lower one that is at most 0.6 of it: nearer ones differ by less
	// than they scatter.
	Elasticity *float64 `json:"elasticity,omitempty"`

	// Running is how many requests the engines had taken on average, Waiting how many waited
	// in their queues, and Queued the share of the seconds in which any did, by the workers'
	// pages; nil: no page tells, or of too few seconds.
	Running *float64 `json:"running,omitempty"`
	Waiting *float64 `json:"waiting,omitempty"`
	Queued  *float64 `json:"queued,omitempty"`

	// NotUsed says why the level has no part in the knee.
	NotUsed string `json:"not_used,omitempty"`
	Client  bool   `json:"client_limited,omitempty"` // because the client was the limit
}

// Of how many batches a throughput is at least, and where there is time for more.
const (
	leastBatches = 2
	usualBatches = 10
)

// KneeLevelOf measures a level by the record of its load. Its throughput is the one that
// a validation judges, in batches that are short enough for the length of a level.
func KneeLevelOf(r *spec.EpisodeRecord, t *spec.Thresholds) KneeLevel {
	e := &r.Episode
	l := KneeLevel{InFlight: e.Point.Concurrency, Held: e.Client.InFlight,
		Throughput: spec.Figure{Name: Throughput, Unit: "tokens/s", By: "t interval of ln(throughput) over batches of whole request lifetimes, 95 %"}}
	if w := e.Point.Workers; w > 0 {
		l.PerGPU = float64(l.InFlight) / float64(w)
	}
	if why := invalidClient(&e.Client); why != "" {
		l.NotUsed = why
		if l.Client = e.Client.Limited(); l.Client {
			l.NotUsed = "the client was the limit: " + why
		}
	}
	var claims Claims
	for q := range closedLoop(r.Requests) {
		claims.Add(q, e.Point.OutputTokens)
	}
	if why := claims.Implausible(); why != "" {
		l.NotUsed = cmp.Or(l.NotUsed, "the server counts tokens that it did not send: "+why)
	}
	th := *t
	th.BatchS, th.MinSteadyS = max(0, e.LoadedS-e.Point.RampS)/usualBatches, 0
	d, _, _ := beginDigest(&spec.Plan{Point: e.Point, Thresholds: th}, r, &past{})
	if !(d.lifeS > 0) {
		l.NotUsed = cmp.Or(l.NotUsed, "nothing was served")
		return l
	}
	l.LifetimeS, l.SteadyS = number(d.lifeS), d.batchedS
	from, to := int64((d.loadedS-d.batchedS)*1e9), int64(d.loadedS*1e9)
	l.latencies(r, from, to, t)
	l.queues(r.Series, from, to)
	if l.Sent > 0 && float64(l.Failed) > t.ErrorShare*float64(l.Sent) {
		l.NotUsed = cmp.Or(l.NotUsed, fmt.Sprintf("%d of %d requests failed", l.Failed, l.Sent))
	}
	switch {
	case !d.settled || d.allBatches < leastBatches || d.batchS < d.lifeS:
		l.NotUsed = cmp.Or(l.NotUsed, fmt.Sprintf("too short: a request takes %.1f s", d.lifeS))
		return l
	case len(d.batches) < leastBatches:
		l.NotUsed = cmp.Or(l.NotUsed, fmt.Sprintf("%s left too little of it: %d of %d batches", counted(float64(len(d.stalls)), "stall"), len(d.batches), d.allBatches))
		return l
	}
	l.Throughput.N, l.Throughput.Value = len(d.batches), number(d.throughput.value)
	if !math.IsNaN(d.throughput.low) {
		l.Throughput.Low, l.Throughput.High = number(max(0, d.throughput.low)), number(d.throughput.high)
	}
	return l
}

// invalidClient is the first reason of an audit that failed.
func invalidClient(c *spec.BenchClient) string {
	if c.Valid {
		return ""
	}
	text := "it failed its audit"
	if len(c.Reasons) > 0 {
		text = c.Reasons[0].Text
	}
	return text
}

func closedLoop(all []spec.Request) func(yield func(*spec.Request) bool) {
	return func(yield func(*spec.Request) bool) {
		for i := range all {
			if q := &all[i]; q.Lane != spec.LaneSentinel && !yield(q) {
				return
			}
		}
	}
}

// longUnanswered is how many usual lifetimes a request is in flight that hangs, rather than is
// cut off by the end of a load that its answer outlasts.
const longUnanswered = 2

// latencies sums up the requests that were sent within the window.
func (l *KneeLevel) latencies(r *spec.EpisodeRecord, from, to int64, t *spec.Thresholds) {
	var ttft []float64
	good := 0
	for q := range closedLoop(r.Requests) {
		if q.Sent < from || q.Sent >= to || q.Class == spec.ClassInterrupted && seconds(q.End-q.Sent) < longUnanswered**l.LifetimeS {
			continue
		}
		l.Sent++
		if q.Resent {
			l.Resent++
		}
		if !q.Served() {
			l.Failed++
			continue
		}
		wait := ms(q.First - q.Sent)
		ttft = append(ttft, wait)
		if wait <= t.GoodTTFTMS && ms(longestGap(q)) <= t.GoodGapMS {
			good++
		}
	}
	if l.Sent == 0 {
		return
	}
	slices.Sort(ttft)
	l.TTFT50, l.TTFT99 = number(stats.WithFailures(ttft, l.Failed, 50)), number(stats.WithFailures(ttft, l.Failed, 99))
	l.Goodput = number(float64(good) / float64(l.Sent))
}

// What of a load waits in the engines' queues where they take no more at once, in what share
// of the time, and how near to the most that they ever took what they have taken is: a few
// wait between two steps of an engine wherever requests come in.
const (
	waitingShare = 0.05
	waitingTime  = 0.9
	takenShare   = 0.9
	leastSeconds = 4 // in which the pages were read: a few may all have come between two steps
)

// Full says whether the engines take no more at once at this level, by the other levels:
// requests always wait, and the engines run about as many as at any level.
func (l *KneeLevel) Full(levels []KneeLevel) bool {
	if l.Waiting == nil || l.Running == nil || l.Queued == nil || *l.Queued < waitingTime || *l.Waiting < waitingShare*float64(l.InFlight) {
		return false
	}
	for i := range levels {
		if r := levels[i].Running; r != nil && *l.Running < takenShare**r {
			return false
		}
	}
	return true
}

// FullFrom is the lowest level at which the engines take no more at once; nil: none is known.
func FullFrom(levels []KneeLevel) (lowest *KneeLevel) {
	for i := range levels {
		if l := &levels[i]; l.Full(levels) && (lowest == nil || l.InFlight < lowest.InFlight) {
			lowest = l
		}
	}
	return lowest
}

// highestBelow is the greatest load that counts below one; 0: there is none.
func highestBelow(levels []KneeLevel, inFlight int) (n int) {
	for i := range levels {
		if l := &levels[i]; l.NotUsed == "" && l.InFlight < inFlight {
			n = max(n, l.InFlight)
		}
	}
	return n
}

// queues counts what the engines had taken and what waited within the window, by the
// workers' pages.
func (l *KneeLevel) queues(series []spec.Sample, from, to int64) {
	running, waiting := map[int64]float64{}, map[int64]float64{} // of all workers, by the second
	for i := range series {
		if s := &series[i]; s.Source == spec.SourceWorker && s.T >= from && s.T < to && s.Worker != nil && s.Worker.Waiting != nil && s.Worker.Running != nil {
			running[s.T/second] += *s.Worker.Running
			waiting[s.T/second] += *s.Worker.Waiting
		}
	}
	n := float64(len(waiting))
	if n == 0 {
		return
	}
	taken, waited, queued := 0.0, 0.0, 0.0
	for k, v := range waiting { // whole numbers: their order does not matter
		taken += running[k]
		waited += v
		if v >= 1 {
			queued++
		}
	}
	l.Running, l.Waiting = number(taken/n), number(waited/n)
	if n >= leastSeconds {
		l.Queued = number(queued / n)
	}
}
