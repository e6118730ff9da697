package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"aicr/internal/spec"
)

// How long a deployment is given, before any load, to serve at all and to have
// each of its workers answer.
const (
	servesWithin  = 120 * time.Second
	answersWithin = 300 * time.Second
	warmTokens    = 8
)

// version is what a simulated deployment says it runs when no fault has it say
// another.
const version = "1.4.1"

// Start deploys the scenario's fleet and has each worker answer once. It gives
// what there was to see, and whether the fleet can be loaded. What goes wrong
// within a window has not begun yet.
func Start(s *spec.Scenario, seed uint64) (events []spec.Event, ready bool) {
	d := &deployment{scenario: s}
	ready = d.starts() && d.warms(seed)
	slices.SortStableFunc(d.events, func(a, b spec.Event) int { return cmp.Compare(a.T, b.T) })
	return d.events, ready
}

// deployment is a fleet before its load, and what is seen of it.
type deployment struct {
	scenario *spec.Scenario
	events   []spec.Event
}

func (d *deployment) tell(at time.Duration, e spec.Event) {
	e.T = at.Seconds()
	d.events = append(d.events, e)
}

// starts says whether the frontend comes to serve.
func (d *deployment) starts() bool {
	n, gpus := d.scenario.Fleet.Workers, d.scenario.Fleet.GPUs()
	free, runtime, chart := gpus, version, version
	panicked := find(d.scenario, spec.DiscoveryPanic)
	if find(d.scenario, spec.GPUsClaimed) != nil {
		free = 0
	}
	if panicked != nil {
		runtime, chart = orElse(panicked.Runtime, version), orElse(panicked.Chart, version)
	}
	d.tell(0, spec.Event{Kind: spec.EventStage, Stage: "start"})
	d.tell(0, spec.Event{Kind: spec.EventGPUs, Source: NodeName, Want: &gpus, Have: &free})
	d.tell(0, spec.Event{Kind: spec.EventVersions, Runtime: runtime, Chart: chart})
	switch {
	case free == 0:
		return false
	case find(d.scenario, spec.DRAStale) != nil:
		for i := range n {
			d.tell(time.Second, spec.Event{Kind: spec.EventPod, Source: "worker-" + strconv.Itoa(i), Worker: strconv.Itoa(i),
				Reason: "FailedPrepareDynamicResources", Text: StaleDRA})
		}
		d.tell(servesWithin, spec.Event{Kind: spec.EventNotServed, Text: "pods stay in ContainerCreating"})
		return false
	case panicked != nil:
		for _, l := range PanicLines(panicked) {
			d.tell(time.Second, spec.Event{Kind: spec.EventLog, Source: frontendName, Text: l.Text, Count: l.Count})
		}
		d.tell(servesWithin, spec.Event{Kind: spec.EventNotServed, Text: "the frontend is up and no completion came"})
		return false
	}
	return true
}

// warms has each worker that is there answer once, and says whether any did.
func (d *deployment) warms(seed uint64) (ready bool) {
	w := warmer{}
	f := newFleet(withoutWindows(d.scenario), settings{seed: seed, episode: 1})
	want, present := len(f.workers), len(f.listed())
	d.tell(0, spec.Event{Kind: spec.EventStage, Stage: "warm"})
	d.tell(0, spec.Event{Kind: spec.EventWorkers, Want: &want, Have: &present})
	streams := map[int]*Stream{}
	for _, i := range f.listed() {
		streams[i] = &Stream{Prompt: d.scenario.Load.InputTokens, Output: warmTokens, Pin: i + 1}
		f.submit(0, streams[i], w)
	}
	for len(w) < present && f.next() <= answersWithin {
		f.advance(f.next())
	}
	for _, i := range f.listed() {
		a := streams[i]
		e := spec.Event{Kind: spec.EventAnswer, Worker: strconv.Itoa(i)}
		at, ended := w[a]
		switch {
		case !ended:
			at = answersWithin
			e.Reason, e.Text = "silent", fmt.Sprintf("no whole answer within %v", answersWithin)
		case a.Outcome == Served:
			e.Tokens, e.Seconds = &a.Given, seconds(a.First)
			ready = true
		default:
			e.Tokens = &a.Given
			e.Reason, _, e.Text = ending(a)
		}
		d.tell(at, e)
	}
	if !ready {
		d.tell(answersWithin, spec.Event{Kind: spec.EventNotServed, Text: "no worker answered with a token"})
	}
	return ready
}

// warmer notes when the first answers ended.
type warmer map[*Stream]time.Duration

func (warmer) Routed(time.Duration, *Stream)        {}
func (warmer) Token(time.Duration, *Stream)         {}
func (w warmer) Ended(now time.Duration, s *Stream) { w[s] = now }

// find finds a fault that is there before any load.
func find(s *spec.Scenario, kind spec.FaultKind) *spec.Fault {
	for i := range s.Faults {
		f := &s.Faults[i]
		if f.Kind == kind && f.Lasts == nil && (len(f.Episodes) == 0 || slices.Contains(f.Episodes, 1)) {
			return f
		}
	}
	return nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func seconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

// StaleDRA is what the kubelet says when the DRA plugin was not restarted after
// the driver.
const StaleDRA = "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim: invalid device, empty device edits"

// LogLine is a line of a log and how often it came.
type LogLine struct {
	Text  string
	Count int
}

// The counts of the published panic, where a fault does not say others.
const (
	publishedPanics  = 24
	publishedBuckets = 97
)

// PanicLines are what the frontend logs when its discovery has panicked.
func PanicLines(f *spec.Fault) []LogLine {
	count := func(said *int, otherwise int) int {
		if said == nil {
			return otherwise
		}
		return *said
	}
	return slices.DeleteFunc([]LogLine{
		{"thread 'tokio-runtime-worker' panicked: Unfold must not be polled after it returned Poll::Ready(None)", count(f.Panics, publishedPanics)},
		{"KVStoreDiscovery::list: bucket missing for query=AllEndpoints, bucket=v1/instances", count(f.BucketMissing, publishedBuckets)},
	}, func(l LogLine) bool { return l.Count == 0 })
}
