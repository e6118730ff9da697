package programs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Address is where the sandbox tells its programs what they have to know. It is of the
// network that all pods share, and no pod's.
const Address = "127.96.0.1:8096"

// Pod is what is told of a pod.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`

	Scenario string   `json:"scenario"` // that is played on the node: a built-in name, or a whole document
	Faults   []string `json:"faults"`   // of the node
	Graph    *Graph   `json:"graph,omitempty"`

	AICR string `json:"aicr"`           // the aicr program
	Venv string `json:"venv,omitempty"` // the Python environment with the real Dynamo; "": graphs are simulated
	Dir  string `json:"dir,omitempty"`  // that the pods of the graph share
}

// Graph is what is told of the graph that a pod belongs to.
type Graph struct {
	Name    string `json:"name"`
	Workers int    `json:"workers"`         // that it is to have
	Fleet   string `json:"fleet,omitempty"` // address of the pod that plays all workers; "": there is none yet
}

// Node is what is told of a node.
type Node struct {
	GPUs   []string `json:"gpus"`   // UUIDs, by number
	Fleets []string `json:"fleets"` // addresses of the pods that play the workers on it
}

// fault is the value of a fault of the pod's node: slow-start=42s has 42s.
func (p *Pod) fault(name string) (value string, ok bool) {
	for _, f := range p.Faults {
		if key, value, _ := strings.Cut(f, "="); key == name {
			return value, true
		}
	}
	return "", false
}

// SplitFaults reads the list that a node's annotation has.
func SplitFaults(list string) (faults []string) {
	for _, f := range strings.Split(list, ",") {
		if f = strings.TrimSpace(f); f != "" {
			faults = append(faults, f)
		}
	}
	return faults
}

// pod asks who the program is. The sandbox may know of a pod later than the pod of itself.
func (c *Call) pod(ctx context.Context) (*Pod, error) {
	var p Pod
	deadline := time.Now().Add(time.Minute)
	for {
		err := c.ask(ctx, "/pod?"+url.Values{"ip": {c.ip()}}.Encode(), &p)
		if err == nil {
			return &p, nil
		}
		if time.Now().After(deadline) {
			return nil, err
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

// node asks for the pod's node.
func (c *Call) node(ctx context.Context) (n Node, err error) {
	err = c.ask(ctx, "/node?"+url.Values{"ip": {c.ip()}}.Encode(), &n)
	return n, err
}

// backends asks where a gateway sends a request. The question has the request's headers,
// since a route may be for some of them alone.
func (c *Call) backends(r *http.Request) ([]string, error) {
	var all []string
	err := c.askAs(r.Context(), r.Header, "/backends?"+url.Values{"ip": {c.ip()}, "host": {r.Host}, "path": {r.URL.Path}}.Encode(), &all)
	return all, err
}

func (c *Call) ask(ctx context.Context, path string, into any) error {
	return c.askAs(ctx, nil, path, into)
}

func (c *Call) askAs(ctx context.Context, header http.Header, path string, into any) error {
	body, err := fetchAs(ctx, header, "http://"+Address+path)
	if err != nil {
		return fmt.Errorf("asking the sandbox: %w", err)
	}
	return json.Unmarshal(body, into)
}

// fetch reads a page.
func fetch(ctx context.Context, address string) ([]byte, error) { return fetchAs(ctx, nil, address) }

// fetchAs reads a page, with the headers of another question.
func fetchAs(ctx context.Context, header http.Header, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, header)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", address, answer.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

// sleep waits; false: ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
