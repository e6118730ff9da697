package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// bound is a threshold that a figure is held against.
type bound struct {
	Least bool // what is below it is bad; otherwise what is above
	At    float64
	Text  string // as it was told
}

// boundShape is what an expectation's words begin with where a number can be taken from
// them: what follows may say how often or of what, but not scale it.
var boundShape = regexp.MustCompile(`^(>=|>|<=|<) (\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)(?:$|,| in | of )`)

func boundOf(words string) (bound, bool) {
	m := boundShape.FindStringSubmatch(words)
	if m == nil {
		return bound{}, false
	}
	at, err := strconv.ParseFloat(strings.ReplaceAll(m[2], ",", ""), 64)
	if err != nil || !known(at) {
		return bound{}, false
	}
	return bound{m[1][0] == '>', at, m[2]}, true
}

// The size of an interval's picture.
const (
	intervalWide   = 232.0
	intervalHigh   = 44.0
	intervalMargin = 8.0
	letter         = 5.8 // about the width of one in a picture
)

// intervalPicture is a figure with its interval on an axis of its own, against its
// threshold. Places are pixels.
type intervalPicture struct {
	Label          string
	Low, Len       float64 // the interval
	Whiskers       bool    // there is an interval
	Value          float64
	Bound          *pictureBound
	Wanted         *float64
	Ends           []pictureText
	Before, Beyond bool // it goes on outside of the picture
}

// Wide is the picture's width.
func (*intervalPicture) Wide() float64 { return intervalWide }

// High is the picture's height.
func (*intervalPicture) High() float64 { return intervalHigh }

// End is that of the axis.
func (*intervalPicture) End() float64 { return intervalWide - intervalMargin }

type pictureBound struct {
	X, BadX, BadLen float64
	Text            string
	Anchor          string
}

type pictureText struct {
	X      float64
	Text   string
	Anchor string
}

// newIntervalPicture is nil where there is nothing to draw.
func newIntervalPicture(e spec.Expected) *intervalPicture {
	if e.Value == nil || !known(*e.Value) {
		return nil
	}
	p := &intervalPicture{}
	at := []float64{*e.Value}
	low, high := measured(e.Low), measured(e.High)
	p.Whiskers = low != nil && high != nil && *low <= *high
	if p.Whiskers {
		at = append(at, *low, *high)
	}
	limit, limited := boundOf(e.Effective)
	wanted, wants := boundOf(e.Want)
	if !limited {
		limit, limited, wants = wanted, wants, false
	}
	if limited {
		at = append(at, limit.At)
	}
	if wants && wanted.At != limit.At {
		at = append(at, wanted.At)
	} else {
		wants = false
	}
	from, until := axis(at)
	if !known(until-from) || !(until > from) {
		return nil
	}
	place := func(v float64) float64 {
		return intervalMargin + (v-from)/(until-from)*(intervalWide-2*intervalMargin)
	}
	p.Value = place(*e.Value)
	words := fmt.Sprintf("%s is %s", named(e.Name), layout.Number(*e.Value))
	if p.Whiskers {
		p.Low, p.Len = place(*low), math.Max(2, place(*high)-place(*low))
		words += ", interval " + interval(low, high)
	}
	words += " " + named(e.Unit)
	if limited {
		b := &pictureBound{X: place(limit.At), Text: limit.Text}
		b.BadX, b.BadLen = intervalMargin, b.X-intervalMargin
		side := "at least"
		if !limit.Least {
			b.BadX, b.BadLen, side = b.X, intervalWide-intervalMargin-b.X, "at most"
		}
		b.BadLen = math.Max(0, b.BadLen)
		b.Anchor = anchor(b.X, b.Text)
		p.Bound = b
		words += fmt.Sprintf("; it should be %s %s", side, b.Text)
	}
	if wants {
		x := place(wanted.At)
		p.Wanted = &x
	}
	p.Label = words
	p.ends(from, until)
	return p
}

