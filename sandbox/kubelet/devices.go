package kubelet

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	gpuDriverName = "gpu.nvidia.com"
	gpuResource   = v1.ResourceName("nvidia.com/gpu")
	gpuProduct    = "NVIDIA H100 80GB HBM3"
	gpuDriver     = "580.95.05"
	gpuMemoryMiB  = 81559
)

// gpu is a GPU that is not there.
type gpu struct{ name, uuid string }

func newGPU(node string, i int) gpu {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", node, i))
	return gpu{fmt.Sprintf("gpu-%d", i), fmt.Sprintf("GPU-%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])}
}

// slice is what the driver of the node's GPUs publishes.
func (n *node) slice() *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name + "-" + gpuDriverName},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: gpuDriverName, NodeName: &n.Name,
			Pool: resourceapi.ResourcePool{Name: n.Name, Generation: 1, ResourceSliceCount: 1},
		},
	}
	text := func(t string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &t} }
	version := func(t string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{VersionValue: &t} }
	for i, g := range n.gpus {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name: g.name,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"type": text("gpu"), "uuid": text(g.uuid), "productName": text(gpuProduct), "brand": text("Nvidia"), "architecture": text("Hopper"),
				"cudaComputeCapability": version("9.0.0"), "driverVersion": version(strings.ReplaceAll(gpuDriver, ".0", ".")),
				"resource.kubernetes.io/pciBusID": text(fmt.Sprintf("0000:%02x:00.0", 16+i)),
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(strconv.Itoa(gpuMemoryMiB) + "Mi")}},
		})
	}
	return s
}

// publish writes the node's devices, or what became of them.
func (n *node) publish(ctx context.Context) error {
	if !n.DRA || n.GPUs == 0 {
		return nil
	}
	want, slices := n.slice(), n.api.ResourceV1().ResourceSlices()
	here, err := slices.Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = slices.Create(ctx, want, metav1.CreateOptions{})
		return err
	case err != nil:
		return err
	}
	if reflect.DeepEqual(here.Spec.Devices, want.Spec.Devices) {
		return nil
	}
	want.ResourceVersion, want.Spec.Pool.Generation = here.ResourceVersion, here.Spec.Pool.Generation+1
	_, err = slices.Update(ctx, want, metav1.UpdateOptions{})
	return err
}

// deviceClass is the one that claims name.
func deviceClass() *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: gpuDriverName},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
		}}}},
	}
}

// prepared are the GPUs that a pod was given, by the container that sees them.
type prepared map[string][]int

// prepare gives a pod the GPUs of its claims and of its requests for nvidia.com/gpu.
func (n *node) prepare(pod *v1.Pod) (prepared, error) {
	byClaim := map[string]map[string][]int{} // by the pod's name for the claim, and by request
	for _, ref := range pod.Spec.ResourceClaims {
		name, err := claimName(pod, ref)
		if err != nil {
			return nil, err
		}
		if name == "" {
			continue // nothing was generated, and nothing is needed
		}
		claim, err := n.claim(pod, name)
		if err != nil {
			return nil, err
		}
		if _, stale := n.faultsOf(pod, true)[faultStaleDevices]; stale && n.ours(claim) {
			return nil, fmt.Errorf("prepare dynamic resources: NodePrepareResources failed for ResourceClaim %s: error preparing devices for claim %s/%s:%s: unable to create CDI spec file for claim: invalid device, empty device edits", name, claim.Namespace, name, claim.UID)
		}
		byClaim[ref.Name] = map[string][]int{}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver != gpuDriverName {
				continue
			}
			i := slices.IndexFunc(n.gpus, func(g gpu) bool { return g.name == r.Device })
			if r.Pool != n.Name || i < 0 {
				return nil, fmt.Errorf("prepare dynamic resources: NodePrepareResources failed for ResourceClaim %s: no device %s in the pool %s on this node", name, r.Device, r.Pool)
			}
			request, _, _ := strings.Cut(r.Request, "/")
			byClaim[ref.Name][request] = append(byClaim[ref.Name][request], i)
		}
	}
	n.mu.Lock()
	n.letGo(pod.UID) // of the last try
	n.mu.Unlock()
	out := prepared{}
	for _, c := range allContainers(pod) {
		for _, want := range c.Resources.Claims {
			for request, gpus := range byClaim[want.Name] {
				if want.Request == "" || want.Request == request {
					out[c.Name] = append(out[c.Name], gpus...)
				}
			}
		}
		if count := gpusAsked(c); count > 0 {
			gpus, err := n.hold(pod.UID, count)
			if err != nil {
				return nil, err
			}
			out[c.Name] = append(out[c.Name], gpus...)
		}
		slices.Sort(out[c.Name])
		out[c.Name] = slices.Compact(out[c.Name])
	}
	return out, nil
}

