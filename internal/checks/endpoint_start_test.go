package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/load"
	"aicr/internal/observe"
	"aicr/internal/sim"
	"aicr/internal/sim/serve"
	"aicr/internal/spec"
	"aicr/test/memnet"
)

// pageOf is a worker's page that says who it is.
type pageOf struct{ id uint64 }

func (p pageOf) Read(context.Context) ([]spec.Sample, error) {
	return []spec.Sample{{Name: strconv.FormatUint(p.id, 10), Worker: &spec.WorkerSample{}}}, nil
}

const frontendHost = "frontend.test"

// virtually runs f in virtual time beside a server.
func virtually(t *testing.T, handler func(t *testing.T) http.Handler, f func(t *testing.T, network *memnet.Net, o EndpointOptions)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network, address := &memnet.Net{}, frontendHost+":80"
		srv, at := &http.Server{Handler: handler(t)}, network.Listen(address)
		go func() { _ = srv.Serve(at) }() // it ends by Close
		defer srv.Close()
		f(t, network, EndpointOptions{
			Target: load.TargetOptions{URL: "http://" + frontendHost, Dial: network.To(address)}, Model: testModel,
			Point: spec.OperatingPoint{Concurrency: 4, DurationS: 5, InputTokens: 48, OutputTokens: 24},
		})
	})
}

// refused is a dialer of a server that is not there.
func refused(context.Context) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
}

// virtualFleet is a fleet in virtual time, with a page for each of its workers.
func virtualFleet(t *testing.T, s *spec.Scenario, f func(t *testing.T, o EndpointOptions)) {
	t.Helper()
	var fleet *sim.Live
	virtually(t, func(t *testing.T) http.Handler {
		fleet = sim.NewLive(s, 1, 0)
		server := serve.New(fleet, s, serve.Options{Model: testModel})
		go fleet.Run(t.Context())
		return server.Frontend()
	}, func(t *testing.T, _ *memnet.Net, o EndpointOptions) {
		o.Names = map[string]string{}
		for i, w := range fleet.Snapshot().Workers {
			o.Names[strconv.FormatUint(w.ID, 10)] = strconv.Itoa(i)
			o.Sources = append(o.Sources, observe.Source{Kind: spec.SourceWorker, Instance: "worker-" + strconv.Itoa(i), Reader: pageOf{w.ID}})
		}
		f(t, o)
	})
}

func TestAColdStartIsWaitedFor(t *testing.T) {
	virtualFleet(t, fleetOf(t, 8, `[{kind: cold-start, takes: 42s}]`), func(t *testing.T, o EndpointOptions) {
		var notes []string
		o.Note = func(text string) { notes = append(notes, text) }
		_, events, ready := start(t, o)
		with, without := answers(events)
		if !ready || len(with) != 8 || len(without) > 0 {
			t.Fatalf("ready %v; answered %v, not %v", ready, with, without)
		}
		if first := events[1]; first.Worker != "" || *first.Seconds < 41 || *first.Seconds > 43 || *first.Tokens == 0 {
			t.Errorf("the first answer: %+v", first)
		}
		for _, e := range events { // each worker's first answer is told, not a later one
			if e.Kind == spec.EventAnswer && *e.Seconds < 41 {
				t.Errorf("worker %q took %v s", e.Worker, *e.Seconds)
			}
		}
		if !slices.Contains(notes, "first answer took 42 s; warm") {
			t.Errorf("notes %q", notes)
		}
	})
}

// A request that is outstanding is left alone: who asks a cold server again makes
// it colder.
func TestNobodyIsAskedAgainWhileARequestIsOutstanding(t *testing.T) {
	var asked atomic.Int64
	hang := func(*testing.T) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})
	}
	virtually(t, hang, func(t *testing.T, _ *memnet.Net, o EndpointOptions) {
		go func() {
			within := defaultAnswerWithin / patienceShare
			time.Sleep(within - time.Second)
			if n := asked.Load(); n != 1 {
				t.Errorf("asked %d times in %v", n, within-time.Second)
			}
		}()
		begun := time.Now()
		_, events, ready := start(t, o)
		last := events[len(events)-1]
		if took := time.Since(begun); ready || last.Kind != spec.EventNotServed || last.Reason != "timeout" || took < 299*time.Second || took > 305*time.Second {
			t.Errorf("ready %v after %v: %+v", ready, took, last)
		}
		if n := asked.Load(); n < 2 {
			t.Errorf("asked %d times: one that hangs stands for the whole fleet", n)
		}
	})
}

