package kube

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"aicr/internal/spec"
)

func TestTheVersionOfAnImage(t *testing.T) {
	for tag, want := range map[string]string{
		":1.0.2": "1.0.2", ":v25.3.4": "v25.3.4", ":1.2.0-cuda13": "1.2.0", ":1.2.0rc1": "1.2.0rc1", ":1.2.0-rc.1": "1.2.0-rc.1",
		":4.3.1-4.4.0-ubuntu22.04": "4.3.1", ":v0.1.0-alpha.3": "v0.1.0-alpha.3", ":1.4.0-nightly.7-cuda13": "1.4.0-nightly.7", ":1.4.0-preview": "1.4.0-preview", ":0.8.0.post1": "0.8.0.post1",
		":1.2.0-efa-amd64": "1.2.0", ":latest": "", ":sha-abc1234": "", "": "", ":20250101": "", ":1.2abc": "", ":1.0.2@sha256:00": "1.0.2", "@sha256:00": "",
	} {
		for _, repository := range []string{"runtime", "registry.example:5000/a/runtime"} {
			if got := imageVersion(repository + tag); got != want {
				t.Errorf("%s says %q, want %q", repository+tag, got, want)
			}
		}
	}
}

func TestTheLabelOfAChart(t *testing.T) {
	for label, want := range map[string]string{
		"an-operator-1.0.2": "an-operator 1.0.2", "an-operator-v25.3.4": "an-operator v25.3.4", "charts-v0.1.0-alpha.3": "charts v0.1.0-alpha.3",
		"x-2-1.0.0_build.5": "x-2 1.0.0+build.5", "": " ", "nothing": " ",
	} {
		if name, version, _ := chartOf(label); name+" "+version != want {
			t.Errorf("%s is %s %s, want %s", label, name, version, want)
		}
	}
}

// What nodes say of their system, and what /etc/os-release has there.
func TestReleasesOfOperatingSystems(t *testing.T) {
	for image, want := range map[string]string{
		"Ubuntu 24.04.2 LTS":                           "ubuntu 24.04",
		"Amazon Linux 2023.8.20250721":                 "amzn 2023",
		"Bottlerocket OS 1.29.0 (aws-k8s-1.31)":        "bottlerocket 1.29.0",
		"Container-Optimized OS from Google":           "cos ",
		"Red Hat Enterprise Linux CoreOS 416.94.20240": "rhcos ",
		"Red Hat Enterprise Linux 9.4 (Plow)":          "rhel 9.4",
		"Talos (v1.9.1)":                               "talos v1.9.1",
		"Debian GNU/Linux 12 (bookworm)":               "debian 12",
		"Microsoft Azure Linux 3.0":                    "azurelinux 3.0",
		"SUSE Linux Enterprise Server 15 SP5":          "sles ",
		"HAL 9000":                                     " ",
		"":                                             " ",
	} {
		if id, version := releaseOf(image); id+" "+version != want {
			t.Errorf("%s is %s %s, want %s", image, id, version, want)
		}
	}
}

