package cli

import (
	"cmp"
	"slices"

	"github.com/spf13/pflag"

	"aicr/internal/spec"
)

// The words of --fail-on: the least that is worth another exit code than 0.
const (
	failOnFail         = "fail"
	failOnInconclusive = "inconclusive"
	failOnWarn         = "warn"
	failOnNever        = "never"
)

func failOnWords() []string {
	return []string{failOnFail, failOnInconclusive, failOnWarn, failOnNever}
}

func failOnFlag(f *pflag.FlagSet, word *string) {
	f.StringVar(word, "fail-on", failOnInconclusive,
		"`WORD`: what does not end with 0; fail: FAIL, INVALID, and a declared check that was NOT RUN and not left out; inconclusive: INCONCLUSIVE too; warn: a PASS with notes and a SKIP too; never: nothing that has a verdict")
}

// endOf is how a command ends that came to a verdict.
func endOf(v *spec.Verdict, failOn string) error {
	noted := slices.ContainsFunc(v.Findings, func(f spec.Finding) bool { return f.Severity == spec.SeverityNote })
	return cmp.Or(endIn(v.Verdict, noted, failOn), endOfMissing(v.Checks, failOn))
}

// endOfMissing is how a command ends where declared checks were not run that the user did
// not leave out: --fail-on fail lets what was measured and is not decided pass, and this was
// not measured.
func endOfMissing(all []spec.CheckVerdict, failOn string) error {
	if failOn == failOnNever || !slices.ContainsFunc(all, func(c spec.CheckVerdict) bool { return c.Verdict == spec.NotRun && !c.LeftOut() }) {
		return nil
	}
	return Unmeasured
}

// endIn is how a command ends in a state. A SKIP is no pass, and there was nothing to
// do. Where nothing was measured that is told unless nobody wants to know at all.
func endIn(s spec.State, noted bool, failOn string) error {
	code := Unmeasured
	switch s {
	case spec.Pass:
		if code = Passed; noted && failOn == failOnWarn {
			code = Failed
		}
	case spec.Skip:
		if failOn != failOnWarn {
			code = Passed
		}
	case spec.Fail:
		code = Failed
	case spec.Inconclusive:
		if failOn == failOnFail {
			code = Passed
		}
	case spec.Invalid, spec.NotJudged, spec.NotRun:
	}
	if code == Passed || failOn == failOnNever {
		return nil
	}
	return code
}
