package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// once is a client that does not try again.
func once() option.RequestOption { return option.WithMaxRetries(0) }

func keepDeadWorkers(t *testing.T, s *server) {
	s.breaks(t, `[{kind: worker-dead, workers: [0, 1]}]`)
	_, err := ask(t.Context(), s.client(once()), s.chat("hello", 2))
	wantRefusal(t, err, 500, "Failed to generate completions")
	_, err = listen(t.Context(), s.client(once()), s.chat("hello", 2))
	wantRefusal(t, err, 500, "Failed to generate completions")
}

// brokenStream is what a stream says until it breaks off. It has to be the
// beginning of what it would have said, not nothing and not the whole of it.
func brokenStream(t *testing.T, s *server, fault string) error {
	t.Helper()
	params := s.chat("a long story", 30)
	whole, err := ask(t.Context(), s.client(), params)
	if err != nil {
		t.Fatal(err)
	}
	s.breaks(t, fault)
	got, err := listen(t.Context(), s.client(), params)
	if got.Text == "" || got.Text == whole.Text || !strings.HasPrefix(whole.Text, got.Text) {
		t.Errorf("the stream broke off after %q, of %q", got.Text, whole.Text)
	}
	if got.Finish != "" || got.Tokens != (tokens{}) {
		t.Errorf("it says that it is whole: finish reason %q, %+v", got.Finish, got.Tokens)
	}
	return err
}

func keepErrorEvent(t *testing.T, s *server) {
	err := brokenStream(t, s, `[{kind: stream-break, how: error-event, share: 1}]`)
	var broken *ssestream.StreamError
	if !errors.As(err, &broken) {
		t.Fatalf("%T, want an *ssestream.StreamError: %v", err, err)
	}
	if !strings.HasPrefix(broken.Error(), "received error while streaming: {") || !strings.Contains(broken.Error(), "Internal server error") {
		t.Errorf("the client says %q", broken)
	}
	_, err = ask(t.Context(), s.client(once()), s.chat("a long story", 30))
	wantRefusal(t, err, 500, "Failed to generate completions")
}

func keepReset(t *testing.T, s *server) {
	if err := brokenStream(t, s, `[{kind: stream-break, how: reset, share: 1}]`); err == nil {
		t.Error("a reset is no error")
	}
}

// The client takes the end of the body for the end of the stream, whether or not
// [DONE] came. That the finish reason is missing is all that tells.
func keepTruncated(t *testing.T, s *server) {
	if err := brokenStream(t, s, `[{kind: stream-break, how: truncated, share: 1}]`); err != nil {
		t.Errorf("the client notices by now: %v; say so in the README", err)
	}
}

func keepZeroTokens(t *testing.T, s *server) {
	s.breaks(t, `[{kind: zero-tokens}]`)
	want := said{"", "stop", tokens{3, 0, 3}}
	whole, err := ask(t.Context(), s.client(), s.chat("hello", 5))
	if diff := cmp.Diff(want, whole); err != nil || diff != "" {
		t.Errorf("whole: error %v (-want +got):\n%s", err, diff)
	}
	streamed, err := listen(t.Context(), s.client(), s.chat("hello", 5))
	if diff := cmp.Diff(want, streamed); err != nil || diff != "" {
		t.Errorf("streamed: error %v (-want +got):\n%s", err, diff)
	}
}

// overloads are the statuses that the client is to try again after.
var overloads = []struct {
	status int
	reason string
}{{529, "Service temporarily overloaded"}, {503, "is not ready to serve requests yet"}}

func keepGivingUp(t *testing.T, s *server) {
	for _, o := range overloads {
		s.breaks(t, fmt.Sprintf(`[{kind: http-error, status: %d, share: 1}]`, o.status))
		var sent atomic.Int64
		_, err := ask(t.Context(), s.client(attempts(&sent), option.WithMaxRetryDelay(time.Millisecond)), s.chat("hello", 2))
		wantRefusal(t, err, o.status, o.reason)
		if sent.Load() != 3 {
			t.Errorf("%d: sent %d times, want 3", o.status, sent.Load())
		}
	}
}

// keepRetry mends the fleet as soon as the client has seen it fail.
func keepRetry(t *testing.T, s *server) {
	for _, o := range overloads {
		for how, get := range ways() {
			s.breaks(t, fmt.Sprintf(`[{kind: http-error, status: %d, share: 1}]`, o.status))
			var statuses []int
			client := s.client(option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
				res, err := next(r)
				if err == nil {
					statuses = append(statuses, res.StatusCode)
					s.mends(t)
				}
				return res, err
			}))
			got, err := get(t.Context(), client, s.chat("hello", 2))
			if err != nil || got.Tokens != (tokens{3, 2, 5}) {
				t.Errorf("%d, %s: %+v, error %v", o.status, how, got, err)
			}
			if diff := cmp.Diff([]int{o.status, 200}, statuses); diff != "" {
				t.Errorf("%d, %s: the statuses (-want +got):\n%s", o.status, how, diff)
			}
		}
	}
}

// keepPatience has more retries than the two of the default, with which one call
// in eight would fail.
func keepPatience(t *testing.T, s *server) {
	const calls = 32
	for _, o := range overloads {
		s.breaks(t, fmt.Sprintf(`[{kind: http-error, status: %d, share: 0.5}]`, o.status))
		var sent atomic.Int64
		client := s.client(attempts(&sent), option.WithMaxRetries(30), option.WithMaxRetryDelay(time.Millisecond))
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				if got, err := ask(t.Context(), client, s.chat("hello", 2)); err != nil || got.Tokens != (tokens{3, 2, 5}) {
					t.Errorf("%d: %+v, error %v", o.status, got, err)
				}
			})
		}
		wg.Wait()
		if n := sent.Load(); n <= calls {
			t.Errorf("%d: sent %d times for %d answers: nothing failed", o.status, n, calls)
		}
	}
}

func keepCancel(t *testing.T, s *server) {
	endless := option.WithJSONSet("ignore_eos", true)
	for how, leave := range map[string]func(cancel context.CancelFunc, stream interface{ Close() error }){
		"by its context": func(cancel context.CancelFunc, _ interface{ Close() error }) { cancel() },
		"by Close":       func(_ context.CancelFunc, stream interface{ Close() error }) { _ = stream.Close() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream := s.client(endless).Chat.Completions.NewStreaming(ctx, s.chat("count to ten thousand", 10000))
		defer stream.Close()
		for range 3 {
			if !stream.Next() {
				t.Fatalf("%s: the stream ends: %v", how, stream.Err())
			}
		}
		s.awaitRunning(t, 1)
		leave(cancel, stream)
		for stream.Next() {
		}
		if err := stream.Err(); ctx.Err() != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the stream ends with %v", how, err)
		}
		s.awaitRunning(t, 0)
	}
}

func keepInterrupt(t *testing.T, s *server) {
	stream := s.client(option.WithJSONSet("ignore_eos", true)).Chat.Completions.NewStreaming(t.Context(), s.chat("count to ten thousand", 10000))
	defer stream.Close()
	if !stream.Next() {
		t.Fatalf("the stream ends: %v", stream.Err())
	}
	s.interrupt()
	for stream.Next() {
	}
	if stream.Err() == nil {
		t.Error("the stream of an interrupted server ends in good order")
	}
}
