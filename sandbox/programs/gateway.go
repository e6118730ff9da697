package programs

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
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
	asked, err := net.Listen("tcp", c.at("9003"))
	if err != nil {
		return c.fail("%v", err)
	}
	s := grpc.NewServer()
	health.RegisterHealthServer(s, pickerHealth{models: "http://" + c.at(frontendPort) + "/v1/models"})
	go func() { _ = s.Serve(asked) }() // it ends by Stop
	defer s.Stop()
	if p.Venv != "" {
		return realFrontend(ctx, c, p)
	}
	return fleet(ctx, c, p)
}

// PickerService is what an endpoint picker calls itself where it is asked for its health.
const PickerService = "inference-extension"

// pickerHealth is whether an endpoint picker has workers to pick from: as Dynamo's, it waits
// for them.
type pickerHealth struct {
	health.UnimplementedHealthServer
	models string // the page with the models that its workers serve
}

func (h pickerHealth) Check(ctx context.Context, of *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	if of.GetService() != PickerService {
		return nil, status.Errorf(codes.NotFound, "unknown service %q", of.GetService())
	}
	is := health.HealthCheckResponse_NOT_SERVING
	var page struct{ Data []json.RawMessage }
	if body, err := fetch(ctx, h.models); err == nil && json.Unmarshal(body, &page) == nil && len(page.Data) > 0 {
		is = health.HealthCheckResponse_SERVING
	}
	return &health.HealthCheckResponse{Status: is}, nil
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

// Where the webhook of Dynamo's operator is had, and where its certificate is.
const (
	ConvertPath        = "/convert"
	WebhookPort        = 9443
	WebhookCertificate = "/tmp/k8s-webhook-server/serving-certs"
)

// dynamoOperator is a controller whose webhook asks the sandbox: it ends with its pod.
func dynamoOperator(ctx context.Context, c *Call) int {
	in := func(file string) string { return filepath.Join(WebhookCertificate, file) }
	pair, err := tls.LoadX509KeyPair(in("tls.crt"), in("tls.key"))
	if errors.Is(err, fs.ErrNotExist) { // it defines one version alone
		return controller(ctx, c)
	}
	if err != nil {
		return c.fail("%v", err)
	}
	identity := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	l, err := tls.Listen("tcp", c.at(strconv.Itoa(WebhookPort)), identity)
	if err != nil {
		return c.fail("%v", err)
	}
	m := http.NewServeMux()
	m.HandleFunc("POST "+ConvertPath, func(w http.ResponseWriter, r *http.Request) { pass(w, r, Address, nil) })
	s := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }() // it ends by Close
	defer s.Close()
	return controller(ctx, c)
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
