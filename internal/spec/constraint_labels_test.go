package spec

import (
	"strings"
	"testing"
)

func labelItem(key, value string, data Facts) FactItem {
	return FactItem{Context: Texts{"key": key, "value": value}, Data: data}
}

func listing(count int, nodes string, truncated bool) Facts {
	return Facts{"node-count": NewScalar(count), "node-list": NewScalar(nodes), "truncated": NewScalar(truncated)}
}

func topology(subs ...Subtype) *Snapshot {
	return &Snapshot{Measurements: []Measurement{{Type: TypeNodeTopology, Subtypes: subs}}}
}

func nodesOf(counts map[string]int) Subtype {
	sub := Subtype{Name: "nodes"}
	for _, name := range unionKeys(counts, nil) {
		sub.Items = append(sub.Items, FactItem{Context: Texts{"name": name}, Data: Facts{"gpu-count": NewScalar(counts[name])}})
	}
	return sub
}

func TestALabelIsHeldAgainstEveryGPUNode(t *testing.T) {
	gke, upstream, eks := readSnapshot(t, "gke-h100.yaml"), readSnapshot(t, "upstream-eks.yaml"), readSnapshot(t, "eks-h100.yaml")
	folded := func(data map[string]string) *Snapshot {
		facts := Facts{labelGPUPresent: NewScalar("true|a,b")}
		for key, text := range data {
			facts[key] = NewScalar(text)
		}
		return topology(Subtype{Name: "label", Data: facts})
	}
	items := func(all ...FactItem) *Snapshot {
		return topology(Subtype{Name: "label", Items: append([]FactItem{labelItem(labelGPUPresent, "true", listing(2, "a,b", false))}, all...)})
	}
	for _, c := range []struct {
		name   string
		in     *Snapshot
		value  string
		is     HeldState
		reason string
	}{
		// Both directions.
		{"every one has it", gke, "cloud.google.com/gke-nodepool=a3-pool", HeldMet, ""},
		{"every one has another", gke, "cloud.google.com/gke-nodepool=default-pool", HeldNotMet, "has cloud.google.com/gke-nodepool=a3-pool"},
		{"one has none", gke, "cloud.google.com/gke-gpu-driver-version=latest", HeldNotMet, "gke-perf-a3-pool-5c1d2e3f-0002 has no cloud.google.com/gke-gpu-driver-version"},
		{"one has what none may have", gke, "!cloud.google.com/gke-gpu-driver-version", HeldNotMet, "gke-perf-a3-pool-5c1d2e3f-0001 has cloud.google.com/gke-gpu-driver-version=latest"},
		{"none has it", gke, "!example.com/x", HeldMet, ""},
		{"no node at all has it", gke, "example.com/x=y", HeldNotMet, "has no example.com/x"},
		{"folded, several values", upstream, "node.kubernetes.io/instance-type=p5.48xlarge", HeldMet, ""},
		{"folded, another value", upstream, "node.kubernetes.io/instance-type=m6i.xlarge", HeldNotMet, "p5.48xlarge"},
		{"folded, none may have it", upstream, "!nvidia.com/gpu.product", HeldNotMet, "NVIDIA-H100-80GB-HBM3"},
		{"by reference", eks, "node.kubernetes.io/instance-type=p5.48xlarge", HeldMet, ""},
		{"an empty value", items(labelItem("x", "", listing(2, "a,b", false))), "x=", HeldMet, ""},
		{"an empty value, folded", folded(map[string]string{"x": "|a,b"}), "x=", HeldMet, ""},
		{"a label of nodes without GPUs", items(labelItem("x", "y", listing(1, "c", false))), "!x", HeldMet, ""},

		// Who is a GPU node.
		{"a node that has GPUs and no label", topology(nodesOf(map[string]int{"a": 8, "c": 0}), Subtype{Name: "label", Items: []FactItem{labelItem("x", "y", listing(2, "a,c", false))}}), "x=y", HeldMet, ""},
		{"a GPU node that has none ready", topology(nodesOf(map[string]int{"a": 8, "b": 0}), Subtype{Name: "label", Items: []FactItem{labelItem(labelGKEAccelerator, "h100", listing(1, "b", false)), labelItem("x", "y", listing(1, "a", false))}}), "x=y", HeldNotMet, "b has no x"},
		{"by the product alone", topology(Subtype{Name: "label", Data: Facts{labelGPUProduct: NewScalar("H100|a"), "x": NewScalar("y|a")}}), "x=y", HeldMet, ""},
		{"present is false", topology(Subtype{Name: "label", Data: Facts{labelGPUPresent: NewScalar("false|a"), "x": NewScalar("y|a")}}), "x=y", HeldError, "no GPU node is known"},
		{"nodes without GPUs", topology(nodesOf(map[string]int{"a": 0}), Subtype{Name: "label", Data: Facts{"x": NewScalar("y|a")}}), "!x", HeldError, "no GPU node is known"},
		{"a node without a count", topology(Subtype{Name: "nodes", Items: []FactItem{{Context: Texts{"name": "a"}}}}), "!x", HeldError, "no gpu-count"},
		{"a node without a name", topology(Subtype{Name: "nodes", Items: []FactItem{{Data: Facts{"gpu-count": NewScalar(8)}}}}), "!x", HeldError, "no name"},
		{"nodes, and no labels", topology(nodesOf(map[string]int{"a": 8})), "!x", HeldError, "no NodeTopology.label"},

		// Readings that decide nothing.
		{"truncated", items(labelItem("x", "y", listing(3, "a,b (+1 more)", true))), "x=y", HeldError, "only some of the nodes"},
		{"truncated, none may have it", items(labelItem("x", "y", listing(3, "c (+2 more)", true))), "!x", HeldError, "only some of the nodes"},
		{"truncated, folded", folded(map[string]string{"x": "y|c (+2 more)"}), "!x", HeldError, "only some of the nodes"},
		{"the GPU nodes truncated", topology(Subtype{Name: "label", Data: Facts{labelGPUPresent: NewScalar("true|a (+7 more)")}}), "!x", HeldError, "only some of the nodes"},
		{"folded without a bar", folded(map[string]string{"x": "y"}), "!x", HeldError, "want value|node,node"},
		{"folded with two bars", folded(map[string]string{"x": "y|a|b"}), "!x", HeldError, "want value|node,node"},
		{"folded without nodes", folded(map[string]string{"x": "y|"}), "!x", HeldError, "want value|node,node"},
		{"no node's name", folded(map[string]string{"x": "y|a, b"}), "!x", HeldError, "want value|node,node"},
		{"one alone of several values", folded(map[string]string{"x.y": "y|a"}), "!x", HeldError, "may be a label of its own"},
		{"a label whose name goes on", folded(map[string]string{"x.y": "z|a"}), "!x", HeldMet, ""},
		{"the plain one prevails", folded(map[string]string{"x": "z|a,b", "x.y": "y|a,b"}), "x=z", HeldMet, ""},
		{"two values on one node", folded(map[string]string{"x.y": "y|a,b", "x.z": "z|b"}), "x=y", HeldError, "b has it as y and as z"},
		{"two items on one node", items(labelItem("x", "y", listing(2, "a,b", false)), labelItem("x", "z", listing(1, "a", false))), "x=y", HeldError, "a has it as y and as z"},
		{"a count too low", items(labelItem("x", "y", listing(1, "a,b", false))), "x=y", HeldError, "counts 1 nodes and names 2"},
		{"a count too high", items(labelItem("x", "y", listing(3, "a,b", false))), "x=y", HeldError, "counts 3 nodes and names 2"},
		{"truncated and not so", items(labelItem("x", "y", listing(2, "a,b", true))), "x=y", HeldError, "truncated"},
		{"not truncated and so", items(labelItem("x", "y", listing(3, "a,b (+1 more)", false))), "x=y", HeldError, "truncated"},
		{"nothing more", items(labelItem("x", "y", listing(2, "a,b (+0 more)", true))), "x=y", HeldError, "makes no sense"},
		{"a node twice", items(labelItem("x", "y", listing(2, "a,a", false))), "!z", HeldError, "names a twice"},
		{"no key", items(labelItem("", "y", listing(2, "a,b", false))), "!x", HeldError, "has no key"},
		{"no count", items(labelItem("x", "y", Facts{"node-list": NewScalar("a"), "truncated": NewScalar(false)})), "!x", HeldError, "node-count"},
		{"no list", items(labelItem("x", "y", Facts{"node-count": NewScalar(1), "truncated": NewScalar(false)})), "!x", HeldError, "not both"},
		{"two lists", items(labelItem("x", "y", Facts{"node-count": NewScalar(1), "truncated": NewScalar(false), "node-list": NewScalar("a"), "node-list-ref": NewScalar("x")})), "!x", HeldError, "not both"},
		{"a reference to nothing", items(labelItem("x", "y", Facts{"node-count": NewScalar(1), "truncated": NewScalar(false), "node-list-ref": NewScalar("x")})), "!x", HeldError, "not its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := Hold(RecipeConstraint{Name: PathGPUNodesLabel, Value: Wanted(c.value)}, c.in)
			if h.State != c.is || !strings.Contains(h.Reason, c.reason) {
				t.Errorf("%s: %s; want %s: %s", h.State, h.Reason, c.is, c.reason)
			}
		})
	}
}

