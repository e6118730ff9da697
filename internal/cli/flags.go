package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What a flag is beyond pflag's own fields is kept in its annotations.
const (
	noteSection = "aicr/section"
	noteSecret  = "aicr/secret"
	noteNoEnv   = "aicr/no-env"
	noteAlias   = "aicr/alias"
)

const (
	sectionPlain  = "Flags"
	sectionGlobal = "Global flags"
)

// section defines flags of cmd that the help shows together under a title.
func section(cmd *cobra.Command, title string, define func(*pflag.FlagSet)) {
	f := pflag.NewFlagSet(title, pflag.ContinueOnError)
	f.SortFlags = false
	define(f)
	inSection(f, title)
	cmd.Flags().AddFlagSet(f)
}

func inSection(f *pflag.FlagSet, title string) {
	f.VisitAll(func(flag *pflag.Flag) { annotate(f, flag.Name, noteSection, title) })
}

// secret marks flags whose value is never printed: not in an error, not among
// the settings.
func secret(f *pflag.FlagSet, names ...string) {
	for _, n := range names {
		annotate(f, n, noteSecret, "yes")
	}
}

// secretGiven says whether a flag that is secret stands on the command line.
func secretGiven(cmd *cobra.Command) (given bool) {
	cmd.Flags().Visit(func(f *pflag.Flag) { given = given || noted(f, noteSecret) })
	return given
}

// withoutEnv marks flags that neither a variable nor a file may set.
func withoutEnv(f *pflag.FlagSet, names ...string) {
	for _, n := range names {
		annotate(f, n, noteNoEnv, "yes")
	}
}

// alias lets a flag be given by other names too.
func alias(f *pflag.FlagSet, name string, others ...string) {
	annotate(f, name, noteAlias, others...)
}

func annotate(f *pflag.FlagSet, name, key string, values ...string) {
	if err := f.SetAnnotation(name, key, values); err != nil {
		panic(err) // a flag that was not defined: the program is wrong, not its user
	}
}

func noted(f *pflag.Flag, key string) bool { return len(f.Annotations[key]) > 0 }

// sectionOf is the title that a flag is shown under.
func sectionOf(f *pflag.Flag) string {
	if s := f.Annotations[noteSection]; len(s) > 0 {
		return s[0]
	}
	return sectionPlain
}

// envName is the variable that stands for a flag.
func envName(flag string) string {
	return "AICR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

const noteEnvironment = "aicr/environment"

// alsoReads notes, for the help, a variable that is no flag's own, such as a
// secret that must not stand on a command line.
func alsoReads(cmd *cobra.Command, variable, meaning string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[noteEnvironment] += variable + "\t" + meaning + "\n"
}

func registerAliases(cmd *cobra.Command) {
	names := map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		for _, other := range f.Annotations[noteAlias] {
			names[other] = f.Name
		}
	})
	if len(names) == 0 {
		return
	}
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if full, ok := names[name]; ok {
			name = full
		}
		return pflag.NormalizedName(name)
	})
}

// outputFlag adds -o to a command that has a product.
func outputFlag(f *pflag.FlagSet, format *string) {
	f.VarP(newChoice(format, outputText, outputJSON), "output", "o", "form of the product")
}

const (
	outputText = "text"
	outputJSON = "json"
)

// choice is a flag that takes one of a few words; the first is the default.
type choice struct {
	value   *string
	options []string
}

func newChoice(value *string, options ...string) *choice {
	*value = options[0]
	return &choice{value, options}
}

func (c *choice) String() string {
	if c.value == nil {
		return "" // pflag asks the zero value for its default
	}
	return *c.value
}

func (c *choice) Type() string { return strings.Join(c.options, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.options, s) {
		return fmt.Errorf("want %s", strings.Join(c.options, ", "))
	}
	*c.value = s
	return nil
}

func registerChoices(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if c, ok := f.Value.(*choice); ok {
			// It fails only where the command registered a completion itself.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(c.options, cobra.ShellCompDirectiveNoFileComp))
		}
	})
}

// parseProblem words an error of pflag's parser. Its own messages can repeat
// the rest of an argument, and with it a secret.
func parseProblem(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return badValue("--"+e.GetFlag().Name, e.GetFlag(), e.GetValue(), e.Unwrap(), helpHint(cmd))
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return misuse(helpHint(cmd), "--%s needs a value", e.GetFlag().Name)
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if e.GetSpecifiedShortnames() != "" {
			return misuse(helpHint(cmd), "unknown flag -%s", e.GetSpecifiedName())
		}
		hint := helpHint(cmd)
		if near := nearest(e.GetSpecifiedName(), flagNames(cmd)); near != "" {
			hint = fmt.Sprintf("did you mean --%s?", near)
		}
		return misuse(hint, "unknown flag --%s", e.GetSpecifiedName())
	}
	if _, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return misuse(helpHint(cmd), "a flag is written --name=value or --name value")
	}
	return &Problem{Code: Misused, Cause: err, Hint: helpHint(cmd)}
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(append(names, f.Name), f.Annotations[noteAlias]...)
		}
	})
	return names
}

// badValue says what is wrong with a value, where being the place it stood in:
// a flag, a variable, or a key of a file.
func badValue(where string, f *pflag.Flag, value string, cause error, hint string) *Problem {
	if noted(f, noteSecret) {
		return misuse(hint, "%s: not a value that it takes", where)
	}
	return misuse(hint, "%s: %q %s", where, value, complaint(f, cause))
}

func complaint(f *pflag.Flag, cause error) string {
	kind := f.Value.Type()
	number, isNumber := errors.AsType[*strconv.NumError](cause)
	switch {
	case isNumber && errors.Is(number, strconv.ErrRange):
		return "is out of range"
	case kind == "duration":
		return "is not a duration such as 30s or 5m"
	case kind == "bool":
		return "is neither true nor false"
	case isNumber && strings.HasPrefix(kind, "float"):
		return "is not a number"
	case isNumber:
		return "is not a whole number"
	}
	return "is not a value that it takes: " + cause.Error()
}