// What was seen of an endpoint that never serves names the cause.
func TestAnEndpointThatNeverServesIsToldOf(t *testing.T) {
	fleet := func(faults string) func(t *testing.T) http.Handler {
		return func(t *testing.T) http.Handler {
			s := fleetOf(t, 2, faults)
			live := sim.NewLive(s, 1, 0)
			server := serve.New(live, s, serve.Options{Model: testModel})
			go live.Run(t.Context())
			return server.Frontend()
		}
	}
	for _, c := range []struct {
		name    string
		handler func(t *testing.T) http.Handler
		change  func(o *EndpointOptions)
		reason  string
		text    []string
		atOnce  bool
	}{
		{name: "discovery panicked", handler: fleet(`[{kind: discovery-panic}]`), reason: "http-status",
			text: []string{"HTTP 404", "(empty body)", "lists no model"}},
		{name: "no model, and none was named", handler: fleet(`[{kind: discovery-panic}]`), reason: "http-status",
			change: func(o *EndpointOptions) { o.Model = "" }, text: []string{"lists no model"}},
		{name: "another model", handler: fleet(""), reason: "http-status", atOnce: true,
			change: func(o *EndpointOptions) { o.Model = "large" }, text: []string{"404", testModel}},
		{name: "no tokens", handler: fleet(`[{kind: zero-tokens}]`), reason: "no-tokens", text: []string{"without any content"}},
		{name: "nobody there", handler: fleet(""), reason: "connect",
			change: func(o *EndpointOptions) { o.Target.Dial = refused }, text: []string{"connection refused"}},
		{name: "starting for ever", handler: says(503, "application/json", `{"message":"loading"}`), reason: "http-status", text: []string{"HTTP 503", "loading"}},
		{name: "its list of models fails, and none was named", handler: says(500, "application/json", `{"detail":"the list is away"}`), reason: "http-status",
			change: func(o *EndpointOptions) { o.Model = "" }, text: []string{"asking for the models: HTTP 500: the list is away", "--model NAME"}},
		{name: "a web page", handler: says(200, "text/html", "<html>hello</html>"), reason: "bad-stream", text: []string{"HTML"}, atOnce: true},
		{name: "a key is wanted", handler: says(401, "application/json", `{"message":"who are you"}`), reason: "http-status", text: []string{"HTTP 401", "who are you"}, atOnce: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, c.handler, func(t *testing.T, _ *memnet.Net, o EndpointOptions) {
				o.Workers = 2
				if c.change != nil {
					c.change(&o)
				}
				begun := time.Now()
				_, events, ready := start(t, o)
				took := time.Since(begun)
				last := events[len(events)-1]
				if ready || last.Kind != spec.EventNotServed || last.Reason != c.reason || last.Source != "http://"+frontendHost {
					t.Fatalf("ready %v: %+v", ready, last)
				}
				for _, part := range c.text {
					if !strings.Contains(last.Text, part) {
						t.Errorf("%q does not say %q", last.Text, part)
					}
				}
				if c.atOnce && (took > 10*time.Second || last.Count != 1) || !c.atOnce && (took < 280*time.Second || took > 305*time.Second || last.Count < 15) {
					t.Errorf("asked %d times in %v", last.Count, took)
				}
				if c.name == "no tokens" {
					if _, without := answers(events); !strings.HasPrefix(without[strconv.FormatUint(firstID(events), 10)], "no-tokens") {
						t.Errorf("nobody is named: %v", without)
					}
				}
				if before := events[len(events)-2]; before.Kind != spec.EventAnswer || before.Reason != c.reason || *before.Tokens != 0 {
					t.Errorf("before that: %+v", before)
				}
			})
		})
	}
}

