package report

import (
	"strings"
	"testing"

	"aicr/internal/spec"
)

// Every format for people shows a worker by what its reader can find, in every place: a
// runtime's instance id is for scripts.
func TestNoFormatShowsAWorkersInstanceID(t *testing.T) {
	const id, name = "11655315835634843650", "10.0.0.7:9090"
	v := &spec.Verdict{Verdict: spec.Fail, Reason: "worker " + name + " stalled 3 times", Names: map[string]string{id: name},
		Ledgers: []spec.Ledger{{Name: spec.Stability, State: spec.Fail, Reason: "3 stalls"}},
		Findings: []spec.Finding{{ID: "worker/stall", Severity: spec.SeverityFail, Confidence: spec.ConfidenceHigh, Workers: []string{id},
			Shown: []string{name + " (GPU-3)"}, Summary: "worker " + name + " stalled 3 times", Evidence: []string{"seen"}, Advice: []string{"look"}}},
		Stalls: []spec.Stall{{Episode: 1, At: 2, Seconds: 3, Worker: id, GPU: "GPU-3", By: []string{"client"}}},
		Parts:  []spec.Part{{Episode: 1, Counted: true}}}
	silent := spec.Event{T: 1, Kind: spec.EventAnswer, Worker: id, Reason: "silent", Text: "no answer came from it"}
	b := NewBuilder(aRun, nil, []spec.Event{silent})
	all := []spec.Request{answered(id, 0, 1, 2, 10), answered(id, 2, 3, 4, 10)}
	add(b, begins(1, 0), all, []spec.Sample{scraped(id, 1, spec.WorkerSample{})})
	r := b.Report(v)
	r.Requests = requestsInOrder(spec.RequestOf{Episode: 1, Request: &all[0]}, spec.RequestOf{Episode: 1, Request: &all[1]})

	bench := toldBench()
	bench.Bench.Workers = []spec.BenchWorker{{Worker: id, Shown: name, Requests: 2, Share: 1}}
	bench.Verdict.Names = v.Names

	for _, f := range Formats() {
		t.Run(f.Name, func(t *testing.T) {
			for of, told := range map[string]*spec.Report{"a run": r, "a bench": bench} {
				text := string(written(t, f, told))
				switch f.Name {
				case "json": // the id and the name beside it
					if !strings.Contains(text, name) {
						t.Errorf("%s: no name in\n%s", of, text)
					}
				case "ctrf": // a finding's list for scripts
					text = strings.Replace(text, `"workers": [`+"\n            \""+id+"\"\n", "", 1)
					fallthrough
				default:
					for line := range strings.Lines(text) {
						if strings.Contains(line, id) && f.Name != "ctrf" {
							t.Errorf("%s: an instance id: %s", of, line)
						}
					}
				}
			}
		})
	}
	if line := Line(r); strings.Contains(line, id) {
		t.Errorf("in one line: %s", line)
	}
}
