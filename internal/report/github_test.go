package report

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

func TestGitHub(t *testing.T) {
	// The text after the annotations has files of its own.
	annotations := func(w io.Writer, r *spec.Report) error {
		before, _, _ := strings.Cut(gitHub(t, r), "::stop-commands::")
		_, err := io.WriteString(w, before)
		return err
	}
	goldens(t, "github", annotations, "pass", "fail", "inconclusive", "invalid", "skip", "killed", "bench", "bare", "hostile")
}

func TestGitHubSummary(t *testing.T) {
	goldens(t, "github/summary", func(w io.Writer, r *spec.Report) error { return GitHubSummary(w, r, 1<<20) }, "fail", "bench", "comparison")
}

// obeyed is what a runner takes out of a step's output: it looks at the beginning of
// every line, spaces aside, and anywhere for the older form of a command.
func obeyed(t *testing.T, output string) (all []annotation) {
	t.Helper()
	known := map[string]bool{"error": true, "warning": true, "notice": true, "stop-commands": true, "add-mask": true, "set-env": true, "debug": true, "group": true}
	stopped := ""
	for line := range strings.Lines(output) {
		line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t\u00a0\u3000")
		info, data, ok := "", "", false
		if rest, begins := strings.CutPrefix(line, "::"); begins {
			info, data, ok = strings.Cut(rest, "::")
		}
		name, properties, _ := strings.Cut(info, " ")
		if _, older, found := strings.Cut(line, "##["); (!ok || !known[strings.ToLower(name)] && name != stopped) && found {
			info, data, ok = strings.Cut(older, "]")
			name, properties, _ = strings.Cut(info, " ")
		}
		name = strings.ToLower(name)
		switch {
		case !ok || !known[name] && name != stopped:
		case stopped != "":
			if name == stopped {
				stopped = ""
			}
		case name == "stop-commands":
			stopped = data
		default:
			if strings.Count(properties, ",") > 0 {
				t.Errorf("more properties than a title: %s", properties)
			}
			title, _ := strings.CutPrefix(properties, "title=")
			unescape := strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")
			all = append(all, annotation{name, unescape.Replace(title), unescape.Replace(data)})
		}
	}
	if stopped != "" {
		t.Error("the step's other commands are stopped for good")
	}
	return all
}