// firstID is the id of the first worker that an event names.
func firstID(events []spec.Event) uint64 {
	for _, e := range events {
		if id, err := strconv.ParseUint(e.Worker, 10, 64); err == nil {
			return id
		}
	}
	return 0
}

func TestAServerThatIsStartingIsAskedUntilItServes(t *testing.T) {
	virtualFleet(t, fleetOf(t, 2, ""), func(t *testing.T, o EndpointOptions) {
		begun := time.Now()
		serves := o.Target.Dial
		o.Target.Dial = func(ctx context.Context) (net.Conn, error) {
			if time.Since(begun) < 90*time.Second {
				return refused(ctx)
			}
			return serves(ctx)
		}
		_, events, ready := start(t, o)
		if with, _ := answers(events); !ready || len(with) != 2 || time.Since(begun) < 90*time.Second {
			t.Errorf("ready %v after %v: %+v", ready, time.Since(begun), events)
		}
	})
}

// No answer names a worker that reads prompts for others: its page says that it is there.
func TestAPrefillWorkerOwesNoAnswer(t *testing.T) {
	s := fleetOf(t, 4, "")
	s.Fleet.PrefillWorkers = 2
	serveFleet(t, s, func(t *testing.T, f *served) {
		_, events := started(t, f.options)
		answered := 0
		for _, e := range events {
			switch {
			case e.Kind == spec.EventWorkers && (*e.Want != 4 || *e.Have != 4), e.Kind == spec.EventAnswer && e.Reason != "":
				t.Errorf("%+v", e)
			case e.Kind == spec.EventAnswer && e.Worker != "":
				answered++
			}
		}
		if answered != 2 {
			t.Errorf("%d answered: %+v", answered, events)
		}
	})
}

// One worker that hangs or fails must not stand for the fleet, however its router
// chooses, and is named.
func TestAWorkerThatNeverAnswersIsNamed(t *testing.T) {
	for _, fault := range []string{"{kind: worker-wedge, workers: [1]}", "{kind: worker-dead, workers: [1]}"} {
		for _, router := range spec.Routers() {
			for _, workers := range []int{2, 3, 8} {
				t.Run(fmt.Sprintf("%s of %d, %s", fault, workers, router), func(t *testing.T) {
					s := fleetOf(t, workers, "["+fault+"]")
					s.Fleet.Router = router
					virtualFleet(t, s, func(t *testing.T, o EndpointOptions) {
						begun := time.Now()
						_, events, ready := start(t, o)
						with, without := answers(events)
						if !ready || len(with) != workers-1 || len(without) != 1 || !strings.HasPrefix(without["1"], "silent: ") {
							t.Errorf("ready %v; answered %v, not %v", ready, with, without)
						}
						if took := time.Since(begun); took > 305*time.Second+mostExaminations*examineWithin {
							t.Errorf("it took %v", took)
						}
					})
				})
			}
		}
	}
}

// A frozen engine that gets the first request of all does not stand for the endpoint, however
// little time there is.
func TestAWorkerThatIsFrozenFirstIsNotTheEndpoint(t *testing.T) {
	for _, within := range []time.Duration{8 * time.Second, 30 * time.Second, 300 * time.Second} {
		for _, workers := range []int{0, 2} {
			t.Run(fmt.Sprintf("%v, %d declared", within, workers), func(t *testing.T) {
				var n atomic.Int64
				s := fleetOf(t, 1, "")
				virtually(t, func(t *testing.T) http.Handler {
					fleet := sim.NewLive(s, 1, 0)
					server := serve.New(fleet, s, serve.Options{Model: testModel}).Frontend()
					go fleet.Run(t.Context())
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.Method == http.MethodPost && n.Add(1)%2 == 1 { // the other engine is frozen
							_, _ = io.Copy(io.Discard, r.Body)
							<-r.Context().Done()
							return
						}
						server.ServeHTTP(w, r)
					})
				}, func(t *testing.T, _ *memnet.Net, o EndpointOptions) {
					o.AnswerWithin, o.Workers = within, workers
					begun := time.Now()
					_, events, ready := start(t, o)
					if took := time.Since(begun); !ready || took > 3*within+10*time.Second {
						t.Fatalf("ready %v after %v: %+v", ready, took, events)
					}
					for _, e := range events {
						if e.Kind == spec.EventWorkers && (*e.Have != 1 || *e.Want != 2) {
							t.Errorf("%d of %d workers are there", *e.Have, *e.Want)
						}
					}
				})
			})
		}
	}
}

