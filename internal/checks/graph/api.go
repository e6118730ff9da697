package graph

import (
	"context"
	"io"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// API is what is asked of a cluster. kube.Cluster is one; each of its calls has its own
// time limit, and is repeated while the server is away, as long as ctx lasts.
type API interface {
	Create(ctx context.Context, r kube.Resource, o kube.Object) (kube.Object, error)
	Read(ctx context.Context, r kube.Resource, namespace, name string) (kube.Object, error)
	List(ctx context.Context, r kube.Resource, namespace, selector string) ([]kube.Object, error)
	Apply(ctx context.Context, r kube.Resource, o kube.Object) (kube.Object, error)
	Delete(ctx context.Context, r kube.Resource, namespace, name string, o kube.DeleteOptions) error
	Logs(ctx context.Context, namespace, pod, container string, o kube.LogOptions) (io.ReadCloser, error)
	Exec(ctx context.Context, namespace, pod, container string, command []string, stdout io.Writer) error
}

// Told hears how a run goes: what a person reads, and what the record keeps.
type Told struct {
	Say     func(text string)      // a line that stays
	Waiting func(text string)      // what is waited for right now; "": nothing any more
	Event   func(spec.Event) error // for the record; T is filled in by who keeps it
	Spared  func(Spared)           // a run that Clean leaves alone; nil: it is said
}
