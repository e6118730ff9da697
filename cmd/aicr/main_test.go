package main

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// A connection that the other side has cut brings the signal of a reader that has gone,
// which is not that: who validates while the API server goes away is not interrupted.
func TestAConnectionThatIsCutInterruptsNobody(t *testing.T) {
	signals := listen()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	other, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.(*net.TCPConn).SetLinger(0), other.Close()); err != nil {
		t.Fatal(err)
	}
	for err = nil; !errors.Is(err, syscall.EPIPE); { // the first may be told of the cut otherwise
		_, err = conn.Write([]byte("x"))
	}
	select {
	case s := <-signals:
		t.Errorf("a cut connection is told as %v", s)
	case <-time.After(200 * time.Millisecond):
	}
}
