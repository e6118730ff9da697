package cli

import (
	"testing"

	"aicr/internal/spec"
)

func TestExitCodesOfVerdicts(t *testing.T) {
	const noted = "PASS with a note"
	words := failOnWords() // fail, inconclusive, warn, never
	for state, want := range map[spec.State][4]Code{
		spec.Pass:         {0, 0, 0, 0},
		noted:             {0, 0, 1, 0},
		spec.Skip:         {0, 0, 3, 0},
		spec.Fail:         {1, 1, 1, 0},
		spec.Inconclusive: {0, 3, 3, 0},
		spec.Invalid:      {3, 3, 3, 0},
		spec.NotJudged:    {3, 3, 3, 0},
		"":                {3, 3, 3, 0},
		"pass":            {3, 3, 3, 0},
	} {
		for i, word := range words {
			v := &spec.Verdict{Verdict: state, Findings: []spec.Finding{{Severity: spec.SeverityFail}}}
			if state == noted {
				v.Verdict, v.Findings = spec.Pass, append(v.Findings, spec.Finding{Severity: spec.SeverityNote})
			}
			if got := worst(problems(endOf(v, word), Unmeasured, "")); got != want[i] {
				t.Errorf("%q with --fail-on %s ends with %d, want %d", state, word, got, want[i])
			}
		}
	}
}

// A declared check that was not run is no exit code 0, unless the user left it out or wants
// none else.
func TestExitCodesOfChecksThatWereNotRun(t *testing.T) {
	check := func(code string) []spec.CheckVerdict {
		return []spec.CheckVerdict{{Name: "a", Verdict: spec.NotRun, Reason: spec.Reason{Code: code}}, {Name: spec.InferencePerf, Verdict: spec.Pass}}
	}
	for code, want := range map[string][4]Code{
		spec.NotAsked: {0, 0, 0, 0},
		spec.NotBuilt: {3, 3, 3, 0},
		spec.FailFast: {3, 3, 3, 0},
	} {
		for i, word := range failOnWords() {
			all := check(code)
			v := &spec.Verdict{Verdict: spec.WorstOfChecks(all), Checks: all}
			if got := worst(problems(endOf(v, word), Unmeasured, "")); got != want[i] {
				t.Errorf("%s with --fail-on %s ends with %d, want %d", code, word, got, want[i])
			}
		}
	}
}
