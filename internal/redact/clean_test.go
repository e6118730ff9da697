package redact

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// hostile has in it all that a text must not do.
const hostile = "a\x1b[2J\x1b]0;title\x07b\x9bc\u009b31md\u202ee\u2066f\u200bg\x00h\x7fi\r\nj\u2028k\U000e0041l\xff"

// harmless says what a text that was cleaned still does, or nothing.
func harmless(text string) string {
	for _, r := range text {
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d' || r == '\u2028' || r == '\u2029' {
			return string(r)
		}
	}
	switch trimmed := strings.TrimLeftFunc(text, unicode.IsSpace); {
	case strings.HasPrefix(trimmed, "::"):
		return "a command to GitHub's runner"
	case strings.Contains(text, "##["), strings.Contains(text, "##vso["), strings.Contains(text, "##teamcity["):
		return "a command to a runner"
	}
	return ""
}

func TestCleanTextDoesNothing(t *testing.T) {
	for text, want := range map[string]string{
		"plain text, 3 µs → 4 ms":                  "plain text, 3 µs → 4 ms",
		"core::panicking::panic_fmt at [::1]:8000": "core::panicking::panic_fmt at [::1]:8000",
		"::stop-commands::token":                   ": :stop-commands::token",
		"  ::error title=x::y":                     "  : :error title=x::y",
		"said ::set-output name=a::b":              "said : :set-output name=a::b",
		"\u00a0::error::y":                         "\u00a0: :error::y",
		":::warning::x":                            ": :warning::x",
		"x ##[set-env name=A]b ##vso[task.x]y":     "x ## [set-env name=A]b ## vso[task.x]y",
		"###[group]x ##teamcity[message]":          "## [group]x ## teamcity[message]",
		"## a heading":                             "## a heading",
		"two\nlines\tand\rmore":                    "two lines and more",
		"\x1b[31mred\u202ered":                     "□[31mred□red",
		"می\u200cخواهم":                            "می\u200cخواهم",
		hostile:                                    "a□[2J□]0;title□b□c□31md□e□f□g□h□i  j□k□l□",
	} {
		if got := Clean(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := Plain("\x1b[1;31mERROR\x1b[0m \x1b]0;t\x07x"); got != "ERROR x" {
		t.Errorf("a coloured line becomes %q", got)
	}
	if got := Lines("a\n::error::b\n\x1bc"); got != "a\n: :error::b\n□c" {
		t.Errorf("several lines become %q", got)
	}
}

func TestAStreamDoesNothingElseThanWhatIsItsOwn(t *testing.T) {
	for _, c := range []struct {
		terminal   bool
		text, want string
	}{
		{false, "plain\nlines\n", "plain\nlines\n"},
		{false, "a\x1b[31mb\nhint: ::error::x\n  ::stop-commands::y\n", "a□[31mb\nhint: : :error::x\n  : :stop-commands::y\n"},
		{true, "\x1b[2A\r\x1b[31mred\x1b[0m\x1b[K\n\x1b[J", "\x1b[2A\r\x1b[31mred\x1b[0m\x1b[K\n\x1b[J"},
		{true, "\x1b[31m::error::x\x1b]0;t\x07\x1b[2J\u202e\x1b[0m\n", "\x1b[31m: :error::x□]0;t□□[2J□\x1b[0m\n"},
	} {
		var b bytes.Buffer
		if n, err := Writer(&b, func() bool { return c.terminal }).Write([]byte(c.text)); n != len(c.text) || err != nil || b.String() != c.want {
			t.Errorf("%q becomes %q (%d, %v), want %q", c.text, b.String(), n, err, c.want)
		}
	}
}

// What a document of JSON says is the same, and a terminal that it is written to sees
// nothing but text.
func TestADocumentOfJSONSaysTheSame(t *testing.T) {
	said := map[string]string{"a": strings.ToValidUTF8(hostile, "?"), "é": "µ\U000e0041\U0001f600 \uffff", "#": "##[group]x ###vso[y]"}
	document, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	var inParts bytes.Buffer
	w := JSONWriter(&inParts)
	for _, b := range document {
		if _, err := w.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	for _, clean := range []string{string(JSON(document)), inParts.String()} {
		if what := harmless(strings.TrimSpace(clean)); what != "" {
			t.Errorf("%q is left in %s", what, clean)
		}
		var got map[string]string
		if err := json.Unmarshal([]byte(clean), &got); err != nil || got["a"] != said["a"] || got["é"] != said["é"] || got["#"] != said["#"] {
			t.Errorf("%v: %q, want %q", err, got, said)
		}
	}
}

func TestADocumentIsShownAsText(t *testing.T) {
	for text, want := range map[string]string{
		"a: b\n\tc: \"d\u202e ::e\"\n":     "a: b\n\tc: \"d□ ::e\"\n",
		"{\"a\": \"b\u202e ##[group]\"}\n": "{\"a\": \"b\\u202e #\\u0023[group]\"}\n",
		"a\x1b[2J\u009b\xff\r\n":           "a□[2J□□□\n",
	} {
		if got := string(Document([]byte(text))); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add(hostile)
	f.Add("::stop-commands::x\n##[group]Authorization: Bearer sk-abc")
	f.Fuzz(func(t *testing.T, text string) {
		for name, got := range map[string]string{"clean": Clean(text), "plain": Plain(text), "masked": Clean(Masked(text))} {
			if what := harmless(got); what != "" {
				t.Errorf("%s: %q is left of %q: %q", name, what, text, got)
			}
		}
		if once := Clean(text); Clean(once) != once {
			t.Errorf("%q, cleaned again, is %q", once, Clean(once))
		}
		var b bytes.Buffer
		if _, err := Writer(&b, func() bool { return false }).Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if what := harmless(strings.TrimSuffix(line, "\n")); what != "" {
				t.Errorf("a stream: %q is left of %q: %q", what, text, line)
			}
		}
		if got := Excerpt(text, 60); len(got) > 60 {
			t.Errorf("%d bytes are kept", len(got))
		}
	})
}
