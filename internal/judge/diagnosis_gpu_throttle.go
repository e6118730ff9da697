package judge

import (
	"fmt"
	"slices"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// gpuThrottled finds GPUs that are held back by heat or by their power supply. A
// power cap alone is how a busy GPU works.
func gpuThrottled(ev *Evidence) []spec.Finding {
	type sum struct {
		samples int
		harm    [len(harmfulReasons)]int
		hottest float64
		worker  string
	}
	by := map[string]*sum{}
	var order []string
	for _, d := range ev.looked() {
		for _, g := range d.gpus {
			s := by[g.name]
			if s == nil {
				s = &sum{}
				by[g.name] = s
				order = append(order, g.name)
			}
			s.samples += g.samples
			s.hottest = max(s.hottest, g.hottest)
			s.worker = g.worker
			for i, n := range g.harm {
				s.harm[i] += n
			}
		}
	}
	f := spec.Finding{Severity: spec.SeverityFail, Confidence: spec.ConfidenceVeryHigh,
		Advice: []string{"look at the cooling and the power supply of the node", "`nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i GPU`"}}
	var reasons []string
	for _, name := range order {
		s := by[name]
		for i, n := range s.harm {
			// Of few samples a handful is chance: more than half of the limit must be sure.
			low, _ := stats.ClopperPearson(n, max(1, s.samples), confidence)
			if n < throttleLeast || float64(n) < ev.th.ThrottleShare*float64(s.samples) || low < ev.th.ThrottleShare/2 {
				continue
			}
			if !slices.Contains(f.GPUs, name) {
				f.GPUs = append(f.GPUs, name)
				if s.worker != "" && !slices.Contains(f.Workers, s.worker) {
					f.Workers = append(f.Workers, s.worker)
				}
			}
			if !slices.Contains(reasons, harmfulReasons[i]) {
				reasons = append(reasons, harmfulReasons[i])
			}
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s in %s of %d samples, at up to %s °C", gpuOfWorker(name, s.worker), harmfulReasons[i],
				percent(float64(n)/float64(s.samples)), s.samples, amount(s.hottest)))
		}
	}
	if len(f.GPUs) == 0 {
		return nil
	}
	f.Summary = fmt.Sprintf("%s %s (%s)", counted(float64(len(f.GPUs)), "GPU"), verb(len(f.GPUs), "throttles", "throttle"), join(reasons))
	f.Evidence = firstOf(f.Evidence, 8)
	return []spec.Finding{f}
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
