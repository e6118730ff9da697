// Package memnet is a network in memory for tests in virtual time: synctest does
// not know when a goroutine that waits on a socket is idle. Make it inside the
// bubble that uses it.
package memnet

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// firstPort is below the ports that are given out for port 0.
const firstPort = 40000

// Net connects listeners with dialers by address. The zero value is ready.
type Net struct {
	mu        sync.Mutex
	listeners map[string]*listener
	last      int // port that was given out
}

// Listen listens on an address, host:port; port 0 is any that is free.
func (n *Net) Listen(addr string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	if host, port, err := net.SplitHostPort(addr); err == nil && port == "0" {
		n.last++
		addr = net.JoinHostPort(host, strconv.Itoa(firstPort+n.last))
	}
	l := &listener{net: n, addr: address(addr), conns: make(chan net.Conn), done: make(chan struct{})}
	n.listeners[addr] = l
	return l
}

// Dial connects to the listener of addr. It has the signature of
// net.Dialer.DialContext.
func (n *Net) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: network, Addr: address(addr), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if l == nil {
		return nil, refused
	}
	n.mu.Lock()
	n.last++
	client := address(net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+n.last)))
	n.mu.Unlock()
	here, there := newConn(client, l.addr)
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// To is a dialer of one address, whatever is asked for.
func (n *Net) To(addr string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return n.Dial(ctx, "tcp", addr) }
}

type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }

type listener struct {
	net   *Net
	addr  address
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		if l.net.listeners[string(l.addr)] == l {
			delete(l.net.listeners, string(l.addr))
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }
