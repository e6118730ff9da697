package cli

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"aicr/internal/checks"
	"aicr/internal/judge"
	"aicr/internal/report"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// runView shows how far a validation is: which stage, which episode of how many, the
// sequential tests on their way, and what would end it.
type runView struct {
	app   *app
	plan  *spec.Plan
	shown *status
	over  chan struct{}
	once  sync.Once

	mu      sync.Mutex
	stage   string
	number  int
	last    *spec.Episode // the last whole one
	verdict *spec.Verdict
	next    *judge.Next
	now     *checks.Progress // of the episode under way, where somebody tells
	rates   []float64        // tokens a second, one for each second

	endsEarly bool // where no PASS is possible

	waiting  string // what is waited for; "": nothing
	waits    time.Time
	toldWait string // the last of it that was a line of its own
	toldAt   time.Time
}

// showRun starts the view; close ends it.
func (a *app) showRun(plan *spec.Plan) *runView {
	v := &runView{app: a, plan: plan, shown: a.watch(), over: make(chan struct{})}
	if v.shown.term.IsTerminal {
		go tick(v.over, func() { v.shown.Update(v) })
	}
	return v
}

func (v *runView) close() {
	v.once.Do(func() { close(v.over) })
	v.shown.Done()
}

// Stage is told of a stage. On a terminal the block shows it; elsewhere it is a line.
func (v *runView) Stage(stage string, number int) {
	v.mu.Lock()
	v.stage, v.number, v.rates, v.now = stage, number, nil, nil
	title := v.title()
	v.mu.Unlock()
	if !v.shown.term.IsTerminal && !(stage == stageEpisode && number > 0) {
		v.app.say("%s", title)
	}
}

// CannotPass says before any load why the run cannot pass, and whether it ends there.
func (v *runView) CannotPass(why []judge.Hindrance) (end bool) {
	for _, h := range why {
		v.app.say("this run cannot PASS: %s", h.Words())
	}
	return v.endsEarly
}

// Episode is told of a whole episode.
func (v *runView) Episode(e *spec.Episode) {
	v.mu.Lock()
	v.last = e
	v.mu.Unlock()
	if e.Number == 0 {
		v.app.say("half the load: %s", episodeFigures(e))
	}
}

// Judged is told what an episode made of the case.
func (v *runView) Judged(number int, verdict *spec.Verdict, next *judge.Next) {
	v.mu.Lock()
	v.verdict, v.next = verdict, next
	last := v.last
	v.mu.Unlock()
	line := fmt.Sprintf("episode %d of %s", number, v.span())
	if last != nil {
		line += ": " + episodeFigures(last)
	}
	switch {
	case next == nil:
		line += "; decided"
	case next.Retry != "":
		line += "; it does not count: " + next.Retry
	case next.Why != "":
		line += "; " + next.Why
	}
	v.app.say("%s", line)
}

const (
	stageStart   = "start"
	stageEpisode = "episode"
	stageRemoval = "removing what was made on the cluster" // of no record: it is told of here alone
)

// span is how many episodes there may be.
func (v *runView) span() string {
	from, to := v.plan.Cost.ExpectedEpisodes, v.plan.Thresholds.MaxEpisodes
	if from >= to {
		return fmt.Sprint(to)
	}
	return fmt.Sprintf("%d–%d", from, to)
}

func (v *runView) title() string {
	switch {
	case v.stage == stageStart:
		return "start: waiting for every worker to answer"
	case v.stage == stageEpisode && v.number == 0:
		return fmt.Sprintf("half the load for %s: is the operating point past the knee?", layout.Loaded(v.plan.Half.DurationS))
	case v.stage == stageEpisode:
		return fmt.Sprintf("episode %d of %s", v.number, v.span())
	}
	return v.stage
}

// Progress is told how the episode under way goes.
func (v *runView) Progress(p checks.Progress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now = &p
	if n := int(p.Elapsed / time.Second); n > len(v.rates) {
		v.rates = append(v.rates, p.TokensPerS)
	}
}

// Block is the view on a terminal.
func (v *runView) Block(width int) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var lines []string
	if title := v.title(); title != "" {
		lines = append(lines, title)
	}
	if v.waiting != "" {
		lines = append(lines, v.waitingLine(v.app.env.Now()))
	}
	switch {
	case v.now != nil:
		m := v.now
		lines = append(lines,
			fmt.Sprintf("  %s  in flight %d of %d   errors %d   ttft p50 %s p99 %s", m.Elapsed.Round(100*time.Millisecond), m.InFlight, m.Point.Concurrency, m.Failed, layout.Short(m.TTFT50), layout.Short(m.TTFT99)),
			fmt.Sprintf("  %s tokens/s in the last second   %s", layout.Number(m.TokensPerS), sparkline(v.rates, max(10, width-40))))
	case v.last != nil:
		lines = append(lines, "  last: "+episodeFigures(v.last))
	}
	if v.verdict == nil {
		return lines
	}
	for _, w := range v.verdict.Tests {
		lines = append(lines, "  "+report.WalkLine(w, min(40, max(10, width-60))))
	}
	if v.next != nil {
		lines = append(lines, "  "+strings.TrimSpace(v.next.Retry+" "+v.next.Why))
	}
	return lines
}

// Line is never asked for: what is worth a line is said when it happens.
func (v *runView) Line() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.title()
}

// episodeFigures are the figures of an episode that a person follows: the throughput that
// is judged, and the gross one beside it where they differ.
func episodeFigures(e *spec.Episode) string {
	rate, gross, p50, p99 := math.NaN(), math.NaN(), "–", "–"
	for _, f := range e.Figures {
		switch f.Name {
		case judge.Throughput:
			rate = valueOr(f.Mean, rate)
		case judge.GrossThroughput:
			gross = valueOr(f.Mean, gross)
		case judge.FirstToken:
			p50, p99 = layout.Millis(f.P50), layout.Millis(f.P99)
		}
	}
	tokens := layout.Number(rate) + " tokens/s"
	if math.IsNaN(rate) {
		tokens = "throughput not measured"
	}
	if !math.IsNaN(gross) && layout.Number(gross) != layout.Number(rate) {
		tokens += fmt.Sprintf(" (gross %s)", layout.Number(gross))
	}
	return fmt.Sprintf("%s, ttft p50 %s p99 %s, %s", tokens, p50, p99, layout.Plural(e.Requests.Failed+e.Requests.Interrupted, "error"))
}

func valueOr(v *float64, otherwise float64) float64 {
	if v == nil {
		return otherwise
	}
	return *v
}
