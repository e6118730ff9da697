package load

import (
	"net"

	"golang.org/x/sys/unix"
)

// setAck sets TCP_QUICKACK. The kernel forgets it after a while, so it is set
// again at each read.
func setAck(tcp *net.TCPConn, at ackHabit) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	quick := 0
	if at == ackAtOnce {
		quick = 1
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, quick)
	})
}
