package report

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"aicr/internal/spec"
)

func TestAThresholdIsTakenFromWordsOfAKnownShapeAlone(t *testing.T) {
	for words, want := range map[string]string{
		">= 45000":                     ">=45000",
		">= 45,000":                    ">=45000",
		"> 0.80, by a sequential test": ">=0.8",
		"<= 2,000 in more than half of the episodes": "<=2000",
		">= 0.92 of 72,318 tokens/s":                 ">=0.92",
		"< 0.75, by a sequential test":               "<=0.75",
		"<= 1e-05":                                   "<=1e-05",
		"<= 0.01":                                    "<=0.01",
		"":                                           "none",
		">= 45k":                                     "none",
		">= 45 times the reference":                  "none",
		"about 45":                                   "none",
		">=45":                                       "none",
		"<= 5 %":                                     "none",
		"== 4":                                       "none",
		"<= -3":                                      "none",
		"<= 1" + strings.Repeat("0", 400):            "none",
		">= 1 >= 2":                                  "none",
		"not >= 5":                                   "none",
	} {
		got := "none"
		if b, ok := boundOf(words); ok {
			got = map[bool]string{true: ">=", false: "<="}[b.Least] + pure(b.At)
		}
		if got != want {
			t.Errorf("%.60q is %s, want %s", words, got, want)
		}
	}
}

func pure(v float64) string {
	b, _ := spec.Values{v}.MarshalJSON()
	return strings.Replace(strings.Trim(string(b), "[]"), "0.00001", "1e-05", 1)
}

func TestAnIntervalIsDrawnAgainstItsThreshold(t *testing.T) {
	expected := func(value float64, low, high *float64, effective string) spec.Expected {
		return spec.Expected{Name: "it", Unit: "ms", Value: &value, Low: low, High: high, Effective: effective}
	}
	inside := func(t *testing.T, x ...float64) {
		t.Helper()
		for _, v := range x {
			if !(v >= intervalMargin-0.01 && v <= intervalWide-intervalMargin+0.01) {
				t.Errorf("%v is outside of the picture", v)
			}
		}
	}
	t.Run("the bad side of a least is to the left", func(t *testing.T) {
		p := newIntervalPicture(expected(0.7, new(0.6), new(0.75), "> 0.80, by a sequential test"))
		inside(t, p.Value, p.Low, p.Low+p.Len, p.Bound.X)
		if !(p.Low < p.Value && p.Value < p.Low+p.Len && p.Low+p.Len < p.Bound.X) || p.Bound.BadX != intervalMargin || p.Bound.BadX+p.Bound.BadLen != p.Bound.X {
			t.Errorf("%+v %+v", p, p.Bound)
		}
		if want := "it is 0.70, interval 0.60 to 0.75 ms; it should be at least 0.80"; p.Label != want {
			t.Errorf("it says %q, want %q", p.Label, want)
		}
	})
	t.Run("the bad side of a most is to the right", func(t *testing.T) {
		p := newIntervalPicture(expected(74, new(66.0), new(80.0), "<= 2,000"))
		inside(t, p.Value, p.Bound.X, p.Bound.BadX+p.Bound.BadLen)
		if !(p.Value < p.Bound.X) || p.Bound.BadX != p.Bound.X || p.Bound.Text != "2,000" || p.Len < 2 {
			t.Errorf("%+v %+v", p, p.Bound)
		}
	})
	t.Run("words of another shape leave the interval alone", func(t *testing.T) {
		if p := newIntervalPicture(expected(74, new(66.0), new(80.0), "as fast as the other")); p.Bound != nil || !p.Whiskers {
			t.Errorf("%+v", p)
		}
	})
	t.Run("no interval, no whiskers", func(t *testing.T) {
		if p := newIntervalPicture(expected(74, nil, new(80.0), "<= 2,000")); p.Whiskers {
			t.Errorf("%+v", p)
		}
	})
	t.Run("what was not measured is not drawn", func(t *testing.T) {
		if p := newIntervalPicture(spec.Expected{Effective: "<= 2,000"}); p != nil {
			t.Errorf("%+v", p)
		}
		if p := newIntervalPicture(expected(math.NaN(), nil, nil, "<= 2,000")); p != nil {
			t.Errorf("%+v", p)
		}
	})
	t.Run("no axis, no picture", func(t *testing.T) {
		if p := newIntervalPicture(expected(0, new(-1e308), new(1e308), "")); p != nil {
			t.Errorf("%+v", p)
		}
	})
	t.Run("any numbers stay inside", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			v := rapid.Float64Range(-1e9, 1e9).Draw(t, "v")
			low, high := v-rapid.Float64Range(0, 1e9).Draw(t, "below"), v+rapid.Float64Range(0, 1e9).Draw(t, "above")
			p := newIntervalPicture(expected(v, &low, &high, rapid.SampledFrom([]string{"> 0.80", "<= 2,000", "< 1e9", ""}).Draw(t, "bound")))
			for _, x := range []float64{p.Value, p.Low, p.Low + p.Len} {
				if !(x >= intervalMargin-0.01 && x <= intervalWide-intervalMargin+2.01) {
					t.Fatalf("%v is outside of the picture: %+v", x, p)
				}
			}
		})
	})
}