// ends labels the axis where there is room beside the threshold's own label.
func (p *intervalPicture) ends(from, until float64) {
	a, b := layout.Number(from), layout.Number(until)
	left, right := intervalWide/2, intervalWide/2
	if p.Bound != nil {
		width := letter * float64(len([]rune(p.Bound.Text)))
		switch p.Bound.Anchor {
		case "start":
			left, right = p.Bound.X, p.Bound.X+width
		case "end":
			left, right = p.Bound.X-width, p.Bound.X
		default:
			left, right = p.Bound.X-width/2, p.Bound.X+width/2
		}
	}
	if intervalMargin+letter*float64(len(a)) < left-4 {
		p.Ends = append(p.Ends, pictureText{intervalMargin, a, "start"})
	}
	if intervalWide-intervalMargin-letter*float64(len(b)) > right+4 {
		p.Ends = append(p.Ends, pictureText{intervalWide - intervalMargin, b, "end"})
	}
}

// anchor keeps a label inside of its picture.
func anchor(x float64, text string) string {
	half := letter * float64(len([]rune(text))) / 2
	switch {
	case x-half < intervalMargin:
		return "start"
	case x+half > intervalWide-intervalMargin:
		return "end"
	}
	return "middle"
}

// axis is the stretch of numbers that shows all of them: from 0 where 0 is near
// enough to be of use.
func axis(at []float64) (from, until float64) {
	from, until = spread(at)
	switch {
	case from == 0 && until == 0:
		return 0, 1
	case from >= 0 && from < until/2:
		return 0, rounded(until*1.12, math.Ceil)
	}
	margin := (until - from) / 4
	if margin == 0 {
		margin = math.Abs(from) / 5
	}
	return rounded(from-margin, math.Floor), rounded(until+margin, math.Ceil)
}

// rounded keeps two digits of a number.
func rounded(v float64, to func(float64) float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-1)
	return to(v/unit) * unit
}

// The size of a sequential test's picture.
const (
	walkWide   = 480.0
	walkHigh   = 210.0
	walkLeft   = 4.0
	walkRight  = 30.0
	walkTop    = 18.0
	walkBottom = 26.0
	walkBeyond = 0.4 // how far outside its bounds it is still drawn, in their distance
)

// walkPicture is a sequential test on its way between its bounds: up is bad.
type walkPicture struct {
	Ledger          string
	Label           string  // the picture in words
	Good, Bad, Zero float64 // the lines
	GoodAt, BadAt   string
	Path            string
	Points          []walkPoint
	Ticks           []walkTick
	Drawn           bool
}

type walkPoint struct {
	X, Y     float64
	Up, Down bool // it is farther out than the picture
	Text     string
	TextY    float64
}

type walkTick struct {
	X    float64
	Text string
}

// Wide is the picture's width.
func (walkPicture) Wide() float64 { return walkWide }

// High is the picture's height.
func (walkPicture) High() float64 { return walkHigh }

// Left is where the lines begin.
func (walkPicture) Left() float64 { return walkLeft }

// Right is where the lines end.
func (walkPicture) Right() float64 { return walkWide - walkRight }

// Span is how long the lines are.
func (p walkPicture) Span() float64 { return p.Right() - p.Left() }

// Margin is where the names of the lines begin.
func (walkPicture) Margin() float64 { return walkLeft + 6 }

// Top is where the bad side begins.
func (walkPicture) Top() float64 { return walkTop }

// Bottom is where the good side ends.
func (walkPicture) Bottom() float64 { return walkHigh - walkBottom }

// BadHigh is the height of the bad side.
func (p walkPicture) BadHigh() float64 { return p.Bad - p.Top() }

// GoodHigh is the height of the good side.
func (p walkPicture) GoodHigh() float64 { return p.Bottom() - p.Good }

