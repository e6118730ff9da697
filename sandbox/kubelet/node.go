package kubelet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/version"

	"aicr/sandbox/config"
	"aicr/sandbox/network"
)

// node is one machine of the sandbox.
type node struct {
	*cluster
	config.Node
	index  int
	dir    string
	addr   net.IP
	says   record.EventRecorder
	gpus   []gpu
	pulled sync.Map // images that were here before

	published atomic.Bool // its devices are known

	mu        sync.Mutex
	runs      map[podKey]*podRun
	addresses map[string]bool // in use
	lastAddr  int
	held      map[int]podKey // GPUs that the device plugin gave away
	stopping  bool
}

func (c *cluster) newNode(index int, spec config.Node) (*node, error) {
	n := &node{
		cluster: c, Node: spec, index: index, dir: filepath.Join(c.Dir, "nodes", spec.Name), addr: network.Node(index).AsSlice(),
		says: c.recorder("kubelet", spec.Name), runs: map[podKey]*podRun{}, addresses: map[string]bool{}, lastAddr: 1, held: map[int]podKey{},
	}
	for i := range spec.GPUs {
		n.gpus = append(n.gpus, newGPU(spec.Name, i))
	}
	// No process outlives the sandbox, so what the last one left is of no use.
	if err := os.RemoveAll(n.dir); err != nil {
		return nil, err
	}
	return n, os.MkdirAll(n.dir, 0o700)
}

// object is the node as the API has it.
func (n *node) object() *v1.Node {
	id := sha256.Sum256([]byte(n.Name))
	o := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.labels()}}
	o.Spec.ProviderID = "aws:///us-west-2a/i-" + hex.EncodeToString(id[:])[:17]
	o.Spec.PodCIDR = fmt.Sprintf("10.244.%d.0/24", n.index)
	o.Spec.PodCIDRs = []string{o.Spec.PodCIDR}
	o.Status = n.status()
	return o
}

func (n *node) labels() map[string]string {
	l := map[string]string{
		v1.LabelHostname: n.Name, v1.LabelOSStable: "linux", v1.LabelArchStable: runtime.GOARCH,
		v1.LabelTopologyRegion: "us-west-2", v1.LabelTopologyZone: "us-west-2a",
		v1.LabelInstanceTypeStable: "m7i.4xlarge", "eks.amazonaws.com/nodegroup": "cpu",
	}
	if n.GPUs > 0 {
		l[v1.LabelInstanceTypeStable], l["eks.amazonaws.com/nodegroup"] = "p5.48xlarge", "gpu"
		l["nvidia.com/gpu.present"] = "true"
		l["nvidia.com/gpu.product"] = strings.ReplaceAll(gpuProduct, " ", "-")
		l["nvidia.com/gpu.count"] = strconv.Itoa(n.GPUs)
		l["nvidia.com/gpu.memory"] = strconv.Itoa(gpuMemoryMiB)
		l["nvidia.com/cuda.driver-version.full"] = gpuDriver
	}
	return l
}

func (n *node) status() v1.NodeStatus {
	capacity := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(n.CPU), v1.ResourceMemory: resource.MustParse("64Gi"),
		v1.ResourcePods: resource.MustParse("110"), v1.ResourceEphemeralStorage: resource.MustParse("200Gi"),
	}
	if n.GPUs > 0 && n.DevicePlugin {
		capacity[gpuResource] = *resource.NewQuantity(int64(n.GPUs), resource.DecimalSI)
	}
	now := metav1.Now()
	condition := func(kind v1.NodeConditionType, is v1.ConditionStatus, reason, message string) v1.NodeCondition {
		return v1.NodeCondition{Type: kind, Status: is, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return v1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Conditions: []v1.NodeCondition{
			condition(v1.NodeMemoryPressure, v1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
			condition(v1.NodeDiskPressure, v1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
			condition(v1.NodePIDPressure, v1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
			condition(v1.NodeReady, v1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
		},
		Addresses:       []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: n.addr.String()}, {Type: v1.NodeHostName, Address: n.Name}},
		DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: network.KubeletPort}},
		NodeInfo: v1.NodeSystemInfo{
			KubeletVersion: version.Get().GitVersion, OperatingSystem: "linux", Architecture: runtime.GOARCH,
			OSImage: "Ubuntu 24.04 LTS", KernelVersion: kernel(), ContainerRuntimeVersion: "sandbox://0", MachineID: n.Name, SystemUUID: n.Name, BootID: n.Name,
		},
	}
}

