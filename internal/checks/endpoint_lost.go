package checks

import (
	"aicr/internal/load"
	"aicr/internal/spec"
)

// lostWarm counts the requests that are sent to the workers before the load, once the
// endpoint has answered. What fails then fails in a deployment that serves.
type lostWarm struct {
	sent, failed int
	class, text  string // of the last failure
}

func (l *lostWarm) add(e *Endpoint, res *load.Result) {
	for r := range res.Log.All() {
		if r.Class == load.Interrupt {
			continue // given up by the client
		}
		l.sent++
		if !r.OK() {
			l.failed++
			l.class, l.text = r.Class.String(), e.clean(res.Log.Details[r.Detail])
		}
	}
}

// events tells of them; none where none failed.
func (l *lostWarm) events() []spec.Event {
	if l.failed == 0 {
		return nil
	}
	served := l.sent - l.failed
	return []spec.Event{{Kind: spec.EventRequests, Stage: "warm", Want: &l.sent, Have: &served, Reason: l.class, Text: l.text}}
}
