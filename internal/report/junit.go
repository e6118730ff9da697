package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// JUnit writes a report as the XML that GitLab and Jenkins read: a suite with a case for
// the run as a whole, each ledger and each expectation. It keeps to what both published
// schemas allow, which is why a case has no output of its own.
func JUnit(w io.Writer, r *spec.Report) error {
	return writeJUnit(w, newJUnit(r))
}

func writeJUnit(w io.Writer, suites ...junitSuite) error {
	var b bytes.Buffer
	b.WriteString(xml.Header)
	e := xml.NewEncoder(&b)
	e.Indent("", "  ")
	if err := e.Encode(junitSuites{Suites: suites}); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Package    string          `xml:"package,attr"`
	ID         int             `xml:"id,attr"`
	Timestamp  string          `xml:"timestamp,attr"` // without a zone; it is UTC
	Hostname   string          `xml:"hostname,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"` // seconds
	Properties junitProperties `xml:"properties"`
	Cases      []junitCase     `xml:"testcase"`
	Out        junitText       `xml:"system-out"`
	Err        junitText       `xml:"system-err"`
}

type junitProperties struct {
	List []junitProperty `xml:"property"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// junitCase is a check. One that passed has none of the three.
type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitOutcome `xml:"failure"`
	Error   *junitOutcome `xml:"error"`
	Skipped *junitOutcome `xml:"skipped"`
}

// junitOutcome says why. Jenkins shows the message, GitLab only the text: the one is in
// the other.
type junitOutcome struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",cdata"`
}

type junitText struct {
	Text string `xml:",cdata"`
}

// junitHost is what the schema wants where the host is not known: the report may be
// made anywhere.
const junitHost = "localhost"

func newJUnit(r *spec.Report) junitSuite {
	start, end := checkSpan(r)
	took := fmt.Sprintf("%.3f", end.Sub(start).Seconds())
	s := junitSuite{
		Name: checkWhole(r), Package: checkPhase,
		Timestamp: start.Format("2006-01-02T15:04:05"), Hostname: junitHost,
		Time: took, Properties: junitPropertiesOf(r),
		Out: junitText{strings.Join(checkText(r), "\n")},
	}
	for _, c := range checksOf(r) {
		j := junitCase{Name: c.name, Class: checkPhase + "." + checkWhole(r), Time: "0.000"}
		switch {
		case c.declared != nil:
			j.Class, j.Time = c.declared.Phase, fmt.Sprintf("%.3f", c.declared.Seconds)
		case c.group == "":
			j.Time = took
		default:
			j.Class += "." + c.group
		}
		s.add(j, c, junitWhy(r, c))
	}
	return s
}

// add counts a case as what the check came to.
func (s *junitSuite) add(j junitCase, c check, why *junitOutcome) {
	s.Tests++
	switch c.outcome() {
	case checkPassed:
	case checkFailed:
		j.Failure = why
		s.Failures++
	case checkSkipped:
		j.Skipped = why
		s.Skipped++
	case checkOther:
		j.Error = why
		s.Errors++
	}
	s.Cases = append(s.Cases, j)
}

func junitWhy(r *spec.Report, c check) *junitOutcome {
	state := layout.Shown(string(c.state), checkNameBytes)
	message := state + ": " + c.reason
	if c.reason == "" {
		message = state + ": no reason was given"
	}
	if c.unended != "" {
		message += " (" + c.unended + ")"
	}
	lines := []string{message}
	if c.group == "" && c.declared == nil {
		lines = append(lines, checkFindings(r.Verdict.Findings)...)
	}
	return &junitOutcome{Message: message, Type: state, Text: strings.Join(lines, "\n")}
}

// junitPropertiesOf says what was tested, by what, and on what.
func junitPropertiesOf(r *spec.Report) junitProperties {
	var p junitProperties
	add := func(name, value string) {
		if value != "" {
			p.List = append(p.List, junitProperty{name, value})
		}
	}
	h := checkHardwareOf(r)
	add("verdict", layout.Shown(string(r.Verdict.Verdict), checkNameBytes))
	add("run", layout.Shown(r.Run.ID, checkNameBytes))
	add("aicr", layout.Shown(r.Run.Version, checkNameBytes))
	add("command", checkLine(r.Run.Command))
	add("target", layout.Shown(targetName(r.Run.Target), checkNameBytes))
	add("simulated", fmt.Sprint(r.Run.Target.Simulated))
	add("model", layout.Shown(r.Run.Target.Model, checkNameBytes))
	add("profile", layout.Shown(r.Verdict.Profile, checkNameBytes))
	add("kept", checkLine(r.Kept))
	if r.Unended() {
		add("unended", checkLine(unendedLine(r)))
	}
	add("gpus", checkMessage(strings.Join(h.GPUs, " ")))
	for _, f := range checkFacts(r) {
		add("fact: "+f.Name, f.Value)
	}
	return p
}
