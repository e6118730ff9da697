package sse

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gosse "github.com/tmaxmax/go-sse"
)

// event is an event as a test writes it.
type event struct{ Name, Data string }

type collector []event

func (c *collector) Event(name, data []byte) { *c = append(*c, event{string(name), string(data)}) }

// scan feeds the pieces to a fresh Scanner.
func scan(t testing.TB, pieces ...string) []event {
	t.Helper()
	var s Scanner
	var got collector
	for _, p := range pieces {
		b := []byte(p)
		if err := s.Feed(b, &got); err != nil {
			t.Fatal(err)
		}
		for i := range b { // the caller's buffer is the caller's again
			b[i] = 'X'
		}
	}
	return got
}

func TestEventStreamRules(t *testing.T) {
	for _, tc := range []struct {
		rule, stream string
		want         []event
	}{
		{"an event ends with a blank line", "data: a\n\ndata: b\n\n", []event{{"", "a"}, {"", "b"}}},
		{"CRLF ends a line", "data: a\r\n\r\ndata: b\r\n\r\n", []event{{"", "a"}, {"", "b"}}},
		{"CR ends a line", "data: a\r\rdata: b\r\r", []event{{"", "a"}, {"", "b"}}},
		{"line ends may be mixed", "data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", []event{{"", "a"}, {"", "b"}, {"", "c"}}},
		{"one space after the colon is dropped, and only one", "data:a\n\ndata:  b\n\n", []event{{"", "a"}, {"", " b"}}},
		{"data lines are joined by a newline", "data: a\ndata: b\ndata\n\n", []event{{"", "a\nb\n"}}},
		{"comments are ignored, also inside an event", ": ping\n\ndata: a\n: pong\ndata: b\n\n", []event{{"", "a\nb"}}},
		{"an event may have a name", "event: error\ndata: {}\n\ndata: x\n\n", []event{{"error", "{}"}, {"", "x"}}},
		{"a name alone is no event", "event: ping\n\ndata: x\n\n", []event{{"", "x"}}},
		{"the last name counts", "event: a\nevent: b\ndata: x\n\n", []event{{"b", "x"}}},
		{"empty data is an event", "data:\n\n", []event{{"", ""}}},
		{"id, retry and unknown fields say nothing", "id: 7\nretry: 10\nfoo: bar\ndata: x\n\n", []event{{"", "x"}}},
		{"blank lines alone are nothing", "\n\n\r\n\r\n", nil},
		{"an event without its blank line is never delivered", "data: a\n\ndata: b\n", []event{{"", "a"}}},
		{"a byte order mark at the start is skipped", "\ufeffdata: a\n\n", []event{{"", "a"}}},
		{"half a byte order mark is text", "\xef\xbbdata: a\n\ndata: b\n\n", []event{{"", "b"}}},
		{"UTF-8 passes unharmed", "data: käse 🧀\n\n", []event{{"", "käse 🧀"}}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, scan(t, tc.stream)); diff != "" {
				t.Fatalf("whole (-want +got):\n%s", diff)
			}
			for cut := 1; cut < len(tc.stream); cut++ {
				if diff := cmp.Diff(tc.want, scan(t, tc.stream[:cut], tc.stream[cut:])); diff != "" {
					t.Fatalf("cut at byte %d (-want +got):\n%s", cut, diff)
				}
			}
			if diff := cmp.Diff(tc.want, scan(t, strings.Split(tc.stream, "")...)); diff != "" {
				t.Fatalf("character by character (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnEventBeyondTheLimitIsRefused(t *testing.T) {
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for _, tc := range []struct {
		rule   string
		stream func(i int) []byte
	}{
		{"a line without an end", func(int) []byte { return piece }},
		{"data lines without an end", func(int) []byte { return append(append([]byte("data: "), piece...), '\n') }},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			var s Scanner
			var got collector
			for _, most := range []int{0, 2 << 20} {
				s.Most = most
				s.Reset()
				fed, err := 0, error(nil)
				for i := 0; err == nil && i < 2*MaxEvent/len(piece); i++ {
					err = s.Feed(tc.stream(i), &got)
					fed += len(piece)
				}
				want := MaxEvent
				if most > 0 {
					want = most
				}
				if tooLong, ok := errors.AsType[*TooLongError](err); !ok || tooLong.Most != want || fed > want+len(piece) {
					t.Fatalf("%d bytes were taken where %d are the most: %v", fed, want, err)
				}
			}
			if s.Reset(); cap(s.line)+cap(s.data) > 0 {
				t.Errorf("%d bytes are kept for the next stream", cap(s.line)+cap(s.data))
			}
		})
	}
}

func TestFeedAllocatesNothingOnceWarm(t *testing.T) {
	var s Scanner
	b := []byte(strings.Repeat("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", 3))
	sink := nothing{}
	if n := testing.AllocsPerRun(100, func() {
		_ = s.Feed(b[:70], sink)
		_ = s.Feed(b[70:], sink)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type nothing struct{}

func (nothing) Event(_, _ []byte) {}

// oracle reads a stream with a library that others rely on.
func oracle(stream string) (events []event, err error) {
	for e, err := range gosse.Read(strings.NewReader(stream), &gosse.ReadConfig{MaxEventSize: MaxEvent}) {
		if err != nil {
			return events, err
		}
		events = append(events, event{e.Type, e.Data})
	}
	return events, nil
}

// FuzzScanner compares with go-sse, whole and cut in two.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "data: a\r\n\r\nevent: error\ndata: {}\n\n", ": c\ndata: a\ndata: b\n\ndata: [DONE]\n\n",
		"\ufeffdata: x\n\n", "data: a\r\rdata\n\n", "data: 🧀\n\nevent:x\n\n",
	} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, stream string, cut int) {
		got := scan(t, stream)
		if cut > 0 && cut < len(stream) {
			if diff := cmp.Diff(got, scan(t, stream[:cut], stream[cut:])); diff != "" {
				t.Fatalf("cut at %d changes the events (-whole +cut):\n%s", cut, diff)
			}
		}
		if !comparable(stream) {
			return
		}
		want, err := oracle(stream)
		if err != nil {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("go-sse reads %q otherwise (-go-sse +ours):\n%s", stream, diff)
		}
	})
}

// comparable leaves out what go-sse knowingly treats otherwise: it delivers an
// event that the stream's end cut short and one that has no data, and it gives
// meaning to fields that are nothing to us.
func comparable(stream string) bool {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(stream, "\ufeff"))
	body, complete := strings.CutSuffix(text, "\n\n")
	if !complete || strings.Contains(text, "\ufeff") || strings.Contains(text, "\x00") {
		return false
	}
	for block := range strings.SplitSeq(body, "\n\n") {
		hasData := false
		for line := range strings.SplitSeq(block, "\n") {
			name, _, _ := strings.Cut(line, ":")
			hasData = hasData || name == "data"
		}
		if !hasData {
			return false
		}
	}
	return true
}
