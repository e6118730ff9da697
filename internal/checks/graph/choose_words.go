package graph

import (
	"fmt"
	"regexp"
	"strings"

	"aicr/internal/kube"
)

// Selector is what is wanted of a node's labels, all of it.
type Selector []LabelWish

// LabelWish is what is wanted of one label.
type LabelWish struct {
	Key   string
	Value string
	Any   bool // whatever its value is
	Not   bool
}

// Matches says whether a node has such labels.
func (s Selector) Matches(labels map[string]string) bool {
	for _, w := range s {
		value, there := labels[w.Key]
		if met := there && (w.Any || value == w.Value); met == w.Not {
			return false
		}
	}
	return true
}

func (s Selector) String() string {
	var parts []string
	for _, w := range s {
		switch {
		case w.Any && w.Not:
			parts = append(parts, "!"+w.Key)
		case w.Any:
			parts = append(parts, w.Key)
		case w.Not:
			parts = append(parts, w.Key+"!="+w.Value)
		default:
			parts = append(parts, w.Key+"="+w.Value)
		}
	}
	return strings.Join(parts, ",")
}

var (
	labelKey   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
)

// ParseSelector reads key=value, key!=value, key and !key, with commas between them.
func ParseSelector(text string) (Selector, error) {
	var all Selector
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		w := LabelWish{}
		var has bool
		switch {
		case strings.Contains(part, "!="):
			w.Key, w.Value, has = strings.Cut(part, "!=")
			w.Not = true
		case strings.Contains(part, "="):
			w.Key, w.Value, has = strings.Cut(part, "=")
			w.Value = strings.TrimPrefix(w.Value, "=") // kubectl's other way to write it
		case strings.HasPrefix(part, "!"):
			w.Key, w.Not, w.Any = part[1:], true, true
		default:
			w.Key, w.Any = part, true
		}
		w.Key, w.Value = strings.TrimSpace(w.Key), strings.TrimSpace(w.Value)
		if !labelKey.MatchString(w.Key) || has && !labelValue.MatchString(w.Value) {
			return nil, fmt.Errorf("%q is none of key=value, key!=value, key and !key", part)
		}
		all = append(all, w)
	}
	return all, nil
}

// The effects of a taint.
func taintEffects() []string { return []string{"NoSchedule", "PreferNoSchedule", "NoExecute"} }

// ParseToleration reads KEY=VALUE:EFFECT as taints are written, any part of which may be
// left out: KEY:EFFECT and KEY tolerate every value, * tolerates everything.
func ParseToleration(text string) (kube.Toleration, error) {
	if text == "*" {
		return kube.Toleration{Operator: "Exists"}, nil
	}
	key, effect, hasEffect := strings.Cut(text, ":")
	key, value, hasValue := strings.Cut(key, "=")
	t := kube.Toleration{Key: key, Operator: "Exists", Effect: effect}
	if hasValue {
		t.Operator, t.Value = "Equal", value
	}
	known := !hasEffect
	for _, e := range taintEffects() {
		known = known || e == effect
	}
	switch {
	case !known:
		return t, fmt.Errorf("%q has none of the effects %s", text, strings.Join(taintEffects(), ", "))
	case !labelKey.MatchString(key) || !labelValue.MatchString(value):
		return t, fmt.Errorf("%q is none of KEY=VALUE:EFFECT, KEY:EFFECT, KEY and *", text)
	}
	return t, nil
}
