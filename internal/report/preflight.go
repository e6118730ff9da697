package report

import (
	"io"
	"strings"
	"time"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// PreflightFormat is a way to tell what was found on paper. Version is the program's.
type PreflightFormat struct {
	Name  string
	Write func(w io.Writer, p *spec.Preflight, version string) error
}

// PreflightFormats lists them. Of a run there are more: nothing was measured here that a
// picture or a table of requests could show.
func PreflightFormats() []PreflightFormat {
	return []PreflightFormat{
		{"json", func(w io.Writer, p *spec.Preflight, _ string) error { return writeJSON(w, p) }},
		{"ctrf", preflightCTRF},
		{"junit", preflightJUnit},
	}
}

// preflightNotes are the notes as they are fit for any file.
func preflightNotes(p *spec.Preflight) (notes []string) {
	for _, note := range p.Notes {
		notes = append(notes, checkLine(note))
	}
	return notes
}

// preflightCheck is a check of a phase as what gathers test results knows it.
func preflightCheck(phase spec.PhaseResult, c spec.CheckResult) check {
	return check{group: phase.Name, name: layout.Shown(c.Name, checkNameBytes), state: c.State, reason: checkLine(c.Reason)}
}

// preflightPhases are the phases, and before them what the recipe wants of the cluster:
// where that is not there, a report has to show it.
func preflightPhases(p *spec.Preflight) []spec.PhaseResult {
	if len(p.Readiness) == 0 {
		return p.Phases
	}
	ready := spec.PhaseResult{Name: "readiness", State: spec.Pass, Reason: "all of it is there"}
	taken := map[string]int{}
	for _, h := range p.Readiness {
		c := spec.CheckResult{Name: checkName(taken, "", h.Name), Declared: true, State: spec.Pass, Reason: h.Value + ", wanted " + h.Want, Held: []spec.Held{h}}
		switch h.State {
		case spec.HeldMet:
		case spec.HeldNotMet:
			c.State, c.Reason = spec.Fail, "it is "+h.Value+", wanted "+h.Want
			ready.State = spec.Fail
		default:
			c.State, c.Reason = spec.Inconclusive, "wanted "+h.Want+", cannot be held: "+h.Reason
			if ready.State == spec.Pass {
				ready.State = spec.Inconclusive
			}
		}
		if c.State != spec.Pass {
			ready.Reason = p.Reason
			if h.Remediation != "" {
				c.Reason += "; advice: " + h.Remediation
			}
		}
		ready.Checks = append(ready.Checks, c)
	}
	return append([]spec.PhaseResult{ready}, p.Phases...)
}

// preflightCTRF has a test for each check, in the suite of its phase. Nothing ran, so
// that nothing took time: the stamps are the epoch, and the same paper gives the same
// bytes.
func preflightCTRF(w io.Writer, p *spec.Preflight, version string) error {
	out := &ctrfReport{Format: "CTRF", Version: ctrfVersion, Timestamp: time.Unix(0, 0).UTC().Format(time.RFC3339),
		GeneratedBy: strings.TrimSpace("aicr " + layout.Shown(version, checkNameBytes))}
	out.Results.Tool = ctrfTool{Name: "aicr", Version: layout.Shown(version, checkNameBytes)}
	out.Results.Tests = []ctrfTest{}
	out.Results.Environment.Extra = struct {
		Verdict  spec.State `json:"verdict"`
		Reason   string     `json:"reason"`
		Notes    []string   `json:"notes,omitempty"`
		Recipe   string     `json:"recipe"`
		Snapshot string     `json:"snapshot"`
	}{p.Verdict, checkLine(p.Reason), preflightNotes(p), checkLine(p.Recipe), checkLine(p.Snapshot)}
	for _, phase := range preflightPhases(p) {
		for _, one := range phase.Checks {
			c := preflightCheck(phase, one)
			t := ctrfTest{Name: c.name, Status: out.Results.Summary.count(c.outcome()), Suite: []string{phase.Name}, Message: c.reason, RawStatus: string(c.state)}
			t.Extra = struct {
				Declared    bool        `json:"declared"`
				Constraints []spec.Held `json:"constraints,omitempty"`
			}{one.Declared, one.Held}
			out.Results.Tests = append(out.Results.Tests, t)
		}
	}
	return writeJSON(w, out)
}

// preflightJUnit has a suite a phase.
func preflightJUnit(w io.Writer, p *spec.Preflight, version string) error {
	var all []junitSuite
	for i, phase := range preflightPhases(p) {
		s := junitSuite{Name: phase.Name, Package: "preflight", ID: i, Timestamp: time.Unix(0, 0).UTC().Format("2006-01-02T15:04:05"), Hostname: junitHost, Time: "0.000",
			Properties: junitProperties{[]junitProperty{{"verdict", string(p.Verdict)}, {"aicr", layout.Shown(version, checkNameBytes)},
				{"recipe", checkLine(p.Recipe)}, {"snapshot", checkLine(p.Snapshot)}}},
			Out: junitText{checkLine(string(phase.State) + ": " + phase.Reason)}}
		for _, note := range preflightNotes(p) {
			s.Properties.List = append(s.Properties.List, junitProperty{"note", note})
		}
		for _, one := range phase.Checks {
			c := preflightCheck(phase, one)
			message := string(c.state) + ": " + c.reason
			why := &junitOutcome{Message: message, Type: string(c.state), Text: message}
			s.add(junitCase{Name: c.name, Class: "preflight." + phase.Name, Time: "0.000"}, c, why)
		}
		all = append(all, s)
	}
	return writeJUnit(w, all...)
}
