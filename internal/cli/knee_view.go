package cli

import (
	"fmt"
	"math"
	"sync"
	"time"

	"aicr/internal/checks"
	"aicr/internal/judge"
	"aicr/internal/report/layout"
)

// kneeView shows how far the search is: the level under load, those that were
// measured, and where the knee seems to be.
type kneeView struct {
	app   *app
	plan  *checks.KneePlan
	shown *status
	over  chan struct{}
	once  sync.Once
	load  runView // only for what an endpoint tells of the episode under way

	mu    sync.Mutex
	begun time.Time
	title string
	done  map[string]int // of each stage
	knee  *judge.Knee
}

func (a *app) showKnee(plan *checks.KneePlan) *kneeView {
	v := &kneeView{app: a, plan: plan, shown: a.watch(), over: make(chan struct{}), done: map[string]int{}, begun: a.env.Now(), title: "start: waiting for every worker to answer"}
	if v.shown.term.IsTerminal {
		go tick(v.over, func() { v.shown.Update(v) })
	} else {
		a.say("%s", v.title)
	}
	return v
}

func (v *kneeView) close() {
	v.once.Do(func() { close(v.over) })
	v.shown.Done()
}

// Loading is told what is loaded next.
func (v *kneeView) Loading(stage string, inFlight int, seconds float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.title = fmt.Sprintf("%s: %s in flight for %s", stage, layout.Number(float64(inFlight)), layout.Loaded(seconds))
	v.load.mu.Lock()
	v.load.now, v.load.rates = nil, nil
	v.load.mu.Unlock()
}

// Measured is told what came of it.
func (v *kneeView) Measured(stage string, l judge.KneeLevel, k *judge.Knee) {
	v.mu.Lock()
	v.done[stage]++
	v.knee = k
	n := v.done[stage]
	v.mu.Unlock()
	line := fmt.Sprintf("%s %d: %s in flight: ", stage, n, layout.Number(float64(l.InFlight)))
	if l.Throughput.Value != nil {
		line += fmt.Sprintf("%s tokens/s, ttft p50 %s p99 %s", layout.Number(*l.Throughput.Value), layout.Millis(l.TTFT50), layout.Millis(l.TTFT99))
	}
	if l.NotUsed != "" {
		line += " (does not count: " + l.NotUsed + ")"
	}
	if stage == checks.KneeStageLevel && k.Found {
		line += "; knee " + kneeSoFar(k)
	}
	v.app.say("%s", line)
}

// kneeSoFar is where the levels so far have it.
func kneeSoFar(k *judge.Knee) string {
	if k.Low != nil && k.High != nil {
		return fmt.Sprintf("within %s to %s", layout.Number(math.Round(*k.Low)), layout.Number(math.Round(*k.High)))
	}
	return "about " + layout.Number(k.InFlight)
}

// Block is the view on a terminal.
func (v *kneeView) Block(width int) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := []string{fmt.Sprintf("%s   (%s of at most %s)", v.title, shortTime(v.app.env.Now().Sub(v.begun)), v.plan.Budget)}
	v.load.mu.Lock()
	if m := v.load.now; m != nil {
		lines = append(lines, fmt.Sprintf("  in flight %d of %d   errors %d   %s tokens/s   %s", m.InFlight, m.Point.Concurrency, m.Failed,
			layout.Number(m.TokensPerS), sparkline(v.load.rates, max(10, width-60))))
	}
	v.load.mu.Unlock()
	if v.knee != nil && v.knee.Found {
		lines = append(lines, fmt.Sprintf("  knee %s in flight, after %d levels", kneeSoFar(v.knee), v.done[checks.KneeStageLevel]))
	} else if v.done[checks.KneeStageLevel] > 0 {
		lines = append(lines, fmt.Sprintf("  no knee yet, after %d levels", v.done[checks.KneeStageLevel]))
	}
	return lines
}

// Line is what is said in a log.
func (v *kneeView) Line() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.title
}
