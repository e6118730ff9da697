package programs

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Call is how a program was called.
type Call struct {
	Args   []string // the container's command and arguments
	Getenv func(string) string
	Stdout io.Writer
	Stderr io.Writer
}

// program is one of them: it runs until it is done or ctx ends, and gives its exit code.
type program struct {
	name string
	line string
	run  func(ctx context.Context, c *Call) int
}

func all() []program {
	return []program{
		{"runtime", "what Dynamo's runtime image has: the frontend, a worker, or the fetching of a model, as the command line says", runtime},
		{"epp", "the endpoint picker of a gateway", endpointPicker},
		{"gateway", "a gateway that follows HTTPRoutes to the workers", gateway},
		{"dcgm-exporter", "the GPU metrics of a node", gpuExporter},
		{"node-exporter", "the pressure metrics of a node", nodeExporter},
		{"aiperf", "AIPerf itself, with a tokenizer that it need not fetch", aiperf},
		{"dynamo-operator", "Dynamo's operator: a controller, and the webhook that converts what it defines", dynamoOperator},
		{"controller", "a controller that is there, ready, and does nothing", controller},
	}
}

// Names are those of the programs.
func Names() (names []string) {
	for _, p := range all() {
		names = append(names, p.name)
	}
	return names
}

// Lines say what each is.
func Lines() (lines []string) {
	for _, p := range all() {
		lines = append(lines, fmt.Sprintf("%-14s %s", p.name, p.line))
	}
	return lines
}

// Run runs a program of this process: sandbox-pod NAME ARG… is Run(NAME, ARG…). It ends
// at SIGTERM. found is false where there is no such program.
func Run(name string, args []string) (code int, found bool) {
	i := slices.IndexFunc(all(), func(p program) bool { return p.name == name })
	if i < 0 {
		return 0, false
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return all()[i].run(ctx, &Call{Args: args, Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr}), true
}

// ip is the pod's address.
func (c *Call) ip() string { return c.Getenv("POD_IP") }

// at is an address of the pod.
func (c *Call) at(port string) string { return net.JoinHostPort(c.ip(), port) }

// fail says what went wrong.
func (c *Call) fail(format string, args ...any) int {
	fmt.Fprintf(c.Stderr, "error: "+format+"\n", args...)
	return 1
}
