package cli

import (
	"fmt"
	"math"
	"time"

	"aicr/internal/load"
	"aicr/internal/report/layout"
)

// probing is shown while the first answers are awaited.
type probing struct {
	url     string
	elapsed time.Duration
}

func (p probing) Block(int) []string { return []string{p.Line()} }

func (p probing) Line() string {
	return fmt.Sprintf("probing %s: waiting for an answer, %s so far", p.url, p.elapsed.Round(time.Second))
}

// progress is shown while the load runs.
type progress struct {
	live *load.Live
	plan *load.Plan

	now    load.Moment
	second load.Moment // when the rate was last taken
	rates  []float64   // tokens a second, one for each second
}

// sample looks at the run.
func (p *progress) sample(time.Time) {
	p.now = p.live.Now()
	if d := p.now.Elapsed - p.second.Elapsed; d >= time.Second {
		p.rates = append(p.rates, float64(p.now.Tokens-p.second.Tokens)/d.Seconds())
		p.second = p.now
	}
}

func (p *progress) rate() float64 {
	if len(p.rates) == 0 {
		return math.NaN()
	}
	return p.rates[len(p.rates)-1]
}

// share is how much of the run is done; NaN when it has no end.
func (p *progress) share() float64 {
	s := p.plan.Main
	switch {
	case s.Count > 0:
		return float64(p.now.Done) / float64(s.Count+p.plan.Warmup.Count)
	case s.Duration > 0:
		return min(1, float64(p.now.Elapsed)/float64(s.Duration))
	}
	return math.NaN()
}

func (p *progress) asked() string {
	if s := p.plan.Main; s.Rate == 0 {
		return fmt.Sprintf(" of %d", s.Users)
	}
	return ""
}

func (p *progress) Block(width int) []string {
	m := p.now
	first := fmt.Sprintf("%7s  in flight %d%s   errors %d", m.Elapsed.Round(100*time.Millisecond), m.InFlight, p.asked(), m.Failed)
	if s := p.share(); !math.IsNaN(s) {
		first += fmt.Sprintf("   %s %3.0f %%", layout.Bar(s, min(30, max(10, width-60))), 100*s)
	}
	return []string{
		first,
		fmt.Sprintf("         ttft p50 %s  p99 %s so far", layout.Short(m.TTFT50), layout.Short(m.TTFT99)),
		fmt.Sprintf("         %s tokens/s now   %s", layout.Number(p.rate()), sparkline(p.rates, max(10, width-40))),
	}
}

func (p *progress) Line() string {
	m := p.now
	done := ""
	if s := p.share(); !math.IsNaN(s) {
		done = fmt.Sprintf(", %.0f %% done", 100*s)
	}
	return fmt.Sprintf("%s: %d%s in flight, %s tokens/s, ttft p50 %s p99 %s, %d errors%s", m.Elapsed.Round(time.Second),
		m.InFlight, p.asked(), layout.Number(p.rate()), layout.Short(m.TTFT50), layout.Short(m.TTFT99), m.Failed, done)
}