func TestProviders(t *testing.T) {
	for id, want := range map[string]string{"aws:///us-east-2a/i-0": "eks", "gce://p/z/n": "gke", "azure:///subscriptions/x": "aks", "ocid1.instance.oc1": "oke", "kind://docker/a/b": "kind", "": "", "bare": ""} {
		if got := providerOf(id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
}

// Devices are counted in the newest generation that is whole.
func TestOnlyAWholeGenerationOfAPoolCounts(t *testing.T) {
	s := func(generation, of int64, devices int) slice {
		return slice{driver: gpuDriver, pool: "p", node: "n", generation: generation, of: of, devices: devices}
	}
	odd := s(1, 1, 1)
	odd.unreadable = "device x has no type"
	for _, tt := range []struct {
		name   string
		slices []slice
		want   int // -1: not known
	}{
		{"one", []slice{s(1, 1, 8)}, 8},
		{"two slices", []slice{s(1, 2, 4), s(1, 2, 4)}, 8},
		{"the newer one", []slice{s(1, 1, 8), s(2, 1, 7)}, 7},
		{"the newer one is being written", []slice{s(1, 1, 8), s(2, 2, 4)}, 8},
		{"none is whole", []slice{s(1, 2, 4)}, -1},
		{"too many", []slice{s(1, 1, 4), s(1, 1, 4)}, -1},
		{"a device without a type", []slice{odd}, -1},
		{"another driver's is not whole", []slice{s(1, 1, 8), {driver: "nic.example", pool: "nics", node: "n", generation: 1, of: 2, devices: 4}}, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &readings{draVersion: reading[string]{got: "v1"}, slices: reading[[]slice]{got: tt.slices}, nodes: reading[[]node]{got: []node{{name: "n"}}}}
			want, total := fmt.Sprint(tt.want), "K8s"
			if tt.want < 0 {
				want = spec.ReasonUnreadable
			}
			snapshot := r.snapshot(Options{})
			if got := fact(t, snapshot, total+".dra.devices"); got != want {
				t.Errorf("devices %s, want %s", got, want)
			}
			if got := fact(t, snapshot, "GPU.hardware.gpu-count"); got != want {
				t.Errorf("gpu-count %s, want %s", got, want)
			}
		})
	}
}

func TestAPoolSaysAllThatItsSlicesSay(t *testing.T) {
	s := func(product, driver, memory string) slice {
		return slice{driver: gpuDriver, pool: "p", node: "n", generation: 1, of: 3, products: []string{product}, driverVersions: []string{driver}, memories: []string{memory}}
	}
	all := poolsOf([]slice{s("H200", "2", "140"), s("H100", "1", "80"), s("H200", "2", "140")})
	if len(all) != 1 || all[0].product != "H100,H200" || all[0].driverVersion != "1,2" || all[0].memoryMiB != "140,80" {
		t.Errorf("%+v", all)
	}
}

// A list with nothing in it has no names, not one that is empty.
func TestWhatThereIsNoneOfHasNoName(t *testing.T) {
	s := (&readings{draVersion: reading[string]{got: "v1"}}).snapshot(Options{})
	for path, want := range map[string]string{"K8s.dra.slices": "0", "K8s.dra.devices": "0", "K8s.dra.drivers": spec.ReasonAbsent, "K8s.device-classes.count": "0", "K8s.device-classes.names": spec.ReasonAbsent} {
		if got := fact(t, s, path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func gpuNodeObject(name string, labels map[string]string, capacity, allocatable string) node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if capacity != "" {
		n.Status.Capacity = corev1.ResourceList{gpuResource: resource.MustParse(capacity)}
		n.Status.Allocatable = corev1.ResourceList{gpuResource: resource.MustParse(allocatable)}
	}
	return nodeOf(n)
}

// How many GPUs there are, and when that is not known.
func TestGPUsAreCounted(t *testing.T) {
	present := map[string]string{"nvidia.com/gpu.present": "true"}
	absentAPI, forbidden := absent("not served"), spec.Unknown{Reason: spec.ReasonForbidden, Detail: "no"}
	pool := slice{driver: gpuDriver, pool: "d", node: "d", generation: 1, of: 1, devices: 4}
	for _, tt := range []struct {
		name   string
		nodes  []node
		slices reading[[]slice]
		count  string
		having string
	}{
		{"by device plugin", []node{gpuNodeObject("a", present, "8", "7"), gpuNodeObject("c", nil, "", "")}, failed[[]slice](absentAPI), "8", "1"},
		{"shared in time", []node{gpuNodeObject("a", map[string]string{"nvidia.com/gpu.replicas": "4"}, "32", "32")}, failed[[]slice](absentAPI), "8", "1"},
		{"by DRA", []node{gpuNodeObject("d", nil, "", "")}, reading[[]slice]{got: []slice{pool}}, "4", "1"},
		{"by both is not twice", []node{gpuNodeObject("d", nil, "4", "4")}, reading[[]slice]{got: []slice{pool}}, "4", "1"},
		{"plugin off, DRA on", []node{gpuNodeObject("d", nil, "0", "0")}, reading[[]slice]{got: []slice{pool}}, "4", "1"},
		{"a label and nothing that offers it", []node{gpuNodeObject("a", present, "", "")}, failed[[]slice](absentAPI), spec.ReasonAbsent, "1"},
		{"DRA forbidden, a plugin there", []node{gpuNodeObject("a", present, "8", "8"), gpuNodeObject("c", nil, "", "")}, failed[[]slice](forbidden), "8", "1"},
		{"DRA forbidden, no plugin", []node{gpuNodeObject("c", nil, "", "")}, failed[[]slice](forbidden), spec.ReasonForbidden, spec.ReasonForbidden},
		{"none", []node{gpuNodeObject("c", nil, "", "")}, reading[[]slice]{}, "0", "0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &readings{nodes: reading[[]node]{got: tt.nodes}, slices: tt.slices, draVersion: reading[string]{got: "v1"}}
			s := r.snapshot(Options{})
			if got := fact(t, s, "GPU.hardware.gpu-count"); got != tt.count {
				t.Errorf("gpu-count %s, want %s", got, tt.count)
			}
			if got := fact(t, s, "NodeTopology.summary.gpu-node-count"); got != tt.having {
				t.Errorf("gpu-node-count %s, want %s", got, tt.having)
			}
		})
	}
}

// A fact of the nodes is one when all that matter agree.
func TestNodesThatDoNotAgreeAreMixed(t *testing.T) {
	kernel := func(name, version, capacity string) node {
		n := gpuNodeObject(name, map[string]string{"nvidia.com/gpu.product": map[bool]string{true: "H100"}[capacity != ""]}, capacity, capacity)
		n.info.KernelVersion = version
		return n
	}
	for _, tt := range []struct {
		name  string
		nodes []node
		want  string
	}{
		{"agree", []node{kernel("a", "6.8", "8"), kernel("b", "6.8", "8")}, "6.8"},
		{"differ", []node{kernel("a", "6.8", "8"), kernel("b", "6.9", "8")}, spec.ReasonMixed},
		{"one without a GPU does not matter", []node{kernel("a", "6.8", "8"), kernel("b", "6.9", "")}, "6.8"},
		{"one does not tell", []node{kernel("a", "6.8", "8"), kernel("b", "", "8")}, spec.ReasonAbsent},
		{"none has a GPU", []node{kernel("a", "6.8", ""), kernel("b", "6.9", "")}, spec.ReasonMixed},
		{"none at all", nil, spec.ReasonAbsent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &readings{nodes: reading[[]node]{got: tt.nodes}}
			if got := fact(t, r.snapshot(Options{}), "K8s.node.kernel-version"); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Components are found by image, name or label, wherever a mirror put them.
func TestComponentsAreFound(t *testing.T) {
	pod := func(image string) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}
	}
	at := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "n", Labels: labels}
	}
	for _, tt := range []struct {
		name      string
		got       []workload
		component string
		version   string
	}{
		{"a mirror", ifKnown(at("x", nil), pod("mirror.example:5000/team/gpu-operator:v1.2.3"), true), "gpu-operator", "v1.2.3"},
		{"a name", ifKnown(at("grove-operator", nil), pod("mirror.example/g@sha256:00"), true), "grove", ""},
		{"a label, its version", ifKnown(at("x", map[string]string{"app.kubernetes.io/name": "dynamo-operator", "app.kubernetes.io/version": "1.2.3"}), pod("mirror.example/o:latest"), true), "dynamo-platform", "1.2.3"},
		{"a chart alone", ifKnown(at("x", map[string]string{"app": "nvidia-dcgm-exporter", "helm.sh/chart": "a-chart-4.5.0"}), pod("mirror.example/d"), true), "dcgm-exporter", "4.5.0"},
		{"what runs goes before what is labelled", ifKnown(at("x", map[string]string{"app.kubernetes.io/version": "1.0.0"}), pod("mirror.example/kai-scheduler/binder:v1.2.3"), true), "kai-scheduler", "v1.2.3"},
		{"another", ifKnown(at("my-gpu-operator-dashboard", nil), pod("mirror.example/dashboard:v1.2.3"), true), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got workload
			for _, w := range tt.got {
				got = w
			}
			if got.component != tt.component || got.version != tt.version {
				t.Errorf("got %s, %s, want %s, %s", got.component, got.version, tt.component, tt.version)
			}
		})
	}
}

