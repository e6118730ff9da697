package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// reserve has the node of a run that is picked up reserved again, where anything is still to
// be deployed on it: nobody has renewed its reservation meanwhile. That another run has it by
// now, or that it could not be reserved, is told; whether GPUs are missing is seen when the
// run waits for them.
func (r *Run) reserve(ctx context.Context) {
	if r.Kept.Stage != StageDeploy {
		return
	}
	err := Reserve(ctx, r.API, r.Kept.Settings, r.Now, r.Told)
	if taken, ok := errors.AsType[*TakenError](err); ok {
		r.Told.say("node %s is reserved by run %s%s; this run, which was on it before, goes on", taken.Node, taken.Run, sinceText(taken.Since))
	} else if err != nil && ctx.Err() == nil {
		r.Told.say("the run goes on without a reservation: %v", err)
	}
}

// renew has the reservation last, unless it was given back.
func (r *Run) renew(ctx context.Context) {
	r.mu.Lock()
	stage := r.Kept.Stage
	r.mu.Unlock()
	r.reserved.Lock()
	defer r.reserved.Unlock()
	if r.released || stage != StageDeploy && stage != StageLoad {
		return
	}
	s := r.Kept.Settings
	err := renew(ctx, r.API, s, reservedAt(stage, s), r.Now())
	if taken, ok := errors.AsType[*TakenError](err); ok {
		r.released = true
		r.Told.say("the reservation of node %s had expired, and run %s has the node since %s", s.Node, taken.Run, taken.Since.UTC().Format(time.RFC3339))
	}
	if kube.IsNotFound(err) {
		r.released = true // by a command that leads the run too, or by hand
	}
}

// release ends the renewing, so that what takes the run's objects away takes the reservation
// with them.
func (r *Run) release() {
	r.reserved.Lock()
	defer r.reserved.Unlock()
	r.released = true
}

// taken closes the record of a run whose GPUs somebody else has taken.
func (r *Run) taken(ctx context.Context, by *TakenError) (*End, error) {
	r.Told.say("%v", by)
	if err := r.event(spec.Event{Kind: spec.EventInterrupt, Source: by.Node, Reason: spec.GPUsTaken, Text: by.Error()}); err != nil {
		return &End{}, err
	}
	return &End{}, r.stage(ctx, StageFailed)
}

// takenMeanwhile says who has taken GPUs of the node since it was chosen, where workers wait
// for GPUs and for nothing else; nil: nobody has, or it could not be found out. What the
// scheduler says then is no fault of the deployment.
func (w *watcher) takenMeanwhile(ctx context.Context, o *outcome) error {
	if w.ledger == nil || !o.waitsForGPUs(w.s) {
		return nil
	}
	nodes, err := w.ledger(ctx)
	if err != nil {
		w.told.say("who holds the GPUs of node %s could not be looked at again: %v", w.s.Node, err)
		return nil
	}
	for _, n := range nodes {
		if n.Name != w.s.Node {
			continue
		}
		if taken := takenOf(n, w.s); taken != nil {
			taken.Run = w.runOf(ctx, taken.Holders[0].Namespace)
			return taken
		}
	}
	return nil
}

// waitsForGPUs says that workers have no place yet, and that nothing else is wrong.
func (o *outcome) waitsForGPUs(s *Settings) bool {
	for _, c := range o.causes {
		if c.rule != "unschedulable" {
			return false
		}
	}
	placed := 0
	for _, pod := range o.scene.Pods {
		if roleOf(pod) == roleWorker && pod.Text("spec", "nodeName") != "" && !pod.Deleting() {
			placed++
		}
	}
	return placed < s.Workers
}

// takenOf holds who has GPUs of the node now against who had them when it was chosen; nil:
// enough are left for the run.
func takenOf(n kube.GPUNode, s *Settings) *TakenError {
	gpus := n.Plugin
	if s.GPUs == ByClaim {
		gpus = len(n.Devices)
	}
	own := s.Names()
	had := map[string]int{}
	for _, h := range s.Held {
		had[h.Kind+" "+h.Namespace+"/"+h.Name] = h.GPUs
	}
	taken, others := &TakenError{Node: n.Name}, 0
	for _, h := range slices.Concat(n.PluginHeld, n.ClaimHeld) {
		if h.Namespace == own.Namespace && (!s.Namespaced || own.names(h.Name)) {
			continue
		}
		others += h.GPUs
		if more := h.GPUs - had[h.Kind+" "+h.Namespace+"/"+h.Name]; more > 0 {
			h.GPUs = more
			taken.Holders = append(taken.Holders, h)
		}
	}
	if len(taken.Holders) == 0 || gpus-others >= s.Workers {
		return nil
	}
	return taken
}

// runOf is the run that a namespace is of; "": it is of none, or that cannot be read.
func (w *watcher) runOf(ctx context.Context, namespace string) string {
	if !namespaceOfRun(namespace) {
		return ""
	}
	space, err := w.api.Read(ctx, resNamespaces, "", namespace)
	if err != nil || space.Labels()[LabelOwner] != OwnerValue {
		return ""
	}
	return space.Labels()[LabelRun]
}

// Ledger says who holds which GPUs now.
type Ledger func(ctx context.Context) ([]kube.GPUNode, error)

// describeReservation is why a node is not free for another run.
func describeReservation(r *kube.Reservation) string {
	return fmt.Sprintf("it is reserved by run %s%s", r.Run, sinceText(r.Since))
}
