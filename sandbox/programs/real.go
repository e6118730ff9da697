package programs

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The real Dynamo: its frontend and its mocker, which find each other by files in a
// folder that the pods of a graph share. The settings are those that were tried; see
// test/interop.

//go:embed broker.py
var broker string

// longestSocket is what a Unix socket's path may have, less some for its name.
const longestSocket = 107 - len("/publishers")

// shared makes the graph's folder, and the environment that its parts have in common.
func shared(c *Call, p *Pod) (env []string, err error) {
	if len(p.Dir) > longestSocket {
		return nil, fmt.Errorf("%s is too long for a socket's path: give the sandbox a shorter folder", p.Dir)
	}
	for _, sub := range []string{"kv", "home-" + p.Name} {
		if err := os.MkdirAll(filepath.Join(p.Dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	publishers, subscribers := sockets(p)
	return []string{
		"HOME=" + filepath.Join(p.Dir, "home-"+p.Name),
		"DYN_DISCOVERY_BACKEND=file", "DYN_FILE_KV=" + filepath.Join(p.Dir, "kv"),
		"DYN_REQUEST_PLANE=tcp", "DYN_TCP_RPC_HOST=127.0.0.1", "DYN_TCP_RESPONSE_STREAM_HOST=lo",
		"DYN_EVENT_PLANE=zmq", "DYN_ZMQ_BROKER_URL=xsub=" + publishers + " , xpub=" + subscribers,
		"DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS=[\"generate\"]",
		"DYN_RUNTIME_NUM_WORKER_THREADS=2", "DYN_SDK_DISABLE_ANSI_LOGGING=1", "DYN_LOG=info",
		"HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1",
	}, nil
}

func sockets(p *Pod) (publishers, subscribers string) {
	return "ipc://" + filepath.Join(p.Dir, "publishers"), "ipc://" + filepath.Join(p.Dir, "subscribers")
}

func python(p *Pod) string { return filepath.Join(p.Venv, "bin", "python") }

// realFrontend runs Dynamo's frontend, and beside it the broker of the graph's events.
func realFrontend(ctx context.Context, c *Call, p *Pod) int {
	env, err := shared(c, p)
	if err != nil {
		return c.fail("%v", err)
	}
	publishers, subscribers := sockets(p)
	beside, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := c.start(beside, env, python(p), "-c", broker, publishers, subscribers); err != nil {
		return c.fail("%v", err)
	}
	mode := c.Getenv("DYN_ROUTER_MODE")
	if mode == "" {
		mode = "round-robin"
	}
	env = append(env, "DYN_SYSTEM_PORT=-1")
	if c.Getenv("DYN_NAMESPACE_PREFIX") == "" { // an endpoint picker is told no more than where it is itself
		env = append(env, "DYN_NAMESPACE_PREFIX="+c.Getenv("DYN_NAMESPACE"))
	}
	return ofSim(ctx, c.run(ctx, env, python(p), "-m", "dynamo.frontend", "--http-host", c.ip(), "--http-port", frontendPort, "--router-mode", mode))
}

// mockerPace is how fast the mocker plays, against a real engine. At full pace a token takes
// 6 ms, and a worker whose process waits for a core of a busy machine is slow by a quarter.
const mockerPace = "0.25"

// realWorker runs Dynamo's mocker with a model that has no weights.
func realWorker(ctx context.Context, c *Call, p *Pod) int {
	env, err := shared(c, p)
	if err != nil {
		return c.fail("%v", err)
	}
	model := filepath.Join(p.Dir, "model-"+p.Name)
	if err := writeModel(p.Venv, model); err != nil {
		return c.fail("%v", err)
	}
	publishers, _ := sockets(p)
	for _, err := os.Stat(publishers[len("ipc://"):]); err != nil; _, err = os.Stat(publishers[len("ipc://"):]) {
		if !sleep(ctx, 100*time.Millisecond) {
			return 0
		}
	}
	name := flagOf(c.Args, "--served-model-name", "--model-name", "--model")
	env = append(env, "DYN_SYSTEM_HOST="+c.ip(), "DYN_SYSTEM_PORT="+workerPagePort, "DYN_SYSTEM_ENABLED=true")
	return ofSim(ctx, c.run(ctx, env, python(p), "-m", "dynamo.mocker", "--model-path", model, "--model-name", name, "--max-num-seqs", "64", "--speedup-ratio", mockerPace))
}
