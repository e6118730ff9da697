package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// noTokensServed finds answers that are complete and empty.
func noTokensServed(ev *Evidence) []spec.Finding {
	advice := []string{"ask for a chat completion, not for /health", "`curl URL/v1/chat/completions` with max_tokens 4, and look at the content", "look at the workers' logs: the model may not be loaded"}
	if ev.start.notServed != nil && !ev.loaded() {
		var workers, seen []string
		for _, a := range ev.start.answers {
			if a.Tokens != nil && *a.Tokens == 0 && a.Reason == classNoTokens {
				workers = append(workers, a.Worker)
				seen = append(seen, fmt.Sprintf("%s: %s", workerOrNobody(a.Worker), a.Text))
			}
		}
		if len(seen) == 0 {
			return nil
		}
		return []spec.Finding{{Severity: spec.SeverityInvalid, Confidence: spec.ConfidenceVeryHigh, Workers: named(workers),
			Summary: "every answer was complete and without a token: nothing was loaded", Evidence: firstOf(seen, 8), Advice: advice}}
	}
	empty, sent := 0, 0
	for _, d := range ev.episodes {
		empty += d.requests.Classes[classNoTokens]
		sent += d.requests.Sent
	}
	if empty == 0 {
		return ev.silent(advice)
	}
	f := spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh,
		Summary:  fmt.Sprintf("%s of %s answers were complete and without a token", grouped(float64(empty)), grouped(float64(sent))),
		Evidence: []string{fmt.Sprintf("class %s: %s of %s requests", classNoTokens, grouped(float64(empty)), grouped(float64(sent)))}, Advice: advice}
	if float64(empty) > (1-ev.th.NoTokens)*float64(sent) {
		f.Severity = spec.SeverityFail
	}
	return []spec.Finding{f}
}

// silent finds episodes in which requests were open until the client gave them up, and none
// had a token: nothing was served, though nothing failed. A fleet that is seen to stand still
// has its own finding.
func (ev *Evidence) silent(advice []string) []spec.Finding {
	var seen []string
	open, sent := 0, 0
	for _, d := range ev.episodes {
		n := d.requests.Classes[spec.ClassInterrupted]
		if d.begun > 0 || n == 0 || len(d.stalls) > 0 {
			return nil
		}
		open, sent = open+n, sent+d.requests.Sent
		seen = append(seen, fmt.Sprintf("%s: %s of %s requests were open when it ended, and none had a token",
			d.title(), grouped(float64(n)), grouped(float64(d.requests.Sent))))
	}
	if open == 0 {
		return nil
	}
	return []spec.Finding{{Severity: spec.SeverityFail, Confidence: spec.ConfidenceVeryHigh,
		Summary: fmt.Sprintf("none of %s requests got a token: the server took them, and did not answer",
			grouped(float64(sent))),
		Evidence: firstOf(seen, 8), Advice: advice}}
}

const classNoTokens = "no-tokens"

func workerOrNobody(name string) string {
	if name == "" {
		return "an answer"
	}
	return workerWord(name)
}

// named leaves out who has no name.
func named(workers []string) []string {
	var all []string
	for _, w := range workers {
		if w != "" {
			all = append(all, w)
		}
	}
	return all
}
