package graph

import (
	"context"
	"fmt"

	"aicr/internal/kube"
)

// RemovedError says that somebody has deleted what a run had made, while it was waited for.
// It says nothing of the deployment.
type RemovedError struct{ Kind, Namespace, Name string }

func (e *RemovedError) Error() string {
	name := e.Name
	if e.Namespace != "" {
		name = e.Namespace + "/" + e.Name
	}
	return fmt.Sprintf("%s %s was deleted while it was waited for, and not by this command", e.Kind, name)
}

// removed says that what was there of a graph, or of the Job that fetches its model, is
// there no longer, or is another, or goes.
func (w *watcher) removed(s *Scene) error {
	for kind, now := range map[string]kube.Object{"DynamoGraphDeployment": s.Graph, "Job": s.Populate} {
		was := w.had[kind]
		if was != nil && now.UID() != was.UID() || now.Deleting() {
			if was == nil {
				was = now
			}
			return &RemovedError{kind, was.Namespace(), was.Name()}
		}
		if now != nil {
			w.had[kind] = now
		}
	}
	return nil
}

// standing says that the run's namespace is not on its way out, with all that is in it: what
// is to be seen in it then is no fault of the deployment. That it could not be asked for is
// no such thing.
func (w *watcher) standing(ctx context.Context) error {
	space, err := w.api.Read(ctx, resNamespaces, "", w.names.Namespace)
	if kube.IsNotFound(err) || err == nil && space.Deleting() {
		return &RemovedError{Kind: "Namespace", Name: w.names.Namespace}
	}
	return nil
}
