package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// What GitHub shows: its runner drops all but the first ten annotations of a kind of a
// step without a word, and cuts a message at 4,096 characters (_maxCountPerIssueType and
// _maxIssueMessageLength in actions/runner). A message here stays well below.
const (
	annotationsShown = 10
	annotationTitle  = 200
	annotationBytes  = 1_000
	annotationLine   = 300
	annotationLines  = 3 // of evidence, and of advice
)

// The kinds of annotation.
const (
	annotationError   = "error"
	annotationWarning = "warning"
	annotationNotice  = "notice"
)

// annotation is what GitHub shows beside a run, in other words a workflow command.
type annotation struct{ kind, title, text string }

// GitHub writes the annotations of a GitHub Actions step, then the text for its log.
func GitHub(w io.Writer, r *spec.Report) error {
	var b, text bytes.Buffer
	for _, a := range withinLimits(annotationsOf(r)) {
		fmt.Fprintf(&b, "::%s title=%s::%s\n", a.kind, propertyEscaper().Replace(a.title), messageEscaper().Replace(a.text))
	}
	if err := Text(&text, r); err != nil {
		return err
	}
	// The runner obeys a command wherever a line begins with one. Between these two it
	// obeys none.
	token := tokenNotIn(text.Bytes(), sha256.Sum256(text.Bytes()))
	fmt.Fprintf(&b, "::stop-commands::%s\n%s\n::%s::\n", token, text.Bytes(), token)
	_, err := w.Write(b.Bytes())
	return err
}

// GitHubSummary writes the Markdown for the summary of a step, of no more than so many
// bytes: of one that has more, GitHub shows nothing.
func GitHubSummary(w io.Writer, r *spec.Report, limit int) error {
	page := markdownOf(r)
	// Another program of the step may have left its last line open.
	page.parts[0] = "\n" + page.parts[0]
	_, err := io.WriteString(w, page.within(limit))
	return err
}

// annotationsOf are the verdict, what was found, and what was wanted in vain.
func annotationsOf(r *spec.Report) []annotation {
	v := r.Verdict
	all := []annotation{{verdictKind(v.Verdict), "aicr: " + string(cmp.Or(v.Verdict, spec.NotJudged)), layout.Shown(v.Reason, annotationBytes)}}
	if r.Unended() {
		all[0].text += "\n" + layout.Shown(unendedLine(r), annotationBytes)
	}
	all = append(all, checkAnnotations(v)...)
	for _, f := range v.Findings {
		all = append(all, annotationOf(f))
	}
	for _, e := range v.Expectations {
		if e.State == spec.Fail {
			all = append(all, annotation{annotationError, "aicr: " + e.Name, layout.Shown(expectedLine(&e), annotationBytes)})
		}
	}
	for i := range all {
		all[i].title = layout.Shown(all[i].title, annotationTitle)
	}
	return all
}

// verdictKind is how loud a verdict is. What is not known is not quiet.
func verdictKind(s spec.State) string {
	switch s {
	case spec.Fail:
		return annotationError
	case spec.Pass, spec.Skip:
		return annotationNotice
	case spec.Inconclusive, spec.Invalid, spec.NotJudged, spec.NotRun:
	}
	return annotationWarning
}

func annotationOf(f spec.Finding) annotation {
	kind := annotationWarning
	switch f.Severity {
	case spec.SeverityFail:
		kind = annotationError
	case spec.SeverityNote:
		kind = annotationNotice
	}
	title := "aicr: " + f.ID
	if len(f.Workers) > 0 {
		title += ", " + namedThings("worker", f.Named())
	}
	lines := []string{layout.Shown(f.Summary, annotationBytes)}
	for _, e := range f.Evidence[:min(len(f.Evidence), annotationLines)] {
		lines = append(lines, "- "+layout.Shown(e, annotationLine))
	}
	for _, a := range f.Advice[:min(len(f.Advice), annotationLines)] {
		lines = append(lines, "→ "+layout.Shown(a, annotationLine))
	}
	return annotation{kind, title, strings.Join(lines, "\n")}
}

// withinLimits leaves no more of a kind than are shown, and has the last one say that
// there are more.
func withinLimits(all []annotation) []annotation {
	count := map[string]int{}
	for _, a := range all {
		count[a.kind]++
	}
	written := map[string]int{}
	var kept []annotation
	for _, a := range all {
		written[a.kind]++
		left := count[a.kind] - written[a.kind] + 1
		switch {
		case written[a.kind] < annotationsShown || left == 1 && written[a.kind] == annotationsShown:
			kept = append(kept, a)
		case written[a.kind] == annotationsShown:
			kept = append(kept, annotation{a.kind, fmt.Sprintf("aicr: %d more", left),
				fmt.Sprintf("%d more are not shown here: the log of this step and its summary have them", left)})
		}
	}
	return kept
}

// messageEscaper keeps a message in the line of its command.
func messageEscaper() *strings.Replacer {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
}

// propertyEscaper keeps a property apart from the next, and from the message.
func propertyEscaper() *strings.Replacer {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
}

// tokenNotIn is a word that does not occur in the content, and so cannot have it end
// early. It is made from a hash, or from the hash of that. The runner looks at no case.
func tokenNotIn(content []byte, sum [sha256.Size]byte) string {
	lower := bytes.ToLower(content)
	for {
		token := "aicr-" + hex.EncodeToString(sum[:16])
		if !bytes.Contains(lower, []byte(token)) {
			return token
		}
		sum = sha256.Sum256(sum[:])
	}
}
