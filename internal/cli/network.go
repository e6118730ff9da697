package cli

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"aicr/internal/load"
)

// Network is how a command reaches servers and serves them. The zero value is
// the machine's own network; tests in virtual time put one in memory in its place.
type Network struct {
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	Listen func(network, addr string) (net.Listener, error)
}

func (n Network) listen(addr string) (net.Listener, error) {
	if n.Listen != nil {
		return n.Listen("tcp", addr)
	}
	return net.Listen("tcp", addr)
}

// dialer connects to a target, or is nil for the machine's own network, which
// the load engine dials itself.
func (n Network) dialer(t load.TargetOptions) func(context.Context) (net.Conn, error) {
	address := cmp.Or(t.Proxy, t.URL)
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if n.Dial == nil || err != nil {
		return nil
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	return func(ctx context.Context) (net.Conn, error) { return n.Dial(ctx, "tcp", addr) }
}

// transport is what metrics pages are read over: connections are kept between
// two readings of a page.
func (n Network) transport() *http.Transport {
	return &http.Transport{IdleConnTimeout: 2 * time.Minute, DialContext: n.Dial}
}
