package network

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy serves the addresses of services: each connection to one goes to an endpoint
// that is ready.
type Proxy struct {
	log func(format string, values ...any)

	mu     sync.Mutex
	closed bool
	fronts map[netip.AddrPort]*front
	conns  map[*net.TCPConn]netip.AddrPort // those to endpoints
}

// front is one port of one service.
type front struct {
	listener *net.TCPListener
	ready    atomic.Pointer[[]netip.AddrPort]
}

// NewProxy makes one that serves nothing yet, until ctx ends.
func NewProxy(ctx context.Context, log func(format string, values ...any)) *Proxy {
	p := &Proxy{log: log, fronts: map[netip.AddrPort]*front{}, conns: map[*net.TCPConn]netip.AddrPort{}}
	context.AfterFunc(ctx, func() {
		p.Apply(NewDirectory(nil))
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closed = true
	})
	return p
}

// Apply brings the proxy in line with a directory: fronts are opened and closed, and
// connections to endpoints that are gone are cut.
func (p *Proxy) Apply(d *Directory) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	want, known := d.fronts(), d.known()
	for at, f := range p.fronts {
		if _, wanted := want[at]; !wanted {
			_ = f.listener.Close()
			delete(p.fronts, at)
		}
	}
	for conn, endpoint := range p.conns {
		if !known[endpoint] {
			cut(conn)
		}
	}
	for at, port := range want {
		f := p.fronts[at]
		if f == nil {
			listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
			if err != nil {
				p.log("service %s: %v", at, err)
				continue
			}
			f = &front{listener: listener}
			p.fronts[at] = f
			f.ready.Store(&port.Ready)
			go p.serve(f)
		}
		f.ready.Store(&port.Ready)
	}
}

func (p *Proxy) serve(f *front) {
	accept(f.listener, func(client *net.TCPConn) {
		endpoint := choose(*f.ready.Load(), rand.IntN)
		server, err := dial(endpoint)
		if err != nil {
			cut(client)
			return
		}
		if !p.hold(server, endpoint) {
			cut(server)
			cut(client)
			return
		}
		join(client, server)
		p.release(server)
	})
}

// choose takes one endpoint. There is always one: a front without any is closed.
func choose(ready []netip.AddrPort, random func(int) int) netip.AddrPort {
	return ready[random(len(ready))]
}

// hold remembers a connection, so that it can be cut when its endpoint goes away.
func (p *Proxy) hold(conn *net.TCPConn, endpoint netip.AddrPort) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[conn] = endpoint
	return true
}

func (p *Proxy) release(conn *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

func dial(to netip.AddrPort) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	conn, err := dialer.Dial("tcp", to.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}
