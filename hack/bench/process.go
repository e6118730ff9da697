//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aicr/internal/sim/truth"
)

// process is a child in a process group of its own, so that it can be ended
// with all its children and nobody else.
type process struct {
	cmd    *exec.Cmd
	output *tail
}

// spent is what a process and its children used.
type spent struct {
	cpu, user time.Duration
	rss       int64 // bytes
	err       error
	lastWords string
}

func startProcess(at place, env, command []string) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), output: &tail{}}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	// Children that outlive the client may hold its output open.
	p.cmd.WaitDelay = time.Second
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return p, at.start(p.cmd)
}

// wait lets the process run to its end, or to that of the context. For a
// family the memory of all its processes is added up, by looking now and then.
func (p *process) wait(ctx context.Context, family bool) spent {
	group := p.cmd.Process.Pid
	stop := context.AfterFunc(ctx, func() { _ = unix.Kill(-group, unix.SIGKILL) })
	defer stop()
	done := make(chan struct{})
	peak := make(chan int64, 1)
	go func() { peak <- watchMemory(done, group, family) }()
	err := p.cmd.Wait()
	close(done)
	s := spent{err: err, lastWords: p.output.String()}
	if ctx.Err() != nil {
		s.err = fmt.Errorf("given up: %w", ctx.Err())
	}
	if state := p.cmd.ProcessState; state != nil {
		s.add(state.SysUsage().(*syscall.Rusage))
	}
	// What the client left behind is ours now, as their subreaper.
	_ = unix.Kill(-group, unix.SIGKILL)
	for {
		var usage syscall.Rusage
		pid, err := syscall.Wait4(-group, nil, 0, &usage)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
		s.add(&usage)
	}
	s.rss = max(s.rss, <-peak)
	return s
}

func (s *spent) add(u *syscall.Rusage) {
	user, system := time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
	s.user += user
	s.cpu += user + system
	s.rss = max(s.rss, u.Maxrss<<10)
}

// reapOrphans makes this process the parent of what its children leave behind.
func reapOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// watchMemory gives the peak of the summed resident memory of a group of
// processes. A single process's own peak comes with its usage, for nothing.
func watchMemory(done <-chan struct{}, group int, family bool) (peak int64) {
	if !family {
		return 0
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return peak
		case <-tick.C:
			peak = max(peak, groupMemory(group))
		}
	}
}

// groupMemory sums the resident memory of a group. Pages that two of its
// processes share are counted twice, as everybody does.
func groupMemory(group int) (sum int64) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it is gone
		}
		// The name, in brackets, may hold anything; the fields come after it.
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) < 22 || fields[2] != strconv.Itoa(group) {
			continue
		}
		pages, err := strconv.ParseInt(fields[21], 10, 64)
		if err == nil {
			sum += pages * int64(os.Getpagesize())
		}
	}
	return sum
}

// tail keeps the end of what a client says.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	const keep = 2000
	t.b = append(t.b, p...)
	if len(t.b) > 2*keep {
		t.b = t.b[:copy(t.b, t.b[len(t.b)-keep:])]
	}
	return len(p), nil
}

func (t *tail) String() string {
	lines := strings.Split(strings.TrimSpace(string(t.b)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

// server is a truth server in a process of its own.
type server struct {
	cmd *exec.Cmd
	url string
}

func (o options) startServer(ctx context.Context) (*server, error) {
	s := &server{cmd: exec.Command(o.self, "serve", "--max-time", (o.runTime + time.Minute).String(),
		"--seed", strconv.FormatUint(o.script.Seed, 10), "--model", o.script.Model,
		"--ttft", o.script.TTFT.String(), "--ttft-spread", o.script.TTFTSpread.String(), "--itl", o.script.ITL.String())}
	s.cmd.Stderr = os.Stderr
	// A Ctrl-C is for the harness, which then ends the server.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := (place{core: o.serverCore, nice: o.nice, fifo: o.fifo}).start(s.cmd); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.stop()
		return nil, err
	}
	s.url = strings.TrimSpace(line)
	_, err = s.truth(ctx, "") // it answers
	if err != nil {
		s.stop()
	}
	return s, err
}

// stop ends the server and gives the CPU-seconds that it used.
func (s *server) stop() float64 {
	_ = s.cmd.Process.Signal(unix.SIGTERM)
	_ = s.cmd.Wait() // how it ended does not matter any more
	if s.cmd.ProcessState == nil {
		return 0
	}
	return (s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()).Seconds()
}

func (s *server) truth(ctx context.Context, query string) (t truth.Truth, err error) {
	// The answer is wanted even when the client has used up its time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/truth"+query, nil)
	if err != nil {
		return t, err
	}
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := tr.RoundTrip(req)
	if err != nil {
		return t, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return t, err
	}
	return t, json.Unmarshal(b, &t)
}

// awaitQuiet waits until the machine is nearly idle, at most so long.
func awaitQuiet(ctx context.Context, limit time.Duration) {
	const enough = 0.10
	for end := time.Now().Add(limit); time.Now().Before(end); {
		before := busySeconds()
		select {
		case <-ctx.Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
		if busySeconds()-before < enough*0.5*float64(runtime.NumCPU()) {
			return
		}
	}
}

// busySeconds is how long the cores have been in use so far; without a core, or
// with one of -1, all of them.
func busySeconds(cores ...int) float64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	all := len(cores) == 0 || slices.Contains(cores, -1)
	var ticks int64
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		number, ok := strings.CutPrefix(fields[0], "cpu")
		core, err := strconv.Atoi(number)
		if !ok || err != nil || !all && !slices.Contains(cores, core) {
			continue
		}
		for i, f := range fields[1:min(len(fields), 9)] { // guests are in user time already
			if n, err := strconv.ParseInt(f, 10, 64); err == nil && i != 3 && i != 4 { // idle, and waiting for a disk
				ticks += n
			}
		}
	}
	return float64(ticks) / 100 // a tick is a hundredth of a second everywhere
}
