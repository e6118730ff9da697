package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"aicr/internal/spec"
)

// Observer asks sources, each on a schedule of its own, so that one that hangs
// delays nobody else's samples.
type Observer struct {
	clock  Clock
	period time.Duration
	sink   Sink
	seed   uint64 // of the moments

	queue     chan any // spec.Sample or spec.Event
	delivered chan struct{}
	watching  sync.WaitGroup

	mu      sync.Mutex
	sources map[string]*watch
	owners  map[string]owner // by kind and name: who tells of it
	closed  bool
}

// backlog is how many samples may wait for a sink that is busy. When it is full,
// sources wait, and what they miss becomes a gap.
const backlog = 4096

// New starts an observer without sources. Close ends it.
func New(clock Clock, period time.Duration, sink Sink) *Observer {
	o := &Observer{
		clock: clock, period: period, sink: sink, seed: rand.Uint64(),
		queue: make(chan any, backlog), delivered: make(chan struct{}),
		sources: map[string]*watch{}, owners: map[string]owner{},
	}
	go func() {
		defer close(o.delivered)
		for said := range o.queue {
			switch said := said.(type) {
			case spec.Sample:
				o.sink.Sample(said)
			case spec.Event:
				o.sink.Event(said)
			}
		}
	}()
	return o
}

// Set observes these sources from now on, and no others. One that was observed
// before goes on undisturbed.
func (o *Observer) Set(ctx context.Context, sources []Source) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	wanted := map[string]bool{}
	for _, s := range sources {
		key := fmt.Sprintf("%s %s %s %+v", s.Kind, s.Instance, s.Address, s.Labels)
		if wanted[key] {
			continue
		}
		wanted[key] = true
		if o.sources[key] != nil {
			continue
		}
		watched, stop := context.WithCancel(ctx)
		w := &watch{o: o, source: s, stop: stop, names: map[string]*known{}}
		o.sources[key] = w
		o.watching.Go(func() {
			defer w.leave()
			if s.Follower != nil {
				w.follow(watched)
			} else {
				w.poll(watched)
			}
		})
	}
	for key, w := range o.sources {
		if !wanted[key] {
			w.unlisted.Store(true)
			w.stop()
			delete(o.sources, key)
		}
	}
}

// owner is who tells of a thing, and when it last did.
type owner struct {
	watch *watch
	heard time.Duration
}

// claim says who tells of a thing: the first who did, until it no longer does. Two
// who tell of the same would make one series of two.
func (o *Observer) claim(w *watch, name string, at time.Duration) *watch {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := w.source.Kind + " " + name
	if now := o.owners[key]; now.watch != nil && now.watch != w && at-now.heard <= 3*o.period {
		return now.watch
	}
	o.owners[key] = owner{w, at}
	return w
}

// owns says whether it is still the one who tells of a thing.
func (o *Observer) owns(w *watch, name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.owners[w.source.Kind+" "+name].watch == w
}

func (o *Observer) disown(w *watch, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if key := w.source.Kind + " " + name; o.owners[key].watch == w {
		delete(o.owners, key)
	}
}

// Close ends all observation. What was observed has reached the sink when it
// returns.
func (o *Observer) Close() {
	o.mu.Lock()
	o.closed = true
	for _, w := range o.sources {
		w.stop()
	}
	o.mu.Unlock()
	o.watching.Wait()
	close(o.queue)
	<-o.delivered
}

// moments is how many of them a period has. To wake up costs as much as to ask, so
// that sources share the moments at which they are asked: one after the other, a
// fleet of 64 takes three times the CPU.
const moments = 10

// moment is when the nth is, jittered alike for everyone.
func (o *Observer) moment(n int64) time.Duration {
	chance := rand.New(rand.NewPCG(o.seed, uint64(n)))
	every := o.period / moments
	return time.Duration(n)*every + time.Duration(chance.Int64N(int64(every/2)))
}

// watch is the observation of one source.
type watch struct {
	o        *Observer
	source   Source
	stop     context.CancelFunc
	unlisted atomic.Bool // nobody wants it any more

	mu    sync.Mutex
	names map[string]*known
	why   string // a follower says nothing, when it does not
}

// What is remembered of the things that a source has told of and tells of no more: so many
// of them, for so long. A page that names others each time must not fill the memory, nor
// have a gap told for everything that it ever named.
const (
	mostMissed = 256
	missedFor  = 2 * time.Minute
)

