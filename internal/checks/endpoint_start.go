package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/observe"
	"aicr/internal/spec"
)

// Start has the endpoint answer, then each worker that can be told apart. A page
// that says that all is well is not believed: only tokens are an answer.
func (e *Endpoint) Start(ctx context.Context, tell func(spec.Event) error) (ready bool, err error) {
	e.tell = tell
	if err := tell(spec.Event{Kind: spec.EventStage, Stage: "start"}); err != nil {
		return false, err
	}
	if e.o.Runtime != "" || e.o.Chart != "" {
		if err := tell(spec.Event{Kind: spec.EventVersions, Runtime: e.o.Runtime, Chart: e.o.Chart}); err != nil {
			return false, err
		}
	}
	logs := e.listen(ctx)
	w := &warmup{endpoint: e, begun: time.Now(), seen: newRoll(e.names)}
	w.until = w.begun.Add(e.o.AnswerWithin)
	err = w.first(ctx)
	if err == nil && e.probe != nil {
		err = w.everyone(ctx)
	}
	if err == nil && e.probe != nil {
		err = w.examine(ctx)
	}
	if err := errors.Join(err, logs()); err != nil {
		return false, err
	}
	if e.probe != nil {
		return true, nil
	}
	if len(w.seen.failed) > 0 {
		e.pages(ctx) // who was named goes by the name of its page
	}
	for _, event := range append(w.seen.failures(), w.notServed()...) {
		if err := tell(event); err != nil {
			return false, err
		}
	}
	return false, nil
}

// listen follows the logs that there are while nothing else is observed, and tells
// at its end what they said.
func (e *Endpoint) listen(ctx context.Context) (stop func() error) {
	logs := slices.DeleteFunc(slices.Clone(e.o.Sources), func(s observe.Source) bool {
		return s.Follower == nil || s.Kind == spec.SourceGPU
	})
	if len(logs) == 0 {
		return func() error { return nil }
	}
	watch, heard := observe.StartClock(), &gathered{}
	observer := observe.New(watch, e.o.Period, heard)
	observer.Set(context.WithoutCancel(ctx), logs)
	return func() error {
		observer.Close()
		return e.pass(heard.events, watch)
	}
}

// warmup is the time before the load.
type warmup struct {
	endpoint *Endpoint
	begun    time.Time
	until    time.Time

	asked int           // times that the endpoint was asked
	waves uint64        // that were sent
	last  *load.Failure // what was seen last of an endpoint that does not serve
	seen  *roll
}

// The pauses between two questions to a server that refuses.
const (
	shortestPause = 2 * time.Second
	longestPause  = 15 * time.Second
)

