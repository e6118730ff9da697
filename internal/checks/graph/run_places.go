package graph

import "aicr/internal/spec"

// tellPlaces tells where each worker is. Its pod has another name in the next run; its GPU
// has not, so that what befalls it over many runs is found by that.
func (r *Run) tellPlaces(t *Targets) error {
	for _, w := range t.Workers {
		if err := r.event(spec.Event{Kind: spec.EventPlaced, Worker: w.Name, Source: t.Node, GPU: w.GPU}); err != nil {
			return err
		}
	}
	return nil
}
