//go:build unix

package load

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// stale reports whether a connection without a request has something to read:
// its end, or bytes that nobody asked for. Either way it can carry no other
// request. Nobody watches such a connection, and a server that closes idle ones
// would otherwise be blamed for resetting the next request.
func stale(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}
	silent := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		silent = errors.Is(err, unix.EAGAIN)
		return true
	})
	return err != nil || !silent
}