// first waits for the first answer with a token. It asks again when the server has
// refused, failed or broken the connection: it may be starting.
func (w *warmup) first(ctx context.Context) error {
	e := w.endpoint
	for pause := shortestPause; ; pause = min(longestPause, pause*3/2) {
		w.asked++
		failure := w.ask(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if failure == nil {
			took := e.probe.FirstAnswer.Seconds()
			if took >= 1 {
				e.note("first answer took %.0f s; warm", took)
			}
			return e.tell(spec.Event{Kind: spec.EventAnswer, Source: e.target.String(), Tokens: &e.probe.Got, Seconds: &took})
		}
		w.last = failure
		if settled(failure) || time.Until(w.until) < pause {
			return nil
		}
		e.note("not serving yet: %s", w.words())
		if !wait(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// ask sends one request and waits for it. One worker that hangs or fails must not
// stand for the whole fleet: when the one has got nowhere for long, or fails as one
// before it did, a handful more is sent. What is outstanding is left alone.
func (w *warmup) ask(ctx context.Context) *load.Failure {
	e := w.endpoint
	target, err := load.NewTarget(e.o.Target)
	if err == nil {
		err = target.Lookup(ctx)
	}
	if err != nil {
		return &load.Failure{Class: load.Connect, Message: err.Error(), Err: err}
	}
	probe := &load.Probe{Model: e.o.Model, Fields: workload.AllFields()}
	if probe.Model == "" {
		var failure *load.Failure
		if probe.Model, failure = onlyModel(ctx, target); failure != nil {
			return failure
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.NewTimer(e.patience())
	defer late.Stop()
	one, handful, sent := w.send(ctx, target, probe, 1, 1), (<-chan *load.Result)(nil), false
	var failure *load.Failure
	for one != nil || handful != nil {
		var res *load.Result
		more := false
		select {
		case res = <-one:
			one = nil
		case res = <-handful:
			handful = nil
		case <-late.C:
			if more = true; !sent {
				e.note("no answer to the first request within %s: others are sent, which may reach another worker", e.patience())
			}
		}
		if res != nil {
			w.seen.add(e, res)
			if served := firstServed(res); served != nil {
				probe.Got, probe.FirstAnswer = int(served.Tokens()), time.Duration(served.FirstContent-served.Sent)
				probe.Workers = served.Has(load.HasWorker)
				e.target, e.probe = target, probe
				return nil
			}
			failure = w.failureOf(ctx, target, res)
			if notUnderstood(failure) {
				return w.agree(ctx, target, probe.Model)
			}
			more = w.asked > 1 && servedBadly(failure)
		}
		if more && !sent && time.Now().Before(w.until) && ctx.Err() == nil {
			handful, sent = w.reach(ctx, target, probe), true
		}
	}
	return cmp.Or(failure, &load.Failure{Class: load.Interrupt, Message: "it could not be asked"})
}

// agree finds out what a server takes that does not take all that it was asked.
func (w *warmup) agree(ctx context.Context, target *load.Target, model string) *load.Failure {
	e := w.endpoint
	ctx, cancel := context.WithDeadline(ctx, w.until)
	defer cancel()
	s := e.workload(0)
	s.Model, s.Seed = model, e.o.Seed^warmSeed
	probe, err := load.Examine(ctx, target, s, max(time.Second, time.Until(w.until)))
	if err == nil {
		e.target, e.probe, e.examined = target, probe, true
		return nil
	}
	if f, ok := errors.AsType[*load.Failure](err); ok {
		return f
	}
	return &load.Failure{Class: load.Timeout, Message: err.Error(), Err: err}
}

// onlyModel asks for the one model that there is.
func onlyModel(ctx context.Context, target *load.Target) (string, *load.Failure) {
	models, err := target.Models(ctx)
	switch {
	case err != nil:
		return "", unlisted(err)
	case len(models) == 0:
		return "", &load.Failure{Class: load.HTTPStatus, Status: http.StatusNotFound, Message: "the server lists no model", Models: []string{}}
	case len(models) > 1:
		return "", &load.Failure{Class: load.BadStream, Message: fmt.Sprintf("no model was named, and the server has %d", len(models)), Models: load.Names(models)}
	}
	return models[0].ID, nil
}

// unlisted is how an endpoint failed that does not list its models, when none was named.
func unlisted(err error) *load.Failure {
	f := &load.Failure{Class: load.Reset, Message: "asking for the models: " + err.Error(), Err: err}
	if page, ok := errors.AsType[*load.PageError](err); ok {
		f.Class, f.Status = load.HTTPStatus, page.Status
		f.Message += "; --model NAME names one where the server does not list them"
	}
	return f
}

// firstServed is the first answer of a wave.
func firstServed(res *load.Result) (first *load.Record) {
	for r := range res.Log.All() {
		if r.OK() && (first == nil || r.End < first.End) {
			first = r
		}
	}
	return first
}

// failureOf is how the last request of a wave failed.
func (w *warmup) failureOf(ctx context.Context, target *load.Target, res *load.Result) *load.Failure {
	var last *load.Record
	for r := range res.Log.All() {
		if last == nil || r.End > last.End {
			last = r
		}
	}
	f := &load.Failure{Class: last.Class, Status: int(last.Status), Message: res.Log.Details[last.Detail]}
	switch {
	case f.Class == load.Timeout:
		f.Message = fmt.Sprintf("no answer with a token within %s", w.endpoint.o.AnswerWithin)
	case f.Status == http.StatusNotFound:
		if models, err := target.Models(ctx); err == nil {
			f.Models = load.Names(models)
		}
	}
	return f
}

// notUnderstood says that the server may take a request that is put otherwise: with
// fewer fields, or over another version of HTTP.
func notUnderstood(f *load.Failure) bool {
	switch f.Class {
	case load.HTTPStatus:
		return slices.Contains([]int{http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUpgradeRequired, http.StatusHTTPVersionNotSupported}, f.Status)
	case load.BadStream, load.TLSFailed:
		return true
	case load.OK, load.Connect, load.Timeout, load.Reset, load.Truncated, load.ErrorEvent, load.NoTokens,
		load.Oversized, load.Unsolicited, load.Interrupt:
	}
	return false
}

// settled says that to ask again is of no use: the server understands, and does not
// take such a request at all.
func settled(f *load.Failure) bool {
	switch f.Class {
	case load.HTTPStatus:
		switch f.Status {
		case http.StatusNotFound:
			return len(f.Models) > 0 // it has others
		case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
			return false
		}
		return f.Status < 500
	case load.BadStream, load.TLSFailed, load.Unsolicited:
		return true
	case load.OK, load.Connect, load.Timeout, load.Reset, load.Truncated, load.ErrorEvent, load.NoTokens,
		load.Oversized, load.Interrupt:
	}
	return false
}

// servedBadly says that a request reached somebody who did not serve it.
func servedBadly(f *load.Failure) bool {
	switch f.Class {
	case load.HTTPStatus:
		return f.Status >= 500
	case load.Timeout, load.Reset, load.Truncated, load.ErrorEvent, load.NoTokens, load.Oversized, load.Unsolicited:
		return true
	case load.OK, load.Connect, load.TLSFailed, load.BadStream, load.Interrupt:
	}
	return false
}

// notServed says what was seen of an endpoint that never served.
func (w *warmup) notServed() []spec.Event {
	at := ""
	if t, err := load.NewTarget(w.endpoint.o.Target); err == nil {
		at = t.String()
	}
	took, none := time.Since(w.begun).Seconds(), 0
	why, text := w.last.Class.String(), w.words()
	return []spec.Event{
		{Kind: spec.EventAnswer, Source: at, Reason: why, Text: text, Tokens: &none},
		{Kind: spec.EventNotServed, Source: at, Reason: why, Text: text, Count: w.asked, Seconds: &took},
	}
}

// words are those of the last failure, and which models there are where that
// matters.
func (w *warmup) words() string {
	text := w.last.Message
	switch models := w.last.Models; {
	case len(models) > 0:
		text += "; it has: " + someOf(models)
	case models != nil && !strings.Contains(text, "lists no model"):
		text += "; it lists no model"
	}
	return w.endpoint.clean(text)
}

// wait is a pause that ctx ends.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// expected is how many workers there should be; 0: not known.
func (e *Endpoint) expected() int {
	return cmp.Or(e.o.Workers, e.workerPages())
}

// What a warm-up sends.
const (
	warmSeed     = 0x5a3c_9d17_0000_0000 // its words are in no episode
	warmTokens   = 8
	mostWaves    = 3
	unknownFleet = 8 // workers to reckon with when nobody says how many there are

	// largestFleet is the most workers that a server is believed to have: it may name
	// each of its answers another worker, and the load grows with their number.
	largestFleet = 512
)

// reach sends as many short requests as it takes to reach every worker, even when
// they are chosen by chance: so many that one is left out once in 3000 times.
func (w *warmup) reach(ctx context.Context, target *load.Target, probe *load.Probe) <-chan *load.Result {
	n := float64(cmp.Or(w.endpoint.expected(), min(max(unknownFleet, 2*w.endpoint.answered), largestFleet)))
	return w.send(ctx, target, probe, int(2*n), int64(math.Ceil(n*(8+math.Log(n)))))
}

// send sends a wave. A request that hangs keeps its user, while the others go on.
// What comes is nil when ctx ends before.
func (w *warmup) send(ctx context.Context, target *load.Target, probe *load.Probe, users int, count int64) <-chan *load.Result {
	e := w.endpoint
	s := e.workload(0)
	s.Model, s.Fields, s.Calibration = probe.Model, probe.Fields, probe.Calibration
	s.OutputTokens = workload.Length{Mean: min(warmTokens, e.o.Point.OutputTokens)}
	s.Seed, s.Entries = e.o.Seed^warmSeed+w.waves<<16, 0
	w.waves++
	back := make(chan *load.Result, 1)
	work, err := workload.Synthetic(s)
	if err != nil {
		back <- nil
		return back
	}
	left := max(time.Second, time.Until(w.until))
	plan := &load.Plan{Target: target, Work: work, Seed: s.Seed, Main: load.Schedule{Users: users, Count: count, Duration: left},
		Timeout: left, Grace: time.Second, NoReuse: e.o.NoReuse || probe.Closes}
	go func() {
		res, err := drive(ctx, plan, nil)
		if err != nil {
			res = nil
		}
		back <- res
	}()
	return back
}

// everyone has each worker answer that can be told apart, and tells who did not.
func (w *warmup) everyone(ctx context.Context) error {
	e := w.endpoint
	if err := e.tell(spec.Event{Kind: spec.EventStage, Stage: "warm"}); err != nil {
		return err
	}
	pages := e.pages(ctx)
	lost := &lostWarm{}
	for wave := 0; e.probe.Workers && wave < mostWaves && time.Now().Before(w.until); wave++ {
		res := <-w.reach(ctx, e.target, e.probe)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if res == nil {
			break
		}
		pages = e.pages(ctx) // those that had nothing to tell of before
		before := e.answered
		w.seen.add(e, res)
		lost.add(e, res)
		e.answered = len(w.seen.answered.byName(e.names))
		// A fleet of unknown size may be larger than the wave was for: another is sent until
		// it names nobody new.
		if grows := e.expected() == 0 && e.answered > unknownFleet && e.answered > before; grows {
			continue
		}
		if len(w.seen.silent(pages)) == 0 && e.answered+reading(pages) >= e.o.Workers {
			break
		}
	}
	e.named = e.answered > 0 || e.probe.Workers
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.seen.locate(ctx, e, pages)
	told := w.seen.events(e, pages)
	if len(w.seen.silent(pages))+len(w.seen.failures()) == 0 { // else it is told whose they are
		told = append(told, lost.events()...)
	}
	for _, event := range told {
		if err := e.tell(event); err != nil {
			return err
		}
	}
	return nil
}

// reading is how many workers read prompts for those that answer, as far as their pages tell.
func reading(pages []page) (n int) {
	for i := range pages {
		if pages[i].reads {
			n++
		}
	}
	return n
}

// How often a warm server is examined, and how long it may take for one request.
const (
	mostExaminations = 2
	examineWithin    = 60 * time.Second
)

// examine finds out how a server counts and what its habits are, once it is warm:
// the probe asks one request after the other, which a cold fleet would answer one
// worker after the other. It can do without where a worker is in the way.
func (w *warmup) examine(ctx context.Context) error {
	e := w.endpoint
	for n := 0; n < mostExaminations && !e.examined; n++ {
		s := e.workload(0)
		s.Seed = e.o.Seed ^ warmSeed + uint64(n)
		probe, err := load.Examine(ctx, e.target, s, min(examineWithin, e.o.AnswerWithin))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			probe.Workers = probe.Workers || e.probe.Workers
			e.probe, e.examined = probe, true
		}
	}
	if !e.examined {
		e.note("the server could not be examined, since some of its answers fail or never come: prompts may be longer than declared by what its chat template adds")
	}
	for _, r := range e.probe.Refused {
		e.note("the server refuses %s, so it is left out: %s", r.Field, r.Message)
	}
	if e.probe.Closes {
		e.note("the server closes each connection after its answer and does not say so: each request has a new one")
	}
	if e.probe.Nagle == load.NagleOn {
		e.note("the server leaves Nagle's algorithm on: clients that do not acknowledge at once see its first token some 40 ms late")
	}
	return nil
}
