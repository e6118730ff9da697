package exporter

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// mostBounds is how many bounds a tally can have.
const mostBounds = 22

// tally is a histogram that can be copied, so that several can be read as of one
// moment. Whoever shares one locks it.
type tally struct {
	bounds []float64
	counts [mostBounds]uint64 // what is above the bound before and not above this one
	count  uint64
	sum    float64
}

func (t *tally) observe(v float64) {
	if i, _ := slices.BinarySearch(t.bounds, v); i < len(t.bounds) {
		t.counts[i]++
	}
	t.count++
	t.sum += v
}

func (p page) histogram(d *prometheus.Desc, t *tally, labels ...string) {
	upTo := make(map[float64]uint64, len(t.bounds))
	n := uint64(0)
	for i, bound := range t.bounds {
		n += t.counts[i]
		upTo[bound] = n
	}
	m, err := prometheus.NewConstHistogram(d, t.count, t.sum, upTo, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	p.metrics <- m
}
