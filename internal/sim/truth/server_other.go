//go:build !linux

package truth

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// drive serves through net/http where there is no epoll.
func (s *Server) drive(at netip.AddrPort, done chan<- struct{}) (netip.AddrPort, func(), error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return netip.AddrPort{}, nil, err
	}
	var answers sync.WaitGroup // http.Server.Close does not wait for them
	handler := &Handler{stage: s.stage}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers.Add(1)
		defer answers.Done()
		handler.ServeHTTP(w, r)
	})}
	go func() {
		defer close(done)
		defer answers.Wait()
		if err := server.Serve(delayListener{l, s.script.Nagle}); !errors.Is(err, http.ErrServerClosed) {
			_ = l.Close() // it cannot serve; clients will see that
		}
	}()
	stop := func() { _ = server.Close() }
	return l.Addr().(*net.TCPAddr).AddrPort(), stop, nil
}

// delayListener turns Nagle's algorithm on where asked.
type delayListener struct {
	*net.TCPListener
	nagle bool
}

func (l delayListener) Accept() (net.Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	if l.nagle {
		_ = c.SetNoDelay(false)
	}
	return c, nil
}
