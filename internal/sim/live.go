package sim

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"aicr/internal/spec"
)

// Live moves a fleet as real time passes. It is safe for concurrent use.
type Live struct {
	speed float64
	epoch time.Time
	woken chan struct{} // something came in that Run does not know of

	mu     sync.Mutex
	fleet  *Fleet
	faults []spec.Fault
	begun  bool // a first request has come, from which the faults' windows count
	late   time.Duration
}

// NewLive makes a fleet that stands still until Run. Speed is how many seconds
// of the fleet pass in a second; 0 is 1. The windows of the scenario's faults
// count from the first request, and recur with each stretch of the episode's
// length.
func NewLive(s *spec.Scenario, seed uint64, speed float64) *Live {
	if speed == 0 {
		speed = 1
	}
	l := &Live{speed: speed, epoch: time.Now(), woken: make(chan struct{}, 1), faults: s.Faults}
	l.fleet = newFleet(withoutWindows(s), settings{seed: seed, episode: 1, eachToken: true, endless: true})
	return l
}

// Observe has o told what the workers see from now on.
func (l *Live) Observe(o Observer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fleet.observer = o
}

// Run moves the fleet until ctx is done.
func (l *Live) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.woken:
		}
		l.mu.Lock()
		now := l.now()
		if due := l.fleet.next(); due < now && l.fleet.frontend.inFlight > 0 {
			l.late = max(l.late, time.Duration(float64(now-due)/l.speed))
		}
		l.fleet.advance(now)
		next := l.fleet.next()
		l.mu.Unlock()
		timer.Reset(time.Until(l.epoch.Add(time.Duration(math.Ceil(float64(next) / l.speed)))))
	}
}

// now is the fleet's time. It never goes back, and never ahead of the clock.
func (l *Live) now() time.Duration {
	return max(l.fleet.now, time.Duration(float64(time.Since(l.epoch))*l.speed))
}

// Late is the longest that something happened after its time while there were
// requests, in real time, since Late was last asked: a machine that cannot keep up
// with the fleet. What is measured of a fleet that was late is the machine's doing.
func (l *Live) Late() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := l.late
	l.late = 0
	return late
}

// Now is the fleet's time since NewLive.
func (l *Live) Now() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now()
}

// Submit hands the fleet a request, which has arrived now. The client is called
// back by whoever moves the fleet, mostly Run, with the fleet locked: it must not
// block and must not call l.
func (l *Live) Submit(s *Stream, c Client) {
	l.mu.Lock()
	if !l.begun {
		l.begun = true
		l.fleet.advance(l.now())
		l.fleet.plan(l.faults, true)
	}
	l.fleet.submit(l.now(), s, c)
	l.mu.Unlock()
	l.wake()
}

func (l *Live) wake() {
	select {
	case l.woken <- struct{}{}:
	default: // it will look anyway
	}
}

// Abandon says that the client of s has gone away. It is told Ended, unless it
// has been already.
func (l *Live) Abandon(s *Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fleet.advance(l.now())
	l.fleet.abandon(s)
}

// Snapshot is the telemetry of this moment.
func (l *Live) Snapshot() Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fleet.snapshot()
}

// SetFaults replaces the faults, and mends what those before have left: GPUs are
// exchanged, who was to start cold is warm. Windows count from now; one at a time
// comes once, unless its fault names episodes.
func (l *Live) SetFaults(faults []spec.Fault) {
	l.mu.Lock()
	l.fleet.advance(l.now())
	for _, w := range l.fleet.workers {
		for i := range w.gpus {
			w.gpus[i].exchange()
		}
		w.cold = 0
	}
	l.fleet.faults.once = true
	l.faults = slices.Clone(faults)
	l.begun = true
	l.fleet.plan(l.faults, false)
	l.mu.Unlock()
	l.wake()
}

// Faults are those that were set last.
func (l *Live) Faults() []spec.Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.faults)
}

// Present are the workers that are there, by their number.
func (l *Live) Present() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fleet.listed()
}

// Serving says whether the frontend serves at all; when it does not, which
// fault keeps it from that: discovery-panic, dra-stale or gpus-claimed.
func (l *Live) Serving() (bool, spec.FaultKind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind, kept := l.fleet.faults.keepsFromServing()
	return !kept, kind
}
