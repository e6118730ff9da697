package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

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
	flush  time.Time
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
		Target: spec.Target{URL: withoutQuery(o.url)}, Start: start.UTC().Format(time.RFC3339Nano)}
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

// flushEvery is how much of a record a kill may take along.
const flushEvery = time.Second

// append adds a line to a file of the record.
func (r *watchRecord) append(name string, v any) {
	w := r.buffer[name]
	if w == nil || r.lost != nil {
		return
	}
	_, err := w.Write(jsonLine(v))
	if now := time.Now(); err == nil && now.Sub(r.flush) >= flushEvery {
		r.flush = now
		for _, w := range r.buffer {
			err = errors.Join(err, w.Flush())
		}
	}
	r.lost = err
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

// jsonLine is a document on one line. What it holds is numbers and text, so that
// it can always be written.
func jsonLine(v any) []byte {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(line, '\n')
}
