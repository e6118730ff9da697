package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"aicr/internal/load"
	"aicr/internal/observe"
	"aicr/internal/sim"
	"aicr/internal/sim/serve"
	"aicr/internal/spec"
	"aicr/test/memnet"
)

const testModel = "tiny"

// fleetOf is a fleet of so many workers, small enough for a busy machine.
func fleetOf(t testing.TB, workers int, faults string) *spec.Scenario {
	t.Helper()
	s, _ := spec.NewScenario("small", "small")
	s.Fleet.Workers = workers
	s.Faults = faultsOf(t, s, faults)
	return s
}

func faultsOf(t testing.TB, s *spec.Scenario, text string) []spec.Fault {
	t.Helper()
	if text == "" {
		return nil
	}
	faults, err := spec.DecodeFaults([]byte(text), s)
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

// served is a fleet with all its pages on a network in memory, in virtual time.
type served struct {
	scenario *spec.Scenario
	fleet    *sim.Live
	frontend http.Handler   // what answers the load
	workers  []*http.Server // their pages
	options  EndpointOptions
}

func serveFleet(t *testing.T, s *spec.Scenario, f func(t *testing.T, f *served)) {
	t.Helper()
	live := &served{scenario: s}
	var server *serve.Server
	virtually(t, func(t *testing.T) http.Handler {
		live.fleet = sim.NewLive(s, 1, 0)
		server = serve.New(live.fleet, s, serve.Options{Model: testModel, Node: sim.NodeName})
		go live.fleet.Run(t.Context())
		live.frontend = server.Frontend()
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { live.frontend.ServeHTTP(w, r) })
	}, func(t *testing.T, network *memnet.Net, o EndpointOptions) {
		client := observe.NewClient(&http.Transport{DialContext: network.Dial})
		defer client.Close()
		open := func(host string, h http.Handler) *http.Server {
			srv := &http.Server{Handler: h}
			at := network.Listen(host + ":80")
			go func() { _ = srv.Serve(at) }()     // it ends by Close
			t.Cleanup(func() { _ = srv.Close() }) // some hang on purpose
			return srv
		}
		open("gpus.test", server.GPUs())
		open("node.test", server.Node())
		o.Model, o.Workers, o.Names, o.Seed = "", s.Fleet.Workers, map[string]string{}, 7
		o.Point = spec.OperatingPoint{Workers: s.Fleet.Workers, Concurrency: 4 * s.Fleet.Workers, RampS: 0.2, DurationS: 3,
			InputTokens: 48, OutputTokens: 24, Prompts: "unique", SentinelRate: 5}
		o.AnswerWithin, o.Grace, o.Period = time.Minute, 5*time.Second, 250*time.Millisecond
		o.Note = func(text string) { t.Log(text) }
		o.Sources = append(o.Sources, observe.Frontend(client, "http://"+frontendHost+"/metrics"),
			observe.DCGM(client, "http://gpus.test/metrics"), observe.NodeExporter(client, "http://node.test/metrics", ""))
		for i, w := range live.fleet.Snapshot().Workers {
			host, name := fmt.Sprintf("worker-%d.test", i), strconv.Itoa(i)
			live.workers = append(live.workers, open(host, server.Worker(i)))
			source := observe.Worker(client, "http://"+host+"/metrics", observe.Labels{})
			o.Sources = append(o.Sources, source)
			o.Names[strconv.FormatUint(w.ID, 10)], o.Names[source.Instance] = name, name
		}
		live.options = o
		f(t, live)
	})
}

// started is an endpoint that is ready, and what its start told.
func started(t *testing.T, o EndpointOptions) (*Endpoint, []spec.Event) {
	t.Helper()
	e, events, ready := start(t, o)
	if !ready {
		t.Fatalf("not ready: %+v", events)
	}
	return e, events
}

