package programs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Ports of a pod that plays a fleet.
const (
	frontendPort   = "8000"
	firstWorker    = 9200
	fleetGPUPort   = "9400"
	fleetNodePort  = "9100"
	workerPagePort = "9090"
)

// frontend is Dynamo's: the real one, or one of a simulated fleet, or, beside a worker
// of a gateway, the way to the fleet that the endpoint picker plays.
func frontend(ctx context.Context, c *Call) int {
	p, err := c.pod(ctx)
	if err != nil {
		return c.fail("%v", err)
	}
	if p.Graph == nil {
		return c.fail("%s/%s belongs to no graph", p.Namespace, p.Name)
	}
	switch {
	case flagOf(c.Args, "--router-mode") == "direct":
		return sidecar(ctx, c)
	case p.Venv != "":
		return realFrontend(ctx, c, p)
	}
	return fleet(ctx, c, p)
}

// fleet plays all workers of a graph. It starts when they have registered: until then it
// is a frontend that knows no worker. When one leaves, the fleet is told that it is
// missing, and forgets what else was to go wrong.
func fleet(ctx context.Context, c *Call, p *Pod) int {
	rest := &house{}
	defer rest.close()
	workers := newRegistry(p.Graph.Workers)
	if err := rest.serve(ctx, c.at(registryPort), workers); err != nil {
		return c.fail("%v", err)
	}
	if _, ok := p.fault("no-answer"); ok {
		err := rest.serve(ctx, c.at(frontendPort), notReady())
		if err != nil {
			return c.fail("%v", err)
		}
		<-ctx.Done()
		return 0
	}
	waiting := &house{}
	defer waiting.close()
	if err := waiting.serve(ctx, c.at(frontendPort), noWorkers()); err != nil {
		return c.fail("%v", err)
	}
	fmt.Fprintf(c.Stdout, "frontend: serving at %s, waiting for %d workers\n", c.at(frontendPort), p.Graph.Workers)
	for len(workers.absent()) > 0 {
		select {
		case <-ctx.Done():
			return 0
		case <-workers.changed:
		}
	}
	file, err := writeScenario(ctx, c, p)
	if err != nil {
		return c.fail("%v", err)
	}
	defer os.RemoveAll(filepath.Dir(file))
	token := strconv.FormatInt(time.Now().UnixNano(), 36)
	waiting.close() // at the last moment: nobody answers until the simulator does
	sim, err := c.start(ctx, []string{"AICR_FAULTS_TOKEN=" + token}, p.AICR, "sim", "serve", file, "--listen", c.at(frontendPort),
		"--worker-port", strconv.Itoa(firstWorker), "--gpu-port", fleetGPUPort, "--node-port", fleetNodePort, "--model", workers.all()[0].Model)
	if err != nil {
		return c.fail("%v", err)
	}
	playing, over := context.WithCancel(ctx)
	defer over()
	go workers.keepTold(playing, func(absent []int) error {
		err := missing(playing, c, token, absent)
		if err != nil && playing.Err() == nil {
			c.fail("telling the fleet who is missing: %v", err)
		}
		return err
	})
	return ofSim(ctx, exitCode(c, sim.Wait()))
}

// ofSim is the exit code of a frontend whose simulator ended with one: that it was
// interrupted is how it ends well.
func ofSim(ctx context.Context, code int) int {
	if ctx.Err() != nil {
		return 0
	}
	return code
}

// missing tells the fleet which of its workers are not there.
func missing(ctx context.Context, c *Call, token string, absent []int) error {
	faults := "[]"
	if len(absent) > 0 {
		var list bytes.Buffer
		for i, n := range absent {
			if i > 0 {
				list.WriteByte(',')
			}
			list.WriteString(strconv.Itoa(n))
		}
		faults = "[{kind: worker-missing, workers: [" + list.String() + "]}]"
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.at(frontendPort)+"/faults", bytes.NewBufferString(faults))
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer "+token)
	got, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if got.StatusCode >= 300 {
		body, _ := io.ReadAll(got.Body)
		return fmt.Errorf("%s: %s", got.Status, body)
	}
	return nil
}

// writeScenario writes the scenario of the pod's node, fitted to the graph.
func writeScenario(ctx context.Context, c *Call, p *Pod) (file string, err error) {
	text := []byte(p.Scenario)
	if !bytes.ContainsRune(text, '\n') && !bytes.ContainsRune(text, ':') {
		if text, err = exec.CommandContext(ctx, p.AICR, "sim", "show", p.Scenario).Output(); err != nil {
			return "", fmt.Errorf("the scenario %q of node %s: %w", p.Scenario, p.Node, err)
		}
	}
	_, panics := p.fault("discovery-panic")
	if text, err = fitScenario(text, p.Graph.Workers, c.Getenv("DYN_ROUTER_MODE"), panics); err != nil {
		return "", fmt.Errorf("the scenario of node %s: %w", p.Node, err)
	}
	folder, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return "", err
	}
	file = filepath.Join(folder, "scenario.yaml")
	return file, os.WriteFile(file, text, 0o644)
}

// noWorkers is a frontend that nobody has registered with: well, and without a model.
func noWorkers() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"status": "healthy", "endpoints": []string{}, "instances": []string{}})
	})
	m.HandleFunc("/live", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"status": "live", "message": "Service is live"})
	})
	m.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"object": "list", "data": []string{}})
	})
	m.HandleFunc("/metrics", func(http.ResponseWriter, *http.Request) {})
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	return m
}

// notReady is a frontend whose model never gets ready.
func notReady() http.Handler {
	m := http.NewServeMux()
	m.Handle("/", noWorkers())
	m.HandleFunc("POST /v1/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		answer(w, map[string]any{"message": "Model is not ready to serve requests yet", "type": "Service Unavailable", "code": http.StatusServiceUnavailable})
	})
	return m
}

// sidecar is the frontend beside a worker of a gateway. All requests go to the one fleet
// of the graph, which chooses the worker.
func sidecar(ctx context.Context, c *Call) int {
	to := &following{call: c}
	none := func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusNotFound) }
	own := noWorkers()
	m := http.NewServeMux()
	m.Handle("/health", own)
	m.Handle("/live", own)
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { pass(w, r, to.fleet(r.Context()), none) })
	h := &house{}
	defer h.close()
	if err := h.serve(ctx, c.at(frontendPort), m); err != nil {
		return c.fail("%v", err)
	}
	<-ctx.Done()
	return 0
}
