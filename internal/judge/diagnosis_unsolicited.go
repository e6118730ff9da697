package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// unsolicitedAnswers finds bytes that no request asked for: which answer belongs to which
// request is then not known, and no time of any of them is.
func unsolicitedAnswers(ev *Evidence) []spec.Finding {
	const id = "server/unsolicited"
	f := spec.Finding{Severity: spec.SeverityInvalid, Confidence: spec.ConfidenceVeryHigh,
		Summary: "the server sent bytes that no request asked for: " +
			"an answer cannot be told from that of another request",
		Advice: []string{"ask a worker without the proxies between: `aicr bench --url WORKER_URL`",
			"look for a proxy that retries and sends both answers, or that mixes up connections",
			"`aicr bench --url URL --connection-reuse-strategy never`: is it gone with a connection for each request?"}}
	for _, a := range ev.start.answers {
		if a.Reason == spec.ClassUnsolicited {
			f.Evidence = append(f.Evidence, fmt.Sprintf("before the load: %s", clip(a.Text)))
		}
	}
	if e := ev.start.notServed; len(f.Evidence) == 0 && e != nil && e.Reason == spec.ClassUnsolicited {
		f.Evidence = append(f.Evidence, fmt.Sprintf("before the load: %s", clip(e.Text)))
	}
	for _, d := range ev.looked() {
		if n := d.requests.Classes[spec.ClassUnsolicited]; n > 0 {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s on a connection with such bytes, for example: %q",
				d.title(), counted(float64(n), "request"), clip(d.unsolicited)))
			continue
		}
		for _, r := range d.client.Reasons {
			if r.ID == id {
				f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s", d.title(), r.Text))
			}
		}
	}
	if len(f.Evidence) == 0 {
		return nil
	}
	f.Evidence = firstOf(f.Evidence, 8)
	return []spec.Finding{f}
}