func newWalkPicture(w spec.Walk) walkPicture {
	p := walkPicture{Ledger: named(WalkName(w)), Label: walkWords(w)}
	n := len(w.Values)
	if !known((w.High-w.Low)*(1+2*walkBeyond)) || !(w.Low < w.High) || n == 0 {
		return p
	}
	p.Drawn = true
	beyond := (w.High - w.Low) * walkBeyond
	from, until := w.Low-beyond, w.High+beyond
	y := func(v float64) float64 { return p.Bottom() - (v-from)/(until-from)*(p.Bottom()-p.Top()) }
	step := p.Span() / float64(n)
	p.Good, p.Bad, p.Zero = y(w.Low), y(w.High), y(math.Min(math.Max(0, from), until))
	p.GoodAt, p.BadAt = signed(w.Low), signed(w.High)

	var path strings.Builder
	fmt.Fprintf(&path, "M%s %s", pixels(walkLeft), pixels(p.Zero))
	pen := true
	for i, v := range w.Values {
		if math.IsNaN(v) {
			pen = false
			continue
		}
		c := walkPoint{X: walkLeft + step*float64(i+1), Up: v > until, Down: v < from}
		c.Y = y(math.Min(math.Max(v, from), until))
		if last := i == n-1; c.Up || c.Down || last {
			if step >= 44 || last {
				c.Text = signed(v)
			}
			c.TextY = c.Y - 9
			if c.Y < walkTop+20 {
				c.TextY = c.Y + 19
			}
		}
		word := "L"
		if !pen {
			word = "M"
		}
		pen = true
		fmt.Fprintf(&path, "%s%s %s", word, pixels(c.X), pixels(c.Y))
		p.Points = append(p.Points, c)
	}
	p.Path = path.String()
	every := max(1, (n+11)/12)
	for i := every - 1; i < n; i += every {
		text := strconv.Itoa(i + 1)
		if i == every-1 {
			text = "episode " + text
		}
		p.Ticks = append(p.Ticks, walkTick{walkLeft + step*float64(i+1), text})
	}
	return p
}

// walkWords tells where a test is, and since when.
func walkWords(w spec.Walk) string {
	n := len(w.Values)
	if n == 0 {
		return "no episode was taken in"
	}
	last := w.Values[n-1]
	since := n
	side := func(v float64) int {
		switch {
		case v <= w.Low:
			return -1
		case v >= w.High:
			return 1
		}
		return 0
	}
	for since > 1 && side(w.Values[since-2]) == side(last) {
		since--
	}
	now := fmt.Sprintf("at %s after %s", signed(last), layout.Plural(n, "episode"))
	switch {
	case math.IsNaN(last):
		return "no value after " + layout.Plural(n, "episode")
	case side(last) < 0:
		return fmt.Sprintf("%s: past the bound of good (%s) since episode %d", now, signed(w.Low), since)
	case side(last) > 0:
		return fmt.Sprintf("%s: past the bound of bad (%s) since episode %d", now, signed(w.High), since)
	}
	return fmt.Sprintf("%s: between its bounds (good at %s, bad at %s), not decided", now, signed(w.Low), signed(w.High))
}

// newRatioPicture is the ratio of two runs on an axis that all of them share. Reach is
// the logarithm at its ends.
func newRatioPicture(c spec.Compared, reach float64) *intervalPicture {
	if c.Ratio == nil || !(*c.Ratio > 0) || !known(*c.Ratio) || !(reach > 0) {
		return nil
	}
	p := &intervalPicture{}
	half := intervalWide/2 - intervalMargin
	place := func(v float64) float64 {
		at := math.Log(v) / reach
		p.Before, p.Beyond = p.Before || at < -1, p.Beyond || at > 1
		return intervalWide/2 + math.Min(math.Max(at, -1), 1)*half
	}
	p.Value = place(*c.Ratio)
	p.Label = fmt.Sprintf("%s: the second is %s of the first", named(c.Name), ratioText(c.Ratio))
	if c.Low != nil && *c.Low > 0 && known(*c.Low) {
		high := math.Inf(1) // where the comparison gives none
		if c.High != nil {
			high = *c.High
		}
		if high >= *c.Low {
			p.Whiskers = true
			p.Low = place(*c.Low)
			p.Len = math.Max(2, place(high)-p.Low)
			p.Label += ", interval " + ratioInterval(c.Low, c.High)
		}
	}
	p.Bound = &pictureBound{X: intervalWide / 2, Text: "1", Anchor: "middle"}
	p.Ends = []pictureText{{intervalMargin, ratioWords(math.Exp(-reach)), "start"}, {intervalWide - intervalMargin, ratioWords(math.Exp(reach)), "end"}}
	return p
}

// reachOf is the logarithm that shows all ratios, but no more than a factor of four: what is
// farther out is seen to be far out.
func reachOf(all []spec.Compared) float64 {
	reach := math.Log(1.1)
	for _, c := range all {
		for _, v := range []*float64{c.Ratio, c.Low, c.High} {
			if v != nil && *v > 0 && known(*v) {
				reach = math.Max(reach, math.Abs(math.Log(*v))*1.1)
			}
		}
	}
	return math.Min(reach, math.Log(4))
}

func ratioWords(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
