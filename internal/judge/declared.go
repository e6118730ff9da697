package judge

import (
	"fmt"
	"slices"
	"strings"

	"aicr/internal/spec"
)

// Conclude is the verdict on all checks that a recipe declares, by the plan and by what
// inference-perf came to; nil: it was not run. A verdict that has the checks already is
// concluded anew. Where the recipe declares none it is v itself.
func Conclude(p *spec.Plan, v *spec.Verdict, seconds float64) *spec.Verdict {
	if !slices.ContainsFunc(p.Checks, func(c spec.PlannedCheck) bool { return c.IsDeclared() }) {
		return v
	}
	if v != nil && len(v.Checks) > 0 {
		for _, c := range v.Checks {
			seconds = max(seconds, c.Seconds)
		}
		v = v.Inference()
	}
	whole := &spec.Verdict{Schema: spec.VerdictSchema, Profile: p.Profile, Ledgers: []spec.Ledger{}, Expectations: []spec.Expected{}, Findings: []spec.Finding{}}
	if v != nil {
		*whole = *v
	}
	whole.Checks = declaredChecks(p, v, round(seconds, 3))
	whole.Verdict, whole.Reason = sumUpChecks(whole.Checks)
	return whole
}

// ConcludeFleet adds the checks that the recipe declares to what the nodes came to.
func ConcludeFleet(p *spec.Plan, f *spec.FleetVerdict) {
	of := &spec.Verdict{Verdict: f.Verdict, Reason: f.Reason}
	whole := Conclude(p, of, 0)
	if whole == of {
		return
	}
	f.Checks = whole.Checks
	for i := range f.Checks {
		f.Checks[i].Detail = nil // each node's own folder has it
	}
	if spec.WorstOfChecks(f.Checks) != f.Verdict && f.Verdict != spec.NotJudged {
		f.Verdict, f.Reason = whole.Verdict, whole.Reason
	}
}

// declaredChecks are the results, in the plan's order, which is the catalog's. What was
// loaded is among them, whether the recipe declares it or not.
func declaredChecks(p *spec.Plan, v *spec.Verdict, seconds float64) (all []spec.CheckVerdict) {
	for i := range p.Checks {
		c := &p.Checks[i]
		if !c.IsDeclared() && !c.Runs {
			continue
		}
		result := spec.CheckVerdict{Name: c.Name, Phase: c.Phase, Verdict: c.Verdict, Evidence: c.Evidence,
			Reason: spec.Reason{Code: c.Reason.Code, Text: c.Reason.Text()}}
		switch {
		case c.Runs && c.Name == spec.InferencePerf && v != nil:
			result.Verdict, result.Reason, result.Evidence = v.Verdict, inferenceReason(v), ledgerEvidence(v)
			result.Seconds, result.Detail = seconds, v
		case c.Runs && c.Name == spec.InferencePerf:
			result.Verdict, result.Reason = spec.Inconclusive, worded(spec.Because(spec.InferenceNotLoaded))
		case c.Runs:
			result.Verdict, result.Reason = spec.NotRun, worded(spec.Because(spec.NotBuilt, spec.TargetCluster))
		case c.Verdict == "": // a plan of a program that did not record it
			result.Verdict, result.Reason = spec.NotRun, spec.Reason{Code: spec.NotBuilt, Text: c.Why}
		}
		all = append(all, result)
	}
	return all
}

func worded(r spec.CheckReason) spec.Reason { return spec.Reason{Code: r.Code, Text: r.Text()} }

// inferenceReason has as its code the finding that decided, else the verdict's own word.
func inferenceReason(v *spec.Verdict) spec.Reason {
	severity := map[spec.State]string{spec.Fail: spec.SeverityFail, spec.Invalid: spec.SeverityInvalid}[v.Verdict]
	for _, f := range v.Findings {
		if severity != "" && f.Severity == severity {
			return spec.Reason{Code: f.ID, Text: v.Reason}
		}
	}
	return spec.Reason{Code: strings.ReplaceAll(strings.ToLower(string(v.Verdict)), " ", "-"), Text: v.Reason}
}

func ledgerEvidence(v *spec.Verdict) (all []spec.CheckEvidence) {
	for _, l := range v.Ledgers {
		all = append(all, spec.CheckEvidence{What: l.Name, Value: string(l.State) + ": " + l.Reason})
	}
	return all
}

// sumUpChecks is the worst of the checks, and the line that says why: that of
// inference-perf where it decides, else those of the checks that do.
func sumUpChecks(all []spec.CheckVerdict) (spec.State, string) {
	worst := spec.WorstOfChecks(all)
	var lines []string
	missing := map[string][]string{} // names of those that were not run, by why
	var whys []string
	beside := ""
	for i := range all {
		c := &all[i]
		loaded := c.Detail != nil
		switch {
		case c.LeftOut():
		case c.Verdict == spec.NotRun && worst == spec.Inconclusive:
			if missing[c.Reason.Text] == nil {
				whys = append(whys, c.Reason.Text)
			}
			missing[c.Reason.Text] = append(missing[c.Reason.Text], c.Name)
		case spec.WorstOfChecks(all[i:i+1]) != worst:
			if loaded && c.Reason.Text != "" {
				beside = fmt.Sprintf("%s is %s: %s", c.Name, c.Verdict, c.Reason.Text)
			}
		case loaded:
			lines = append([]string{c.Reason.Text}, lines...)
		case c.Name == spec.InferencePerf:
			lines = append([]string{c.Name + ": " + c.Reason.Text}, lines...)
		default:
			lines = append(lines, c.Name+": "+c.Reason.Text)
		}
	}
	if worst == spec.Pass {
		lines = lines[:min(1, len(lines))]
	}
	for _, why := range whys {
		lines = append(lines, fmt.Sprintf("%d of %s NOT RUN (%s): %s", len(missing[why]), counted(float64(len(all)), "declared check"), why, someChecks(missing[why])))
	}
	if worst == spec.Fail || worst == spec.Invalid {
		if n := len(lines); n > 2 {
			lines = append(lines[:2], fmt.Sprintf("%s %s", counted(float64(n-2), "more check"), worst))
		}
		beside = ""
	}
	if beside != "" {
		lines = append(lines, beside)
	}
	return worst, strings.Join(lines, "; ")
}

// someChecks names the first few checks.
func someChecks(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
