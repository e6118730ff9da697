package kube

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"aicr/internal/spec"
)

// node is what matters of one.
type node struct {
	name            string
	labels          map[string]string
	taints          []corev1.Taint
	info            corev1.NodeSystemInfo
	providerID      string
	ready           bool
	schedulable     bool
	gpus            int64 // that the device plugin offers
	gpusAllocatable int64
	plugin          bool // there is a device plugin: the two above are facts
}

const gpuResource = corev1.ResourceName("nvidia.com/gpu")

func nodeOf(n *corev1.Node) node {
	one := node{name: n.Name, labels: n.Labels, taints: n.Spec.Taints, info: n.Status.NodeInfo, providerID: n.Spec.ProviderID, schedulable: !n.Spec.Unschedulable}
	if capacity, ok := n.Status.Capacity[gpuResource]; ok && capacity.Value() > 0 {
		one.plugin = true
		one.gpus = capacity.Value()
		allocatable := n.Status.Allocatable[gpuResource]
		one.gpusAllocatable = allocatable.Value()
		// A GPU that is shared in time is offered several times, and is still one.
		if shares, err := strconv.ParseInt(n.Labels["nvidia.com/gpu.replicas"], 10, 64); err == nil && shares > 1 && one.gpus%shares == 0 {
			one.gpus /= shares
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			one.ready = c.Status == corev1.ConditionTrue
		}
	}
	return one
}

// claimsGPU says whether the node's own labels say that it has GPUs.
func (n node) claimsGPU() bool {
	return n.labels["nvidia.com/gpu.present"] == "true" || n.labels["nvidia.com/gpu.product"] != ""
}

// gpuNode is a node with what is known of its GPUs.
type gpuNode struct {
	node
	has           bool
	count         int64
	allocatable   int64
	counted       bool   // the two above are facts
	product       string // as the label says it, with dashes for spaces
	driver        string
	memoryMiB     string
	draUnreadable spec.Unknown
}

// gpuNodes joins nodes with the devices that DRA has on them. Nothing where the nodes
// could not be read.
func (r *readings) gpuNodes() []gpuNode {
	pools := map[string][]pool{}
	if r.slices.ok() {
		for _, p := range poolsOf(r.slices.got) {
			if p.driver == gpuDriver && p.node != "" {
				pools[p.node] = append(pools[p.node], p)
			}
		}
	}
	// Where nobody has a device plugin, GPUs may be in slices alone.
	draUnread := !r.slices.ok() && r.slices.why.Reason != spec.ReasonAbsent
	byPlugin := slices.ContainsFunc(r.nodes.got, func(n node) bool { return n.plugin })
	var all []gpuNode
	for _, n := range r.nodes.got {
		g := gpuNode{node: n, has: n.plugin || n.claimsGPU(), counted: true, product: n.labels["nvidia.com/gpu.product"], driver: driverLabel(n.labels), memoryMiB: n.labels["nvidia.com/gpu.memory"]}
		var devices int64
		for _, p := range pools[n.name] {
			g.has = g.has || p.devices > 0
			g.product, g.driver, g.memoryMiB = cmp.Or(g.product, strings.ReplaceAll(p.product, " ", "-")), cmp.Or(g.driver, p.driverVersion), cmp.Or(g.memoryMiB, p.memoryMiB)
			devices += int64(p.devices)
			if p.unreadable != nil && !n.plugin {
				g.counted, g.draUnreadable, g.has = false, *p.unreadable, true
			}
		}
		g.product = cmp.Or(g.product, n.labels["cloud.google.com/gke-accelerator"])
		switch {
		case n.plugin:
			g.count, g.allocatable = n.gpus, n.gpusAllocatable
		case len(pools[n.name]) > 0:
			g.count, g.allocatable = devices, devices
		case draUnread && (g.has || !byPlugin):
			g.counted, g.draUnreadable = false, *r.slices.why
		case g.has:
			g.counted, g.draUnreadable = false, absent("%s has a GPU by its labels, and neither a device plugin nor DRA offers it", n.name)
		}
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b gpuNode) int { return cmp.Compare(a.name, b.name) })
	return all
}

func driverLabel(labels map[string]string) string {
	if full := labels["nvidia.com/cuda.driver-version.full"]; full != "" {
		return full
	}
	major, minor, revision := labels["nvidia.com/cuda.driver.major"], labels["nvidia.com/cuda.driver.minor"], labels["nvidia.com/cuda.driver.rev"]
	if major == "" || minor == "" {
		return ""
	}
	if revision == "" {
		return major + "." + minor
	}
	return major + "." + minor + "." + revision
}

