package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// bom is the mark that some editors open a UTF-8 file with.
const bom = "\ufeff"

// A unit is one entry of a dataset and where it begins. Its bytes are good
// until the next one.
type unit struct {
	raw          []byte
	line, column int
	err          error // this entry cannot be read
	fatal        error // nor can anything after it
}

var errTooLong = errors.New("is too long")

// split yields the entries of a dataset: the lines that are not blank, or the
// elements of the one array that the file is. One of more than most bytes is an
// error, so that a file without line ends cannot fill the memory.
func split(r io.Reader, most int) iter.Seq[unit] {
	return func(yield func(unit) bool) {
		src := &source{r: bufio.NewReaderSize(r, 64<<10), most: most, line: 1, column: 1}
		if head, _ := src.r.Peek(len(bom)); string(head) == bom {
			_, _ = src.r.Discard(len(bom)) // just peeked: it is there
		}
		first, err := src.skipSpace()
		switch {
		case errors.Is(err, io.EOF):
		case err != nil:
			yield(unit{fatal: err})
		case first == '[':
			src.elements(yield)
		default:
			src.lines(yield)
		}
	}
}

// A source reads bytes and knows where it is.
type source struct {
	r            *bufio.Reader
	most         int // bytes of an entry
	line, column int // of the next byte
	buf          []byte
}

func (s *source) tooLong() error {
	return fmt.Errorf("%w: an entry has at most %d bytes", errTooLong, s.most)
}

func (s *source) next() (byte, error) {
	b, err := s.r.ReadByte()
	if err != nil {
		return 0, err
	}
	if s.column++; b == '\n' {
		s.line, s.column = s.line+1, 1
	}
	return b, nil
}

// skipSpace goes to the next byte that is not JSON's white space, and tells it.
func (s *source) skipSpace() (byte, error) {
	for {
		b, err := s.r.Peek(1)
		if err != nil {
			return 0, err
		}
		switch b[0] {
		case ' ', '\t', '\r', '\n':
			_, _ = s.next() // just peeked: it is there
		default:
			return b[0], nil
		}
	}
}

func (s *source) lines(yield func(unit) bool) {
	for column := s.column; ; column = 1 {
		u := unit{line: s.line, column: column}
		long, err := s.readLine()
		if err != nil && !errors.Is(err, io.EOF) {
			yield(unit{fatal: err})
			return
		}
		u.raw = bytes.TrimRight(s.buf, "\r\n")
		if long {
			u.err = s.tooLong()
		}
		if (long || len(bytes.TrimSpace(u.raw)) > 0) && !yield(u) {
			return
		}
		if err != nil {
			return
		}
		s.line++
	}
}

// readLine fills buf with the next line; one that is too long it passes over.
func (s *source) readLine() (long bool, err error) {
	s.buf = s.buf[:0]
	for {
		part, err := s.r.ReadSlice('\n')
		if len(s.buf)+len(part) > s.most {
			long, s.buf = true, s.buf[:0]
		}
		if !long {
			s.buf = append(s.buf, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return long, err
		}
	}
}

var errCut = errors.New("the array does not end: a bracket or a quote is missing")

// elements yields what stands between the commas of the file's one array.
// Whether it is JSON is not for it to say; it only needs to see where strings
// and brackets end.
func (s *source) elements(yield func(unit) bool) {
	_, _ = s.next() // the bracket that split has seen
	for n := 0; ; n++ {
		first, err := s.skipSpace()
		u := unit{line: s.line, column: s.column}
		if err == nil && first == ']' && n == 0 {
			_, _ = s.next()
			s.ending(yield)
			return
		}
		var end byte
		if err == nil {
			end, err = s.readElement()
		}
		u.raw = bytes.TrimRight(s.buf, " \t\r\n")
		switch {
		case errors.Is(err, io.EOF):
			u.err, u.raw = errCut, nil
			yield(u)
			return
		case errors.Is(err, errTooLong):
			u.err, u.raw = err, nil
			yield(u)
			return
		case err != nil:
			yield(unit{fatal: err})
			return
		case len(u.raw) == 0:
			u.err = errors.New("there is nothing between two commas, or before the end")
		}
		if !yield(u) {
			return
		}
		if end == ']' {
			s.ending(yield)
			return
		}
	}
}

// readElement fills buf up to the comma or the bracket that ends an element.
func (s *source) readElement() (end byte, err error) {
	s.buf = s.buf[:0]
	depth, quoted, escaped := 0, false, false
	for {
		b, err := s.next()
		if err != nil {
			return 0, err
		}
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = b == '\\', b != '"'
		case b == '"':
			quoted = true
		case b == '{' || b == '[':
			depth++
		case depth <= 0 && (b == ',' || b == ']'):
			return b, nil
		case b == '}' || b == ']':
			depth--
		}
		if len(s.buf) == s.most {
			return 0, s.tooLong()
		}
		s.buf = append(s.buf, b)
	}
}

// ending reports what follows the array, where nothing may.
func (s *source) ending(yield func(unit) bool) {
	switch b, err := s.skipSpace(); {
	case errors.Is(err, io.EOF):
	case err != nil:
		yield(unit{fatal: err})
	default:
		yield(unit{line: s.line, column: s.column, err: fmt.Errorf("%q after the end of the array", b)})
	}
}

// lineError places an error at an offset of text, which begins at a line and a
// column of its file.
func lineError(name string, text []byte, line, column, offset int, err error) *LineError {
	if offset < 0 {
		return &LineError{Name: name, Line: line, Err: err}
	}
	before := text[:min(offset, len(text))]
	if n := bytes.Count(before, []byte("\n")); n > 0 {
		line += n
		column = 1
		before = before[bytes.LastIndexByte(before, '\n')+1:]
	}
	return &LineError{Name: name, Line: line, Column: column + len(before), Err: err}
}
