package graph

import (
	"context"
	"errors"
)

// UnfetchedError says that a load's record is in its pod, that it cannot be had from
// there, and that there is no copy of it either.
type UnfetchedError struct{ Cause error }

func (e *UnfetchedError) Error() string { return "the record could not be fetched: " + e.Cause.Error() }
func (e *UnfetchedError) Unwrap() error { return e.Cause }

func isUnfetched(err error) bool {
	_, ok := errors.AsType[*UnfetchedError](err)
	return ok
}

// unfetched finds out what there is of a load whose record could not be fetched. Of a pod
// that has ended the record is gone; of one that has not, it is there for who can have it.
func (f *follower) unfetched(ctx context.Context, l *loadSeen, out *Outcome, why error) error {
	if l.ended() {
		return f.conclude(ctx, l, out)
	}
	out.Unfetched = why
	if wrong := f.conclude(ctx, l, out); wrong != nil || out.By == "" {
		return &UnfetchedError{errors.Join(why, wrong)}
	}
	return nil
}
