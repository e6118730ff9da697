package cli

import (
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
		"`WORD`: what does not end with 0; fail: FAIL and INVALID; inconclusive: INCONCLUSIVE too; warn: a PASS with notes and a SKIP too; never: nothing that has a verdict")
}

// endOf is how a command ends that came to a verdict.
func endOf(v *spec.Verdict, failOn string) error {
	noted := slices.ContainsFunc(v.Findings, func(f spec.Finding) bool { return f.Severity == spec.SeverityNote })
	return endIn(v.Verdict, noted, failOn)
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
