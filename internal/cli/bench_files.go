package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"aicr/internal/load/aiperf"
	"aicr/internal/spec"
)

// artifacts is the folder that results go to. It is found to be writable before
// the load, and every file in it appears by a rename, whole.
type artifacts struct {
	dir     string
	made    []string // folders that were not there before, the innermost first
	names   map[string]string
	level   string
	written bool
}

const (
	profileFile = "profile"
	recordsFile = "records"
	benchFile   = "bench"
)

func openArtifacts(dir, prefix, level string) (*artifacts, error) {
	out := &artifacts{dir: dir, level: level, names: map[string]string{
		profileFile: "profile_export_aiperf.json", recordsFile: "profile_export.jsonl", benchFile: "bench.json"}}
	if prefix != "" {
		if filepath.Base(prefix) != prefix {
			return nil, misuse("name the folder with --output-artifact-dir", "--profile-export-prefix: %q is not a plain file name", prefix)
		}
		out.names = map[string]string{profileFile: prefix + ".json", recordsFile: prefix + ".jsonl", benchFile: prefix + "_bench.json"}
	}
	hint := "name a folder that can be written with --output-artifact-dir"
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || filepath.Dir(d) == d {
			break
		}
		out.made = append(out.made, d)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, misuse(hint, "making the output folder: %w", err)
	}
	probe, err := os.CreateTemp(dir, ".aicr-*")
	if err != nil {
		out.abandon()
		return nil, misuse(hint, "writing to the output folder: %w", err)
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	return out, nil
}

// abandon removes the folders that were made for nothing.
func (o *artifacts) abandon() {
	if o.written {
		return
	}
	for _, d := range o.made {
		_ = os.Remove(d) // fails, as it should, when something is in it
	}
}

// write writes every file. One that fails does not keep the others from being
// written.
func (o *artifacts) write(r *benchReport, doc *spec.Bench) error {
	var wrong []error
	put := func(kind string, content func(io.Writer) error) {
		path := filepath.Join(o.dir, o.names[kind])
		if err := writeWhole(path, content); err != nil {
			wrong = append(wrong, unmeasured("", "writing the results: %w", err))
			return
		}
		o.written = true
		doc.Files = append(doc.Files, path)
	}
	meta := r.meta()
	put(profileFile, func(w io.Writer) error {
		return aiperf.Summarize(r.res.Log, r.res.Gaps, meta, r.options()).WriteJSON(w)
	})
	if o.level != "summary" {
		put(recordsFile, func(w io.Writer) error {
			return aiperf.WriteRecords(w, r.res.Log, meta, r.options(), r.job.options.keep == "tokens")
		})
	}
	put(benchFile, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(doc)
	})
	return errors.Join(wrong...)
}

// writeWhole writes a file beside its place and renames it there, so that
// nobody ever reads half of it.
func writeWhole(path string, content func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	b := bufio.NewWriterSize(f, 256<<10)
	if err = content(b); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err = b.Flush(); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
