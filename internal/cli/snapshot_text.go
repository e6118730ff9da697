package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// mostItems is how many of a kind a table shows. All are in the document.
const mostItems = 20

// unknownFact is a fact that could not be read.
type unknownFact struct {
	path string
	why  spec.Unknown
}

func unknownFacts(s *spec.Snapshot) []unknownFact {
	var all []unknownFact
	for _, m := range s.Measurements {
		for _, sub := range m.Subtypes {
			for _, key := range slices.Sorted(maps.Keys(sub.Unknown)) {
				all = append(all, unknownFact{m.Type + "." + sub.Name + "." + key, sub.Unknown[key]})
			}
		}
	}
	return all
}

// snapshotLine is what a cluster is, in one line.
func snapshotLine(s *spec.Snapshot) string {
	f := spec.FingerprintOf(s)
	known := func(t spec.FingerprintText, what string) string { return cmp.Or(t.Value, what+" unknown") }
	gpus := "no GPU known"
	if fact, err := s.Fact(spec.FactGPUCount); err == nil && fact.Known {
		n, _ := fact.Value.Int()
		if gpus = "no GPU"; n > 0 {
			gpus = fmt.Sprintf("%d x %s", n, known(f.GPUModel, "model"))
		}
	}
	parts := []string{
		known(f.Service, "service") + ", Kubernetes " + known(f.K8sVersion, "version"),
		gpus + " on " + nodesText(s),
		"os " + strings.TrimSpace(known(f.OS, "")+" "+f.OS.Version),
		"region " + known(f.Region, ""),
	}
	if n := len(unknownFacts(s)); n > 0 {
		parts = append(parts, layout.Plural(n, "fact")+" unknown")
	}
	for i, p := range parts {
		parts[i] = strings.Join(strings.Fields(p), " ")
	}
	return layout.Clean(strings.Join(parts, "; "))
}

func nodesText(s *spec.Snapshot) string {
	count := func(key string) string {
		if fact, err := s.Fact("NodeTopology.summary." + key); err == nil && fact.Known {
			return fact.Value.String()
		}
		return "unknown"
	}
	return count("gpu-node-count") + " of " + count("node-count") + " nodes"
}

// writeSnapshotTable writes a snapshot for people: what the cluster is, the facts, and
// what is not known of it at the end.
func writeSnapshotTable(b *bytes.Buffer, s *spec.Snapshot) {
	b.WriteString(snapshotLine(s) + "\n")
	for _, m := range s.Measurements {
		for _, sub := range m.Subtypes {
			if m.Type == spec.TypeNodeTopology && (sub.Name == "label" || sub.Name == "taint") {
				continue // told by their number; they are for constraints
			}
			if len(sub.Data) == 0 && len(sub.Items) == 0 {
				continue
			}
			fmt.Fprintf(b, "\n%s.%s\n", m.Type, sub.Name)
			var rows [][]string
			for _, key := range slices.Sorted(maps.Keys(sub.Data)) {
				rows = append(rows, []string{layout.Clean(key), layout.Clean(sub.Data[key].String())})
			}
			writeFactRows(b, rows)
			writeItems(b, sub)
		}
	}
	unknown := unknownFacts(s)
	if len(unknown) == 0 {
		return
	}
	b.WriteString("\nnot known\n")
	var rows [][]string
	for _, u := range unknown {
		rows = append(rows, []string{layout.Clean(u.path), u.why.Reason, layout.Clean(u.why.Detail)})
	}
	writeFactRows(b, rows)
}

// nodeColumns are what a table has of a node; there is more in the document than fits
// into a window.
var nodeColumns = []string{"name", "instance-type", "zone", "gpu-product", "gpu-count", "gpu-allocatable", "ready", "schedulable"}

// writeItems writes what items have as columns.
func writeItems(b *bytes.Buffer, sub spec.Subtype) {
	items, names := sub.Items, nodeColumns
	if sub.Name != "nodes" {
		names = itemColumns(items)
	}
	if len(items) == 0 {
		return
	}
	rows := [][]string{names}
	for i, item := range items {
		if i == mostItems {
			break
		}
		var row []string
		for _, name := range names {
			value, ok := item.Context[name]
			if v, isData := item.Data[name]; !ok && isData {
				value = v.String()
			}
			row = append(row, layout.Clean(cmp.Or(value, "-")))
		}
		rows = append(rows, row)
	}
	writeFactRows(b, rows)
	if more := len(items) - mostItems; more > 0 {
		fmt.Fprintf(b, "  and %d more, which -o yaml has\n", more)
	}
}

// itemColumns are all that items have; what they are called comes first.
func itemColumns(items []spec.FactItem) []string {
	columns := map[string]bool{}
	for _, i := range items {
		for key := range i.Context {
			columns[key] = true
		}
		for key := range i.Data {
			columns[key] = true
		}
	}
	order := []string{"namespace", "deployment", "name", "node", "component"}
	rank := func(key string) int {
		if at := slices.Index(order, key); at >= 0 {
			return at
		}
		return len(order)
	}
	return slices.SortedFunc(maps.Keys(columns), func(x, y string) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x, y))
	})
}

func writeFactRows(b *bytes.Buffer, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	for _, line := range layout.Aligned(rows, make([]bool, len(rows[0]))) {
		b.WriteString(line + "\n")
	}
}
