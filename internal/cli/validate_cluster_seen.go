package cli

import (
	"context"
	"fmt"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// chooseSeen chooses the node of a run whose user may not read everything. What cannot be seen
// has to be said: the node where nodes may not be read, and how many workers where it is
// unknown which GPUs are free.
func (j *validateJob) chooseSeen(ctx context.Context, wish graph.Wish) (refused, err error) {
	on := &j.options.on
	if j.nodes, j.unseen, err = j.cluster.GPUsSeen(ctx, on.namespace, wish.Node); err != nil {
		return nil, err
	}
	workers := j.options.point.workers
	for _, line := range unseenText(j.unseen, on.namespace) {
		j.app.say("%s", line)
	}
	blind := j.unseen.Nodes || j.unseen.Devices && j.offers.DRA != "" && wish.Policy != spec.PolicyDevicePlugin
	const more = "'aicr validate --rbac --namespaced NAME' prints the roles that read them"
	switch {
	case blind && wish.Node == "":
		return unmeasured("name the node with --node, and its workers with --workers; "+more, "which nodes have GPUs cannot be seen"), nil
	case (blind || j.unseen.Holders) && workers < 1:
		return unmeasured("say how many with --workers N; "+more, "how many GPUs are free cannot be seen"), nil
	case blind:
		j.choice = &graph.Choice{Nodes: []graph.Chosen{blindly(wish, workers, j.offers.DRA != "")}}
		return nil, nil
	}
	if j.choice, refused = graph.Choose(j.nodes, wish); refused != nil || len(j.choice.Nodes) == 0 || workers < 1 {
		return refused, nil
	}
	node := &j.choice.Nodes[0]
	if workers > node.Workers {
		return unmeasured(fmt.Sprintf("--workers %d is what there is", node.Workers), "--workers %d: node %s has %d GPUs that are not held in namespace %s", workers, node.Node, node.Workers, on.namespace), nil
	}
	node.Workers = workers
	return nil, nil
}

// blindly is a node as it is named. Its pods are pinned to it by the label that is its name in
// most clusters.
func blindly(wish graph.Wish, workers int, dra bool) graph.Chosen {
	c := graph.Chosen{Node: wish.Node, Host: wish.Node, Workers: workers, GPUs: workers, By: graph.ByDevicePlugin, Tolerations: wish.Tolerations}
	if dra && wish.Policy != spec.PolicyDevicePlugin {
		c.By = graph.ByClaim
	}
	return c
}

// unseenText says what may not be read, and what follows from that.
func unseenText(u kube.Unseen, namespace string) (all []string) {
	if u.Nodes {
		all = append(all, "not seen: nodes, with their labels, taints and GPUs; you may not read them")
	}
	if u.Devices {
		all = append(all, "not seen: the GPUs that DRA offers; you may not list resourceslices")
	}
	if u.Holders {
		all = append(all, "not seen: who holds GPUs outside of namespace "+namespace+"; you may not list pods and resourceclaims in all namespaces")
	}
	return all
}
