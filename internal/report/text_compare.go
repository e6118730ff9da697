package report

import (
	"fmt"
	"strings"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// comparison tells of two runs.
func (t *textPage) comparison(r *spec.Report) {
	c := r.Comparison
	t.Line(0, t.comparedColour(c.Says)(word(strings.ToUpper(c.Says)))+"  ", comparedReason(c))
	if len(c.Figures) > 0 {
		t.Blank()
		var rows []layout.Row
		for _, f := range c.Figures {
			rows = append(rows, layout.Row{Cells: []string{f.Name, optional(f.First), optional(f.Second), ratioText(f.Ratio), ratioInterval(f.Low, f.High), f.Unit, f.Says}})
		}
		t.Table([]layout.Column{{}, {Head: "first", Right: true}, {Head: "second", Right: true}, {Head: "ratio", Right: true},
			{Head: "interval", Right: true}, {Head: "unit"}, {Paint: t.comparedColour}}, rows)
	}
	t.Blank()
	for i, s := range c.Runs[:min(2, len(c.Runs))] {
		t.Line(2, []string{"first   ", "second  "}[i], fmt.Sprintf("%s: %s, %s that counted, %s of load, %s", layout.Clip(s.Run, longestPath), s.Verdict,
			layout.Plural(s.Episodes, "episode"), layout.Loaded(s.LoadedS), layout.Plural(s.Stalls, "stall")))
	}
	t.Line(2, "", fmt.Sprintf("the intervals hold together with %s %%, each with %s %%", percent(c.Together), percent(c.Each)))
	if r.Judge != "" {
		t.Line(2, "", "compare them again with: "+r.Judge)
	}
	if r.Page != "" {
		t.Line(2, "", "see them with: "+r.Page)
	}
	t.notes(c.Notes)
}

// comparedReason is why, with the run that it is said of.
func comparedReason(c *spec.Comparison) string {
	if len(c.Runs) < 2 {
		return c.Reason
	}
	return layout.Clip(c.Runs[1].Run, longestPath) + ": " + c.Reason
}

// longestPath is how many bytes of a run's path are shown where more is told behind it.
const longestPath = 800

// comparedColour is how what a comparison says is shown.
func (t *textPage) comparedColour(says string) func(string) string {
	switch says {
	case spec.IsBetter:
		return t.Green
	case spec.IsWorse:
		return t.Red
	}
	return t.Yellow
}

// percent is a share in hundredths, with no more places than it has.
func percent(share float64) string { return fmt.Sprintf("%.3g", 100*share) }

func ratioText(v *float64) string {
	if measured(v) == nil {
		return "none"
	}
	if *v >= 1e6 {
		return layout.Number(*v)
	}
	return fmt.Sprintf("%.3f", *v)
}

func ratioInterval(low, high *float64) string { return intervalOf(low, high, ratioText) }