func TestAReferenceToAReadingIsBelievedOnlyWhereItIsItsOwn(t *testing.T) {
	refers := func(key, value, to string) FactItem {
		return labelItem(key, value, Facts{"node-count": NewScalar(1), "truncated": NewScalar(false), "node-list-ref": NewScalar(to)})
	}
	present := labelItem(labelGPUPresent, "true", listing(1, "a", false))
	for _, c := range []struct {
		name  string
		items []FactItem
		data  Facts
		is    HeldState
	}{
		{"its own", []FactItem{refers("x", "y", "x")}, Facts{"x": NewScalar("y|a")}, HeldMet},
		{"another's", []FactItem{refers("x", "y", "z")}, Facts{"z": NewScalar("y|a")}, HeldError},
		{"another value", []FactItem{refers("x", "y", "x")}, Facts{"x": NewScalar("z|a")}, HeldError},
		{"one of several values", []FactItem{refers("x", "y", "x.y"), refers("x", "z", "x.z")}, Facts{"x.y": NewScalar("y|a"), "x.z": NewScalar("z|b")}, HeldMet},
		{"two that fold alike", []FactItem{refers("x", "y", "x.y"), labelItem("x", "z", listing(1, "b", false)), refers("x.y", "y", "x.y")}, Facts{"x.y": NewScalar("y|a")}, HeldError},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := topology(Subtype{Name: "label", Items: append([]FactItem{present}, c.items...), Data: c.data})
			if h := Hold(RecipeConstraint{Name: PathGPUNodesLabel, Value: "x=y"}, s); h.State != c.is {
				t.Errorf("%+v", h)
			}
		})
	}
}

func TestNoMoreThanFiveNodesAreNamed(t *testing.T) {
	counts := map[string]int{}
	for name := range strings.FieldsSeq("a b c d e f g") {
		counts[name] = 1
	}
	s := topology(nodesOf(counts), Subtype{Name: "label", Data: Facts{"y": NewScalar("z|a")}})
	h := Hold(RecipeConstraint{Name: PathGPUNodesLabel, Value: "x=y"}, s)
	if h.State != HeldNotMet || !strings.HasSuffix(h.Reason, "e has no x, and 2 more") || h.Value != "0 of 7 GPU nodes" {
		t.Errorf("%+v", h)
	}
}
