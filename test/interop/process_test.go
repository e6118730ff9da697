//go:build linux

package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a real process with a group of its own, which ends with the test,
// or with the test program, however that ends.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
	err  error         // set by then
}

// launch starts a process whose output goes to a log, of which the end is told
// when the test fails.
func launch(t *testing.T, name, logs string, env []string, argv ...string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(logs, name+".log"), done: make(chan struct{})}
	file, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, file, file
	if err := p.start(); err != nil {
		file.Close()
		t.Fatalf("starting %s: %v", name, err)
	}
	t.Cleanup(func() {
		p.kill()
		file.Close()
		if t.Failed() {
			t.Logf("%s (%s) said last:\n%s", name, p.ended(), tail(p.log, 25))
		}
	})
	return p
}

// start runs the command in a group of its own. The kernel kills it when the
// thread that started it goes, so one is kept for it.
func (p *process) start() error {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	return <-started
}

// signal reaches the whole group.
func (p *process) signal(s syscall.Signal) error { return syscall.Kill(-p.cmd.Process.Pid, s) }

// kill ends the group, a stopped one too, and waits for it.
func (p *process) kill() {
	_ = p.signal(syscall.SIGKILL)
	<-p.done
}

// alive says whether the process has not ended.
func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) ended() string {
	if p.alive() {
		return "still there"
	}
	return p.cmd.ProcessState.String()
}

// tail is the end of a file.
func tail(file string, lines int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// finished is what a command that ran to its end left.
type finished struct {
	stdout, stderr string
	code           int
	wall           time.Duration
	cpu            time.Duration // with that of the processes it waited for
}

// running is a command on its way to its end.
type running struct {
	*process
	stdout, stderr bytes.Buffer
	begin          time.Time
}

// begin starts a command, which ends with the test at the latest.
func begin(t *testing.T, env []string, argv ...string) *running {
	t.Helper()
	r := &running{process: &process{name: filepath.Base(argv[0]), done: make(chan struct{})}, begin: time.Now()}
	r.cmd = exec.Command(argv[0], argv[1:]...)
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = env, &r.stdout, &r.stderr
	if err := r.start(); err != nil {
		t.Fatalf("starting %s: %v", r.name, err)
	}
	t.Cleanup(r.kill)
	return r
}

// wait waits for the end; what the command exits with is for the caller to judge.
// When the limit passes, its group is killed and the test fails.
func (r *running) wait(t *testing.T, limit time.Duration) finished {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(limit):
		r.kill()
		t.Fatalf("%s did not end within %s\n%s%s", strings.Join(r.cmd.Args, " "), limit, &r.stdout, &r.stderr)
	}
	r.kill() // what it may have left behind of its group
	return finished{
		stdout: r.stdout.String(), stderr: r.stderr.String(), code: r.cmd.ProcessState.ExitCode(),
		wall: time.Since(r.begin), cpu: r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime(),
	}
}

// finish runs a command to its end.
func finish(t *testing.T, limit time.Duration, env []string, argv ...string) finished {
	t.Helper()
	return begin(t, env, argv...).wait(t, limit)
}

// eventually asks until there is no error, and fails with the last one when the
// time is up.
func eventually(t *testing.T, limit time.Duration, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	last := errors.New("not asked yet")
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatal(fmt.Errorf("after %s: %w", limit, last))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
