package load_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"aicr/internal/load"
	"aicr/internal/sim/truth"
)

// A server that closes a connection without a word has not failed, whenever it
// does: the next request opens another. Here the end comes in the same packet as
// the answer, so that it is there before the next request on any machine.
func TestEndedConnectionsAreNotUsed(t *testing.T) {
	const count = 4
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s",
		len(twoTokens), twoTokens)
	front := newFront(t, tlsHTTP, truth.Script{}, nil) // for its certificate
	for name, secure := range map[string]bool{"event loop": false, "goroutines": false, "TLS": true} {
		for lane, main := range map[string]load.Schedule{
			"at once": {Users: 1, Count: count}, "later": {Rate: 100, Count: count},
		} {
			t.Run(name+"/"+lane, func(t *testing.T) {
				url := rawServer(t, func(c net.Conn) {
					under := &abrupt{TCPConn: c.(*net.TCPConn), t: t}
					c = under
					if secure {
						c = tls.Server(under, front.TLS)
					}
					defer c.Close()
					r, err := http.ReadRequest(bufio.NewReader(c))
					if err != nil {
						return // the look-up's
					}
					_, _ = io.Copy(io.Discard, r.Body)
					under.last = true
					_, _ = io.WriteString(c, answer)
				})
				o := front.options(tlsHTTP)
				o.URL = url
				if secure {
					o.URL = strings.Replace(url, "http://", "https://", 1)
				}
				p := planTo(t, newTarget(t, o), main, 2)
				p.Wire = ways[name].wire
				res := mustRun(t, p)
				if got := countClasses(res.Log); got[load.OK] != count {
					t.Errorf("%v %v", got, res.Log.Details)
				}
				for r := range res.Log.All() {
					if r.Has(load.Reused) || r.Connect == 0 {
						t.Errorf("a connection that had ended: %+v", r)
					}
				}
			})
		}
	}
}

// abrupt is a connection whose last bytes and end go out in one packet.
type abrupt struct {
	*net.TCPConn
	t    *testing.T
	last bool // what is written from now on is the last
	held []byte
}

func (c *abrupt) Write(b []byte) (int, error) {
	if !c.last {
		return c.TCPConn.Write(b)
	}
	c.held = append(c.held, b...)
	return len(b), nil
}

func (c *abrupt) Close() error {
	if len(c.held) > 0 {
		control(c.t, c.TCPConn, func(fd int) error {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 1); err != nil {
				return err
			}
			if _, err := unix.Write(fd, c.held); err != nil {
				return err
			}
			return unix.Shutdown(fd, unix.SHUT_WR)
		})
	}
	return c.TCPConn.Close()
}

// control does something to a socket's descriptor.
func control(t *testing.T, c syscall.Conn, f func(fd int) error) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Error(err)
		return
	}
	if outer := raw.Control(func(fd uintptr) { err = f(int(fd)) }); outer != nil || err != nil {
		t.Error(outer, err)
	}
}

// A connection that cannot be had in time is a failure to connect on every
// wire, not a slow answer.
func TestConnectTimeoutIsConnect(t *testing.T) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	control(t, l, func(fd int) error { return unix.Listen(fd, 0) }) // room for the fewest
	target := newTarget(t, load.TargetOptions{URL: "http://" + l.Addr().String()})
	fillBacklog(t, l)
	for _, wire := range plainWires {
		t.Run(wireNames[wire], func(t *testing.T) {
			p := planTo(t, target, load.Schedule{Users: 2, Count: 4}, 2)
			p.Wire, p.Timeout = wire, 20*ms
			res := mustRun(t, p)
			if diff := cmp.Diff(map[load.Class]int{load.Connect: 4}, countClasses(res.Log)); diff != "" {
				t.Errorf("%v\n%s", res.Log.Details, diff)
			}
			for r := range res.Log.All() {
				if r.Sent != 0 {
					t.Errorf("sent without a connection: %+v", r)
				}
			}
		})
	}
}

// fillBacklog takes the places of a listener from which none is accepted.
func fillBacklog(t *testing.T, l *net.TCPListener) {
	t.Helper()
	waiting := func() (n, room int) {
		control(t, l, func(fd int) error {
			// Of a listener the kernel tells these two in the place of packets.
			info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			if err == nil {
				n, room = int(info.Unacked), int(info.Sacked)
			}
			return err
		})
		return n, room
	}
	for range 16 {
		before, room := waiting()
		if before > room {
			return
		}
		c, err := net.DialTimeout("tcp", l.Addr().String(), hang)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		eventually(t, "the connection waits to be accepted", func() bool { n, _ := waiting(); return n > before })
	}
	t.Skip("this kernel lets everybody in")
}
