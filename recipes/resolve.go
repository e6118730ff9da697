package recipes

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"aicr/internal/spec"
)

// Root is the overlay below every other.
const Root = "base"

// anything is what an overlay says of a criterion that it is for whatever the value of.
const anything = "any"

// criterion is one of the words that a recipe is chosen by.
type criterion struct{ name, value string }

// criteria lists the words, those that say nothing left out.
func criteria(c spec.Criteria) (all []criterion) {
	for _, field := range spec.CriteriaFields() {
		if word := c.Named(field); word != "" && word != anything {
			all = append(all, criterion{field, word})
		}
	}
	return all
}

func described(all []criterion) string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = one.name + " " + one.value
	}
	return strings.Join(words, ", ")
}

// matches says whether an overlay is for what is asked for: each word that it says is
// asked for too. A word that is asked for need not be said.
func (o Overlay) matches(asked spec.Criteria) bool {
	words := criteria(asked)
	for _, one := range criteria(o.Criteria) {
		if !slices.Contains(words, one) {
			return false
		}
	}
	return o.Criteria != (spec.Criteria{})
}

// crosses says whether an overlay is for several kinds of deployment on purpose.
func (o Overlay) crosses() bool {
	return slices.ContainsFunc(spec.CriteriaFields(), func(field string) bool { return o.Criteria.Named(field) == anything })
}

// below is the overlay that one stands on.
func (l *Library) below(o Overlay) (Overlay, bool) {
	switch {
	case o.Base != "":
		return l.Overlay(o.Base)
	case o.Name == Root:
		return Overlay{}, false
	}
	return l.Overlay(Root)
}

// chain is an overlay with all that it stands on, the lowest first.
func (l *Library) chain(o Overlay) []Overlay {
	all := []Overlay{o}
	for below, ok := l.below(o); ok; below, ok = l.below(below) {
		all = append(all, below)
	}
	slices.Reverse(all)
	return all
}

// stack is the layers of several overlays: of each its chain, every overlay after its
// mixins, and no layer twice.
func (l *Library) stack(tops []Overlay) []Overlay {
	var all []Overlay
	add := func(o Overlay) {
		if !slices.ContainsFunc(all, func(x Overlay) bool { return x.Recipe == o.Recipe }) {
			all = append(all, o)
		}
	}
	for _, top := range tops {
		for _, o := range l.chain(top) {
			for _, name := range o.Mixins {
				if m, ok := find(l.Mixins, name); ok {
					add(m)
				}
			}
			add(o)
		}
	}
	return all
}

// tops are the overlays of a list on which no other of them stands, the less particular
// first.
func (l *Library) tops(all []Overlay) []Overlay {
	var tops []Overlay
	for _, o := range all {
		stoodOn := slices.ContainsFunc(all, func(x Overlay) bool {
			return x.Recipe != o.Recipe && slices.ContainsFunc(l.chain(x), func(y Overlay) bool { return y.Recipe == o.Recipe })
		})
		if !stoodOn {
			tops = append(tops, o)
		}
	}
	slices.SortStableFunc(tops, func(a, b Overlay) int {
		return cmp.Or(cmp.Compare(len(criteria(a.Criteria)), len(criteria(b.Criteria))), cmp.Compare(a.folder, b.folder), cmp.Compare(a.Name, b.Name))
	})
	return tops
}

// Unmatched is what was asked for and no overlay is for.
type Unmatched struct {
	Asked   string // the criteria, in words
	Nearest string // the overlay that comes closest, and what it differs in
}

func (u *Unmatched) Error() string { return "no overlay is for " + u.Asked }

// Layers are the overlays and mixins that a recipe for the criteria is made of, in the
// order in which they are laid over each other. Each word that is asked for has to be
// said by one of them that is not for several kinds on purpose: a recipe that knows
// nothing of what was asked would check too little and say so nowhere.
func (l *Library) Layers(asked spec.Criteria) ([]Overlay, error) {
	words := criteria(asked)
	if len(words) == 0 {
		return nil, errors.New("nothing is asked for: name a service, an accelerator, an os, an intent or a platform")
	}
	var matching []Overlay
	for _, o := range l.Overlays {
		if o.matches(asked) {
			matching = append(matching, o)
		}
	}
	for _, w := range words {
		if !slices.ContainsFunc(matching, func(o Overlay) bool { return !o.crosses() && slices.Contains(criteria(o.Criteria), w) }) {
			return nil, &Unmatched{described(words), l.nearest(words)}
		}
	}
	return l.stack(l.tops(matching)), nil
}

// nearest is the overlay that says most of the words and fewest others.
func (l *Library) nearest(words []criterion) string {
	best, most := "", -1
	for _, o := range l.Overlays {
		own := criteria(o.Criteria)
		if o.crosses() || len(own) == 0 {
			continue
		}
		var other []criterion
		same := 0
		for _, one := range own {
			if slices.Contains(words, one) {
				same++
			} else {
				other = append(other, one)
			}
		}
		if score := 10*same - len(other); same > 0 && score > most {
			best, most = fmt.Sprintf("%s, with %s", o.Name, described(other)), score
			if len(other) == 0 {
				best = fmt.Sprintf("%s, for %s alone", o.Name, described(own))
			}
		}
	}
	return best
}

// LayersOf are the layers of an overlay that a user has in a file: its bases and mixins
// are found in the library, and so are the overlays that are for its criteria whatever
// the rest.
func (l *Library) LayersOf(r *spec.Recipe, file string, text []byte) ([]Overlay, error) {
	own := Overlay{Recipe: r, File: file, text: text, folder: l.added + 1}
	if r.Kind == spec.RecipeMixinKind {
		return nil, own.wrongAt("kind", "name it in the mixins of an overlay", "a mixin is a part of recipes, not one")
	}
	if wrong := l.looseLayer(own); len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return l.stackOn(own), nil
}

func (l *Library) stackOn(own Overlay) []Overlay {
	all := []Overlay{own}
	for _, o := range l.Overlays {
		if o.Recipe != own.Recipe && o.crosses() && o.matches(own.Criteria) {
			all = append(all, o)
		}
	}
	return l.stack(l.tops(all))
}

// LayersNamed are the layers of an overlay of the library.
func (l *Library) LayersNamed(name string) ([]Overlay, bool) {
	o, ok := l.Overlay(name)
	if !ok {
		return nil, false
	}
	return l.stackOn(o), true
}
