package graph

import (
	"context"
	"io"

	"aicr/internal/kube"
	"aicr/internal/redact"
)

// maskedAPI is a cluster that does not say the token of a run: not in an object, a log, a
// termination message or an error. All that a run hears of its cluster comes through here,
// so that nothing after it has to think of the token: not the events, the findings, the
// diagnostics, the lines for people, nor what is kept on the cluster. The load's record
// alone comes packed, and goes through redact.Mask.File.
//
// A command that attaches may not have been given the token. It does not ask the cluster
// for it, since that would take the right to read Secrets: then redact.Masked, which finds
// what looks like a secret, is all that is left.
type maskedAPI struct {
	api  RunAPI
	mask *redact.Mask
}

func masked(api RunAPI, secret Secret) RunAPI {
	if m := redact.NewMask(string(secret)); m != nil {
		return maskedAPI{api, m}
	}
	return api
}

// maskedValue is a copy of a value of JSON without the secret.
func maskedValue(m *redact.Mask, v any) any {
	switch v := v.(type) {
	case string:
		return m.Text(v)
	case kube.Object:
		return maskedValue(m, map[string]any(v))
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, one := range v {
			all[m.Text(key)] = maskedValue(m, one)
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i, one := range v {
			all[i] = maskedValue(m, one)
		}
		return all
	}
	return v
}

// maskedError is an error in other words.
type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.err }

func (a maskedAPI) failed(err error) error {
	if err == nil {
		return nil
	}
	if text := a.mask.Text(err.Error()); text != err.Error() {
		return &maskedError{text, err}
	}
	return err
}

func (a maskedAPI) object(o kube.Object, err error) (kube.Object, error) {
	if o != nil {
		o, _ = maskedValue(a.mask, map[string]any(o)).(map[string]any)
	}
	return o, a.failed(err)
}

func (a maskedAPI) Create(ctx context.Context, r kube.Resource, o kube.Object) (kube.Object, error) {
	return a.object(a.api.Create(ctx, r, o))
}

func (a maskedAPI) Read(ctx context.Context, r kube.Resource, namespace, name string) (kube.Object, error) {
	return a.object(a.api.Read(ctx, r, namespace, name))
}

func (a maskedAPI) List(ctx context.Context, r kube.Resource, namespace, selector string) ([]kube.Object, error) {
	found, err := a.api.List(ctx, r, namespace, selector)
	var all []kube.Object
	for _, o := range found {
		one, _ := a.object(o, nil)
		all = append(all, one)
	}
	return all, a.failed(err)
}

func (a maskedAPI) Apply(ctx context.Context, r kube.Resource, o kube.Object) (kube.Object, error) {
	return a.object(a.api.Apply(ctx, r, o))
}

func (a maskedAPI) Patch(ctx context.Context, r kube.Resource, namespace, name string, change kube.Object) (kube.Object, error) {
	return a.object(a.api.Patch(ctx, r, namespace, name, change))
}

func (a maskedAPI) Delete(ctx context.Context, r kube.Resource, namespace, name string, o kube.DeleteOptions) error {
	return a.failed(a.api.Delete(ctx, r, namespace, name, o))
}

// Logs is a log without the token; its end is the end of what is below.
func (a maskedAPI) Logs(ctx context.Context, namespace, pod, container string, o kube.LogOptions) (io.ReadCloser, error) {
	from, err := a.api.Logs(ctx, namespace, pod, container, o)
	if err != nil {
		return nil, a.failed(err)
	}
	return struct {
		io.Reader
		io.Closer
	}{a.mask.Reader(from), from}, nil
}

func (a maskedAPI) Exec(ctx context.Context, namespace, pod, container string, command []string, stdout io.Writer) error {
	return a.failed(a.api.Exec(ctx, namespace, pod, container, command, stdout))
}