// claim is one that a pod may start with. What is heard of claims may come later than what
// is heard of pods that the scheduler has given them to, so one that seems to be of no use
// is asked for.
func (n *node) claim(pod *v1.Pod, name string) (*resourceapi.ResourceClaim, error) {
	claim, err := n.devices.ResourceClaims(pod.Namespace).Get(name)
	if err != nil || usable(claim, pod) != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		claim, err = n.api.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("prepare dynamic resources: fetch ResourceClaim %s: %w", name, err)
	}
	return claim, usable(claim, pod)
}

// ours says whether a claim has a GPU of this node.
func (n *node) ours(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool { return r.Driver == gpuDriverName })
}

func gpusAsked(c v1.Container) int {
	quantity := c.Resources.Limits[gpuResource]
	return int(quantity.Value())
}

func claimName(pod *v1.Pod, ref v1.PodResourceClaim) (string, error) {
	if ref.ResourceClaimName != nil {
		return *ref.ResourceClaimName, nil
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.Name == ref.Name {
			if s.ResourceClaimName == nil {
				return "", nil
			}
			return *s.ResourceClaimName, nil
		}
	}
	return "", fmt.Errorf("prepare dynamic resources: podclaim %s: ResourceClaim not created yet", ref.Name)
}

// usable says whether a pod may start with a claim.
func usable(claim *resourceapi.ResourceClaim, pod *v1.Pod) error {
	if claim.Status.Allocation == nil {
		return fmt.Errorf("prepare dynamic resources: ResourceClaim %s: not allocated", claim.Name)
	}
	for _, r := range claim.Status.ReservedFor {
		if r.UID == pod.UID {
			return nil
		}
	}
	return fmt.Errorf("prepare dynamic resources: pod %s(%s) is not allowed to use ResourceClaim %s(%s)", pod.Name, pod.UID, claim.Name, claim.UID)
}

// hold takes free GPUs, as a device plugin's manager does. Those of a pod are its own
// until it has ended.
func (n *node) hold(pod podKey, count int) ([]int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var got []int
	for i := range n.gpus {
		if _, taken := n.held[i]; !taken && len(got) < count {
			got = append(got, i)
		}
	}
	if len(got) < count {
		return nil, errors.New("not enough GPUs are free")
	}
	for _, i := range got {
		n.held[i] = pod
	}
	return got, nil
}

// gpuEnv tells a container which GPUs are its own.
func (n *node) gpuEnv(indexes []int) []string {
	if len(indexes) == 0 {
		return []string{"NVIDIA_VISIBLE_DEVICES=void"}
	}
	var ids, numbers []string
	for _, i := range indexes {
		ids, numbers = append(ids, n.gpus[i].uuid), append(numbers, strconv.Itoa(i))
	}
	return []string{"NVIDIA_VISIBLE_DEVICES=" + strings.Join(ids, ","), "SANDBOX_GPUS=" + strings.Join(numbers, ",")}
}

func allContainers(pod *v1.Pod) []v1.Container {
	return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
}
