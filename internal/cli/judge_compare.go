package cli

import (
	"context"
	"fmt"
	"math"
	"strings"

	"aicr/internal/judge"
	"aicr/internal/spec"
	"aicr/internal/stats"
)

// comparisonSchema names the shape of comparison.
const comparisonSchema = "aicr.run/comparison/v1alpha1"

// What a comparison says of the second run.
const (
	isBetter   = "better"
	isWorse    = "worse"
	isMixed    = "mixed" // better in one thing, worse in another
	cannotTell = "cannot tell"
)

// comparison is what two runs say of each other.
type comparison struct {
	Schema  string     `json:"schema"`
	Says    string     `json:"says"` // of the second run
	Reason  string     `json:"reason"`
	Runs    []side     `json:"runs"`
	Figures []compared `json:"figures"`
	Notes   []string   `json:"notes,omitempty"`
}

// side is one of the two.
type side struct {
	Run      string     `json:"run"`
	Verdict  spec.State `json:"verdict"`
	Episodes int        `json:"episodes"` // valid ones
	LoadedS  float64    `json:"loadedSeconds"`
	Stalls   int        `json:"stalls"`

	point      spec.OperatingPoint
	target     spec.Target
	throughput []float64 // ln, one an episode
	ttft       []float64
	sent       int
	failed     int
}