func start(t *testing.T, o EndpointOptions) (*Endpoint, []spec.Event, bool) {
	t.Helper()
	e, err := NewEndpoint(o)
	if err != nil {
		t.Fatal(err)
	}
	var events []spec.Event
	ready, err := e.Start(t.Context(), func(e spec.Event) error {
		events = append(events, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, events, ready
}

func loaded(t *testing.T, e *Endpoint, number int) *spec.EpisodeRecord {
	t.Helper()
	r, err := e.Load(t.Context(), number, e.o.Point)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// answers are the workers that answered with tokens, and why the others did not.
func answers(events []spec.Event) (with []string, without map[string]string) {
	without = map[string]string{}
	for _, e := range events {
		switch {
		case e.Kind != spec.EventAnswer || e.Worker == "":
		case e.Reason == "" && e.Tokens != nil && *e.Tokens > 0 && e.Seconds != nil:
			with = append(with, e.Worker)
		default:
			without[e.Worker] = e.Reason + ": " + e.Text
		}
	}
	return with, without
}

func kinds(events []spec.Event) string {
	var all []string
	for _, e := range events {
		all = append(all, strings.TrimSpace(e.Kind+" "+e.Stage))
	}
	return strings.Join(all, ", ")
}

func TestAHealthyFleetIsRecordedWhole(t *testing.T) {
	serveFleet(t, fleetOf(t, 2, ""), func(t *testing.T, f *served) {
		var mu sync.Mutex
		var last Progress
		f.options.Progress = func(p Progress) {
			mu.Lock()
			defer mu.Unlock()
			last = p
		}
		e, events := started(t, f.options)
		with, without := answers(events)
		if got := kinds(events); got != "stage start, answer, stage warm, workers, answer, answer" || !slices.Equal(with, []string{"0", "1"}) || len(without) > 0 {
			t.Errorf("the start told: %s; answered %v, not %v", got, with, without)
		}
		if w := events[3]; *w.Want != 2 || *w.Have != 2 {
			t.Errorf("%d of %d workers", *w.Have, *w.Want)
		}
		r := loaded(t, e, 3)
		ep := &r.Episode
		if ep.Number != 3 || ep.Requests.Served == 0 || ep.Requests.Failed > 0 || ep.Sentinel.Served < 10 || ep.Requests.Sent+ep.Sentinel.Sent != len(r.Requests) {
			t.Errorf("episode %d: %+v, sentinel %+v of %d lines", ep.Number, ep.Requests, ep.Sentinel, len(r.Requests))
		}
		share := 0.0
		var names []string
		for _, w := range ep.Workers {
			names, share = append(names, w.Worker), share+w.Share
		}
		if !slices.Equal(names, []string{"0", "1"}) || math.Abs(share-1) > 1e-9 {
			t.Errorf("workers %v have %v of the tokens", names, share)
		}
		var tokens, prompts int64
		for i := range r.Requests {
			q := &r.Requests[i]
			if q.Lane == "closed" && q.Class == "ok" {
				tokens, prompts = tokens+int64(q.Tokens), prompts+int64(q.Prompt)
				if q.Tokens != 24 || q.Prompt < 40 || q.Prompt > 56 || q.Worker == "" || q.Phase == "" {
					t.Errorf("request %+v", q)
				}
				if !(0 < q.Intended && q.Intended <= q.Sent && q.Sent < q.First && q.First < q.Last && q.Last <= q.End) || q.GapEnd-q.Gap < q.First {
					t.Errorf("stamps of %+v", q)
				}
			}
		}
		if ep.Tokens.Completion != tokens || ep.Tokens.Prompt != prompts {
			t.Errorf("tokens %+v, of lines %d and %d", ep.Tokens, tokens, prompts)
		}
		seen := map[string]int{}
		for _, s := range r.Series {
			if s.T < 0 {
				t.Errorf("a sample before the load: %+v", s)
			}
			if s.Gap == "" {
				seen[s.Source+" "+s.Name]++
			}
		}
		// The load takes 3 s and what its last requests need, less than half a second.
		for name, want := range map[string]int{"worker 0": 12, "worker 1": 12, "client client": 3} {
			if n := seen[name]; n < want || n > want+2 {
				t.Errorf("%d samples of %s, want %d: %v", n, name, want, seen)
			}
		}
		for _, source := range []string{spec.SourceGPU, spec.SourceNode, spec.SourceFrontend} {
			if !slices.ContainsFunc(ep.Samples, func(c spec.SampleCount) bool { return c.Source == source && c.Expected > c.Missing }) {
				t.Errorf("no samples of %s: %+v", source, ep.Samples)
			}
		}
		var before spec.ClientSample
		for _, s := range r.Series {
			if c := s.Client; c != nil {
				if c.Tokens < before.Tokens || c.Ended < before.Ended || c.Sent < c.Ended || c.Sent > int64(len(r.Requests)) {
					t.Errorf("the client was at %+v, after %+v", *c, before)
				}
				before = *c
			}
		}
		if before.Tokens == 0 || before.Ended == 0 {
			t.Errorf("the last look at the client was at %+v", before)
		}
		if _, err := time.Parse(time.RFC3339Nano, ep.Start); err != nil {
			t.Error(err)
		}
		if !ep.Client.Valid || ep.Client.StampLag.N == 0 || ep.Client.StampLag.Max != 0 || ep.Client.Cores == 0 || ep.Client.InFlight == nil {
			t.Errorf("the client's audit: %+v", ep.Client)
		}
		mu.Lock()
		defer mu.Unlock()
		if last.Episode != 3 || last.Sent == 0 || last.Tokens == 0 || !(last.TokensPerS >= 0) {
			t.Errorf("the last progress was %+v", last)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}

// What a prefix cache has kept of one episode must be of no use in another.
func TestNoEpisodeRepeatsAPrompt(t *testing.T) {
	serveFleet(t, fleetOf(t, 2, ""), func(t *testing.T, f *served) {
		f.options.Point.DurationS, f.options.Point.SentinelRate = 1, 0
		e, _ := started(t, f.options)
		before := f.fleet.Snapshot()
		for number := range 2 {
			loaded(t, e, number)
		}
		var hits int64
		for i, w := range f.fleet.Snapshot().Workers {
			hits += w.PrefixHits - before.Workers[i].PrefixHits
		}
		if hits != 0 {
			t.Errorf("%d tokens of the prompts were cached", hits)
		}
	})
}

// A stall that is set at a known time is found at that time in the requests and in
// the series: they have one clock.
func TestRequestsAndSeriesHaveOneClock(t *testing.T) {
	serveFleet(t, fleetOf(t, 2, ""), func(t *testing.T, f *served) {
		f.options.Point.DurationS, f.options.Point.SentinelRate = 5, 0
		e, _ := started(t, f.options)
		var set time.Time
		var once sync.Once
		e.o.Progress = func(p Progress) {
			if p.Elapsed > 1500*time.Millisecond {
				once.Do(func() {
					set = time.Now()
					f.fleet.SetFaults(faultsOf(t, f.scenario, `[{kind: worker-wedge, workers: [0, 1], at: 0s, lasts: 2s}]`))
				})
			}
		}
		r := loaded(t, e, 1)
		begun, err := time.Parse(time.RFC3339Nano, r.Episode.Start)
		if err != nil {
			t.Fatal(err)
		}
		want := set.Sub(begun).Seconds()
		near := func(what string, at, within float64) {
			t.Helper()
			if math.Abs(at-want) > within {
				t.Errorf("%s has the stall at %.3f s, and it was set at %.3f", what, at, want)
			}
		}
		var longest *spec.Request
		for i := range r.Requests {
			if q := &r.Requests[i]; longest == nil || q.Gap > longest.Gap {
				longest = q
			}
		}
		near("the client", float64(longest.GapEnd-longest.Gap)/1e9, 0.05) // a token or two
		for _, name := range []string{"0", "1"} {
			// The longest stretch in which the counter stands still.
			var still, at float64
			var since, value float64
			for _, s := range r.Series {
				if s.Source != spec.SourceWorker || s.Name != name || s.Worker == nil || s.Worker.Generated == nil {
					continue
				}
				now := float64(s.T) / 1e9
				if *s.Worker.Generated != value {
					since, value = now, *s.Worker.Generated
				}
				if now-since > still {
					still, at = now-since, since
				}
			}
			if still < 1.5 || still > 2.5 {
				t.Errorf("worker %s stood still for %.2f s", name, still)
			}
			near("worker "+name, at, f.options.Period.Seconds()+0.05)
		}
	})
}

func TestASlowWorkerIsTheSlowOneOfTheRecord(t *testing.T) {
	serveFleet(t, fleetOf(t, 2, `[{kind: worker-slow, workers: [1], factor: 4}]`), func(t *testing.T, f *served) {
		f.options.Point.DurationS = 4
		e, _ := started(t, f.options)
		r := loaded(t, e, 1)
		w := r.Episode.Workers
		if len(w) != 2 || w[1].Worker != "1" || w[0].ITLMS == nil || w[1].ITLMS == nil || *w[1].ITLMS < 3**w[0].ITLMS || w[1].Share > 0.4 {
			t.Errorf("workers %+v", w)
		}
	})
}

// A worker that is gone is missed by its name: of the pages, the one that is not
// there any more, and of the requests, those that the others serve.
func TestAWorkerThatIsKilledIsMissedByName(t *testing.T) {
	serveFleet(t, fleetOf(t, 2, ""), func(t *testing.T, f *served) {
		f.options.Point.DurationS = 3
		e, _ := started(t, f.options)
		var once sync.Once
		e.o.Progress = func(p Progress) {
			if p.Elapsed > time.Second {
				once.Do(func() {
					f.fleet.SetFaults(faultsOf(t, f.scenario, `[{kind: worker-dead, workers: [1]}]`))
					_ = f.workers[1].Close()
				})
			}
		}
		r := loaded(t, e, 1)
		refused := 0
		for _, s := range r.Series {
			if s.Source == spec.SourceWorker && s.Gap != "" && s.Name == "1" {
				refused++
			}
			if s.Source == spec.SourceWorker && s.Name != "0" && s.Name != "1" {
				t.Errorf("a sample of nobody: %+v", s)
			}
		}
		if refused == 0 {
			t.Error("no gap is worker 1's")
		}
		if r.Episode.Requests.Classes["http-status"] == 0 {
			t.Errorf("no request failed: %+v", r.Episode.Requests)
		}

		// A run that begins now finds it out before any load.
		_, events := started(t, f.options)
		with, without := answers(events)
		if !slices.Equal(with, []string{"0"}) || !strings.Contains(without["1"], "silent: no answer came from it") || !strings.Contains(without["1"], spec.GapRefused) {
			t.Errorf("answered %v, not %v", with, without)
		}
	})
}

// By count, after a wave that is in no figure: what the published gate does.
func TestAnEpisodeByCountHasAWaveBefore(t *testing.T) {
	serveFleet(t, fleetOf(t, 2, ""), func(t *testing.T, f *served) {
		p := &f.options.Point
		p.Requests, p.Wave, p.SentinelRate, p.DurationS, p.RampS = 40, true, 0, 0, 0
		e, _ := started(t, f.options)
		before := f.fleet.Snapshot().Frontend.Served
		r := loaded(t, e, 1)
		if n := f.fleet.Snapshot().Frontend.Served - before; n != 48 || len(r.Requests) != 40 || r.Episode.Requests.Served != 40 {
			t.Errorf("%v were served, %d are recorded: %+v", n, len(r.Requests), r.Episode.Requests)
		}
		if d := r.Episode.Point.DurationS; d <= 0 {
			t.Errorf("the load took %v s", d)
		}
		for _, s := range r.Series {
			if c := s.Client; c != nil && (c.Sent > 40 || c.Sent < 0 || c.Tokens > 40*24 || c.Tokens < 0) {
				t.Errorf("the wave is counted: %+v", c)
			}
		}
	})
}

func TestEachUserSendsAsManyOfTheWaveAsAreAskedFor(t *testing.T) {
	serveFleet(t, fleetOf(t, 2, ""), func(t *testing.T, f *served) {
		p := &f.options.Point
		p.Requests, p.Wave, p.WavePerUser, p.SentinelRate, p.DurationS, p.RampS = 40, true, 3, 0, 0, 0
		e, _ := started(t, f.options)
		before := f.fleet.Snapshot().Frontend.Served
		r := loaded(t, e, 1)
		if n := int(f.fleet.Snapshot().Frontend.Served - before); n != 3*p.Concurrency+40 || len(r.Requests) != 40 {
			t.Errorf("%v were served, %d are recorded, want %d before those", n, len(r.Requests), 3*p.Concurrency)
		}
	})
}

// What hangs when the time is up is recorded as interrupted, with the stamp of its
// last token.
func TestAStreamThatHangsIsInterrupted(t *testing.T) {
	serveFleet(t, fleetOf(t, 2, ""), func(t *testing.T, f *served) {
		f.options.Grace = 500 * time.Millisecond
		f.options.Point.DurationS, f.options.Point.OutputTokens = 2, 200
		e, _ := started(t, f.options)
		var once sync.Once
		e.o.Progress = func(p Progress) {
			if p.Tokens > 40 {
				once.Do(func() { f.fleet.SetFaults(faultsOf(t, f.scenario, `[{kind: worker-wedge, workers: [0, 1]}]`)) })
			}
		}
		r := loaded(t, e, 1)
		hung := 0
		for i := range r.Requests {
			if q := &r.Requests[i]; q.Class == "interrupted" && q.First > 0 && q.Last >= q.First && q.Last < q.End && q.Tokens > 0 && q.Worker != "" {
				hung++
			}
		}
		if hung < 4 || r.Episode.Requests.Interrupted != f.options.Point.Concurrency {
			t.Errorf("%d streams hang in the record: %+v", hung, r.Episode.Requests)
		}
	})
}

// An interrupt does not wait for the grace.
func TestAnInterruptedLoadEndsSoon(t *testing.T) {
	serveFleet(t, fleetOf(t, 2, ""), func(t *testing.T, f *served) {
		f.options.Grace = time.Hour
		e, _ := started(t, f.options)
		f.fleet.SetFaults(faultsOf(t, f.scenario, `[{kind: worker-wedge, workers: [0, 1]}]`))
		ctx, cancel := context.WithCancelCause(t.Context())
		var stopped time.Time
		e.o.Progress = func(p Progress) {
			if p.InFlight > 4 && stopped.IsZero() {
				stopped = time.Now()
				cancel(errStopped)
			}
		}
		r, err := e.Load(ctx, 1, e.o.Point)
		if took := time.Since(stopped); r != nil || !errors.Is(err, errStopped) || took > leaveWithin {
			t.Errorf("%v, %v after %s", r, err, took)
		}
	})
}

func TestAllThatIsWrongIsSaidAtOnce(t *testing.T) {
	_, err := NewEndpoint(EndpointOptions{Target: load.TargetOptions{URL: "ftp://there"},
		Point: spec.OperatingPoint{Prompts: "many", RampS: -1, InputTokens: 1, OutputTokens: 0}})
	for _, part := range []string{"scheme", "concurrency of 0", "neither a duration nor", "ramp", `prompts "many"`, "output tokens"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("nothing is said of %q: %v", part, err)
		}
	}
}

// A name that labels give is that of the answers too, and one of several engines
// keeps its number.
func TestOneNameJoinsPageAndAnswers(t *testing.T) {
	n := &names{given: map[string]string{"17": "a", "10.0.0.1:9090": "b"}, learned: map[string]string{"18": "c"}}
	for _, c := range []struct{ name, instance, want string }{
		{"17", "elsewhere:1", "a"}, {"17/1", "elsewhere:1", "a/1"}, {"10.0.0.1:9090", "10.0.0.1:9090", "b"},
		{"99", "10.0.0.1:9090", "b"}, {"99", "elsewhere:1", "99"}, {"", "elsewhere:1", "elsewhere:1"},
	} {
		if got := n.ofPage(c.name, c.instance); got != c.want {
			t.Errorf("%q at %q is %q, want %q", c.name, c.instance, got, c.want)
		}
	}
	for id, want := range map[uint64]string{17: "a", 18: "c", 19: "19"} {
		if got := n.ofID(id); got != want {
			t.Errorf("%d is %q, want %q", id, got, want)
		}
	}
}
