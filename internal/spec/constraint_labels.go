package spec

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// labelWanted is what is wanted of the GPU nodes: that every one has a label with this
// value, or that none has it.
type labelWanted struct {
	key, value string
	none       bool
}

var (
	dnsSubdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	labelName    = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

// labelKeyMistake and labelValueMistake say why Kubernetes would not take a label. A
// key that no node can have would hold as !key everywhere.
func labelKeyMistake(key string) string {
	name := key
	if prefix, rest, ok := strings.Cut(key, "/"); ok {
		if name = rest; len(prefix) > 253 || !dnsSubdomain.MatchString(prefix) {
			return fmt.Sprintf("%s is no label's key: what comes before / is a DNS name in lower case", quote(key))
		}
	}
	if len(name) > 63 || !labelName.MatchString(name) {
		return fmt.Sprintf("%s is no label's key: at most 63 letters, digits, dashes, underscores and dots, a letter or digit first and last", quote(key))
	}
	return ""
}

func labelValueMistake(value string) string {
	if value != "" && (len(value) > 63 || !labelName.MatchString(value)) {
		return fmt.Sprintf("%s is no label's value: at most 63 letters, digits, dashes, underscores and dots, a letter or digit first and last", quote(value))
	}
	return ""
}

func parseLabelWanted(text string) (labelWanted, *expressionMistake) {
	const hint = "write key=value, which every GPU node must have, or !key, which none may have"
	text = strings.TrimSpace(text)
	w := labelWanted{}
	if comparator, _ := compared(text); comparator != "" && comparator != "!" {
		return w, mistaken(hint, "a label takes no comparator, got %s", quote(text))
	}
	key, isNone := strings.CutPrefix(text, "!")
	value, isEqual := "", false
	if !isNone {
		key, value, isEqual = strings.Cut(text, "=")
	}
	w = labelWanted{key: strings.TrimSpace(key), value: value, none: isNone}
	switch wrong := labelKeyMistake(w.key); {
	case !isNone && !isEqual:
		return w, mistaken(hint, "%s is neither key=value nor !key", quote(text))
	case isNone && strings.Contains(key, "="):
		return w, mistaken(hint, "%s is neither key=value nor !key", quote(text))
	case wrong != "":
		return w, mistaken(hint, "%s", wrong)
	}
	if wrong := labelValueMistake(value); wrong != "" {
		return w, mistaken(hint, "%s", wrong)
	}
	return w, nil
}

// hold holds it against the GPU nodes. No GPU node is no answer: everything holds for
// none of them.
func (w labelWanted) hold(h *Held, s *Snapshot) {
	nodes, err := gpuNodes(s)
	if err != nil {
		h.Reason = err.Error()
		return
	}
	readings, err := readLabels(s)
	if err != nil {
		h.Reason = err.Error()
		return
	}
	has, err := readings.of(w.key)
	if err != nil {
		h.Reason = err.Error()
		return
	}
	var against []string
	for _, node := range nodes {
		value, there := has[node]
		switch {
		case w.none && there:
			against = append(against, fmt.Sprintf("%s has %s=%s", node, w.key, value))
		case !w.none && !there:
			against = append(against, fmt.Sprintf("%s has no %s", node, w.key))
		case !w.none && value != w.value:
			against = append(against, fmt.Sprintf("%s has %s=%s", node, w.key, value))
		}
	}
	h.Value = fmt.Sprintf("%d of %d GPU nodes", len(nodes)-len(against), len(nodes))
	if len(against) == 0 {
		h.State = HeldMet
		return
	}
	const most = 5
	more := ""
	if len(against) > most {
		more = fmt.Sprintf(", and %d more", len(against)-most)
	}
	h.State, h.Reason = HeldNotMet, strings.Join(against[:min(most, len(against))], ", ")+more
}

// The labels by which a GPU node is known where the nodes themselves were not read.
const (
	labelGPUPresent     = "nvidia.com/gpu.present"
	labelGPUProduct     = "nvidia.com/gpu.product"
	labelGKEAccelerator = "cloud.google.com/gke-accelerator"
	labelRegion         = "topology.kubernetes.io/region"
)

// gpuNodes are the names of the GPU nodes, sorted: those that have GPUs, and those that
// are labelled as if they had, since a GPU that is not ready is not counted.
func gpuNodes(s *Snapshot) ([]string, error) {
	if s == nil {
		return nil, errors.New("the GPU nodes are not known: there is no snapshot")
	}
	found := map[string]bool{}
	nodes, labels := s.Subtype(TypeNodeTopology, "nodes"), s.Subtype(TypeNodeTopology, "label")
	if nodes != nil {
		for i, item := range nodes.Items {
			name := item.Context["name"]
			count, ok := item.Data["gpu-count"].Int()
			if name == "" || !ok || count < 0 {
				return nil, fmt.Errorf("the GPU nodes are not known: NodeTopology.nodes[%d] has no name or no gpu-count", i)
			}
			if count > 0 {
				found[name] = true
			}
		}
	}
	if labels != nil {
		readings, err := readLabels(s)
		if err != nil {
			return nil, err
		}
		for _, key := range []string{labelGPUPresent, labelGKEAccelerator, labelGPUProduct} {
			has, err := readings.of(key)
			if err != nil {
				return nil, err
			}
			for node, value := range has {
				if key != labelGPUPresent || value == "true" {
					found[node] = true
				}
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no GPU node is known: %s", whyNoNodes(nodes, labels))
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func whyNoNodes(all ...*Subtype) string {
	for _, sub := range all {
		if sub == nil {
			continue
		}
		if why, ok := sub.Unknown["*"]; ok {
			return why.String()
		}
	}
	return "no node of the snapshot has a GPU, nor a label that says so"
}

// labelReadings are the labels of the nodes: as items, which say everything, or folded
// into one map, which older snapshots have alone.
type labelReadings struct {
	items  map[string][]labelReading // by key; nil when they are folded
	folded Facts
}

type labelReading struct {
	value     string
	nodes     []string
	truncated bool
}

func readLabels(s *Snapshot) (labelReadings, error) {
	sub := s.Subtype(TypeNodeTopology, "label")
	if sub == nil {
		return labelReadings{}, errors.New("the nodes' labels are not known: the snapshot has no NodeTopology.label")
	}
	if why, unknown := sub.Unknown["*"]; unknown {
		return labelReadings{}, fmt.Errorf("the nodes' labels are not known: %s", why)
	}
	if len(sub.Unknown) > 0 {
		key := slices.Min(slices.Collect(maps.Keys(sub.Unknown)))
		return labelReadings{}, fmt.Errorf("not all of the nodes' labels are known: %s: %s", key, sub.Unknown[key])
	}
	if len(sub.Items) == 0 {
		return labelReadings{folded: sub.Data}, nil
	}
	items, err := labelItems(sub)
	return labelReadings{items: items}, err
}

// labelItems reads the items. One that does not say what it must makes all of them
// doubtful.
func labelItems(sub *Subtype) (map[string][]labelReading, error) {
	values, folds := map[string]int{}, map[string]int{}
	for _, item := range sub.Items {
		values[item.Context["key"]]++
	}
	fold := func(item FactItem) string {
		key := item.Context["key"]
		if values[key] > 1 {
			return key + "." + item.Context["value"]
		}
		return key
	}
	for _, item := range sub.Items {
		folds[fold(item)]++
	}
	all := map[string][]labelReading{}
	for i, item := range sub.Items {
		key, value := item.Context["key"], item.Context["value"]
		wrong := func(what string) error {
			return fmt.Errorf("the nodes' labels cannot be read: NodeTopology.label[%d] (%s=%s) %s", i, shorten(key), shorten(value), what)
		}
		count, hasCount := item.Data["node-count"].Int()
		truncated, hasTruncated := item.Data["truncated"].Bool()
		list, hasList := item.Data["node-list"]
		ref, hasRef := item.Data["node-list-ref"]
		text := list.String()
		switch {
		case key == "":
			return nil, wrong("has no key")
		case !hasCount || !hasTruncated:
			return nil, wrong("does not say node-count and truncated")
		case hasList == hasRef:
			return nil, wrong("must have node-list or node-list-ref, and not both")
		case hasRef:
			folded, ok := sub.Data[ref.String()]
			if ref.String() != fold(item) || folds[fold(item)] > 1 || !ok {
				return nil, wrong("refers to a reading that is not its own")
			}
			of, nodes, isFolded := strings.Cut(folded.String(), "|")
			if !isFolded || of != value {
				return nil, wrong("refers to a reading of another value")
			}
			text = nodes
		}
		nodes, left, err := nodeList(text)
		switch {
		case err != nil:
			return nil, wrong(err.Error())
		case truncated != (left > 0):
			return nil, wrong("does not say itself whether it is truncated")
		case count != int64(len(nodes))+left:
			return nil, wrong(fmt.Sprintf("counts %d nodes and names %d", count, int64(len(nodes))+left))
		}
		all[key] = append(all[key], labelReading{value, nodes, truncated})
	}
	return all, nil
}

var nodesLeftOut = regexp.MustCompile(`^(.*?),? *\(\+([0-9]+) more\)$`)

// nodeList reads names of nodes, and how many were left out.
func nodeList(text string) (nodes []string, left int64, err error) {
	if cut := nodesLeftOut.FindStringSubmatch(text); cut != nil {
		if left, err = strconv.ParseInt(cut[2], 10, 32); err != nil || left == 0 {
			return nil, 0, errors.New("leaves out a number of nodes that makes no sense")
		}
		if text = cut[1]; text == "" {
			return nil, left, nil
		}
	}
	seen := map[string]bool{}
	for name := range strings.SplitSeq(text, ",") {
		if len(name) > 253 || !dnsSubdomain.MatchString(name) {
			return nil, 0, fmt.Errorf("has %s, which is no node's name", quote(name))
		}
		if seen[name] {
			return nil, 0, fmt.Errorf("names %s twice", name)
		}
		seen[name] = true
		nodes = append(nodes, name)
	}
	return nodes, left, nil
}

// of is the value of a label by node. A node has a label once: a reading that says
// otherwise, or that leaves nodes out, decides nothing.
func (l labelReadings) of(key string) (map[string]string, error) {
	all := l.items[key]
	if l.items == nil {
		var err error
		if all, err = l.unfold(key); err != nil {
			return nil, err
		}
	}
	values := map[string]string{}
	for _, r := range all {
		if r.truncated {
			return nil, fmt.Errorf("the snapshot names only some of the nodes that have %s=%s: take it again without a limit on them", key, r.value)
		}
		for _, node := range r.nodes {
			if earlier, twice := values[node]; twice {
				return nil, fmt.Errorf("the label %s is ambiguous: %s has it as %s and as %s", key, node, earlier, r.value)
			}
			values[node] = r.value
		}
	}
	return values, nil
}

// unfold finds a label in the folded map. Where it has several values each is written
// as key.value, which a label of that very name looks like too: one alone may be either.
func (l labelReadings) unfold(key string) ([]labelReading, error) {
	var plain, several []labelReading
	for _, name := range slices.Sorted(maps.Keys(l.folded)) {
		suffix, isSeveral := strings.CutPrefix(name, key+".")
		if name != key && !isSeveral {
			continue
		}
		text := l.folded[name].String()
		value, list, ok := strings.Cut(text, "|")
		if name != key && value != suffix {
			continue // of another label, whose name goes on
		}
		nodes, left, err := nodeList(list)
		if !ok || err != nil {
			return nil, fmt.Errorf("the label %s cannot be read: NodeTopology.label.%s is %s, want value|node,node", key, name, quote(text))
		}
		r := labelReading{value, nodes, left > 0}
		if name == key {
			plain = append(plain, r)
		} else {
			several = append(several, r)
		}
	}
	if len(plain) == 0 && len(several) == 1 {
		return nil, fmt.Errorf("the label %s is ambiguous: the snapshot has %s.%s alone, which may be a label of its own", key, key, several[0].value)
	}
	if len(plain) > 0 {
		return plain, nil
	}
	return several, nil
}