// compared is one figure of both. Ratio is the second to the first.
type compared struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit"`
	First  *float64 `json:"first,omitempty"`
	Second *float64 `json:"second,omitempty"`
	Ratio  *float64 `json:"ratio,omitempty"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	Says   string   `json:"says"`
}

// compare says whether the second run is better than the first.
func (a *app) compare(ctx context.Context, first, second string, o *judgeOptions) error {
	change, err := o.check(a)
	if err != nil {
		return err
	}
	var sides []side
	for _, dir := range []string{first, second} {
		s, err := a.sideOf(ctx, dir, change)
		if err != nil {
			return err
		}
		sides = append(sides, *s)
	}
	c := compareSides(sides[0], sides[1])
	if o.format == outputJSON {
		err = a.printJSON(c)
	} else {
		_, err = a.env.Stdout.Write(comparisonText(c, a.stdoutPalette()))
	}
	if err != nil {
		return err
	}
	switch c.Says {
	case isBetter:
		return nil
	case isWorse:
		return Failed
	}
	return Unmeasured
}

// sideOf reads what is compared of a run: the mean of each valid episode, and what
// the judge says of all.
func (a *app) sideOf(ctx context.Context, dir string, change func(*spec.Plan) (*spec.Plan, string, error)) (*side, error) {
	run, err := a.readRun(dir)
	if err != nil {
		return nil, err
	}
	plan, _, err := change(run.Plan)
	if err != nil {
		return nil, err
	}
	s := &side{Run: dir, point: run.Plan.Point, target: run.Run.Target}
	v, err := rejudge(ctx, dir, run, plan, func(e *spec.Episode) {
		if e.Number > 0 && e.Client.Valid {
			s.take(e)
		}
	})
	if err != nil {
		return nil, err
	}
	s.Verdict, s.LoadedS, s.Stalls = v.Verdict, v.LoadedS, len(v.Stalls)
	return s, nil
}

func (s *side) take(e *spec.Episode) {
	s.Episodes++
	s.sent += e.Requests.Sent - e.Requests.Interrupted
	s.failed += e.Requests.Failed
	for _, f := range e.Figures {
		switch {
		case f.Name == judge.Throughput && f.Mean != nil && *f.Mean > 0:
			s.throughput = append(s.throughput, math.Log(*f.Mean))
		case f.Name == judge.FirstToken && f.P99 != nil && *f.P99 > 0:
			s.ttft = append(s.ttft, math.Log(*f.P99))
		}
	}
}

// together is how sure the four statements are at once; each of them is surer.
const (
	together = 0.95
	each     = 1 - (1-together)/4
)

func compareSides(first, second side) *comparison {
	c := &comparison{Schema: comparisonSchema, Runs: []side{first, second}}
	c.Figures = []compared{
		compareMeans("throughput", "tokens/s", first.throughput, second.throughput, true),
		compareMeans("ttft p99", "ms", first.ttft, second.ttft, false),
		compareRates(first, second),
		compareFailures(first, second),
	}
	var better, worse []string
	for _, f := range c.Figures {
		switch f.Says {
		case isBetter:
			better = append(better, f.Name)
		case isWorse:
			worse = append(worse, f.Name)
		}
	}
	switch {
	case len(better) > 0 && len(worse) > 0:
		c.Says, c.Reason = isMixed, fmt.Sprintf("better in %s, worse in %s", listed(better), listed(worse))
	case len(better) > 0:
		c.Says, c.Reason = isBetter, fmt.Sprintf("better in %s, worse in nothing that can be told", listed(better))
	case len(worse) > 0:
		c.Says, c.Reason = isWorse, fmt.Sprintf("worse in %s", listed(worse))
	default:
		c.Says, c.Reason = cannotTell, "the intervals of all figures hold no change: more episodes would narrow them"
		if first.Episodes == 0 || second.Episodes == 0 {
			c.Reason = "one of the two has no episode that counts: there is nothing to compare"
		}
	}
	c.Notes = compareNotes(first, second)
	return c
}

// compareMeans compares the means of logarithms, with the spread of both runs' episodes
// pooled: a run that failed early has few of its own.
func compareMeans(name, unit string, first, second []float64, moreIsBetter bool) compared {
	f := compared{Name: name, Unit: unit, Says: cannotTell}
	f.First, f.Second = exponent(stats.Mean(first)), exponent(stats.Mean(second))
	d, low, high := stats.MeanDifference(first, second, each)
	f.Ratio, f.Low, f.High = exponent(d), exponent(low), exponent(high)
	switch {
	case low > 0 == moreIsBetter && (low > 0 || high < 0):
		f.Says = isBetter
	case low > 0 || high < 0:
		f.Says = isWorse
	}
	return f
}

// compareFailures compares the shares of requests that failed: by exact intervals
// that do not overlap.
func compareFailures(first, second side) compared {
	f := compared{Name: "failed requests", Unit: "of requests", Says: cannotTell}
	if first.sent == 0 || second.sent == 0 {
		return f
	}
	f.First, f.Second = pointer(float64(first.failed)/float64(first.sent)), pointer(float64(second.failed)/float64(second.sent))
	low1, high1 := stats.ClopperPearson(first.failed, first.sent, each)
	low2, high2 := stats.ClopperPearson(second.failed, second.sent, each)
	switch {
	case low2 > high1:
		f.Says = isWorse
	case high2 < low1:
		f.Says = isBetter
	}
	return f
}

// compareRates compares stalls a loaded minute: of all the stalls there were, the
// share of the second run, by its exact interval, tells the ratio of the rates.
func compareRates(first, second side) compared {
	f := compared{Name: "stalls", Unit: "a loaded minute", Says: cannotTell}
	t1, t2 := first.LoadedS/60, second.LoadedS/60
	if t1 <= 0 || t2 <= 0 {
		return f
	}
	f.First, f.Second = pointer(float64(first.Stalls)/t1), pointer(float64(second.Stalls)/t2)
	n := first.Stalls + second.Stalls
	if n == 0 {
		return f
	}
	ratio := func(share float64) float64 { return share / (1 - share) * t1 / t2 }
	low, high := stats.ClopperPearson(second.Stalls, n, each)
	f.Low, f.High = finiteOnly(ratio(low)), finiteOnly(ratio(high))
	f.Ratio = finiteOnly(ratio(float64(second.Stalls) / float64(n)))
	switch {
	case ratio(high) < 1:
		f.Says = isBetter
	case ratio(low) > 1:
		f.Says = isWorse
	}
	return f
}

func exponent(v float64) *float64 { return finiteOnly(math.Exp(v)) }

func finiteOnly(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// compareNotes warns of what makes two runs no pair.
func compareNotes(first, second side) (notes []string) {
	a, b := first.point, second.point
	if a != b {
		notes = append(notes, fmt.Sprintf("the operating points differ, so that a change need not be the deployment's: %s; and %s", loadText(a), loadText(b)))
	}
	if first.target.Simulated != second.target.Simulated {
		notes = append(notes, "one of the two is simulated")
	}
	for _, s := range []side{first, second} {
		if s.Episodes < 2 {
			notes = append(notes, fmt.Sprintf("of %s %s counted, which has no spread to tell anything by", s.Run, plural(s.Episodes, "episode")))
		}
		if s.Verdict == spec.Invalid {
			notes = append(notes, s.Run+" is INVALID: its own measurement was at fault")
		}
	}
	return append(notes, "episodes of two runs are not interleaved: what else changed between them is in the difference too")
}

func listed(all []string) string {
	if n := len(all); n > 1 {
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
	return strings.Join(all, "")
}

// comparisonText is a comparison for a person.
func comparisonText(c *comparison, paint palette) []byte {
	t := &verdictPage{paint: paint}
	word := map[string]string{isBetter: paint.green("BETTER"), isWorse: paint.red("WORSE"), isMixed: paint.yellow("MIXED"), cannotTell: paint.yellow("CANNOT TELL")}[c.Says]
	t.line(0, word+"  ", fmt.Sprintf("%s: %s", c.Runs[1].Run, c.Reason))
	t.blank()
	rows := [][]string{{"", "first", "second", "ratio", "interval", "unit", ""}}
	for _, f := range c.Figures {
		rows = append(rows, []string{f.Name, optional(f.First), optional(f.Second), ratioText(f.Ratio), ratioInterval(f.Low, f.High), f.Unit, f.Says})
	}
	for _, line := range aligned(rows, []bool{1: true, 2: true, 3: true, 4: true, 6: false}) {
		fmt.Fprintf(&t.b, "%s\n", line)
	}
	t.blank()
	for i, s := range c.Runs {
		t.line(2, []string{"first   ", "second  "}[i], fmt.Sprintf("%s: %s, %s that count, %s of load, %s", s.Run, s.Verdict, plural(s.Episodes, "episode"), loadedTime(s.LoadedS), plural(s.Stalls, "stall")))
	}
	t.line(2, "", fmt.Sprintf("the intervals hold together with %.0f %%, each with %.1f %%", 100*together, 100*each))
	t.title("Notes")
	for _, n := range c.Notes {
		t.line(2, "- ", n)
	}
	return t.b.Bytes()
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
