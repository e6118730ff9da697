package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"aicr/internal/redact"
	"aicr/internal/report/layout"
)

// Code is a way for the program to end. It is an error too: a command whose
// product already says all there is to say returns the bare Code, and nothing
// more is printed.
type Code int

// The exit codes. Scripts rely on them.
const (
	Passed      Code = 0   // or nothing to do
	Failed      Code = 1   // measured, and not healthy
	Misused     Code = 2   // bad usage, recipe, constraint or readiness
	Unmeasured  Code = 3   // inconclusive, invalid, or could not measure
	Interrupted Code = 130 // stopped by the user
)

func (c Code) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// Problem is a failure as it is told to a person: what went wrong, and what to
// do next. Both are lower case and without a period at the end. Several at
// once are several Problems under errors.Join.
type Problem struct {
	Code  Code
	Cause error  // becomes "error: ..."
	Hint  string // becomes "hint: ..."; may be empty
}

func (p *Problem) Error() string { return p.Cause.Error() }

func (p *Problem) Unwrap() error { return p.Cause }

// misuse is the Problem of a user who asked for what cannot be done.
func misuse(hint, format string, args ...any) *Problem {
	return &Problem{Code: Misused, Cause: fmt.Errorf(format, args...), Hint: hint}
}

// unmeasured is the Problem of a run that could not come to a result.
func unmeasured(hint, format string, args ...any) *Problem {
	return &Problem{Code: Unmeasured, Cause: fmt.Errorf(format, args...), Hint: hint}
}

// problems takes an error apart into the Problems it is made of. What is not a
// Problem becomes one with the given code and hint.
func problems(err error, code Code, hint string) []*Problem {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok && isJoin(err, joined.Unwrap()) {
		var all []*Problem
		for _, e := range joined.Unwrap() {
			all = append(all, problems(e, code, hint)...)
		}
		return all
	}
	if c, ok := err.(Code); ok { //nolint:errorlint // one that is wrapped has words of its own
		return []*Problem{{Code: c, Cause: c}}
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		// err may have wrapped the Problem in words of its own.
		return []*Problem{{Code: p.Code, Cause: err, Hint: p.Hint}}
	}
	return []*Problem{{Code: code, Cause: err, Hint: hint}}
}

// tellable are the Problems that need words: a Code is how the command ended, which
// its product has told.
func tellable(all []*Problem) []*Problem {
	return slices.DeleteFunc(slices.Clone(all), func(p *Problem) bool {
		_, code := p.Cause.(Code) //nolint:errorlint // as above
		return code
	})
}

func onlyCodes(err error) bool { return len(tellable(problems(err, Unmeasured, ""))) == 0 }

// isJoin tells errors.Join from fmt.Errorf with several %w, whose own words
// would be lost by taking it apart.
func isJoin(err error, parts []error) bool {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Error()
	}
	return err.Error() == strings.Join(texts, "\n")
}

// worst is the code to end with: the highest, since a run that could not be
// measured says less than one that could.
func worst(all []*Problem) Code {
	code := Passed
	for _, p := range all {
		code = max(code, p.Code)
	}
	return code
}

// tell writes the problems: each cause with its hint, but a hint that several of
// them share once, at the end.
func tell(w io.Writer, paint layout.Palette, all []*Problem) {
	uses := map[string]int{}
	for _, p := range all {
		uses[p.Hint]++
	}
	hint := func(h string) { fmt.Fprintf(w, "%s %s\n", paint.Cyan("hint:"), indented(redact.Lines(h))) }
	var shared []string
	for _, p := range all {
		fmt.Fprintf(w, "%s %s\n", paint.Red("error:"), indented(redact.Lines(p.Cause.Error())))
		switch {
		case p.Hint == "":
		case uses[p.Hint] == 1:
			hint(p.Hint)
		case !slices.Contains(shared, p.Hint):
			shared = append(shared, p.Hint)
		}
	}
	for _, h := range shared {
		hint(h)
	}
}

func indented(s string) string {
	return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}

// onlyCancelled reports whether nothing went wrong but that the user stopped it.
func onlyCancelled(all []*Problem) bool {
	return !slices.ContainsFunc(all, func(p *Problem) bool { return !errors.Is(p.Cause, context.Canceled) })
}
