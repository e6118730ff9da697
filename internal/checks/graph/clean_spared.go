package graph

import (
	"maps"
	"slices"
	"time"
)

// Spared is a run that Clean leaves alone.
type Spared struct {
	Run       string `json:"run"`
	Namespace string `json:"namespace,omitempty"` // that it is kept in; "": nothing says so
	Alive     bool   `json:"alive"`               // false: it could not be found out
	Why       string `json:"why"`
}

// spared says that a run is to be left alone, and why; nil: nobody leads it. By what is
// kept of it and by its load's Job it is seen that somebody does: where these could not be
// looked for, as in a namespace of another team, their absence says nothing.
func (f *leftBehind) spared(look *lookout, now time.Time) *Spared {
	homes := slices.Sorted(maps.Keys(f.homes))
	s := &Spared{Run: f.id}
	if len(homes) > 0 {
		s.Namespace = homes[0]
	}
	if why := f.alive(now); why != "" {
		s.Alive, s.Why = true, why
		return s
	}
	const unknown = "it is not known whether somebody leads it: "
	for _, namespace := range append(homes, NamesOf(f.id).Namespace) {
		if look.closed[namespace] {
			s.Why = unknown + "you may not look into namespace " + namespace
			return s
		}
	}
	if look.partly && len(homes) == 0 {
		s.Why = unknown + "nothing says where it is kept, and you may not look into all namespaces"
		return s
	}
	return nil
}
