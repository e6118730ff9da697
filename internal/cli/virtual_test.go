package cli

import (
	"net"
	"testing"
	"testing/synctest"

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
