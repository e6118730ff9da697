package network

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"
)

// Forward takes connections from a listener to one address, until ctx ends. The
// listener may belong to another network namespace than the address: it is how the
// host reaches the API server. It stays open while nobody answers at the address. Nobody
// is let through before the server says that it is ready, as at a load balancer: one that
// has just come back answers for seconds before it knows who may do what.
func Forward(ctx context.Context, listener *net.TCPListener, to netip.AddrPort, ready func() bool) {
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	accept(listener, func(client *net.TCPConn) {
		if !ready() {
			cut(client)
			return
		}
		server, err := dial(to)
		if err != nil {
			cut(client)
			return
		}
		join(client, server)
	})
}

// accept handles each connection in a goroutine of its own, until the listener is closed.
func accept(listener *net.TCPListener, handle func(*net.TCPConn)) {
	for {
		conn, err := listener.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of files, mostly: it passes
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go handle(conn)
	}
}

// join carries bytes both ways until both sides have ended. io.Copy between two TCP
// connections is the kernel's splice, so that the bytes do not come by here. When one
// side is cut, so is the other: an end that was none must not look like one.
func join(a, b *net.TCPConn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		carry(a, b)
	}()
	carry(b, a)
	<-done
	_ = a.Close()
	_ = b.Close()
}

func carry(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		cut(to)
		cut(from)
		return
	}
	_ = to.CloseWrite()
}

// cut ends a connection with a reset.
func cut(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
