package judge

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"testing"
	"time"

	"aicr/internal/spec"
)

// halfStalled is a fleet of so many workers of which half stand still, each with a GPU of
// its own, after half a minute.
func halfStalled(n int) *Live {
	l := NewLive(time.Second)
	for second := range int64(30) {
		for i := range n {
			made, power, use := float64(100*second), 600.0, 0.97
			if i%2 == 0 && second > 10 {
				made, power = 1000, 130
			}
			running, name := 8.0, strconv.Itoa(i)
			at := second*1e9 + int64(i)
			l.Add(spec.Sample{T: at, Source: spec.SourceWorker, Name: name, Instance: "w" + name,
				Worker: &spec.WorkerSample{Running: &running, Waiting: new(float64), Generated: &made, GPU: "GPU-" + name}})
			l.Add(spec.Sample{T: at, Source: spec.SourceGPU, Name: "GPU-" + name, Instance: "dcgm",
				GPU: &spec.GPUSample{PowerW: &power, Utilization: &use, Throttle: &[]string{}, Index: name}})
		}
	}
	return l
}

// Twice the workers cost twice as much to look at, and not four or eight times: each is
// held against what all do, and not against each of the others. What is allocated is a
// count, the same on any machine.
func TestTheCostOfALookIsLinear(t *testing.T) {
	cost := func(n int) float64 {
		l := halfStalled(n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := l.Picture(30e9)
		runtime.ReadMemStats(&after)
		if len(p.Symptoms) < n/2 {
			t.Fatalf("%d symptoms of %d workers", len(p.Symptoms), n)
		}
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	one, two := cost(200), cost(400)
	if ratio := two / one; ratio > 2.6 {
		t.Errorf("a look at 200 workers allocates %.0f bytes and at 400 %.0f: %.1f times as much", one, two, ratio)
	}
}

// Names that change all the time fill no memory.
func TestWhatIsKeptIsBounded(t *testing.T) {
	l, tally := NewLive(time.Second), NewTally()
	for second := range 200 {
		outcomes := map[string]float64{"success": float64(second)}
		for i := range 40 {
			name := fmt.Sprintf("%d-%d", second, i)
			outcomes[name] = 1
			reasons := []string{name}
			for _, s := range []spec.Sample{
				{Source: spec.SourceGPU, Name: "GPU-" + name, Instance: "dcgm", GPU: &spec.GPUSample{Throttle: &reasons}},
				{Source: spec.SourceGPU, Name: "one", Instance: "dcgm", GPU: &spec.GPUSample{Throttle: &reasons}},
				{Source: spec.SourceWorker, Name: name, Instance: "w", Worker: &spec.WorkerSample{Running: new(1.0)}},
			} {
				s.T = int64(second)*1e9 + int64(i)
				l.Add(s)
				tally.Add(s)
			}
		}
		l.Add(spec.Sample{T: int64(second) * 1e9, Source: spec.SourceFrontend, Name: "f", Frontend: &spec.FrontendSample{Outcomes: outcomes}})
	}
	for what, n := range map[string]int{"GPUs": len(l.gpus), "workers": len(l.workers)} {
		if n > mostNames {
			t.Errorf("%d %s are followed", n, what)
		}
	}
	if n := len(l.frontends["f"].outcomes); n > mostOutcomes+41 {
		t.Errorf("%d outcomes are followed", n)
	}
	if n := len(tally.rows); n > mostRows {
		t.Errorf("%d rows are kept", n)
	}
	row := tally.rows[spec.SourceGPU+"\x00one"]
	if n := len(row.Throttle); n > mostReasons+1 || row.Throttle[otherReasons] != 200*40-mostReasons {
		t.Errorf("%d reasons are kept, %d times others", n, row.Throttle[otherReasons])
	}
}

// Values at the end of what a number can be make no picture and no sum that JSON cannot
// carry.
func TestNoFigureOfAPictureIsInfinite(t *testing.T) {
	l, tally := NewLive(time.Second), NewTally()
	for second := range int64(20) {
		for i, v := range []float64{math.MaxFloat64, -math.MaxFloat64, math.MaxFloat64, math.Inf(1), math.NaN()} {
			if second%2 == 1 {
				v = -v
			}
			value := v
			for _, s := range []spec.Sample{
				{Source: spec.SourceWorker, Name: strconv.Itoa(i), Worker: &spec.WorkerSample{Running: &value, Waiting: &value, Generated: &value, KVUsage: &value, InFlight: &value, Ended: &value, Failed: &value}},
				{Source: spec.SourceGPU, Name: strconv.Itoa(i), GPU: &spec.GPUSample{PowerW: &value, Utilization: &value, DoubleBit: &value, XID: &value}},
				{Source: spec.SourceNode, Name: strconv.Itoa(i), Node: &spec.NodeSample{CPUPressure: &value, Load1: &value}},
				{Source: spec.SourceFrontend, Name: strconv.Itoa(i), Frontend: &spec.FrontendSample{InFlight: &value, Served: &value, Failed: &value, Tokens: &value, Outcomes: map[string]float64{"a": value}}},
			} {
				s.T, s.Instance = second*1e9, "i"
				l.Add(s)
				tally.Add(s)
			}
		}
		p := l.Picture(second * 1e9)
		for i := range p.Workers {
			p.Workers[i].History = nil // what is not known is NaN there, and drawn as nothing
		}
		for i := range p.GPUs {
			p.GPUs[i].History = nil
		}
		for i := range p.Frontends {
			p.Frontends[i].History = nil
		}
		if _, err := json.Marshal(p); err != nil {
			t.Fatalf("after %d s: %v", second, err)
		}
	}
	for _, r := range tally.Rows() {
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%s %s: %v", r.Source, r.Name, err)
		}
	}
}
