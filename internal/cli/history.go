package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"aicr/internal/judge"
	"aicr/internal/spec"
)

// history is the file of earlier runs that --history names. It is read before
// the load and gets one line after the verdict. A nil one is no history, and
// does nothing.
type history struct {
	app     *app
	path    string
	entries []spec.HistoryEntry
}

// maxHistory is the largest history that is read: some ten thousand runs.
const maxHistory = 32 << 20

const historyHint = "name another file with --history, or repair this one"

// openHistory reads a history and finds out that it can be written to. One that
// is not there yet is empty, and is not made before there is a line for it.
func (a *app) openHistory(path string) (*history, error) {
	if path == "" {
		return nil, nil
	}
	h := &history{app: a, path: path}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		if err := canCreateBeside(path); err != nil {
			return nil, misuse("name a file that can be written with --history", "preparing the history: %w", err)
		}
		return h, nil
	}
	if err != nil {
		return nil, misuse("name a file that can be written with --history", "reading the history: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := lock(f, false); err != nil {
		return nil, misuse(historyHint, "reading the history: %w", err)
	}
	data, err := readHistory(f)
	if err != nil {
		return nil, misuse(historyHint, "reading the history: %w", err)
	}
	known, err := spec.DecodeHistory(data)
	if err != nil {
		return nil, mistakes(path, err)
	}
	if known.Torn > 0 {
		a.say("history %s: the last line was cut short, by a crash or a full disk; that run does not count", path)
	}
	h.entries = known.Entries
	return h, nil
}

func readHistory(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no plain file", f.Name())
	case info.Size() > maxHistory:
		return nil, fmt.Errorf("%s is larger than %d MiB", f.Name(), maxHistory>>20)
	}
	return io.ReadAll(f)
}

func canCreateBeside(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".aicr-*")
	if err != nil {
		return err
	}
	_ = f.Close()
	return os.Remove(f.Name())
}

// prior is what the history says of stalls, and in how many minutes of load, for a
// run that begins at that time.
func (h *history) prior(d spec.Deployment, at time.Time) ([]spec.PriorStall, float64) {
	if h == nil {
		return nil, 0
	}
	return judge.PriorStalls(h.entries, d, at), judge.PriorMinutes(h.entries, d, at)
}

// add appends a run and says what the history shows with it. A run that is there
// already is not added again.
func (h *history) add(e spec.HistoryEntry) (*spec.Trend, error) {
	if h == nil {
		return nil, nil
	}
	entries, err := h.append(e)
	if err != nil {
		return nil, unmeasured("the verdict stands; the run is not in the history", "writing the history: %w", err)
	}
	h.entries = entries
	return judge.Trend(entries, e), nil
}

// append adds a line for a run that has none, and gives all runs.
func (h *history) append(e spec.HistoryEntry) (_ []spec.HistoryEntry, err error) {
	line, err := e.Line()
	if err != nil {
		return nil, fmt.Errorf("%s: run %s: %w", h.path, e.Run, err)
	}
	f, err := os.OpenFile(h.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }() // and the lock with it
	if err := lock(f, true); err != nil {
		return nil, err
	}
	data, err := readHistory(f) // others may have written since it was read
	if err != nil {
		return nil, err
	}
	known, err := spec.DecodeHistory(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.path, err)
	}
	if slices.ContainsFunc(known.Entries, func(known spec.HistoryEntry) bool { return known.Same(&e) }) {
		h.app.say("history %s: run %s is there already and is not added again", h.path, e.Run)
		return known.Entries, nil
	}
	size := len(data) - known.Torn
	if known.Torn > 0 { // nobody else is writing: what is there was left by a crash
		if err := f.Truncate(int64(size)); err != nil {
			return nil, err
		}
	}
	if size > 0 && !bytes.HasSuffix(data[:size], []byte{'\n'}) {
		line = append([]byte{'\n'}, line...)
	}
	if _, err = f.Write(line); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Truncate(int64(size)))
	}
	return append(known.Entries, e), nil
}
