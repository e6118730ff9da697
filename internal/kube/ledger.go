package kube

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// ledger is what the free GPUs of a cluster follow from. Balancing it asks nothing.
type ledger struct {
	nodes  []ledgerNode
	pods   []ledgerPod
	claims []ledgerClaim
	slices []sliceFields
}

// quantities are amounts by resource, read when they are needed: what cannot be read and
// does not matter does no harm.
type quantities map[string]json.RawMessage

// ledgerNode is what matters of a Node.
type ledgerNode struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool    `json:"unschedulable"`
		Taints        []Taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		Allocatable quantities `json:"allocatable"`
		Capacity    quantities `json:"capacity"`
		Conditions  []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// ledgerPod is what matters of a Pod.
type ledgerPod struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		NodeName       string            `json:"nodeName"`
		Containers     []ledgerContainer `json:"containers"`
		InitContainers []ledgerContainer `json:"initContainers"`
		Overhead       quantities        `json:"overhead"`
		Resources      ledgerResources   `json:"resources"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		// What the pod asked for by its old name, and DRA has given.
		Extended *struct {
			Claim    string `json:"resourceClaimName"`
			Mappings []struct {
				Container string `json:"containerName"`
				Resource  string `json:"resourceName"`
			} `json:"requestMappings"`
		} `json:"extendedResourceClaimStatus"`
	} `json:"status"`
}

type ledgerContainer struct {
	Name          string          `json:"name"`
	RestartPolicy string          `json:"restartPolicy"`
	Resources     ledgerResources `json:"resources"`
}

type ledgerResources struct {
	Requests quantities `json:"requests"`
	Limits   quantities `json:"limits"`
}

// ledgerClaim is what matters of a ResourceClaim, in any of the versions.
type ledgerClaim struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Status struct {
		Allocation *struct {
			Devices struct {
				Results []struct {
					Driver      string `json:"driver"`
					Pool        string `json:"pool"`
					Device      string `json:"device"`
					AdminAccess bool   `json:"adminAccess"`
				} `json:"results"`
			} `json:"devices"`
			NodeSelector struct {
				Terms []struct {
					Fields []struct {
						Key      string   `json:"key"`
						Operator string   `json:"operator"`
						Values   []string `json:"values"`
					} `json:"matchFields"`
				} `json:"nodeSelectorTerms"`
			} `json:"nodeSelector"`
		} `json:"allocation"`
		ReservedFor []struct {
			Resource string `json:"resource"`
			Name     string `json:"name"`
		} `json:"reservedFor"`
	} `json:"status"`
}

// balance lays both ledgers over the nodes.
func (l *ledger) balance() ([]GPUNode, error) {
	b := &balancing{nodes: map[string]*GPUNode{}, poolNode: map[string]string{}, whole: map[string]bool{}, devices: map[deviceID]deviceState{}, byUUID: map[string]deviceID{}, cpu: map[string]int64{}}
	for _, n := range l.nodes {
		if err := b.node(n); err != nil {
			return nil, err
		}
	}
	b.pools(l.slices)
	allocated := map[string]bool{} // claims that hold something, by namespace and name
	where := map[string]string{}   // pods' nodes, likewise
	for _, p := range l.pods {
		where[join(p.Metadata.Namespace, p.Metadata.Name)] = p.Spec.NodeName
	}
	sorted := slices.SortedFunc(slices.Values(l.claims), func(a, b ledgerClaim) int {
		return cmp.Or(cmp.Compare(a.Metadata.Namespace, b.Metadata.Namespace), cmp.Compare(a.Metadata.Name, b.Metadata.Name))
	})
	taken := map[deviceID]bool{}
	for _, c := range sorted {
		if c.Status.Allocation == nil {
			continue
		}
		allocated[join(c.Metadata.Namespace, c.Metadata.Name)] = true
		if err := b.claim(c, where, taken); err != nil {
			return nil, err
		}
	}
	for _, p := range l.pods {
		if err := b.pod(p, allocated); err != nil {
			return nil, err
		}
	}
	all := make([]GPUNode, 0, len(b.nodes))
	for _, name := range slices.Sorted(maps.Keys(b.nodes)) {
		n := b.nodes[name]
		n.FreeCPU = max(0, n.FreeCPU-b.cpu[name])
		for i := range n.Devices {
			d := &n.Devices[i]
			d.Held = taken[deviceID{d.Pool, d.Name}]
		}
		slices.SortFunc(n.PluginHeld, func(a, b Holder) int { // as the claims are
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		all = append(all, *n)
	}
	return all, nil
}

// balancing is a ledger while it is balanced.
type balancing struct {
	nodes    map[string]*GPUNode
	poolNode map[string]string // the one node that a pool is on
	whole    map[string]bool   // pools of which every device is known
	devices  map[deviceID]deviceState
	byUUID   map[string]deviceID // GPUs that are offered
	cpu      map[string]int64    // that pods have asked for, by node
}

type deviceID struct{ pool, name string }

type deviceState struct {
	offered bool   // it is a GPU that is given out
	gpu     bool   // it is a whole GPU
	parent  string // the UUID of the GPU that it is a part of; "": that is not said
}

const (
	pluginResource = string(gpuResource)
	pluginMIG      = "nvidia.com/mig-"
	cpuResource    = "cpu"
)

func (b *balancing) node(n ledgerNode) error {
	whose := "Node " + n.Metadata.Name + ": allocatable"
	node := &GPUNode{Name: n.Metadata.Name, Schedulable: !n.Spec.Unschedulable, Labels: n.Metadata.Labels, Taints: n.Spec.Taints, Shares: 1}
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			node.Ready = c.Status == "True"
		}
	}
	gpus, err := n.Status.Allocatable.whole(pluginResource, whose)
	if err != nil {
		return err
	}
	node.Plugin = int(gpus)
	for name := range n.Status.Allocatable {
		if strings.HasPrefix(name, pluginMIG) {
			parts, err := n.Status.Allocatable.whole(name, whose)
			if err != nil {
				return err
			}
			node.MIG += int(parts)
		}
	}
	// Where all GPUs are cut alike, their parts are offered under the name of the whole.
	if n.Metadata.Labels["nvidia.com/mig.strategy"] == "single" && strings.Contains(n.Metadata.Labels["nvidia.com/gpu.product"], "-MIG-") {
		node.MIG, node.Plugin = node.MIG+node.Plugin, 0
	}
	if shares, err := strconv.Atoi(n.Metadata.Labels["nvidia.com/gpu.replicas"]); err == nil && shares > 1 {
		node.Shares = shares
	}
	node.Declared = n.declared()
	if node.FreeCPU, err = n.Status.Allocatable.milli(cpuResource, whose); err != nil {
		return err
	}
	b.nodes[node.Name] = node
	return nil
}

// declared is how many GPUs a node is said to have, by GPU feature discovery's labels or by
// its capacity: of one whose device plugin has died, nothing else says that there are any.
func (n ledgerNode) declared() int {
	if count, err := strconv.Atoi(n.Metadata.Labels["nvidia.com/gpu.count"]); err == nil && count > 0 {
		return count
	}
	if gpus, err := n.Status.Capacity.whole(pluginResource, ""); err == nil && gpus > 0 {
		return int(gpus)
	}
	if n.Metadata.Labels["nvidia.com/gpu.present"] == "true" {
		return 1
	}
	return 0
}

// pools takes the newest generation of each pool, as the scheduler does, and nothing of
// one that is not whole: devices would be missing that are there.
func (b *balancing) pools(all []sliceFields) {
	byPool := map[string][]sliceFields{}
	for _, s := range all {
		if s.Spec.Driver == gpuDriver {
			byPool[s.Spec.Pool.Name] = append(byPool[s.Spec.Pool.Name], s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		newest := int64(math.MinInt64)
		for _, s := range byPool[name] {
			newest = max(newest, s.Spec.Pool.Generation)
		}
		current := slices.DeleteFunc(byPool[name], func(s sliceFields) bool { return s.Spec.Pool.Generation != newest })
		on := map[string]bool{}
		for _, s := range current {
			on[s.Spec.NodeName] = true
		}
		if on[""] {
			for _, n := range b.nodes {
				n.odd("pool %s of %s is not bound to a node", name, gpuDriver)
			}
			continue
		}
		if len(on) > 1 {
			together := slices.Sorted(maps.Keys(on))
			for _, one := range together {
				b.nodes[one].odd("pool %s is shared by %s", name, strings.Join(together, ", "))
			}
			continue
		}
		b.poolNode[name] = current[0].Spec.NodeName
		b.pool(b.nodes[current[0].Spec.NodeName], name, current)
	}
}

// odd says why DRA cannot be used on a node; the first reason is kept.
func (n *GPUNode) odd(format string, args ...any) {
	if n != nil && n.Odd == "" {
		n.Odd = fmt.Sprintf(format, args...)
		n.Devices, n.Tainted = nil, nil
	}
}

// pool adds the devices of a pool's slices, all of one generation, to its node, which may
// have gone.
func (b *balancing) pool(n *GPUNode, name string, current []sliceFields) {
	want := current[0].Spec.Pool.ResourceSliceCount
	for _, s := range current {
		if s.Spec.Pool.ResourceSliceCount != want || int64(len(current)) != want {
			n.odd("pool %s: %d of %d slices of generation %d are there", name, len(current), s.Spec.Pool.ResourceSliceCount, s.Spec.Pool.Generation)
			return
		}
	}
	found := map[deviceID]deviceState{}
	var gpus []Device
	var tainted []string
	parts := 0
	for _, s := range current {
		for _, d := range s.Spec.Devices {
			id, device := deviceID{name, d.Name}, d.fields()
			if _, twice := found[id]; twice {
				n.odd("pool %s has device %s twice", name, d.Name)
				return
			}
			state := deviceState{parent: device.text("parentUUID")}
			switch device.text("type") {
			case "gpu":
				state.gpu = true
				if i := slices.IndexFunc(device.Taints, func(t Taint) bool { return t.Effect == "NoSchedule" || t.Effect == "NoExecute" }); i >= 0 {
					tainted = append(tainted, d.Name+": "+device.Taints[i].Key)
				} else {
					state.offered = true
					gpus = append(gpus, Device{Pool: name, Name: d.Name, UUID: device.text("uuid"), Product: device.text("productName")})
				}
			case "mig":
				parts++
			case "": // it could be a GPU
				n.odd("pool %s: device %s has no type", name, d.Name)
				return
			}
			found[id] = state
		}
	}
	if n == nil || n.Odd != "" {
		return
	}
	maps.Copy(b.devices, found)
	b.whole[name] = true
	slices.SortFunc(gpus, func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	for _, g := range gpus {
		b.byUUID[g.UUID] = deviceID{g.Pool, g.Name}
	}
	slices.Sort(tainted)
	n.Devices, n.Tainted, n.MIG = append(n.Devices, gpus...), append(n.Tainted, tainted...), n.MIG+parts
}

// claim adds what a claim holds to its node. A device that two claims share is one device.
func (b *balancing) claim(c ledgerClaim, where map[string]string, taken map[deviceID]bool) error {
	held := map[string]int{}
	for _, d := range c.Status.Allocation.Devices.Results {
		if d.Driver != gpuDriver || d.AdminAccess {
			continue
		}
		on := b.poolNode[d.Pool]
		if on == "" {
			on = c.node(where)
		}
		if on == "" {
			return fmt.Errorf("ResourceClaim %s holds %s of pool %s, and nothing says on which node that is", join(c.Metadata.Namespace, c.Metadata.Name), d.Device, d.Pool)
		}
		if b.nodes[on] == nil {
			continue // it went with its node
		}
		id, counts := b.gpuOf(deviceID{d.Pool, d.Device})
		if !counts {
			continue
		}
		more := 1
		if taken[id] {
			more = 0
		}
		taken[id] = true
		held[on] += more
	}
	for on, gpus := range held {
		b.nodes[on].ClaimHeld = append(b.nodes[on].ClaimHeld, Holder{"ResourceClaim", c.Metadata.Namespace, c.Metadata.Name, gpus})
	}
	return nil
}

// gpuOf is the GPU that is not free since a device of it was given away, and whether there
// is one: what is not offered is not missing.
func (b *balancing) gpuOf(id deviceID) (deviceID, bool) {
	state, known := b.devices[id]
	switch {
	case !known:
		return id, !b.whole[id.pool] // of a pool that is whole it has gone; otherwise nobody knows
	case state.gpu:
		return id, state.offered
	case state.parent == "":
		return id, true
	}
	parent, offered := b.byUUID[state.parent]
	return parent, offered
}

// node is where a claim says that it can be used; "" where it does not.
func (c ledgerClaim) node(where map[string]string) string {
	for _, term := range c.Status.Allocation.NodeSelector.Terms {
		for _, f := range term.Fields {
			if f.Key == "metadata.name" && f.Operator == "In" && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	for _, r := range c.Status.ReservedFor {
		if r.Resource == "pods" && where[join(c.Metadata.Namespace, r.Name)] != "" {
			return where[join(c.Metadata.Namespace, r.Name)]
		}
	}
	return ""
}

// pod adds what a pod asked for to its node. One that has ended, or has no node yet, holds
// nothing.
func (b *balancing) pod(p ledgerPod, allocated map[string]bool) error {
	n := b.nodes[p.Spec.NodeName]
	if n == nil || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
		return nil
	}
	whose := "Pod " + join(p.Metadata.Namespace, p.Metadata.Name)
	gpus, err := p.asks(func(c ledgerContainer) (int64, error) {
		if p.served(c.Name, allocated) {
			return 0, nil
		}
		return c.Resources.amount(quantities.whole, pluginResource, whose+", "+c.Name)
	})
	if err != nil {
		return err
	}
	more, err := p.Spec.Overhead.whole(pluginResource, whose+": overhead")
	if err != nil {
		return err
	}
	if gpus = added(gpus, more); gpus > 0 {
		n.PluginHeld = append(n.PluginHeld, Holder{"Pod", p.Metadata.Namespace, p.Metadata.Name, int(min(gpus, math.MaxInt32))})
	}
	cpu, err := p.asks(func(c ledgerContainer) (int64, error) {
		return c.Resources.amount(quantities.milli, cpuResource, whose+", "+c.Name)
	})
	if err != nil {
		return err
	}
	if _, ok := p.Spec.Resources.Requests[cpuResource]; ok { // asked for all containers together
		if cpu, err = p.Spec.Resources.Requests.milli(cpuResource, whose); err != nil {
			return err
		}
	}
	if more, err = p.Spec.Overhead.milli(cpuResource, whose+": overhead"); err != nil {
		return err
	}
	b.cpu[n.Name] = added(b.cpu[n.Name], added(cpu, more))
	return nil
}

// asks is the most that a pod has at a time: its containers run together, after those that
// prepare it one by one; sidecars stay from when they start.
func (p ledgerPod) asks(of func(ledgerContainer) (int64, error)) (int64, error) {
	var running, sidecars, preparing int64
	for _, c := range p.Spec.Containers {
		amount, err := of(c)
		if err != nil {
			return 0, err
		}
		running = added(running, amount)
	}
	for _, c := range p.Spec.InitContainers {
		amount, err := of(c)
		if err != nil {
			return 0, err
		}
		if c.RestartPolicy == "Always" {
			sidecars = added(sidecars, amount)
			continue
		}
		preparing = max(preparing, added(sidecars, amount))
	}
	return max(added(running, sidecars), preparing), nil
}

// served says that what a container asked the device plugin for was given by DRA (KEP-5004)
// and is in the other ledger: the claim that the scheduler has made for it is there.
func (p ledgerPod) served(container string, allocated map[string]bool) bool {
	e := p.Status.Extended
	if e == nil || !allocated[join(p.Metadata.Namespace, e.Claim)] {
		return false
	}
	for _, m := range e.Mappings {
		if m.Container == container && m.Resource == pluginResource {
			return true
		}
	}
	return false
}

// amount is what is asked for; a limit without a request is one.
func (r ledgerResources) amount(read func(quantities, string, string) (int64, error), name, whose string) (int64, error) {
	if _, ok := r.Requests[name]; ok {
		return read(r.Requests, name, whose)
	}
	return read(r.Limits, name, whose)
}

// whole is an amount of things that cannot be cut; 0 where none is named.
func (q quantities) whole(name, whose string) (int64, error) {
	amount, err := q.amount(name, whose)
	if err != nil || amount == nil {
		return 0, err
	}
	n, ok := amount.AsInt64()
	if !ok || n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("%s %s: %s is no number of GPUs", whose, name, q[name])
	}
	return n, nil
}

// milli is an amount in thousandths; 0 where none is named.
func (q quantities) milli(name, whose string) (int64, error) {
	amount, err := q.amount(name, whose)
	if err != nil || amount == nil {
		return 0, err
	}
	if amount.Sign() < 0 {
		return 0, fmt.Errorf("%s %s: %s is below 0", whose, name, q[name])
	}
	if amount.CmpInt64(math.MaxInt64/1000) > 0 { // of which MilliValue would make any number
		return math.MaxInt64, nil
	}
	return amount.MilliValue(), nil
}

func (q quantities) amount(name, whose string) (*resource.Quantity, error) {
	raw, ok := q[name]
	if !ok {
		return nil, nil
	}
	amount, err := quantityOf(raw)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", whose, name, err)
	}
	return amount, nil
}

func quantityOf(raw json.RawMessage) (*resource.Quantity, error) {
	var amount resource.Quantity
	if string(raw) == "null" {
		return nil, errors.New("it is null")
	}
	if hugeExponent.Match(raw) || json.Unmarshal(raw, &amount) != nil {
		return nil, fmt.Errorf("%s is no quantity", raw)
	}
	return &amount, nil
}

// hugeExponent is one of thousands, which takes seconds to be read.
var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4}`)

// added does not wrap around.
func added(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
