package load

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lagProbe is a read that also learns when the kernel had received the bytes.
// The difference to the engine's own stamp is its lag: what no client that
// stamps in user space can otherwise know of itself.
type lagProbe struct {
	msg     unix.Msghdr
	iov     unix.Iovec
	control [128]byte
	now     time.Time
}

func (p *lagProbe) prepare() {
	p.msg.Iov = &p.iov
	p.msg.SetIovlen(1)
	p.msg.Control = &p.control[0]
}

func (p *lagProbe) read(fd int, b []byte) (int, syscall.Errno) {
	p.iov.Base = unsafe.SliceData(b)
	p.iov.SetLen(len(b))
	p.msg.SetControllen(len(p.control))
	n, _, err := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&p.msg)), 0)
	p.now = time.Now()
	return int(n), err
}

// lag is how long before the last read the kernel had its bytes; negative when
// the kernel did not tell.
func (p *lagProbe) lag() time.Duration {
	const header = int(unsafe.Sizeof(unix.Cmsghdr{}))
	used := int(p.msg.Controllen)
	for at := 0; at+header <= used; {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&p.control[at]))
		size := int(h.Len)
		if size < header || at+size > used {
			break
		}
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS && size >= header+int(unsafe.Sizeof(unix.Timespec{})) {
			ts := (*unix.Timespec)(unsafe.Pointer(&p.control[at+header]))
			return time.Duration(p.now.UnixNano() - ts.Nano())
		}
		at += (size + 7) &^ 7
	}
	return -1
}
