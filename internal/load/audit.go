package load

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"path"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Audit is what the engine found out about itself: whether it drove the load
// that was asked for, and whether its stamps can be trusted.
type Audit struct {
	Asked    int           // requests in flight asked for; 0 in an open loop
	InFlight float64       // time mean over the steady part, the sentinel's included; NaN: no steady part
	Little   float64       // completions a second times mean latency, over the same; NaN likewise
	Steady   time.Duration // how long the steady part was

	Lateness Spread // of sends against their schedule, opening the connection not counted
	StampLag Spread // of stamps against the arrival of the bytes
	LagBy    string // how StampLag was found

	GCPauses    int64
	GCPauseMax  time.Duration
	SchedLag    time.Duration // p99 of goroutines waiting for a processor
	CPU         time.Duration // user and system time of this process
	Cores       int
	Throttled   *Throttling // nil: the cgroup does not tell
	CPUPressure *float64    // share of the time that some task waited for a CPU; nil: not told

	Reasons []Reason // why the figures are not the server's
}

// Valid reports that the figures are the server's: the client was not the limit, and no
// answer came that no request asked for.
func (a *Audit) Valid() bool { return len(a.Reasons) == 0 }

// Reason is why a measurement is invalid. ID is one of the finding ids
// client/under-driven, client/late and server/unsolicited.
type Reason struct{ ID, Text, Hint string }

// Spread sums up a distribution of durations.
type Spread struct {
	N             int64
	P50, P99, Max time.Duration
}

// Throttling is what the CPU quota of the process's cgroup cost it.
type Throttling struct {
	Periods, Throttled int64
	Time               time.Duration
}

// The limits of the audit. A stamp may be late by a tenth of the median time to
// first token, but 10 ms are always allowed and 50 ms never exceeded: beyond
// that a latency is the client's. Five per cent of the load missing is the
// bound of the published investigation's own audit.
const (
	lagShare    = 0.10
	lagAlways   = 10 * time.Millisecond
	lagNever    = 50 * time.Millisecond
	minInFlight = 0.95
)

func lagLimit(ttft time.Duration) time.Duration {
	return min(max(time.Duration(lagShare*float64(ttft)), lagAlways), lagNever)
}

// auditor takes readings of the machine at the beginning and end of the main
// stage.
type auditor struct {
	host       fs.FS
	first      reading
	last       reading
	begun, end time.Time
}

type reading struct {
	gc, sched *metrics.Float64Histogram
	cpu       time.Duration
	throttled *Throttling
	pressure  *time.Duration
}

func beginAudit(host fs.FS) *auditor { return &auditor{host: host} }

func (a *auditor) begin() {
	a.begun = time.Now()
	a.first = a.read()
}

func (a *auditor) stop() {
	a.last = a.read()
	a.end = time.Now()
}

const (
	gcMetric    = "/sched/pauses/total/gc:seconds"
	schedMetric = "/sched/latencies:seconds"
)

func (a *auditor) read() reading {
	samples := []metrics.Sample{{Name: gcMetric}, {Name: schedMetric}}
	metrics.Read(samples)
	r := reading{cpu: processCPU(), throttled: readThrottling(a.host), pressure: readPressure(a.host)}
	if samples[0].Value.Kind() == metrics.KindFloat64Histogram {
		r.gc = samples[0].Value.Float64Histogram()
	}
	if samples[1].Value.Kind() == metrics.KindFloat64Histogram {
		r.sched = samples[1].Value.Float64Histogram()
	}
	return r
}

func (a *auditor) conclude(p *Plan, res *Result, senders []*sender) Audit {
	out := Audit{InFlight: math.NaN(), Little: math.NaN(), Cores: runtime.NumCPU()}
	if !p.Main.open() {
		out.Asked = p.Main.Users
	}
	lags := newLag().hist
	for _, s := range senders {
		s.lag.into(lags)
	}
	out.StampLag = spread(lags)
	out.LagBy = "timer lateness"
	if strings.Contains(res.Wire, "event loop") {
		out.LagBy = "kernel receive time"
	}
	ttft := out.flow(res)

	if a.end.After(a.begun) {
		gc := subtract(a.last.gc, a.first.gc)
		out.GCPauses, out.GCPauseMax = gc.count(), gc.quantile(1)
		out.SchedLag = subtract(a.last.sched, a.first.sched).quantile(0.99)
		out.CPU = a.last.cpu - a.first.cpu
		if b, e := a.first.throttled, a.last.throttled; b != nil && e != nil {
			out.Throttled = &Throttling{e.Periods - b.Periods, e.Throttled - b.Throttled, e.Time - b.Time}
		}
		if b, e := a.first.pressure, a.last.pressure; b != nil && e != nil {
			share := float64(*e-*b) / float64(a.end.Sub(a.begun))
			out.CPUPressure = &share
		}
	}
	out.judge(p, res, ttft)
	return out
}