func TestARatioFarOutIsSeenToBeFarOut(t *testing.T) {
	all := []spec.Compared{{Ratio: new(1.1), Low: new(0.9), High: new(1.3)}, {Ratio: new(70.0), Low: new(60.0)}, {Ratio: new(0.0)}, {}}
	reach := reachOf(all)
	if reach != math.Log(4) {
		t.Errorf("the axis reaches to %v", math.Exp(reach))
	}
	near, far := newRatioPicture(all[0], reach), newRatioPicture(all[1], reach)
	if near.Before || near.Beyond || !far.Beyond || far.Value != intervalWide-intervalMargin {
		t.Errorf("near %+v, far %+v", near, far)
	}
	for _, c := range all[2:] {
		if p := newRatioPicture(c, reach); p != nil {
			t.Errorf("a ratio that is none is drawn: %+v", p)
		}
	}
}

func TestATestWalksBetweenItsBounds(t *testing.T) {
	p := newWalkPicture(spec.Walk{Ledger: "capability", Low: -4.6, High: 4.6, Values: []float64{2, math.NaN(), -83.1626, 400}})
	if !p.Drawn || len(p.Points) != 3 {
		t.Fatalf("%+v", p)
	}
	if a := p.Points[0]; a.Up || a.Down || a.Text != "" || !(p.Bad < a.Y && a.Y < p.Zero) {
		t.Errorf("a value between the bounds: %+v", a)
	}
	if a := p.Points[1]; !a.Down || a.Text != "-83.16" || a.Y != p.Bottom() {
		t.Errorf("a value far on the good side: %+v", a)
	}
	if a := p.Points[2]; !a.Up || a.Text != "+400.00" || a.Y != p.Top() {
		t.Errorf("a value far on the bad side: %+v", a)
	}
	if strings.Count(p.Path, "M") != 2 {
		t.Errorf("a line goes through what is none: %s", p.Path)
	}
	for _, w := range []spec.Walk{{Low: 1, High: 1, Values: []float64{0}}, {Low: -1, High: math.Inf(1), Values: []float64{0}}, {Low: -1, High: 1}} {
		if newWalkPicture(w).Drawn {
			t.Errorf("%+v is drawn", w)
		}
	}
}

func TestATestSaysWhereItIsAndSinceWhen(t *testing.T) {
	for want, values := range map[string][]float64{
		"no episode was taken in": nil,
		"at -5.00 after 3 episodes: past the bound of good (-2.00) since episode 2":                {1, -3, -5},
		"at +2.00 after 1 episode: past the bound of bad (+2.00) since episode 1":                  {2},
		"at +1.00 after 2 episodes: between its bounds (good at -2.00, bad at +2.00), not decided": {-3, 1},
		"no value after 1 episode": {math.NaN()},
	} {
		if got := walkWords(spec.Walk{Low: -2, High: 2, Values: values}); got != want {
			t.Errorf("%v: %q, want %q", values, got, want)
		}
	}
}

func TestAMeanIsThatOfTheLineThatIsSeen(t *testing.T) {
	none := math.NaN()
	for _, c := range []struct {
		t, v spec.Values
		want float64
	}{
		{spec.Values{0, 1, 11}, spec.Values{0, 10, 10}, 105.0 / 11},        // not the mean of the points
		{spec.Values{0, 1, 2, 100, 101}, spec.Values{4, 4, none, 8, 8}, 6}, // nothing joins across what is none
		{spec.Values{5}, spec.Values{3}, 3},
		{spec.Values{1, 2}, spec.Values{none, none}, none},
		{nil, nil, none},
		{spec.Values{1, 2, 3}, spec.Values{7}, 7},
	} {
		if got := mean(c.t, c.v); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%v over %v: %v, want %v", c.v, c.t, got, c.want)
		}
	}
}

func TestAMomentIsToldAsAPersonWritesIt(t *testing.T) {
	for _, c := range []struct {
		stamp     string
		simulated bool
		want      string
	}{
		{"2026-06-01T03:00:00.5+02:00", false, "2026-06-01 01:00:00 UTC"},
		{"1970-01-01T00:00:00Z", true, "in virtual time"},
		{"1970-01-01T00:00:00Z", false, "1970-01-01 00:00:00 UTC"},
		{"yesterday", false, "yesterday"},
		{"", true, ""},
	} {
		if got := moment(c.stamp, c.simulated); got != c.want {
			t.Errorf("%q: %q, want %q", c.stamp, got, c.want)
		}
	}
}
