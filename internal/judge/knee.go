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
	Failed     int         `json:"failed"` // or not answered

	// Elasticity is d ln(throughput) / d ln(in flight) on the way to this level,
	// from the next lower one that is at most 0.6 of it: nearer ones differ by less
	// than they scatter.
	Elasticity *float64 `json:"elasticity,omitempty"`

	// NotUsed says why the level has no part in the knee.
	NotUsed string `json:"not_used,omitempty"`
	Client  bool   `json:"client_limited,omitempty"` // because the client was the limit
}

// Of how many batches a throughput is at least, and where there is time for more.
const (
	leastBatches = 2
	usualBatches = 10
)

// KneeLevelOf measures a level by the record of its load. Its batches are whole
// lifetimes of a request: requests that began together end together, so that
// throughput swings once a lifetime, and a batch that held half a swing would tell
// where in it the batch began.
func KneeLevelOf(r *spec.EpisodeRecord, t *spec.Thresholds) KneeLevel {
	e := &r.Episode
	l := KneeLevel{InFlight: e.Point.Concurrency, Held: e.Client.InFlight,
		Throughput: spec.Figure{Name: Throughput, Unit: "tokens/s", By: "t interval of batches of whole request lifetimes, 95 %"}}
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
	ramp, end := int64(e.Point.RampS*1e9), int64(e.Point.DurationS*1e9)
	var sum, n float64
	for q := range closedLoop(r.Requests) {
		if q.Served() && q.Sent >= ramp && q.Sent < end {
			sum += seconds(q.End - q.Sent)
			n++
		}
	}
	if n == 0 {
		l.NotUsed = cmp.Or(l.NotUsed, "nothing was served")
		return l
	}
	life := sum / n
	l.LifetimeS = &life
	lifetimes := seconds(end-ramp)/life - 1 // the first is the load's own start
	batch := int64(max(1, math.Floor(lifetimes/usualBatches)) * life * 1e9)
	batches := int(float64(lifetimes * life * 1e9 / float64(batch)))
	from := end - int64(max(1, batches))*batch
	l.latencies(r, from, end, t)
	if l.Sent > 0 && float64(l.Failed) > t.ErrorShare*float64(l.Sent) {
		l.NotUsed = cmp.Or(l.NotUsed, fmt.Sprintf("%d of %d requests failed", l.Failed, l.Sent))
	}
	if batches < leastBatches {
		l.NotUsed = cmp.Or(l.NotUsed, fmt.Sprintf("too short: a request takes %.1f s", life))
		return l
	}
	l.SteadyS = seconds(end - from)
	rates := make([]float64, batches)
	for q := range closedLoop(r.Requests) {
		if q.Served() {
			spreadTokens(rates, q, from, batch)
		}
	}
	for i := range rates {
		rates[i] /= seconds(batch)
	}
	x := stats.Mean(rates)
	l.Throughput.N, l.Throughput.Value = batches, number(x)
	if _, low, high := stats.MeanInterval(rates, 0.95); !math.IsNaN(low) {
		l.Throughput.Low, l.Throughput.High = number(max(0, low)), number(high)
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

// latencies sums up the requests that were sent within the window.
func (l *KneeLevel) latencies(r *spec.EpisodeRecord, from, to int64, t *spec.Thresholds) {
	var ttft []float64
	good := 0
	for q := range closedLoop(r.Requests) {
		if q.Sent < from || q.Sent >= to {
			continue
		}
		l.Sent++
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

// spreadTokens adds a request's tokens to the batches in which they came: the
// first when it came, the others evenly until the last.
func spreadTokens(batches []float64, q *spec.Request, from, batch int64) {
	add := func(at int64, tokens float64) {
		if i := (at - from) / batch; at >= from && int(i) < len(batches) {
			batches[i] += tokens
		}
	}
	add(q.First, 1)
	rest, length := float64(q.Tokens-1), q.Last-q.First
	if length <= 0 {
		add(q.First, rest)
		return
	}
	for i := range batches {
		begin := from + int64(i)*batch
		if both := min(q.Last, begin+batch) - max(q.First, begin); both > 0 {
			batches[i] += rest * float64(both) / float64(length)
		}
	}
}