func TestOperatorsThatDifferAreMixedAndADefectivePolicyIsNotReady(t *testing.T) {
	w := func(version string, ready bool) workload {
		return workload{component: "gpu-operator", name: "o", namespace: "n" + version, version: version, chart: version, ready: ready}
	}
	for _, tt := range []struct {
		name           string
		found          []workload
		policies       reading[[]string]
		version, ready string
	}{
		{"ready", []workload{w("1", true)}, reading[[]string]{got: []string{"ready"}}, "1", "true"},
		{"policy not ready", []workload{w("1", true)}, reading[[]string]{got: []string{"notReady"}}, "1", "false"},
		{"policy says nothing", []workload{w("1", true)}, reading[[]string]{got: []string{""}}, "1", "false"},
		{"no policy kind", []workload{w("1", true)}, failed[[]string](absent("none")), "1", "true"},
		{"policy forbidden", []workload{w("1", true)}, failed[[]string](spec.Unknown{Reason: spec.ReasonForbidden, Detail: "no"}), "1", spec.ReasonForbidden},
		{"not ready whatever the policy says", []workload{w("1", false)}, failed[[]string](spec.Unknown{Reason: spec.ReasonForbidden, Detail: "no"}), "1", "false"},
		{"two versions", []workload{w("1", true), w("2", true)}, reading[[]string]{}, spec.ReasonMixed, "true"},
		{"no version", []workload{w("", true)}, reading[[]string]{}, spec.ReasonUnreadable, "true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &readings{deployments: reading[[]workload]{got: tt.found}, policies: tt.policies}
			s := r.snapshot(Options{})
			if got := fact(t, s, spec.FactGPUOperator); got != tt.version {
				t.Errorf("version %s, want %s", got, tt.version)
			}
			if got := fact(t, s, "K8s.gpu-operator.ready"); got != tt.ready {
				t.Errorf("ready %s, want %s", got, tt.ready)
			}
		})
	}
}

