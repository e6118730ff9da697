package workload

import (
	"strings"
	"testing"
)

// The limits are lowered here for the sake of the time it takes to reach them,
// and stay above the reader's buffer. A line's end counts as part of it.
func TestDatasetKeepsToItsLimits(t *testing.T) {
	t.Parallel()
	most := limits{entry: 200_000, bodies: 500_000}
	spec := Spec{Model: "m", OutputTokens: Length{Mean: 9}}
	fill := func(n int) string { return strings.Repeat("x", n) }
	const long = "is too long: an entry has at most 200000 bytes"
	for _, tt := range []struct{ name, text, want string }{
		{"line at the limit", "\"" + fill(200_000-3) + "\"\n\"b\"\n", ""},
		{"line above, and the next is read", "\"a\"\n\"" + fill(200_000-2) + "\"\n1\n", "f:2: " + long + "\nf:3: 1 is neither a string nor an object"},
		{"line above without an end", "\"a\"\n\"" + fill(400_000), "f:2: " + long},
		{"element at the limit", "[\"" + fill(200_000-2) + "\"]", ""},
		{"element above", "[\"a\",\n\"" + fill(200_000-1) + "\",\n1]", "f:2: " + long},
		{"all within", strings.Repeat("\""+fill(100_000)+"\"\n", 4), ""},
		{"all above", strings.Repeat("\""+fill(100_000)+"\"\n", 5), "reading f: its bodies take more than 500000 bytes"},
	} {
		_, err := readDataset(strings.NewReader(tt.text), "f", spec, most)
		if got := text(err); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestInputsKeepToTheirLimit(t *testing.T) {
	t.Parallel()
	const file = `{"data":[{"payloads":[{"prompt":"x"}]}]}`
	if _, err := readInputs(strings.NewReader(file), "f", Replay{}, len(file)); err != nil {
		t.Error(err)
	}
	_, err := readInputs(strings.NewReader(file), "f", Replay{}, len(file)-1)
	if got := text(err); got != "reading f: it is larger than 39 bytes" {
		t.Errorf("%q", got)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
