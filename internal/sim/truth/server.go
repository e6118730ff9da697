package truth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Server plays a script on a socket of its own, on this machine only. On Linux
// it is one thread with an epoll loop (server_linux.go), elsewhere a Handler
// behind net/http.
type Server struct {
	*stage

	addr  netip.AddrPort
	stop  func() // makes the driver end
	done  chan struct{}
	unctx func() bool
	once  sync.Once
}

// NewServer makes a Server that does not listen yet.
func NewServer(s Script) (*Server, error) {
	st, err := newStage(s)
	if err != nil {
		return nil, err
	}
	return &Server{stage: st}, nil
}

// Start listens on addr, "" being any free port, and serves until Close is
// called or ctx is done. Epoch is now. A Server starts once.
func (s *Server) Start(ctx context.Context, addr string) error {
	if s.done != nil {
		return errors.New("truth: the server was started before")
	}
	at, err := loopback(addr)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.epoch = time.Now()
	s.mu.Unlock()
	s.done = make(chan struct{})
	if s.addr, s.stop, err = s.drive(at, s.done); err != nil {
		s.done = nil
		return fmt.Errorf("truth: listening on %s: %w", at, err)
	}
	s.unctx = context.AfterFunc(ctx, func() { s.once.Do(s.stop) })
	return nil
}

// Addr is the address that the server listens on, as host:port.
func (s *Server) Addr() string { return s.addr.String() }

// URL is the server's base URL, without a path.
func (s *Server) URL() string { return "http://" + s.Addr() }

// Close ends all connections and returns when nothing of the server runs any
// more. What it noted stays.
func (s *Server) Close() error {
	if s.done == nil {
		return nil
	}
	s.unctx()
	s.once.Do(s.stop)
	<-s.done
	return nil
}

// loopback resolves an address and refuses those that others could reach.
func loopback(addr string) (netip.AddrPort, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("truth: address %q: %w", addr, err)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	at, err := netip.ParseAddrPort(net.JoinHostPort(host, port))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("truth: address %q: %w", addr, err)
	}
	if !at.Addr().IsLoopback() {
		return netip.AddrPort{}, fmt.Errorf("truth: address %q is not this machine's own: listen on 127.0.0.1", addr)
	}
	return at, nil
}
