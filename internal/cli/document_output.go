package cli

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// documentOutput is -o of a command whose product is a document: its form or, as
// upstream has it, the place that it is written to. It may be given for both.
type documentOutput struct {
	form  *string
	said  bool   // the form
	place string // "": none was given by it
}

// documentFlags adds -o and --write. After the flags were resolved, what comes back has
// to settle the place.
func documentFlags(f *pflag.FlagSet, form, place *string, where string) *documentOutput {
	*form = outputYAML
	d := &documentOutput{form: form}
	f.StringVar(place, "write", "", "write it to `FILE`"+where+"; - is standard output")
	f.VarP(d, "output", "o", "form of the product, or the file to write it to; table is for people, and cannot be read again")
	alias(f, "output", "format")
	return d
}

// settle gives the place that -o names to a command whose --write is place. One of the
// command line prevails over one of a file.
func (d *documentOutput) settle(a *app, place *string) error {
	switch {
	case d.place == "" || d.place == *place:
	case a.settings.of("write").Source == FromFlag:
		return misuse("leave one of them out", "-o %s and --write %s are two places", d.place, *place)
	default:
		*place = d.place
	}
	return nil
}

// completesDocuments offers the forms, and files.
func completesDocuments(cmd *cobra.Command) {
	// It fails only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputYAML, outputJSON, outputTable}, cobra.ShellCompDirectiveDefault))
}

func (d *documentOutput) String() string {
	if d.form == nil {
		return "" // pflag asks the zero value for its default
	}
	return *d.form
}

// Type has text first, as everywhere: one variable may be meant for every command.
func (d *documentOutput) Type() string {
	return strings.Join([]string{outputText, outputJSON, outputYAML, outputTable}, "|")
}

func (d *documentOutput) Set(s string) error {
	switch {
	case s == outputText:
		*d.form, d.said = outputTable, true
	case slices.Contains([]string{outputYAML, outputJSON, outputTable}, s):
		*d.form, d.said = s, true
	case s == "-", strings.HasPrefix(s, configMapScheme), strings.ContainsAny(s, `./\`):
		d.place = s
		if filepath.Ext(s) == ".json" && !d.said {
			*d.form = outputJSON
		}
	default:
		return errors.New("want yaml, json, table, or the name of a file")
	}
	return nil
}
