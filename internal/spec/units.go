package spec

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The units of a constraint.
const (
	UnitTokens       = "tokens/s"
	UnitTokensPerGPU = "tokens/s/GPU"
	UnitMS           = "ms"
	UnitS            = "s"
	UnitBandwidth    = "GB/s"
	UnitShare        = "%"
)

// UnitNames lists the units that a constraint may be written in.
func UnitNames() []string {
	return []string{UnitMS, UnitS, UnitTokens, UnitTokensPerGPU, UnitBandwidth, UnitShare}
}

// measure is a number in a unit; a unit of "" is a count, or what was not said.
type measure struct {
	value float64
	unit  string
}

var signedNumber = regexp.MustCompile(`^([-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*([%A-Za-z]\S*)?$`)

// readMeasure reads a number and the unit after it. A word after it that is no unit is
// given back too: it may be a slip.
func readMeasure(text string) (m measure, word string, ok bool) {
	parts := signedNumber.FindStringSubmatch(text)
	if parts == nil {
		return measure{}, "", false
	}
	v, err := strconv.ParseFloat(parts[1], 64)
	if err != nil || math.IsInf(v, 0) {
		return measure{}, "", false
	}
	if parts[2] != "" && !slices.Contains(UnitNames(), parts[2]) {
		return measure{}, parts[2], false
	}
	return measure{v, parts[2]}, "", true
}

// in converts to another unit. Only times have two.
func (m measure) in(unit string) (float64, bool) {
	switch {
	case m.unit == unit:
		return m.value, true
	case m.unit == UnitS && unit == UnitMS:
		return m.value * 1000, true
	case m.unit == UnitMS && unit == UnitS:
		return m.value / 1000, true
	}
	return 0, false
}

// DefaultTolerance is the share by which a figure may miss a constraint that says
// none: the tenth that the published gate allows.
const DefaultTolerance = 0.10

// mostTolerance is what no tolerance goes beyond: half of what is wanted is not it.
const mostTolerance = 0.5

// figure is a constraint that a measured figure is held against.
type figure struct {
	name       string
	comparator string // the only one that has a meaning
	units      []unit // the first is the canonical one, and the default
	example    string
}

// unit is one in which a figure may be written.
type unit struct {
	name   string
	times  float64 // to the canonical one
	perGPU bool    // and times the GPUs
}

func figures() []figure {
	return []figure{
		{ConstraintThroughput, ">=", []unit{{UnitTokens, 1, false}, {UnitTokensPerGPU, 1, true}}, `">= 50000"`},
		{ConstraintTTFT, "<=", []unit{{UnitMS, 1, false}, {UnitS, 1000, false}}, `"<= 2000"`},
	}
}

// wantedFigure is what a recipe wants of a figure, taken apart. The unit, which is
// written beside the number or as a field of its own, is not checked.
type wantedFigure struct {
	comparator string
	value      float64
	isNumber   bool
	unit       string
	rest       string // that stands where the number should
}

func (f figure) wanted(c RecipeConstraint) wantedFigure {
	comparator, rest := compared(string(c.Value))
	w, number := wantedFigure{comparator: comparator, unit: c.Unit, rest: rest}, rest
	for _, u := range f.unitNames() {
		if cut, ok := strings.CutSuffix(rest, u); ok && decimal.MatchString(strings.TrimSpace(cut)) {
			number, w.unit = strings.TrimSpace(cut), u
		}
	}
	w.value, w.isNumber = amount(number)
	return w
}

func figureNamed(name string) (figure, bool) {
	for _, f := range figures() {
		if f.name == name {
			return f, true
		}
	}
	return figure{}, false
}

func figureNames() []string {
	var all []string
	for _, f := range figures() {
		all = append(all, f.name)
	}
	return all
}

// unitNamed finds a unit of the figure; "" is the canonical one.
func (f figure) unitNamed(name string) (unit, bool) {
	if name == "" {
		return f.units[0], true
	}
	for _, u := range f.units {
		if u.name == name {
			return u, true
		}
	}
	return unit{}, false
}

func (f figure) unitNames() []string {
	var all []string
	for _, u := range f.units {
		all = append(all, u.name)
	}
	return all
}

var comparison = regexp.MustCompile(`^\s*([<>=!~^]*)\s*(.*?)\s*$`)

// comparators are those that recipes know; most figures take one of them alone.
func comparators() []string { return []string{">=", "<=", ">", "<", "==", "!="} }

// compared takes a wanted value apart: its comparator, if it has one, and the rest.
func compared(value string) (comparator, rest string) {
	parts := comparison.FindStringSubmatch(value)
	if parts == nil { // a line break
		return "", value
	}
	return parts[1], parts[2]
}

var decimal = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// amount is a number in decimal digits.
func amount(text string) (float64, bool) {
	if !decimal.MatchString(text) {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// leadingAmount is the number that a text begins with, and what follows it.
func leadingAmount(text string) (number, rest string) {
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != ',' && r != '_' })
	if end < 0 {
		end = len(text)
	}
	return strings.NewReplacer(",", "", "_", "").Replace(text[:end]), strings.TrimSpace(text[end:])
}
