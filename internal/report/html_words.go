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
	case spec.NotJudged:
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

// shortList is a list of names that does not fill the page.
func shortList(names []string) string {
	const most = 8
	shown := []string{}
	for _, n := range names[:min(len(names), most)] {
		shown = append(shown, named(n))
	}
	if more := len(names) - most; more > 0 {
		return strings.Join(shown, ", ") + fmt.Sprintf(" and %d more", more)
	}
	return layout.Listed(shown)
}

// pixels is a place in a picture.
func pixels(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// moment is a time of the record as a person writes it, or as it stands there.
func moment(stamp string, simulated bool) string {
	at, err := time.Parse(time.RFC3339, stamp)
	switch {
	case stamp == "":
		return ""
	case err != nil:
		return named(stamp)
	case simulated && at.Unix() < 24*3600:
		return "in virtual time"
	}
	return at.UTC().Format("2006-01-02 15:04:05 UTC")
}

// lasted is the time between two stamps, or "" where one is not known.
func lasted(from, until string) string {
	a, errA := time.Parse(time.RFC3339, from)
	b, errB := time.Parse(time.RFC3339, until)
	if errA != nil || errB != nil || b.Before(a) {
		return ""
	}
	return b.Sub(a).Round(time.Second).String()
}

// piece is a part of an advice: words, or something to type.
type piece struct {
	Code bool
	Text string
}

// programs are what an advice's commands begin with.
func programs() []string {
	return []string{"aicr", "cat", "curl", "dmesg", "helm", "kubectl", "nvidia-smi", "py-spy"}
}

// commands tells the commands in an advice from its words. A command begins with a
// program that is known, at the start or behind a colon or semicolon, and ends at the
// next one of those, or with the first plain word behind its arguments.
func commands(advice string) []piece {
	var all []piece
	text := said(advice)
	for text != "" {
		end := len(text)
		if i := strings.IndexAny(text, ":;"); i >= 0 {
			end = i
			for end < len(text) && strings.ContainsRune(":; ", rune(text[end])) {
				end++
			}
			if end == i+1 && end < len(text) { // no space behind it: part of a word
				if j := strings.IndexAny(text[end:], ":;"); j >= 0 {
					end += j
				} else {
					end = len(text)
				}
			}
		}
		all = append(all, commandFirst(text[:end])...)
		text = text[end:]
	}
	return merged(all)
}

// commandFirst splits a part of an advice behind its command, if it begins with one.
func commandFirst(text string) []piece {
	first, _, _ := strings.Cut(text, " ")
	if !slices.Contains(programs(), strings.TrimRight(first, ":;")) {
		return []piece{{Text: text}}
	}
	end, argued, flag := 0, false, false
	for end < len(text) {
		word, _, _ := strings.Cut(text[end:], " ")
		bare := strings.TrimRight(word, ":;,")
		plain := bare != "" && strings.Trim(bare, "abcdefghijklmnopqrstuvwxyz") == ""
		if plain && argued && !flag {
			break
		}
		end += len(bare)
		if bare != word || end == len(text) {
			break
		}
		end++ // the space
		flag = strings.HasPrefix(bare, "-") || bare == "|" || flag && bare == "grep"
		argued = argued || !plain && !slices.Contains(programs(), bare)
	}
	code := strings.TrimRight(text[:end], " ")
	return []piece{{Code: true, Text: code}, {Text: text[len(code):]}}
}

// merged joins words that stand side by side.
func merged(pieces []piece) []piece {
	var all []piece
	for _, p := range pieces {
		switch last := len(all) - 1; {
		case p.Text == "":
		case last >= 0 && !p.Code && !all[last].Code:
			all[last].Text += p.Text
		default:
			all = append(all, p)
		}
	}
	return all
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

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// figureOr is a number, or words for that there is none.
func figureOr(v float64, none string) string {
	if !known(v) {
		return none
	}
	return layout.Number(v)
}

// figure is a number, or a dash where there is none.
func figure(v *float64) string {
	if knownOnly(v) == nil {
		return "–"
	}
	return layout.Number(*v)
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
