package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Evidence is a criterion and the fact that it was concluded from.
type Evidence struct {
	Field string `json:"field"` // service, accelerator, os, intent, platform or nodes
	Value string `json:"value"`
	Path  string `json:"path"`  // of the fact
	Found string `json:"found"` // what it says
}

// Untold is a criterion that the facts do not tell, and why.
type Untold struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// InferCriteria concludes from a snapshot for which recipe the cluster is. What the
// facts do not tell, or tell in two ways, is left empty and said.
func InferCriteria(s *Snapshot) (Criteria, []Evidence, []Untold) {
	var c Criteria
	var told []Evidence
	var untold []Untold
	conclude := func(field string, to *string, clues clueList) {
		if e, why := clues.agree(field); why == "" {
			*to = e.Value
			told = append(told, e)
		} else {
			untold = append(untold, Untold{field, why})
		}
	}
	conclude("service", &c.Service, serviceClues(s))
	conclude("accelerator", &c.Accelerator, acceleratorClues(s))
	conclude("os", &c.OS, osClues(s))
	conclude("platform", &c.Platform, platformClues(s))
	if c.Platform == platformDynamo {
		c.Intent = intentInference
		e := told[len(told)-1]
		told = append(told, Evidence{"intent", c.Intent, e.Path, e.Found})
	} else {
		untold = append(untold, Untold{"intent", "what a cluster is meant for is not among its facts: say it"})
	}
	if nodes, err := gpuNodes(s); err != nil {
		untold = append(untold, Untold{"nodes", err.Error()})
	} else {
		c.Nodes = len(nodes)
		told = append(told, Evidence{"nodes", fmt.Sprint(c.Nodes), gpuNodesPath(s), shorten(strings.Join(nodes, ","))})
	}
	return c, told, untold
}

const (
	platformDynamo  = "dynamo"
	intentInference = "inference"
	productSim      = "sim"
)

// clue is a fact, and what it means. One that means nothing that is known here still
// counts: with another it is a contradiction.
type clue struct{ path, found, value string }

// clueList are the clues to one criterion, the strongest first.
type clueList struct {
	clues []clue
	none  string // why there are none
}

func (l *clueList) add(path, found, value string) {
	if found != "" {
		l.clues = append(l.clues, clue{path, found, value})
	}
}

// agree is the value that all clues have, or why there is none.
func (l clueList) agree(field string) (Evidence, string) {
	if len(l.clues) == 0 {
		return Evidence{}, l.none
	}
	first := l.clues[0]
	for _, c := range l.clues[1:] {
		if c.value != first.value {
			return Evidence{}, fmt.Sprintf("the facts contradict each other: %s is %s, and %s is %s", first.path, shorten(first.found), c.path, shorten(c.found))
		}
	}
	if first.value == "" {
		return Evidence{}, fmt.Sprintf("%s is %s, which is none that is known here", first.path, shorten(first.found))
	}
	return Evidence{field, first.value, first.path, shorten(first.found)}, ""
}

// textOf is a fact in words, "" where it is not known; why says why not.
func textOf(s *Snapshot, path string) (text, why string) {
	fact, err := s.Fact(path)
	switch {
	case err != nil:
		return "", err.Error()
	case !fact.Known:
		return "", fmt.Sprintf("%s is not known: %s", path, fact.Unknown)
	}
	return strings.TrimSpace(fact.Value.String()), ""
}

var serviceSchemes = []struct{ prefix, service string }{
	{"aws://", "eks"}, {"gce://", "gke"}, {"azure://", "aks"}, {"oci://", "oke"}, {"ocid1.", "oke"}, {"linode://", "lke"}, {"kind://", "kind"}, {"sim://", productSim},
}

func serviceOf(provider string) string {
	switch name := strings.ToLower(provider); name {
	case "eks", "aws":
		return "eks"
	case "gke", "gce", "gcp":
		return "gke"
	case "aks", "azure":
		return "aks"
	case "oke", "oci":
		return "oke"
	case "lke", "linode":
		return "lke"
	case "kind", "bcm", productSim:
		return name
	}
	for _, one := range serviceSchemes {
		if strings.HasPrefix(provider, one.prefix) {
			return one.service
		}
	}
	return ""
}

