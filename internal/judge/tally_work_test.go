package judge

import (
	"testing"

	"aicr/internal/spec"
)

// Of a worker that tells neither what it runs nor what it makes, nothing is known that
// could be off: it counts as silent, however often it answers.
func TestAWorkerThatTellsNothingOfItsWorkIsSilent(t *testing.T) {
	for name, c := range map[string]struct {
		worker spec.WorkerSample
		silent bool
	}{
		"what waits alone":     {spec.WorkerSample{Waiting: new(0.0)}, true},
		"the cache alone":      {spec.WorkerSample{KVUsage: new(0.5)}, true},
		"nothing":              {spec.WorkerSample{}, true},
		"what it runs":         {spec.WorkerSample{Running: new(0.0)}, false},
		"what the runtime has": {spec.WorkerSample{InFlight: new(0.0)}, false},
		"tokens":               {spec.WorkerSample{Generated: new(0.0)}, false},
		"tokens of a log":      {spec.WorkerSample{TokensPerS: new(0.0)}, false},
	} {
		tally := NewTally()
		for second := range int64(5) {
			tally.Add(spec.Sample{T: second * 1e9, Source: spec.SourceWorker, Name: "0", Instance: "w", Worker: &c.worker})
		}
		if got := tally.Rows()[0].Silent(); got != c.silent {
			t.Errorf("%s: silent %v", name, got)
		}
	}
}
