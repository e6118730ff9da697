package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"aicr/internal/spec"
)

// faults are what goes wrong, and when.
type faults struct {
	draws   func() *rand.Rand // the same each time: what is planned anew falls alike
	rng     *rand.Rand
	all     []spec.Fault
	from    time.Duration // what the windows' times count from
	first   int           // the episode that the first stretch is
	episode int           // that the next one is
	endless bool
	once    bool // windows at a time are of the first stretch alone, where no episodes are named
	warm    bool
	version int // windows of faults that have been replaced since are void
	active  []*window
}

// window is a stretch of time in which a fault is there.
type window struct {
	fault   *spec.Fault
	workers []int
	version int
}

// plan replaces the faults: what is there always begins now, and the windows of
// the first stretch are laid.
func (f *Fleet) plan(all []spec.Fault, warm bool) {
	fs := &f.faults
	fs.all, fs.from, fs.warm, fs.episode = all, f.now, warm, fs.first
	fs.rng = fs.draws()
	fs.version++
	fs.active = nil
	for i := range all {
		fault := &all[i]
		if fault.Kind == spec.GPUError {
			f.breakAsBefore(fault)
		}
		if f.always(fault) && f.fallsOn(fault) {
			f.planAlways(fault)
		}
	}
	f.derive()
	f.planPeriod()
}

// always says whether a fault, once there, stays. One of certain episodes does
// not when episodes follow one another.
func (f *Fleet) always(fault *spec.Fault) bool {
	return fault.Lasts == nil && !(f.faults.endless && len(fault.Episodes) > 0)
}

// fallsOn says whether a fault is one of this episode's.
func (f *Fleet) fallsOn(fault *spec.Fault) bool {
	return len(fault.Episodes) == 0 || slices.Contains(fault.Episodes, f.faults.episode)
}

// A GPU breaks between the first sample of its load and the second, so that its
// counters are seen to move, and stays broken.
const gpuBreaksAfter = 1500 * time.Millisecond

// breakAsBefore leaves the GPUs as the episodes before this one left them: what is
// broken does not heal.
func (f *Fleet) breakAsBefore(fault *spec.Fault) {
	times := 0
	for e := 1; e < f.faults.first; e++ {
		if len(fault.Episodes) == 0 || slices.Contains(fault.Episodes, e) {
			times++
		}
	}
	if fault.Lasts == nil {
		times = min(times, 1)
	}
	for range times {
		f.strike(f.window(fault))
	}
}

// planAlways begins a fault without a window.
func (f *Fleet) planAlways(fault *spec.Fault) {
	w := f.window(fault)
	switch {
	case fault.Kind == spec.GPUError:
		if f.faults.episode == firstEpisode(fault) {
			f.queue.push(event{at: f.now + gpuBreaksAfter, kind: begins, window: w})
		}
		return
	case fault.Kind == spec.ColdStart && f.faults.warm:
		return
	}
	f.faults.active = append(f.faults.active, w)
	f.strike(w)
}

func firstEpisode(fault *spec.Fault) int {
	if len(fault.Episodes) == 0 {
		return 1
	}
	return slices.Min(fault.Episodes)
}

func (f *Fleet) window(fault *spec.Fault) *window {
	return &window{fault: fault, workers: f.targets(fault), version: f.faults.version}
}

// targets are the workers that a fault falls on this time.
func (f *Fleet) targets(fault *spec.Fault) []int {
	switch w := fault.Workers; {
	case w == nil:
		return nil
	case w.Any:
		return []int{f.faults.rng.IntN(len(f.workers))}
	case w.All:
		all := make([]int, len(f.workers))
		for i := range all {
			all[i] = i
		}
		return all
	default:
		return w.List
	}
}

