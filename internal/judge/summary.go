package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// Record is an episode as it was recorded, before it is summed up.
type Record struct {
	Number   int
	Start    string // RFC 3339
	Point    spec.OperatingPoint
	Requests []spec.Request
	Series   []spec.Sample
	Lags     []float64 // milliseconds by which the client's stamps were late, as far as it knows
	LagBy    string    // how it knows it
}

// The names of an episode's figures. The output throughput is a client's without a
// judge, AIPerf's too: what was served, over the whole run with its start and its end.
const (
	OutputThroughput = "output throughput"
	FirstToken       = "time to first token"
	TokenLatency     = "inter-token latency"
	LongestGap       = "longest gap of a stream"
	Latency          = "request latency"
	SentinelWait     = "sentinel: first token from intended send"
)

// Summarize makes episode.json of what was recorded. The closed loop's requests
// are summed up; the sentinel's are told apart.
func Summarize(r *Record) *spec.Episode {
	e := &spec.Episode{Schema: spec.EpisodeSchema, Number: r.Number, Start: r.Start, Point: r.Point,
		Requests: spec.RequestCounts{Classes: map[string]int{}}, Sentinel: spec.RequestCounts{Classes: map[string]int{}}}
	s := newSums()
	for i := range r.Requests {
		q := &r.Requests[i]
		if q.Lane == spec.LaneSentinel {
			e.Sentinel.Add(q)
			if q.Served() {
				s.beside += int64(q.Tokens)
				s.sentinel = append(s.sentinel, ms(q.First-q.Intended))
			}
			continue
		}
		e.Requests.Add(q)
		s.add(q)
	}
	// A fleet that has stopped answering is under load until its time is up: that a
	// closed loop then sends nothing is not the end of the load.
	s.until = max(s.lastSend, min(int64(r.Point.DurationS*1e9), s.end))
	e.LoadedS = max(0, seconds(s.until-s.firstSend))
	e.Tokens = s.tokens
	e.Figures = s.figures(e)
	e.Workers = s.perWorker()
	e.Client = client(r, s)
	e.Samples = samples(r.Series)
	return e
}

// sums gathers the closed loop's requests.
type sums struct {
	any                     bool
	firstSend, lastSend     int64
	lastServed, end         int64 // of the served, of all
	until                   int64 // the end of the load
	tokens                  spec.TokenCounts
	beside                  int64 // tokens of the sentinel
	ttft, itl, gap, latency []float64
	sentinel                []float64
	lateness                []float64
	workers                 map[string]*workerSums
}

type workerSums struct {
	requests, failed int
	tokens, gap      int64
	ttft, itl        []float64
}

func newSums() *sums { return &sums{workers: map[string]*workerSums{}} }

func (s *sums) add(q *spec.Request) {
	if !s.any || q.Sent < s.firstSend {
		s.firstSend = q.Sent
	}
	s.any = true
	s.lastSend = max(s.lastSend, q.Sent)
	s.lateness = append(s.lateness, ms(q.Sent-q.Intended))
	w := s.workers[q.Worker]
	if w == nil {
		w = &workerSums{}
		s.workers[q.Worker] = w
	}
	w.requests++
	s.end = max(s.end, q.End)
	gap := longestGap(q)
	w.gap = max(w.gap, gap)
	w.tokens += int64(q.Tokens)
	if !q.Served() {
		if q.Failed() {
			w.failed++
		}
		if q.First > 0 {
			s.gap = append(s.gap, ms(gap))
		}
		return
	}
	s.lastServed = max(s.lastServed, q.End)
	s.tokens.Prompt += int64(q.Prompt)
	s.tokens.Completion += int64(q.Tokens)
	if q.Cached != nil {
		if s.tokens.Cached == nil {
			s.tokens.Cached = new(int64)
		}
		*s.tokens.Cached += int64(*q.Cached)
	}
	ttft := ms(q.First - q.Sent)
	s.ttft, w.ttft = append(s.ttft, ttft), append(w.ttft, ttft)
	s.latency = append(s.latency, ms(q.End-q.Sent))
	if q.Tokens > 1 {
		itl := ms(q.Last-q.First) / float64(q.Tokens-1)
		s.itl, w.itl = append(s.itl, itl), append(w.itl, itl)
		s.gap = append(s.gap, ms(gap))
	}
}

