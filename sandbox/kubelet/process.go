package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"aicr/sandbox/shim"
)

const (
	termSignal = syscall.SIGTERM
	killSignal = syscall.SIGKILL
)

// process is one that runs in a container.
type process struct {
	cmd       *exec.Cmd
	pidfd     *os.File
	log       *logFile
	ended     chan struct{}
	drained   chan struct{} // closed: its last words are in the log
	unhealthy chan struct{} // closed: a probe wants it restarted
	failOnce  sync.Once
	oom       atomic.Bool
	code      int32 // once it has ended
}

func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

func (p *process) outOfMemory() {
	p.oom.Store(true)
	p.signal(killSignal)
}

func (p *process) fail() { p.failOnce.Do(func() { close(p.unhealthy) }) }

func (p *process) reason() string {
	switch {
	case p.oom.Load():
		return "OOMKilled"
	case p.code == 0:
		return "Completed"
	}
	return "Error"
}

// starter starts processes, all from one thread: they are killed when the thread that
// started them ends, so that none outlives the sandbox.
type starter struct {
	jobs chan func()
	end  chan struct{}
}

func newStarter() *starter { return &starter{make(chan func()), make(chan struct{})} }

func (s *starter) run(ctx context.Context) {
	runtime.LockOSThread()
	defer close(s.end)
	for {
		select {
		case <-ctx.Done():
			return
		case job := <-s.jobs:
			job()
		}
	}
}

func (s *starter) start(cmd *exec.Cmd) (err error) {
	done := make(chan struct{})
	select {
	case <-s.end:
		return errors.New("the sandbox stops")
	case s.jobs <- func() { err = cmd.Start(); close(done) }:
		<-done
		return err
	}
}

// How long what a process left behind may still write after its end.
const drainWithin = 2 * time.Second

// shim starts a container's program, and returns when it runs.
func (s *starter) shim(program, file string, spec *shim.Spec, log *logFile) (*process, error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, data, 0o600); err != nil { // the environment may hold secrets
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, outR.Close(), outW.Close())
	}
	failedR, failedW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, outR.Close(), outW.Close(), errR.Close(), errW.Close())
	}
	pidfd := -1
	cmd := exec.Command(program, "shim", file)
	cmd.Env = []string{}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = outW, errW, []*os.File{failedW}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNS, PidFD: &pidfd}
	err = s.start(cmd)
	for _, f := range []*os.File{outW, errW, failedW} {
		_ = f.Close()
	}
	if err != nil {
		return nil, errors.Join(err, outR.Close(), errR.Close(), failedR.Close())
	}
	p := &process{cmd: cmd, log: log, ended: make(chan struct{}), drained: make(chan struct{}), unhealthy: make(chan struct{})}
	if pidfd >= 0 {
		p.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	}
	var copying sync.WaitGroup
	copying.Go(func() { log.copy(outR) })
	copying.Go(func() { log.copy(errR) })
	// The other end is closed when the program was started, and written to when not.
	failure, _ := io.ReadAll(failedR)
	_ = failedR.Close()
	go func() {
		_ = cmd.Wait()
		p.code = exitCode(cmd.ProcessState)
		p.signal(killSignal) // what it has started ends with it
		close(p.ended)
		whole := make(chan struct{})
		go func() { copying.Wait(); close(whole) }()
		select {
		case <-whole:
		case <-time.After(drainWithin): // somebody left its session
			_, _ = outR.Close(), errR.Close()
			<-whole
		}
		_ = outR.Close()
		_ = errR.Close()
		log.close()
		close(p.drained)
	}()
	if len(failure) > 0 {
		<-p.drained
		return nil, errors.New("failed to create containerd task: failed to create shim task: OCI runtime create failed: " + strings.TrimSpace(string(failure)))
	}
	return p, nil
}

func exitCode(s *os.ProcessState) int32 {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int32(w.Signal())
	}
	return int32(s.ExitCode())
}
