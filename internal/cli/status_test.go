package cli

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/report/layout"
)

// screen is as much of a terminal as a status needs: it wraps, scrolls nothing
// away, and knows the sequences that a status writes.
type screen struct {
	width    int
	rows     [][]rune
	row, col int
}

func (s *screen) Write(p []byte) (int, error) {
	text := string(p)
	for text != "" {
		var n int
		switch {
		case strings.HasPrefix(text, "\x1b[J"):
			s.at(s.row)
			s.rows = s.rows[:s.row+1]
			s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
			text = text[3:]
		case strings.HasPrefix(text, "\x1b[K"):
			s.at(s.row)
			s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
			text = text[3:]
		case layout.EscapeLen(text) > 0:
			text = text[layout.EscapeLen(text):]
		case strings.HasPrefix(text, "\x1b["):
			if _, err := fmt.Sscanf(text, "\x1b[%dA", &n); err != nil {
				return 0, fmt.Errorf("sequence not known: %q", text)
			}
			s.row = max(0, s.row-n)
			_, text, _ = strings.Cut(text, "A")
		case text[0] == '\r':
			s.col, text = 0, text[1:]
		case text[0] == '\n':
			s.row, s.col, text = s.row+1, 0, text[1:]
			s.at(s.row)
		default:
			r := []rune(text)[0]
			if s.col == s.width {
				s.row, s.col = s.row+1, 0
			}
			s.at(s.row)
			if s.col < len(s.rows[s.row]) {
				s.rows[s.row][s.col] = r
			} else {
				s.rows[s.row] = append(s.rows[s.row], r)
			}
			s.col++
			text = text[len(string(r)):]
		}
	}
	return len(p), nil
}

func (s *screen) at(row int) {
	for len(s.rows) <= row {
		s.rows = append(s.rows, nil)
	}
}

// resize reflows the rows as terminals do: those too long take several.
func (s *screen) resize(width int) {
	old := s.rows
	*s = screen{width: width}
	for i, row := range old {
		_, _ = s.Write([]byte(string(row)))
		if i < len(old)-1 {
			_, _ = s.Write([]byte("\n"))
		}
	}
}

func (s *screen) String() string {
	lines := make([]string, len(s.rows))
	for i, r := range s.rows {
		lines[i] = string(r)
	}
	return strings.Join(lines, "\n")
}

type textView string

func (v textView) Block(int) []string { return strings.Split(string(v), "\n") }
func (v textView) Line() string       { return "line: " + strings.ReplaceAll(string(v), "\n", ", ") }

func TestStatusRedrawsInPlaceOnATerminal(t *testing.T) {
	now := time.Unix(0, 0)
	scr := &screen{width: 20}
	height := 10
	s := newStatus(scr, Terminal{IsTerminal: true, Size: func() (int, int) { return scr.width, height }}, func() time.Time { return now })
	step := func(what, want string) {
		t.Helper()
		if diff := cmp.Diff(want, scr.String()); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
		if scr.col != 0 {
			t.Fatalf("%s: the cursor stands in column %d", what, scr.col)
		}
		now = now.Add(blockEvery)
	}
	s.Update(textView("a\nb"))
	step("first", "a\nb\n")
	s.Update(textView("c\nd\ne"))
	step("more lines", "c\nd\ne\n")
	s.Update(textView("longer"))
	step("fewer lines", "longer\n")
	s.Update(textView("f"))
	step("a shorter line", "f\n")
	s.Line("stays")
	step("a line above", "stays\nf\n")
	s.Update(textView("0123456789012345678901234567890\n\x1b[31mred\x1b[0m"))
	step("cut to the width", "stays\n012345678901234567…\nred\n")
	scr.resize(7)
	s.Update(textView("g"))
	step("a narrower window", "stays\ng\n")
	height = 3
	s.Update(textView("1\n2\n3\n4"))
	step("cut to the height", "stays\n1\n2\n")
	s.Done()
	step("done", "stays\n")
	s.Update(textView("late"))
	s.Done()
	step("after the end", "stays\n")
}

func TestStatusIsThrottledAndAsksTheViewOnlyWhenDue(t *testing.T) {
	for _, c := range []struct {
		tty  bool
		want int
	}{{true, 101}, {false, 2}} {
		now := time.Unix(0, 0)
		var out bytes.Buffer
		s := newStatus(&out, Terminal{IsTerminal: c.tty}, func() time.Time { return now })
		asked := &countingView{}
		for range 10_001 { // ten seconds
			s.Update(asked)
			now = now.Add(time.Millisecond)
		}
		if asked.n != c.want {
			t.Errorf("terminal %v: asked %d times in 10 s, want %d", c.tty, asked.n, c.want)
		}
	}
}

type countingView struct{ n int }

func (v *countingView) Block(int) []string { v.n++; return nil }
func (v *countingView) Line() string       { v.n++; return "" }

func TestStatusWritesPlainLinesElsewhere(t *testing.T) {
	now := time.Unix(0, 0)
	var out bytes.Buffer
	s := newStatus(&out, Terminal{}, func() time.Time { return now })
	s.Update(textView("too soon"))
	now = now.Add(lineEvery)
	s.Update(textView("a\nb"))
	s.Line("said")
	s.Done()
	if diff := cmp.Diff("line: a, b\nsaid\n", out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsSaidGoesAboveTheLiveBlock(t *testing.T) {
	scr := &screen{width: 80}
	env := testEnv(nil)
	env.Stderr = scr
	env.StderrTerm = Terminal{IsTerminal: true, Size: func() (int, int) { return 80, 24 }}
	a := newApp(env)
	s := a.watch()
	s.Update(textView("block"))
	a.say("word")
	a.detail("not asked for")
	if diff := cmp.Diff("word\nblock\n", scr.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.Done()
	a.say("after")
	if diff := cmp.Diff("word\nafter\n", scr.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSparkline(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		width  int
		want   string
	}{
		"nothing":       {nil, 5, ""},
		"rises":         {[]float64{0, 1, 2, 3, 4, 5, 6, 7, 8}, 9, "▁▂▃▄▅▆▇██"},
		"last ones":     {[]float64{9, 0, 8}, 2, "▁█"},
		"all the same":  {[]float64{5, 5}, 5, "██"},
		"all zero":      {[]float64{0, 0}, 5, "▁▁"},
		"not measured":  {[]float64{1, math.NaN(), 1}, 5, "█ █"},
		"infinite":      {[]float64{1, math.Inf(1), 2}, 5, "▅██"},
		"negative":      {[]float64{-1, 2}, 5, "▁█"},
		"no room":       {[]float64{1}, 0, ""},
		"negative room": {[]float64{1}, -1, ""},
	} {
		if got := sparkline(c.values, c.width); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
