// Package sse reads a server-sent event stream from whatever pieces the
// network delivers it in.
//
// Scanner is all there is: Feed it the bytes of each read, and it hands every
// event that has become whole to a Sink. It keeps to the event stream rules of
// the HTML standard (LF, CRLF and CR line ends, comments, multi-line data, a
// byte order mark), may be cut between any two bytes, and copies nothing when
// an event arrives in one piece.
package sse

import (
	"bytes"
	"fmt"
)

// Sink takes events. The slices are the Scanner's: they are gone when Event
// returns.
type Sink interface {
	Event(name, data []byte)
}

// MaxEvent is the largest line or event that is accepted, unless Scanner.Most says
// less; a stream that exceeds it is not one that any model server sends.
const MaxEvent = 4 << 20

// TooLongError says that a line or an event exceeded so many bytes.
type TooLongError struct{ Most int }

func (e *TooLongError) Error() string {
	return fmt.Sprintf("event larger than %d KiB", e.Most>>10)
}

// Scanner splits a stream into events. The zero value is ready to use.
type Scanner struct {
	Most int // bytes of the largest line or event that is accepted; 0: MaxEvent

	line []byte // the beginning of a line whose end has not come yet
	data []byte // the data lines of the event so far, when they had to be copied
	name []byte

	current []byte // data of the event so far: a view of the fed bytes, or data
	begun   bool   // the event has a data line
	owned   bool   // current is data
	afterCR bool   // the last byte was a CR, so an LF that follows belongs to it
	mark    int8   // bytes of a byte order mark seen; -1: past the beginning
}

// Reset makes the Scanner ready for a new stream. It keeps its memory, except what an
// event of unusual size took.
func (s *Scanner) Reset() {
	*s = Scanner{Most: s.Most, line: reusable(s.line), data: reusable(s.data), name: reusable(s.name)}
}

// mostReused is the largest buffer, in bytes, that is kept from one stream to the next.
const mostReused = 64 << 10

func reusable(b []byte) []byte {
	if cap(b) > mostReused {
		return nil
	}
	return b[:0]
}

// within returns an error if so many bytes are more than a line or an event may have.
func (s *Scanner) within(n int) error {
	most := s.Most
	if most == 0 {
		most = MaxEvent
	}
	if n > most {
		return &TooLongError{most}
	}
	return nil
}

const byteOrderMark = "\xef\xbb\xbf"

// Feed takes the next bytes of the stream. An event whose blank line never
// comes is never delivered, as the standard demands.
func (s *Scanner) Feed(b []byte, to Sink) error {
	for s.mark >= 0 && len(b) > 0 {
		if b[0] != byteOrderMark[s.mark] {
			s.line = append(s.line, byteOrderMark[:s.mark]...)
			s.mark = -1
			break
		}
		b = b[1:]
		if s.mark++; int(s.mark) == len(byteOrderMark) {
			s.mark = -1
		}
	}
	for len(b) > 0 {
		if s.afterCR {
			s.afterCR = false
			if b[0] == '\n' {
				b = b[1:]
				continue
			}
		}
		end := lineEnd(b)
		if end < 0 {
			if err := s.within(len(s.line) + len(b)); err != nil {
				return err
			}
			s.line = append(s.line, b...)
			break
		}
		line, carried := b[:end], false
		if len(s.line) > 0 {
			s.line = append(s.line, line...)
			line, carried = s.line, true
			s.line = s.line[:0]
		}
		s.afterCR = b[end] == '\r'
		b = b[end+1:]
		if err := s.take(line, carried, to); err != nil {
			return err
		}
	}
	if s.begun && !s.owned { // what current views is the caller's again
		s.own()
	}
	return nil
}

// lineEnd finds the first LF or CR.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf < 0 {
		return bytes.IndexByte(b, '\r')
	}
	if cr := bytes.IndexByte(b[:lf], '\r'); cr >= 0 {
		return cr
	}
	return lf
}

func (s *Scanner) own() {
	s.data = append(s.data[:0], s.current...)
	s.current, s.owned = s.data, true
}

// take interprets one line. A carried line lies in s.line, which the next
// carried line will overwrite.
func (s *Scanner) take(line []byte, carried bool, to Sink) error {
	if len(line) == 0 {
		if s.begun {
			to.Event(s.name, s.current)
		}
		s.name = s.name[:0]
		s.current, s.begun, s.owned = nil, false, false
		return nil
	}
	field, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(field) {
	case "data":
		if !s.begun {
			s.current, s.begun = value, true
			if carried {
				s.own()
			}
			return nil
		}
		if err := s.within(len(s.current) + len(value)); err != nil {
			return err
		}
		if !s.owned {
			s.own()
		}
		s.data = append(append(s.data, '\n'), value...)
		s.current = s.data
	case "event":
		s.name = append(s.name[:0], value...)
	}
	return nil // comments, id, retry and unknown fields say nothing about a token
}
