package programs

import (
	"context"
	"net"
	"net/http"
	"time"
)

// house are the servers of a program, which end with it.
type house struct{ servers []*http.Server }

// serve listens at an address. It tries for a while: the one before may be about to go.
func (h *house) serve(ctx context.Context, address string, handler http.Handler) error {
	var l net.Listener
	var err error
	for range 50 {
		if l, err = net.Listen("tcp", address); err == nil {
			break
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	h.servers = append(h.servers, s)
	go func() { _ = s.Serve(l) }() // it ends by Close
	return nil
}

func (h *house) close() {
	for _, s := range h.servers {
		_ = s.Close() // nobody is left to tell
	}
	h.servers = nil
}
