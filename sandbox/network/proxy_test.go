package network

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// listener is a server of a test, at a free port of an address.
func listener(t *testing.T, address string) (*net.TCPListener, netip.AddrPort) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(address)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, l.Addr().(*net.TCPAddr).AddrPort()
}

// echo answers each connection with its name, then with what it is sent.
func echo(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	l, at := listener(t, "127.0.0.1")
	go accept(l, func(c *net.TCPConn) {
		_, _ = c.Write([]byte(name))
		_, _ = io.Copy(c, c)
		_ = c.Close()
	})
	return at
}

// freeFront is an address that nobody listens at.
func freeFront(t *testing.T) netip.AddrPort {
	t.Helper()
	l, at := listener(t, "127.0.0.2")
	_ = l.Close()
	return at
}

func directory(front netip.AddrPort, ready, known []netip.AddrPort) *Directory {
	return NewDirectory([]Service{{
		Namespace: "ns", Name: "web", Address: front.Addr(),
		Ports: []Port{{Number: front.Port(), Ready: ready, Known: known}},
	}})
}

func newTestProxy(t *testing.T) *Proxy {
	t.Helper()
	return NewProxy(t.Context(), t.Logf)
}

func connect(t *testing.T, to netip.AddrPort, want string) *net.TCPConn {
	t.Helper()
	c, err := dial(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("connected to %q (%v), want %q", got, err, want)
	}
	return c
}

func TestBytesGoBothWaysAndEndsAreTold(t *testing.T) {
	front, server := freeFront(t), echo(t, "a")
	p := newTestProxy(t)
	p.Apply(directory(front, []netip.AddrPort{server}, []netip.AddrPort{server}))
	c := connect(t, front, "a")
	sent := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	go func() {
		_, _ = c.Write(sent)
		_ = c.CloseWrite() // the server's half goes on
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back of %d: %v", len(got), len(sent), err)
	}
}

func TestAServiceWithoutAReadyEndpointRefuses(t *testing.T) {
	front, server := freeFront(t), echo(t, "a")
	p := newTestProxy(t)
	refused := func(when string) {
		t.Helper()
		if c, err := dial(front); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: connection %v, error %v; want refused", when, c, err)
		}
	}
	p.Apply(directory(front, nil, []netip.AddrPort{server}))
	refused("nothing ready yet")
	p.Apply(directory(front, []netip.AddrPort{server}, []netip.AddrPort{server}))
	connect(t, front, "a")
	p.Apply(directory(front, nil, []netip.AddrPort{server}))
	refused("no longer ready")
	p.Apply(NewDirectory(nil))
	refused("no longer there")
}

func TestNewConnectionsGoToReadyEndpointsAndOldOnesStayWhileTheirsIsKnown(t *testing.T) {
	front, a, b := freeFront(t), echo(t, "a"), echo(t, "b")
	p := newTestProxy(t)
	p.Apply(directory(front, []netip.AddrPort{a}, []netip.AddrPort{a, b}))
	old := connect(t, front, "a")
	p.Apply(directory(front, []netip.AddrPort{b}, []netip.AddrPort{a, b})) // a is ending
	connect(t, front, "b")
	if _, err := old.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(old, make([]byte, 1)); err != nil {
		t.Fatalf("cut while its endpoint was known: %v", err)
	}
	p.Apply(directory(front, []netip.AddrPort{b}, []netip.AddrPort{b})) // a is gone
	if _, err := old.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v; a connection to an endpoint that is gone is cut, not ended", err)
	}
}

func TestADeadEndpointIsACutAndNotAnEnd(t *testing.T) {
	front, dead := freeFront(t), freeFront(t)
	p := newTestProxy(t)
	p.Apply(directory(front, []netip.AddrPort{dead}, []netip.AddrPort{dead}))
	wantReset(t, front)
}

// wantReset connects; where the reset is faster than the client, that fails already.
func wantReset(t *testing.T, at netip.AddrPort) {
	t.Helper()
	c, err := dial(at)
	if err == nil {
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, want a reset", err)
	}
}

func TestTheEndOfTheContextEndsTheProxy(t *testing.T) {
	front, server := freeFront(t), echo(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	p := NewProxy(ctx, t.Logf)
	d := directory(front, []netip.AddrPort{server}, []netip.AddrPort{server})
	p.Apply(d)
	c := connect(t, front, "a")
	cancel()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v, want a cut", err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		closed := p.closed
		p.mu.Unlock()
		if closed {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not closed")
		}
	}
	p.Apply(d)
	if c, err := dial(front); err == nil {
		_ = c.Close()
		t.Error("opened again after the end")
	}
}

func TestAHeadlessServiceHasNoFront(t *testing.T) {
	at := []netip.AddrPort{netip.MustParseAddrPort("10.244.0.1:80")}
	d := NewDirectory([]Service{
		{Namespace: "ns", Name: "headless", Ports: []Port{{Number: 80, Ready: at, Known: at}}},
		{Namespace: "ns", Name: "web", Address: netip.MustParseAddr("10.96.0.7"), Ports: []Port{{Number: 80, Ready: at, Known: at}}},
	})
	if fronts := d.fronts(); len(fronts) != 1 {
		t.Errorf("fronts %v, want that of web alone", fronts)
	}
}

func TestEveryReadyEndpointIsChosen(t *testing.T) {
	ready := []netip.AddrPort{netip.MustParseAddrPort("10.244.0.1:1"), netip.MustParseAddrPort("10.244.0.2:1"), netip.MustParseAddrPort("10.244.0.3:1")}
	for i, want := range ready {
		got := choose(ready, func(n int) int {
			if n != len(ready) {
				t.Errorf("one of %d, want one of %d", n, len(ready))
			}
			return i
		})
		if got != want {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
	}
}

func TestThePortOnTheHostOutlivesTheServerBehindIt(t *testing.T) {
	behind := freeFront(t)
	host, at := listener(t, "127.0.0.1")
	var ready atomic.Bool
	go Forward(t.Context(), host, behind, ready.Load)
	wantReset(t, at)
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(behind))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go accept(l, func(c *net.TCPConn) { _, _ = c.Write([]byte("back")); _ = c.Close() })
	wantReset(t, at) // it answers, and is not ready
	ready.Store(true)
	connect(t, at, "back")
}
