package spec

import (
	"maps"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Over lays values over others: maps are merged key by key, and of everything else what
// is above prevails. A null is a value too.
func (a Anything) Over(below Anything) Anything {
	switch {
	case a.IsZero():
		return below
	case below.IsZero():
		return a
	}
	return Anything{mergedValues(below.value, a.value)}
}

func mergedValues(below, above any) any {
	b, isMap := below.(map[string]any)
	a, areMaps := above.(map[string]any)
	if !isMap || !areMaps {
		return above
	}
	all := maps.Clone(b)
	for key, value := range a {
		if under, there := b[key]; there {
			value = mergedValues(under, value)
		}
		all[key] = value
	}
	return all
}

// LineOf is the line at which a document has a value, as spec.mixins[1], or else what
// it would be a part of; 1 when the document cannot be read.
func LineOf(data []byte, path string) int {
	n, err := parse(data)
	if err != nil {
		return 1
	}
	line := positionOf(n).line
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		at, next := stepInto(target(n), step)
		if next == nil {
			break
		}
		line, n = positionOf(at).line, next
	}
	return line
}

// stepInto finds a part of a value, and where it is written.
func stepInto(n *yaml.Node, step string) (at, part *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1]
			}
		}
	}
	if i, err := strconv.Atoi(step); n.Kind == yaml.SequenceNode && err == nil && i >= 0 && i < len(n.Content) {
		return n.Content[i], n.Content[i]
	}
	return nil, nil
}

// EncodeRecipeJSON writes a Recipe as EncodeRecipe does, in JSON and without its comment.
func EncodeRecipeJSON(r *Recipe) ([]byte, error) {
	if _, err := EncodeRecipe(r); err != nil {
		return nil, err
	}
	kind := r.Kind
	if kind == "" {
		kind = RecipeKind
	}
	return encodeJSON(recipeDocument(r, kind))
}
