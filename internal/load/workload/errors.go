package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A FieldError is a setting that cannot be used: which one, what is wrong with
// it, and what to do instead where that is plain.
type FieldError struct {
	Field   string
	Problem string
	Hint    string // may be empty
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// A LineError is a place in a file and what is wrong there.
type LineError struct {
	Name   string
	Line   int // from 1
	Column int // in bytes, from 1; 0: the whole line
	Err    error
}

func (e *LineError) Error() string {
	if e.Column > 0 {
		return fmt.Sprintf("%s:%d:%d: %v", e.Name, e.Line, e.Column, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.Name, e.Line, e.Err)
}

func (e *LineError) Unwrap() error { return e.Err }

// A FileError is a file that cannot be used. Lines holds the first broken ones;
// it is empty when the file fails as a whole, and then Err says why.
type FileError struct {
	Name  string
	Err   error // nil when Lines tell
	Lines []*LineError
	More  int  // broken lines beyond Lines
	Gave  bool // reading was given up, so More is a lower bound
	Hint  string
}

func (e *FileError) Error() string {
	if len(e.Lines) == 0 {
		return fmt.Sprintf("reading %s: %v", e.Name, e.Err)
	}
	var b strings.Builder
	for i, l := range e.Lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l.Error())
	}
	switch {
	case e.Gave:
		fmt.Fprintf(&b, "\nand %d more, where reading was given up", e.More)
	case e.More > 0:
		fmt.Fprintf(&b, "\nand %d more", e.More)
	}
	return b.String()
}

// Unwrap lets errors.As reach the lines and errors.Is the cause.
func (e *FileError) Unwrap() []error {
	var all []error
	if e.Err != nil {
		all = append(all, e.Err)
	}
	for _, l := range e.Lines {
		all = append(all, l)
	}
	return all
}

// syntax checks that raw is one JSON value in UTF-8. The offset of what is
// wrong is from 0; -1 when it has none.
func syntax(raw []byte) (offset int, err error) {
	if !utf8.Valid(raw) {
		for at := 0; at < len(raw); {
			r, size := utf8.DecodeRune(raw[at:])
			if r == utf8.RuneError && size == 1 {
				return at, fmt.Errorf("byte 0x%02x is not UTF-8", raw[at])
			}
			at += size
		}
	}
	if json.Valid(raw) {
		return -1, nil
	}
	var v json.RawMessage // the slower way, which tells where
	return offsetOf(json.Unmarshal(raw, &v))
}

// offsetOf takes the position out of encoding/json's errors: they count the
// bytes read, the offending one included.
func offsetOf(err error) (int, error) {
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return max(int(s.Offset)-1, 0), err
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return max(int(t.Offset)-1, 0), err
	}
	return -1, err
}
