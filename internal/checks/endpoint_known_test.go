package checks

import (
	"strings"
	"testing"

	"aicr/internal/judge"
	"aicr/internal/redact"
)

// A server that names each of its answers another worker does not make the load grow with
// them.
func TestMoreWorkersThanAFleetHasAreNotBelieved(t *testing.T) {
	for answered, want := range map[int]judge.Known{
		512: {Looked: true, Named: true, Workers: 512, Origin: originAnswers},
		513: {Looked: true, Named: true},
	} {
		var notes []string
		e := &Endpoint{answered: answered, named: true, told: map[string]bool{}, mask: redact.NewMask()}
		e.o.Note = func(text string) { notes = append(notes, text) }
		if got := e.Known(t.Context()); got != want {
			t.Errorf("%d in answers: %+v, want %+v", answered, got, want)
		}
		said := strings.Contains(strings.Join(notes, "\n"), "513 workers by worker ids in the answers")
		if said != (want.Workers == 0) {
			t.Errorf("%d in answers: %q", answered, notes)
		}
	}
}

func TestAHealthPageTellsItsWorkersOrNothing(t *testing.T) {
	const a = `{"component":"backend","endpoint":"generate","namespace":"dynamo","instance_id":11655315835634843650}`
	const b = `{"component":"backend","endpoint":"generate","namespace":"dynamo","instance_id":11655315835634843651}`
	const events = `{"component":"backend","endpoint":"worker_kv_query_source_9","namespace":"dynamo","instance_id":7}`
	const prefill = `{"component":"prefill","endpoint":"generate","namespace":"dynamo","instance_id":8}`
	for body, want := range map[string]int{
		`{"instances":[` + a + `,` + b + `,` + events + `]}`: 2, // ids above 2^53 that differ in the last digit
		`{"instances":[` + a + `,` + a + `]}`:                1,
		`{"instances":[` + a + `,` + prefill + `]}`:          0, // which of them serve is unknown
		`{"instances":[]}`:                                   0,
		`{"status":"healthy"}`:                               0,
		`{"instances":"two"}`:                                0,
		`{"instances":[{}]}`:                                 0,
		`healthy`:                                            0,
		``:                                                   0,
		`{"instances":[null]}`:                               0,
		`[{"instances":[{}]}]`:                               0,
		`{"instances":{"a":1}}`:                              0,
	} {
		if got := instancesOf([]byte(body)); got != want {
			t.Errorf("%d workers, want %d: %s", got, want, body)
		}
	}
}