// known is a thing that the source has told of.
type known struct {
	heard                time.Duration // when it was last told of
	notMeasured, derived map[string]string
}

// poll asks about once a period. A source keeps its own tenth of the period or the
// one after, by chance each time, and stays on that grid: slow answers do not make
// the samples fewer, and a fleet is asked neither at once nor in step with what it
// does by itself.
func (w *watch) poll(ctx context.Context) {
	period := w.o.period
	begin := int64(w.o.clock.Now()/(period/moments)) + 1 + rand.Int64N(moments)
	for slot := int64(0); ; slot++ {
		due := w.o.moment(begin + slot*moments + rand.Int64N(2))
		if !sleep(ctx, due-w.o.clock.Now()) {
			return
		}
		if missed := (w.o.clock.Now() - due) / period; missed > 0 {
			// Whoever stopped this program stopped the samples, not the servers.
			for range missed {
				w.gap(due, 0, fmt.Sprintf("%s was late by %s", spec.GapObserver, missed*period))
				due += period
				slot++
			}
		}
		w.ask(ctx)
	}
}

func (w *watch) ask(ctx context.Context) {
	timeout := timeoutOf(w.o.period)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := w.o.clock.Now()
	samples, err := w.source.Reader.Read(limited)
	took := w.o.clock.Now() - began
	middle := began + took/2
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded):
		w.gap(middle, took, fmt.Sprintf("%s %s", spec.GapNoAnswer, timeout))
	case err != nil:
		w.gap(middle, took, err.Error())
	case took > w.o.period:
		w.gap(middle, took, fmt.Sprintf("%s: it took %s", spec.GapLate, took.Round(time.Millisecond)))
	default:
		w.told(middle, took, samples)
	}
}

// told passes on what a page says, and what it no longer does.
func (w *watch) told(at, took time.Duration, samples []spec.Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := map[string]bool{}
	for _, s := range samples {
		now[w.say(at, took, s)] = true
	}
	var missed []string
	for _, name := range slices.Sorted(maps.Keys(w.names)) {
		if now[name] {
			continue
		}
		w.put(spec.Sample{T: int64(at), Took: int64(took), Source: w.source.Kind, Name: name, Gap: spec.GapOffPage})
		if w.source.Kind != spec.SourceGPU || at-w.names[name].heard > missedFor {
			w.forget(name) // a worker that starts anew has another name; a GPU that is gone is missed
			continue
		}
		missed = append(missed, name)
	}
	w.forgetMost(missed)
}

// forgetMost leaves no more of the things that are missed than are remembered: those that
// were heard last.
func (w *watch) forgetMost(missed []string) {
	if len(missed) <= mostMissed {
		return
	}
	slices.SortFunc(missed, func(a, b string) int {
		return cmp.Or(cmp.Compare(w.names[a].heard, w.names[b].heard), strings.Compare(a, b))
	})
	for _, name := range missed[:len(missed)-mostMissed] {
		w.forget(name)
	}
}

func (w *watch) forget(name string) {
	delete(w.names, name)
	w.o.disown(w, name)
}

// say passes on one sample and returns the name it goes by.
func (w *watch) say(at, took time.Duration, s spec.Sample) string {
	s.T, s.Took, s.Source = int64(at), int64(took), w.source.Kind
	s.Name = w.name(s.Name)
	if owner := w.o.claim(w, s.Name, at); owner != w {
		if w.source.Labels.Name == "" {
			s = spec.Sample{T: s.T, Took: s.Took, Source: s.Source, Name: w.source.Instance,
				Gap: fmt.Sprintf("this is %s %s, which is asked at %s already", s.Source, s.Name, owner.source.Instance)}
			w.put(s)
			return s.Name
		}
		s.Name += "@" + w.source.Instance // the name was given, to several
	}
	if s.Worker != nil {
		s.Worker.Pod = cmp.Or(w.source.Labels.Pod, s.Worker.Pod)
		s.Worker.GPU = cmp.Or(w.source.Labels.GPU, s.Worker.GPU)
		if gpus := strings.Split(s.Worker.GPU, ","); len(gpus) > 1 {
			s.Worker.GPU, s.Worker.GPUs = "", gpus
		}
		s.Worker.Role = cmp.Or(w.source.Labels.Role, s.Worker.Role)
	}
	k := w.names[s.Name]
	if k == nil {
		if w.source.Follower != nil {
			w.forgetMost(slices.Collect(maps.Keys(w.names))) // what it names is never off a page
		}
		k = &known{}
		w.names[s.Name] = k
	} else if w.source.Follower != nil && w.source.Kind == spec.SourceGPU && at-k.heard < w.o.period/2 {
		return s.Name // it waited in the pipe while this program stood still: nobody knows when it was said
	} else if maps.Equal(k.notMeasured, s.NotMeasured) && maps.Equal(k.derived, s.Derived) {
		s.NotMeasured, s.Derived = nil, nil // said before
	}
	if s.NotMeasured != nil || s.Derived != nil {
		k.notMeasured, k.derived = s.NotMeasured, s.Derived
	}
	k.heard = at
	w.put(s)
	return s.Name
}