// A router that sends whoever comes alone to the worker that fails fast, since that
// one is always idle, still has workers that serve.
func TestAFleetIsNotJudgedByItsIdlestWorker(t *testing.T) {
	var inside atomic.Int64
	s := fleetOf(t, 2, "")
	virtually(t, func(t *testing.T) http.Handler {
		fleet := sim.NewLive(s, 1, 0)
		server := serve.New(fleet, s, serve.Options{Model: testModel}).Frontend()
		go fleet.Run(t.Context())
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inside.Add(1)
			defer inside.Add(-1)
			if time.Sleep(10 * time.Millisecond); inside.Load() < 2 {
				http.Error(w, `{"message":"dead"}`, http.StatusInternalServerError)
				return
			}
			server.ServeHTTP(w, r)
		})
	}, func(t *testing.T, _ *memnet.Net, o EndpointOptions) {
		if _, events, ready := start(t, o); !ready {
			t.Errorf("not ready: %+v", events)
		}
	})
}

// On a cluster pages have their pods' names, and answers the server's numbers: who answers
// before its page was asked is the same worker, and is counted once.
func TestAWorkerIsOneWhateverItWasCalledFirst(t *testing.T) {
	for name, fault := range map[string]string{"healthy": "", "one fails": "[{kind: worker-dead, workers: [1]}]", "all serve nothing": "[{kind: zero-tokens}]"} {
		t.Run(name, func(t *testing.T) {
			virtualFleet(t, fleetOf(t, 2, fault), func(t *testing.T, o EndpointOptions) {
				o.Names = nil
				for i := range o.Sources {
					o.Sources[i].Labels.Name = "pod-" + strconv.Itoa(i)
				}
				_, events, _ := start(t, o)
				for _, e := range events {
					if e.Kind == spec.EventWorkers && (*e.Want != 2 || *e.Have != 2) {
						t.Errorf("%d of %d workers are there", *e.Have, *e.Want)
					}
				}
				with, without := answers(events)
				all := append(with, slices.Sorted(maps.Keys(without))...)
				if slices.Sort(all); !slices.Equal(all, []string{"pod-0", "pod-1"}) {
					t.Errorf("answered %v, not %v", with, without)
				}
			})
		})
	}
}

// Every worker answers, and some of the requests before the load fail all the same: that is
// part of the record, since no episode has them.
func TestRequestsThatFailBeforeTheLoadAreToldOf(t *testing.T) {
	for name, bad := range map[string]bool{"none fails": false, "one in three fails": true} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			var fleet *sim.Live
			s := fleetOf(t, 2, "")
			virtually(t, func(t *testing.T) http.Handler {
				fleet = sim.NewLive(s, 1, 0)
				server := serve.New(fleet, s, serve.Options{Model: testModel}).Frontend()
				go fleet.Run(t.Context())
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if n := asked.Add(1); bad && n > 1 && n%3 == 0 {
						http.Error(w, `{"message":"the frontend restarts"}`, http.StatusServiceUnavailable)
						return
					}
					server.ServeHTTP(w, r)
				})
			}, func(t *testing.T, _ *memnet.Net, o EndpointOptions) {
				o.Workers = 2
				_, events, ready := start(t, o)
				at := slices.IndexFunc(events, func(e spec.Event) bool { return e.Kind == spec.EventRequests })
				if !ready || (at >= 0) != bad {
					t.Fatalf("ready %v: %+v", ready, events)
				}
				if bad && (*events[at].Have >= *events[at].Want || !strings.Contains(events[at].Text, "the frontend restarts")) {
					t.Errorf("told %+v", events[at])
				}
			})
		})
	}
}