func gitHub(t *testing.T, r *spec.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := GitHub(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheFirstAnnotationIsTheVerdict(t *testing.T) {
	for state, kind := range map[spec.State]string{spec.Fail: "error", spec.Inconclusive: "warning", spec.Invalid: "warning", spec.Pass: "notice", spec.Skip: "notice", spec.NotJudged: "warning", "": "warning"} {
		r := toldPass()
		r.Verdict.Verdict, r.Verdict.Reason = state, "50 %\nof it: a, b"
		want := annotation{kind, "aicr: " + string(orNotJudged(state)), "50 % of it: a, b"}
		if diff := cmp.Diff(want, obeyed(t, gitHub(t, r))[0], cmp.AllowUnexported(annotation{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", state, diff)
		}
	}
}

func TestWhatWasFoundAndWhatWasMissedAreAnnotations(t *testing.T) {
	got := obeyed(t, gitHub(t, toldFail()))
	want := []annotation{
		{"error", "aicr: FAIL", "worker 1 stalls: 3 stalls in 1.7 min of load"},
		{"error", "aicr: worker/stall, worker 1", "worker 1 stalled 3 times in 1.7 min of load, for up to 8 s\n" +
			"- episode 1: worker 1 stood still from 20 s to 28 s (telemetry and client); its GPU drew 126 W, its peers' 576 W\n" +
			"→ look at the engine's main thread while it stands: `py-spy dump --pid PID`\n" +
			"→ `aicr watch --url URL --worker-metrics PAGE --record DIR` keeps the evidence of the next one\n→ `dmesg | grep -i xid`"},
		{"notice", "aicr: start/cold", "the first answer took 42 s"},
		{"error", "aicr: stall-rate", "1.80 stalls/min (0.37 to 5.30), n 3; wanted <= 0.033 (< 0.75, by a sequential test); worker 1"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(annotation{})); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

// Somebody else's words are neither a command, nor the end of one, nor the token that
// has the runner listen again.
func TestNoWordOfAReportIsObeyed(t *testing.T) {
	r := toldFail()
	v := r.Verdict
	want := len(annotationsOf(r))
	for _, evil := range []string{"\n::error::obey", "::error::obey", " ::warning title=obey::obey", "##[error]obey", "x,file=obey:: obey", "%0A::error::obey", "\r::set-env name=obey::obey", "\u2028::error::obey"} {
		v.Reason, v.Plan, v.Profile, r.Kept = evil, evil, evil, evil
		v.Findings[0].ID, v.Findings[0].Summary, v.Findings[0].Evidence[0], v.Findings[0].Workers[0] = evil, evil, evil, evil
		v.Expectations[2].Name, v.Expectations[2].Unit, v.Expectations[2].Want = evil, evil, evil
		v.Notes[0], v.Ledgers[0].Reason = evil, evil
		got := obeyed(t, gitHub(t, r))
		if len(got) != want {
			t.Errorf("with %q there are %d annotations, not %d", evil, len(got), want)
		}
		for _, a := range got {
			if !strings.HasPrefix(a.title, "aicr: ") || a.title == "obey" {
				t.Errorf("with %q an annotation is called %q", evil, a.title)
			}
		}
	}
}

func TestTheTokenIsNotInTheText(t *testing.T) {
	sum := sha256.Sum256([]byte("a report"))
	first := tokenNotIn([]byte("a report"), sum)
	second := tokenNotIn([]byte("::"+first+"::"), sum)
	third := tokenNotIn([]byte(strings.ToUpper(second)+first), sum)
	if first == second || second == third || first == third {
		t.Errorf("a token is in the text that it should end: %s, %s, %s", first, second, third)
	}
	if again := tokenNotIn([]byte("a report"), sum); again != first {
		t.Errorf("the same text has the token %s and then %s", first, again)
	}
}

// GitHub drops what is over its limits without a word.
func TestAnnotationsStayWithinTheLimits(t *testing.T) {
	const shown, characters = 10, 4096
	for _, n := range []int{0, 1, 8, 9, 10, 40} {
		r := toldPass()
		r.Verdict.Verdict = spec.Fail
		for i := range n {
			for _, severity := range []string{spec.SeverityFail, spec.SeverityInvalid, spec.SeverityNote} {
				f := spec.Finding{ID: fmt.Sprint("finding-", i), Severity: severity, Summary: strings.Repeat("\x00", 5_000)}
				for range 5 {
					f.Evidence = append(f.Evidence, strings.Repeat("工", 2_000))
					f.Advice = append(f.Advice, strings.Repeat("\xff", 2_000))
					f.Workers = append(f.Workers, strings.Repeat("w", 100))
				}
				r.Verdict.Findings = append(r.Verdict.Findings, f)
			}
		}
		count := map[string]int{}
		last := map[string]annotation{}
		for _, a := range obeyed(t, gitHub(t, r)) {
			count[a.kind]++
			last[a.kind] = a
			if size := len(utf16.Encode([]rune(a.text))); size > characters || len(a.title) > characters/4 {
				t.Errorf("a message of %d characters, a title of %d bytes", size, len(a.title))
			}
		}
		for kind, all := range map[string]int{"error": n + 1, "warning": n, "notice": n} {
			if count[kind] != min(all, shown) {
				t.Errorf("of %d of a kind, %d are annotations of the kind %s", all, count[kind], kind)
			}
			more := fmt.Sprintf("aicr: %d more", all-shown+1)
			if got := last[kind].title; (got == more) != (all > shown) {
				t.Errorf("of %d of a kind, the last %s is %q", all, kind, got)
			}
		}
	}
}

// The log has the whole report, as it is at a terminal.
func TestTheTextFollowsTheAnnotations(t *testing.T) {
	var text bytes.Buffer
	if err := Text(&text, toldFail()); err != nil {
		t.Fatal(err)
	}
	if out := gitHub(t, toldFail()); !strings.Contains(out, "\n"+text.String()+"\n::aicr-") {
		t.Errorf("the text is not there:\n%s", out)
	}
}

// Of a summary that is too long GitHub shows nothing.
func TestASummaryIsNeverLongerThanItMayBe(t *testing.T) {
	r := hostile(toldFail())
	var whole bytes.Buffer
	if err := GitHubSummary(&whole, r, 1<<20); err != nil {
		t.Fatal(err)
	}
	limits := []int{-1, 0, 1, whole.Len() - 1, whole.Len(), whole.Len() + 1}
	for limit := 7; limit < whole.Len(); limit += 101 {
		limits = append(limits, limit)
	}
	for _, limit := range limits {
		var b bytes.Buffer
		if err := GitHubSummary(&b, r, limit); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if len(text) > max(0, limit) {
			t.Fatalf("%d bytes where %d are left", len(text), limit)
		}
		if limit >= whole.Len() && text != whole.String() {
			t.Fatalf("it is cut though there is room")
		}
		before, cut := strings.CutSuffix(text, "\nCut here, since there is no more room. The html and json reports have all of it.\n")
		if text != "" && limit < whole.Len() && (!cut || !strings.HasPrefix(whole.String(), before) || before != "" && !strings.HasSuffix(before, "\n")) {
			t.Fatalf("with room for %d bytes it is not cut at a line, or does not say so:\n%s", limit, text)
		}
		if strings.Count(text, "```sh")%2 == 1 && !strings.Contains(text, "\n```\n") && !strings.Contains(text, "\n````\n") {
			t.Fatalf("with room for %d bytes a block of code is left open", limit)
		}
	}
}

// However little room is left, the verdict is what is written. Where there is none for
// it, nothing is.
func TestASummaryHasTheVerdictOrNothing(t *testing.T) {
	told := func(limit int) string {
		var b bytes.Buffer
		if err := GitHubSummary(&b, toldFail(), limit); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if text := told(200); !strings.HasPrefix(text, "\n## aicr: FAIL\n\n**FAIL** worker 1 stalls: 3 stalls in 1.7 min of load\n") {
		t.Errorf("200 bytes are\n%s", text)
	}
	for limit := range 300 {
		if text := told(limit); text != "" && !strings.HasPrefix(text, "\n## aicr: FAIL\n") || limit >= 120 && text == "" {
			t.Errorf("%d bytes are\n%s", limit, text)
		}
	}
}

// The annotation of the verdict is all that many people see of a run.
func TestTheVerdictOfARunThatDidNotEndSaysSo(t *testing.T) {
	r := toldPass()
	r.Run.End = ""
	want := annotation{"notice", "aicr: PASS", r.Verdict.Reason + "\nnot ended: the run began at 2026-06-04T12:00:00Z and its record has no end, " +
		"so that it was killed or still runs; this is what it says so far"}
	if diff := cmp.Diff(want, obeyed(t, gitHub(t, r))[0], cmp.AllowUnexported(annotation{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var b bytes.Buffer
	if err := GitHubSummary(&b, r, 1<<20); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\n**Not ended**: the run began at") {
		t.Errorf("the summary does not say it:\n%s", &b)
	}
}

func orNotJudged(s spec.State) spec.State {
	if s == "" {
		return spec.NotJudged
	}
	return s
}
