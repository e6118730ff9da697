package judge

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"aicr/internal/spec"
)

func TestATallyKeepsBoundsAndGrowth(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	tally := NewTally()
	for i, s := range []spec.Sample{
		{Name: "w:1", Gap: "connection refused"}, // its name is not known yet
		{Name: "a", Worker: &spec.WorkerSample{Running: v(4), Generated: v(100)}, NotMeasured: map[string]string{"kv_usage": "none", "waiting": "not yet"}},
		{Name: "a", Worker: &spec.WorkerSample{Running: v(8), Waiting: v(1), Generated: v(150)}},
		{Name: "a", Gap: "no answer in 800ms"},
		{Name: "a", Worker: &spec.WorkerSample{Running: v(0), Generated: v(30)}}, // started anew
		{Name: "a", Worker: &spec.WorkerSample{Generated: v(40)}},
	} {
		s.T, s.Source, s.Instance = int64(i), spec.SourceWorker, "w:1"
		tally.Add(s)
	}
	tally.Add(spec.Sample{Source: spec.SourceGPU, Name: "a", GPU: &spec.GPUSample{PowerW: v(100)}})
	tally.Add(spec.Sample{Source: spec.SourceGPU, Name: "a", GPU: &spec.GPUSample{PowerW: v(500), Throttle: &[]string{}}})
	want := []*TallyRow{
		{
			Source: "gpu", Name: "a", Samples: 2,
			Values: map[string]Bounds{"power_w": {N: 2, Min: 100, Max: 500, Mean: 300}}, Grown: map[string]float64{}, Throttle: map[string]int{},
		},
		{
			Source: "worker", Name: "a", Instance: "w:1", Samples: 4, Gaps: 2, LastGap: "no answer in 800ms", LastT: 5,
			Values:      map[string]Bounds{"running": {N: 3, Min: 0, Max: 8, Mean: 4}, "waiting": {N: 1, Min: 1, Max: 1, Mean: 1}},
			Grown:       map[string]float64{"generated_tokens": 50 + 30 + 10},
			NotMeasured: map[string]string{"kv_usage": "none"},
		},
	}
	if diff := cmp.Diff(want, tally.Rows(), cmpopts.IgnoreUnexported(TallyRow{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWhoIsSilent(t *testing.T) {
	running := 1.0
	good, gap := spec.Sample{Worker: &spec.WorkerSample{Running: &running}}, spec.Sample{Gap: "no answer"}
	for name, c := range map[string]struct {
		samples []spec.Sample
		want    bool
	}{
		"who never answered":             {[]spec.Sample{gap}, true},
		"who answers":                    {[]spec.Sample{gap, gap, good}, false},
		"not who missed the last alone":  {[]spec.Sample{good, gap}, false},
		"who answers no more at the end": {[]spec.Sample{good, gap, gap}, true},
	} {
		tally := NewTally()
		for _, s := range c.samples {
			s.Source, s.Name = spec.SourceWorker, "a"
			tally.Add(s)
		}
		if got := tally.Rows()[0].Silent(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