// name is what a thing goes by. An engine of several keeps its number behind a
// name that was given, or behind its place where its worker has none.
func (w *watch) name(told string) string {
	given := w.source.Labels.Name
	if i := strings.LastIndexByte(told, '/'); i >= 0 && (given != "" || i == 0) {
		return cmp.Or(given, w.source.Instance) + told[i:]
	}
	return cmp.Or(given, told, w.source.Instance)
}

// leave ends the observation of a source: when nobody wants it any more, that is
// why there is nothing more of it.
func (w *watch) leave() {
	if w.unlisted.Load() {
		w.gap(w.o.clock.Now(), 0, spec.GapUnlisted)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.names {
		w.o.disown(w, name)
	}
}

// gap says that there is no sample of anything that the source tells of.
func (w *watch) gap(at, took time.Duration, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := spec.Sample{T: int64(at), Took: int64(took), Source: w.source.Kind, Gap: why}
	maps.DeleteFunc(w.names, func(name string, _ *known) bool { return !w.o.owns(w, name) })
	if len(w.names) == 0 {
		s.Name = cmp.Or(w.source.Labels.Name, w.source.Instance)
		w.put(s)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(w.names)) {
		s.Name = name
		w.put(s)
	}
}

func (w *watch) put(s spec.Sample) {
	s.Instance = w.source.Instance
	w.o.queue <- s
}

// again is how long after its end a follower is started anew.
const again = 5 * time.Second

// follow listens until ctx ends. Between two starts, and when a source that
// should speak every period is silent, there are gaps.
func (w *watch) follow(ctx context.Context) {
	var watchdog sync.WaitGroup
	defer watchdog.Wait()
	if w.source.Kind == spec.SourceGPU {
		watchdog.Go(func() { w.miss(ctx) })
	}
	for {
		w.silent("nothing was said for over a period")
		err := w.source.Follower.Follow(ctx, Tell{
			Sample: func(s spec.Sample) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.say(w.o.clock.Now(), 0, s)
			},
			Event: func(e spec.Event) {
				e.T = w.o.clock.Now().Seconds()
				e.Source = cmp.Or(e.Source, w.source.Instance)
				w.o.queue <- e
			},
		})
		if ctx.Err() != nil {
			return
		}
		why := "it ended"
		if err != nil {
			why = oneLine(err.Error())
		}
		if w.source.Kind != spec.SourceGPU {
			w.ended(why, errors.Is(err, errLogEnded))
			return // a log that has ended has said all it had to say
		}
		w.silent(why)
		w.gap(w.o.clock.Now(), 0, why)
		if !sleep(ctx, again) {
			return
		}
	}
}

// ended says that there will be no more. It is a gap only where a log could not be
// read: the end of one is not that of its server.
func (w *watch) ended(why string, read bool) {
	now := w.o.clock.Now()
	w.o.queue <- spec.Event{T: now.Seconds(), Kind: spec.EventLog, Source: w.source.Instance, Reason: "ended", Text: why}
	if !read {
		w.gap(now, 0, why)
	}
}

func (w *watch) silent(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.why = why
}

// miss makes a gap of every period in which a thing that was told of is not.
func (w *watch) miss(ctx context.Context) {
	period := w.o.period
	for sleep(ctx, period) {
		now := w.o.clock.Now()
		w.mu.Lock()
		for _, name := range slices.Sorted(maps.Keys(w.names)) {
			if now-w.names[name].heard > period*3/2 {
				w.put(spec.Sample{T: int64(now), Source: w.source.Kind, Name: name, Gap: w.why})
			}
		}
		w.mu.Unlock()
	}
}

// sleep waits, and reports whether it was not ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
