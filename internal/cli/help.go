package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/report/layout"
)

// The widest and narrowest that help text is set: longer lines are hard to
// read, shorter ones leave no room beside the flags.
const (
	helpWidest    = 100
	helpNarrowest = 60
)

// help shows what a command is for, with an example before anything else.
func (a *app) help(cmd *cobra.Command) {
	width, _ := a.env.StdoutTerm.size()
	width = min(max(width, helpNarrowest), helpWidest)
	writeHelp(a.env.Stdout, a.stdoutPalette(), cmd, width)
}

func writeHelp(w io.Writer, paint layout.Palette, cmd *cobra.Command, width int) {
	fmt.Fprintf(w, "%s\n\n", strings.Join(wrap(cmd.Short, width), "\n"))
	if cmd.Example != "" {
		fmt.Fprintf(w, "%s\n%s\n\n", paint.Bold("Example:"), strings.TrimRight(cmd.Example, "\n"))
	}
	if cmd.Long != "" {
		for paragraph := range strings.SplitSeq(strings.TrimSpace(cmd.Long), "\n\n") {
			fmt.Fprintf(w, "%s\n\n", strings.Join(wrap(paragraph, width), "\n"))
		}
	}
	fmt.Fprintf(w, "%s\n  %s\n", paint.Bold("Usage:"), usageLine(cmd))

	if subs := shown(cmd); len(subs) > 0 {
		var rows []row
		for _, c := range subs {
			rows = append(rows, row{left: c.Name(), right: c.Short})
		}
		writeRows(w, paint, "Commands", rows, width)
	}
	for _, s := range flagSections(cmd) {
		var rows []row
		for _, f := range s.flags {
			rows = append(rows, row{left: flagTerm(f), right: flagText(f), env: flagEnv(f)})
		}
		writeRows(w, paint, s.title, rows, width)
	}
	if vars := variables(cmd); len(vars) > 0 {
		writeRows(w, paint, "Environment", vars, width)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nSee '%s COMMAND --help' for one of them.\n", cmd.CommandPath())
	}
}

func usageLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() && !cmd.Runnable() {
		return cmd.CommandPath() + " COMMAND [flags]"
	}
	return cmd.UseLine() + " [flags]"
}

// shown lists the subcommands that the help names.
func shown(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool { return c.Hidden })
}

type flagSection struct {
	title string
	flags []*pflag.Flag
}

// flagSections groups the flags of a command in the order of their definition,
// the global ones last.
func flagSections(cmd *cobra.Command) []flagSection {
	var sections []flagSection
	add := func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		title := sectionOf(f)
		i := slices.IndexFunc(sections, func(s flagSection) bool { return s.title == title })
		if i < 0 {
			i = len(sections)
			sections = append(sections, flagSection{title: title})
		}
		sections[i].flags = append(sections[i].flags, f)
	}
	globals := cmd.Root().PersistentFlags()
	local := cmd.NonInheritedFlags()
	local.SortFlags = false
	local.VisitAll(func(f *pflag.Flag) {
		if globals.Lookup(f.Name) == nil {
			add(f)
		}
	})
	globals.SortFlags = false
	globals.VisitAll(add)
	return sections
}

// flagTerm is how a flag is written: "-o, --output text|json".
func flagTerm(f *pflag.Flag) string {
	short := "    "
	if f.Shorthand != "" {
		short = "-" + f.Shorthand + ", "
	}
	value, _ := pflag.UnquoteUsage(f)
	if value != "" {
		value = " " + value
	}
	return short + "--" + f.Name + value
}

// flagText says what a flag is for, its other names, and its default where it
// has one worth naming.
func flagText(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	if others := f.Annotations[noteAlias]; len(others) > 0 {
		text += "; also --" + strings.Join(others, ", --")
	}
	if d := f.DefValue; !slices.Contains([]string{"", "0", "0s", "false", "[]"}, d) && !noted(f, noteSecret) {
		text += " (default " + d + ")"
	}
	return text
}

func flagEnv(f *pflag.Flag) string {
	if noted(f, noteNoEnv) {
		return ""
	}
	return envName(f.Name)
}

// variables lists what the command reads from the environment beside its flags.
func variables(cmd *cobra.Command) []row {
	var rows []row
	for line := range strings.Lines(cmd.Annotations[noteEnvironment]) {
		name, meaning, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		rows = append(rows, row{left: name, right: meaning})
	}
	return rows
}

// row is a term, what it means, and the variable that stands for it.
type row struct{ left, right, env string }

// leftWidest is the width from which on a term gets a line of its own.
const leftWidest = 34

func writeRows(w io.Writer, paint layout.Palette, title string, rows []row, width int) {
	left := 0
	for _, r := range rows {
		if n := utf8.RuneCountInString(r.left); n <= leftWidest {
			left = max(left, n)
		}
	}
	fmt.Fprintf(w, "\n%s\n", paint.Bold(title+":"))
	for _, r := range rows {
		text := r.right
		if r.env != "" {
			text += " [" + r.env + "]"
		}
		lead := fmt.Sprintf("  %-*s  ", left, r.left)
		for i, line := range wrap(text, width-left-4) {
			if r.env != "" {
				line = strings.Replace(line, "["+r.env+"]", paint.Dim("["+r.env+"]"), 1)
			}
			switch {
			case i > 0:
				lead = strings.Repeat(" ", left+4)
			case utf8.RuneCountInString(r.left) > left:
				fmt.Fprintf(w, "  %s\n", r.left)
				lead = strings.Repeat(" ", left+4)
			}
			fmt.Fprintf(w, "%s%s\n", lead, line)
		}
	}
}

// wrap breaks text between words so that lines fit the width. What else is between
// words is one space.
func wrap(text string, width int) []string {
	return layout.Wrapped(strings.Join(strings.Fields(text), " "), width)
}

// newHelp is cobra's help command, but one that fails when there is no such
// command to help with.
func newHelp(*app) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show what a command does and how to call it",
		Example: `  aicr help version
  aicr version --help   # the same`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if about, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, c := range shown(about) {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return misuse(helpHint(cmd.Root()), "%w", err)
			}
			if len(rest) > 0 {
				return unknownCommand(about, rest)
			}
			return about.Help()
		},
	}
}
