package spec

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Anything is a part of a document whose shape is somebody else's: Helm values, for
// one. It is kept as it was written, and written again.
type Anything struct {
	value any // map[string]any, []any, string, json.Number, bool; nil: not there
}

// IsZero says whether there is nothing.
func (a Anything) IsZero() bool { return a.value == nil }

// Value is what was written: map[string]any, []any, string, json.Number, bool or nil.
func (a Anything) Value() any { return a.value }

// Equal says whether two are the same.
func (a Anything) Equal(b Anything) bool {
	x, _ := json.Marshal(a.value)
	y, _ := json.Marshal(b.value)
	return bytes.Equal(x, y)
}

// MarshalJSON writes it as it was.
func (a Anything) MarshalJSON() ([]byte, error) { return json.Marshal(a.value) }

func (a *Anything) fromDocument(d *document, n *yaml.Node, path string) {
	a.value = d.anything(n, path, 0)
}

func (d *document) anything(n *yaml.Node, path string, depth int) any {
	if d.full {
		return nil
	}
	if d.values++; d.values > d.most {
		d.stop(n, path, "more values than are read")
		return nil
	}
	if depth > maxDepth {
		d.stop(n, path, "nested too deep")
		return nil
	}
	n = target(n)
	switch {
	case isNull(n):
		return nil
	case n.Kind == yaml.MappingNode && n.Tag == "!!map":
		all := map[string]any{}
		for _, m := range d.members(n, path, depth) {
			all[m.name] = d.anything(m.value, keyed(path, m.name), depth+1)
		}
		return all
	case n.Kind == yaml.SequenceNode && n.Tag == "!!seq":
		all := make([]any, 0, len(n.Content))
		for i, one := range n.Content {
			all = append(all, d.anything(one, element(path, i), depth+1))
		}
		return all
	case n.Kind == yaml.ScalarNode:
		if value, ok := scalarOf(n); ok {
			return value
		}
	}
	d.note(path, positionOf(n), "want a value that JSON has too, got "+describe(n), "")
	return nil
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// scalarOf is the value of a scalar as JSON has it: text, a json.Number or a truth
// value. Infinity is none, and neither is what is tagged as something else.
func scalarOf(n *yaml.Node) (any, bool) {
	switch n.Tag {
	case "!!str", "!!timestamp":
		return n.Value, true
	case "!!bool":
		yes := strings.EqualFold(n.Value, "true")
		return yes, yes || strings.EqualFold(n.Value, "false")
	case "!!int", "!!float":
		if jsonNumber.MatchString(n.Value) {
			return json.Number(n.Value), true
		}
		bare := strings.ReplaceAll(n.Value, "_", "")
		if i, err := strconv.ParseInt(bare, 0, 64); err == nil {
			return json.Number(strconv.FormatInt(i, 10)), true
		}
		if f, err := strconv.ParseFloat(bare, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return json.Number(strconv.FormatFloat(f, 'g', -1, 64)), true
		}
	}
	return nil, false
}
