package graph

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// What a record can be at most: an archive comes out of a pod, and what is in it may be
// anything.
const (
	mostArchived     = 20_000  // files
	largestArchived  = 4 << 30 // bytes of a file of lines
	largestDocument  = 64 << 20
	mostArchiveBytes = 8 << 30 // of all
	mostSpooled      = 4 << 30 // of the archive itself
	longestArchived  = 200     // bytes of a name
	deepestArchived  = 5       // folders
)

// The files of a run's folder, by how large one may be. Nothing else of an archive is
// taken: what is put into the folder beside them is somebody else's idea.
var (
	archivedDocuments = regexp.MustCompile(`^(?:run\.json|plan\.yaml|verdict\.json|episodes/[0-9]{3,6}/episode\.json|diagnostics/.+)$`)
	archivedLines     = regexp.MustCompile(`^(?:events\.jsonl|episodes/[0-9]{3,6}/(?:requests|series)\.jsonl(?:\.gz)?)$`)
)

// RecordLimitError says that a record is larger than any is.
type RecordLimitError struct {
	Name string // of the file that it is past the limit with; "": the archive
	Most int64  // bytes
}

func (e *RecordLimitError) Error() string {
	of := "the archive"
	if e.Name != "" {
		of = e.Name
	}
	return fmt.Sprintf("the archive is larger than any record: %s has more than %d MiB", of, e.Most>>20)
}

// WriteArchive writes a run's folder as an archive: its files in order of their names,
// without owners and times, so that the same folder gives the same bytes. What is hidden
// or half written is left out.
func WriteArchive(w io.Writer, folder fs.FS) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	err := fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), ".tmp"):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		return addArchived(t, folder, name)
	})
	if err != nil {
		return err
	}
	return errors.Join(t.Close(), z.Close())
}

func addArchived(t *tar.Writer, folder fs.FS, name string) error {
	f, err := folder.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o644, Format: tar.FormatPAX}); err != nil {
		return err
	}
	n, err := io.Copy(t, io.LimitReader(f, info.Size()))
	if err == nil && n < info.Size() {
		err = fmt.Errorf("%s became shorter while it was read", name)
	}
	return err
}

// ReadArchive reads an archive to its end, and gives each file of it. Nothing is given
// that could be written anywhere but below one folder; an archive that was cut off, has
// links, or is larger than any record is an error.
func ReadArchive(r io.Reader, each func(name string, r io.Reader) error) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("not an archive: %w", err)
	}
	z.Multistream(false)
	t := tar.NewReader(z)
	seen, total := map[string]bool{}, int64(0)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the archive is damaged or cut off: %w", err)
		}
		name, err := archived(h)
		if err != nil {
			return err
		}
		total += h.Size
		switch {
		case seen[name]:
			return fmt.Errorf("the archive has %s twice", name)
		case len(seen) >= mostArchived:
			return fmt.Errorf("the archive has more than %d files", mostArchived)
		case h.Size > largestOf(name):
			return &RecordLimitError{name, largestOf(name)}
		case total > mostArchiveBytes:
			return &RecordLimitError{"", mostArchiveBytes}
		}
		seen[name] = true
		if err := each(name, t); err != nil { // what it leaves of the file, Next reads
			return err
		}
	}
	// What follows is padding, and the checksum of all of it.
	if _, err := io.Copy(io.Discard, io.LimitReader(z, mostArchiveBytes)); err != nil {
		return fmt.Errorf("the archive is damaged or cut off: %w", err)
	}
	return nil
}

// largestOf is how large a file of that name may be.
func largestOf(name string) int64 {
	if archivedLines.MatchString(name) {
		return largestArchived
	}
	return largestDocument
}

// archived is the name of a file in an archive, if it is one that is taken.
func archived(h *tar.Header) (string, error) {
	name := h.Name
	parts := strings.Split(name, "/")
	switch {
	case h.Typeflag != tar.TypeReg:
		return "", fmt.Errorf("the archive has something that is no file: %q", sentence(name, 80))
	case !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00:"):
		return "", fmt.Errorf("the archive has a name that leads elsewhere: %q", sentence(name, 80))
	case len(name) > longestArchived || len(parts) > deepestArchived:
		return "", fmt.Errorf("the archive has a name that is too long: %q", sentence(name, 80))
	case slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, ".") }):
		return "", fmt.Errorf("the archive has a name that is hidden: %q", sentence(name, 80))
	case !archivedDocuments.MatchString(name) && !archivedLines.MatchString(name):
		return "", fmt.Errorf("the archive has a file that no run has: %q", sentence(name, 80))
	}
	return name, nil
}
