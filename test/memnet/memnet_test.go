package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"aicr/test/memnet"
)

func TestAServerIsReachedByItsAddressInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Net
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, "here")
		})}
		go func() { _ = srv.Serve(n.Listen("a.test:80")) }()
		synctest.Wait()
		transport := &http.Transport{DialContext: n.Dial}
		begun := time.Now()
		res, err := (&http.Client{Transport: transport}).Get("http://a.test/")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(body) != "here" || time.Since(begun) != time.Hour {
			t.Errorf("%q after %s, %v", body, time.Since(begun), err)
		}
		transport.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if _, err := n.Dial(t.Context(), "tcp", "a.test:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a closed server: %v", err)
		}
	})
}

func TestADialEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n memnet.Net
		l := n.Listen("deaf.test:80")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := n.To("deaf.test:80")(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if l.Addr().String() != "deaf.test:80" || l.Close() != nil || l.Close() != nil {
			t.Error("closed twice")
		}
		if _, err := l.Accept(); err == nil {
			t.Error("a closed listener accepts")
		}
	})
}

// A connection has a socket's habits, whatever carries it.
func TestAConnectionIsOne(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		var n memnet.Net
		l := n.Listen("a.test:80")
		accepted := make(chan net.Conn, 1)
		go func() {
			c, _ := l.Accept()
			accepted <- c
		}()
		c1, err = n.Dial(t.Context(), "tcp", "a.test:80")
		if err != nil {
			return nil, nil, nil, err
		}
		c2 = <-accepted
		return c1, c2, func() { c1.Close(); c2.Close(); l.Close() }, nil
	})
}
