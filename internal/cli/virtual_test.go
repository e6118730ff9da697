package cli

import (
	"context"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/sim/truth"
	"aicr/test/memnet"
)

// inVirtualTime runs f in a bubble of virtual time. The network given to it is in
// memory: what a command serves there, it also reaches there.
func inVirtualTime(t *testing.T, f func(t *testing.T, network Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, memoryNetwork(&memnet.Net{}))
	})
}

func memoryNetwork(n *memnet.Net) Network {
	return Network{Dial: n.Dial, Listen: func(_, addr string) (net.Listener, error) { return n.Listen(addr), nil }}
}

// client asks servers of the network.
func (n Network) client(t *testing.T) *http.Client {
	c := &http.Client{Transport: n.transport()}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// serve serves a handler until the end of the test, and gives its URL.
func (n Network) serve(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	l, err := n.listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(l) }() // it ends by Close
	t.Cleanup(func() { _ = srv.Close() })
	return "http://" + l.Addr().String()
}

// serveScript serves a known-truth server on the network.
func (n Network) serveScript(t *testing.T, s truth.Script) (url string, served *truth.Handler) {
	t.Helper()
	h, err := truth.NewHandler(s)
	if err != nil {
		t.Fatal(err)
	}
	return n.serve(t, h), h
}

// program is a command that runs in this process.
type program struct {
	stdout, stderr keptWriter
	signals        chan os.Signal
	code           chan int
}

// startProgram starts a command; one in virtual time is started in its bubble.
func startProgram(t *testing.T, network Network, args ...string) *program {
	t.Helper()
	p := &program{signals: make(chan os.Signal, 2), code: make(chan int, 1)}
	env := testEnv(nil, args...)
	env.Stdout, env.Stderr, env.Signals, env.Network = &p.stdout, &p.stderr, p.signals, network
	go func() { p.code <- Run(context.WithoutCancel(t.Context()), env) }()
	return p
}

// until waits until something is so; the time that is left to it only ends a hang.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
