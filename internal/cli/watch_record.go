package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"aicr/internal/redact"
	"aicr/internal/spec"
)

// watchRecord keeps an observation in a folder: run.json as every run has it,
// series.jsonl and events.jsonl. It has no episodes, since there was no load of
// ours. Lines are written as they come, so that what is there after a kill is all
// that was seen up to a second before. One without a folder keeps nothing.
type watchRecord struct {
	dir    string
	run    spec.Run
	files  map[string]*os.File
	buffer map[string]*bufio.Writer
	lost   error // the first thing that could not be written
}

func (a *app) openWatch(o *watchOptions, start time.Time) (*watchRecord, error) {
	r := &watchRecord{files: map[string]*os.File{}, buffer: map[string]*bufio.Writer{}}
	if o.record == "" {
		return r, nil
	}
	r.dir = o.record
	if err := os.MkdirAll(filepath.Dir(r.dir), 0o755); err != nil {
		return nil, unwritten(err)
	}
	if err := os.Mkdir(r.dir, 0o755); errors.Is(err, os.ErrExist) {
		return nil, misuse("name another folder with --record, or remove this one", "%s is there already", r.dir)
	} else if err != nil {
		return nil, unwritten(err)
	}
	r.run = spec.Run{Schema: spec.RunSchema, ID: filepath.Base(r.dir), Version: a.env.Build.Version, Command: a.commandLine("watch"),
		Target: spec.Target{URL: redact.URL(o.url)}, Start: start.UTC().Format(time.RFC3339Nano)}
	if err := r.writeRun(); err != nil {
		return nil, unwritten(err)
	}
	for _, name := range []string{"series.jsonl", "events.jsonl"} {
		f, err := os.OpenFile(filepath.Join(r.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, unwritten(err)
		}
		r.files[name], r.buffer[name] = f, bufio.NewWriterSize(f, 64<<10)
	}
	return r, nil
}

func (r *watchRecord) writeRun() error {
	return (&recorder{dir: r.dir}).writeJSON("run.json", r.run)
}

// append adds a line to a file of the record. An event is written at once, since
// there may be none after it.
func (r *watchRecord) append(name string, v any) {
	w := r.buffer[name]
	if w == nil || r.lost != nil {
		return
	}
	line, err := jsonLine(v)
	if r.lost = err; err == nil {
		_, r.lost = w.Write(line)
	}
	if name == "events.jsonl" && r.lost == nil {
		r.lost = w.Flush()
	}
}

// flush writes out what there is: what a kill may take along is what came since.
func (r *watchRecord) flush() {
	for _, w := range r.buffer {
		if r.lost == nil {
			r.lost = w.Flush()
		}
	}
}

// close ends the record and tells what could not be written.
func (r *watchRecord) close(end time.Time) error {
	if r.dir == "" {
		return nil
	}
	for name, f := range r.files {
		if r.lost == nil {
			r.lost = r.buffer[name].Flush()
		}
		if err := f.Close(); r.lost == nil {
			r.lost = err
		}
	}
	r.run.End = end.UTC().Format(time.RFC3339Nano)
	if err := r.writeRun(); r.lost == nil {
		r.lost = err
	}
	return r.lost
}

// jsonLine is a document on one line.
func jsonLine(v any) ([]byte, error) {
	line, err := json.Marshal(v)
	if err != nil {
		return nil, notJSON(v, err)
	}
	return append(redact.JSON(line), '\n'), nil
}

// stream prints lines from a goroutine of its own, so that a reader who stops
// reading stops neither the observation nor the record.
type stream struct {
	lines chan []byte
	done  chan struct{}
	lost  int
}

// Of a stream: how many lines may wait, and how long its end is waited for.
const (
	streamLines = 1 << 14
	streamEnd   = 2 * time.Second
)

func startStream(w io.Writer) *stream {
	s := &stream{lines: make(chan []byte, streamLines), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for line := range s.lines {
			_, _ = w.Write(line) // the product writer remembers what could not be written
		}
	}()
	return s
}

// line prints a document, unless nobody has read for long.
func (s *stream) line(v any) {
	if s == nil {
		return
	}
	line, err := jsonLine(v)
	if err != nil {
		s.lost++
		return
	}
	select {
	case s.lines <- line:
	default:
		s.lost++
	}
}

// end waits for what is still to be printed, and says how many lines were not.
func (s *stream) end() int {
	if s == nil {
		return 0
	}
	close(s.lines)
	select {
	case <-s.done:
	case <-time.After(streamEnd):
		s.lost += len(s.lines) + 1
	}
	return s.lost
}
