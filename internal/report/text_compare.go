package report

import (
	"aicr/internal/report/layout"
	"aicr/internal/spec"
	"fmt"
)

// comparison is a comparison for a person.
func (t *textPage) comparison(c *spec.Comparison) {
	word := map[string]string{spec.IsBetter: t.Green("BETTER"), spec.IsWorse: t.Red("WORSE"), spec.IsMixed: t.Yellow("MIXED"), spec.CannotTell: t.Yellow("CANNOT TELL")}[c.Says]
	t.Line(0, word+"  ", fmt.Sprintf("%s: %s", c.Runs[1].Run, c.Reason))
	t.Blank()
	rows := [][]string{{"", "first", "second", "ratio", "interval", "unit", ""}}
	for _, f := range c.Figures {
		rows = append(rows, []string{f.Name, optional(f.First), optional(f.Second), ratioText(f.Ratio), ratioInterval(f.Low, f.High), f.Unit, f.Says})
	}
	for _, line := range layout.Aligned(rows, []bool{1: true, 2: true, 3: true, 4: true, 6: false}) {
		fmt.Fprintf(t, "%s\n", line)
	}
	t.Blank()
	for i, s := range c.Runs {
		t.Line(2, []string{"first   ", "second  "}[i], fmt.Sprintf("%s: %s, %s that count, %s of load, %s", s.Run, s.Verdict, layout.Plural(s.Episodes, "episode"), layout.Loaded(s.LoadedS), layout.Plural(s.Stalls, "stall")))
	}
	t.Line(2, "", fmt.Sprintf("the intervals hold together with %.0f %%, each with %.1f %%", 100*c.Together, 100*c.Each))
	t.Title("Notes")
	for _, n := range c.Notes {
		t.Line(2, "- ", n)
	}
}

func ratioText(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.3f", *v)
}

func ratioInterval(low, high *float64) string {
	if low == nil && high == nil {
		return ""
	}
	top := "∞"
	if high != nil {
		top = ratioText(high)
	}
	return ratioText(low) + " to " + top
}
