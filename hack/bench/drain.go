//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// drainOptions are those of both drains.
type drainOptions struct {
	addr        netip.AddrPort
	concurrency int
	requests    int
	request     []byte
}

// drained is what a drain prints.
type drained struct {
	Requests int `json:"requests"`
	Events   int `json:"events"`
	Reads    int `json:"reads"`
}

func parseDrain(name string, args []string, stderr io.Writer) (drainOptions, time.Duration, error) {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	target := fs.String("url", "", "the server's base URL: http, an address of this machine")
	model := fs.String("model", "truth", "model's name")
	concurrency := fs.Int("concurrency", 64, "connections")
	requests := fs.Int("request-count", 512, "requests in all")
	in := fs.Int("input", 128, "words in the prompt")
	out := fs.Int("output", 128, "tokens to ask for")
	limit := fs.Duration("max-time", 10*time.Minute, "give up after this long")
	if err := fs.Parse(args); err != nil {
		return drainOptions{}, 0, err
	}
	u, err := url.Parse(*target)
	if err != nil {
		return drainOptions{}, 0, err
	}
	addr, err := netip.ParseAddrPort(u.Host)
	if err != nil || !addr.Addr().IsLoopback() {
		return drainOptions{}, 0, fmt.Errorf("--url %q: want http://127.0.0.1:PORT", *target)
	}
	if *concurrency < 1 || *requests < *concurrency {
		return drainOptions{}, 0, errors.New("want --concurrency of at least 1 and a --request-count of at least that")
	}
	body, err := json.Marshal(map[string]any{
		"model":    *model,
		"messages": []map[string]string{{"role": "user", "content": strings.TrimSpace(strings.Repeat("word ", *in))}},
		"stream":   true, "stream_options": map[string]bool{"include_usage": true},
		"temperature": 0, "max_tokens": *out, "min_tokens": *out, "ignore_eos": true,
	})
	if err != nil {
		return drainOptions{}, 0, err
	}
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nhost: %s\r\ncontent-type: application/json\r\naccept: text/event-stream\r\ncontent-length: %d\r\n\r\n%s",
		u.Host, len(body), body)
	return drainOptions{addr, *concurrency, *requests, request}, *limit, nil
}

// counter counts the events of one connection's answers in its bytes as they
// come, and sees the end of an answer. It parses nothing.
type counter struct {
	events int
	begun  bool
	tail   [len(terminal)]byte // the last bytes, in case the end is split
}

// terminal is what an answer ends in: the end of an event's chunk, and the
// last chunk.
const terminal = "\r\n0\r\n\r\n"

var errNotOK = errors.New("an answer is not a 200")

// feed takes the bytes of a read and reports whether an answer ended with it.
func (c *counter) feed(b []byte) (done bool, err error) {
	if !c.begun {
		c.begun = true
		if !bytes.HasPrefix(b, []byte("HTTP/1.1 200")) {
			line, _, _ := bytes.Cut(b, []byte("\r\n"))
			return false, fmt.Errorf("%w: %q", errNotOK, line)
		}
	}
	// An event may be split between its two line ends.
	if c.tail[len(terminal)-1] == '\n' && b[0] == '\n' {
		c.events++
	}
	c.events += bytes.Count(b, []byte("\n\n"))
	if len(b) >= len(terminal) {
		copy(c.tail[:], b[len(b)-len(terminal):])
	} else {
		copy(c.tail[:], c.tail[len(b):])
		copy(c.tail[len(terminal)-len(b):], b)
	}
	if string(c.tail[:]) == terminal {
		c.begun = false
		c.tail = [len(terminal)]byte{}
		return true, nil
	}
	return false, nil
}

