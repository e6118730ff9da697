package judge

import (
	"fmt"
	"math"

	"aicr/internal/spec"
)

// wrongLength finds that the workload was not the declared one: what was measured is
// then another thing than what it is compared with.
func wrongLength(ev *Evidence) []spec.Finding {
	p := &ev.plan.Point
	var in, out, cached []float64
	for _, d := range ev.episodes {
		if !math.IsNaN(d.outputMean) {
			in, out = append(in, d.inputMean), append(out, d.outputMean)
		}
		if !math.IsNaN(d.cached) {
			cached = append(cached, d.cached)
		}
	}
	f := spec.Finding{Severity: spec.SeverityInvalid, Confidence: spec.ConfidenceVeryHigh,
		Advice: []string{"have the server ignore the end of a text (ignore_eos) and take min_tokens", "compare with a reference of the same lengths: `aicr knee --url URL --write FILE`"}}
	if m := mean(out); len(out) > 0 && p.OutputTokens > 0 && math.Abs(m/float64(p.OutputTokens)-1) > ev.th.LengthOff {
		f.Evidence = append(f.Evidence, fmt.Sprintf("answers had %.1f tokens on average, %d were declared", m, p.OutputTokens))
	}
	if m := mean(in); len(in) > 0 && m > 0 && p.InputTokens > 0 && math.Abs(m/float64(p.InputTokens)-1) > ev.th.PromptOff {
		f.Evidence = append(f.Evidence, fmt.Sprintf("prompts had %.1f tokens on average, %d were declared", m, p.InputTokens))
	}
	if m := mean(cached); len(cached) > 0 && p.Prompts == "unique" && m > ev.th.CachedOff {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s of the prompts' tokens came from a prefix cache, and unique prompts were declared", percent(m)))
	}
	if len(f.Evidence) == 0 {
		return nil
	}
	f.Summary = "the workload was not as declared: " + f.Evidence[0]
	return []spec.Finding{f}
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
