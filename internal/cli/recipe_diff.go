package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"aicr/internal/report/layout"
	"aicr/recipes"
)

func newRecipeDiff(a *app) *cobra.Command {
	var format, data string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say what two recipes do not agree on",
		Long: `Compares two recipes, each the name of an overlay or a file, both completed with
their bases: what they are for, what they want, check and deploy, and how they judge.

Exit codes: 0 they say the same; 1 they do not; 2 one of them could not be read.`,
		Example: `  aicr recipe diff h100-eks-ubuntu-inference-dynamo h100-gke-cos-inference-dynamo
  aicr recipe diff h100-eks-ubuntu-inference-dynamo mine.yaml -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return misuse(helpHint(cmd), "two recipes are compared, %d were named", len(args))
			}
			return nil
		},
		ValidArgsFunction: overlayNames,
		RunE:              func(_ *cobra.Command, args []string) error { return a.recipeDiff(args[0], args[1], data, format) },
	}
	dataFlag(cmd.Flags(), &data)
	outputFlag(cmd.Flags(), &format)
	return cmd
}

// recipeDifference is the product.
type recipeDifference struct {
	A       string           `json:"a"`
	B       string           `json:"b"`
	Same    bool             `json:"same"`
	Changes []recipes.Change `json:"changes"`
}

func (a *app) recipeDiff(first, second, data, format string) error {
	l, err := a.library(data)
	if err != nil {
		return err
	}
	x, wrongX := a.namedRecipe(first, l)
	y, wrongY := a.namedRecipe(second, l)
	if err := errors.Join(wrongX, wrongY); err != nil {
		return err
	}
	d := recipeDifference{A: first, B: second, Changes: recipes.Diff(x.Recipe, y.Recipe)}
	d.Same = len(d.Changes) == 0
	var code error
	if !d.Same {
		code = Failed
	}
	if format == outputJSON {
		return errors.Join(a.printJSON(d), code)
	}
	_, err = a.env.Stdout.Write(differenceText(d, a.stdoutPalette()))
	return errors.Join(err, code)
}

func differenceText(d recipeDifference, paint layout.Palette) []byte {
	t := &layout.Page{Palette: paint}
	if d.Same {
		t.Line(0, paint.Bold("SAME")+"  ", fmt.Sprintf("%s and %s say the same", d.A, d.B))
		return t.Bytes()
	}
	t.Line(0, paint.Bold("DIFFERENT")+"  ", fmt.Sprintf("%s between %s (-) and %s (+)", layout.Plural(len(d.Changes), "difference"), d.A, d.B))
	of := ""
	for _, c := range d.Changes {
		if c.Of != of {
			of = c.Of
			t.Title(of)
		}
		t.Line(2, "", c.Name)
		if c.A != "" {
			t.Line(4, paint.Red("- "), c.A)
		}
		if c.B != "" {
			t.Line(4, paint.Green("+ "), c.B)
		}
	}
	return t.Bytes()
}
