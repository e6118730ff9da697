package judge

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// Side is what is compared of a run: the mean of each valid episode, and what the
// judge says of all.
type Side struct {
	spec.Side
	Point  spec.OperatingPoint
	Target spec.Target

	throughput []float64 // ln, one an episode
	ttft       []float64
	sent       int
	failed     int
}

// Take takes an episode in, with the throughput that the judge measured in it. One that
// does not count is let go by.
func (s *Side) Take(e *spec.Episode, parts []spec.Part) {
	if e.Number == 0 || !e.Client.Valid {
		return
	}
	s.Episodes++
	s.sent += e.Requests.Sent - e.Requests.Interrupted
	s.failed += e.Requests.Failed
	for _, p := range parts {
		if p.Episode == e.Number && p.Throughput != nil && *p.Throughput > 0 {
			s.throughput = append(s.throughput, math.Log(*p.Throughput))
		}
	}
	for _, f := range e.Figures {
		switch {
		case f.Name == FirstToken && f.P99 != nil && *f.P99 > 0:
			s.ttft = append(s.ttft, math.Log(*f.P99))
		}
	}
}

// together is how sure the four statements are at once; each of them is surer.
const (
	together = 0.95
	eachOf4  = 1 - (1-together)/4
)

// Compare says whether the second run is better than the first.
func Compare(first, second *Side) *spec.Comparison {
	c := &spec.Comparison{Schema: spec.ComparisonSchema, Runs: []spec.Side{first.Side, second.Side}, Together: together, Each: eachOf4}
	c.Figures = []spec.Compared{
		compareMeans("throughput", "tokens/s", first.throughput, second.throughput, true),
		compareMeans("ttft p99", "ms", first.ttft, second.ttft, false),
		compareRates(first, second),
		compareFailures(first, second),
	}
	var better, worse []string
	for _, f := range c.Figures {
		switch f.Says {
		case spec.IsBetter:
			better = append(better, f.Name)
		case spec.IsWorse:
			worse = append(worse, f.Name)
		}
	}
	switch {
	case len(better) > 0 && len(worse) > 0:
		c.Says, c.Reason = spec.IsMixed, fmt.Sprintf("better in %s, worse in %s", inWords(better), inWords(worse))
	case len(better) > 0:
		c.Says, c.Reason = spec.IsBetter, fmt.Sprintf("better in %s, worse in nothing that can be told", inWords(better))
	case len(worse) > 0:
		c.Says, c.Reason = spec.IsWorse, fmt.Sprintf("worse in %s", inWords(worse))
	default:
		c.Says, c.Reason = spec.CannotTell, "the intervals of all figures hold no change: more episodes would narrow them"
		if first.Episodes == 0 || second.Episodes == 0 {
			c.Reason = "one of the two has no episode that counts: there is nothing to compare"
		}
		if first.Verdict != second.Verdict {
			c.Reason += fmt.Sprintf("; by itself the first is %s, and the second %s", first.Verdict, second.Verdict)
		}
	}
	c.Notes = compareNotes(first, second)
	return c
}

// compareMeans compares the means of logarithms, with the spread of both runs' episodes
// pooled: a run that failed early has few of its own.
func compareMeans(name, unit string, first, second []float64, moreIsBetter bool) spec.Compared {
	f := spec.Compared{Name: name, Unit: unit, Says: spec.CannotTell}
	f.First, f.Second = exponent(stats.Mean(first)), exponent(stats.Mean(second))
	d, low, high := stats.MeanDifference(first, second, eachOf4)
	f.Ratio, f.Low, f.High = exponent(d), exponent(low), exponent(high)
	switch {
	case low > 0 == moreIsBetter && (low > 0 || high < 0):
		f.Says = spec.IsBetter
	case low > 0 || high < 0:
		f.Says = spec.IsWorse
	}
	return f
}

// compareFailures compares the shares of requests that failed: by exact intervals
// that do not overlap.
func compareFailures(first, second *Side) spec.Compared {
	f := spec.Compared{Name: "failed requests", Unit: "of requests", Says: spec.CannotTell}
	if first.sent == 0 || second.sent == 0 {
		return f
	}
	f.First, f.Second = number(float64(first.failed)/float64(first.sent)), number(float64(second.failed)/float64(second.sent))
	low1, high1 := stats.ClopperPearson(first.failed, first.sent, eachOf4)
	low2, high2 := stats.ClopperPearson(second.failed, second.sent, eachOf4)
	switch {
	case low2 > high1:
		f.Says = spec.IsWorse
	case high2 < low1:
		f.Says = spec.IsBetter
	}
	return f
}

// compareRates compares stalls a loaded minute: of all the stalls there were, the
// share of the second run, by its exact interval, tells the ratio of the rates.
func compareRates(first, second *Side) spec.Compared {
	f := spec.Compared{Name: "stalls", Unit: "a loaded minute", Says: spec.CannotTell}
	t1, t2 := first.LoadedS/60, second.LoadedS/60
	if t1 <= 0 || t2 <= 0 {
		return f
	}
	f.First, f.Second = number(float64(first.Stalls)/t1), number(float64(second.Stalls)/t2)
	n := first.Stalls + second.Stalls
	if n == 0 {
		return f
	}
	ratio := func(share float64) float64 { return share / (1 - share) * t1 / t2 }
	low, high := stats.ClopperPearson(second.Stalls, n, eachOf4)
	f.Low, f.High = number(ratio(low)), number(ratio(high))
	f.Ratio = number(ratio(float64(second.Stalls) / float64(n)))
	switch {
	case ratio(high) < 1:
		f.Says = spec.IsBetter
	case ratio(low) > 1:
		f.Says = spec.IsWorse
	}
	return f
}

func exponent(v float64) *float64 { return number(math.Exp(v)) }

// compareNotes warns of what makes two runs no pair.
func compareNotes(first, second *Side) (notes []string) {
	a, b := first.Point, second.Point
	if a != b {
		notes = append(notes, "the operating points differ, so that a change need not be the deployment's: "+inWords(differences(a, b)))
	}
	if first.Target.Simulated != second.Target.Simulated {
		notes = append(notes, "one of the two is simulated")
	}
	for _, s := range []*Side{first, second} {
		if s.Episodes < 2 {
			notes = append(notes, fmt.Sprintf("of %s %s counted, which has no spread to tell anything by", s.Run, counted(float64(s.Episodes), "episode")))
		}
		if s.Verdict == spec.Invalid {
			notes = append(notes, s.Run+" is INVALID: its own measurement was at fault")
		}
	}
	notes = append(notes, "what is compared are whole episodes, ramps and stalls included; a run's own figures are of its clean part")
	return append(notes, "episodes of two runs are not interleaved: what else changed between them is in the difference too")
}

// differences names what two operating points do not share, with both values.
func differences(a, b spec.OperatingPoint) (all []string) {
	first, second := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range first.NumField() {
		if x, y := first.Field(i).Interface(), second.Field(i).Interface(); x != y {
			name, _, _ := strings.Cut(first.Type().Field(i).Tag.Get("json"), ",")
			all = append(all, fmt.Sprintf("%s %v and %v", name, x, y))
		}
	}
	return all
}

func inWords(all []string) string {
	if n := len(all); n > 1 {
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
	return strings.Join(all, "")
}
