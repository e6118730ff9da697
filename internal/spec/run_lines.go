package spec

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// quickLook decodes lines one after the other with one decoder.
type quickLook struct {
	rest []byte
	fed  int64
	dec  *json.Decoder
}

func newQuickLook() *quickLook {
	q := &quickLook{}
	q.reset()
	return q
}

func (q *quickLook) reset() {
	q.rest, q.fed, q.dec = nil, 0, json.NewDecoder(q)
	q.dec.DisallowUnknownFields()
}

// Read gives the decoder what is left of the line.
func (q *quickLook) Read(p []byte) (int, error) {
	if len(q.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, q.rest)
	q.rest = q.rest[n:]
	return n, nil
}

// read decodes a line, and reports whether it was one value and no more.
func (q *quickLook) read(line []byte, v any) bool {
	q.rest = line
	q.fed += int64(len(line))
	err := q.dec.Decode(v)
	if err == nil && q.dec.InputOffset() == q.fed {
		return true
	}
	q.reset()
	return false
}

// lineTeller gathers what is wrong with a file of lines, up to what somebody would
// read.
type lineTeller struct {
	file     string
	mistakes Mistakes
}

func (t *lineTeller) more() bool { return len(t.mistakes) < mostToldFile }

func (t *lineTeller) take(d *document) { t.mistakes = append(t.mistakes, d.sorted()...) }

func (t *lineTeller) wrong(line int, text, hint string) {
	t.mistakes = append(t.mistakes, Mistake{Line: line, Column: 1, Text: text, Hint: hint})
}

func (t *lineTeller) err() error {
	if len(t.mistakes) == 0 {
		return nil
	}
	if !t.more() {
		t.mistakes = append(t.mistakes[:mostToldFile:mostToldFile], Mistake{Line: t.mistakes[mostToldFile-1].Line, Column: 1, Text: "the rest is not told"})
	}
	return &BadFile{t.file, t.mistakes}
}

// sorted is all that was wrong, in order.
func (d *document) sorted() Mistakes {
	d.mistakes.sort()
	return d.mistakes
}

// in is all that was wrong with a file, or nil.
func (d *document) in(file string) error {
	if d.err() == nil {
		return nil
	}
	return &BadFile{file, d.mistakes}
}

// lines reads a file line by line.
type lines struct {
	file fs.File
	in   *bufio.Reader
	line int // the last that was read
}

// openEither opens a file or its zipped form, and says which.
func openEither(files fs.FS, name *string) (*lines, error) {
	_, missing := fs.Stat(files, *name)
	if _, err := fs.Stat(files, *name+".gz"); err == nil {
		if missing == nil {
			return nil, badFile(*name, "is there, and so is its zipped form", "take one of the two away")
		}
		*name += ".gz"
	}
	in, err := openLines(files, *name)
	if err != nil {
		return nil, notRead(*name, err, "an episode is whole or not there: take its folder away, or bring the file back")
	}
	return in, nil
}

func openLines(files fs.FS, name string) (*lines, error) {
	f, err := openRegular(files, name)
	if err != nil {
		return nil, err
	}
	var from io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(bufio.NewReaderSize(f, 64<<10))
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("not gzip: %w", err)
		}
		from = z
	}
	return &lines{file: f, in: bufio.NewReaderSize(from, maxLine+1)}, nil
}

func (l *lines) close() { _ = l.file.Close() } // it was only read

// next is the next line, without its end, and whether it has one.
func (l *lines) next(t *lineTeller) (line []byte, whole, ok bool) {
	line, err := l.in.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0:
		return nil, false, false
	case errors.Is(err, bufio.ErrBufferFull):
		t.wrong(l.line+1, "the line is longer than 1 MiB", "")
		return nil, false, false
	case err != nil && !errors.Is(err, io.EOF):
		t.wrong(l.line+1, "the file ends badly: "+plainError(err), "")
		return nil, false, false
	case l.line == maxLines:
		t.wrong(l.line+1, fmt.Sprintf("more than %d lines", maxLines), "")
		return nil, false, false
	}
	l.line++
	if err != nil {
		return line, false, true
	}
	return line[:len(line)-1], true, true
}

// whole is the next line of a file in which every line is.
func (l *lines) whole(t *lineTeller) ([]byte, bool) {
	line, whole, ok := l.next(t)
	if ok && !whole {
		t.wrong(l.line, "the last line is cut off", "")
		return nil, false
	}
	return line, ok
}

// openRegular opens a file that is one. A pipe by its name would never end.
func openRegular(files fs.FS, name string) (fs.File, error) {
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("no regular file")
	}
	return files.Open(name)
}

// readWhole reads a file that is one document.
func readWhole(files fs.FS, name, hint string) ([]byte, error) {
	f, err := openRegular(files, name)
	if err != nil {
		return nil, notRead(name, err, hint)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxJSON+1))
	switch {
	case err != nil:
		return nil, notRead(name, err, "")
	case len(data) > maxJSON:
		return nil, badFile(name, "is larger than 64 MiB", "")
	case len(bytes.TrimSpace(data)) == 0:
		return nil, badFile(name, "is empty", hint)
	}
	return data, nil
}

func notRead(name string, err error, hint string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return badFile(name, "is missing", hint)
	}
	return badFile(name, plainError(err), "")
}

// plainError is an error without the path, which is told already.
func plainError(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err.Error()
	}
	return err.Error()
}
