package truth

import (
	"slices"
	"strconv"
	"time"
)

// Truth is what a server did. Times are in nanoseconds when written as JSON.
type Truth struct {
	Requests int             `json:"requests"` // completion requests that were let in
	Refused  int             `json:"refused"`  // completion requests answered with 400 or 404
	Outcomes map[Outcome]int `json:"outcomes"`
	Faults   map[Kind]int    `json:"faults"`            // played or in play
	Workers  map[string]int  `json:"workers,omitempty"` // requests by the worker's id, as told to the client
	Tokens   int64           `json:"tokens"`            // written, failed requests included
	Events   Events          `json:"events"`

	// Of the served requests only, as a client's figures are.
	ServedTokens int64     `json:"served_tokens"`
	TTFT         Quantiles `json:"ttft_ns"` // of streams: arrival to first token written
	ITL          Quantiles `json:"itl_ns"`  // of streams: a request's (last-first)/(tokens-1)

	Gap      Summary `json:"gap_ns"`      // between two events with tokens, all requests pooled
	Lateness Summary `json:"lateness_ns"` // of each write of tokens against its plan
	Queued   int64   `json:"queued"`      // writes that the socket did not take at once: the client was slow

	PeakInFlight int     `json:"peak_in_flight"`
	MeanInFlight float64 `json:"mean_in_flight"` // from the arrival of the C-th request to the last arrival; 0 when there is no such time
	Kernel       bool    `json:"kernel_stamps"`  // all arrivals are the kernel's

	FirstArrival time.Time `json:"first_arrival,omitzero"`
	LastArrival  time.Time `json:"last_arrival,omitzero"`
	LastEnd      time.Time `json:"last_end,omitzero"`
}

// Events counts what was written, by kind.
type Events struct {
	Content int64 `json:"content"` // with tokens
	Role    int64 `json:"role"`
	Finish  int64 `json:"finish"`
	Usage   int64 `json:"usage"`
	Done    int64 `json:"done"`
	Error   int64 `json:"error"`
	Total   int64 `json:"total"`
}

// Quantiles are exact, by numpy's linear rule.
type Quantiles struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Summary is of a histogram of three digits; Max is exact to the same.
type Summary struct {
	N   int64         `json:"n"`
	P50 time.Duration `json:"p50"`
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
}

// Filter says which requests a report is about. Refused requests, events, gaps
// and lateness are never filtered: they are not kept a request.
type Filter struct {
	Skip        int // leave out so many of the first
	Asked       int // when not 0, only those that asked for that many tokens: a client's probe mostly asks for few
	Concurrency int // C of MeanInFlight; 0 is the peak in flight
}

func (l *ledger) report(f Filter, epoch time.Time, now time.Duration) Truth {
	all := slices.DeleteFunc(l.copy(), func(r Request) bool {
		return r.Index < int64(f.Skip) || f.Asked != 0 && r.Asked != f.Asked
	})
	t := Truth{
		Requests: len(all), Outcomes: map[Outcome]int{}, Faults: map[Kind]int{}, Workers: map[string]int{},
		Kernel: len(all) > 0,
	}
	var ttft, itl []float64
	var first, last, end time.Duration
	for i := range all {
		r := &all[i]
		t.Outcomes[r.Outcome]++
		t.Tokens += int64(r.Tokens)
		t.Kernel = t.Kernel && r.Kernel
		if r.Fault != "" {
			t.Faults[r.Fault]++
		}
		if r.Worker != 0 {
			t.Workers[strconv.FormatUint(r.Worker, 10)]++
		}
		if i == 0 || r.Arrival < first {
			first = r.Arrival
		}
		last, end = max(last, r.Arrival), max(end, r.End)
		if r.Outcome != Served || r.Tokens == 0 {
			continue
		}
		t.ServedTokens += int64(r.Tokens)
		if !r.Stream {
			continue
		}
		ttft = append(ttft, float64(r.First-r.Arrival))
		if r.Tokens > 1 && r.Last > r.First {
			itl = append(itl, float64(r.Last-r.First)/float64(r.Tokens-1))
		}
	}
	if len(all) > 0 {
		t.FirstArrival, t.LastArrival, t.LastEnd = epoch.Add(first), epoch.Add(last), epoch.Add(end)
	}
	t.TTFT, t.ITL = quantiles(ttft), quantiles(itl)
	t.PeakInFlight, t.MeanInFlight = inFlight(all, f.Concurrency, now)

	l.mu.Lock()
	defer l.mu.Unlock()
	t.Refused, t.Queued = l.refused, l.queued
	t.Events = Events{
		Content: l.events[eventContent], Role: l.events[eventRole], Finish: l.events[eventFinish],
		Usage: l.events[eventUsage], Done: l.events[eventDone], Error: l.events[eventError],
	}
	for _, n := range l.events {
		t.Events.Total += n
	}
	t.Gap, t.Lateness = summary(l.gaps), summary(l.late)
	return t
}

// inFlight gives the most requests that were in flight at once, and their mean
// number from the arrival of the c-th to the last arrival.
func inFlight(all []Request, c int, now time.Duration) (peak int, mean float64) {
	arrivals, ends := make([]time.Duration, len(all)), make([]time.Duration, len(all))
	for i := range all {
		arrivals[i], ends[i] = all[i].Arrival, all[i].End
		if ends[i] == 0 {
			ends[i] = now
		}
	}
	slices.Sort(arrivals)
	slices.Sort(ends)
	for i, ended := 0, 0; i < len(arrivals); i++ {
		for ended < len(ends) && ends[ended] <= arrivals[i] {
			ended++
		}
		peak = max(peak, i+1-ended)
	}
	if c == 0 {
		c = peak
	}
	if c < 1 || c > len(arrivals) {
		return peak, 0
	}
	from, to := arrivals[c-1], arrivals[len(arrivals)-1]
	if to <= from {
		return peak, 0
	}
	// The time that requests spent in the window: what ends in it, less what
	// begins in it.
	var spent time.Duration
	for i := range arrivals {
		spent += min(max(ends[i], from), to) - min(max(arrivals[i], from), to)
	}
	return peak, float64(spent) / float64(to-from)
}

func quantiles(values []float64) Quantiles {
	slices.Sort(values)
	return Quantiles{N: len(values), P50: quantile(values, 0.50), P99: quantile(values, 0.99)}
}

// quantile is numpy's linear rule over sorted values; 0 when there are none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	h := float64(len(sorted)-1) * q
	i := int(h)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (h-float64(i))*(sorted[i+1]-sorted[i])
}

func summary(h histogram) Summary {
	if h.TotalCount() == 0 {
		return Summary{}
	}
	return Summary{
		N:   h.TotalCount(),
		P50: time.Duration(h.ValueAtQuantile(50)),
		P99: time.Duration(h.ValueAtQuantile(99)),
		Max: time.Duration(h.Max()),
	}
}

type histogram interface {
	TotalCount() int64
	ValueAtQuantile(q float64) int64
	Max() int64
}
