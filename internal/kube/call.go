package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// health is whether the server answers, for all calls together.
type health struct {
	mu      sync.Mutex
	reached bool // it has answered before
	away    bool // it does not now, and that was told
}

// The pauses between tries grow from the first to the longest.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 8 * time.Second
)

// persist tries until the server answers. Each try has its own time limit; that the server
// is away is borne for as long as Patience says, or ctx. What the server refuses is not
// asked again. It says whether it tried more than once, since then it is not known what
// the tries before have done.
func (c *Cluster) persist(ctx context.Context, try func(context.Context) error) (repeated bool, err error) {
	limit, patience := cmp.Or(c.Limit, DefaultRequestTimeout), cmp.Or(c.Patience, DefaultPatience)
	if c.First > 0 && !c.Reached() {
		limit, patience = min(limit, c.First), min(patience, c.First)
	}
	quiet := klog.NewContext(ctx, klog.Logger{}) // client-go would write to standard error
	var since time.Time
	for tries := 1; ; tries++ {
		asked, cancel := context.WithTimeout(quiet, limit)
		err := try(asked)
		cancel()
		switch {
		case err == nil:
			c.answered()
			return tries > 1, nil
		case ctx.Err() != nil:
			return tries > 1, ended(ctx, since, err)
		case c.pluginHangs(err):
			return tries > 1, err
		case WebhookOf(err) != "" && ctx.Value(webhooksKey{}) != nil:
			c.answered()
			return tries > 1, err
		case errors.Is(err, context.DeadlineExceeded):
			err = fmt.Errorf("no answer in %s: %w", limit, err)
		case !c.transient(err):
			if _, ok := errors.AsType[*apierrors.StatusError](err); ok {
				c.answered()
			}
			return tries > 1, err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if c.Down > 0 && !c.Reached() && isDown(err) {
			patience = min(patience, c.Down)
		}
		pause := pauseAfter(tries, err)
		if time.Since(since)+pause > patience {
			return true, &AwayError{time.Since(since), err}
		}
		if tries > 1 || errors.Is(err, context.DeadlineExceeded) { // one that fails at once, and once, is not worth a word
			c.missing(err, patience)
		}
		select {
		case <-ctx.Done():
			return true, ended(ctx, since, err)
		case <-time.After(pause):
		}
	}
}

// pluginHangs says that the program that makes the credentials did not answer, and never
// has. One that worked before may have lost the network.
func (c *Cluster) pluginHangs(err error) bool {
	_, ok := errors.AsType[*PluginError](err)
	return ok && !c.Reached()
}

// ended is what is said where the caller's time, not the server's, has come to its end.
func ended(ctx context.Context, since time.Time, last error) error {
	if since.IsZero() || last == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w, while the server was away: %w", context.Cause(ctx), last)
}

// pauseAfter is how long is waited after a number of tries: as long as the server wants,
// and never all clients at once.
func pauseAfter(tries int, err error) time.Duration {
	pause := longestPause
	if tries < 6 {
		pause = firstPause << (tries - 1)
	}
	pause = pause*4/5 + rand.N(pause*2/5)
	if wanted, ok := errors.AsType[*busyError](err); ok {
		pause = max(pause, wanted.pause)
	}
	return pause
}

// busyError is one of the server's, with how long it wants to be left alone.
type busyError struct {
	error
	pause time.Duration
}

func (e *busyError) Unwrap() error { return e.error }

func (c *Cluster) answered() {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	c.health.reached = true
	if c.health.away {
		c.health.away = false
		c.Trouble("the API server answers again")
	}
}

func (c *Cluster) missing(err error, patience time.Duration) {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	if !c.health.away && c.Trouble != nil {
		c.health.away = true
		c.Trouble(fmt.Sprintf("%s; it is tried again for up to %s: %s", whoIsAway(err), patience, c.shown(err.Error())))
	}
}

// Reached says whether the server has ever answered, if only to refuse.
func (c *Cluster) Reached() bool {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	return c.health.reached
}

// transient says whether the same request may well be answered in a while.
func (c *Cluster) transient(err error) bool {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		switch status.ErrStatus.Code {
		case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return !IsTooLarge(err) // which the store says as an error of its own
		}
		return false
	}
	if distrusted(err) {
		return false
	}
	// A name that nobody knows, and a program for credentials that fails, are mistakes of
	// the configuration, unless they have worked before: then the network is gone.
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return !name.IsNotFound || c.Reached()
	}
	words := err.Error()
	if strings.Contains(words, "getting credentials") {
		return c.Reached()
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if asked, ok := errors.AsType[*url.Error](err); ok && asked.Timeout() { // a handshake that does not end is one, and has no type
		return true
	}
	for _, lost := range connectionLost {
		if strings.Contains(words, lost) {
			return true
		}
	}
	return false
}

// connectionLost is how the standard library says it where it has no type for it.
var connectionLost = []string{
	"http2: client connection lost", "http2: client connection force closed", "server sent GOAWAY", "http2: Transport: cannot retry",
	"server closed idle connection", "use of closed network connection", "stream error", "connection reset by peer", "broken pipe",
}

// distrusted says that one of the two did not like the other's certificate, or that the
// server speaks no TLS.
func distrusted(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	_, alert := errors.AsType[tls.AlertError](err)
	return alert
}

// ask sends a request once, and gives the answer's body. client-go would send some again
// by itself, without a word and without regard to the time.
func (c *Cluster) ask(ctx context.Context, r *rest.Request) ([]byte, error) {
	return c.askFor(ctx, r, "application/json")
}

// askFor is ask for an answer of a media type.
func (c *Cluster) askFor(ctx context.Context, r *rest.Request, accept string) ([]byte, error) {
	result, err := c.within(ctx, r.MaxRetries(0).SetHeader("Accept", accept))
	if err != nil {
		return nil, err
	}
	data, bare := result.Raw()
	if bare == nil {
		return data, nil
	}
	err = result.Error() // which has the server's words, as the bare one has not
	// The bare one has the header's Retry-After.
	if seconds, ok := apierrors.SuggestsClientDelay(bare); ok {
		err = &busyError{err, time.Duration(seconds) * time.Second}
	} else if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		err = &busyError{err, time.Duration(seconds) * time.Second}
	}
	return nil, err
}
