package judge

import (
	"fmt"
	"strings"

	"aicr/internal/spec"
)

// discoveryPanic finds a frontend that is up and will never serve, by its log. One that
// polled a stream that had ended does not recover, so that nobody need wait for it; what
// one that starts may tell as well has to last.
func discoveryPanic(ev *Evidence) []spec.Finding {
	if ev.start.notServed == nil {
		return nil
	}
	var seen []string
	sure := spec.ConfidenceMedium // a missing bucket alone is also told by one that starts
	for _, e := range ev.start.logs {
		if strings.Contains(e.Text, "Unfold must not be polled") || strings.Contains(e.Text, "bucket missing") {
			seen = append(seen, fmt.Sprintf("%d x %q in the log of %s", max(1, e.Count), clip(e.Text), e.Source))
			if strings.Contains(e.Text, "Unfold") {
				sure = spec.ConfidenceVeryHigh
			}
		}
	}
	if len(seen) == 0 || sure != spec.ConfidenceVeryHigh && ev.start.notServed.T < ev.th.NoServeS {
		return nil
	}
	f := spec.Finding{Severity: spec.SeverityFail, Confidence: sure,
		Summary:  "the frontend's discovery panicked: it is up and never serves",
		Evidence: append(seen, fmt.Sprintf("no completion in %s", lasted(ev.start.notServed.T))),
		Advice: ev.advise(tip{any: "align the runtime's image tag with the version of the chart"},
			tip{cluster: "`kubectl logs -l nvidia.com/dynamo-component-type=frontend --tail=100`", endpoint: "look at the frontend's log"})}
	if skew := skewed(ev); skew != "" {
		f.Evidence = append(f.Evidence, skew)
	}
	return []spec.Finding{f}
}

// clip shortens a line of a log.
func clip(s string) string {
	const most = 160
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// shorten is what a cluster says of a failure, to its end: an error begins with what was
// done and ends with why it failed, and the text of a policy that is cut in its middle says
// something else. Headline is as much of it as fits a line of a report; the rest is in the
// evidence.
func shorten(s string) string { return upTo(s, 2000) }

func headline(s string) string { return upTo(s, 600) }

// upTo cuts a text at its end, at a word.
func upTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head := strings.ToValidUTF8(s[:most], "")
	if at := strings.LastIndexByte(head, ' '); at > most/2 {
		head = head[:at]
	}
	return head + "…"
}