// A server that names no worker is one that answers.
func TestAServerThatNamesNobodyIsReady(t *testing.T) {
	virtualFleet(t, fleetOf(t, 2, ""), func(t *testing.T, o EndpointOptions) {
		e, err := NewEndpoint(o)
		if err != nil {
			t.Fatal(err)
		}
		var events []spec.Event
		e.tell = func(e spec.Event) error {
			events = append(events, e)
			return nil
		}
		w := &warmup{endpoint: e, begun: time.Now(), until: time.Now().Add(time.Minute), seen: newRoll(e.names)}
		if err := w.first(t.Context()); err != nil || e.probe == nil {
			t.Fatal(err, w.last)
		}
		e.probe.Workers = false
		if err := w.everyone(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := kinds(events); got != "answer, stage warm, workers" || *events[2].Have != 2 {
			t.Errorf("told %s", got)
		}
	})
}

func TestAnInterruptEndsTheStart(t *testing.T) {
	virtually(t, func(*testing.T) http.Handler { return http.NotFoundHandler() }, func(t *testing.T, _ *memnet.Net, o EndpointOptions) {
		e, err := NewEndpoint(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		begun := time.Now()
		go func() {
			time.Sleep(20 * time.Second)
			cancel(errStopped)
		}()
		ready, err := e.Start(ctx, func(spec.Event) error { return nil })
		if took := time.Since(begun); ready || !errors.Is(err, errStopped) || took > 23*time.Second {
			t.Errorf("%v, %v after %v", ready, err, took)
		}
	})
}

// Servers repeat the key that they refuse. It reaches no event, record, note or
// error.
func TestAKeyIsNeverRepeated(t *testing.T) {
	const key, header = "sk-confidential-1234", "cookie-of-somebody"
	serveFleet(t, fleetOf(t, 2, ""), func(t *testing.T, f *served) {
		var refuse atomic.Bool
		inner := f.frontend
		f.frontend = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !refuse.Load() {
				inner.ServeHTTP(w, r)
				return
			}
			time.Sleep(10 * time.Millisecond) // or no time would pass under load
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprintf(w, `{"message":"not with %s, %s, %s"}`, r.Header.Get("Authorization"), r.Header.Get("X-Session"), r.URL.RawQuery)
		})
		var said []string
		f.options.Note = func(text string) { said = append(said, text) }
		f.options.Target.APIKey, f.options.Target.Header = key, http.Header{"X-Session": {header}}
		f.options.Target.URL += "/v1?api-key=in-the-query"
		f.options.Model = testModel
		f.options.Point.DurationS = 1
		e, events := started(t, f.options)
		refuse.Store(true)
		r := loaded(t, e, 1)
		_, more, ready := start(t, f.options)
		wrong := e.Check(t.Context())
		refuse.Store(false)
		f.options.Model = key
		other, err := NewEndpoint(f.options)
		if err != nil {
			t.Fatal(err)
		}
		wrongModel := other.Check(t.Context())
		text, err := json.Marshal([]any{said, events, more, r, fmt.Sprint(wrong), fmt.Sprint(wrongModel)})
		if err != nil {
			t.Fatal(err)
		}
		if ready || r.Episode.Requests.Failed == 0 || !strings.Contains(string(text), "not with Bearer ***, ***") {
			t.Fatalf("ready %v, %+v", ready, r.Episode.Requests)
		}
		for _, secret := range []string{key, header, "in-the-query"} {
			if i := strings.Index(string(text), secret); i >= 0 {
				t.Errorf("%s is repeated: …%s…", secret, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	})
}

// The published skew, behind a frontend that is up and never serves: a snapshot of its
// cluster says why.
func TestTheVersionsBehindAnEndpointAreToldFirst(t *testing.T) {
	virtualFleet(t, fleetOf(t, 1, `[{kind: discovery-panic, panics: 3, bucketMissing: 3, runtime: "0.9.0", chart: "1.0.2"}]`), func(t *testing.T, o EndpointOptions) {
		o.Runtime, o.Chart, o.AnswerWithin = "0.9.0", "1.0.2", time.Minute
		_, events, ready := start(t, o)
		if ready || len(events) < 2 || events[1].Kind != spec.EventVersions || events[1].Runtime != "0.9.0" || events[1].Chart != "1.0.2" {
			t.Errorf("ready %v: %+v", ready, events)
		}
	})
}
