package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"aicr/internal/load/aiperf"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

// artifacts is the folder that results go to. It is found to be writable before
// the load, and made only when there is something to put into it, so that a run
// that comes to nothing leaves nothing behind, however it ends. Every file in it
// appears by a rename, whole.
type artifacts struct {
	dir   string
	names map[string]string
	level string
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
	if err := out.rehearse(); err != nil {
		return nil, misuse("name a folder that can be written with --output-artifact-dir", "preparing the output folder: %w", err)
	}
	return out, nil
}

// rehearse does all that could go wrong when the results are written, and takes
// it back.
func (o *artifacts) rehearse() error {
	var made []string // the innermost first
	for d := filepath.Clean(o.dir); ; d = filepath.Dir(d) {
		if _, err := os.Lstat(d); err == nil || filepath.Dir(d) == d { // a link that leads nowhere is there, too
			break
		}
		made = append(made, d)
	}
	defer func() {
		for _, d := range made {
			_ = syscall.Rmdir(d) // fails, as it should, when somebody has put something into it or in its place
		}
	}()
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(o.dir, ".aicr-*")
	if err != nil {
		return err
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
	for _, name := range slices.Sorted(maps.Values(o.names)) {
		if info, err := os.Stat(filepath.Join(o.dir, name)); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a folder", filepath.Join(o.dir, name))
		}
	}
	return nil
}

// write writes every file. One that fails does not keep the others from being
// written.
func (o *artifacts) write(r *benchReport, doc *spec.Bench) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return unmeasured("", "writing the results: %w", err)
	}
	var wrong []error
	put := func(kind string, content func(io.Writer) error) {
		path := filepath.Join(o.dir, o.names[kind])
		before := doc.Files
		doc.Files = append(doc.Files, path) // first: the document lists its own file too
		if err := writeWhole(path, r.job.confidentialFile(content)); err != nil {
			doc.Files = before
			wrong = append(wrong, unmeasured("", "writing the results: %w", err))
		}
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

// confidentialFile is the content of a file of JSON without what the server was told in
// confidence, and without what steers the terminal that it is written to.
func (j *benchJob) confidentialFile(content func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		masked := j.mask.JSONWriter(redact.JSONWriter(w))
		return errors.Join(content(masked), masked.Close())
	}
}

// writeWhole writes a file beside its place and renames it there, so that
// nobody ever reads half of it.
func writeWhole(path string, content func(io.Writer) error) error {
	return writeWholeAs(path, 0o666, content)
}

func writeWholeAs(path string, mode os.FileMode, content func(io.Writer) error) (err error) {
	f, err := os.OpenFile(besides(path), os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
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
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// besides is a name beside a path that nothing has: what is made there gets the rights
// that the user's mask leaves it, as a file of the final name would.
func besides(path string) string {
	return filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s-%016x", filepath.Base(path), rand.Uint64()))
}
