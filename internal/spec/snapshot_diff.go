package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FactChange is a fact that two snapshots do not agree on. One that a snapshot does not
// have is "" in it, and one that it could not read is "unknown", with the reason.
type FactChange struct {
	Path string `json:"path"`
	Was  string `json:"was"`
	Now  string `json:"now"`
	// Item is what an item that came or went has beside its name, what matters most
	// first. Was or Now has the same, in the order of the alphabet.
	Item []string `json:"-"`
}

// Unknown reports whether a snapshot could not read the fact.
func (c FactChange) Unknown() (was, now bool) {
	return strings.HasPrefix(c.Was, isUnknown), strings.HasPrefix(c.Now, isUnknown)
}

// DiffSnapshots says what changed from one snapshot to another, by path. When and by
// whom they were taken is no fact of the cluster. Items are told apart by what they
// are called, not by where they stand.
func DiffSnapshots(a, b *Snapshot) []FactChange {
	changes := []FactChange{}
	was, now := factGroups(a), factGroups(b)
	for _, group := range unionKeys(was, now) {
		before, after := was[group], now[group]
		changes = append(changes, diffItems(group, before, after)...)
		for _, path := range unionKeys(before.facts, after.facts) {
			x, y := before.at(path), after.at(path)
			if x != y {
				changes = append(changes, FactChange{Path: path, Was: x, Now: y})
			}
		}
		if before.allUnknown != after.allUnknown && before.isEmpty() && after.isEmpty() {
			changes = append(changes, FactChange{Path: group + ".*", Was: before.allUnknown, Now: after.allUnknown})
		}
	}
	slices.SortFunc(changes, func(x, y FactChange) int { return strings.Compare(x.Path, y.Path) })
	return changes
}

// factGroup is a subtype laid flat: every fact by its path, in words.
type factGroup struct {
	facts      map[string]string
	items      map[string]map[string]string // by what they are called
	allUnknown string                       // why nothing else of it is known
}

func (g factGroup) isEmpty() bool { return len(g.facts) == 0 && len(g.items) == 0 }

// diffItems compares item by item. One that came or went is one change.
func diffItems(group string, before, after factGroup) []FactChange {
	var changes []FactChange
	for _, called := range unionKeys(before.items, after.items) {
		path := fmt.Sprintf("%s[%s]", group, called)
		x, wasThere := before.items[called]
		y, isThere := after.items[called]
		if !wasThere || !isThere {
			changes = append(changes, FactChange{path, itemText(x, before), itemText(y, after), telling(called, x, y)})
			continue
		}
		for _, key := range unionKeys(x, y) {
			if x[key] != y[key] {
				changes = append(changes, FactChange{Path: path + "." + key, Was: x[key], Now: y[key]})
			}
		}
	}
	return changes
}

func itemText(item map[string]string, g factGroup) string {
	if item == nil {
		return g.allUnknown
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(item)) {
		parts = append(parts, key+"="+item[key])
	}
	return strings.Join(parts, " ")
}

// tellingFirst are the facts that one looks for in an item: what a node is worth, and
// which version of a thing it is.
func tellingFirst() []string {
	return []string{"gpu-count", "gpu-product", "ready", "schedulable", "instance-type", "version", "image", "devices", "driver", "default", "provisioner", "node-count"}
}

// telling is what an item says beside what it is called, of whichever snapshot has it.
func telling(called string, either ...map[string]string) []string {
	var all []string
	for _, item := range either {
		keys := slices.Sorted(maps.Keys(item))
		first := slices.DeleteFunc(tellingFirst(), func(key string) bool { _, ok := item[key]; return !ok })
		rest := slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(first, key) })
		for _, key := range append(first, rest...) {
			if text := key + "=" + item[key]; !slices.Contains(strings.Split(called, ","), text) {
				all = append(all, text)
			}
		}
	}
	return all
}

func (g factGroup) at(path string) string {
	if text, ok := g.facts[path]; ok {
		return text
	}
	return g.allUnknown
}

func unionKeys[V any](a, b map[string]V) []string {
	all := map[string]bool{}
	for key := range a {
		all[key] = true
	}
	for key := range b {
		all[key] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func factGroups(s *Snapshot) map[string]factGroup {
	groups := map[string]factGroup{}
	if s == nil {
		return groups
	}
	for _, m := range s.Measurements {
		for _, sub := range m.Subtypes {
			name := m.Type + "." + sub.Name
			for n := 2; groups[name].facts != nil; n++ {
				name = fmt.Sprintf("%s.%s#%d", m.Type, sub.Name, n)
			}
			groups[name] = sub.flat(name)
		}
	}
	return groups
}

func (sub *Subtype) flat(name string) factGroup {
	g := factGroup{facts: map[string]string{}}
	if labels, ok := sub.flatLabels(name); ok {
		g.facts = labels
	} else {
		for key, value := range sub.Data {
			g.facts[name+"."+key] = inWords(value)
		}
		g.items = sub.flatItems()
	}
	for key, text := range sub.Context {
		g.facts[name+"."+key] = inWords(NewScalar(text))
	}
	for key, why := range sub.Unknown {
		if key == "*" {
			g.allUnknown = unknownText(why)
			continue
		}
		g.facts[name+"."+key] = unknownText(why)
	}
	return g
}

const isUnknown = "unknown: "

func unknownText(u Unknown) string { return isUnknown + u.String() }

func inWords(s Scalar) string {
	if s.String() == "" {
		return `""`
	}
	return s.String()
}

// flatLabels lays labels flat by what they say, not by how: items and the folded map
// of older snapshots say the same.
func (sub *Subtype) flatLabels(name string) (map[string]string, bool) {
	if name != TypeNodeTopology+".label" || len(sub.Items) == 0 {
		return nil, false
	}
	items, err := labelItems(sub)
	if err != nil {
		return nil, false
	}
	all := map[string]string{}
	for key, readings := range items {
		for _, r := range readings {
			path := name + "." + key
			if len(readings) > 1 {
				path += "." + r.value
			}
			text := r.value + "|" + strings.Join(r.nodes, ",")
			if earlier, collides := all[path]; collides { // a label of that very name
				text = earlier + "; " + text
			}
			all[path] = text
		}
	}
	return all, true
}

func (sub *Subtype) flatItems() map[string]map[string]string {
	all, taken := map[string]map[string]string{}, map[string]int{}
	for i, item := range sub.Items {
		called := item.called(i)
		if taken[called]++; taken[called] > 1 {
			called = fmt.Sprintf("%s#%d", called, taken[called])
		}
		all[called] = map[string]string{}
		for key, value := range item.Data {
			all[called][key] = inWords(value)
		}
		for key, text := range item.Context {
			if _, isData := item.Data[key]; !isData {
				all[called][key] = inWords(NewScalar(text))
			}
		}
	}
	return all
}

// called is what an item is told apart by, or else its position.
func (i FactItem) called(position int) string {
	for _, keys := range [][]string{{"id"}, {"namespace", "name"}, {"name"}, {"key", "value", "effect"}, {"key", "effect"}, {"key", "value"}, {"namespace", "deployment", "component"}, {"driver", "pool"}, {"pool"}, {"pciAddress"}, {"uuid"}} {
		var parts []string
		for _, key := range keys {
			if text, ok := i.Context[key]; ok {
				parts = append(parts, key+"="+text)
			}
		}
		if len(parts) == len(keys) {
			return strings.Join(parts, ",")
		}
	}
	return fmt.Sprint(position)
}
