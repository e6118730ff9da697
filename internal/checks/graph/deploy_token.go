package graph

import (
	"context"
	"errors"
	"slices"

	"aicr/internal/kube"
)

// ErrNoToken says that a run cannot go on without the token that it was begun with. Its
// Secret without a token, which is never changed, would have a gated model refused, and a
// deployment fail that is well.
var ErrNoToken = errors.New("it was begun with HF_TOKEN, which is not set here, and its Secret is not made yet")

// NeedsToken says that a run which is attached to has no Secret yet, and was begun with a
// token.
func (k *Kept) NeedsToken(ctx context.Context, api API) (bool, error) {
	if !k.Settings.Token || k.Stage != StageDeploy {
		return false, nil
	}
	made, err := secretMade(ctx, api, k.Settings)
	return !made, err
}

// secretMade says whether a run's Secret is there. No one here may read it: it is there if
// what is made after it is.
func secretMade(ctx context.Context, api API, s *Settings) (bool, error) {
	steps := Objects(s)
	next := steps[slices.IndexFunc(steps, func(t Step) bool { return t.Resource.Name == "secrets" })+1]
	o, err := api.Read(ctx, next.Resource, next.Object.Namespace(), next.Object.Name())
	if kube.IsNotFound(err) {
		return false, nil
	}
	return err == nil && oursOf(o, s.Run), err
}
