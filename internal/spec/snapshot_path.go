package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// FactPath names a fact: {Type}.{Subtype}.{Key}, or of one of its items
// {Type}.{Subtype}[selector].{Key}.
type FactPath struct {
	Type, Subtype, Key string
	Item               *FactSelector
}

// FactSelector chooses one of a subtype's items: by its position, or by a value that
// no other item has.
type FactSelector struct {
	Index      int
	Key, Value string // Key is "" where it is chosen by position
}

// ParsePath reads a fact's path. A subtype ends at the first dot, so that a key may
// have dots; of SystemD it ends at the last, since its subtypes are units' names.
func ParsePath(text string) (FactPath, error) {
	var p FactPath
	kind, rest, ok := strings.Cut(text, ".")
	if !ok || rest == "" {
		return p, fmt.Errorf("%s is no path of a fact", quote(text))
	}
	if p.Type = kind; !slices.Contains(MeasurementTypes(), kind) {
		return p, fmt.Errorf("%s is no type of measurement", quote(kind))
	}
	dot, bracket := strings.IndexByte(rest, '.'), strings.IndexByte(rest, '[')
	if bracket >= 0 && (dot < 0 || bracket < dot || kind == TypeSystemD) {
		end := strings.Index(rest[bracket:], "].")
		if end < 0 {
			return p, fmt.Errorf("%s has a [ that no ] and key follow", quote(text))
		}
		item, err := parseSelector(rest[bracket+1 : bracket+end])
		if err != nil {
			return p, err
		}
		p.Subtype, p.Item, p.Key = rest[:bracket], item, rest[bracket+end+2:]
	} else {
		if kind == TypeSystemD {
			dot = strings.LastIndexByte(rest, '.')
		}
		if dot < 0 {
			return p, fmt.Errorf("%s names no key", quote(text))
		}
		p.Subtype, p.Key = rest[:dot], rest[dot+1:]
	}
	switch {
	case p.Subtype == "":
		return p, fmt.Errorf("%s names no subtype", quote(text))
	case p.Key == "":
		return p, fmt.Errorf("%s names no key", quote(text))
	case strings.TrimSpace(text) != text:
		return p, fmt.Errorf("%s has space around it", quote(text))
	}
	return p, nil
}

func parseSelector(text string) (*FactSelector, error) {
	if key, value, ok := strings.Cut(text, "="); ok && key != "" {
		return &FactSelector{Key: key, Value: value}, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || !digits.MatchString(text) || text[0] == '+' {
		return nil, fmt.Errorf("[%s] chooses no item: want a position from 0 on, or key=value", shorten(text))
	}
	return &FactSelector{Index: n}, nil
}

func (p FactPath) String() string {
	selector := ""
	switch {
	case p.Item == nil:
	case p.Item.Key == "":
		selector = fmt.Sprintf("[%d]", p.Item.Index)
	default:
		selector = fmt.Sprintf("[%s=%s]", p.Item.Key, p.Item.Value)
	}
	return p.Type + "." + p.Subtype + selector + "." + p.Key
}

// ClusterFact is one fact of a snapshot.
type ClusterFact struct {
	Path    string
	Value   Scalar
	Known   bool
	Unknown Unknown // why not, when it is not known
	// Looked says that the snapshot speaks of it. One that does not was made by something
	// that does not look for it: absent is then what the snapshot is, not the cluster.
	Looked bool
}

// Fact finds a fact by its path: {Type}.{Subtype}.{Key}, or of an item
// {Type}.{Subtype}[selector].{Key}. The error says that the path is none, or that it
// is the path of several. Of a nil snapshot nothing is known.
func (s *Snapshot) Fact(path string) (ClusterFact, error) {
	fact := ClusterFact{Path: path}
	p, err := ParsePath(path)
	if err != nil {
		return fact, err
	}
	absent := func(detail string) (ClusterFact, error) {
		fact.Unknown = Unknown{ReasonAbsent, detail}
		return fact, nil
	}
	if s == nil {
		return absent("there is no snapshot")
	}
	var found []*Subtype
	for i := range s.Measurements {
		for j := range s.Measurements[i].Subtypes {
			if s.Measurements[i].Type == p.Type && s.Measurements[i].Subtypes[j].Name == p.Subtype {
				found = append(found, &s.Measurements[i].Subtypes[j])
			}
		}
	}
	switch len(found) {
	case 0:
		return absent("the snapshot has no " + p.Type + "." + p.Subtype)
	case 1:
	default:
		return fact, fmt.Errorf("the snapshot has %s.%s %d times", p.Type, p.Subtype, len(found))
	}
	if p.Item != nil {
		return found[0].itemFact(fact, p)
	}
	value, known := found[0].Data[p.Key]
	why, unknown := found[0].Unknown[p.Key]
	if !known && !unknown {
		why, unknown = found[0].Unknown["*"]
	}
	switch {
	case unknown:
		fact.Unknown, fact.Looked = why, true
	case known:
		fact.Value, fact.Known, fact.Looked = value, true, true
	default:
		return absent("it is not in the snapshot")
	}
	return fact, nil
}

func (sub *Subtype) itemFact(fact ClusterFact, p FactPath) (ClusterFact, error) {
	fact.Unknown = Unknown{ReasonAbsent, "no such item is in the snapshot"}
	if why, isUnknown := sub.Unknown["*"]; isUnknown {
		fact.Unknown, fact.Looked = why, true
		return fact, nil
	}
	var chosen []FactItem
	for i, item := range sub.Items {
		if p.Item.Key == "" && i == p.Item.Index {
			chosen = append(chosen, item)
		} else if value, ok := item.value(p.Item.Key); ok && p.Item.Key != "" && value.String() == p.Item.Value {
			chosen = append(chosen, item)
		}
	}
	switch len(chosen) {
	case 0:
		return fact, nil
	case 1:
	default:
		return fact, fmt.Errorf("%d items have %s=%s: choose by what only one has", len(chosen), p.Item.Key, p.Item.Value)
	}
	if value, ok := chosen[0].value(p.Key); ok {
		fact.Value, fact.Known, fact.Looked, fact.Unknown = value, true, true, Unknown{}
	} else {
		fact.Unknown.Detail = "the item has no " + p.Key
	}
	return fact, nil
}

// value is what an item says of itself: its data comes before its context.
func (i FactItem) value(key string) (Scalar, bool) {
	if v, ok := i.Data[key]; ok {
		return v, true
	}
	text, ok := i.Context[key]
	return NewScalar(text), ok
}

func (u Unknown) String() string {
	if u.Detail == "" {
		return u.Reason
	}
	return u.Reason + " (" + u.Detail + ")"
}
