package layout

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCleanShowsAndDoesNothing(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"plain":               {"worker 5 (µs) 工作 عامل e\u0301", "worker 5 (µs) 工作 عامل e\u0301"},
		"lines":               {"a\nb\r\nc\td", "a b  c d"},
		"escape sequences":    {"\x1b[31mred\x1b]0;title\x07", "□[31mred□]0;title□"},
		"one-byte sequences":  {"a\u009b31m\u0085b", "a□31m□b"},
		"NUL and others":      {"\x00\x08\x7f\v\f", "□□□□□"},
		"directions":          {"\u202eevil\u202c \u2066x\u2069 \u200e\u200f\u061c", "□evil□ □x□ □□□"},
		"separators":          {"a\u2028b\u2029c", "a□b□c"},
		"no UTF-8":            {"a\xff\xc3b", "a□□b"},
		"what stood for it":   {"a\ufffdb", "a□b"},
		"no characters":       {"\ufffe\uffff\ufdd0", "□□□"},
		"markup is not its":   {"</script>&amp;", "</script>&amp;"},
		"joiners are letters": {"می\u200cخواهم", "می\u200cخواهم"},
	} {
		if got := Clean(tt.text); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestCleanIsClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got := Clean(anyText().Draw(t, "text"))
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("%q", got)
		}
		if again := Clean(got); again != got {
			t.Errorf("twice is %q, once %q", again, got)
		}
	})
}

func TestClipSaysWhatItCut(t *testing.T) {
	for _, tt := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc… (cut here; it has 4 bytes)"},
		{"工作", 4, "工… (cut here; it has 6 bytes)"}, // no half character
		{"工作", 2, "… (cut here; it has 6 bytes)"},
		{strings.Repeat("\x80", 2000), 10, strings.Repeat("\x80", 6) + "… (cut here; it has 2,000 bytes)"},
	} {
		if got := Clip(tt.text, tt.most); got != tt.want {
			t.Errorf("%q in %d is %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
}

func TestWhatIsShownIsCleanAndNoLongerThanItMayBe(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("a", 999), strings.Repeat("工", 999), strings.Repeat("\x00", 999), strings.Repeat("\xff", 99)} {
		got := Shown(text, 60)
		if len(got) > 60+Remark || got != Clean(got) {
			t.Errorf("%.20q is %q, of %d bytes", text, got, len(got))
		}
		if len(text) <= 60 && got != text {
			t.Errorf("%q is %q", text, got)
		}
	}
}
