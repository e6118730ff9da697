package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Scalar is a fact's value: a string, int64, float64 or bool.
type Scalar struct {
	value   any
	written string // of a number whose text says more than its value: 24.10
}

// NewScalar makes a fact's value of text, a number or a bool.
func NewScalar(v any) Scalar {
	switch v := v.(type) {
	case string:
		return Scalar{value: v}
	case bool:
		return Scalar{value: v}
	case int:
		return Scalar{value: int64(v)}
	case int32:
		return Scalar{value: int64(v)}
	case int64:
		return Scalar{value: v}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Scalar{value: strconv.FormatFloat(v, 'g', -1, 64)}
		}
		return Scalar{value: v}
	}
	panic(fmt.Sprintf("a fact is no %T", v)) // of this program, not of its input
}

// IsZero says whether there is no value at all.
func (s Scalar) IsZero() bool { return s.value == nil }

// String is the value in words, a number as it was written.
func (s Scalar) String() string {
	if s.written != "" {
		return s.written
	}
	return s.canonical()
}

func (s Scalar) canonical() string {
	switch v := s.value.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		if math.Abs(v) < 1e15 && (v == 0 || math.Abs(v) >= 1e-6) {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

// Text is the value of a text.
func (s Scalar) Text() (string, bool) {
	v, ok := s.value.(string)
	return v, ok
}

// Bool is the value of a bool.
func (s Scalar) Bool() (v, ok bool) {
	v, ok = s.value.(bool)
	return v, ok
}

// Int is the value of a whole number.
func (s Scalar) Int() (int64, bool) {
	switch v := s.value.(type) {
	case int64:
		return v, true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), true
		}
	}
	return 0, false
}

// Float is the value of a number.
func (s Scalar) Float() (float64, bool) {
	switch v := s.value.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// Equal says whether two values are the same. 8 and 8.0 are.
func (s Scalar) Equal(t Scalar) bool {
	if s.value == t.value && s.written == t.written {
		return true
	}
	a, isInt := s.Int()
	b, areInts := t.Int()
	if isInt && areInts {
		return a == b
	}
	x, isNumber := s.Float()
	y, areNumbers := t.Float()
	if !isNumber || !areNumbers {
		return false
	}
	return s.String() == t.String() || x == y && math.Abs(x) < 1<<53
}

// MarshalJSON writes the value as it was. A number that JSON cannot have, such as 00 or
// 0x1f, becomes text: versions are compared by their text.
func (s Scalar) MarshalJSON() ([]byte, error) {
	if s.written != "" {
		if json.Valid([]byte(s.written)) {
			return []byte(s.written), nil
		}
		return json.Marshal(s.written)
	}
	if _, isNumber := s.Float(); isNumber {
		return []byte(s.canonical()), nil
	}
	return json.Marshal(s.value)
}

func (s *Scalar) fromDocument(d *document, n *yaml.Node, path string) {
	if n.Kind != yaml.ScalarNode || !strings.HasPrefix(n.Tag, "!!") || n.Tag == "!!binary" {
		d.note(path, positionOf(n), "want text, a number, true or false, got "+describe(n), "a fact is one value; several things are items")
		return
	}
	switch n.Tag {
	case "!!bool":
		s.value = strings.EqualFold(n.Value, "true")
	case "!!int":
		if i, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			s.value = i
			break
		}
		s.number(d, n, path)
	case "!!float":
		s.number(d, n, path)
	default: // text, and a date
		s.value = n.Value
		return
	}
	if _, isNumber := s.Float(); isNumber && n.Value != s.canonical() {
		s.written = n.Value
	}
}

func (s *Scalar) number(d *document, n *yaml.Node, path string) {
	f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		d.note(path, positionOf(n), "want a finite number, got "+describe(n), "write it in quotes if it is text")
		return
	}
	s.value = f
}

func (f *Facts) fromDocument(d *document, n *yaml.Node, path string) {
	all := Facts{}
	d.entries(n, path, func(name string, value *yaml.Node, at string) {
		var one Scalar
		one.fromDocument(d, value, at)
		all[name] = one
	})
	*f = all
}

func (t *Texts) fromDocument(d *document, n *yaml.Node, path string) {
	all := Texts{}
	d.entries(n, path, func(name string, value *yaml.Node, at string) {
		if value.Kind != yaml.ScalarNode || !strings.HasPrefix(value.Tag, "!!") || value.Tag == "!!binary" {
			d.note(at, positionOf(value), "want text, got "+describe(value), "")
			return
		}
		all[name] = value.Value
	})
	*t = all
}

// entries goes through the values of a map of which there may be very many: no path
// is kept of those that are sound.
func (d *document) entries(n *yaml.Node, path string, each func(name string, value *yaml.Node, at string)) {
	if n.Kind != yaml.MappingNode || n.Tag != "!!map" {
		d.wrong(path, "want a map, got "+describe(n), "")
		return
	}
	for _, m := range d.members(n, path, strings.Count(path, ".")) {
		if d.values++; d.values > d.most {
			d.stop(m.value, path, fmt.Sprintf("more than %d values", d.most))
		}
		if d.full {
			return
		}
		switch value := target(m.value); {
		case isNull(value):
			d.note(keyed(path, m.name), positionOf(m.key), "no value", `write a value; "" is an empty text`)
		default:
			each(m.name, value, keyed(path, m.name))
		}
	}
}
