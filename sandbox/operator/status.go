package operator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// What a graph is, once it was looked at.
const (
	pending    = "pending"
	successful = "successful"
	failed     = "failed"
)

// How it is said why. The last two are Grove's.
const (
	reasonReady    = "all_resources_are_ready"
	reasonNotReady = "some_resources_are_not_ready"
	reasonFailed   = "failed_to_reconcile_the_resources"
	reasonCapacity = "insufficient_capacity"
	reasonPods     = "pods_not_ready"
)

// status is what is told of a graph whose Deployments are these; wrong is why they could
// not be made. A generation that could not be made is not observed. What Grove makes is a
// clique of pods, of which is not said how many are available.
func (g *graph) status(deployments map[string]*appsv1.Deployment, wrong error, before map[string]any, now time.Time) map[string]any {
	status := map[string]any{}
	if seen, ok := before["observedGeneration"]; ok {
		status["observedGeneration"] = seen
	}
	if wrong != nil {
		status["state"] = failed
		status["conditions"] = ready(before, "False", reasonFailed, wrong.Error(), now)
		return status
	}
	parts, waiting, reason := map[string]any{}, []string{}, reasonNotReady
	if g.grove {
		reason = reasonPods
	}
	for i := range g.components {
		c := &g.components[i]
		d := deployments[c.name]
		s := appsv1.DeploymentStatus{}
		if d != nil && d.Status.ObservedGeneration >= d.Generation {
			s = d.Status
		} else if g.grove {
			reason = reasonCapacity
		}
		part := map[string]any{"componentKind": "Deployment", "componentNames": []any{g.workload(c)}, "runtimeNamespace": g.runtimeNamespace(c),
			"replicas": int64(s.Replicas), "updatedReplicas": int64(s.UpdatedReplicas), "readyReplicas": int64(s.ReadyReplicas)}
		if g.grove {
			part["componentKind"], part["componentNames"], part["scheduledReplicas"] = "PodClique", []any{g.clique(c)}, int64(s.Replicas)
		} else {
			part["availableReplicas"] = int64(s.AvailableReplicas)
		}
		if g.version == alpha {
			part["componentName"] = part["componentNames"].([]any)[0]
		}
		if have := min(s.ReadyReplicas, s.UpdatedReplicas); have < c.replicas || d == nil {
			waiting = append(waiting, fmt.Sprintf("%s: %d of %d replicas are ready", c.name, have, c.replicas))
		}
		parts[c.name] = part
	}
	key := "components"
	if g.version == alpha {
		key = "services"
	}
	status[key] = parts
	status["observedGeneration"] = g.generation
	switch {
	case len(waiting) == 0:
		status["state"] = successful
		status["conditions"] = ready(before, "True", reasonReady, "All resources are ready", now)
	default:
		status["state"] = pending
		slices.Sort(waiting)
		status["conditions"] = ready(before, "False", reason, "Resources not ready: "+strings.Join(waiting, "; "), now)
	}
	return status
}

// ready is the one condition. Its time changes with its status alone.
func ready(before map[string]any, is, reason, message string, now time.Time) []any {
	at := now.UTC().Format(time.RFC3339)
	if all, ok := before["conditions"].([]any); ok {
		for _, one := range all {
			if c, ok := one.(map[string]any); ok && c["type"] == "Ready" && c["status"] == is {
				if then, ok := c["lastTransitionTime"].(string); ok {
					at = then
				}
			}
		}
	}
	return []any{map[string]any{"type": "Ready", "status": is, "reason": reason, "message": message, "lastTransitionTime": at}}
}
