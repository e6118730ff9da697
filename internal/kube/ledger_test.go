package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"aicr/internal/kube/kubetest"
)

// ledgerFrom reads objects as GPUs does.
func ledgerFrom(items []json.RawMessage) (*ledger, error) {
	var l ledger
	for _, item := range items {
		var kind struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(item, &kind); err != nil {
			return nil, err
		}
		var err error
		switch kind.Kind {
		case "Node":
			err = add(&l.nodes, item, kind.Kind)
		case "Pod":
			err = add(&l.pods, item, kind.Kind)
		case "ResourceClaim":
			err = add(&l.claims, item, kind.Kind)
		case "ResourceSlice":
			err = add(&l.slices, item, kind.Kind)
		}
		if err != nil {
			return nil, err
		}
	}
	return &l, nil
}

func add[T any](all *[]T, item json.RawMessage, kind string) error {
	one, err := fieldsOf[T](item, kind)
	*all = append(*all, one)
	return err
}

// balancedOf is the ledger of some YAML.
func balancedOf(text string) ([]GPUNode, error) {
	var items []json.RawMessage
	for doc := range bytes.SplitSeq([]byte(text), []byte("\n---\n")) {
		item, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	l, err := ledgerFrom(items)
	if err != nil {
		return nil, err
	}
	return l.balance()
}

func balancedNodes(t *testing.T, text string) []GPUNode {
	t.Helper()
	nodes, err := balancedOf(text)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// balanced is the ledger of some YAML in words, a line for each node.
func balanced(text string) string {
	nodes, err := balancedOf(text)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, n := range nodes {
		lines = append(lines, inWords(n))
	}
	return strings.Join(lines, "\n")
}

func inWords(n GPUNode) string {
	line := fmt.Sprintf("%s: %d+%d, %d free", n.Name, n.Plugin, len(n.Devices), n.Free())
	for _, h := range append(append([]Holder{}, n.PluginHeld...), n.ClaimHeld...) {
		line += fmt.Sprintf("; %s %s/%s %d", h.Kind, h.Namespace, h.Name, h.GPUs)
	}
	if n.MIG > 0 {
		line += fmt.Sprintf("; %d parts", n.MIG)
	}
	if n.Shares > 1 {
		line += fmt.Sprintf("; %d shares", n.Shares)
	}
	for _, t := range n.Tainted {
		line += "; not " + t
	}
	if n.Odd != "" {
		line += "; odd: " + n.Odd
	}
	return line
}

const (
	plugin8 = `{kind: Node, metadata: {name: a}, status: {allocatable: {nvidia.com/gpu: "8", cpu: "16"}}}`
	nodeA   = `{kind: Node, metadata: {name: a}, status: {allocatable: {cpu: "16"}}}`
	nodeB   = `{kind: Node, metadata: {name: b}, status: {allocatable: {cpu: "16"}}}`
)

// slices of a pool; devices are name:type, or name:type:parent.
func poolSlice(name, node, pool string, generation, count int, devices ...string) string {
	var all []string
	for _, d := range devices {
		part := append(strings.Split(d, ":"), "", "")
		attributes := fmt.Sprintf("type: {string: %q}, uuid: {string: U-%s}, productName: {string: NVIDIA H100 NVL}", part[1], part[0])
		if part[1] == "" {
			attributes = "uuid: {string: x}"
		}
		if part[2] != "" {
			attributes += fmt.Sprintf(", parentUUID: {string: %s}", part[2])
		}
		all = append(all, fmt.Sprintf("{name: %s, attributes: {%s}}", part[0], attributes))
	}
	where := "nodeName: " + node
	if node == "" {
		where = "allNodes: true"
	}
	return fmt.Sprintf("{kind: ResourceSlice, metadata: {name: %s}, spec: {driver: gpu.nvidia.com, %s, pool: {name: %s, generation: %d, resourceSliceCount: %d}, devices: [%s]}}", name, where, pool, generation, count, strings.Join(all, ", "))
}

// a claim of a pool's devices.
func claimOf(name, pool string, devices ...string) string {
	var all []string
	for _, d := range devices {
		d, admin, _ := strings.Cut(d, "!")
		all = append(all, fmt.Sprintf("{request: gpu, driver: gpu.nvidia.com, pool: %s, device: %s, adminAccess: %v}", pool, d, admin != ""))
	}
	return fmt.Sprintf("{kind: ResourceClaim, metadata: {namespace: ns, name: %s}, status: {allocation: {devices: {results: [%s]}}}}", name, strings.Join(all, ", "))
}

// placedClaim is a claim of a pool that nobody knows, with what says where it is.
func placedClaim(selector, reserved string) string {
	return fmt.Sprintf("{kind: ResourceClaim, metadata: {namespace: ns, name: c}, status: {reservedFor: [%s], allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: [%s]}]}, devices: {results: [{driver: gpu.nvidia.com, pool: x, device: gpu-0}]}}}}", reserved, selector)
}

const nowhere = "ResourceClaim ns/c holds gpu-0 of pool x, and nothing says on which node that is"

// taintedSlice is a pool of node a whose GPUs are not given out.
func taintedSlice(pool string, devices ...string) string {
	var all []string
	for _, d := range devices {
		all = append(all, fmt.Sprintf("{name: %s, attributes: {type: {string: gpu}}, taints: [{key: sick, effect: NoSchedule}]}", d))
	}
	return fmt.Sprintf("{kind: ResourceSlice, metadata: {name: %s}, spec: {driver: gpu.nvidia.com, nodeName: a, pool: {name: %s, generation: 1, resourceSliceCount: 1}, devices: [%s]}}", pool, pool, strings.Join(all, ", "))
}

func docs(all ...string) string { return strings.Join(all, "\n---\n") }

func podAsking(name, fields string) string {
	return fmt.Sprintf("{kind: Pod, metadata: {namespace: ns, name: %s}, spec: {nodeName: a, %s}}", name, fields)
}

func gpus(n int) string {
	return fmt.Sprintf("resources: {requests: {nvidia.com/gpu: %q}}", fmt.Sprint(n))
}

func TestWhoHoldsGPUs(t *testing.T) {
	whole := poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "gpu-1:gpu", "gpu-2:gpu", "gpu-3:gpu")
	for _, tt := range []struct{ name, cluster, want string }{
		// The device plugin's ledger.
		{"nobody", plugin8, "a: 8+0, 8 free"},
		{"a pod", docs(plugin8, podAsking("p", "containers: [{name: c, "+gpus(2)+"}]")), "a: 8+0, 6 free; Pod ns/p 2"},
		{"containers run together", docs(plugin8, podAsking("p", "containers: [{name: c, "+gpus(2)+"}, {name: d, "+gpus(1)+"}]")), "a: 8+0, 5 free; Pod ns/p 3"},
		{"what prepares runs before", docs(plugin8, podAsking("p", "initContainers: [{name: i, "+gpus(4)+"}, {name: j, "+gpus(3)+"}], containers: [{name: c, "+gpus(2)+"}]")), "a: 8+0, 4 free; Pod ns/p 4"},
		{"what prepares is less", docs(plugin8, podAsking("p", "initContainers: [{name: i, "+gpus(1)+"}], containers: [{name: c, "+gpus(2)+"}]")), "a: 8+0, 6 free; Pod ns/p 2"},
		{"a sidecar stays", docs(plugin8, podAsking("p", "initContainers: [{name: s, restartPolicy: Always, "+gpus(1)+"}], containers: [{name: c, "+gpus(2)+"}]")), "a: 8+0, 5 free; Pod ns/p 3"},
		{"a sidecar runs while others prepare", docs(plugin8, podAsking("p", "initContainers: [{name: s, restartPolicy: Always, "+gpus(1)+"}, {name: i, "+gpus(4)+"}], containers: [{name: c, "+gpus(2)+"}]")), "a: 8+0, 3 free; Pod ns/p 5"},
		{"a sidecar that starts later does not", docs(plugin8, podAsking("p", "initContainers: [{name: i, "+gpus(4)+"}, {name: s, restartPolicy: Always, "+gpus(1)+"}], containers: [{name: c, "+gpus(2)+"}]")), "a: 8+0, 4 free; Pod ns/p 4"},
		{"two sidecars stay", docs(plugin8, podAsking("p", "initContainers: [{name: s, restartPolicy: Always, "+gpus(1)+"}, {name: t, restartPolicy: Always, "+gpus(2)+"}], containers: [{name: c, "+gpus(2)+"}]")), "a: 8+0, 3 free; Pod ns/p 5"},
		{"what prepares and is begun again is no sidecar", docs(plugin8, podAsking("p", "initContainers: [{name: i, restartPolicy: OnFailure, "+gpus(1)+"}], containers: [{name: c, "+gpus(2)+"}]")), "a: 8+0, 6 free; Pod ns/p 2"},
		{"overhead", docs(plugin8, podAsking("p", "overhead: {nvidia.com/gpu: 1}, containers: [{name: c, "+gpus(2)+"}]")), "a: 8+0, 5 free; Pod ns/p 3"},
		{"a limit alone", docs(plugin8, podAsking("p", "containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]")), "a: 8+0, 6 free; Pod ns/p 2"},
		{"one that asks for none", docs(plugin8, podAsking("p", "containers: [{name: c}]")), "a: 8+0, 8 free"},
		{"one that has succeeded", docs(plugin8, "{kind: Pod, metadata: {namespace: ns, name: p}, status: {phase: Succeeded}, spec: {nodeName: a, containers: [{name: c, "+gpus(2)+"}]}}"), "a: 8+0, 8 free"},
		{"one that has failed", docs(plugin8, "{kind: Pod, metadata: {namespace: ns, name: p}, status: {phase: Failed}, spec: {nodeName: a, containers: [{name: c, "+gpus(2)+"}]}}"), "a: 8+0, 8 free"},
		{"one that does not run yet", docs(plugin8, "{kind: Pod, metadata: {namespace: ns, name: p}, status: {phase: Pending}, spec: {nodeName: a, containers: [{name: c, "+gpus(2)+"}]}}"), "a: 8+0, 6 free; Pod ns/p 2"},
		{"one that goes is still there", docs(plugin8, "{kind: Pod, metadata: {namespace: ns, name: p, deletionTimestamp: x}, status: {phase: Running}, spec: {nodeName: a, containers: [{name: c, "+gpus(2)+"}]}}"), "a: 8+0, 6 free; Pod ns/p 2"},
		{"one without a node", docs(plugin8, "{kind: Pod, metadata: {namespace: ns, name: p}, spec: {containers: [{name: c, "+gpus(2)+"}]}}"), "a: 8+0, 8 free"},
		{"more than there are", docs(plugin8, podAsking("p", "containers: [{name: c, "+gpus(9)+"}]")), "a: 8+0, 0 free; Pod ns/p 9"},
		{"more than there can be", docs(plugin8, podAsking("p", "containers: [{name: c, "+gpus(math.MaxInt32)+"}, {name: d, "+gpus(math.MaxInt32)+"}]")), "a: 8+0, 0 free; Pod ns/p 2147483647"},
		{"in order", docs(plugin8, podAsking("q", "containers: [{name: c, "+gpus(1)+"}]"), podAsking("p", "containers: [{name: c, "+gpus(1)+"}]")), "a: 8+0, 6 free; Pod ns/p 1; Pod ns/q 1"},
		{"in order of their namespaces", docs(plugin8, "{kind: Pod, metadata: {namespace: two, name: p}, spec: {nodeName: a, containers: [{name: c, "+gpus(1)+"}]}}", "{kind: Pod, metadata: {namespace: one, name: q}, spec: {nodeName: a, containers: [{name: c, "+gpus(1)+"}]}}"), "a: 8+0, 6 free; Pod one/q 1; Pod two/p 1"},
		{"GPUs that are shared in time", `{kind: Node, metadata: {name: a, labels: {nvidia.com/gpu.replicas: "4"}}, status: {allocatable: {nvidia.com/gpu: "8"}}}`, "a: 8+0, 8 free; 4 shares"},
		{"parts under their own names", `{kind: Node, metadata: {name: a}, status: {allocatable: {nvidia.com/gpu: "1", nvidia.com/mig-1g.10gb: "7", nvidia.com/mig-2g.20gb: "3"}}}`, "a: 1+0, 1 free; 10 parts"},
		{"parts under the name of the whole", `{kind: Node, metadata: {name: a, labels: {nvidia.com/mig.strategy: single, nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3-MIG-1g.10gb}}, status: {allocatable: {nvidia.com/gpu: "56"}}}`, "a: 0+0, 0 free; 56 parts"},
		{"whole ones, though parts were possible", `{kind: Node, metadata: {name: a, labels: {nvidia.com/mig.strategy: single, nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}, status: {allocatable: {nvidia.com/gpu: "8"}}}`, "a: 8+0, 8 free"},

		// A number that cannot be read is not 0.
		{"a node's number", `{kind: Node, metadata: {name: a}, status: {allocatable: {nvidia.com/gpu: "eight"}}}`, `Node a: allocatable nvidia.com/gpu: "eight" is no quantity`},
		{"half a GPU", `{kind: Node, metadata: {name: a}, status: {allocatable: {nvidia.com/gpu: "0.5"}}}`, `Node a: allocatable nvidia.com/gpu: "0.5" is no number of GPUs`},
		{"more than can be", `{kind: Node, metadata: {name: a}, status: {allocatable: {nvidia.com/gpu: "3G"}}}`, `Node a: allocatable nvidia.com/gpu: "3G" is no number of GPUs`},
		{"a number of parts", `{kind: Node, metadata: {name: a}, status: {allocatable: {nvidia.com/mig-1g.10gb: some}}}`, `Node a: allocatable nvidia.com/mig-1g.10gb: "some" is no quantity`},
		{"below none", docs(plugin8, podAsking("p", "containers: [{name: c, "+gpus(-1)+"}]")), `Pod ns/p, c nvidia.com/gpu: "-1" is no number of GPUs`},
		{"nothing", `{kind: Node, metadata: {name: a}, status: {allocatable: {nvidia.com/gpu: null}}}`, `Node a: allocatable nvidia.com/gpu: it is null`},
		{"a node's CPU", `{kind: Node, metadata: {name: a}, status: {allocatable: {cpu: many}}}`, `Node a: allocatable cpu: "many" is no quantity`},
		{"a number without end", `{kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 8e99999999}}}`, `Node a: allocatable cpu: "8e99999999" is no quantity`},
		{"a pod's CPU", docs(plugin8, podAsking("p", "containers: [{name: c, resources: {requests: {cpu: -1}}}]")), `Pod ns/p, c cpu: -1 is below 0`},
		{"an overhead", docs(plugin8, podAsking("p", "overhead: {nvidia.com/gpu: x}, containers: []")), `Pod ns/p: overhead nvidia.com/gpu: "x" is no quantity`},
		{"what does not matter", docs(plugin8, podAsking("p", "containers: [{name: c, resources: {requests: {memory: lots}}}]")), "a: 8+0, 8 free"},
		{"another shape", docs(plugin8, "{kind: Pod, metadata: {namespace: ns, name: p}, spec: []}"), "Pod ns/p: spec cannot be of type array"},

		// DRA's ledger.
		{"devices", docs(nodeA, whole), "a: 0+4, 4 free"},
		{"a claim", docs(nodeA, whole, claimOf("c", "a", "gpu-0", "gpu-1")), "a: 0+4, 2 free; ResourceClaim ns/c 2"},
		{"a claim that was given nothing", docs(nodeA, whole, "{kind: ResourceClaim, metadata: {namespace: ns, name: c}, status: {}}"), "a: 0+4, 4 free"},
		{"a claim that several pods share", docs(nodeA, whole, "{kind: ResourceClaim, metadata: {namespace: ns, name: c}, status: {reservedFor: [{resource: pods, name: p}, {resource: pods, name: q}], allocation: {devices: {results: [{driver: gpu.nvidia.com, pool: a, device: gpu-0}]}}}}"), "a: 0+4, 3 free; ResourceClaim ns/c 1"},
		{"a device that two claims share", docs(nodeA, whole, claimOf("d", "a", "gpu-0"), claimOf("c", "a", "gpu-0", "gpu-1")), "a: 0+4, 2 free; ResourceClaim ns/c 2; ResourceClaim ns/d 0"},
		{"claims in order", docs(nodeA, whole, claimOf("d", "a", "gpu-1"), claimOf("c", "a", "gpu-0")), "a: 0+4, 2 free; ResourceClaim ns/c 1; ResourceClaim ns/d 1"},
		{"an administrator", docs(nodeA, whole, claimOf("c", "a", "gpu-0!admin", "gpu-1")), "a: 0+4, 3 free; ResourceClaim ns/c 1"},
		{"an administrator alone", docs(nodeA, whole, claimOf("c", "a", "gpu-0!admin")), "a: 0+4, 4 free"},
		{"another driver's device", docs(nodeA, whole, "{kind: ResourceClaim, metadata: {namespace: ns, name: c}, status: {allocation: {devices: {results: [{driver: compute-domain.nvidia.com, pool: a, device: gpu-0}]}}}}"), "a: 0+4, 4 free"},
		{"another driver's slice", docs(nodeA, "{kind: ResourceSlice, metadata: {name: s}, spec: {driver: compute-domain.nvidia.com, nodeName: a, pool: {name: a, generation: 9, resourceSliceCount: 1}, devices: [{name: gpu-0, attributes: {type: {string: gpu}}}]}}"), "a: 0+0, 0 free"},
		{"devices are counted, not slices", docs(nodeA, poolSlice("s", "a", "a", 1, 2, "gpu-0:gpu", "gpu-1:gpu"), poolSlice("r", "a", "a", 1, 2)), "a: 0+2, 2 free"},
		{"v1beta1", docs(nodeA, "{kind: ResourceSlice, metadata: {name: s}, spec: {driver: gpu.nvidia.com, nodeName: a, pool: {name: a, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0, basic: {attributes: {type: {string: gpu}}}}]}}"), "a: 0+1, 1 free"},
		{"parts are not GPUs", docs(nodeA, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "gpu-1-mig:mig:U-gone", "gpu-vfio-0:vfio")), "a: 0+1, 1 free; 1 parts"},

		{"parts of both", docs(`{kind: Node, metadata: {name: a}, status: {allocatable: {nvidia.com/mig-1g.10gb: "7"}}}`, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "m0:mig")), "a: 0+1, 1 free; 8 parts"},

		// Generations.
		{"the newest, wherever it is listed", docs(nodeA, poolSlice("r", "a", "a", 2, 1, "gpu-0:gpu"), poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "gpu-1:gpu")), "a: 0+1, 1 free"},
		{"the newest alone", docs(nodeA, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "gpu-1:gpu"), poolSlice("r", "a", "a", 2, 1, "gpu-0:gpu")), "a: 0+1, 1 free"},
		{"the newest, and not whole", docs(nodeA, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu"), poolSlice("r", "a", "a", 2, 2, "gpu-0:gpu")), "a: 0+0, 0 free; odd: pool a: 1 of 2 slices of generation 2 are there"},
		{"more than whole", docs(nodeA, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu"), poolSlice("r", "a", "a", 1, 1, "gpu-1:gpu")), "a: 0+0, 0 free; odd: pool a: 2 of 1 slices of generation 1 are there"},
		{"slices that disagree", docs(nodeA, poolSlice("s", "a", "a", 1, 2, "gpu-0:gpu"), poolSlice("r", "a", "a", 1, 3, "gpu-1:gpu")), "a: 0+0, 0 free; odd: pool a: 2 of 3 slices of generation 1 are there"},
		{"two pools on a node", docs(nodeA, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu"), poolSlice("r", "a", "a2", 7, 1, "gpu-0:gpu"), claimOf("c", "a2", "gpu-0")), "a: 0+2, 1 free; ResourceClaim ns/c 1"},
		{"two pools, one not whole", docs(nodeA, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu"), poolSlice("r", "a", "a2", 7, 2, "gpu-0:gpu")), "a: 0+0, 0 free; odd: pool a2: 1 of 2 slices of generation 7 are there"},
		{"two pools, the first not whole", docs(nodeA, poolSlice("s", "a", "a", 1, 2, "gpu-0:gpu"), poolSlice("r", "a", "a2", 7, 1, "gpu-0:gpu")), "a: 0+0, 0 free; odd: pool a: 1 of 2 slices of generation 1 are there"},
		{"two pools, neither whole", docs(nodeA, poolSlice("s", "a", "a", 1, 2, "gpu-0:gpu"), poolSlice("r", "a", "a2", 7, 2, "gpu-0:gpu")), "a: 0+0, 0 free; odd: pool a: 1 of 2 slices of generation 1 are there"},
		{"a device twice", docs(nodeA, poolSlice("s", "a", "a", 1, 2, "gpu-0:gpu"), poolSlice("r", "a", "a", 1, 2, "gpu-0:gpu")), "a: 0+0, 0 free; odd: pool a has device gpu-0 twice"},
		{"a device without a type", docs(nodeA, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "x:")), "a: 0+0, 0 free; odd: pool a: device x has no type"},
		{"a pool of no node", docs(nodeA, nodeB, poolSlice("s", "", "p", 1, 1, "gpu-0:gpu"), poolSlice("r", "a", "a", 1, 1, "gpu-0:gpu")), "a: 0+0, 0 free; odd: pool p of gpu.nvidia.com is not bound to a node\nb: 0+0, 0 free; odd: pool p of gpu.nvidia.com is not bound to a node"},
		{"a pool of a node and of none", docs(nodeA, poolSlice("s", "", "p", 1, 2, "gpu-0:gpu"), poolSlice("r", "a", "p", 1, 2, "gpu-1:gpu")), "a: 0+0, 0 free; odd: pool p of gpu.nvidia.com is not bound to a node"},
		{"a pool of two nodes", docs(nodeA, nodeB, poolSlice("s", "a", "p", 1, 2, "gpu-0:gpu"), poolSlice("r", "b", "p", 1, 2, "gpu-1:gpu")), "a: 0+0, 0 free; odd: pool p is shared by a, b\nb: 0+0, 0 free; odd: pool p is shared by a, b"},
		{"a pool of a node that is gone", docs(nodeA, poolSlice("s", "gone", "gone", 1, 2, "gpu-0:gpu"), claimOf("c", "gone", "gpu-0")), "a: 0+0, 0 free"},
		{"a node that is not DRA's keeps its own", docs(plugin8, poolSlice("s", "a", "a", 1, 2, "gpu-0:gpu"), claimOf("c", "a", "gpu-0", "gpu-9")), "a: 8+0, 6 free; ResourceClaim ns/c 2; odd: pool a: 1 of 2 slices of generation 1 are there"},

		// What is not offered is not held.
		{"a device that is no longer there", docs(nodeA, whole, claimOf("c", "a", "gpu-9")), "a: 0+4, 4 free"},
		{"a device that is not given out", docs(nodeA, "{kind: ResourceSlice, metadata: {name: s}, spec: {driver: gpu.nvidia.com, nodeName: a, pool: {name: a, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0, attributes: {type: {string: gpu}}, taints: [{key: gpu.nvidia.com/xid, effect: NoExecute}]}, {name: gpu-1, attributes: {type: {string: gpu}}, taints: [{key: note, effect: None}]}]}}", claimOf("c", "a", "gpu-0")), "a: 0+1, 1 free; not gpu-0: gpu.nvidia.com/xid"},
		{"those that are not given out, in order, of every pool", docs(nodeA, taintedSlice("a", "gpu-1", "gpu-0"), taintedSlice("a2", "gpu-2")), "a: 0+0, 0 free; not gpu-0: sick; not gpu-1: sick; not gpu-2: sick"},
		{"those that are not given out, where another pool is not whole", docs(nodeA, taintedSlice("a", "gpu-0"), poolSlice("r", "a", "a2", 1, 2)), "a: 0+0, 0 free; odd: pool a2: 1 of 2 slices of generation 1 are there"},
		{"a part takes its whole", docs(nodeA, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "m0:mig:U-gpu-0", "m1:mig:U-gpu-0"), claimOf("c", "a", "m0", "m1")), "a: 0+1, 0 free; ResourceClaim ns/c 1; 2 parts"},
		{"a part and its whole are one GPU", docs(nodeA, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "gpu-1:gpu", "m0:mig:U-gpu-0"), claimOf("c", "a", "m0"), claimOf("d", "a", "gpu-0")), "a: 0+2, 1 free; ResourceClaim ns/c 1; ResourceClaim ns/d 0; 1 parts"},
		{"a part of one that is not offered", docs(nodeA, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "m0:mig:U-other"), claimOf("c", "a", "m0")), "a: 0+1, 1 free; 1 parts"},
		{"a part of who knows", docs(nodeA, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "m0:mig"), claimOf("c", "a", "m0")), "a: 0+1, 0 free; ResourceClaim ns/c 1; 1 parts"},

		// Where a claim is.
		{"by its selector", docs(plugin8, "{kind: ResourceClaim, metadata: {namespace: ns, name: c}, status: {allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}, devices: {results: [{driver: gpu.nvidia.com, pool: x, device: gpu-0}]}}}}"), "a: 8+0, 7 free; ResourceClaim ns/c 1"},
		{"by its selector, where its pool is not whole", docs(plugin8, poolSlice("s", "a", "a", 1, 2), "{kind: ResourceClaim, metadata: {namespace: ns, name: c}, status: {allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}, devices: {results: [{driver: gpu.nvidia.com, pool: x, device: gpu-0}]}}}}"), "a: 8+0, 7 free; ResourceClaim ns/c 1; odd: pool a: 1 of 2 slices of generation 1 are there"},
		{"by its pods", docs(plugin8, poolSlice("s", "a", "a", 1, 2), podAsking("p", "containers: []"), "{kind: ResourceClaim, metadata: {namespace: ns, name: c}, status: {reservedFor: [{resource: pods, name: p}], allocation: {devices: {results: [{driver: gpu.nvidia.com, pool: x, device: gpu-0}]}}}}"), "a: 8+0, 7 free; ResourceClaim ns/c 1; odd: pool a: 1 of 2 slices of generation 1 are there"},
		{"by its pods alone", docs(plugin8, podAsking("p", "containers: []"), placedClaim("", "{resource: jobs, name: p}")), nowhere},
		{"by its own pods", docs(plugin8, "{kind: Pod, metadata: {namespace: other, name: p}, spec: {nodeName: a}}", placedClaim("", "{resource: pods, name: p}")), nowhere},
		{"by a selector of another kind", docs(plugin8, placedClaim("{key: metadata.name, operator: NotIn, values: [a]}", "")), nowhere},
		{"by a selector of another field", docs(plugin8, placedClaim("{key: spec.unschedulable, operator: In, values: [a]}", "")), nowhere},
		{"by a selector of two nodes", docs(plugin8, placedClaim("{key: metadata.name, operator: In, values: [a, b]}", "")), nowhere},
		{"by nothing", docs(plugin8, claimOf("c", "x", "gpu-0")), nowhere},

		// Both ledgers.
		{"both", docs(plugin8, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "gpu-1:gpu"), podAsking("p", "containers: [{name: c, "+gpus(2)+"}]"), claimOf("c", "a", "gpu-0")), "a: 8+2, 5 free; Pod ns/p 2; ResourceClaim ns/c 1"},
		{"what DRA has given for the old name is counted once (KEP-5004)", docs(nodeA, whole, claimOf("p-x", "a", "gpu-0", "gpu-1"),
			"{kind: Pod, metadata: {namespace: ns, name: p}, status: {extendedResourceClaimStatus: {resourceClaimName: p-x, requestMappings: [{containerName: c, resourceName: nvidia.com/gpu, requestName: r}]}}, spec: {nodeName: a, containers: [{name: c, "+gpus(2)+"}]}}"), "a: 0+4, 2 free; ResourceClaim ns/p-x 2"},
		{"but only of the containers that it was given for", docs(plugin8, whole, claimOf("p-x", "a", "gpu-0", "gpu-1"),
			"{kind: Pod, metadata: {namespace: ns, name: p}, status: {extendedResourceClaimStatus: {resourceClaimName: p-x, requestMappings: [{containerName: c, resourceName: nvidia.com/gpu, requestName: r}]}}, spec: {nodeName: a, containers: [{name: c, "+gpus(2)+"}, {name: d, "+gpus(1)+"}]}}"), "a: 8+4, 5 free; Pod ns/p 1; ResourceClaim ns/p-x 2"},
		{"and only of that resource", docs(plugin8, whole, claimOf("p-x", "a", "gpu-0"),
			"{kind: Pod, metadata: {namespace: ns, name: p}, status: {extendedResourceClaimStatus: {resourceClaimName: p-x, requestMappings: [{containerName: c, resourceName: other, requestName: r}]}}, spec: {nodeName: a, containers: [{name: c, "+gpus(1)+"}]}}"), "a: 8+4, 6 free; Pod ns/p 1; ResourceClaim ns/p-x 1"},
		{"and only where that claim was given something", docs(plugin8, whole, "{kind: ResourceClaim, metadata: {namespace: ns, name: p-x}}",
			"{kind: Pod, metadata: {namespace: ns, name: p}, status: {extendedResourceClaimStatus: {resourceClaimName: p-x, requestMappings: [{containerName: c, resourceName: nvidia.com/gpu, requestName: r}]}}, spec: {nodeName: a, containers: [{name: c, "+gpus(2)+"}]}}"), "a: 8+4, 6 free; Pod ns/p 2"},
		{"and only where that claim is there", docs(plugin8, whole, "{kind: ResourceClaim, metadata: {namespace: m, name: p-x}, status: {allocation: {devices: {results: []}}}}",
			"{kind: Pod, metadata: {namespace: ns, name: p}, status: {extendedResourceClaimStatus: {resourceClaimName: p-x, requestMappings: [{containerName: c, resourceName: nvidia.com/gpu, requestName: r}]}}, spec: {nodeName: a, containers: [{name: c, "+gpus(2)+"}]}}"), "a: 8+4, 6 free; Pod ns/p 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := balanced(tt.cluster); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A GPU is held by whoever was given it, or a part of it, and not by an administrator.
func TestWhichGPUsAreHeld(t *testing.T) {
	slices := poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "gpu-1:gpu", "gpu-2:gpu")
	for name, c := range map[string]struct{ cluster, want string }{
		"none":                   {docs(nodeA, slices), ""},
		"by a claim":             {docs(nodeA, slices, claimOf("c", "a", "gpu-1")), "gpu-1 "},
		"by two":                 {docs(nodeA, slices, claimOf("c", "a", "gpu-1"), claimOf("d", "a", "gpu-2", "gpu-1")), "gpu-1 gpu-2 "},
		"of another pool":        {docs(nodeA, slices, claimOf("c", "b", "gpu-1"), "{kind: Node, metadata: {name: b}}", poolSlice("t", "b", "b", 1, 1, "gpu-1:gpu")), "b/gpu-1 "},
		"by a claim for nothing": {docs(nodeA, slices, "{kind: ResourceClaim, metadata: {namespace: ns, name: c}}"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, n := range balancedNodes(t, c.cluster) {
				for _, d := range n.Devices {
					switch {
					case d.Held && n.Name == "a":
						got += d.Name + " "
					case d.Held:
						got += n.Name + "/" + d.Name + " "
					}
				}
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestFreeCPU(t *testing.T) {
	for _, tt := range []struct {
		name, cluster string
		want          int64
	}{
		{"all", plugin8, 16000},
		{"less what is asked for", docs(plugin8, podAsking("p", "containers: [{name: c, resources: {requests: {cpu: 250m}}}, {name: d, resources: {requests: {cpu: 2}}}]")), 13750},
		{"of every pod", docs(plugin8, podAsking("p", "containers: [{name: c, resources: {requests: {cpu: 1}}}]"), podAsking("q", "containers: [{name: c, resources: {requests: {cpu: 2}}}]")), 13000},
		{"a limit above what is asked for", docs(plugin8, podAsking("p", "containers: [{name: c, resources: {requests: {cpu: 1}, limits: {cpu: 4}}}]")), 15000},
		{"and what runs below it", docs(plugin8, podAsking("p", "overhead: {cpu: 50m}, containers: [{name: c, resources: {requests: {cpu: 250m}}}]")), 15700},
		{"asked for all together", docs(plugin8, podAsking("p", "resources: {requests: {cpu: 1}}, containers: [{name: c, resources: {requests: {cpu: 250m}}}]")), 15000},
		{"what prepares", docs(plugin8, podAsking("p", "initContainers: [{name: i, resources: {requests: {cpu: 3}}}], containers: [{name: c, resources: {requests: {cpu: 250m}}}]")), 13000},
		{"less than none", docs(plugin8, podAsking("p", "containers: [{name: c, resources: {requests: {cpu: 20}}}]")), 0},
		{"more than can be written", docs(plugin8, podAsking("p", "containers: [{name: c, resources: {requests: {cpu: 9E}}}, {name: d, resources: {requests: {cpu: 9E}}}]")), 0},
		{"a node that does not say", `{kind: Node, metadata: {name: a}}`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if nodes := balancedNodes(t, tt.cluster); len(nodes) != 1 || nodes[0].FreeCPU != tt.want {
				t.Errorf("%+v, want %d", nodes, tt.want)
			}
		})
	}
}

func TestWhetherANodeIsReady(t *testing.T) {
	for conditions, want := range map[string]bool{
		`{type: Ready, status: "True"}`:    true,
		`{type: Ready, status: "False"}`:   false,
		`{type: Ready, status: "Unknown"}`: false,
		``:                                 false,
		`{type: Ready, status: "True"}, {type: MemoryPressure, status: "False"}`: true,
		`{type: Ready, status: "False"}, {type: NetworkReady, status: "True"}`:   false,
		`{type: DiskPressure, status: "True"}`:                                   false,
	} {
		nodes := balancedNodes(t, fmt.Sprintf("{kind: Node, metadata: {name: a}, status: {conditions: [%s]}}", conditions))
		if len(nodes) != 1 || nodes[0].Ready != want {
			t.Errorf("[%s]: %+v", conditions, nodes)
		}
	}
}

func TestDevicesAreInOrder(t *testing.T) {
	nodes := balancedNodes(t, docs(nodeA, poolSlice("s", "a", "a", 1, 1, "gpu-2:gpu", "gpu-0:gpu", "gpu-1:gpu")))
	var names []string
	for _, d := range nodes[0].Devices {
		names = append(names, d.Name)
	}
	if got := strings.Join(names, " "); got != "gpu-0 gpu-1 gpu-2" {
		t.Error(got)
	}
}

// The whole way, over the wire: which version of DRA is read, and that nothing is left out.
func TestGPUsOfACluster(t *testing.T) {
	put := func(s *kubetest.Server, version, text string) {
		for doc := range bytes.SplitSeq([]byte(text), []byte("\n---\n")) {
			var o kubetest.Object
			if err := yaml.Unmarshal(doc, &o); err != nil {
				t.Fatal(err)
			}
			o["apiVersion"] = "v1"
			if kind := o["kind"].(string); strings.HasPrefix(kind, "Resource") {
				o["apiVersion"] = "resource.k8s.io/" + version
			}
			s.Add(o)
		}
	}
	cluster := docs(`{kind: Node, metadata: {name: a, labels: {x: z}}, spec: {unschedulable: true, taints: [{key: k, value: v, effect: NoSchedule}]}, status: {conditions: [{type: Ready, status: "True"}], allocatable: {nvidia.com/gpu: "8", cpu: "16"}}}`, nodeB,
		poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu", "gpu-1:gpu"), claimOf("c", "a", "gpu-0"), podAsking("p", "containers: [{name: c, "+gpus(1)+"}]"))
	for _, version := range draVersions {
		t.Run(version, func(t *testing.T) {
			s := kubetest.Start(t, "")
			put(s, version, cluster)
			nodes, err := connect(t, s).GPUs(t.Context())
			if err != nil || len(nodes) != 2 {
				t.Fatal(nodes, err)
			}
			if got, want := inWords(nodes[0]), "a: 8+2, 6 free; Pod ns/p 1; ResourceClaim ns/c 1"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if n := nodes[0]; !n.Ready || n.Schedulable || n.Labels["x"] != "z" || len(n.Taints) != 1 || n.Taints[0] != (Taint{"k", "v", "NoSchedule"}) || n.Devices[1] != (Device{Pool: "a", Name: "gpu-1", UUID: "U-gpu-1", Product: "NVIDIA H100 NVL"}) || n.FreeCPU != 16000 {
				t.Errorf("%+v", n)
			}
			if n := nodes[1]; n.Ready || !n.Schedulable {
				t.Errorf("%+v", n)
			}
		})
	}
	t.Run("without DRA", func(t *testing.T) {
		s := kubetest.Start(t, "")
		put(s, "", plugin8)
		nodes, err := connect(t, s).GPUs(t.Context())
		if err != nil || len(nodes) != 1 || nodes[0].Free() != 8 {
			t.Error(nodes, err)
		}
	})
	for _, path := range []string{"/api/v1/nodes", "/api/v1/pods", "/apis/resource.k8s.io", "/apis/resource.k8s.io/v1", "/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1/resourceclaims"} {
		t.Run(path+" forbidden", func(t *testing.T) {
			s := kubetest.Start(t, "")
			put(s, "v1", cluster)
			s.Answer(path, 403, "")
			if nodes, err := connect(t, s).GPUs(t.Context()); !IsForbidden(err) || nodes != nil {
				t.Error(nodes, err)
			}
		})
	}
}

// FuzzLedger balances whatever a server may say. It never breaks, and never has more free
// than there are.
func FuzzLedger(f *testing.F) {
	for _, seed := range []string{
		docs(plugin8, poolSlice("s", "a", "a", 1, 1, "gpu-0:gpu"), claimOf("c", "a", "gpu-0"), podAsking("p", "containers: [{name: c, "+gpus(2)+"}]")),
		docs(nodeA, nodeB, poolSlice("s", "a", "p", 1, 2, "gpu-0:gpu"), poolSlice("r", "b", "p", 1, 2, "m:mig:U-gpu-0")),
		docs(nodeA, poolSlice("s", "", "p", 1, 2, "gpu-0:gpu"), claimOf("c", "x", "gpu-0")),
	} {
		var items []json.RawMessage
		for doc := range bytes.SplitSeq([]byte(seed), []byte("\n---\n")) {
			item, err := yaml.YAMLToJSON(doc)
			if err != nil {
				f.Fatal(err)
			}
			items = append(items, item)
		}
		data, err := json.Marshal(items)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var items []json.RawMessage
		if json.Unmarshal(data, &items) != nil {
			return
		}
		l, err := ledgerFrom(items)
		if err != nil {
			return
		}
		nodes, err := l.balance()
		if err != nil {
			return
		}
		for _, n := range nodes {
			if free := n.Free(); free < 0 || free > max(n.Plugin, len(n.Devices)) || n.FreeCPU < 0 || n.Odd != "" && n.Devices != nil {
				t.Errorf("%+v: %d free", n, free)
			}
		}
	})
}

// The label has no spaces, the devices have: it is one product, in whatever words.
func TestANodesProductIsInOneWord(t *testing.T) {
	label := map[string]string{"nvidia.com/gpu.product": "NVIDIA-H100-NVL"}
	for want, nodes := range map[string][]GPUNode{
		"":                {{}, {Devices: []Device{{}}}},
		"NVIDIA-H100-NVL": {{Labels: label}, {Devices: []Device{{Product: "NVIDIA H100 NVL"}, {Product: "NVIDIA H100 NVL"}}}, {Labels: label, Devices: []Device{{Product: "other words"}}}},
		"A, B":            {{Devices: []Device{{Product: "B"}, {Product: "A"}, {Product: "B"}}}},
	} {
		for _, n := range nodes {
			if got := n.Product(); got != want {
				t.Errorf("%+v: %q, want %q", n, got, want)
			}
		}
	}
}

// A node whose device plugin has died offers nothing, and still has GPUs.
func TestWhatANodeIsSaidToHave(t *testing.T) {
	for want, text := range map[int]string{
		0: `{kind: Node, metadata: {name: node}, status: {capacity: {cpu: "4"}, allocatable: {cpu: "4"}}}`,
		1: `{kind: Node, metadata: {name: node, labels: {nvidia.com/gpu.present: "true"}}}`,
		4: `{kind: Node, metadata: {name: node, labels: {nvidia.com/gpu.present: "true"}}, status: {capacity: {nvidia.com/gpu: "4"}, allocatable: {nvidia.com/gpu: "0"}}}`,
		8: `{kind: Node, metadata: {name: node, labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.count: "8"}}, status: {capacity: {nvidia.com/gpu: many}}}`,
	} {
		if n := balancedNodes(t, text)[0]; n.Declared != want || n.Plugin != 0 {
			t.Errorf("%+v, want %d declared", n, want)
		}
	}
}
