package graph

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

var resDeployments = kube.Resource{Group: "apps", Version: "v1", Name: "deployments"}

// guardOperator wants operators that can make the graph: Dynamo's and, where Grove makes its
// pods, Grove's. One without a ready replica makes nothing, and its webhooks have every write
// fail. Who may not list Deployments, or has an operator that is not known by its name or
// image, finds out later.
func guardOperator(ctx context.Context, api GuardAPI, in *GuardInput) ([]Refusal, error) {
	if in.Offers.Graph == "" {
		return nil, nil // told by guardGraph
	}
	all, err := api.List(ctx, resDeployments, "", "")
	if kube.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	refusals := notReadyOf("Dynamo's operator", all, kube.IsDynamoOperator)
	if in.Offers.Grove {
		refusals = append(refusals, notReadyOf("Grove's operator", all, kube.IsGroveOperator)...)
	}
	return refusals, nil
}

// notReadyOf refuses an operator of which no Deployment has a ready replica; none: it has, or
// it is not known.
func notReadyOf(name string, all []kube.Object, is func(kube.Object) bool) []Refusal {
	var down []string
	namespace := ""
	for _, d := range all {
		if !is(d) {
			continue
		}
		ready, _ := d.Int("status", "readyReplicas")
		if ready > 0 {
			return nil
		}
		want, ok := d.Int("spec", "replicas")
		if !ok {
			want = 1
		}
		namespace = d.Namespace()
		down = append(down, fmt.Sprintf("Deployment %s/%s has 0 of %d replicas ready", d.Namespace(), d.Name(), want))
	}
	if len(down) == 0 {
		return nil
	}
	slices.Sort(down)
	return []Refusal{{spec.Fail, name + " is not ready: " + strings.Join(down, "; "),
		"`kubectl get pods -n " + namespace + "` shows why; validate again when it is ready"}}
}
