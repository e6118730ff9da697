package cli

import (
	"bytes"
	"strings"
	"testing"

	"aicr/internal/judge"
	"aicr/internal/spec"
)

// The summary of a watch has what its workers put back and found cached, a dash where that
// is not known, and of who counts tokens at the end of a request those.
func TestTheSummaryOfWorkers(t *testing.T) {
	tally := judge.NewTally()
	for i, v := range []float64{0, 1} {
		at := int64(i) * 1e9
		tally.Add(spec.Sample{T: at, Source: spec.SourceWorker, Name: "full", Worker: &spec.WorkerSample{Running: new(8.0), Generated: new(1000 + 500*v),
			Preemptions: new(54 * v), PrefixQueries: new(200 * v), PrefixHits: new(50 * v), KVUsage: new(1.0)}})
		tally.Add(spec.Sample{T: at, Source: spec.SourceWorker, Name: "idle", Worker: &spec.WorkerSample{Running: new(0.0), Generated: new(7.0),
			Preemptions: new(3.0), PrefixQueries: new(200.0), PrefixHits: new(50.0)}})
		tally.Add(spec.Sample{T: at, Source: spec.SourceWorker, Name: "tgi", Worker: &spec.WorkerSample{Running: new(2.0), EndedTokens: new(300 * v)}})
	}
	var b bytes.Buffer
	writeObserved(&b, tally.Rows(), judge.Picture{})
	got := map[string]string{}
	for line := range strings.Lines(b.String()) {
		if words := strings.Fields(line); len(words) > 0 {
			got[words[0]] = strings.Join(words[1:], " ")
		}
	}
	for name, want := range map[string]string{
		"worker": "answered tokens running waiting KV preempted prefix hits",
		"full":   "2 of 2 500 8 – 100 % 54 25 %",
		"idle":   "2 of 2 0 0 – – 0 –",
		"tgi":    "2 of 2 300 2 – – – –",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q\n%s", name, got[name], want, b.String())
		}
	}
}