// longestGap is the longest wait for a token, that in which a stream was given up
// included.
func longestGap(q *spec.Request) int64 {
	if q.Class == spec.ClassInterrupted && q.First > 0 {
		return max(q.Gap, q.End-q.Last)
	}
	return q.Gap
}

// figures counts who was not answered as infinitely slow, as who was refused.
func (s *sums) figures(e *spec.Episode) []spec.BenchFigure {
	failed, sentinelFailed := e.Requests.Failed+e.Requests.Interrupted, e.Sentinel.Failed+e.Sentinel.Interrupted
	rate := spec.BenchFigure{Name: OutputThroughput, Unit: "tokens/sec"}
	if d := seconds(max(s.lastServed, s.until) - s.firstSend); d > 0 && s.tokens.Completion > 0 {
		rate.Mean = number(float64(s.tokens.Completion+s.beside) / d)
	}
	all := []spec.BenchFigure{rate, Described(FirstToken, s.ttft, failed), Described(TokenLatency, s.itl, 0),
		Described(LongestGap, s.gap, 0), Described(Latency, s.latency, failed)}
	if e.Sentinel.Sent > 0 {
		all = append(all, Described(SentinelWait, s.sentinel, sentinelFailed))
	}
	return all
}

// Described sums up values in milliseconds; failed ones count as infinitely slow
// in a row of their own.
func Described(name string, v []float64, failed int) spec.BenchFigure {
	f := spec.BenchFigure{Name: name, Unit: "ms", N: int64(len(v))}
	sorted := slices.Sorted(slices.Values(v))
	at := func(p float64) *float64 { return number(stats.Percentile(sorted, p)) }
	if n := len(sorted); n > 0 {
		f.Mean, f.P50, f.P90, f.P95, f.P99 = number(stats.Mean(sorted)), at(50), at(90), at(95), at(99)
		f.Min, f.Max = number(sorted[0]), number(sorted[n-1])
	}
	if failed > 0 {
		f.WithFailures = map[string]any{}
		for name, p := range map[string]float64{"p50": 50, "p90": 90, "p99": 99} {
			f.WithFailures[name] = "inf"
			if v := stats.WithFailures(sorted, failed, p); !math.IsInf(v, 1) {
				f.WithFailures[name] = v
			}
		}
	}
	return f
}

// perWorker tells the workers apart, by the client's own clock. Requests that no
// worker is known of are left out.
func (s *sums) perWorker() []spec.BenchWorker {
	var total int64
	for name, w := range s.workers {
		if name != "" {
			total += w.tokens
		}
	}
	var all []spec.BenchWorker
	for name, w := range s.workers {
		if name == "" {
			continue
		}
		b := spec.BenchWorker{Worker: name, Requests: w.requests, Failed: w.failed, Tokens: w.tokens, MaxGapMS: ms(w.gap)}
		if total > 0 {
			b.Share = float64(w.tokens) / float64(total)
		}
		if len(w.ttft) > 0 {
			slices.Sort(w.ttft)
			b.TTFT50MS = number(stats.Percentile(w.ttft, 50))
		}
		if len(w.itl) > 0 {
			b.ITLMS = number(stats.Mean(w.itl))
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b spec.BenchWorker) int {
		return cmp.Or(cmp.Compare(len(a.Worker), len(b.Worker)), cmp.Compare(a.Worker, b.Worker))
	})
	return all
}