// planPeriod lays the windows of one stretch of the episode's length.
func (f *Fleet) planPeriod() {
	fs := &f.faults
	length := f.scenario.Load.Episode.D()
	for i := range fs.all {
		fault := &fs.all[i]
		switch {
		case f.always(fault) || !f.fallsOn(fault):
		case fs.once && fault.At != nil && len(fault.Episodes) == 0 && fs.episode != fs.first:
		case fault.Lasts == nil:
			f.lay(fault, fs.from, length)
		case fault.PerMinute != nil:
			every := float64(time.Minute) / *fault.PerMinute
			for at := fs.rng.ExpFloat64() * every; at < float64(length); at += fs.rng.ExpFloat64() * every {
				lasts := min(lognormal(fs.rng, float64(*fault.Lasts), *fault.Spread), math.MaxInt64/4)
				f.lay(fault, fs.from+time.Duration(at), time.Duration(lasts))
			}
		default:
			f.lay(fault, fs.from+fault.At.D(), fault.Lasts.D())
		}
	}
	if fs.endless {
		fs.episode++
		fs.from += length
		f.queue.push(event{at: fs.from, kind: period, window: &window{version: fs.version}})
	}
}

func (f *Fleet) lay(fault *spec.Fault, at, lasts time.Duration) {
	w := f.window(fault)
	f.queue.push(event{at: at, kind: begins, window: w})
	if end, ever := after(at, float64(lasts)); ever {
		f.queue.push(event{at: end, kind: ends, window: w})
	}
}

func (f *Fleet) begin(w *window) {
	if w.version != f.faults.version {
		return
	}
	f.faults.active = append(f.faults.active, w)
	f.strike(w)
	f.derive()
}

func (f *Fleet) cease(w *window) {
	if w.version != f.faults.version {
		return
	}
	f.faults.active = slices.DeleteFunc(f.faults.active, func(a *window) bool { return a == w })
	f.derive()
}

// strike does what a fault does once, when it begins.
func (f *Fleet) strike(w *window) {
	switch w.fault.Kind {
	case spec.GPUError:
		for _, i := range w.workers {
			f.workers[i].gpus[gpuOf(w.fault)].breakDown(w.fault)
		}
	case spec.ColdStart:
		for _, worker := range f.workers {
			worker.cold = w.fault.Takes.D()
		}
	default: // it is a state, which derive makes
	}
}

// derive makes of the faults that are there now what the workers and the
// frontend are like.
func (f *Fleet) derive() {
	type condition struct {
		absent, dead, wedged, gaugeOff bool
		slow, stall                    float64
	}
	is := make([]condition, len(f.workers))
	for i := range is {
		is[i] = condition{slow: 1, stall: 1}
		f.accrue(f.workers[i])
		for g := range f.workers[i].gpus {
			f.workers[i].gpus[g].slow = 1
		}
	}
	frozen, host := false, 1.0
	pods := !f.faults.has(spec.DRAStale) && !f.faults.has(spec.GPUsClaimed)
	// Two windows of one fault that overlap are there once, not twice.
	type effect struct {
		fault  *spec.Fault
		worker int
	}
	felt := map[effect]bool{}
	for _, a := range f.faults.active {
		for _, i := range a.workers {
			if felt[effect{a.fault, i}] {
				continue
			}
			felt[effect{a.fault, i}] = true
			c := &is[i]
			switch a.fault.Kind {
			case spec.WorkerSlow:
				c.slow *= *a.fault.Factor
				if g := a.fault.GPU; g != nil {
					f.workers[i].gpus[*g].slow *= *a.fault.Factor
				}
			case spec.WorkerStall:
				c.stall = max(c.stall, *a.fault.Factor)
			case spec.WorkerWedge:
				c.wedged = true
				c.gaugeOff = c.gaugeOff || a.fault.Running == "zero"
			case spec.WorkerMissing:
				c.absent = true
			case spec.WorkerDead:
				c.dead = true
			default: // not a worker's condition
			}
		}
		switch a.fault.Kind {
		case spec.FrontendFreeze:
			frozen = true
		case spec.HostSlow:
			if !felt[effect{a.fault, -1}] {
				host *= *a.fault.Factor
			}
			felt[effect{a.fault, -1}] = true
		default:
		}
	}
	var listed, reading []int
	for i, w := range f.workers {
		c := is[i]
		c.absent = c.absent || !pods
		f.settle(w)
		w.slow, w.stall, w.wedged, w.gaugeOff = c.slow, c.stall, c.wedged, c.gaugeOff
		if (c.absent && w.present) || (c.dead && !w.dead) {
			f.kill(w)
		}
		if !c.absent && !w.present { // who comes back is a new process
			w.counters, w.started = counters{}, f.now
		}
		if !w.wedged {
			w.ghosts = ghosts{}
		}
		w.present, w.dead = !c.absent, c.dead
		if w.busy {
			f.planStep(w)
		}
		switch {
		case w.present && w.reads:
			reading = append(reading, i)
		case w.present:
			listed = append(listed, i)
		}
	}
	f.view.listAnew(listed)
	f.prefill.listAnew(reading)
	f.frontend.slow = host
	f.frontend.freeze(frozen, f.now)
	if !frozen {
		f.work()
	}
}

