package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
)

var pods = Resource{Version: "v1", Name: "pods"}

// Logs is what a container wrote. To open it is tried while the server is away; what
// breaks off afterwards is an error of Read. One that is not followed must go on within
// the time of a call.
func (c *Cluster) Logs(ctx context.Context, namespace, pod, container string, o LogOptions) (io.ReadCloser, error) {
	doing := fmt.Sprintf("reading the log of %s/%s, %s", namespace, pod, container)
	path, err := pods.path(namespace, pod, "log")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	var open *logReader
	_, err = c.persist(ctx, func(asked context.Context) error {
		r := c.server.Get().AbsPath(path).MaxRetries(0).Param("container", container)
		if o.Previous {
			r = r.Param("previous", "true")
		}
		if o.Tail > 0 {
			r = r.Param("tailLines", strconv.Itoa(o.Tail))
		}
		if o.Follow {
			r = r.Param("follow", "true")
		}
		// The call's time is for the opening alone; what is open lasts as long as ctx.
		whole, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(asked, cancel)
		body, err := opened(whole, r)
		if !stop() && err == nil {
			_ = body.Close()
			err = asked.Err()
		}
		if err != nil {
			cancel()
			return cmp.Or(asked.Err(), err)
		}
		open = &logReader{body: body, cancel: cancel, shown: func(err error) error { return c.failed(doing, err, nil) }}
		if !o.Follow {
			open.idle = cmp.Or(c.Limit, DefaultRequestTimeout)
			open.timer = time.AfterFunc(open.idle, cancel)
		}
		return nil
	})
	if err != nil {
		return nil, c.failed(doing, err, nil)
	}
	return open, nil
}

// opened ends with the context, as within does.
func opened(ctx context.Context, r *rest.Request) (io.ReadCloser, error) {
	type answer struct {
		body io.ReadCloser
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		body, err := r.Stream(ctx)
		answered <- answer{body, err}
	}()
	select {
	case a := <-answered:
		return a.body, a.err
	case <-ctx.Done():
		go func() {
			if a := <-answered; a.err == nil {
				_ = a.body.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

type logReader struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	idle   time.Duration
	timer  *time.Timer // nil: it may be silent for as long as it likes
	shown  func(error) error
}

func (r *logReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if r.timer != nil && n > 0 {
		r.timer.Reset(r.idle)
	}
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = r.shown(err)
	}
	return n, err
}

func (r *logReader) Close() error {
	if r.timer != nil {
		r.timer.Stop()
	}
	r.cancel()
	return r.body.Close()
}

// lastWords is how much of what a command said on standard error is kept.
const lastWords = 1 << 10

// Exec runs a command in a container, and gives what it writes to standard output. A code
// that is not 0 is an ExecError. It is tried again only while nothing can have been run.
func (c *Cluster) Exec(ctx context.Context, namespace, pod, container string, command []string, stdout io.Writer) error {
	doing := fmt.Sprintf("running a command in %s/%s, %s", namespace, pod, container)
	path, err := pods.path(namespace, pod, "exec")
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	r := c.server.Post().AbsPath(path).Param("container", container).Param("stdout", "true").Param("stderr", "true")
	for _, word := range command {
		r = r.Param("command", word)
	}
	address := r.URL()
	var seen upgrade
	config := rest.CopyConfig(c.config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return &upgraded{inner, &seen} })
	stderr := &tail{most: lastWords}
	var broken error // of a command that may have run: it is not run again
	_, err = c.persist(ctx, func(asked context.Context) error {
		whole, cancel := context.WithCancel(context.WithoutCancel(asked)) // for its values
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		defer context.AfterFunc(asked, func() {
			if !seen.ran.Load() {
				cancel()
			}
		})()
		streams := remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr}
		socket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, address.String())
		if err != nil {
			return err
		}
		err = socket.StreamWithContext(whole, streams)
		if err != nil && !seen.ran.Load() && whole.Err() == nil { // an older server, or something between that knows no websockets
			old, unmade := remotecommand.NewSPDYExecutor(config, http.MethodPost, address)
			if unmade != nil {
				return unmade
			}
			err = old.StreamWithContext(whole, streams)
		}
		if seen.ran.Load() {
			broken = err
			return nil
		}
		if refused := seen.refused.Swap(nil); refused != nil {
			return refused
		}
		return cmp.Or(asked.Err(), err)
	})
	if err = cmp.Or(err, broken); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return c.failed(doing, context.Cause(ctx), nil)
	}
	if code, ok := errors.AsType[exec.CodeExitError](err); ok {
		return fmt.Errorf("%s: %w", doing, &ExecError{code.Code, c.shown(stderr.String())})
	}
	return c.failed(doing, err, nil)
}

// upgrade is what became of the request for a stream.
type upgrade struct {
	ran     atomic.Bool                           // the server has begun to run the command
	refused atomic.Pointer[apierrors.StatusError] // or what it said instead
}

// upgraded notes what the server says. client-go makes a text of it, and then nobody knows
// what kind it was.
type upgraded struct {
	inner http.RoundTripper
	seen  *upgrade
}

func (u *upgraded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := u.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		u.seen.ran.Store(true)
		return answer, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	refused := apierrors.NewGenericServerResponse(answer.StatusCode, r.Method, schema.GroupResource{Resource: pods.Name}, "", string(text), 0, true)
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Status == metav1.StatusFailure {
		refused = &apierrors.StatusError{ErrStatus: status}
	}
	u.seen.refused.Store(refused)
	return nil, refused
}

// tail keeps the last of what is written to it.
type tail struct {
	most int
	kept bytes.Buffer
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept.Write(p)
	if over := t.kept.Len() - t.most; over > 0 {
		t.kept.Next(over)
		t.cut = true
	}
	return len(p), nil
}

// String is without the rest of a word whose beginning is not there any more: one that is
// secret would not be known by it.
func (t *tail) String() string {
	text := t.kept.String()
	if i := strings.IndexAny(text, " \t\r\n"); t.cut && i >= 0 {
		return text[i+1:]
	}
	return text
}
