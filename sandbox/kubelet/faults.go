package kubelet

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// FaultsAnnotation is where the faults of a node or of a pod are named.
const FaultsAnnotation = "sandbox.aicr.run/faults"

// The faults that are the node's own to play. Others are for the programs in the pods.
const (
	faultStaleDevices = "dra-stale" // the driver of the GPUs cannot prepare a claim
	faultOOM          = "oom"       // containers are killed for memory 1 s after they started, or oom=5s
	faultEvict        = "evict"     // the pod is evicted 1 s after it started, or evict=5s
)

// faultsEvery is how often it is looked for faults of what runs already.
const faultsEvery = 500 * time.Millisecond

// Faults reads an annotation: the word, and what follows its =.
func Faults(annotations map[string]string) map[string]string {
	all := map[string]string{}
	for word := range strings.SplitSeq(annotations[FaultsAnnotation], ",") {
		if name, value, _ := strings.Cut(strings.TrimSpace(word), "="); name != "" {
			all[name] = value
		}
	}
	return all
}

// faultAfter says when a fault strikes, if it is there.
func faultAfter(all map[string]string, name string) (time.Duration, bool) {
	text, there := all[name]
	if !there {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		d = time.Second
	}
	return d, true
}

// faultsOf are those that hold for a container, or for a pod as a whole.
func (n *node) faultsOf(pod *v1.Pod, hasGPUs bool) map[string]string {
	all := Faults(pod.Annotations)
	if here, err := n.nodes.Get(n.Name); err == nil && hasGPUs {
		for name, value := range Faults(here.Annotations) {
			all[name] = value
		}
	}
	return all
}