// client is the audit of the instrument by its own record: whether it held what
// it was to hold, the sentinel's requests included, and whether its stamps were late.
func client(r *Record, s *sums) spec.BenchClient {
	c := spec.BenchClient{InFlightAsked: r.Point.Concurrency, StampLag: spread(r.Lags), StampLagBy: r.LagBy, SendLateness: spread(s.lateness)}
	from, to := int64(r.Point.RampS*1e9), s.until
	c.SteadyS = max(0, seconds(to-from))
	if c.SteadyS > 0 {
		var users, sentinels, latency float64
		n := 0
		for i := range r.Requests {
			q := &r.Requests[i]
			held := float64(max(0, min(q.End, to)-max(q.Sent, from))) / float64(to-from)
			if q.Lane == spec.LaneSentinel {
				sentinels += held
			} else {
				users += held
			}
			if q.End > from && q.End <= to {
				latency += seconds(q.End - q.Sent)
				n++
			}
		}
		// A sentinel never waits: what piles up of them beyond what was asked for is of a
		// fleet that hangs, and not of the client.
		c.InFlight = number(max(users, min(users+sentinels, float64(c.InFlightAsked))))
		if n > 0 {
			c.Little = number(latency / c.SteadyS)
		}
	}
	limits, _ := spec.DefaultThresholds(spec.ProfileStandard)
	c.Reasons = Audit(&c, &limits)
	c.Valid = len(c.Reasons) == 0
	return c
}

// Audit holds the client's figures against limits.
func Audit(c *spec.BenchClient, limits *spec.Thresholds) []spec.BenchReason {
	var all []spec.BenchReason
	reason := func(id, hint, format string, args ...any) {
		all = append(all, spec.BenchReason{ID: id, Text: fmt.Sprintf(format, args...), Hint: hint})
	}
	if c.InFlight == nil || c.InFlightAsked == 0 {
		reason("client/under-driven", "", "no steady load was recorded")
	} else if share := *c.InFlight / float64(c.InFlightAsked); share < limits.HeldLow || share > limits.HeldHigh {
		reason("client/under-driven", "give the client more CPU, or run it nearer to the frontend",
			"held %.0f of %d in flight", *c.InFlight, c.InFlightAsked)
	}
	if late := c.StampLag.P99; late > limits.ClientLagMS {
		reason("client/late", "give the client more CPU", "stamps were late by %.0f ms at p99", late)
	}
	return all
}

// auditAnew holds a recorded client against other limits than those of its day. What
// the engine found out by itself stands, and what it excused stays excused.
func auditAnew(c spec.BenchClient, limits *spec.Thresholds) spec.BenchClient {
	usual, _ := spec.DefaultThresholds(spec.ProfileStandard)
	before := Audit(&c, &usual)
	var all []spec.BenchReason
	for _, r := range Audit(&c, limits) {
		if !slices.Contains(before, r) || slices.Contains(c.Reasons, r) || c.InFlight == nil {
			all = append(all, r)
		}
	}
	for _, r := range c.Reasons {
		if !slices.Contains(before, r) {
			all = append(all, r)
		}
	}
	c.Reasons, c.Valid = all, len(all) == 0
	return c
}

func spread(values []float64) spec.BenchSpread {
	if len(values) == 0 {
		return spec.BenchSpread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return spec.BenchSpread{N: int64(len(sorted)), P50: stats.Percentile(sorted, 50), P99: stats.Percentile(sorted, 99), Max: sorted[len(sorted)-1]}
}

// samples counts what each source delivered.
func samples(series []spec.Sample) []spec.SampleCount {
	bySource := map[string]*spec.SampleCount{}
	for i := range series {
		c := bySource[series[i].Source]
		if c == nil {
			c = &spec.SampleCount{Source: series[i].Source}
			bySource[c.Source] = c
		}
		c.Expected++
		if series[i].Gap != "" {
			c.Missing++
		}
	}
	var all []spec.SampleCount
	for _, c := range bySource {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b spec.SampleCount) int { return cmp.Compare(a.Source, b.Source) })
	return all
}

func ms(ns int64) float64      { return float64(ns) / 1e6 }
func seconds(ns int64) float64 { return float64(ns) / 1e9 }

func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
