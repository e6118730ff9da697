package operator

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var policies = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1", Resource: "clusterpolicies"}

// lookAtPolicy tells what the GPU operator says of what it has installed: ready when the
// exporter is, on every node that is to have one.
func (op *operator) lookAtPolicy(ctx context.Context) error {
	state := "notReady"
	d, err := op.daemons.DaemonSets(gpuNamespace).Get(gpuExporterName)
	if err == nil && d.Status.ObservedGeneration >= d.Generation && d.Status.NumberReady >= d.Status.DesiredNumberScheduled {
		state = "ready"
	}
	policy, err := op.api.Resource(policies).Get(ctx, policyName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	before, _ := policy.Object["status"].(map[string]any)
	if before["state"] == state {
		return nil
	}
	policy.Object["status"] = map[string]any{"state": state, "namespace": gpuNamespace}
	_, err = op.api.Resource(policies).UpdateStatus(ctx, policy, metav1.UpdateOptions{FieldManager: "gpu-operator"})
	return unlessStale(err)
}
