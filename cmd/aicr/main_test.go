package main

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
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
	// Signals are told one after the other, and this one is the later: had the other been
	// told, it would come first.
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if s := <-signals; s != syscall.SIGTERM {
		t.Errorf("a cut connection is told as %v", s)
	}
}
