package report

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"aicr/internal/spec"

	"pgregory.net/rapid"
)

func TestMarkdown(t *testing.T) {
	goldens(t, "markdown", Markdown, "pass", "fail", "inconclusive", "invalid", "skip", "killed", "bench", "comparison", "bare", "hostile")
}

// The person at 3 a.m. reads the first line.
func TestATicketBeginsWithTheVerdict(t *testing.T) {
	r := toldFail()
	text := markdown(t, r)
	if want := "## aicr: FAIL\n\n**FAIL** " + r.Verdict.Reason + "\n"; !strings.HasPrefix(text, want) {
		t.Errorf("it begins with\n%.200s", text)
	}
}

func TestAWordIsCodeWhereATrackerWouldMakeSomethingOfIt(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"worker 4 stalled once in 9.2 min of load, for up to 8 s", "worker 4 stalled once in 9.2 min of load, for up to 8 s"},
		{">= 0.92 of 72,318 tokens/s", "&gt;= 0.92 of 72,318 tokens/s"},
		{"95 % between 0.01 and 0.51", "95 % between 0.01 and 0.51"},
		{"(see @admin, #12).", "(see `@admin`, `#12`)."},
		{"a|b", "`a|b`"},
		{"<b>x</b>", "`<b>x</b>`"},
		{"<!-- x", "`<!--` x"},
		{"http://x.example/y", "`http://x.example/y`"},
		{"at HTTPS://x", "at `HTTPS://x`"},
		{"WWW.x.example", "`WWW.x.example`"},
		{"me@x.example", "`me@x.example`"},
		{"gh-12", "`gh-12`"},
		{"!1 $1 ~1 %1 &1 ^1", "`!1` `$1` `~1` `%1` `&1` `^1`"},
		{":boom:", "`:boom`:"},
		{"a`b", "``a`b``"},
		{"`", "`` ` ``"},
		{"a``b`c", "```a``b`c```"},
		{"*b* _i_ [l](u)", "`*b*` `_i_` `[l](u`)"},
		{`a\`, "`a\\`"},
		{"d6a6317", "`d6a6317`"},
		{"1000000 decades", "1000000 decades"},
		{"/close", "`/close`"},
		{"--flag -1", "`--flag` -1"},
		{"- item", `\- item`},
		{"--- rule", `\--- rule`},
		{"1. item", `1\. item`},
		{"12) item", `12\) item`},
		{"3 items", "3 items"},
		{"line\nline\r\n\ttab", "line line tab"},
		{"工人 عامل", "工人 عامل"},
		{"", ""},
	} {
		if got := prose(tt.text, ticketSentence); got != tt.want {
			t.Errorf("%q is %q, want %q", tt.text, got, tt.want)
		}
	}
}

// A command that is copied out of a ticket is whole, and no more than the command.
func TestTheCommandsOfAdviceAreCode(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"look at the engine's main thread while it stands: `py-spy dump --pid PID`", "look at the engine's main thread while it stands: `py-spy dump --pid PID`"},
		{"`kubectl logs POD --previous`: it may have crashed", "`kubectl logs POD --previous`: it may have crashed"},
		{"`kubectl top pod`; `cat /proc/pressure/cpu` on the node", "`kubectl top pod`; `cat /proc/pressure/cpu` on the node"},
		{"`helm list -A | grep dynamo`", "`helm list -A | grep dynamo`"},
		{"step the concurrency down: --concurrency-per-gpu", "step the concurrency down: `--concurrency-per-gpu`"},
		{"add a frontend replica", "add a frontend replica"},
		{"a lone ` does nothing", "a lone `` ` `` does nothing"},
		{"`a``@b`", "`a` `@b`"},
		{"`a`x`` @b", "`a` ``` x`` ``` `@b`"},
		{"``", "``` `` ```"},
		{"`a\n### b`", "`a ### b`"},
		{"", ""},
	} {
		if got := adviceLine(tt.text); got != tt.want {
			t.Errorf("%q is\n%s, want\n%s", tt.text, got, tt.want)
		}
	}
}

// Whatever stands in an advice, only words are outside of its codes.
func TestNoAdviceBreaksOutOfItsCode(t *testing.T) {
	parts := rapid.SampledFrom([]string{"`", "``", "```", " ", "@b", "a", "<i>", "#1", "(", ".", "\n", "*", "[x](http://y)", "|"})
	rapid.Check(t, func(t *rapid.T) {
		advice := strings.Join(rapid.SliceOfN(parts, 0, 14).Draw(t, "parts"), "")
		line := adviceLine(advice)
		if left := withoutCode(line); markup.MatchString(left) || strings.ContainsAny(left, "`\n") {
			t.Fatalf("%q is %s, of which %q is no code", advice, line, left)
		}
	})
}

// markup is what does something outside of code: tags, entities but the three of
// comparators, links, mentions, references, emphasis.
var markup = regexp.MustCompile(`[<@\[\]_~$^{}\\]|\*|&[^lga]|://|(?i:www\.)|[#!%][0-9A-Za-z]|(?i:gh-)[0-9]|:[a-z]+:`)