// A label with several values is folded into data as upstream does, and kept apart in items.
func TestLabelsAndTaintsAreWrittenTwice(t *testing.T) {
	a := gpuNodeObject("a", map[string]string{"pool": "x", "same": "1"}, "", "")
	a.taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}, {Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}}
	b := gpuNodeObject("b", map[string]string{"pool": "y", "same": "1"}, "", "")
	b.taints = []corev1.Taint{{Key: "only", Effect: corev1.TaintEffectNoSchedule}}
	s := (&readings{nodes: reading[[]node]{got: []node{b, a}}}).snapshot(Options{})
	for path, want := range map[string]string{
		"NodeTopology.label.pool.x":        "x|a",
		"NodeTopology.label.pool.y":        "y|b",
		"NodeTopology.label.same":          "1|a,b",
		"NodeTopology.label.pool":          "MISSING",
		"NodeTopology.taint.k.NoSchedule":  "v|a",
		"NodeTopology.taint.k.NoExecute":   "v|a",
		"NodeTopology.taint.only":          "NoSchedule||b",
		"NodeTopology.summary.taint-count": "3",
		"NodeTopology.summary.label-count": "3",
	} {
		if got := fact(t, s, path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// Only whole GPUs count; a device that does not say what it is could be one.
func TestDevicesOfASlice(t *testing.T) {
	for _, tt := range []struct {
		name, slice string
		devices     int
		unreadable  bool
		memories    string
	}{
		{"a GPU and a part of one", `{"spec": {"driver": "gpu.nvidia.com", "devices": [{"name": "a", "attributes": {"type": {"string": "gpu"}}}, {"name": "b", "attributes": {"type": {"string": "mig"}}}]}}`, 1, false, ""},
		{"a name with its driver's", `{"spec": {"driver": "gpu.nvidia.com", "devices": [{"name": "a", "attributes": {"gpu.nvidia.com/type": {"string": "gpu"}}, "capacity": {"gpu.nvidia.com/memory": {"value": "80Gi"}}}]}}`, 1, false, "81920"},
		{"memories", `{"spec": {"driver": "gpu.nvidia.com", "devices": [{"name": "a", "attributes": {"type": {"string": "gpu"}}, "capacity": {"memory": {"value": "80Gi"}}}, {"name": "b", "attributes": {"type": {"string": "gpu"}}, "capacity": {"memory": {"value": "141Gi"}}}]}}`, 2, false, "144384,81920"},
		{"a memory that cannot be read", `{"spec": {"driver": "gpu.nvidia.com", "devices": [{"name": "a", "attributes": {"type": {"string": "gpu"}}, "capacity": {"memory": {"value": "much"}}}]}}`, 1, true, ""},
		{"a memory without end", `{"spec": {"driver": "gpu.nvidia.com", "devices": [{"name": "a", "attributes": {"type": {"string": "gpu"}}, "capacity": {"memory": {"value": "8e99999999"}}}]}}`, 1, true, ""},
		{"no type", `{"spec": {"driver": "gpu.nvidia.com", "devices": [{"name": "a"}]}}`, 0, true, ""},
		{"another driver's", `{"spec": {"driver": "nic.example", "devices": [{"name": "a"}, {"name": "b"}]}}`, 2, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var fields sliceFields
			if err := json.Unmarshal([]byte(tt.slice), &fields); err != nil {
				t.Fatal(err)
			}
			if s := sliceOf(&fields); s.devices != tt.devices || (s.unreadable != "") != tt.unreadable || only(s.memories) != tt.memories {
				t.Errorf("%d devices of %q, unreadable %q", s.devices, s.memories, s.unreadable)
			}
		})
	}
}
