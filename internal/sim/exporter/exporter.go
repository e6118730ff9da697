package exporter

import (
	"hash/fnv"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"aicr/internal/sim"
)

// Source gives the telemetry of this moment, of the same workers each time.
// *sim.Live is one.
type Source interface{ Snapshot() sim.Snapshot }

// Options are what the pages say of the deployment.
type Options struct {
	Model            string // the one that the fleet serves
	MaxSequences     int
	MaxBatchedTokens int
	KVBlocks         int    // of a worker
	ContextLength    int    // tokens of prompt and answer together
	Node             string // the node's name
}

// Exporter makes the pages of one fleet, whose sim.Observer it has to be. It is
// safe for concurrent use.
type Exporter struct {
	source   Source
	options  Options
	frontend *frontend
	workers  []*worker
}

// New makes the pages of the fleet that src tells of.
func New(src Source, o Options) *Exporter {
	workers := src.Snapshot().Workers
	e := &Exporter{source: src, options: o, frontend: newFrontend(o, len(workers))}
	for _, w := range workers {
		e.workers = append(e.workers, newWorker(w.Started))
	}
	return e
}

// look is the Snapshot of one scrape.
func (e *Exporter) look() sim.Snapshot {
	s := e.source.Snapshot()
	for i, w := range s.Workers {
		e.workers[i].runsSince(w.Started)
	}
	return s
}

// Frontend is GET /metrics of the frontend.
func (e *Exporter) Frontend() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := e.look()
		answer(w, r, func(p page) { e.writeFrontend(p, s) })
	})
}

// Worker is GET /metrics of worker i.
func (e *Exporter) Worker(i int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := e.look()
		state := s.Workers[i]
		if !state.Present || state.Missing {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer(w, r, func(p page) { e.writeWorker(p, i, state, s.At) })
	})
}

// GPUs is GET /metrics of the GPUs' exporter.
func (e *Exporter) GPUs() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gpus := e.look().GPUs
		delivered := false
		for _, g := range gpus {
			delivered = delivered || !g.Missing
		}
		if !delivered {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer(w, r, func(p page) { writeGPUs(p, gpus, e.options.Node) })
	})
}

// Node is GET /metrics of the node's exporter.
func (e *Exporter) Node() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := e.look()
		if s.Node.Missing {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer(w, r, func(p page) { writeNode(p, s.Node, e.options.Node) })
	})
}

// answer writes the page that fill fills. What cannot be written is a 500.
func answer(w http.ResponseWriter, r *http.Request, fill func(page)) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(fill))
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// collector is one scrape. It describes nothing in advance, because which
// series there are depends on the moment.
type collector func(page)

func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(ch chan<- prometheus.Metric) { c(page{ch}) }

// page is a page being filled.
type page struct{ metrics chan<- prometheus.Metric }

func (p page) gauge(d *prometheus.Desc, value float64, labels ...string) {
	p.put(d, prometheus.GaugeValue, value, labels)
}

func (p page) counter(d *prometheus.Desc, value float64, labels ...string) {
	p.put(d, prometheus.CounterValue, value, labels)
}

func (p page) put(d *prometheus.Desc, t prometheus.ValueType, value float64, labels []string) {
	m, err := prometheus.NewConstMetric(d, t, value, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	p.metrics <- m
}

// told puts what has been observed since the start.
func (p page) told(observed ...prometheus.Collector) {
	for _, c := range observed {
		c.Collect(p.metrics)
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func histogram(name, help string, labels prometheus.Labels, bounds []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: labels, Buckets: bounds})
}

// hexID is how Dynamo's processes name themselves: not padded.
func hexID(id uint64) string { return strconv.FormatUint(id, 16) }

// decimalID is how Dynamo's frontend names its workers.
func decimalID(id uint64) string { return strconv.FormatUint(id, 10) }

// frontendID stands in for the random one that a real frontend draws.
func frontendID(o Options) uint64 {
	h := fnv.New64a()
	h.Write([]byte(o.Node + "/" + o.Model))
	return h.Sum64()
}
