package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// clientUnderDriven finds that the load was not the load that was asked for.
func clientUnderDriven(ev *Evidence) []spec.Finding {
	return audited(ev, "client/under-driven", "the client could not hold the load",
		"give the client more CPU, or run it nearer to the frontend", "run aicr in a pod on a node with free cores, and validate again")
}

// audited is what the client's audit of itself says under an id. It decides when no
// retry is left, or the run ended without an episode that counts; otherwise the
// episode was repeated.
func audited(ev *Evidence, id, summary string, advice ...string) []spec.Finding {
	f := spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh, Advice: advice}
	n := 0
	for _, d := range ev.invalid {
		for _, r := range d.client.Reasons {
			if r.ID == id {
				f.Evidence = append(f.Evidence, fmt.Sprintf("episode %d: %s", d.number, r.Text))
				n++
				break
			}
		}
	}
	if ev.half != nil && !ev.half.client.Valid {
		for _, r := range ev.half.client.Reasons {
			if r.ID == id {
				f.Evidence = append(f.Evidence, "look at half the load: "+r.Text)
			}
		}
	}
	if len(f.Evidence) == 0 {
		return nil
	}
	f.Summary = summary
	if n > 0 {
		f.Summary += fmt.Sprintf(" in %d of %d episodes", n, len(ev.invalid)+len(ev.episodes))
	}
	over := ev.start.ended || ev.start.interrupted
	if n > 0 && (len(ev.invalid) > ev.th.MaxRetries || over && len(ev.episodes) == 0) {
		f.Severity = spec.SeverityInvalid
	}
	return []spec.Finding{f}
}