func (fe *frontend) freeze(frozen bool, now time.Duration) {
	switch {
	case frozen && !fe.frozen:
		fe.since = now
	case !frozen && fe.frozen:
		fe.stalls++
		fe.stalled += now - fe.since
	}
	fe.frozen = frozen
}

// kill is a worker's process ending: what it had is told as an error inside the
// streams.
func (f *Fleet) kill(w *worker) {
	v := f.viewOf(w)
	// Of a copy, since who is dropped may be tidied away.
	for _, list := range [][]*Stream{w.batch, slices.Clone(w.queue)} {
		for _, s := range list {
			if s.state != running && s.state != waiting {
				continue
			}
			f.drop(w, s)
			v.count(w.index, -1)
			f.fail(s, ErrorTold, 0)
		}
	}
	clear(w.batch)
	clear(w.queue)
	clear(w.fresh)
	clear(w.due)
	w.batch, w.queue, w.fresh = w.batch[:0], w.queue[:0], w.fresh[:0]
	w.ghosts = ghosts{}
	w.cache, v.known[w.index] = newPrefixes(), newPrefixes()
	w.busy = false
	w.turn++
	w.life++
}

// fate is what chance has in store for one request.
type fate struct {
	status  int     // it is answered so
	empty   bool    // it is answered without content
	breakAs Outcome // its stream ends so in the middle
}

// draw takes a request's lot among the faults that fall on a share of them.
func (f *Fleet) draw() fate {
	var lot fate
	for _, a := range f.faults.active {
		switch a.fault.Kind {
		case spec.HTTPError:
			if f.fates.Float64() < *a.fault.Share && lot.status == 0 {
				lot.status = *a.fault.Status
			}
		case spec.StreamBreak:
			if f.fates.Float64() < *a.fault.Share && lot.breakAs == Unended {
				lot.breakAs = map[string]Outcome{"reset": Reset, "truncated": Truncated, "error-event": ErrorTold}[a.fault.How]
			}
		case spec.ZeroTokens:
			lot.empty = lot.empty || f.fates.Float64() < *a.fault.Share
		default:
		}
	}
	return lot
}

// tokens is how many of the tokens that were asked for will come.
func (t fate) tokens(asked int) int {
	if t.breakAs != Unended {
		return max(1, asked/2)
	}
	return asked
}

func (t fate) outcome() Outcome {
	switch {
	case t.empty:
		return Empty
	case t.breakAs != Unended:
		return t.breakAs
	}
	return Served
}

// keepsFromServing says which of the faults there keeps the frontend from
// serving at all.
func (fs *faults) keepsFromServing() (spec.FaultKind, bool) {
	for _, a := range fs.active {
		switch a.fault.Kind {
		case spec.DiscoveryPanic, spec.DRAStale, spec.GPUsClaimed:
			return a.fault.Kind, true
		default:
		}
	}
	return "", false
}

func (fs *faults) has(kind spec.FaultKind) bool {
	return slices.ContainsFunc(fs.active, func(a *window) bool { return a.fault.Kind == kind })
}

func (fs *faults) serving() bool {
	_, kept := fs.keepsFromServing()
	return !kept
}

// undelivered draws whether a sample of a source is lost.
func (f *Fleet) undelivered(source string) bool {
	lost := false
	for _, a := range f.faults.active {
		if a.fault.Kind == spec.TelemetryGap && a.fault.Source == source && f.telemetry.Float64() < *a.fault.Share {
			lost = true
		}
	}
	return lost
}