// withGPUs are the nodes that matter: those with GPUs, or all where there are none.
func withGPUs(all []gpuNode) []gpuNode {
	some := slices.DeleteFunc(slices.Clone(all), func(g gpuNode) bool { return !g.has })
	if len(some) == 0 {
		return all
	}
	return some
}

// agreed sets a fact that all of some nodes have to agree on.
func (f *facts) agreed(key string, nodes []gpuNode, value func(gpuNode) string) (string, bool) {
	count := map[string]int{}
	for _, n := range nodes {
		count[value(n)]++
	}
	values := slices.Sorted(maps.Keys(count))
	switch {
	case len(values) == 0:
		f.unknown(absent("there is no such node"), key)
	case len(values) == 1 && values[0] != "":
		f.set(key, values[0])
		return values[0], true
	case len(values) == 1:
		f.unknown(absent("no node tells"), key)
	case values[0] == "" && len(values) == 2:
		f.unknown(absent("%d of %d nodes do not tell; the others say %s", count[""], len(nodes), values[1]), key)
	default:
		f.unknown(spec.Unknown{Reason: spec.ReasonMixed, Detail: someOf(values, count)}, key)
	}
	return "", false
}

// someOf names the values that nodes have, with how many have each.
func someOf(values []string, count map[string]int) string {
	const shown = 4
	var words []string
	for i, v := range values {
		if i == shown {
			words = append(words, fmt.Sprintf("%d more", len(values)-shown))
			break
		}
		words = append(words, fmt.Sprintf("%s (%d)", cmp.Or(v, "none"), count[v]))
	}
	return strings.Join(words, ", ")
}

func (r *readings) nodeFacts(all []gpuNode) spec.Subtype {
	f := newFacts("node")
	keys := []struct {
		name  string
		value func(gpuNode) string
	}{
		{"provider", func(n gpuNode) string { return providerOf(n.providerID) }},
		{"provider-id", func(n gpuNode) string { return n.providerID }},
		{"kubelet-version", func(n gpuNode) string { return n.info.KubeletVersion }},
		{"kernel-version", func(n gpuNode) string { return n.info.KernelVersion }},
		{"os-image", func(n gpuNode) string { return n.info.OSImage }},
		{"operating-system", func(n gpuNode) string { return n.info.OperatingSystem }},
		{"container-runtime-name", func(n gpuNode) string { name, _ := runtimeOf(n.info.ContainerRuntimeVersion); return name }},
		{"container-runtime-version", func(n gpuNode) string { _, version := runtimeOf(n.info.ContainerRuntimeVersion); return version }},
	}
	for _, k := range keys {
		if !r.nodes.ok() {
			f.unknown(*r.nodes.why, k.name)
			continue
		}
		f.agreed(k.name, withGPUs(all), k.value)
	}
	if r.nodes.ok() {
		of := "all nodes, since none has a GPU"
		if some := withGPUs(all); len(some) > 0 && some[0].has {
			of = "the nodes with GPUs"
		}
		f.Context = map[string]string{"of": of}
	}
	return f.done()
}

// providerOf is the service whose nodes have such ids, in the words that recipes use.
func providerOf(id string) string {
	if strings.HasPrefix(id, "ocid1.") {
		return "oke"
	}
	scheme, _, ok := strings.Cut(id, "://")
	if !ok {
		return ""
	}
	switch scheme = strings.ToLower(scheme); scheme {
	case "aws":
		return "eks"
	case "gce":
		return "gke"
	case "azure":
		return "aks"
	}
	return scheme
}

func runtimeOf(s string) (name, version string) {
	name, version, _ = strings.Cut(s, "://")
	return name, version
}

