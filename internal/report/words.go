package report

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// The words that all formats share.

const notMeasured = "not measured"

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// measured is a number that there is, or nil.
func measured(v *float64) *float64 {
	if v == nil || !known(*v) {
		return nil
	}
	return v
}

// numberOr is a number, or words for that there is none.
func numberOr(v *float64, none string) string {
	if measured(v) == nil {
		return none
	}
	return layout.Number(*v)
}

// optional is a number that may not have been measured, or be beyond all measure.
func optional(v *float64) string {
	if v != nil && math.IsInf(*v, 0) {
		return "infinite"
	}
	return numberOr(v, notMeasured)
}

func secondsOf(s float64) string {
	if !known(s) {
		return notMeasured
	}
	return layout.Number(s) + " s"
}

func count[N int | int64](n N) string { return layout.Number(float64(n)) }

// interval is one that may be open at an end.
func interval(low, high *float64) string { return intervalOf(low, high, optional) }

func intervalOf(low, high *float64, text func(*float64) string) string {
	switch {
	case measured(low) != nil && measured(high) != nil:
		return text(low) + " to " + text(high)
	case measured(low) != nil:
		return "from " + text(low)
	case measured(high) != nil:
		return "up to " + text(high)
	}
	return ""
}

// measuredLine tells a number with its unit, its interval and its sample size.
func measuredLine(value, low, high *float64, n int, unit string) string {
	if measured(value) == nil {
		return notMeasured
	}
	line := strings.TrimSpace(layout.Number(*value) + " " + unit)
	if between := interval(low, high); between != "" {
		line += " (" + between + ")"
	}
	return line + ", n " + count(n)
}

// expectedLine tells an expectation: what it came to, and what was wanted.
func expectedLine(e *spec.Expected) string {
	line := measuredLine(e.Value, e.Low, e.High, e.N, e.Unit)
	if wanted := wantedLine(e, "wanted "); wanted != "" {
		line += "; " + wanted
	}
	return line
}

// wantedLine is what was wanted of an expectation, what it was judged by where that is
// something else, and its note where that says more than the value.
func wantedLine(e *spec.Expected, before string) string {
	var parts []string
	if want := cmp.Or(e.Want, e.Effective); want != "" {
		switch {
		case e.Good != nil && e.Bad != nil && *e.Bad < *e.Good:
			want += fmt.Sprintf(" (bad at %.2f or less)", *e.Bad)
		case e.Good != nil && e.Bad != nil:
			want += fmt.Sprintf(" (bad at %.2f or more)", *e.Bad)
		case e.Effective != "" && e.Effective != want:
			want += " (" + e.Effective + ")"
		}
		parts = append(parts, before+want)
	}
	if e.Note != "" && (e.Note != notMeasured || measured(e.Value) != nil) {
		parts = append(parts, e.Note)
	}
	return strings.Join(parts, "; ")
}

// shownNames is how many of a list of names are shown.
const shownNames = 12

// namedThings names some workers or GPUs.
func namedThings(of string, names []string) string {
	return layout.Noun(len(names), of) + " " + layout.Some(names, shownNames)
}

// targetName is what was loaded, without what may be a secret: who one is there and
// what one asks for.
func targetName(t spec.Target) string {
	if t.Scenario != "" {
		return "sim:" + t.Scenario
	}
	if t.Node != "" {
		return "cluster:" + t.Context + "/" + t.Node
	}
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.TrimSuffix((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), "/")
}

// targetWords is targetName for a person.
func targetWords(t spec.Target) string {
	if t.Simulated {
		return fmt.Sprintf("a simulated fleet, %s, seed %d", layout.Clip(t.Scenario, longestPath), t.Seed)
	}
	if t.Node != "" && t.Scenario == "" {
		return fmt.Sprintf("node %s of cluster %s", layout.Clip(t.Node, longestPath), layout.Clip(t.Context, longestPath))
	}
	return targetName(t)
}

// unendedLine says that a run's record has no end.
func unendedLine(r *spec.Report) string {
	return "not ended: the run began at " + layout.Clip(r.Run.Start, longestPath) +
		" and its record has no end, so that it was killed or still runs; this is what it says so far"
}

// stampOf is a time of the record.
func stampOf(text string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, text)
	return t.UTC(), err == nil && t.Unix() >= 0 && t.Year() < 9000
}

// piece is a part of an advice: words, or something to type.
type piece struct {
	Code bool
	Text string
}

// pieces tells the commands in an advice, which stand between backticks, from its
// words. A backtick that none belongs to is one of the words.
func pieces(advice string) []piece {
	var all []piece
	for advice != "" {
		words, rest, _ := strings.Cut(advice, "`")
		command, after, closed := strings.Cut(rest, "`")
		if !closed || strings.TrimSpace(command) == "" {
			return append(all, piece{Text: advice})
		}
		if words != "" {
			all = append(all, piece{Text: words})
		}
		all, advice = append(all, piece{Code: true, Text: command}), after
	}
	return all
}