// flow works out what was in flight and how late sends were, and returns the
// median time to first token.
func (a *Audit) flow(res *Result) time.Duration {
	from, to := res.Main.Full, res.Main.Dry
	late := newLag().hist
	ttft := newLag().hist
	var busy, latency float64
	var ended int64
	for r := range res.Log.All() {
		if r.Phase == Warmup || r.Sent == 0 {
			continue
		}
		_ = late.RecordValue(min(r.lateness(), int64(time.Hour)))
		if r.OK() {
			_ = ttft.RecordValue(min(r.FirstContent-r.Sent, int64(time.Hour)))
		}
		if to <= from {
			continue
		}
		busy += float64(max(0, min(r.End, to)-max(r.Sent, from)))
		// By its middle a request is in the window or not: by its end, those of the
		// last round would be missing from a short one.
		if middle := r.Sent + (r.End-r.Sent)/2; from <= middle && middle <= to {
			ended++
			latency += float64(r.End - r.Sent)
		}
	}
	a.Lateness = spread(late)
	if to > from {
		a.Steady = time.Duration(to - from)
		a.InFlight = busy / float64(to-from)
		if ended > 0 {
			// X·R̄ = (ended/T)·(Σ latency/ended)
			a.Little = latency / float64(to-from)
		}
	}
	return time.Duration(ttft.ValueAtQuantile(50))
}

// judge says whether the client was the limit. The machine's own readings
// (throttling, pressure, pauses) are printed but do not judge: what counts is
// whether they reached the measurement.
func (a *Audit) judge(p *Plan, res *Result, ttft time.Duration) {
	const moreCPU = "give the client more CPU (a request of its own, another node), or ask for less load"
	backedOff := false
	var answered, unsent int64
	for r := range res.Log.All() {
		backedOff = backedOff || r.BackedOff()
		if r.Has(Exhausted) {
			unsent++
		}
		if r.Phase != Warmup && r.FirstByte != 0 {
			answered++
		}
	}
	if res.Unsolicited > 0 {
		a.Reasons = append(a.Reasons, Reason{"server/unsolicited",
			fmt.Sprintf("the server sent bytes that no request asked for, %d times: an answer cannot be told from that of another request", res.Unsolicited),
			"look for a proxy that answers twice, or mixes up connections; --connection-reuse-strategy never takes a connection for each request"})
	}
	if unsent > 0 {
		a.Reasons = append(a.Reasons, Reason{"client/under-driven",
			fmt.Sprintf("the client ran out of ports or file descriptors: %d requests were never sent", unsent),
			"raise 'ulimit -n', keep connections open, or use a second client"})
	}
	limit := lagLimit(ttft)
	if a.StampLag.P99 > limit && answered > 0 {
		a.Reasons = append(a.Reasons, Reason{"client/late",
			fmt.Sprintf("the client's own stamps were late: p99 %s by %s, where %s is allowed", round(a.StampLag.P99), a.LagBy, round(limit)),
			moreCPU})
	}
	// Users that back off after a failed connection, and requests that a cap holds
	// back, are not the client's shortfall.
	if a.Asked > 0 && !math.IsNaN(a.InFlight) && !backedOff && a.Steady > ttft &&
		a.InFlight < minInFlight*float64(a.Asked) {
		a.Reasons = append(a.Reasons, Reason{"client/under-driven",
			fmt.Sprintf("the client held %.1f of %d requests in flight", a.InFlight, a.Asked), moreCPU})
	}
	if p.Main.open() && p.Main.Users == 0 && a.Lateness.P99 > limit && lateSends(res.Log, limit) > 1 {
		a.Reasons = append(a.Reasons, Reason{"client/under-driven",
			fmt.Sprintf("the client sent late: p99 %s behind its schedule, where %s is allowed", round(a.Lateness.P99), round(limit)), moreCPU})
	}
}

