package judge

import "slices"

// tip is something to do about a finding: any is of use everywhere; cluster where the record
// shows that the target runs on Kubernetes, and endpoint in its place where it does not; gpu
// where a GPU of the target is known.
type tip struct{ any, cluster, endpoint, gpu string }

// advise is the advice that fits the target.
func (ev *Evidence) advise(all ...tip) (texts []string) {
	for _, t := range all {
		text := t.any
		switch {
		case t.gpu != "" && ev.hasGPUs():
			text = t.gpu
		case ev.onCluster() && t.cluster != "":
			text = t.cluster
		case !ev.onCluster() && t.endpoint != "":
			text = t.endpoint
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// onCluster says whether the target is known to run on Kubernetes: the run has deployed it
// there, it is simulated as if, or what was seen of it names pods or nodes.
func (ev *Evidence) onCluster() bool {
	s := &ev.start
	if ev.plan.Scenario != nil || len(ev.plan.Creates) > 0 || len(s.pods)+len(s.nodes) > 0 || s.gpus != nil || s.removed != nil {
		return true
	}
	for _, p := range s.places {
		if p.node != "" {
			return true
		}
	}
	for _, d := range ev.looked() {
		if slices.ContainsFunc(d.workers, func(w *workerDigest) bool { return w.pod != "" }) {
			return true
		}
	}
	return false
}

// hasGPUs says whether a GPU of the target is known.
func (ev *Evidence) hasGPUs() bool {
	if ev.onCluster() {
		return true
	}
	for _, d := range ev.looked() {
		if len(d.gpus) > 0 || slices.ContainsFunc(d.workers, func(w *workerDigest) bool { return len(w.gpus) > 0 }) {
			return true
		}
	}
	return false
}
