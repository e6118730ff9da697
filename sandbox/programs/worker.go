package programs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// worker is one of a graph: the real mocker, or one that shows the page which the fleet
// has of it. It is not ready before the fleet has given it a number.
func worker(ctx context.Context, c *Call) int {
	p, err := c.pod(ctx)
	if err != nil {
		return c.fail("%v", err)
	}
	if p.Graph == nil {
		return c.fail("%s/%s belongs to no graph", p.Namespace, p.Name)
	}
	if _, ok := p.fault("crash-loop"); ok {
		fmt.Fprintln(c.Stderr, "INFO worker: loading the model\nTraceback (most recent call last):\n  File \"worker.py\", line 1, in <module>\nRuntimeError: CUDA error: no kernel image is available for execution on the device")
		return 1
	}
	begin := time.Now()
	delay := time.Duration(0)
	if text, ok := p.fault("slow-start"); ok {
		if delay, err = time.ParseDuration(text); err != nil {
			return c.fail("fault slow-start: %v", err)
		}
	}
	if p.Venv != "" {
		if !sleep(ctx, delay) {
			return 0
		}
		return realWorker(ctx, c, p)
	}
	w := &membership{call: c, at: &following{call: c}, who: member{
		Pod: p.Name, Namespace: p.Namespace, GPU: c.Getenv("NVIDIA_VISIBLE_DEVICES"), Model: flagOf(c.Args, "--served-model-name", "--model-name", "--model")}}
	h := &house{}
	defer h.close()
	if err := h.serve(ctx, c.at(workerPagePort), w); err != nil {
		return c.fail("%v", err)
	}
	fmt.Fprintf(c.Stdout, "worker: system status server at %s\n", c.at(workerPagePort))
	if sleep(ctx, time.Until(begin.Add(delay))) {
		w.stay(ctx)
	}
	w.leave()
	return 0
}

// membership is that of a worker in a fleet.
type membership struct {
	call *Call
	who  member
	at   *following

	mu     sync.Mutex
	number int // below 0: none
	fleet  string
	joined bool
}

// stay registers, again and again: the fleet may be another one by now.
func (m *membership) stay(ctx context.Context) {
	for {
		if err := m.join(ctx); err != nil && ctx.Err() == nil && !m.known() {
			fmt.Fprintf(m.call.Stdout, "worker: not registered yet: %v\n", err)
		}
		pause := time.Second
		if !m.known() {
			pause = 200 * time.Millisecond
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

func (m *membership) known() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.joined
}

func (m *membership) ask(ctx context.Context, method, fleet string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, "http://"+net.JoinHostPort(fleet, registryPort)+"/?"+url.Values{"pod": {m.who.Pod}, "namespace": {m.who.Namespace}, "gpu": {m.who.GPU}, "model": {m.who.Model}}.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	got, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err == nil && got.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", got.Status, body)
	}
	return body, err
}

func (m *membership) join(ctx context.Context) error {
	fleet := m.at.fleetIP(ctx)
	if fleet == "" {
		m.set(0, "", false)
		return fmt.Errorf("there is no frontend")
	}
	body, err := m.ask(ctx, http.MethodPost, fleet)
	if err != nil {
		// A fleet that takes its time knows the worker still, if it did.
		if !errors.Is(err, context.DeadlineExceeded) || !m.memberOf(fleet) {
			m.set(0, "", false)
		}
		return err
	}
	number := 0
	if err := json.Unmarshal(body, &number); err != nil {
		return err
	}
	if !m.known() {
		fmt.Fprintf(m.call.Stdout, "worker: registered as %d\n", number)
	}
	m.set(number, fleet, true)
	return nil
}

func (m *membership) memberOf(fleet string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.joined && m.fleet == fleet
}

func (m *membership) set(number int, fleet string, joined bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.number, m.fleet, m.joined = number, fleet, joined
}

func (m *membership) leave() {
	m.mu.Lock()
	fleet, joined := m.fleet, m.joined
	m.mu.Unlock()
	if joined {
		_, _ = m.ask(context.Background(), http.MethodDelete, fleet) // the fleet may be gone first
	}
}

// answersWithin is how long the fleet may take to say how a worker is, which is less than a
// probe waits.
const answersWithin = 2 * time.Second

// ServeHTTP shows the fleet's page of the worker. Before the fleet has started, or while
// that has no time to say how the worker is, a worker is well if it has registered. That it
// lives it says itself: one that its fleet misses would be restarted otherwise, register
// anew, and be missed no more.
func (m *membership) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	number, fleet, joined := m.number, m.fleet, m.joined
	m.mu.Unlock()
	page := r.URL.Path
	if joined && page != "/live" {
		ctx := r.Context()
		if page != "/metrics" { // for which nothing else can stand in
			limited, cancel := context.WithTimeout(ctx, answersWithin)
			defer cancel()
			ctx = limited
		}
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(fleet, strconv.Itoa(firstWorker+number))+page, http.NoBody)
		if err == nil {
			if got, err := http.DefaultClient.Do(q); err == nil {
				defer got.Body.Close()
				w.Header().Set("Content-Type", got.Header.Get("Content-Type"))
				w.WriteHeader(got.StatusCode)
				_, _ = io.Copy(w, got.Body) // who asked is gone otherwise
				return
			}
		}
	}
	switch {
	case page == "/live", page == "/health" && joined:
		fmt.Fprint(w, `{"status":"ready","uptime":{"secs":0,"nanos":0},"endpoints":{"generate":"ready"}}`)
	case page == "/health":
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"status":"notready","uptime":{"secs":0,"nanos":0},"endpoints":{}}`)
	case page == "/metrics":
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// following knows where the fleet of the pod's graph is, which may be another pod later.
type following struct {
	call *Call

	mu    sync.Mutex
	ip    string
	asked time.Time
}

func (f *following) fleetIP(ctx context.Context) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ip != "" && time.Since(f.asked) < time.Second {
		return f.ip
	}
	var p Pod
	if err := f.call.ask(ctx, "/pod?"+url.Values{"ip": {f.call.ip()}}.Encode(), &p); err == nil && p.Graph != nil {
		f.ip, f.asked = p.Graph.Fleet, time.Now()
	}
	return f.ip
}

func (f *following) fleet(ctx context.Context) string {
	return net.JoinHostPort(f.fleetIP(ctx), frontendPort)
}
