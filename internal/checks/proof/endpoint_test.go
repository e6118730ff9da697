// Package proof shows over real sockets and in real time what internal/checks tests
// in virtual time.
package proof

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"aicr/internal/checks"
	"aicr/internal/load"
	"aicr/internal/observe"
	"aicr/internal/sim"
	"aicr/internal/sim/serve"
	"aicr/internal/spec"
	"aicr/test/busy"
)

const model = "tiny"

// fleet is a simulated one of two workers, with all its pages on loopback.
type fleet struct {
	live    *sim.Live
	workers []*httptest.Server // their pages
	options checks.EndpointOptions
}

func serveFleet(t *testing.T) *fleet {
	t.Helper()
	s, ok := spec.NewScenario("small", "small")
	if !ok {
		t.Fatal("no profile small")
	}
	s.Fleet.Workers = 2
	f := &fleet{live: sim.NewLive(s, 1, 1)}
	server := serve.New(f.live, s, serve.Options{Model: model, Node: sim.NodeName})
	open := func(h http.Handler) *httptest.Server {
		srv := httptest.NewServer(h)
		t.Cleanup(func() {
			srv.CloseClientConnections()
			srv.Close()
		})
		return srv
	}
	var running sync.WaitGroup
	running.Go(func() { f.live.Run(t.Context()) }) // it ends before what is cleaned up
	t.Cleanup(running.Wait)
	client := observe.NewClient(&http.Transport{})
	t.Cleanup(client.Close)
	frontend := open(server.Frontend())
	f.options = checks.EndpointOptions{
		Target: load.TargetOptions{URL: frontend.URL}, Model: model, Workers: 2, Names: map[string]string{}, Seed: 7,
		Point: spec.OperatingPoint{Workers: 2, Concurrency: 8, RampS: 0.2, DurationS: 3,
			InputTokens: 48, OutputTokens: 24, Prompts: "unique", SentinelRate: 5},
		Period: 250 * time.Millisecond,
		Sources: []observe.Source{
			observe.Frontend(client, frontend.URL+"/metrics"),
			observe.DCGM(client, open(server.GPUs()).URL+"/metrics"),
			observe.NodeExporter(client, open(server.Node()).URL+"/metrics", ""),
		},
	}
	for i, w := range f.live.Snapshot().Workers {
		page := open(server.Worker(i))
		f.workers = append(f.workers, page)
		source := observe.Worker(client, page.URL+"/metrics", observe.Labels{})
		f.options.Sources = append(f.options.Sources, source)
		f.options.Names[strconv.FormatUint(w.ID, 10)] = strconv.Itoa(i)
		f.options.Names[source.Instance] = strconv.Itoa(i)
	}
	return f
}

// start makes an endpoint that is ready, and gives the workers that answered.
func (f *fleet) start(t *testing.T) (e *checks.Endpoint, answered []string) {
	t.Helper()
	e, err := checks.NewEndpoint(f.options)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready, err := e.Start(t.Context(), func(event spec.Event) error {
		if event.Kind == spec.EventAnswer && event.Worker != "" && event.Reason == "" {
			answered = append(answered, event.Worker)
		}
		return nil
	})
	if err != nil || !ready {
		t.Fatalf("ready %v, %v", ready, err)
	}
	return e, answered
}

// An episode over real sockets has what the one in virtual time has.
func TestAHealthyFleetIsRecordedOverRealSockets(t *testing.T) {
	busy.Measure(t, func() string {
		f := serveFleet(t)
		e, answered := f.start(t)
		if !slices.Equal(answered, []string{"0", "1"}) {
			t.Errorf("workers %v answered", answered)
		}
		r, err := e.Load(t.Context(), 1, f.options.Point)
		if err != nil {
			t.Fatal(err)
		}
		ep := &r.Episode
		if !ep.Client.Valid {
			return fmt.Sprintf("the client's audit: %+v", ep.Client.Reasons)
		}
		if ep.Requests.Served == 0 || ep.Requests.Failed > 0 || ep.Sentinel.Served < 10 ||
			ep.Requests.Sent+ep.Sentinel.Sent != len(r.Requests) {
			t.Errorf("%+v, sentinel %+v of %d lines", ep.Requests, ep.Sentinel, len(r.Requests))
		}
		for i := range r.Requests {
			q := &r.Requests[i]
			if q.Class != "ok" {
				continue // interrupted at the end
			}
			inOrder := 0 < q.Intended && q.Intended <= q.Sent && q.Sent < q.First && q.First < q.Last && q.Last <= q.End
			if q.Tokens != 24 && q.Lane == "closed" || q.Worker == "" || !inOrder {
				t.Errorf("request %+v", q)
			}
		}
		seen := map[string]int{}
		for _, s := range r.Series {
			if s.Gap == "" {
				seen[s.Source]++
			}
		}
		for _, source := range []string{
			spec.SourceWorker, spec.SourceGPU, spec.SourceNode, spec.SourceFrontend, spec.SourceClient,
		} {
			if seen[source] < 2 {
				t.Errorf("%d samples of %s in 3 s", seen[source], source)
			}
		}
		return ""
	})
}

// A page whose server has closed its socket is refused by the kernel, and is missed by
// its worker's name.
func TestAWorkerThatIsKilledIsMissedOverRealSockets(t *testing.T) {
	f := serveFleet(t)
	var once sync.Once
	f.options.Progress = func(p checks.Progress) {
		if p.Elapsed > time.Second {
			once.Do(func() {
				f.workers[1].CloseClientConnections()
				f.workers[1].Close()
			})
		}
	}
	e, _ := f.start(t)
	r, err := e.Load(t.Context(), 1, f.options.Point)
	if err != nil {
		t.Fatal(err)
	}
	refused := slices.ContainsFunc(r.Series, func(s spec.Sample) bool {
		return s.Source == spec.SourceWorker && s.Name == "1" && strings.Contains(s.Gap, spec.GapRefused)
	})
	if !refused {
		t.Error("no sample says that worker 1 refuses")
	}
}

// A server may close its socket before all that was sent is read, which the kernel
// answers with a reset: a mistake is found all the same.
func TestTLSMistakesAreFoundOverRealSockets(t *testing.T) {
	models := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":[{"id":"`+model+`"}]}`) // the client may have gone
	})
	secure := httptest.NewUnstartedServer(models)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(models)
	defer plain.Close()
	for name, c := range map[string]struct {
		url, wrong string
		tls        *tls.Config
	}{
		"TLS to one that speaks plainly": {"https" + strings.TrimPrefix(plain.URL, "http"), "does not speak TLS", nil},
		"plain words to TLS":             {"http" + strings.TrimPrefix(secure.URL, "https"), "speaks TLS", nil},
		"a certificate of nobody":        {secure.URL, "not trusted", nil},
		"a certificate that is trusted":  {secure.URL, "", secure.Client().Transport.(*http.Transport).TLSClientConfig},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := checks.NewEndpoint(checks.EndpointOptions{Target: load.TargetOptions{URL: c.url, TLS: c.tls},
				Point: spec.OperatingPoint{Concurrency: 1, DurationS: 1, InputTokens: 48, OutputTokens: 8}})
			if err != nil {
				t.Fatal(err)
			}
			err = e.Check(t.Context())
			wrong, ok := errors.AsType[*checks.WrongTarget](err)
			if c.wrong == "" && err != nil || c.wrong != "" && (!ok || !strings.Contains(wrong.Text, c.wrong)) {
				t.Errorf("%v, want %q", err, c.wrong)
			}
		})
	}
}