func serviceClues(s *Snapshot) clueList {
	const provider, id = "K8s.node.provider", "K8s.node.provider-id"
	var l clueList
	text, why := textOf(s, provider)
	l.none = why
	l.add(provider, text, serviceOf(text))
	if text, _ := textOf(s, id); serviceOf(text) != "" {
		l.add(id, text, serviceOf(text))
	}
	version, _ := textOf(s, FactServerVersion)
	switch {
	case strings.Contains(version, "-eks-"):
		l.add(FactServerVersion, version, "eks")
	case strings.Contains(version, "-gke."):
		l.add(FactServerVersion, version, "gke")
	}
	for _, one := range []struct{ label, service string }{{"eks.amazonaws.com/nodegroup", "eks"}, {"cloud.google.com/gke-nodepool", "gke"}, {"kubernetes.azure.com/cluster", "aks"}} {
		if values := labelValues(s, one.label); len(values) > 0 {
			l.add("NodeTopology.label."+one.label, values[0], one.service)
		}
	}
	return l
}

// acceleratorOf is the product that a GPU's name names, by whole words: a GB200 is no
// B200, and an L40S no L40.
func acceleratorOf(model string) string {
	if strings.HasPrefix(strings.ToLower(model), "simulated") {
		return productSim
	}
	words := strings.FieldsFunc(strings.ToLower(model), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, one := range []string{"gb300", "gb200", "vr200", "b200", "h200", "h100", "a100", "l40s", "l40", "rtx pro 6000"} {
		name := strings.Fields(one)
		for i := 0; i+len(name) <= len(words); i++ {
			if slices.Equal(words[i:i+len(name)], name) {
				return strings.ReplaceAll(one, " ", "-")
			}
		}
	}
	return ""
}

func acceleratorClues(s *Snapshot) clueList {
	var l clueList
	model, why := textOf(s, FactGPUModel)
	l.none = why
	l.add(FactGPUModel, model, acceleratorOf(model))
	for _, key := range []string{labelGPUProduct, labelGKEAccelerator} {
		values, err := valuesOfLabel(s, key)
		if err != nil { // there is something, and it may be another product
			l.add("NodeTopology.label."+key, "not to be told: "+err.Error(), "")
		}
		for _, value := range values {
			l.add("NodeTopology.label."+key, value, acceleratorOf(value))
		}
	}
	if nodes := s.Subtype(TypeNodeTopology, "nodes"); nodes != nil {
		for _, item := range nodes.Items {
			product := item.Context["gpu-product"]
			l.add(fmt.Sprintf("NodeTopology.nodes[name=%s].gpu-product", item.Context["name"]), product, acceleratorOf(product))
		}
	}
	return l
}

// osOf is the system that os-release's ID, or a node's image, names.
func osOf(text string) string {
	text = strings.ToLower(text)
	for _, one := range []struct {
		os    string
		ids   []string
		image string
	}{
		{"ubuntu", []string{"ubuntu"}, "ubuntu"},
		{"rhel", []string{"rhel", "redhat", "redhatenterpriselinux", "rhcos"}, "red hat enterprise linux"},
		{"cos", []string{"cos"}, "container-optimized os"},
		{"amazonlinux", []string{"amazonlinux", "amzn", "amazon", "al2", "al2023"}, "amazon linux"},
		{"ol", []string{"ol"}, "oracle linux"},
		{"talos", []string{"talos"}, "talos"},
	} {
		if slices.Contains(one.ids, text) || strings.HasPrefix(text, one.image) {
			return one.os
		}
	}
	return ""
}

func osClues(s *Snapshot) clueList {
	const id, image = "OS.release.ID", "K8s.node.os-image"
	var l clueList
	text, why := textOf(s, id)
	l.none = why
	l.add(id, text, osOf(text))
	text, _ = textOf(s, image)
	l.add(image, text, osOf(text))
	if nodes := s.Subtype(TypeNodeTopology, "nodes"); nodes != nil {
		for _, item := range nodes.Items {
			if count, _ := item.Data["gpu-count"].Int(); count > 0 {
				text := item.Context["os-image"]
				l.add(fmt.Sprintf("NodeTopology.nodes[name=%s].os-image", item.Context["name"]), text, osOf(text))
			}
		}
	}
	return l
}

func platformClues(s *Snapshot) clueList {
	const installed = "K8s.dynamo-platform.installed"
	var l clueList
	text, why := textOf(s, installed)
	l.none = why
	if text == "true" {
		l.add(installed, text, platformDynamo)
	}
	if served, _ := textOf(s, FactGraphCRD); served != "" {
		l.add(FactGraphCRD, served, platformDynamo)
	}
	if text == "false" {
		l.none = "dynamo is not installed: " + installed + " is false, and its resource is not served"
	}
	return l
}

// labelValues are the values that nodes have of a label, as far as they can be told.
func labelValues(s *Snapshot, key string) []string {
	values, err := valuesOfLabel(s, key)
	if err != nil {
		return nil
	}
	return values
}

// valuesOfLabel are the values that nodes have of a label. Labels that were not read
// have none; the error says that they were, and make no sense.
func valuesOfLabel(s *Snapshot, key string) ([]string, error) {
	if sub := s.Subtype(TypeNodeTopology, "label"); sub == nil || len(sub.Unknown) > 0 {
		return nil, nil
	}
	readings, err := readLabels(s)
	if err != nil {
		return nil, err
	}
	all := readings.items[key]
	if readings.items == nil {
		if all, err = readings.unfold(key); err != nil {
			return nil, err
		}
	}
	values := map[string]bool{}
	for _, r := range all {
		if r.value != "" {
			values[r.value] = true
		}
	}
	return slices.Sorted(maps.Keys(values)), nil
}

func gpuNodesPath(s *Snapshot) string {
	if nodes := s.Subtype(TypeNodeTopology, "nodes"); nodes != nil && len(nodes.Items) > 0 {
		return "NodeTopology.nodes"
	}
	return "NodeTopology.label"
}

// FingerprintOf is what a snapshot says of its cluster, concluded anew: a fingerprint
// that came with it is not believed.
func FingerprintOf(s *Snapshot) Fingerprint {
	var f Fingerprint
	set := func(to *FingerprintText, field string, clues clueList) {
		if e, why := clues.agree(field); why == "" {
			to.Value, to.Source = e.Value, e.Path
		} else {
			to.Note = why
		}
	}
	set(&f.Service, "service", serviceClues(s))
	set(&f.Accelerator, "accelerator", acceleratorClues(s))
	set(&f.OS, "os", osClues(s))
	if f.OS.Value != "" {
		f.OS.Version, _ = textOf(s, "OS.release.VERSION_ID")
	}
	asWritten := func(to *FingerprintText, path string) {
		if text, why := textOf(s, path); text != "" {
			to.Value, to.Source = text, path
		} else {
			to.Note = why
		}
	}
	asWritten(&f.GPUModel, FactGPUModel)
	asWritten(&f.K8sVersion, FactServerVersion)
	f.K8sVersion.Value = strings.TrimPrefix(f.K8sVersion.Value, "v")
	switch regions := labelValues(s, labelRegion); len(regions) {
	case 0:
		f.Region.Note = "no node has the label " + labelRegion
	case 1:
		f.Region.Value, f.Region.Source = regions[0], "NodeTopology.label."+labelRegion
	default:
		f.Region.Note = "the nodes are in " + listed(regions)
	}
	if fact, err := s.Fact("NodeTopology.summary.node-count"); err == nil && fact.Known {
		if n, ok := fact.Value.Int(); ok {
			f.NodeCount = FingerprintCount{int(n), fact.Path}
		}
	}
	if nodes, err := gpuNodes(s); err == nil {
		f.GPUNodeCount = FingerprintCount{len(nodes), gpuNodesPath(s)}
	}
	return f
}
