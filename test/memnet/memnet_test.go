package memnet_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

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
