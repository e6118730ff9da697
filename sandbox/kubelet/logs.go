package kubelet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
)

// logFile is what a process wrote: lines, each with the time when it came.
type logFile struct {
	path string

	mu    sync.Mutex
	file  *os.File
	over  bool
	newer chan struct{} // closed when there is more, or no more
}

func newLog(path string) (*logFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &logFile{path: path, file: f, newer: make(chan struct{})}, nil
}

// The longest line that is kept together.
const longestLine = 16 << 10

// copy takes the lines of a stream until it ends.
func (l *logFile) copy(from io.Reader) {
	r := bufio.NewReaderSize(from, longestLine)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			l.write(line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (l *logFile) write(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	// A full disk must not stop the program that writes.
	_, _ = l.file.Write(append(time.Now().UTC().AppendFormat(nil, stampLayout+" "), wholeLine(line)...))
	close(l.newer)
	l.newer = make(chan struct{})
}

func wholeLine(line []byte) []byte {
	if bytes.HasSuffix(line, []byte("\n")) {
		return line
	}
	return append(bytes.Clone(line), '\n')
}

// Times have all their digits, so that they can be cut off.
const stampLayout = "2006-01-02T15:04:05.000000000Z07:00"

var stampLength = len("2006-01-02T15:04:05.000000000Z")

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.over = true
		_ = l.file.Close()
		close(l.newer)
	}
}

func (l *logFile) remove() {
	l.close()
	_ = os.Remove(l.path)
}

// progress is closed when there is more than there was; over says that there will be no more.
func (l *logFile) progress() (newer <-chan struct{}, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newer, l.over
}

// tail is the end of the log, without times.
func (l *logFile) tail(lines, size int) string {
	data, err := os.ReadFile(l.path)
	if err != nil {
		return ""
	}
	all := bytes.SplitAfter(data, []byte("\n"))
	if n := len(all); n > 0 && len(all[n-1]) == 0 {
		all = all[:n-1]
	}
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	var out strings.Builder
	for _, line := range all {
		out.Write(cutStamp(line))
	}
	text := out.String()
	if len(text) > size {
		text = text[len(text)-size:]
	}
	return strings.ToValidUTF8(text, "�")
}

func cutStamp(line []byte) []byte {
	if len(line) <= stampLength {
		return nil
	}
	return line[stampLength+1:]
}

// logReader gives a log as a client wants it.
type logReader struct {
	ctx     context.Context
	log     *logFile
	file    *os.File
	r       *bufio.Reader
	o       api.ContainerLogOpts
	since   time.Time
	left    int // bytes; below 0: no limit
	pending []byte
	partial []byte
}

// GetContainerLogs serves a container's log.
func (n *node) GetContainerLogs(ctx context.Context, namespace, pod, name string, o api.ContainerLogOpts) (io.ReadCloser, error) {
	c, err := n.container(namespace, pod, name)
	if err != nil {
		return nil, err
	}
	c.r.mu.Lock()
	logs := c.logs
	waiting, ended := c.state.Waiting, c.last.Terminated != nil
	c.r.mu.Unlock()
	if o.Previous && !(waiting != nil && ended) { // while none runs, the last that did is the previous
		if len(logs) < 2 {
			return nil, errdefs.InvalidInputf("previous terminated container %q in pod %q not found", name, pod)
		}
		logs = logs[:len(logs)-1]
	}
	if len(logs) == 0 {
		reason := "ContainerCreating"
		if waiting != nil {
			reason = waiting.Reason
		}
		return nil, errdefs.InvalidInputf("container %q in pod %q is waiting to start: %s", name, pod, reason)
	}
	return openLog(ctx, logs[len(logs)-1], o)
}

func openLog(ctx context.Context, l *logFile, o api.ContainerLogOpts) (io.ReadCloser, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, errdefs.AsNotFound(err)
	}
	r := &logReader{ctx: ctx, log: l, file: f, o: o, since: o.SinceTime, left: -1}
	if o.SinceSeconds > 0 {
		r.since = time.Now().Add(-time.Duration(o.SinceSeconds) * time.Second)
	}
	if o.LimitBytes > 0 {
		r.left = o.LimitBytes
	}
	if o.Tail > 0 {
		if err := seekTail(f, o.Tail); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	r.r = bufio.NewReader(f)
	return r, nil
}

// seekTail goes to where the last lines begin.
func seekTail(f *os.File, lines int) error {
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	const step = 32 << 10
	block := make([]byte, step)
	for found := 0; at > 0; {
		size := min(at, step)
		at -= size
		if _, err := f.ReadAt(block[:size], at); err != nil {
			return err
		}
		for i := size - 1; i >= 0; i-- {
			if block[i] == '\n' {
				if found++; found > lines {
					_, err := f.Seek(at+i+1, io.SeekStart)
					return err
				}
			}
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

func (r *logReader) Close() error { return r.file.Close() }

func (r *logReader) Read(to []byte) (int, error) {
	for len(r.pending) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		newer, over := r.log.progress()
		line, err := r.r.ReadBytes('\n')
		r.partial = append(r.partial, line...)
		if err == nil {
			r.pending, r.partial = r.wanted(r.partial), nil
			continue
		}
		if !errors.Is(err, io.EOF) {
			return 0, err
		}
		if !r.o.Follow || over {
			return 0, io.EOF
		}
		select {
		case <-newer:
		case <-r.ctx.Done():
			return 0, io.EOF
		}
	}
	if r.left > 0 && len(r.pending) > r.left {
		r.pending = r.pending[:r.left]
	}
	n := copy(to, r.pending)
	r.pending = r.pending[n:]
	if r.left > 0 {
		r.left -= n
	}
	return n, nil
}

// wanted is what the client wants of a line.
func (r *logReader) wanted(line []byte) []byte {
	if len(line) <= stampLength {
		return nil
	}
	if !r.since.IsZero() {
		if at, err := time.Parse(stampLayout, string(line[:stampLength])); err == nil && at.Before(r.since) {
			return nil
		}
	}
	if r.o.Timestamps {
		return line
	}
	return cutStamp(line)
}
