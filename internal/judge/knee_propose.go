package judge

import (
	"fmt"
	"math"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// KneeProposal is an operating point below the knee and what to expect of it. Each
// figure says what it rests on.
type KneeProposal struct {
	PerGPU     int     `json:"per_gpu"`
	InFlight   int     `json:"in_flight"`
	Why        string  `json:"why"`
	Elasticity float64 `json:"elasticity"` // of the doubling that ends there, by the curve

	// Doubling is the same as it was measured, by looks at half of it as a validation
	// takes one; nil: there is no half of one request.
	Doubling *Doubling `json:"doubling,omitempty"`

	// Waiting is how many requests waited in the engines' queues there, where some always did.
	Waiting *float64 `json:"waiting,omitempty"`

	// What was measured there; nil when it could not be.
	Reference    *spec.ReferenceFigure `json:"reference,omitempty"`
	Low          float64               `json:"low,omitempty"` // of the reference: t interval of ln(throughput), 95 %
	High         float64               `json:"high,omitempty"`
	GuardrailMS  float64               `json:"ttft_guardrail_ms,omitempty"`
	GuardrailWhy string                `json:"ttft_guardrail_why,omitempty"`
	Floor        float64               `json:"floor,omitempty"` // tokens/s
	FloorWhy     string                `json:"floor_why,omitempty"`
}

// LeastKneeReference is of how many episodes a reference is at least: a dispersion of
// two is hardly one.
const LeastKneeReference = 3

// guardrailFactor is how many times the usual p99 is no longer bearable. The p99 of
// healthy runs spreads by ln-sd 0.27 (published), so that three times is four of
// them away.
const guardrailFactor = 3

// kneeClear is how far below the knee a point is at least: where an engine is full
// at once, elasticity gives no warning.
const kneeClear = 1.25

// ProposeBelow proposes where to measure: the greatest load a GPU whose last
// doubling pays with a margin, and that is below the knee wherever in its interval
// it is. There is none below one request a GPU.
func ProposeBelow(k *Knee, levels []KneeLevel, gpus int, t *spec.Thresholds) *KneeProposal {
	curve, ok := fitKnee(usableLevels(levels))
	if !ok || !k.Found || gpus < 1 {
		return nil
	}
	most, why := k.Below, fmt.Sprintf("the last doubling has an elasticity of %.2f or more there, %.2f above the least", t.Elasticity+kneeMargin, kneeMargin)
	if far := k.InFlight / kneeClear; far < most {
		most, why = far, fmt.Sprintf("the knee is %.2f times as high", kneeClear)
	}
	if k.Low == nil {
		most, why = min(most, k.InFlight/2), "the knee's interval is not known, so that half of it is taken"
	} else if *k.Low < most {
		most, why = *k.Low, "it is the lower end of the knee's interval"
	}
	if full := FullFrom(levels); full != nil && float64(full.InFlight) <= most {
		most, why = float64(highestBelow(levels, full.InFlight)), fmt.Sprintf("at %d in flight requests always wait in the engines' queues: the engines take no more at once", full.InFlight)
	}
	per := roundDown(int(most) / gpus)
	if per < 1 {
		return nil
	}
	return &KneeProposal{PerGPU: per, InFlight: per * gpus, Why: why, Elasticity: curve.elasticity(float64(per * gpus))}
}

// Lower is the next lower point to propose; nil: there is none.
func (p *KneeProposal) Lower(gpus int) *KneeProposal {
	const step = 0.8
	per := roundDown(int(step * float64(p.PerGPU)))
	if per < 1 || per >= p.PerGPU {
		return nil
	}
	why := fmt.Sprintf("at %d a GPU requests always waited in the engines' queues", p.PerGPU)
	if p.Waiting == nil {
		why = fmt.Sprintf("at %d a GPU the doubling was measured to bring 2^%.2f only", p.PerGPU, p.Doubling.Elasticity)
	}
	return &KneeProposal{PerGPU: per, InFlight: per * gpus, Elasticity: p.Elasticity, Why: why}
}

// Denial is why a point that was measured is not proposed.
func (p *KneeProposal) Denial(least float64) string {
	if p.Waiting != nil {
		return fmt.Sprintf("at %d in flight %.1f requests waited in the engines' queues on average, and some always did", p.InFlight, *p.Waiting)
	}
	d := p.Doubling
	return fmt.Sprintf("from %d to %d in flight throughput was measured to rise by 2^%.2f only, and it must be 2^%.2f", d.From, d.To, d.Elasticity, least)
}

// roundDown gives a number that people like.
func roundDown(n int) int {
	switch {
	case n >= 64:
		return n / 8 * 8
	case n >= 16:
		return n / 4 * 4
	}
	return n
}

// Refer adds to a proposal what episodes at its point came to. Those that do not
// count are left out; with too few of the others there is no reference.
func (p *KneeProposal) Refer(episodes []KneeLevel, from string, t *spec.Thresholds) {
	var logs []float64
	worst := 0.0
	for i := range episodes {
		l := &episodes[i]
		if l.NotUsed != "" || l.Throughput.Value == nil || l.TTFT99 == nil {
			continue
		}
		logs = append(logs, math.Log(*l.Throughput.Value))
		worst = max(worst, *l.TTFT99)
	}
	if len(logs) < LeastKneeReference {
		return
	}
	mean, low, high := stats.MeanInterval(logs, 0.95)
	n := float64(len(logs))
	x := math.Exp(mean)
	p.Reference = &spec.ReferenceFigure{Throughput: roundTo(x, 4), Dispersion: threeDigits(stats.Std(logs) * math.Sqrt(n/(n-1))), N: len(logs), From: from}
	p.Low, p.High = math.Exp(low), math.Exp(high)
	p.GuardrailMS, p.GuardrailWhy = t.TTFTGuardrailMS, fmt.Sprintf("the usual bound; %d times the worst p99 of the reference, %.0f ms, is below it", guardrailFactor, worst)
	if g := guardrailFactor * worst; g > p.GuardrailMS {
		p.GuardrailMS, p.GuardrailWhy = threeDigits(g), fmt.Sprintf("%d times the worst p99 of the reference, %.0f ms", guardrailFactor, worst)
	}
	p.Floor, p.FloorWhy = threeDigits(t.RatioBad*x), fmt.Sprintf("%.2f of the reference: what should fail", t.RatioBad)
}

// threeDigits keeps three digits: more were not measured.
func threeDigits(x float64) float64 { return roundTo(x, 3) }

// roundTo keeps so many digits. A reference has one more than are known, since what is compared
// with it must not be off by the rounding.
func roundTo(x float64, n int) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	scale := math.Pow(10, float64(n-1)-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}
