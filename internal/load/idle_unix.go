//go:build unix

package load

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// peek looks at what has come on a connection, and leaves it there. One that has no
// descriptor cannot be looked at.
func peek(c net.Conn, buf []byte) (idleState, []byte) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return idleSilent, nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return idleEnded, nil
	}
	state, n := idleEnded, 0
	err = raw.Read(func(fd uintptr) bool {
		var err error
		n, _, err = unix.Recvfrom(int(fd), buf, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			state = idleSilent
		case err == nil && n > 0:
			state = idleStateOf(buf[:n])
		}
		return true
	})
	if err != nil {
		return idleEnded, nil
	}
	return state, buf[:max(0, n)]
}
