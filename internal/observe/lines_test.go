package observe

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestLinesAreBoundedAndSayWhetherTheyAreWhole(t *testing.T) {
	type line struct {
		Text  string
		Whole bool
	}
	long := strings.Repeat("x", maxLine)
	for _, tc := range []struct {
		rule, stream string
		want         []line
	}{
		{"a line ends with a line feed, or with both", "a\nb\r\n\nc\n", []line{{"a", true}, {"b", true}, {"", true}, {"c", true}}},
		{"the stream's end is no line's end", "a\nb", []line{{"a", true}, {"b", false}}},
		{"a line that is too long is cut, and the next is not harmed", long + "y\nb\n", []line{{long, false}, {"b", true}}},
		{"a line without end is cut", long + long + long + "y", []line{{long, false}}},
		{"nothing is no line", "", nil},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tc.stream), iotest.HalfReader(strings.NewReader(tc.stream)), iotest.DataErrReader(strings.NewReader(tc.stream))} {
				var got []line
				all := linesOf(r)
				for {
					text, whole, err := all.next()
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, line{string(text), whole})
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
	failed := errors.New("failed")
	if _, _, err := linesOf(iotest.ErrReader(failed)).next(); !errors.Is(err, failed) {
		t.Errorf("a reader's error becomes %v", err)
	}
}
