package graph

import (
	"context"

	"aicr/internal/kube"
)

// removeJob deletes a Job and waits for its pods, unless a node that does not answer keeps
// one of them: nothing tells when that pod ends, and the Job would wait for it until the
// node is back. Then the Job goes at once, also where it was deleted before, and its pod
// when the node is back or is deleted.
func (r *remover) removeJob(ctx context.Context, job kube.Object) {
	lost := ""
	if !r.dry {
		lost = r.lostPod(ctx, job)
	}
	if lost == "" {
		r.remove(ctx, resJobs, job, true, jobGoneWithin)
		return
	}
	r.told.say("Job %s/%s is removed without its pod %s", job.Namespace(), job.Name(), lost)
	if !job.Deleting() {
		r.remove(ctx, resJobs, job, false, jobGoneWithin)
		return
	}
	// A second deletion, in the background, takes back that it is to wait.
	err := r.api.Delete(ctx, resJobs, job.Namespace(), job.Name(), kube.DeleteOptions{UID: job.UID()})
	if err != nil && !kube.IsNotFound(err) && !kube.IsConflict(err) {
		r.stays(resJobs, job.Namespace(), job.Name(), "it could not be deleted: "+err.Error(), job)
		return
	}
	r.gone(ctx, resJobs, job, jobGoneWithin)
}

// lostPod is a pod of a Job that is on a node which does not answer, with why; "": none is,
// or that cannot be known.
func (r *remover) lostPod(ctx context.Context, job kube.Object) string {
	pods, err := r.api.List(ctx, resPods, job.Namespace(), "batch.kubernetes.io/job-name="+job.Name())
	if err != nil {
		return ""
	}
	for _, pod := range pods {
		name := pod.Text("spec", "nodeName")
		if name == "" || phaseOf(pod) == "Succeeded" || phaseOf(pod) == "Failed" {
			continue
		}
		node, err := r.api.Read(ctx, resNodes, "", name)
		switch ready := conditionOf(node, "Ready"); {
		case kube.IsNotFound(err):
			return pod.Name() + ": its node " + name + " is not in the cluster any more"
		case err == nil && ready != nil && ready.Text("status") != "True":
			return pod.Name() + ": its node " + name + " does not answer"
		}
	}
	return ""
}
