package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// shapeOf names the shape and the colour of a state. One that nobody knows is not
// judged.
func shapeOf(s spec.State) string {
	switch s {
	case spec.Pass:
		return "pass"
	case spec.Fail:
		return "fail"
	case spec.Inconclusive:
		return "inconclusive"
	case spec.Invalid:
		return "invalid"
	case spec.Skip:
		return "skip"
	case spec.NotJudged, spec.NotRun:
	}
	return "not-judged"
}

// stateWord is a state as it is written. One that is missing is not judged.
func stateWord(s spec.State) string { return named(string(cmp.Or(s, spec.NotJudged))) }

func severityShape(severity string) string {
	switch severity {
	case spec.SeverityFail:
		return "fail"
	case spec.SeverityInvalid:
		return "invalid"
	}
	return "note"
}

// diagnosisPage is where the documentation tells more of a finding, or "".
func diagnosisPage(id string) string {
	if !slices.Contains(spec.FindingIDs(), id) {
		return ""
	}
	return "docs/diagnoses/" + strings.ReplaceAll(id, "/", "-") + ".md"
}

// dash stands where there is nothing to tell.
func dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// pixels is a place in a picture.
func pixels(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// moment is a time of the record as a person writes it, or as it stands there.
func moment(stamp string, simulated bool) string {
	at, ok := stampOf(stamp)
	switch {
	case stamp == "":
		return ""
	case !ok:
		return named(stamp)
	case simulated && at.Unix() < 24*3600:
		return "in virtual time"
	}
	return at.Format("2006-01-02 15:04:05 UTC")
}

// lasted is the time between two stamps, or "" where one is not known.
func lasted(from, until string) string {
	a, began := stampOf(from)
	b, ended := stampOf(until)
	if !began || !ended || b.Before(a) {
		return ""
	}
	return b.Sub(a).Round(time.Second).String()
}

// mean is that of values over their time, as the plot shows them: a straight line
// between two neighbours, and nothing where one of them is none.
func mean(t, v spec.Values) float64 {
	area, width, last := 0.0, 0.0, math.NaN()
	for i := range min(len(t), len(v)) {
		if known(v[i]) {
			last = v[i]
		}
		if i == 0 || !known(v[i]) || !known(v[i-1]) || !known(t[i]) || !known(t[i-1]) || t[i] <= t[i-1] {
			continue
		}
		area += (v[i] + v[i-1]) / 2 * (t[i] - t[i-1])
		width += t[i] - t[i-1]
	}
	if width == 0 {
		return last
	}
	return area / width
}

// spread is the least and the largest of the values, NaN where there are none.
func spread(v spec.Values) (low, high float64) {
	low, high = math.NaN(), math.NaN()
	for _, x := range v {
		if !known(x) {
			continue
		}
		if !(low <= x) {
			low = x
		}
		if !(high >= x) {
			high = x
		}
	}
	return low, high
}

// clock is a moment of the run as the plots' axes have it: 1:07, and 1:02:07 after an
// hour.
func clock(s float64) string {
	if !known(s) || s < 0 || s > 1e9 {
		return "–"
	}
	t := int(math.Round(s))
	if t >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", t/3600, t/60%60, t%60)
	}
	return fmt.Sprintf("%d:%02d", t/60, t%60)
}

// stop is what ends a sentence that may have its end already.
func stop(sentence string) string {
	if strings.HasSuffix(sentence, ".") || strings.HasSuffix(sentence, "?") || strings.HasSuffix(sentence, "!") {
		return ""
	}
	return "."
}

// times is how often something was.
func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

// failedToo is a percentile in which a failed request counts as infinitely slow.
func failedToo(f spec.BenchFigure, percentile string) string {
	switch v := f.WithFailures[percentile].(type) {
	case float64:
		return layout.Number(v)
	case string:
		if v == "inf" {
			return "∞"
		}
		return named(v)
	}
	return "–"
}

// fixed is a number with so many places, or a dash.
func fixed(v float64, places int) string {
	if !known(v) || math.Abs(v) > 1e12 {
		return figureOr(v, "–")
	}
	return strconv.FormatFloat(v, 'f', places, 64)
}

// signed is a number with its sign, or a dash.
func signed(v float64) string {
	if !known(v) {
		return "–"
	}
	return Signed(v)
}

// figureOr is a number, or words for that there is none.
func figureOr(v float64, none string) string { return numberOr(&v, none) }
