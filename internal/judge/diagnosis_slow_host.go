package judge

import (
	"fmt"
	"math"

	"aicr/internal/spec"
)

// slowHost finds that the GPUs wait for the host: requests are held before the
// workers have them.
func slowHost(ev *Evidence) []spec.Finding {
	if r := ev.ratio(); !ev.slow() || r >= ev.th.HostRatio {
		return nil
	}
	host, evidence := ev.waitsForHost()
	if !host {
		return nil
	}
	f := spec.Finding{Severity: spec.SeverityFail, Confidence: spec.ConfidenceMedium,
		Summary:  "the host path is slow: " + ev.slowWords() + ", and requests wait before the workers have them",
		Evidence: append(ev.slowEvidence(), evidence...),
		Advice: ev.advise(tip{cluster: "look at the frontend's CPU: `kubectl top pod`; is one thread at 100 %?", endpoint: "look at the frontend's CPU: `top -H`; is one thread at 100 %?"},
			tip{any: "`cat /proc/cmdline` on the node: isolcpus, nohz_full?"}, tip{any: "look at the interrupts' affinity, and add a frontend replica"})}
	return []spec.Finding{ev.unlessPastKnee(f)}
}

// waitsForHost says whether what is in flight is with the frontend and not with the
// workers.
func (ev *Evidence) waitsForHost() (bool, []string) {
	var running, queued, pressure []float64
	var ttft []float64
	for _, d := range ev.episodes {
		running, queued, pressure = appendKnown(running, d.host.running), appendKnown(queued, d.host.queued), appendKnown(pressure, d.host.pressure)
		ttft = appendKnown(ttft, d.ttft50)
	}
	r, q, t := median(running), median(queued), median(ttft)
	var seen []string
	if !math.IsNaN(r) {
		seen = append(seen, fmt.Sprintf("workers have %s of what is in flight", percent(r)))
	}
	if !math.IsNaN(q) {
		seen = append(seen, fmt.Sprintf("%s of what the frontend has under way is not at its first token", percent(q)))
	}
	if !math.IsNaN(t) {
		seen = append(seen, fmt.Sprintf("TTFT p50 %s ms", grouped(t)))
	}
	if p := median(pressure); p > nodeShort {
		seen = append(seen, fmt.Sprintf("tasks on the node waited for a CPU %s of the time", percent(p)))
	}
	return r < workersHave || math.IsNaN(r) && q > frontendHas, seen
}

const (
	workersHave = 0.75 // of what is in flight; below it the rest is held before them
	frontendHas = 0.25 // of what is in flight, before its first token
	nodeShort   = 0.2  // CPU pressure that is worth a word
)
