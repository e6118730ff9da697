package layout

import (
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"aicr/internal/spec"
)

func TestThingsAreCounted(t *testing.T) {
	for n, want := range map[int]string{0: "0 stalls", 1: "1 stall", 2: "2 stalls"} {
		if got := Plural(n, "stall"); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	if got := Noun(1, "GPU") + " " + Noun(8, "GPU"); got != "GPU GPUs" {
		t.Errorf("nouns are %q", got)
	}
}

func TestListsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		all          []string
		listed, some string
	}{
		{nil, "", ""},
		{[]string{"a"}, "a", "a"},
		{[]string{"a", "b"}, "a and b", "a, b"},
		{[]string{"a", "b", "c"}, "a, b and c", "a, b and 1 more"},
		{[]string{strings.Repeat("x", 101)}, strings.Repeat("x", 101), strings.Repeat("x", 100) + "… (cut here; it has 101 bytes)"},
	} {
		if got := Listed(tt.all); got != tt.listed {
			t.Errorf("%q listed is %q, want %q", tt.all, got, tt.listed)
		}
		if got := Some(tt.all, 2); got != tt.some {
			t.Errorf("some of %q are %q, want %q", tt.all, got, tt.some)
		}
	}
}

func TestQuotedIsOneWord(t *testing.T) {
	for value, want := range map[string]string{
		"": "''", "runs/a": "runs/a", "a b": "'a b'", "a\nb": "'a\nb'", "a\x1bb": "'a\x1bb'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "~": "'~'",
		"a;b": "'a;b'", "运行": "运行", "k=v,w:x@1%": "k=v,w:x@1%",
	} {
		if got := Quoted(value); got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
		}
	}
}

// TestAShellTakesQuotedForOneWord asks one.
func TestAShellTakesQuotedForOneWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := strings.ReplaceAll(rapid.StringN(0, 40, -1).Draw(t, "value"), "\x00", "")
		out, err := exec.Command("sh", "-c", "printf '<%s>' "+Quoted(value)).Output()
		if err != nil || string(out) != "<"+value+">" {
			t.Errorf("%q came as %q (%v)", value, out, err)
		}
	})
}

func TestThePointIsTold(t *testing.T) {
	for _, tt := range []struct {
		point spec.OperatingPoint
		want  string
	}{
		{spec.OperatingPoint{Workers: 8, Concurrency: 1024, RampS: 2, InputTokens: 128, OutputTokens: 64, Prompts: "unique", SentinelRate: 10},
			"1,024 in flight (128 a worker), started over 2s; 128 tokens in, 64 out; prompts unique; 10 a second of them on a fixed schedule"},
		{spec.OperatingPoint{Concurrency: 3, Requests: 1000, Prompts: "100"},
			"3 in flight, all at once, until 1,000 requests are sent; 0 tokens in, 0 out; prompts 100, recycled"},
	} {
		if got := Point(tt.point); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}
