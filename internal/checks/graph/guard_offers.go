package graph

import (
	"context"
	"slices"

	"aicr/internal/kube"
)

// Offers is which of the things that a run can use a cluster has.
type Offers struct {
	Graph   string // the best version of DynamoGraphDeployment; "": it is not installed
	DRA     string // the best version of resource.k8s.io; "": none
	Queue   bool   // KAI: a graph may need a queue
	Parent  string // the queue that one can be below; "": there is none
	KAI     bool   // KAI schedules what serves: it does so through Grove alone
	Grove   bool   // it makes the pods of graphs, unless they say otherwise
	Gateway bool   // HTTPRoute and InferencePool
}

// The APIs of others.
const (
	groupGraph   = "nvidia.com"
	groupDRA     = "resource.k8s.io"
	groupKAI     = "scheduling.run.ai"
	groupGrove   = "grove.io"
	groupGateway = "gateway.networking.k8s.io"
	groupPool    = "inference.networking.k8s.io"
)

// parentQueue is the one at the top that KAI makes when it is installed.
const parentQueue = "default-parent-queue"

// Look asks a cluster what it offers. An API that is not there is no error; one that
// could not be asked for is: what is not known is not absent.
func Look(ctx context.Context, api GuardAPI) (Offers, error) {
	served, err := api.Served(ctx, groupGraph, groupDRA, groupKAI, groupGrove, groupGateway, groupPool)
	if err != nil {
		return Offers{}, err
	}
	o := Offers{
		Graph:   served.Version(groupGraph, "dynamographdeployments", GraphBeta, GraphAlpha),
		DRA:     served.Version(groupDRA, "resourceclaimtemplates", "v1", "v1beta2", "v1beta1"),
		Queue:   served.Version(groupKAI, "queues", "v2") != "", // without Grove it is not used, which does no harm; a missing one fails the graph
		Gateway: served.Version(groupGateway, "httproutes", "v1") != "" && served.Version(groupPool, "inferencepools", "v1") != "",
	}
	o.Grove = served.Version(groupGrove, "podcliquesets", "v1alpha1") != ""
	if o.Queue {
		o.KAI = o.Grove
		o.Parent, err = topQueue(ctx, api)
	}
	return o, err
}

// topQueue is KAI's own queue at the top, else the first by name. Where queues may not be
// listed its own is assumed: the missing right is told by Guard.
func topQueue(ctx context.Context, api GuardAPI) (string, error) {
	queues, err := api.List(ctx, resourceOf(groupKAI, "v2", "queues"), "", "")
	if kube.IsForbidden(err) {
		return parentQueue, nil
	}
	if err != nil {
		return "", err
	}
	var tops []string
	for _, q := range queues {
		if q.Text("spec", "parentQueue") == "" && q.Labels()[LabelOwner] == "" && !q.Deleting() {
			tops = append(tops, q.Name())
		}
	}
	slices.Sort(tops)
	switch {
	case len(tops) == 0:
		return "", nil
	case slices.Contains(tops, parentQueue):
		return parentQueue, nil
	}
	return tops[0], nil
}