func (r *readings) hardwareFacts(all []gpuNode) spec.Subtype {
	f := newFacts("hardware")
	if !r.nodes.ok() {
		f.unknown(*r.nodes.why, "gpu-present", "gpu-count", "model", "driver-version", "gpu-memory-mib")
		return f.done()
	}
	some, total, uncounted := withGPUs(all), int64(0), (*spec.Unknown)(nil)
	has := len(some) > 0 && some[0].has
	for _, g := range all {
		total += g.count
		if !g.counted && uncounted == nil {
			uncounted = &g.draUnreadable
		}
	}
	switch {
	case uncounted != nil:
		f.unknown(*uncounted, "gpu-count")
		if has {
			f.set("gpu-present", true)
		} else {
			f.unknown(*uncounted, "gpu-present", "model", "driver-version", "gpu-memory-mib")
			return f.done()
		}
	default:
		f.set("gpu-count", total)
		f.set("gpu-present", total > 0)
	}
	if !has {
		f.unknown(absent("no node has a GPU"), "model", "driver-version", "gpu-memory-mib")
		return f.done()
	}
	f.agreed("model", some, func(n gpuNode) string { return n.product })
	f.agreed("driver-version", some, func(n gpuNode) string { return n.driver })
	if mib, ok := f.agreed("gpu-memory-mib", some, func(n gpuNode) string { return n.memoryMiB }); ok {
		number, err := strconv.ParseInt(mib, 10, 64)
		if err != nil {
			delete(f.Data, "gpu-memory-mib")
			f.unknown(unreadable("%q is no number", mib), "gpu-memory-mib")
		} else {
			f.set("gpu-memory-mib", number)
		}
	}
	return f.done()
}

// releases are the beginnings of the names that nodes give their operating systems, the
// ID that /etc/os-release has there, and how much of the number behind is its VERSION_ID:
// Ubuntu 24.04.2 LTS has 24.04. Where it is not there at all, none of it is.
var releases = []struct {
	begins, id string
	parts      int
}{
	{"Ubuntu", "ubuntu", 2},
	{"Amazon Linux", "amzn", 1},
	{"Bottlerocket OS", "bottlerocket", 3},
	{"Container-Optimized OS", "cos", 0},
	{"Red Hat Enterprise Linux CoreOS", "rhcos", 0},
	{"Red Hat Enterprise Linux", "rhel", 2},
	{"Talos", "talos", 3},
	{"Debian GNU/Linux", "debian", 1},
	{"Microsoft Azure Linux", "azurelinux", 2},
	{"Azure Linux", "azurelinux", 2},
	{"CBL-Mariner", "mariner", 2},
	{"Flatcar Container Linux", "flatcar", 3},
	{"SUSE Linux Enterprise Server", "sles", 0},
	{"Rocky Linux", "rocky", 2},
	{"AlmaLinux", "almalinux", 2},
	{"Oracle Linux Server", "ol", 2},
	{"Fedora", "fedora", 1},
}

var releaseVersion = regexp.MustCompile(`\bv?\d+(?:\.\d+)*`)

// releaseOf reads what /etc/os-release would say out of its PRETTY_NAME, which is what a
// node tells of it.
func releaseOf(image string) (id, version string) {
	for _, r := range releases {
		if rest, ok := strings.CutPrefix(image, r.begins); ok {
			parts := strings.Split(releaseVersion.FindString(rest), ".")
			return r.id, strings.Join(parts[:min(r.parts, len(parts))], ".")
		}
	}
	return "", ""
}

func (r *readings) releaseFacts(all []gpuNode) spec.Subtype {
	f := newFacts("release")
	if !r.nodes.ok() {
		f.unknown(*r.nodes.why, "ID", "VERSION_ID", "PRETTY_NAME")
		return f.done()
	}
	some := withGPUs(all)
	f.agreed("PRETTY_NAME", some, func(n gpuNode) string { return n.info.OSImage })
	f.agreed("VERSION_ID", some, func(n gpuNode) string { _, v := releaseOf(n.info.OSImage); return v })
	if _, ok := f.agreed("ID", some, func(n gpuNode) string { id, _ := releaseOf(n.info.OSImage); return id }); !ok && f.Unknown["ID"].Reason == spec.ReasonAbsent && len(some) > 0 && some[0].info.OSImage != "" {
		f.unknown(unreadable("%q is no operating system that is known here", some[0].info.OSImage), "ID")
	}
	return f.done()
}

// sysctlFacts has the one setting of the kernel that a node tells, by the name that
// upstream's recipes have for it.
func (r *readings) sysctlFacts(all []gpuNode) spec.Subtype {
	const release = "/proc/sys/kernel/osrelease"
	f := newFacts("sysctl")
	if !r.nodes.ok() {
		f.unknown(*r.nodes.why, release)
		return f.done()
	}
	f.agreed(release, withGPUs(all), func(n gpuNode) string { return n.info.KernelVersion })
	return f.done()
}

