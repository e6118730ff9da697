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

// guardOperator wants an operator that can make the graph. One without a ready replica makes
// nothing, and its webhooks have every write of a graph fail. Who may not list Deployments,
// or has an operator that is not known by its name or image, finds out later.
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
	all = slices.DeleteFunc(all, func(d kube.Object) bool { return !kube.IsDynamoOperator(d) })
	var down []string
	for _, d := range all {
		ready, _ := d.Int("status", "readyReplicas")
		if ready > 0 {
			return nil, nil
		}
		want, ok := d.Int("spec", "replicas")
		if !ok {
			want = 1
		}
		down = append(down, fmt.Sprintf("Deployment %s/%s has 0 of %d replicas ready", d.Namespace(), d.Name(), want))
	}
	if len(down) == 0 {
		return nil, nil
	}
	slices.Sort(down)
	return []Refusal{{spec.Fail, "Dynamo's operator is not ready: " + strings.Join(down, "; "),
		"`kubectl get pods -n " + all[0].Namespace() + "` shows why; validate again when it is ready"}}, nil
}
