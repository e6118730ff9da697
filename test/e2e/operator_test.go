//go:build linux

package e2e_test

import (
	"context"
	"strings"
	"testing"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

var (
	deploymentsKind = kube.Resource{Group: "apps", Version: "v1", Name: "deployments"}
	dynamosOperator = [2]string{"dynamo-system", "dynamo-operator-controller-manager"}
)

// TestTheOperatorIsAway has Dynamo's operator go while a run loads, and with it the webhook
// without which a graph cannot be read in the newer version: the run comes to its verdict, what
// it cannot remove is told with the way to it, and goes when the operator is back.
func TestTheOperatorIsAway(t *testing.T) {
	t.Parallel()
	c := startCluster(t, `
nodes:
  - {name: gpu-0, gpus: 2}
  - {name: cpu-0, gpus: 0, cpu: "16"}
aicr: PROGRAM
venv: none
`)
	l := c.led(t, tiny("gpu-0")...)
	awaited(t, l, "its load", func() bool { return strings.Contains(l.stderr.String(), "start: ") })
	c.operators(t, 0)
	n := graph.NamesOf(l.id())
	var said error
	err := eventually(t.Context(), func() (bool, error) {
		_, said = c.api.Read(kube.WithoutWebhooks(t.Context()), graphsKind, n.Namespace, n.Graph)
		return kube.WebhookOf(said) == "for the conversion of nvidia.com/v1alpha1, Kind=DynamoGraphDeployment", nil
	})
	if err != nil {
		t.Errorf("a graph without its operator: %v, %v", said, err)
	}

	o := l.end(t)
	c.cameTo(t, o, l.id(), spec.Pass, 0, "Dynamo's operator does not answer", "finalizer nvidia.com/finalizer",
		"kubectl patch dynamographdeployments.v1alpha1.nvidia.com "+n.Graph+" -n "+n.Namespace, "aicr clean --run "+l.id())
	if there, err := c.api.List(t.Context(), pods, n.Namespace, ""); err != nil || len(there) > 0 {
		t.Errorf("pods hold GPUs: %d, %v", len(there), err)
	}
	if refused := c.run(t, withoutCache, append([]string{"validate"}, tiny("gpu-0")...)...); refused.code != 1 ||
		!strings.Contains(refused.stdout+refused.stderr, "Dynamo's operator is not ready: Deployment "+strings.Join(dynamosOperator[:], "/")) {
		t.Errorf("another run begins without the operator: %s", refused)
	}

	c.operators(t, 1)
	if clean := c.run(t, nil, "clean", "--run", l.id()); clean.code != 0 {
		t.Errorf("with the operator: %s", clean)
	}
	c.leavesNothing(t, l.id(), o.String())
}

// operators has so many of Dynamo's run, and waits for that.
func (c *cluster) operators(t *testing.T, n int64) {
	t.Helper()
	_, err := c.api.Patch(t.Context(), deploymentsKind, dynamosOperator[0], dynamosOperator[1], kube.Object{"spec": map[string]any{"replicas": n}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = eventually(ctx, func() (bool, error) {
		d, err := c.api.Read(ctx, deploymentsKind, dynamosOperator[0], dynamosOperator[1])
		ready, _ := d.Int("status", "readyReplicas")
		pods, _ := d.Int("status", "replicas")
		return ready == n && pods == n, err
	})
	if err != nil {
		t.Fatalf("the operator's Deployment has not %d replicas: %v", n, err)
	}
}