func (r *readings) topologyFacts(all []gpuNode, most int) []spec.Subtype {
	summary, label, taint, nodes := newFacts("summary"), newFacts("label"), newFacts("taint"), newFacts("nodes")
	if !r.nodes.ok() {
		summary.unknown(*r.nodes.why, "node-count", "taint-count", "label-count", "gpu-node-count")
		for _, f := range []*facts{label, taint, nodes} {
			f.unknown(*r.nodes.why, "*")
		}
		return []spec.Subtype{summary.done(), taint.done(), label.done(), nodes.done()}
	}
	labels, taints := map[[2]string][]string{}, map[[3]string][]string{}
	withGPU, uncounted := 0, (*spec.Unknown)(nil)
	for _, n := range all {
		for k, v := range n.labels {
			labels[[2]string{k, v}] = append(labels[[2]string{k, v}], n.name)
		}
		var worn []string
		for _, t := range n.taints {
			id := [3]string{t.Key, string(t.Effect), t.Value}
			taints[id] = append(taints[id], n.name)
			worn = append(worn, t.ToString())
		}
		slices.Sort(worn)
		data := map[string]any{"ready": n.ready, "schedulable": n.schedulable, "taints": strings.Join(worn, ",")}
		if n.counted {
			data["gpu-count"], data["gpu-allocatable"] = n.count, n.allocatable
		} else {
			nodes.unknown(n.draUnreadable, "gpu-count", "gpu-allocatable")
			if !n.has && uncounted == nil {
				uncounted = &n.draUnreadable
			}
		}
		if n.has {
			withGPU++
		}
		nodes.item(map[string]string{
			"name": n.name, "gpu-product": n.product, "architecture": n.info.Architecture,
			"instance-type": cmp.Or(n.labels[corev1.LabelInstanceTypeStable], n.labels["beta.kubernetes.io/instance-type"]),
			"zone":          cmp.Or(n.labels[corev1.LabelTopologyZone], n.labels["failure-domain.beta.kubernetes.io/zone"]),
			"region":        cmp.Or(n.labels[corev1.LabelTopologyRegion], n.labels["failure-domain.beta.kubernetes.io/region"]),
			"os-image":      n.info.OSImage, "kernel-version": n.info.KernelVersion,
			"kubelet-version": n.info.KubeletVersion, "container-runtime": n.info.ContainerRuntimeVersion,
		}, data)
	}
	foldLabels(label, labels, most)
	foldTaints(taint, taints, most)
	summary.set("node-count", len(all))
	summary.set("label-count", len(labels))
	summary.set("taint-count", len(taints))
	if uncounted != nil {
		summary.unknown(*uncounted, "gpu-node-count")
	} else {
		summary.set("gpu-node-count", withGPU)
	}
	return []spec.Subtype{summary.done(), taint.done(), label.done(), nodes.done()}
}

// foldLabels writes labels twice, as upstream does: items, which lose nothing, and data,
// which a path can name.
func foldLabels(f *facts, labels map[[2]string][]string, most int) {
	values := map[string]int{}
	for id := range labels {
		values[id[0]]++
	}
	ids := slices.SortedFunc(maps.Keys(labels), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, id := range ids {
		key := id[0]
		if values[id[0]] > 1 {
			key += "." + id[1]
		}
		list := nodeList(labels[id], most)
		f.set(key, id[1]+"|"+list)
		f.Items = append(f.Items, members(map[string]string{"key": id[0], "value": id[1]}, labels[id], list, most))
	}
}

func foldTaints(f *facts, taints map[[3]string][]string, most int) {
	effects := map[string]int{}
	for id := range taints {
		effects[id[0]]++
	}
	ids := slices.SortedFunc(maps.Keys(taints), func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
	for _, id := range ids {
		key, effect, value := id[0], id[1], id[2]
		list := nodeList(taints[id], most)
		if effects[key] > 1 {
			f.set(key+"."+effect, value+"|"+list)
		} else {
			f.set(key, effect+"|"+value+"|"+list)
		}
		f.Items = append(f.Items, members(map[string]string{"key": key, "value": value, "effect": effect}, taints[id], list, most))
	}
}

func members(context map[string]string, nodes []string, list string, most int) spec.FactItem {
	return spec.FactItem{Context: context, Data: map[string]spec.Scalar{
		"node-count": spec.NewScalar(len(nodes)),
		"node-list":  spec.NewScalar(list),
		"truncated":  spec.NewScalar(most > 0 && len(nodes) > most),
	}}
}

func nodeList(nodes []string, most int) string {
	if most > 0 && len(nodes) > most {
		return strings.Join(nodes[:most], ",") + fmt.Sprintf(" (+%d more)", len(nodes)-most)
	}
	return strings.Join(nodes, ",")
}