// lateSends counts the sends that were late by more than the limit: in a short
// run the p99 is the latest of all, and one is no pattern.
func lateSends(l *Log, limit time.Duration) (n int) {
	for r := range l.All() {
		if r.Phase != Warmup && r.Sent != 0 && time.Duration(r.lateness()) > limit {
			n++
		}
	}
	return n
}

func round(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

func spread(h *hdrhistogram.Histogram) Spread {
	return Spread{N: h.TotalCount(), P50: time.Duration(h.ValueAtQuantile(50)),
		P99: time.Duration(h.ValueAtQuantile(99)), Max: time.Duration(h.Max())}
}

// buckets are the runtime's histogram of one interval.
type buckets struct {
	counts []uint64
	bounds []float64
}

func subtract(last, first *metrics.Float64Histogram) buckets {
	if last == nil || first == nil || len(last.Counts) != len(first.Counts) {
		return buckets{}
	}
	b := buckets{make([]uint64, len(last.Counts)), last.Buckets}
	for i := range b.counts {
		b.counts[i] = last.Counts[i] - first.Counts[i]
	}
	return b
}

func (b buckets) count() (n int64) {
	for _, c := range b.counts {
		n += int64(c)
	}
	return n
}

// quantile is the upper bound of the bucket in which the quantile lies.
func (b buckets) quantile(q float64) time.Duration {
	total := b.count()
	if total == 0 {
		return 0
	}
	rank := int64(math.Ceil(q * float64(total)))
	for i, c := range b.counts {
		if rank -= int64(c); rank <= 0 {
			upper := b.bounds[i+1]
			if math.IsInf(upper, 1) {
				upper = b.bounds[i]
			}
			return time.Duration(upper * 1e9)
		}
	}
	return 0
}

// readThrottling finds the CPU quota's statistics in the process's cgroup,
// version 2 or 1.
func readThrottling(host fs.FS) *Throttling {
	if host == nil {
		return nil
	}
	for _, dir := range cgroupDirs(host) {
		b, err := fs.ReadFile(host, path.Join(dir, "cpu.stat"))
		if err != nil {
			continue
		}
		t, found := &Throttling{}, false
		for line := range bytes.Lines(b) {
			key, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				continue
			}
			switch key {
			case "nr_periods":
				t.Periods, found = n, true
			case "nr_throttled":
				t.Throttled = n
			case "throttled_usec":
				t.Time = time.Duration(n) * time.Microsecond
			case "throttled_time":
				t.Time = time.Duration(n)
			}
		}
		if found {
			return t
		}
	}
	return nil
}

// cgroupDirs lists where this process's cgroup may be seen, the nearest first.
func cgroupDirs(host fs.FS) []string {
	b, err := fs.ReadFile(host, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var dirs []string
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		part := strings.SplitN(lines.Text(), ":", 3)
		if len(part) != 3 {
			continue
		}
		own := strings.TrimPrefix(part[2], "/")
		switch {
		case part[0] == "0":
			dirs = append(dirs, path.Join("sys/fs/cgroup", own), path.Join("sys/fs/cgroup/unified", own), "sys/fs/cgroup")
		case slices.Contains(strings.Split(part[1], ","), "cpu"):
			for _, mount := range []string{part[1], "cpu", "cpu,cpuacct"} {
				dirs = append(dirs, path.Join("sys/fs/cgroup", mount, own), path.Join("sys/fs/cgroup", mount))
			}
		}
	}
	// A version 1 cpu controller, where there is one, is the one in force.
	slices.SortStableFunc(dirs, func(a, b string) int {
		return cmp.Compare(strings.Count(b, "cpu"), strings.Count(a, "cpu"))
	})
	return dirs
}

// readPressure is the time that some task of the cgroup, or else of the machine,
// has waited for a CPU.
func readPressure(host fs.FS) *time.Duration {
	if host == nil {
		return nil
	}
	var files []string
	for _, dir := range cgroupDirs(host) {
		files = append(files, path.Join(dir, "cpu.pressure"))
	}
	for _, f := range append(files, "proc/pressure/cpu") {
		b, err := fs.ReadFile(host, f)
		if err != nil {
			continue
		}
		line, _, _ := strings.Cut(string(b), "\n")
		_, total, ok := strings.Cut(line, "total=")
		if us, err := strconv.ParseInt(total, 10, 64); ok && err == nil && strings.HasPrefix(line, "some ") {
			d := time.Duration(us) * time.Microsecond
			return &d
		}
	}
	return nil
}
