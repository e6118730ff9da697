package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"aicr/internal/report/layout"
)

// How often a status speaks: often enough to look alive on a terminal, seldom
// enough not to fill a log.
const (
	blockEvery = 100 * time.Millisecond
	lineEvery  = 5 * time.Second
)

// view is what a status shows. It is asked only when it is time to, so that a
// busy caller may update as often as it likes.
type view interface {
	Block(width int) []string // on a terminal
	Line() string             // in a log
}

// status shows how something long goes: a block of lines redrawn in place on a
// terminal, a plain line every few seconds elsewhere. Its methods may be called
// from several goroutines.
//
// After every write the cursor stands at the start of the line below the block
// and is never hidden: a program that dies at any point leaves the terminal as
// it should be.
type status struct {
	w      io.Writer
	term   Terminal
	now    func() time.Time
	onDone func()

	mu    sync.Mutex
	last  time.Time
	drawn []string // the block on the screen, top to bottom
	done  bool
}

func newStatus(w io.Writer, t Terminal, now func() time.Time) *status {
	// Nothing is due before the first interval has passed in a log; a terminal
	// shows the block at once.
	s := &status{w: w, term: t, now: now}
	if !t.IsTerminal {
		s.last = now()
	}
	return s
}

// Update shows the view, if it is time to.
func (s *status) Update(v view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := lineEvery
	if s.term.IsTerminal {
		every = blockEvery
	}
	if now := s.now(); !s.done && now.Sub(s.last) >= every {
		s.last = now
		if !s.term.IsTerminal {
			fmt.Fprintln(s.w, v.Line())
			return
		}
		width, _ := s.term.size()
		s.draw("", v.Block(width-1))
	}
}

// Line prints a line that stays, above the block.
func (s *status) Line(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.term.IsTerminal {
		fmt.Fprintln(s.w, line)
		return
	}
	s.draw(line+"\n", s.drawn)
}

// Done takes the block off the screen and ends the status. What is said later
// is no longer drawn.
func (s *status) Done() {
	s.mu.Lock()
	if !s.done && s.term.IsTerminal {
		s.draw("", nil)
	}
	ended := s.done
	s.done = true
	s.mu.Unlock()
	if !ended && s.onDone != nil {
		s.onDone()
	}
}

// draw replaces the block on the screen by stays, which scrolls away, and a new
// block, in one write so that no half of it is ever seen.
func (s *status) draw(stays string, block []string) {
	width, height := s.term.size()
	var out bytes.Buffer
	rows := 0
	for _, line := range s.drawn {
		// A line drawn when the window was wider takes several rows by now.
		rows += max(1, (layout.Width(line)+width-1)/width)
	}
	if rows = min(rows, height-1); rows > 0 {
		fmt.Fprintf(&out, "\x1b[%dA\r", rows)
	}
	// Old text is written over and its rest erased, rather than erased first,
	// which flickers.
	const newLine = "\x1b[K\n"
	out.WriteString(strings.ReplaceAll(stays, "\n", newLine))
	s.drawn = make([]string, 0, len(block))
	for _, line := range block[:min(len(block), height-1)] {
		line = cut(line, width-1) // a full last column would wrap on some terminals
		s.drawn = append(s.drawn, line)
		out.WriteString(line + newLine)
	}
	out.WriteString("\x1b[J")
	_, _ = s.w.Write(out.Bytes()) // nobody is told that progress could not be shown
}

// cut shortens a line to a number of columns; colour does not leak out of it.
func cut(line string, columns int) string {
	if layout.Width(line) <= columns {
		return line
	}
	var kept strings.Builder
	coloured := false
	for n := 0; line != ""; {
		if e := layout.EscapeLen(line); e > 0 {
			kept.WriteString(line[:e])
			line, coloured = line[e:], true
			continue
		}
		_, size := utf8.DecodeRuneInString(line)
		if n += layout.Width(line[:size]); n > columns-1 {
			break
		}
		kept.WriteString(line[:size])
		line = line[size:]
	}
	if columns > 0 {
		kept.WriteString("…")
	}
	if coloured {
		kept.WriteString("\x1b[0m")
	}
	return kept.String()
}
