package judge

import (
	"fmt"
	"slices"
	"strings"
)

const (
	throttleShare = 0.05 // of the window's samples
	throttleLeast = 2    // samples
)

// harmfulReasons are the throttle reasons that say that something is wrong. A power
// cap alone is how a busy GPU works.
var harmfulReasons = [...]string{"hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal", "thermal"}

// harmful words those of the reasons that are harmful.
func harmful(reasons []string) string {
	var bad []string
	for _, r := range reasons {
		if slices.Contains(harmfulReasons[:], r) {
			bad = append(bad, r)
		}
	}
	return strings.Join(bad, ", ")
}

// harmBits has a bit for each harmful reason, in the order of harmfulReasons.
func harmBits(reasons []string) (bits uint8) {
	for i, bad := range harmfulReasons {
		if slices.Contains(reasons, bad) {
			bits |= 1 << i
		}
	}
	return bits
}

// throttled counts the samples of a GPU in which it was held back, by reason.
type throttled struct {
	hits        [len(harmfulReasons)]int // in the order of harmfulReasons
	of          int
	temperature float64 // the highest of those samples
}

func throttledOf(t *gpuTrack) (c throttled) {
	for j := range t.states {
		s := &t.states[j]
		if s.gap != "" || !s.throttleKnown {
			continue
		}
		if c.of++; s.harm == 0 {
			continue
		}
		c.temperature = max(c.temperature, orZero(s.temperature))
		for bit := range c.hits {
			c.hits[bit] += int(s.harm >> bit & 1)
		}
	}
	return c
}

// gpuThrottles finds GPUs that are held back by heat or by their power supply: one
// symptom for each reason, since a hot rack has many.
func gpuThrottles(w *window) []Symptom {
	counts := make([]throttled, len(w.gpus))
	for i, t := range w.gpus {
		counts[i] = throttledOf(t)
	}
	var all []Symptom
	for bit, reason := range harmfulReasons {
		var gpus, short, workers []string
		least, most, samples, hottest := 1.0, 0.0, 0, 0.0
		for i, c := range counts {
			share := float64(c.hits[bit]) / float64(max(1, c.of))
			if c.hits[bit] < throttleLeast || share < throttleShare {
				continue
			}
			gpus, short = append(gpus, w.gpus[i].name), append(short, w.gpus[i].short())
			if k := w.workerOf[i]; k >= 0 {
				workers = append(workers, w.workers[k].name)
			}
			least, most, samples, hottest = min(least, share), max(most, share), max(samples, c.of), max(hottest, c.temperature)
		}
		if len(gpus) == 0 {
			continue
		}
		verb := "throttle"
		if len(gpus) == 1 {
			verb = "throttles"
		}
		of := percent(most)
		if percent(least) != of {
			of = strings.TrimSuffix(percent(least), " %") + " to " + of
		}
		words := fmt.Sprintf("%s %s (%s) in %s of the last %d samples", several("GPU", short), verb, reason, of, samples)
		if hottest > 0 && strings.HasSuffix(reason, "thermal") {
			words += fmt.Sprintf(", at up to %s °C", amount(hottest))
		}
		all = append(all, Symptom{Finding: "gpu/throttle", Severity: Fail, GPUs: gpus, Workers: workers, Words: words})
	}
	return all
}
