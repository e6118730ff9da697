package sim

import (
	"math"
	"slices"
	"time"

	"aicr/internal/spec"
)

// The GPU of the model: an H100 SXM. A worker that is loaded but waits for its
// host keeps its clocks up and draws a little more than one that is idle; what
// the batch adds is spread between the published 520 W at few sequences and
// 700 W at many.
const (
	idlePower     = 70.0  // W
	readyPower    = 45.0  // W on top, with work at hand
	workPower     = 585.0 // W on top, at a full duty cycle and batch
	hungShare     = 0.05  // of workPower: a kernel that spins
	fullBatch     = 256   // sequences
	capPower      = 680.0 // W from which the power cap is at work
	idleClock     = 345.0
	fullClock     = 1980.0 // MHz
	memoryClock   = 2619.0
	hardThrottle  = 0.60
	softThrottle  = 0.83
	memoryTotal   = 80 << 30
	coldest       = 32.0 // °C
	warmestOfLoad = 43.0 // °C on top, at full power
	inertia       = 15.0 // s
	throttlesAt   = 87.0 // °C
)

// quietPressure is the share of a second in which some task of a node that is
// not contended waits for a CPU. No fault of the contract changes it: a node is
// under pressure only where a scenario asks for it.
const quietPressure = 0.001

// gpu follows its worker.
type gpu struct {
	state GPUState

	since  time.Duration // what was accrued up to
	active float64       // nanoseconds of the last second in which a kernel ran
	ready  float64       // in which there was work
	effort float64       // of full power
	slow   float64       // how much longer than usual it takes, where it holds up the others of its worker
}

func newGPU(seed uint64, index int) gpu {
	return gpu{slow: 1, state: GPUState{UUID: gpuUUID(seed, index), PowerW: idlePower, SMClockMHz: idleClock,
		MemClockMHz: memoryClock, TemperatureC: coldest + 2, MemoryTotal: memoryTotal, MemoryUsed: 0.9 * memoryTotal}}
}

// accrue counts what the GPUs did since they were last asked.
func (f *Fleet) accrue(w *worker) {
	slowest := 1.0
	for i := range w.gpus {
		slowest = max(slowest, w.gpus[i].slow)
	}
	for i := range w.gpus {
		f.accrueOne(w, &w.gpus[i], slowest)
	}
}

// accrueOne counts what one of a worker's GPUs did. Those that wait for the slowest spin, and
// that is clocked low: all are as busy as ever, at the power of a share of the work.
func (f *Fleet) accrueOne(w *worker, g *gpu, slowest float64) {
	d := float64(f.now - g.since)
	g.since = f.now
	switch {
	case d == 0 || !w.busy:
	case w.wedged:
		g.ready += d
		g.active += d
		g.effort += float64(d * hungShare)
	default:
		duty := w.duty / w.stall
		g.ready += d
		g.active += float64(d * duty)
		g.effort += float64(d * duty * (0.8 + float64(0.2*min(1, float64(w.running)/fullBatch))) / slowest)
	}
}

// gpuOf is which of a worker's GPUs a fault is of.
func gpuOf(f *spec.Fault) int {
	if f.GPU == nil {
		return 0
	}
	return *f.GPU
}

// breakDown is an error of the hardware. It does not heal.
func (g *gpu) breakDown(f *spec.Fault) {
	if f.XID != nil {
		g.state.XID = *f.XID
	}
	if f.DoubleBit != nil {
		g.state.DoubleBit += int64(*f.DoubleBit)
	}
	if f.RemapFailure != nil {
		g.state.RemapFailure = *f.RemapFailure
	}
}

// exchange puts a GPU without errors in its place.
func (g *gpu) exchange() { g.state.XID, g.state.DoubleBit, g.state.RemapFailure = 0, 0, false }

// sample makes the telemetry of the second that ends now.
func (f *Fleet) sample() {
	for _, w := range f.workers {
		f.accrue(w)
		for i := range w.gpus {
			f.sampleGPU(w, i)
		}
		w.lost = f.undelivered("workers")
	}
	f.node.Missing = f.undelivered("node")
	f.node.CPUPressure = quietPressure
	f.node.CPUWait += f.node.CPUPressure
}

func (f *Fleet) sampleGPU(w *worker, index int) {
	const second = float64(time.Second)
	g := &w.gpus[index]
	s := &g.state
	s.Utilization = min(1, g.active/second)
	s.PowerW = idlePower + float64(readyPower*min(1, g.ready/second)) + float64(workPower*min(1, g.effort/second))
	s.SMClockMHz = idleClock
	if g.ready > 0 {
		s.SMClockMHz = fullClock / g.slow
	}
	g.active, g.ready, g.effort = 0, 0, 0

	s.Throttle = nil
	hot := false
	for _, a := range f.faults.active {
		if a.fault.Kind != spec.GPUThrottle || !slices.Contains(a.workers, w.index) || gpuOf(a.fault) != index {
			continue
		}
		hot = hot || a.fault.Reason == "hw_thermal" || a.fault.Reason == "sw_thermal"
		if f.telemetry.Float64() >= *a.fault.Share {
			continue
		}
		s.Throttle = append(s.Throttle, a.fault.Reason)
		clock := fullClock * softThrottle
		if a.fault.Reason == "hw_thermal" || a.fault.Reason == "hw_slowdown" || a.fault.Reason == "hw_power_brake" {
			clock = fullClock * hardThrottle
		}
		s.SMClockMHz = min(s.SMClockMHz, clock)
	}
	if s.PowerW >= capPower && !slices.Contains(s.Throttle, "power_cap") {
		s.Throttle = append(s.Throttle, "power_cap")
	}
	s.EnergyJ += s.PowerW
	aim := coldest + float64(warmestOfLoad*s.PowerW)/(idlePower+readyPower+workPower)
	s.TemperatureC += float64((aim - s.TemperatureC) * (1 - math.Exp(-1/inertia)))
	if hot {
		s.TemperatureC = max(s.TemperatureC, throttlesAt)
	}
	s.Missing = f.undelivered("gpus")
}

// snapshot is what the telemetry says now.
func (f *Fleet) snapshot() Snapshot {
	s := Snapshot{At: f.now, Node: f.node}
	for _, w := range f.workers {
		state := WorkerState{
			ID: w.id, Present: w.present, Missing: w.lost,
			Started: w.started,
			Running: w.running + w.ghostsRunning, Waiting: w.waiting + w.ghostsWaiting,
			KVUsage:   float64(w.blocks+w.ghostBlocks) / float64(f.scenario.Fleet.KVBlocks),
			Generated: w.generated, PromptTokens: w.prompted, PrefixQueries: w.queries, PrefixHits: w.hits,
			Preemptions: w.preemptions, Finished: w.finished,
		}
		state.Held = state.Running + state.Waiting
		if w.gaugeOff {
			state.Running = 0
		}
		if w.reads {
			state.Role = spec.RolePrefill
		}
		for i := range w.gpus {
			g := w.gpus[i].state
			g.Throttle = slices.Clone(g.Throttle)
			state.GPUs = append(state.GPUs, g.UUID)
			s.GPUs = append(s.GPUs, g)
		}
		s.Workers = append(s.Workers, state)
	}
	fe := &f.frontend
	s.Frontend = FrontendState{InFlight: fe.inFlight, Queued: fe.queued, Served: fe.served, Failed: fe.failed, Tokens: fe.tokens,
		Stalls: fe.stalls, Stalled: fe.stalled}
	if fe.frozen {
		s.Frontend.Stalled += f.now - fe.since
	}
	return s
}
