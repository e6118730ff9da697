package load

import (
	"errors"
	"net"
	"time"
)

// idleState is what has become of a connection without a request.
type idleState uint8

const (
	idleSilent  idleState = iota // nothing has come: it can carry the next request
	idleEnded                    // the server has closed it
	idleSurplus                  // bytes have come that no request asked for
)

// peeked is how many bytes of a surplus are looked at.
const peeked = 128

// idleStateOf tells what b is, which has come on a connection without a request; nothing
// is its end. A 408 is how some proxies say that they close a connection which was idle
// for too long (net/http takes it so too): it answers no request.
func idleStateOf(b []byte) idleState {
	timedOut := len(b) >= len("HTTP/1.1 408") && string(b[:7]) == "HTTP/1." && string(b[8:12]) == " 408"
	if len(b) == 0 || timedOut {
		return idleEnded
	}
	return idleSurplus
}

// idle looks at a connection before it carries another request. Nothing watches it
// meanwhile, and a server that closes idle ones would otherwise be blamed for resetting
// the next request. surplus is a part of buf.
func (o *opened) idle(buf []byte) (state idleState, surplus []byte) {
	if o.Conn == o.socket {
		return peek(o.socket, buf[:peeked])
	}
	// TLS may have read more than one record, and keeps what was not asked for: a read
	// whose time is up gives that and does not touch the socket.
	if state, surplus = o.read(buf, time.Unix(1, 0)); state != idleSilent {
		return state, surplus
	}
	if state, _ = peek(o.socket, buf[:peeked]); state != idleSurplus {
		return state, nil
	}
	// What lies there is encrypted: data, the end, or a message of TLS itself.
	if state, surplus = o.read(buf, time.Now().Add(recordWithin)); state == idleSilent {
		state = idleEnded // no more than a part of a record
	}
	return state, surplus
}

// recordWithin is how long the rest of a TLS record may take whose beginning is there.
const recordWithin = 20 * time.Millisecond

// read takes what comes until a time; idleSilent: nothing has.
func (o *opened) read(buf []byte, until time.Time) (idleState, []byte) {
	_ = o.SetReadDeadline(until)
	defer func() { _ = o.SetReadDeadline(time.Time{}) }()
	n, err := o.Read(buf)
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case n > 0:
		return idleStateOf(buf[:n]), buf[:n]
	case timeout != nil && timeout.Timeout():
		return idleSilent, nil
	}
	return idleEnded, nil
}

// settle tells the server that no request follows, and gives what it says all the same
// before it ends the connection, or the time is up.
func (o *opened) settle(buf []byte, within time.Duration) (surplus []byte) {
	endWrites := func(c net.Conn) {
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // where it cannot, the server has ended the connection
		}
	}
	if endWrites(o.Conn); o.Conn != o.socket {
		endWrites(o.socket)
	}
	if state, surplus := o.read(buf, time.Now().Add(within)); state == idleSurplus {
		return surplus
	}
	return nil
}
