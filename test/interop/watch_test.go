//go:build linux

package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aicr/internal/spec"
)

const (
	period = time.Second // between two samples of a source

	// A scrape begins within a period, give or take its jitter, and is given up
	// before another has passed; the rest is for a busy machine.
	noticed = 2*period + 500*time.Millisecond
)

// watcher is aicr watch at work on a stack.
type watcher struct {
	p      *process
	list   string // the file of the workers' pages, which it reads again
	read   chan struct{}
	stderr bytes.Buffer

	mu   sync.Mutex
	seen []sighting
	bad  []string // lines that are no samples and no events
}

// sighting is a sample, and when the test got it.
type sighting struct {
	spec.Sample
	at time.Time
}

// watch observes the frontend and the workers that the stack has, and those that
// are listed later.
func (s *stack) watch(t *testing.T) *watcher {
	t.Helper()
	w := &watcher{list: filepath.Join(t.TempDir(), "workers.txt"), read: make(chan struct{})}
	s.listWorkers(t, w)
	w.p = &process{name: "watch", done: make(chan struct{})}
	w.p.cmd = exec.Command(program, "watch", "--url", s.url, "--worker-metrics", w.list, "--interval", period.String(), "-o", "jsonl", "--quiet")
	w.p.cmd.Env, w.p.cmd.Stderr = bare(s.dir), &w.stderr
	out, in, err := os.Pipe() // not the command's own, which would be closed before its end is read
	if err != nil {
		t.Fatal(err)
	}
	w.p.cmd.Stdout = in
	if err := w.p.start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	go func() {
		defer close(w.read)
		defer out.Close()
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			w.take(lines.Bytes())
		}
	}()
	t.Cleanup(func() {
		w.p.kill()
		<-w.read
	})
	return w
}

// listWorkers tells the watcher of every worker that there is.
func (s *stack) listWorkers(t *testing.T, w *watcher) {
	t.Helper()
	var pages []string
	for _, worker := range s.workers {
		pages = append(pages, worker.metrics+"\n")
	}
	if err := os.WriteFile(w.list, []byte(strings.Join(pages, "")), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (w *watcher) take(line []byte) {
	now := time.Now()
	var kind struct{ Source, Kind string }
	sample := sighting{at: now}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := json.Unmarshal(line, &kind); err != nil || kind.Source == "" && kind.Kind == "" {
		w.bad = append(w.bad, string(line))
		return
	}
	if kind.Kind != "" {
		return // an event
	}
	if err := json.Unmarshal(line, &sample.Sample); err != nil {
		w.bad = append(w.bad, string(line))
		return
	}
	w.seen = append(w.seen, sample)
}

// end interrupts the watcher and gives all that it saw.
func (w *watcher) end(t *testing.T) series {
	t.Helper()
	if err := w.p.signal(syscall.SIGINT); err != nil {
		t.Fatalf("the watcher ended early: %s\n%s", w.p.ended(), &w.stderr)
	}
	select {
	case <-w.p.done:
	case <-time.After(patience):
		t.Fatal("the watcher does not end when it is interrupted")
	}
	<-w.read
	if code := w.p.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("interrupted, aicr watch exits with %d, want 130\n%s", code, &w.stderr)
	}
	if len(w.bad) > 0 {
		t.Errorf("neither samples nor events: %q", w.bad)
	}
	return w.seen
}

// series are sightings in the order of their coming.
type series []sighting

// of are those of one source, by where it is asked.
func (s series) of(url string) series {
	instance := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/metrics")
	return s.where(func(x sighting) bool { return x.Instance == instance })
}

func (s series) between(from, to time.Time) series {
	return s.where(func(x sighting) bool { return x.at.After(from) && x.at.Before(to) })
}

func (s series) gaps() series    { return s.where(func(x sighting) bool { return x.Gap != "" }) }
func (s series) answers() series { return s.where(func(x sighting) bool { return x.Gap == "" }) }

func (s series) where(keep func(sighting) bool) series {
	return slices.DeleteFunc(slices.Clone(s), func(x sighting) bool { return !keep(x) })
}

// first is the first of them, which has to be there.
func (s series) first(t *testing.T, what string) sighting {
	t.Helper()
	if len(s) == 0 {
		t.Fatalf("%s: no sample", what)
	}
	return s[0]
}

// goesOn checks that a source was sampled all the time between two instants, each
// period, and answered: always but once, since the machine is shared with others.
func (s series) goesOn(t *testing.T, what string, from, to time.Time) {
	t.Helper()
	last, gaps := from, 0
	for _, x := range s.between(from, to) {
		if x.Gap != "" {
			if gaps++; gaps > 1 {
				t.Errorf("%s: a gap %s after the fault: %s", what, x.at.Sub(from).Round(time.Millisecond), x.Gap)
			}
		}
		if between := x.at.Sub(last); between > noticed {
			t.Errorf("%s: nothing for %s", what, between.Round(time.Millisecond))
		}
		last = x.at
	}
	if rest := to.Sub(last); rest > noticed {
		t.Errorf("%s: nothing for the last %s", what, rest.Round(time.Millisecond))
	}
}

// grown is by how much a worker's value grew from its first to its last sample
// that has it.
func (s series) grown(value func(*spec.WorkerSample) *float64) (by float64, known bool) {
	var first, last *float64
	for _, x := range s {
		if x.Worker == nil {
			continue
		}
		if v := value(x.Worker); v != nil {
			if first == nil {
				first = v
			}
			last = v
		}
	}
	if first == nil {
		return 0, false
	}
	return *last - *first, true
}

func generated(w *spec.WorkerSample) *float64 { return w.Generated }

// pace is a worker's tokens a second for each request that it runs.
func (s series) pace() float64 {
	var tokens, ran float64
	var last *sighting
	for i, x := range s {
		if x.Worker == nil || x.Worker.Generated == nil || x.Worker.Running == nil {
			last = nil // across a gap nobody knows what ran
			continue
		}
		if last != nil {
			tokens += *x.Worker.Generated - *last.Worker.Generated
			ran += (*x.Worker.Running + *last.Worker.Running) / 2 * float64(x.T-last.T) / 1e9
		}
		last = &s[i]
	}
	return tokens / ran
}

// await waits for one more answer of a source.
func (w *watcher) await(t *testing.T, url string) {
	t.Helper()
	w.awaitWhere(t, url, func(x sighting) bool { return x.Gap == "" })
}

// awaitWhere waits for a sample of a source, from now on, that is as wanted.
func (w *watcher) awaitWhere(t *testing.T, url string, wanted func(sighting) bool) {
	t.Helper()
	since := time.Now()
	eventually(t, patience, func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(series(w.seen).of(url).between(since, time.Now()).where(wanted)) == 0 {
			return fmt.Errorf("no such sample of %s since", url)
		}
		return nil
	})
}
