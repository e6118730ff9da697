package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"aicr/internal/spec"
)

// reading is something that was asked for: what came, or why nothing did. Half a list
// is no list: it would make a count that is too low look like a fact.
type reading[T any] struct {
	got T
	why *spec.Unknown
}

func (r reading[T]) ok() bool { return r.why == nil }

func failed[T any](why spec.Unknown) reading[T] { return reading[T]{why: &why} }

func absent(format string, args ...any) spec.Unknown {
	return spec.Unknown{Reason: spec.ReasonAbsent, Detail: fmt.Sprintf(format, args...)}
}

func unreadable(format string, args ...any) spec.Unknown {
	return spec.Unknown{Reason: spec.ReasonUnreadable, Detail: fmt.Sprintf(format, args...)}
}

// why puts an error in one of the reasons that a fact can be unknown for.
func (c *Cluster) why(err error) spec.Unknown {
	u := spec.Unknown{Reason: spec.ReasonUnreadable, Detail: c.shown(err.Error())}
	status, fromServer := errors.AsType[*apierrors.StatusError](err)
	network, fromNetwork := errors.AsType[net.Error](err)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		u.Reason = spec.ReasonForbidden
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		u.Reason = spec.ReasonAbsent
	case errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), fromNetwork && network.Timeout():
		u = spec.Unknown{Reason: spec.ReasonTimedOut, Detail: "no answer in time"}
	case apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), fromServer && status.ErrStatus.Code >= 500:
		u.Reason = spec.ReasonUnreachable
	case fromNetwork:
		u.Reason = spec.ReasonUnreachable
	}
	return u
}

// pageSize is how many objects are asked for at a time: a node with its images is some
// 30 kB.
const pageSize = 500

// paged reads a list a page at a time, each with its own time limit. A list that the
// server has forgotten half-way (410) is begun again, once.
func paged[T any](ctx context.Context, c *Cluster, each time.Duration, page func(context.Context, metav1.ListOptions) ([]T, string, error)) reading[[]T] {
	for again := true; ; again = false {
		all, err := pages(ctx, each, page)
		if err == nil {
			return reading[[]T]{got: all}
		}
		if !again || !apierrors.IsResourceExpired(err) {
			return failed[[]T](c.why(err))
		}
	}
}

func pages[T any](ctx context.Context, each time.Duration, page func(context.Context, metav1.ListOptions) ([]T, string, error)) ([]T, error) {
	var all []T
	seen := map[string]bool{}
	for next := ""; ; {
		asked, cancel := context.WithTimeout(ctx, each)
		some, more, err := page(asked, metav1.ListOptions{Limit: pageSize, Continue: next})
		cancel()
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if more == "" {
			return all, nil
		}
		if seen[more] {
			return nil, errors.New("the server gives the same page again and again")
		}
		seen[more] = true
		next = more
	}
}

// get asks for a path, and decodes the answer.
func (c *Cluster) get(ctx context.Context, path string, o metav1.ListOptions, answer any) error {
	r := c.server.Get().AbsPath(path)
	if o.Limit > 0 {
		r = r.Param("limit", strconv.FormatInt(o.Limit, 10))
	}
	if o.Continue != "" {
		r = r.Param("continue", o.Continue)
	}
	result, err := c.within(ctx, r.SetHeader("Accept", "application/json"))
	if err != nil {
		return err
	}
	if err := result.Error(); err != nil { // which has the server's words, as Raw's has not
		return err
	}
	data, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("the answer is no JSON of its kind: %w", err)
	}
	return nil
}

// listed reads all objects of a kind. Of each, what matters is taken; none is kept.
func listed[O, T any](ctx context.Context, c *Cluster, each time.Duration, path string, take func(*O) []T) reading[[]T] {
	return paged(ctx, c, each, func(ctx context.Context, o metav1.ListOptions) ([]T, string, error) {
		var list struct {
			metav1.ListMeta `json:"metadata"`
			Items           *[]O `json:"items"`
		}
		if err := c.get(ctx, path, o, &list); err != nil {
			return nil, "", err
		}
		if list.Items == nil {
			return nil, "", errors.New("the answer is no list")
		}
		var some []T
		for i := range *list.Items {
			some = append(some, take(&(*list.Items)[i])...)
		}
		return some, list.Continue, nil
	})
}

// one is the only thing that is taken of an object.
func one[O, T any](take func(*O) T) func(*O) []T {
	return func(o *O) []T { return []T{take(o)} }
}

// pathOf is where the objects of a kind are listed.
func pathOf(r schema.GroupVersionResource) string {
	return "/apis/" + r.Group + "/" + r.Version + "/" + r.Resource
}
