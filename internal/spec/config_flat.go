package spec

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// FlatSetting is what a map of flags says of one of them.
type FlatSetting struct {
	Name   string
	Line   int
	List   bool
	Values []FlatValue // one, where it is no list
}

// FlatValue is a value as it was written, and where.
type FlatValue struct {
	Text string
	Line int
}

// IsConfig says whether a file says what kind of document it is, which no map of flags
// does. What does not parse is for the reader of either to complain of.
func IsConfig(data []byte) bool {
	root, err := parse(data)
	if err != nil || root.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i < len(root.Content); i += 2 {
		if slices.Contains([]string{"kind", "apiVersion", "spec"}, root.Content[i].Value) {
			return true
		}
	}
	return false
}

// DecodeFlat reads a map of names to values, in the order of the file. A value is text, a
// number or a truth value, or a list of these. The error, if any, is a Mistakes with
// everything that is wrong with it.
func DecodeFlat(data []byte) ([]FlatSetting, error) {
	if saysNothing(data) {
		return nil, nil
	}
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	if root.Kind != yaml.MappingNode || root.Tag != "!!map" {
		return nil, whole(positionOf(root).line, "not a map of flag names to values", "write one 'flag-name: value' a line")
	}
	d := &document{root: root, written: map[string]position{}, broken: map[string]bool{}, misnamed: map[string]bool{}, most: maxValues}
	var all []FlatSetting
	for _, m := range d.members(root, "", 0) {
		s := FlatSetting{Name: m.name, Line: positionOf(m.key).line}
		at := keyed("", m.name)
		value := target(m.value)
		if s.List = value.Kind == yaml.SequenceNode && value.Tag == "!!seq"; !s.List {
			s.Values = d.flatValue(s.Values, m.value, at, s.Line)
		} else {
			for i, one := range value.Content {
				s.Values = d.flatValue(s.Values, one, element(at, i), positionOf(one).line)
			}
		}
		all = append(all, s)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return all, nil
}

func (d *document) flatValue(all []FlatValue, n *yaml.Node, path string, line int) []FlatValue {
	if d.values++; d.values > d.most { // an alias makes many of few
		if !d.full {
			d.stop(n, path, "more values than are read")
		}
		return all
	}
	n = target(n)
	if n.Kind == yaml.ScalarNode && slices.Contains([]string{"!!str", "!!int", "!!float", "!!bool", "!!timestamp"}, n.Tag) {
		return append(all, FlatValue{n.Value, line})
	}
	d.note(path, position{line, 1}, "want text, a number, true or false, got "+describe(n), "")
	return all
}

// saysNothing is so of a file whose every line is empty or a comment.
func saysNothing(data []byte) bool {
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}