func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// register makes the node, or makes the one that is there ready again.
func (n *node) register(ctx context.Context) error {
	want := n.object()
	_, err := n.api.CoreV1().Nodes().Create(ctx, want, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": want.Labels}, "spec": map[string]any{"providerID": want.Spec.ProviderID}})
	if err != nil {
		return err
	}
	if _, err := n.api.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	return n.tellStatus(ctx)
}

func (n *node) tellStatus(ctx context.Context) error {
	status := n.status()
	if here, err := n.nodes.Get(n.Name); err == nil { // a condition that did not change keeps its time
		for i := range status.Conditions {
			for _, c := range here.Status.Conditions {
				if one := &status.Conditions[i]; c.Type == one.Type && c.Status == one.Status {
					one.LastTransitionTime = c.LastTransitionTime
				}
			}
		}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = n.api.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

const (
	leaseSeconds  = 40
	leaseEvery    = 10 * time.Second
	statusEvery   = 5 * time.Minute
	retryAfter    = 500 * time.Millisecond
	leasesOfNodes = v1.NamespaceNodeLease
)

// heartbeat registers the node and keeps it alive. While the API server is away it
// tries again, more often than its lease would run out.
func (n *node) heartbeat(ctx context.Context) {
	var told time.Time
	registered, said := false, "" // what went wrong is said once
	for {
		err := func() error {
			within, cancel := context.WithTimeout(ctx, leaseEvery)
			defer cancel()
			here, err := n.nodes.Get(n.Name)
			if !registered || apierrors.IsNotFound(err) {
				if err := n.register(within); err != nil {
					return err
				}
				if err := n.publish(within); err != nil {
					return err
				}
				registered, told = true, time.Now()
				n.published.Store(true)
			} else if err == nil && (!isReady(here) || time.Since(told) > statusEvery) {
				if err := n.tellStatus(within); err != nil {
					return err
				}
				told = time.Now()
			}
			return n.renew(within)
		}()
		wait := leaseEvery
		if err != nil {
			wait = retryAfter
			if text := err.Error(); ctx.Err() == nil && text != said {
				n.Logf("node %s: %v", n.Name, err)
				said = text
			}
		} else {
			said = ""
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (n *node) renew(ctx context.Context) error {
	leases := n.api.CoordinationV1().Leases(leasesOfNodes)
	now := metav1.NewMicroTime(time.Now())
	spec := coordination.LeaseSpec{HolderIdentity: new(n.Name), LeaseDurationSeconds: new(int32(leaseSeconds)), RenewTime: &now}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = leases.Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Namespace: leasesOfNodes}, Spec: spec}, metav1.CreateOptions{})
	}
	return err
}

// address is a free one of the node's.
func (n *node) address() (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for range 253 {
		if n.lastAddr++; n.lastAddr > 254 {
			n.lastAddr = 2
		}
		a := fmt.Sprintf("10.244.%d.%d", n.index, n.lastAddr)
		if !n.addresses[a] {
			n.addresses[a] = true
			return a, nil
		}
	}
	return "", fmt.Errorf("no free address on %s", n.Name)
}

// podIs takes the news of a pod of this node.
func (n *node) podIs(pod *v1.Pod) {
	n.mu.Lock()
	run := n.runs[pod.UID]
	if run == nil {
		ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		if n.stopping || ended && pod.DeletionTimestamp == nil {
			n.mu.Unlock()
			return
		}
		run = newPodRun(n, pod)
		n.runs[pod.UID] = run
		n.mu.Unlock()
		go run.live()
		return
	}
	n.mu.Unlock()
	run.changed(pod)
}

// podGone ends a pod that was taken out of the API without waiting for this node.
func (n *node) podGone(uid podKey) {
	n.mu.Lock()
	run := n.runs[uid]
	n.mu.Unlock()
	if run != nil {
		closeOnce(&run.mu, run.gone)
		run.end(forcedGrace)
	}
}

// release gives back what a pod held whose processes have ended.
func (n *node) release(run *podRun) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.addresses, run.ip)
	n.letGo(run.uid)
}

// letGo gives back the GPUs of a pod. The caller has the lock.
func (n *node) letGo(pod podKey) {
	maps.DeleteFunc(n.held, func(_ int, holder podKey) bool { return holder == pod })
}

func (n *node) forget(run *podRun) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.runs, run.uid)
}

func (n *node) stopPods() {
	n.mu.Lock()
	n.stopping = true
	var all []*podRun
	for _, run := range n.runs {
		all = append(all, run)
	}
	n.mu.Unlock()
	for _, run := range all {
		run.end(forcedGrace)
	}
	for _, run := range all {
		<-run.ended
	}
}

func (n *node) find(namespace, name string) *podRun {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found *podRun
	for _, run := range n.runs {
		if run.namespace == namespace && run.name == name && (found == nil || found.over()) {
			found = run
		}
	}
	return found
}
