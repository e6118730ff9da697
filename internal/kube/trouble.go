package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"sync/atomic"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// PluginError says that the program that makes the credentials has not answered, so that
// nothing was asked of the server.
type PluginError struct {
	Command string
	cause   error
}

func (e *PluginError) Error() string {
	return fmt.Sprintf("the credential plugin %s of the kubeconfig has given no credentials: %v", e.Command, e.cause)
}
func (e *PluginError) Unwrap() error { return e.cause }

// sentKey is the context's key of whether a request has left for the server.
type sentKey struct{}

// markSent notes requests as they leave: a plugin that makes credentials comes before that.
type markSent struct{ next http.RoundTripper }

func (m markSent) RoundTrip(r *http.Request) (*http.Response, error) {
	if sent, ok := r.Context().Value(sentKey{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
	return m.next.RoundTrip(r)
}

// watchPlugin has a plugin that hangs told from a server that does not answer.
func (c *Cluster) watchPlugin(config *rest.Config) {
	if config.ExecProvider == nil {
		return
	}
	c.plugin = config.ExecProvider.Command
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return markSent{next} })
}

// within ends with the context, even where a plugin that makes credentials does not.
func (c *Cluster) within(ctx context.Context, r *rest.Request) (rest.Result, error) {
	sent := &atomic.Bool{}
	ctx = context.WithValue(ctx, sentKey{}, sent)
	answered := make(chan rest.Result, 1)
	go func() { answered <- r.Do(ctx) }()
	select {
	case result := <-answered:
		return result, nil
	case <-ctx.Done():
		if c.plugin != "" && !sent.Load() {
			return rest.Result{}, &PluginError{c.plugin, ctx.Err()}
		}
		return rest.Result{}, ctx.Err()
	}
}

// webhookNamed is how the API server says that a webhook which it asks has not answered.
var webhookNamed = regexp.MustCompile(`failed calling webhook "([^"]+)"|conversion webhook for ([^ ,]+(?:, Kind=[^ :]+)?) failed`)

// WebhookOf is the webhook that the API server asked and that did not answer, by an error of
// its own; "": it is another error.
func WebhookOf(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Code < 500 {
		return ""
	}
	m := webhookNamed.FindStringSubmatch(status.ErrStatus.Message)
	switch {
	case m == nil:
		return ""
	case m[1] != "":
		return m[1]
	}
	return "for the conversion of " + m[2]
}

// webhooksKey is the context's key of who does not wait for webhooks.
type webhooksKey struct{}

// WithoutWebhooks has a call give up at once where a webhook that the API server asks does not
// answer, instead of trying again: its error says which one (WebhookOf).
func WithoutWebhooks(ctx context.Context) context.Context {
	return context.WithValue(ctx, webhooksKey{}, true)
}

// whoIsAway says who does not answer.
func whoIsAway(err error) string {
	if plugin, ok := errors.AsType[*PluginError](err); ok {
		return "the credential plugin " + plugin.Command + " does not answer"
	}
	if webhook := WebhookOf(err); webhook != "" {
		return "the API server answers, but the webhook that it asks does not (" + webhook + ")"
	}
	if apierrors.IsTooManyRequests(err) {
		return "the API server has too many requests (429)"
	}
	return "the API server does not answer as it should"
}

// isDown says that nothing listens at an address, or that no way leads to it.
func isDown(err error) bool {
	for _, e := range []error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
