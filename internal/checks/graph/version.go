package graph

import (
	"context"

	"aicr/internal/kube"
)

// deadWebhook is one by which Dynamo's operator converts its objects, and that did not answer.
type deadWebhook struct {
	Name   string // what the API server calls it
	Stored string // the version that was to be had without it; "": none was
	Text   string // what the API server said
}

// inVersion asks for something of Dynamo's in a version. Where the webhook that converts to it
// does not answer, it asks in the others: the one that is stored needs no webhook. Where that
// does not help, the webhook is waited for.
func inVersion[T any](
	ctx context.Context, version string, ask func(ctx context.Context, version string) (T, error),
) (T, *deadWebhook, error) {
	once := kube.WithoutWebhooks(ctx)
	answer, err := ask(once, version)
	name := kube.WebhookOf(err)
	if name == "" {
		return answer, nil, err
	}
	dead := &deadWebhook{Name: name, Text: err.Error()}
	for _, other := range graphVersions {
		if other == version {
			continue
		}
		if answer, err := ask(once, other); err == nil {
			dead.Stored = other
			return answer, dead, nil
		}
	}
	answer, err = ask(ctx, version)
	if err == nil {
		dead = nil
	}
	return answer, dead, err
}

// isGraphs says that a resource is the graphs.
func isGraphs(r kube.Resource) bool { return r == resGraphs(r.Version) }

// inAny is inVersion for graphs; of what has no such webhook it asks once.
func inAny[T any](
	ctx context.Context, r kube.Resource, ask func(context.Context, kube.Resource) (T, error),
) (T, *deadWebhook, error) {
	if !isGraphs(r) {
		answer, err := ask(ctx, r)
		return answer, nil, err
	}
	return inVersion(ctx, r.Version, func(ctx context.Context, version string) (T, error) {
		return ask(ctx, resGraphs(version))
	})
}

func readAny(ctx context.Context, api API, r kube.Resource, namespace, name string) (kube.Object, *deadWebhook, error) {
	return inAny(ctx, r, func(ctx context.Context, r kube.Resource) (kube.Object, error) {
		return api.Read(ctx, r, namespace, name)
	})
}

func listAny(
	ctx context.Context, api API, r kube.Resource, namespace, selector string,
) ([]kube.Object, *deadWebhook, error) {
	return inAny(ctx, r, func(ctx context.Context, r kube.Resource) ([]kube.Object, error) {
		return api.List(ctx, r, namespace, selector)
	})
}
