package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// tokensImplausible finds that the server counts tokens which it cannot have sent: every
// figure in tokens is then the server's word and nothing else.
func tokensImplausible(ev *Evidence) []spec.Finding {
	f := spec.Finding{Severity: spec.SeverityInvalid, Confidence: spec.ConfidenceVeryHigh,
		Advice: []string{"read one answer and its usage: `curl -N URL/v1/chat/completions` with " +
			"\"stream\": true and \"stream_options\": {\"include_usage\": true}",
			"compare with the worker's own counter: `curl WORKER/metrics | grep generation_tokens_total`",
			"where reasoning is counted and hidden, have the server send it"}}
	for _, d := range ev.looked() {
		if why := d.claims.Implausible(); why != "" {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s", d.title(), why))
			if f.Summary == "" {
				f.Summary = "the server counts tokens that it did not send: " + why
			}
		}
	}
	if len(f.Evidence) == 0 {
		return nil
	}
	f.Evidence = firstOf(f.Evidence, 8)
	return []spec.Finding{f}
}