func TestHostileWordsStayInTheirCode(t *testing.T) {
	for _, c := range toldReports() {
		if !strings.HasPrefix(c.name, "hostile") {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			bars, inBlock := 0, ""
			for line := range strings.Lines(markdown(t, c.report)) {
				line = strings.TrimSuffix(line, "\n")
				fence := line[:len(line)-len(strings.TrimLeft(line, "`"))]
				switch {
				case inBlock != "":
					if line == inBlock {
						inBlock = ""
					}
					continue
				case len(fence) >= 3 && line == fence+"sh":
					inBlock = fence
					continue
				}
				bare := withoutCode(line)
				own := strings.TrimLeft(strings.Replace(bare, "**", "", 2), "#") // the verdict is bold
				if found := markup.FindString(own); found != "" {
					t.Errorf("%q is outside of code in\n%s", found, line)
				}
				if !strings.HasPrefix(line, "|") {
					bars = 0
					if strings.Contains(bare, "|") {
						t.Errorf("a pipe outside of code and of a table:\n%s", line)
					}
					continue
				}
				if n := strings.Count(line, "|"); bars != 0 && n != bars {
					t.Errorf("a row of %d bars in a table of %d:\n%s", n, bars, line)
				} else {
					bars = n
				}
			}
			if inBlock != "" {
				t.Error("a block of code has no end")
			}
		})
	}
}

// withoutCode is a line without what CommonMark takes for code: a row of backticks up to
// the next one as long.
func withoutCode(line string) string {
	var b strings.Builder
	for line != "" {
		at := strings.IndexByte(line, '`')
		if at < 0 {
			break
		}
		n := len(line[at:]) - len(strings.TrimLeft(line[at:], "`"))
		b.WriteString(line[:at])
		rest, end := line[at+n:], -1
		for from := 0; from < len(rest); {
			i := strings.IndexByte(rest[from:], '`')
			if i < 0 {
				break
			}
			from += i
			m := len(rest[from:]) - len(strings.TrimLeft(rest[from:], "`"))
			from += m
			if m == n {
				end = from
				break
			}
		}
		if end < 0 {
			b.WriteString(line[at : at+n])
			line = rest
			continue
		}
		line = rest[end:]
	}
	return b.String() + line
}

// A comment that is too long is refused by the tracker, all of it.
func TestATicketHasRoomForAnyReport(t *testing.T) {
	r := toldFail()
	for i := range 500 {
		f := r.Verdict.Findings[0]
		f.Evidence = slices.Repeat([]string{strings.Repeat("long ", 300)}, 20)
		f.Workers = append(f.Workers, fmt.Sprint("worker-", i))
		r.Verdict.Findings = append(r.Verdict.Findings, f)
		r.Verdict.Stalls = append(r.Verdict.Stalls, r.Verdict.Stalls[0])
		r.Verdict.Expectations = append(r.Verdict.Expectations, r.Verdict.Expectations[0])
	}
	text := markdown(t, r)
	if len(text) > ticketBytes {
		t.Errorf("%d bytes", len(text))
	}
	if !strings.HasSuffix(text, "The html and json reports have all of it.\n") {
		t.Errorf("it is cut and does not say so; it ends with\n%s", text[len(text)-200:])
	}
}

func TestAListThatIsTooLongSaysHowMuchIsMissing(t *testing.T) {
	r := toldFail()
	r.Verdict.Stalls = make([]spec.Stall, ticketStalls+3)
	if text := markdown(t, r); !strings.Contains(text, "\nand 3 more, which the json report has.\n") {
		t.Errorf("nothing says that 3 stalls are missing:\n%s", text)
	}
}

// A page is cut where the sentence that says so still has room, and not a byte earlier.
func TestAPageIsCutWhereTheRemarkStillFits(t *testing.T) {
	const cut = "\nCut here, since there is no more room. The html and json reports have all of it.\n"
	long := strings.Repeat("x", 200) + "\n"
	for _, tt := range []struct {
		most int
		want string
	}{
		{len("verdict\nwhy\n" + long), "verdict\nwhy\n" + long},
		{len("verdict\nwhy\n"+long) - 1, "verdict\nwhy\n" + cut},
		{len("verdict\nwhy\n" + cut), "verdict\nwhy\n" + cut},
		{len("verdict\nwhy\n"+cut) - 1, "verdict\n" + cut},
		{len("verdict\n" + cut), "verdict\n" + cut},
		{len("verdict\n"+cut) - 1, ""},
		{len(cut), ""},
		{0, ""},
		{-1, ""},
	} {
		p := &markdownPage{parts: []string{"verdict\n", "why\n", long}}
		if got := p.within(tt.most); got != tt.want {
			t.Errorf("in %d bytes it is %q, want %q", tt.most, got, tt.want)
		}
	}
}

// Not measured is not zero, and NaN is not measured.
func TestATicketShowsNoNumberThatIsNone(t *testing.T) {
	r := toldFail()
	for v, told := range map[*float64]string{nil: "not measured", new(math.NaN()): "not measured", new(math.Inf(1)): "infinite"} {
		r.Verdict.Expectations = []spec.Expected{{Name: "x", Want: "y", Value: v, Low: v, High: new(1.0), Unit: "ms", State: spec.NotJudged}}
		if text, want := markdown(t, r), "| x | "+told+" | up to 1 | y | 0 | ms | NOT JUDGED |\n"; !strings.Contains(text, want) {
			t.Errorf("there is no row %s in\n%s", want, text)
		}
	}
}

func TestATicketTellsNoSecret(t *testing.T) {
	if text := markdown(t, toldPass()); strings.Contains(text, "secret") || !strings.Contains(text, "`http://gateway:8000/v1`") {
		t.Errorf("the target is not told without its secrets:\n%s", text)
	}
}

func markdown(t *testing.T, r *spec.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Markdown(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
