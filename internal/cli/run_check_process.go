package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"aicr/internal/checks/graph"
	"aicr/internal/spec"
)

// Where a process is told to end, it has this long before it is ended; and this is how
// often a line is printed when there is nothing new.
const (
	endWithin  = 8 * time.Second
	aliveEvery = 10 * time.Second
)

// loadEnd is how the process that loads has ended, in a word and in words. Without a word
// it was somebody who ended it.
type loadEnd struct{ reason, text string }

const killedLoad = "Killed"

// load runs the process that loads, and passes on what it says.
func (k *checkKeeper) load(ctx context.Context) loadEnd {
	o := k.options
	args := []string{"run", "inference-perf", "--inner", "--given", o.given, "--results", o.results,
		"--service-account", o.account, "--termination-log", o.message}
	self := k.app.env.self
	if self == nil {
		self = runSelf
	}
	said := &keptWords{}
	lines, out := io.Pipe()
	var told *graph.LoadLine
	var passing sync.WaitGroup
	passing.Go(func() { told = k.pass(lines) })
	err := self(ctx, args, out, io.MultiWriter(said, k.app.env.Stderr))
	_ = out.Close() // of a pipe in memory: it cannot fail
	passing.Wait()
	if _, notStarted := errors.AsType[*startError](err); notStarted {
		return loadEnd{"NotStarted", err.Error()}
	}
	end := endOfLoad(err, said.words(), told)
	if ctx.Err() != nil && end.reason == killedLoad { // told to end, it had not begun to listen, or did not end in time
		return loadEnd{text: errInterrupted.Error()}
	}
	return end
}

// startError says that a process is not there at all.
type startError struct{ cause error }

func (e *startError) Error() string {
	return "the process that loads could not be started: " + e.cause.Error()
}

// runSelf runs this program as another process, to its end. When ctx ends, it is told to.
func runSelf(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return &startError{err}
	}
	cmd := exec.Command(program)
	cmd.Args = append([]string{os.Args[0]}, args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	endsWithUs(cmd)
	// A thread that ends would take the child with it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return &startError{err}
	}
	over := make(chan struct{})
	var ending sync.WaitGroup
	ending.Go(func() { endInTime(ctx, cmd.Process, over) })
	err = cmd.Wait()
	close(over)
	ending.Wait()
	return err
}

// endInTime ends a process when ctx does: politely, then not.
func endInTime(ctx context.Context, p *os.Process, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	_ = p.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-over:
	case <-time.After(endWithin):
		_ = p.Kill() // it may be gone
	}
}

// longestLine of a log: what is longer is not one of ours.
const longestLine = 1 << 20

// pass prints the lines of the process that loads as ours, keeps the termination message
// up to date with them, and gives the last error that there was among them.
func (k *checkKeeper) pass(from io.Reader) (failed *graph.LoadLine) {
	incoming := make(chan []byte)
	go func() {
		defer close(incoming)
		r := bufio.NewReaderSize(from, longestLine)
		for {
			line, err := r.ReadSlice('\n')
			if len(line) > 0 {
				incoming <- bytes.Clone(line)
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
		}
	}()
	quiet := time.NewTimer(aliveEvery)
	defer quiet.Stop()
	doing := "nothing was loaded yet"
	for {
		quiet.Reset(aliveEvery)
		select {
		case text, ok := <-incoming:
			if !ok {
				return failed
			}
			var l graph.LoadLine
			if json.Unmarshal(text, &l) != nil || l.Kind == "" {
				l = graph.LoadLine{Kind: graph.LineNote, Text: strings.TrimSpace(string(text))}
			}
			switch l.Kind {
			case graph.LineStage:
				k.stage, doing = strings.TrimSpace(fmt.Sprintf("%s %s", l.Stage, numbered(l.Number))), l.Text
				k.message(graph.LoadMessage{Reason: doing})
			case graph.LineJudged:
				k.message(graph.LoadMessage{Reason: l.Text})
			case graph.LineError:
				failed = &l
				continue // it is told with how it ended
			}
			k.say(l)
		case <-quiet.C:
			k.say(graph.LoadLine{Kind: graph.LineAlive, Text: doing})
		}
	}
}

func numbered(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// endOfLoad words how the process that loads has ended. It is asked where there is no
// verdict.
func endOfLoad(err error, said string, told *graph.LoadLine) loadEnd {
	failed, ok := errors.AsType[*exec.ExitError](err)
	status, unix := syscall.WaitStatus(0), false
	if ok {
		status, unix = failed.Sys().(syscall.WaitStatus)
	}
	switch {
	case err != nil && !ok:
		return loadEnd{"Lost", "the process that loads was lost: " + err.Error()}
	case unix && status.Signaled() && status.Signal() == syscall.SIGKILL:
		return loadEnd{killedLoad, "the process that loads was killed: the kernel does that when the memory is used up"}
	case unix && status.Signaled():
		return loadEnd{killedLoad, "the process that loads was ended by " + status.Signal().String()}
	case crashOf(said) != "":
		return loadEnd{"Panic", "the program itself has crashed: " + crashOf(said)}
	case told != nil:
		return loadEnd{told.Reason, told.Text}
	case ok:
		return loadEnd{"Exit", fmt.Sprintf("the process that loads ended with code %d and without a verdict", failed.ExitCode())}
	}
	return loadEnd{"NoResult", "the process that loads ended without a verdict"}
}

// crashOf finds the first line of what Go prints when a program crashes.
func crashOf(said string) string {
	for line := range strings.Lines(said) {
		for _, sign := range []string{"panic: ", "fatal error: ", "runtime: out of memory", "SIGQUIT: ", "SIGABRT: ", "SIGSEGV: "} {
			if strings.HasPrefix(line, sign) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

// keptWords keeps the beginning of a crash, and otherwise the end of what was printed.
type keptWords struct {
	mu   sync.Mutex
	text []byte
}

const mostWords = 64 << 10

func (l *keptWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if len(l.text) > mostWords && crashOf(string(l.text[:mostWords])) == "" {
		l.text = l.text[len(l.text)-mostWords/2:]
	}
	l.text = l.text[:min(len(l.text), 2*mostWords)]
	return len(p), nil
}

func (l *keptWords) words() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// linePrinter numbers lines and prints them.
type linePrinter struct {
	mu sync.Mutex
	n  int
}

func (p *linePrinter) write(w io.Writer, l graph.LoadLine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	l.N, l.T = p.n, math.Round(l.T*1000)/1000
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(&l); err != nil { // a figure that is no number
		b.Reset()
		_ = e.Encode(&graph.LoadLine{N: l.N, T: l.T, Kind: l.Kind, Text: l.Text, Number: l.Number, Stage: l.Stage}) // words alone
	}
	_, _ = w.Write(b.Bytes()) // a log that nobody can take is no reason not to measure
}

// briefVerdict is what of a verdict is worth a line.
func briefVerdict(v *spec.Verdict) *spec.Verdict {
	b := &spec.Verdict{Schema: v.Schema, Verdict: v.Verdict, Reason: v.Reason, Profile: v.Profile, Ledgers: v.Ledgers, Tests: v.Tests, Episodes: v.Episodes, LoadedS: v.LoadedS}
	for _, f := range v.Findings {
		b.Findings = append(b.Findings, spec.Finding{ID: f.ID, Severity: f.Severity, Workers: f.Workers, Summary: f.Summary})
	}
	return b
}
