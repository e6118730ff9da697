package programs

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// endpointPicker chooses a worker for the gateway. It plays the fleet too: behind a
// gateway there is no frontend of its own that could.
func endpointPicker(ctx context.Context, c *Call) int {
	p, err := c.pod(ctx)
	if err != nil {
		return c.fail("%v", err)
	}
	if p.Graph == nil {
		return c.fail("%s/%s belongs to no graph", p.Namespace, p.Name)
	}
	l, err := net.Listen("tcp", c.at("9002"))
	if err != nil {
		return c.fail("%v", err)
	}
	defer l.Close()
	if p.Venv != "" {
		return realFrontend(ctx, c, p)
	}
	return fleet(ctx, c, p)
}

// gateway sends each request where the routes say: to the pod of the pool that has the
// fewest requests of it.
func gateway(ctx context.Context, c *Call) int {
	load := &loads{of: map[string]int{}}
	h := &house{}
	defer h.close()
	err := h.serve(ctx, c.at("8080"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			return
		}
		all, err := c.backends(r)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		case all == nil:
			http.Error(w, "route not found", http.StatusNotFound)
			return
		case len(all) == 0:
			http.Error(w, "no healthy backend", http.StatusServiceUnavailable)
			return
		}
		to := load.take(all)
		defer load.give(to)
		pass(w, r, to, nil)
	}))
	if err != nil {
		return c.fail("%v", err)
	}
	fmt.Fprintf(c.Stdout, "gateway: serving at %s\n", c.at("8080"))
	<-ctx.Done()
	return 0
}

// loads is how many requests each backend has.
type loads struct {
	mu sync.Mutex
	of map[string]int
}

func (l *loads) take(all []string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	best := all[0]
	for _, b := range all {
		if l.of[b] < l.of[best] {
			best = b
		}
	}
	l.of[best]++
	return best
}

func (l *loads) give(b string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[b]--; l.of[b] == 0 {
		delete(l.of, b)
	}
}

// controller is there and ready.
func controller(ctx context.Context, c *Call) int {
	h := &house{}
	defer h.close()
	if err := h.serve(ctx, c.at("8081"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})); err != nil {
		return c.fail("%v", err)
	}
	<-ctx.Done()
	return 0
}
