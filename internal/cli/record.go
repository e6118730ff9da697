package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"aicr/internal/redact"
	"aicr/internal/spec"
)

// The files of a run.
const (
	runFile     = "run.json"
	planFile    = "plan.yaml"
	eventsFile  = "events.jsonl"
	verdictFile = "verdict.json"
	episodesDir = "episodes"
)

// recorder keeps a run in a folder, in the layout that every run has, as it
// happens: kill the program at any time, and what is there is whole. One without a
// folder keeps nothing.
type recorder struct {
	dir    string
	run    spec.Run
	events *os.File
	lost   error // why it cannot be kept any more
}

// openRun begins the record of a run in a new folder.
func openRun(dir string, run spec.Run, plan *spec.Plan) (*recorder, error) {
	r := &recorder{dir: dir, run: run}
	if dir == "" {
		return r, nil
	}
	if err := takenFolder(dir); err != nil {
		return nil, err
	}
	if err := r.begin(plan); err != nil {
		return nil, unwritten(err)
	}
	return r, nil
}

// begin makes the folder beside its place and renames it there: one that is there
// says of what it is.
func (r *recorder) begin(plan *spec.Plan) error {
	parent := filepath.Dir(r.dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	part := besides(r.dir)
	if err := os.Mkdir(part, 0o777); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(part) }() // it is gone when it was renamed
	err := os.Mkdir(filepath.Join(part, episodesDir), 0o777)
	if err == nil {
		err = writeText(filepath.Join(part, planFile), func() ([]byte, error) { return spec.EncodePlan(plan) })
	}
	if err == nil {
		err = writeJSONFile(filepath.Join(part, runFile), r.run)
	}
	if err == nil {
		r.events, err = os.OpenFile(filepath.Join(part, eventsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	}
	if err == nil {
		err = syncFolder(part)
	}
	if err == nil {
		_ = syscall.Rmdir(r.dir) // an empty one gives way, and nothing but a folder; what cannot be removed is told below
		err = os.Rename(part, r.dir)
	}
	if err == nil {
		err = syncFolder(parent)
	}
	return err
}

// replan writes the plan anew, before anything was measured by it.
func (r *recorder) replan(plan *spec.Plan) error {
	if r.dir == "" || r.lost != nil {
		return r.lost
	}
	if err := writeText(filepath.Join(r.dir, planFile), func() ([]byte, error) { return spec.EncodePlan(plan) }); err != nil {
		r.lost = unwritten(err)
	}
	return r.lost
}

// takenFolder says why a run cannot be kept there: something is.
func takenFolder(dir string) error {
	if info, err := os.Lstat(filepath.Clean(dir)); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return misuse("name with --run the folder that it leads to, or one that is not there yet", "%s is a symbolic link, which a run does not replace", dir)
	}
	there, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return misuse("name another folder with --run", "%w", err)
	case len(there) > 0:
		return misuse("name another folder with --run, or remove this one", "%s is there already", dir)
	}
	return nil
}

func unwritten(err error) error {
	return unmeasured(unwrittenHint(err, ""), "writing the record of a run: %w", err)
}

// Event appends what happened. A stage is a place to go on from, so that it is
// brought to the disk.
func (r *recorder) Event(e spec.Event) error {
	if r.dir == "" || r.lost != nil {
		return r.lost
	}
	var line bytes.Buffer
	err := writeLines(&line, []spec.Event{e})
	if err == nil {
		_, err = r.events.Write(line.Bytes()) // at once: a kill leaves no half of a line
	}
	if err == nil && e.Kind == spec.EventStage {
		err = r.events.Sync()
	}
	if err != nil {
		r.lost = unwritten(err)
	}
	return r.lost
}

// Episode writes a whole episode beside its place and renames it there.
func (r *recorder) Episode(e *spec.EpisodeRecord) error {
	if r.dir == "" || r.lost != nil {
		return r.lost
	}
	if err := r.writeEpisode(e); err != nil {
		r.lost = unwritten(err)
	}
	return r.lost
}

func (r *recorder) writeEpisode(e *spec.EpisodeRecord) error {
	part := besides(filepath.Join(r.dir, "episode"))
	if err := os.Mkdir(part, 0o777); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(part) }() // it is gone when it was renamed
	err := writeJSONFile(filepath.Join(part, "episode.json"), &e.Episode)
	if err == nil {
		err = writeWhole(filepath.Join(part, "requests.jsonl.gz"), func(w io.Writer) error { return writeZipped(w, e.Requests) })
	}
	if err == nil {
		err = writeWhole(filepath.Join(part, "series.jsonl.gz"), func(w io.Writer) error { return writeZipped(w, e.Series) })
	}
	if err == nil {
		err = syncFolder(part)
	}
	if err == nil {
		err = os.Rename(part, filepath.Join(r.dir, episodesDir, fmt.Sprintf("%03d", e.Episode.Number)))
	}
	if err == nil {
		err = syncFolder(filepath.Join(r.dir, episodesDir))
	}
	return err
}

// close says that the run is over, and what it means. The verdict comes last: where
// it is, all that it follows from is.
func (r *recorder) close(v *spec.Verdict, end time.Time) error {
	if r.dir == "" {
		return nil
	}
	err := errors.Join(r.events.Sync(), r.events.Close())
	if r.lost != nil {
		return r.lost
	}
	if err == nil {
		r.run.End = end.UTC().Format(time.RFC3339Nano)
		err = r.writeJSON(runFile, r.run)
	}
	if err == nil {
		err = r.writeJSON(verdictFile, v)
	}
	if err == nil {
		err = syncFolder(r.dir)
	}
	if err != nil {
		return unwritten(err)
	}
	return nil
}

// syncFolder brings the names of a folder to the disk, where the system can.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = f.Sync() // some file systems cannot, and a rename is in order on those too
	return f.Close()
}

func writeText(path string, text func() ([]byte, error)) error {
	data, err := text()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return writeWhole(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

func (r *recorder) writeJSON(name string, doc any) error {
	return writeJSONFile(filepath.Join(r.dir, name), doc)
}

func writeJSONFile(path string, doc any) error {
	return writeText(path, func() ([]byte, error) { return indentedJSON(doc) })
}

// indentedJSON is a document as every file of a run and -o json have it.
func indentedJSON(doc any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(doc); err != nil {
		return nil, notJSON(doc, err)
	}
	return redact.JSON(b.Bytes()), nil
}

func writeZipped[T any](w io.Writer, lines []T) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := writeLines(z, lines); err != nil {
		return err
	}
	return z.Close()
}

// writeLines writes one JSON object a line.
func writeLines[T any](w io.Writer, lines []T) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(redact.JSONWriter(b))
	e.SetEscapeHTML(false)
	for i := range lines {
		if err := e.Encode(&lines[i]); err != nil {
			return fmt.Errorf("line %d: %w", i+1, notJSON(&lines[i], err))
		}
	}
	return b.Flush()
}
