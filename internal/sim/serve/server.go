package serve

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"aicr/internal/sim"
	"aicr/internal/sim/exporter"
	"aicr/internal/spec"
)

// DefaultModel is the model's name where none is said.
const DefaultModel = "aicr-sim"

// longestContext is what the served model can attend to, given KV blocks enough.
const longestContext = 40960

// Options are what a Server needs beside its fleet.
type Options struct {
	Model string            // DefaultModel where ""
	Token string            // what /faults asks for; "" switches that page off
	Node  string            // the node's name in the metrics
	Log   func(line string) // what the frontend logs; nil: nothing is kept
}

// fleet is what a Server needs of a sim.Live.
type fleet interface {
	Submit(s *sim.Stream, c sim.Client)
	Abandon(s *sim.Stream)
	Snapshot() sim.Snapshot
	Present() []int
	Observe(o sim.Observer)
	Serving() (bool, spec.FaultKind)
	Faults() []spec.Fault
	SetFaults(faults []spec.Fault)
}

// Server serves a fleet over HTTP. Its handlers are safe for concurrent use.
type Server struct {
	fleet    fleet
	scenario *spec.Scenario
	options  Options
	context  int // tokens of prompt and answer together
	metrics  *exporter.Exporter
	workers  []uint64 // their ids
	started  time.Time

	requests atomic.Uint64 // answered so far, to name them

	mu        sync.Mutex
	panicking bool // the log has told of the discovery panic that is on
}

// New makes the face of a fleet that plays s. It is called before the fleet runs.
func New(fleet *sim.Live, s *spec.Scenario, o Options) *Server { return newServer(fleet, s, o) }

func newServer(f fleet, s *spec.Scenario, o Options) *Server {
	if o.Model == "" {
		o.Model = DefaultModel
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	srv := &Server{
		fleet: f, scenario: s, options: o,
		context: min(longestContext, s.Fleet.KVBlocks*spec.KVBlockTokens),
		started: time.Now(),
	}
	srv.metrics = exporter.New(f, exporter.Options{Model: o.Model, Node: o.Node, ContextLength: srv.context,
		MaxSequences: s.Fleet.MaxSequences, MaxBatchedTokens: s.Fleet.MaxBatchedTokens, KVBlocks: s.Fleet.KVBlocks})
	f.Observe(srv.metrics)
	for _, w := range f.Snapshot().Workers {
		srv.workers = append(srv.workers, w.ID)
	}
	srv.noticePanic()
	return srv
}

// Frontend is the endpoint that clients talk to.
func (s *Server) Frontend() http.Handler {
	metrics := s.metrics.Frontend()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.noticePanic()
		switch path := r.URL.Path; {
		case path == "/v1/chat/completions":
			s.complete(w, r, chat)
		case path == "/v1/completions":
			s.complete(w, r, plain)
		case path == "/faults" && s.options.Token != "":
			s.faults(w, r)
		case path == "/metrics":
			get(w, r, metrics.ServeHTTP)
		case path == "/health":
			get(w, r, s.health)
		case path == "/live":
			get(w, r, live)
		case path == "/v1/models":
			get(w, r, s.models)
		case strings.HasPrefix(path, "/v1/models/"):
			get(w, r, s.model)
		default:
			refuseEmpty(w, http.StatusNotFound)
		}
	})
}

// Worker is the status port of worker i.
func (s *Server) Worker(i int) http.Handler {
	metrics := s.metrics.Worker(i)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			get(w, r, metrics.ServeHTTP)
		case "/health", "/live":
			get(w, r, func(w http.ResponseWriter, r *http.Request) { s.workerHealth(w, i) })
		default:
			http.Error(w, "Route not found", http.StatusNotFound)
		}
	})
}

// GPUs is the GPUs' exporter.
func (s *Server) GPUs() http.Handler { return page(s.metrics.GPUs()) }

// Node is the node's exporter.
func (s *Server) Node() http.Handler { return page(s.metrics.Node()) }

// page is a server with one page of metrics.
func page(metrics http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		get(w, r, metrics.ServeHTTP)
	})
}

// get hands on what only reads.
func get(w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuseMethod(w, "GET,HEAD")
		return
	}
	h(w, r)
}