// drainCommand is the floor: one thread, one epoll, one buffer.
func drainCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, limit, err := parseDrain("drain", args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	got, err := drain(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(got)
}

func drain(ctx context.Context, o drainOptions) (got drained, err error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return got, err
	}
	defer unix.Close(epoll)
	counters := map[int32]*counter{}
	defer func() {
		for fd := range counters {
			_ = unix.Close(int(fd))
		}
	}()
	for range o.concurrency {
		fd, err := dialRaw(o.addr)
		if err != nil {
			return got, fmt.Errorf("connecting to %s: %w", o.addr, err)
		}
		counters[int32(fd)] = &counter{}
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return got, err
		}
	}
	sent := 0
	for fd := range counters {
		if err := writeAll(int(fd), o.request); err != nil {
			return got, err
		}
		sent++
	}
	buf := make([]byte, 64<<10)
	ready := make([]unix.EpollEvent, 512)
	for looked := time.Now(); got.Requests < o.requests; {
		n, err := waitRaw(epoll, ready)
		if err != nil {
			return got, err
		}
		// Let the signal handler and the timer run now and then.
		if time.Since(looked) > time.Second {
			looked = time.Now()
			runtime.Gosched()
			if ctx.Err() != nil {
				return got, ctx.Err()
			}
		}
		for _, ev := range ready[:n] {
			size, err := readRaw(int(ev.Fd), buf)
			if err != nil {
				return got, err
			}
			if size == 0 {
				return got, errors.New("the server closed a connection")
			}
			got.Reads++
			c := counters[ev.Fd]
			done, err := c.feed(buf[:size])
			if err != nil {
				return got, err
			}
			if !done {
				continue
			}
			got.Requests++
			if sent < o.requests {
				sent++
				if err := writeAll(int(ev.Fd), o.request); err != nil {
					return got, err
				}
			}
		}
	}
	for _, c := range counters {
		got.Events += c.events
	}
	return got, nil
}

func dialRaw(addr netip.AddrPort) (int, error) {
	family, sa := unix.AF_INET, unix.Sockaddr(nil)
	if addr.Addr().Is4() {
		sa = &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	} else {
		family, sa = unix.AF_INET6, &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, sa); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1), unix.SetNonblock(fd, true))
}

// waitRaw, readRaw and writeAll tell the scheduler nothing. To hand the
// processor on and take it back would cost as much again for every event, and
// there is nobody else to run: the floor must not have that in it.
func waitRaw(epoll int, ready []unix.EpollEvent) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&ready[0])), uintptr(len(ready)),
		1000, 0, 0)
	if errno == unix.EINTR {
		return 0, nil
	}
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func readRaw(fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func writeAll(fd int, b []byte) error {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return errno
	}
	if int(n) != len(b) {
		return errors.New("the socket did not take a whole request")
	}
	return nil
}

// drainConnCommand does the same with a goroutine a connection.
func drainConnCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, limit, err := parseDrain("drain-conn", args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	got, err := drainConns(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(got)
}

func drainConns(ctx context.Context, o drainOptions) (drained, error) {
	conns := make([]net.Conn, o.concurrency)
	for i := range conns {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", o.addr.String())
		if err != nil {
			return drained{}, err
		}
		defer c.Close()
		conns[i] = c
	}
	// A deadline in the past ends all reads once the context is done.
	stop := context.AfterFunc(ctx, func() {
		for _, c := range conns {
			_ = c.SetDeadline(time.Unix(1, 0))
		}
	})
	defer stop()
	var (
		wg      sync.WaitGroup
		tickets atomic.Int64
		got     = make([]drained, len(conns))
		errs    = make([]error, len(conns))
	)
	for i, conn := range conns {
		wg.Go(func() { errs[i] = drainConn(conn, o, &tickets, &got[i]) })
	}
	wg.Wait()
	var sum drained
	for _, g := range got {
		sum.Requests += g.Requests
		sum.Events += g.Events
		sum.Reads += g.Reads
	}
	return sum, errors.Join(errs...)
}

func drainConn(conn net.Conn, o drainOptions, tickets *atomic.Int64, got *drained) error {
	var c counter
	buf := make([]byte, 4<<10)
	for tickets.Add(1) <= int64(o.requests) {
		if _, err := conn.Write(o.request); err != nil {
			return err
		}
		for done := false; !done; {
			n, err := conn.Read(buf)
			if err != nil {
				return err
			}
			got.Reads++
			if done, err = c.feed(buf[:n]); err != nil {
				return err
			}
		}
		got.Requests++
	}
	got.Events = c.events
	return nil
}
