package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aicr/internal/redact"
	"aicr/internal/report/layout"
	"aicr/internal/spec"
	"aicr/recipes"
)

const (
	outputYAML  = "yaml"
	outputTable = "table"
)

func newRecipe(a *app) *cobra.Command {
	var o recipeOptions
	cmd := &cobra.Command{
		Use:   "recipe [NAME|FILE]",
		Short: "Print what should be there, for these criteria or this snapshot",
		Long: `Makes the recipe of a deployment: what the cluster has to have, what is deployed on
it, which checks it is held against, and how it is judged. It is made of overlays,
laid over each other; --list shows those that there are, and --data adds your own.

Say what the deployment is by --service, --accelerator, --os, --intent and
--platform, or let --snapshot say it: what was concluded from which fact is told on
standard error. A flag prevails over the snapshot. Or name an overlay, or a file with
one, which is completed with its bases.

The product is a document that 'aicr validate --recipe' takes. Nothing is contacted.

Exit codes: 0 here it is; 2 bad usage, a mistake in a file, or no overlay for what
was asked.`,
		Example: `  aicr recipe --list
  aicr recipe --service eks --accelerator h100 --os ubuntu --intent inference --platform dynamo
  aicr recipe --snapshot snapshot.yaml --intent inference --platform dynamo --write recipe.yaml
  aicr recipe h100-eks-ubuntu-inference-dynamo --explain
  aicr recipe diff h100-eks-ubuntu-inference-dynamo recipe.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return misuse(helpHint(cmd), "one recipe is made at a time, %d were named", len(args))
			}
			return nil
		},
		ValidArgsFunction: overlayNames,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.name = args[0]
			}
			return a.recipe(&o)
		},
	}
	o.define(cmd)
	cmd.AddCommand(newRecipeDiff(a))
	return cmd
}

// recipeOptions are the flags of aicr recipe.
type recipeOptions struct {
	name     string
	words    map[string]*string // of the criteria, by field
	nodes    int
	snapshot string
	data     string
	list     bool
	explain  bool
	format   string
	write    string
	output   *documentOutput
	force    bool
}

func (o *recipeOptions) define(cmd *cobra.Command) {
	o.words = map[string]*string{}
	section(cmd, "Criteria", func(f *pflag.FlagSet) {
		for _, c := range []struct{ field, text string }{
			{"service", "`WORD` for who runs the cluster, as eks"},
			{"accelerator", "`WORD` for the GPU, as h100"},
			{"os", "`WORD` for what the GPU nodes run, as ubuntu"},
			{"intent", "`WORD` for what it is for: inference or training"},
			{"platform", "`WORD` for what serves on it, as dynamo"},
		} {
			o.words[c.field] = f.String(c.field, "", c.text)
		}
		f.IntVar(&o.nodes, "nodes", 0, "`N` GPU nodes; noted, and chooses nothing")
		f.StringVar(&o.snapshot, "snapshot", "", "conclude the criteria from `FILE`, a snapshot")
	})
	section(cmd, "Library", func(f *pflag.FlagSet) {
		dataFlag(f, &o.data)
		f.BoolVar(&o.list, "list", false, "list the overlays that there are")
	})
	section(cmd, "Output", func(f *pflag.FlagSet) {
		f.BoolVar(&o.explain, "explain", false, "print where each value is from, and which fields are not used, instead")
		o.output = documentFlags(f, &o.format, &o.write, "")
		f.BoolVar(&o.force, "force", false, "overwrite the file of --write")
	})
	completesDocuments(cmd)
	for field := range o.words {
		// It fails only for a flag that is not there.
		_ = cmd.RegisterFlagCompletionFunc(field, cobra.FixedCompletions(spec.CriteriaWords(field), cobra.ShellCompDirectiveNoFileComp))
	}
	_ = cmd.RegisterFlagCompletionFunc("data", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	})
}

// dataFlag adds --data to a command that needs recipes.
func dataFlag(f *pflag.FlagSet, dir *string) {
	f.StringVar(dir, "data", "", "add the overlays, mixins and checks of `DIR` to those that are built in")
}

// noRecipe says why there is none.
func noRecipe(err error) error {
	if u, ok := errors.AsType[*recipes.Unmatched](err); ok {
		hint := "'aicr recipe --list' shows what there is, and --data adds your own"
		if u.Nearest != "" {
			hint = fmt.Sprintf("nearest is %s; %s", u.Nearest, hint)
		}
		return misuse(hint, "%w", err)
	}
	return badFolder(err)
}

// madeRecipe is a whole recipe and what it was made of.
type madeRecipe struct {
	*spec.Recipe
	layers  []recipes.Overlay
	comment []string // of how it was come by
}

// recipe is the command from its options to its exit code.
func (a *app) recipe(o *recipeOptions) error {
	place := o.output.settle(a, &o.write)
	o.giveWay(a)
	l, err := a.library(o.data)
	if err := errors.Join(place, o.check(l), err); err != nil {
		return err
	}
	if o.list {
		return a.listRecipes(l, o.format)
	}
	made, err := a.makeRecipe(o, l)
	if err != nil {
		return err
	}
	if o.explain {
		return a.explainRecipe(made, o.format)
	}
	product, err := a.recipeProduct(made, o.format)
	if err != nil {
		return err
	}
	if o.write == "" || o.write == "-" {
		_, err := a.env.Stdout.Write(redact.Document(product))
		return err
	}
	if err := writeFile(o.write, func(w io.Writer) error { _, err := w.Write(product); return err }); err != nil {
		return unmeasured("", "writing the recipe: %w", err)
	}
	a.say("wrote %s", o.write)
	return nil
}

// giveWay drops what a variable or a file says and this call has no use for: it was
// written for other calls too. What is on the command line is a conflict instead.
func (o *recipeOptions) giveWay(a *app) {
	flagged := func(flag string) bool { return a.settings.of(flag).Source == FromFlag }
	written := flagged("write") || o.output.place != ""
	if o.explain && !flagged("explain") && (o.list || written && o.write != "") {
		o.explain = false
	}
	if (o.list || o.explain) && !written {
		o.write = ""
		o.force = o.force && flagged("force")
	}
	if !o.list && o.name == "" {
		return
	}
	for field, word := range o.words {
		if !flagged(field) {
			*word = ""
		}
	}
	if !flagged("snapshot") {
		o.snapshot = ""
	}
}

// check finds what is wrong with the flags. The library, where it could be read, has
// words of its own.
func (o *recipeOptions) check(l *recipes.Library) error {
	var wrong []error
	bad := func(hint, format string, args ...any) { wrong = append(wrong, misuse(hint, format, args...)) }
	asked := ""
	for _, field := range spec.CriteriaFields() {
		word := *o.words[field]
		if word == "" {
			continue
		}
		asked = "--" + field
		text, hint := spec.CriteriaMistake(field, word)
		if text != "" && (l == nil || !slices.ContainsFunc(l.Overlays, func(x recipes.Overlay) bool { return x.Criteria.Named(field) == word })) {
			bad(hint, "--%s: %s", field, text)
		}
	}
	if o.snapshot != "" {
		asked = "--snapshot"
	}
	if o.nodes < 0 {
		bad("leave it out when it is not known", "--nodes: %d is no number of nodes", o.nodes)
	}
	switch {
	case o.list && (asked != "" || o.name != ""):
		bad("leave it out", "--list shows every overlay, whatever else is asked")
	case o.name != "" && asked != "":
		bad("name one, or the criteria", "%s is for criteria, and %s is named", asked, o.name)
	case !o.list && o.name == "" && asked == "":
		bad("say --service, --accelerator and the rest, or name one of 'aicr recipe --list'", "there is nothing to make a recipe of")
	}
	if o.list && (o.explain || o.write != "") {
		bad("leave it out", "--list makes no recipe: neither --explain nor --write is for it")
	}
	if o.explain && o.write != "" {
		bad("leave one of them out", "--explain makes no document that --write could keep")
	}
	switch {
	case o.write == "" && o.force:
		bad("name a file with --write", "--force is for --write")
	case o.write == "" || o.write == "-":
	case o.format == outputTable:
		bad("write it with -o yaml or -o json", "--write: a table is no recipe that could be read again")
	default:
		if err := filePlace(o.write, o.force); err != nil {
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

// makeRecipe makes what was asked for.
func (a *app) makeRecipe(o *recipeOptions, l *recipes.Library) (*madeRecipe, error) {
	if o.name != "" {
		return a.namedRecipe(o.name, l)
	}
	asked, evidence, err := a.askedCriteria(o)
	if err != nil {
		return nil, err
	}
	layers, err := l.Layers(asked)
	if err != nil {
		return nil, o.unmatched(asked, err)
	}
	made, err := a.merged(l, layers, asked)
	if err != nil {
		return nil, err
	}
	made.comment = append(made.comment, evidence...)
	return made, nil
}

// unmatched says why there is no recipe. Where the snapshot left criteria open, the
// nearest overlay would be a guess at what the cluster is: they are asked for instead.
func (o *recipeOptions) unmatched(asked spec.Criteria, err error) error {
	var open []string
	for _, field := range spec.CriteriaFields() {
		if asked.Named(field) == "" {
			open = append(open, "--"+field)
		}
	}
	if _, ok := errors.AsType[*recipes.Unmatched](err); !ok || o.snapshot == "" || len(open) == 0 {
		return noRecipe(err)
	}
	return misuse(fmt.Sprintf("the snapshot does not tell everything: say %s; 'aicr recipe --list' shows what there is", layout.Listed(open)), "%w", err)
}

// askedCriteria are those of the flags, over those that the snapshot tells. With a
// snapshot, it is said what each of them was concluded from.
func (a *app) askedCriteria(o *recipeOptions) (spec.Criteria, []string, error) {
	var c spec.Criteria
	because := map[string]string{}
	if o.snapshot != "" {
		s, err := a.readSnapshot(o.snapshot)
		if err != nil {
			return c, nil, err
		}
		var told []spec.Evidence
		var untold []spec.Untold
		c, told, untold = spec.InferCriteria(s)
		for _, e := range told {
			because[e.Field] = fmt.Sprintf("%s, because %s is %s", e.Value, e.Path, e.Found)
		}
		for _, u := range untold {
			because[u.Field] = "not told: " + u.Reason
		}
	}
	for _, field := range spec.CriteriaFields() {
		if word := *o.words[field]; word != "" {
			*c.Field(field), because[field] = word, fmt.Sprintf("%s, because --%s says so", word, field)
		}
	}
	if o.nodes > 0 {
		c.Nodes, because["nodes"] = o.nodes, fmt.Sprintf("%d, because --nodes says so", o.nodes)
	}
	if o.snapshot == "" {
		return c, nil, nil
	}
	evidence := []string{"The criteria are from " + o.snapshot + "."}
	for _, field := range append(spec.CriteriaFields(), "nodes") {
		if why := because[field]; why != "" {
			evidence = append(evidence, field+": "+why)
			a.say("%s", field+": "+why)
		}
	}
	return c, evidence, nil
}

// namedRecipe is an overlay of the library or a file, completed.
func (a *app) namedRecipe(name string, l *recipes.Library) (*madeRecipe, error) {
	if o, ok := l.Overlay(name); ok {
		layers, _ := l.LayersNamed(name)
		return a.merged(l, layers, o.Criteria)
	}
	text, err := readWithin(a.ended, name, spec.MaxDocument)
	switch {
	case errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, `/\.`):
		hint := "see 'aicr recipe --list'"
		if near := nearest(name, l.Names()); near != "" {
			hint = fmt.Sprintf("did you mean %s? %s", near, hint)
		}
		return nil, misuse(hint, "%q is neither an overlay nor a file", name)
	case err != nil:
		return nil, misuse("see 'aicr recipe --list' for what is built in", "reading a recipe: %w", err)
	}
	r, err := spec.SalvageRecipe(text)
	if r == nil {
		return nil, mistakes(name, err)
	}
	var wrong []error
	if err != nil {
		wrong = append(wrong, mistakes(name, err))
	}
	alone := []recipes.Overlay{recipes.Layer(r, name, text)}
	if err := l.CheckNames(alone); err != nil {
		wrong = append(wrong, noRecipe(err))
	}
	layers := alone
	if !r.Whole() {
		if layers, err = l.LayersOf(r, name, text); err != nil {
			wrong = append(wrong, noRecipe(err))
		}
	}
	switch {
	case len(wrong) > 0:
		return nil, errors.Join(wrong...)
	case r.Whole():
		return &madeRecipe{Recipe: r, layers: alone}, nil
	}
	return a.merged(l, layers, r.Criteria)
}

// merged lays the layers over each other.
func (a *app) merged(l *recipes.Library, layers []recipes.Overlay, asked spec.Criteria) (*madeRecipe, error) {
	r, err := l.Merge(layers, asked)
	if err != nil {
		return nil, noRecipe(err)
	}
	if err := l.CheckNames(layers); err != nil {
		return nil, noRecipe(err)
	}
	r.Resolution.Version = a.env.Build.Version
	return &madeRecipe{Recipe: r, layers: layers, comment: []string{
		fmt.Sprintf("Made by aicr %s of %s.", a.env.Build.Version, strings.Join(r.Resolution.AppliedOverlays, ", ")),
	}}, nil
}

// recipeProduct is the recipe in the form that was asked for.
func (a *app) recipeProduct(m *madeRecipe, format string) ([]byte, error) {
	switch format {
	case outputJSON:
		return spec.EncodeRecipeJSON(m.Recipe)
	case outputTable:
		return recipeText(m, a.stdoutPalette()), nil
	}
	m.Comment = ""
	for _, line := range m.comment {
		m.Comment += line + "\n"
	}
	return spec.EncodeRecipe(m.Recipe)
}

// overlayNames completes the names of what is built in.
func overlayNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	l, err := recipes.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var all []cobra.Completion
	for _, o := range l.Overlays {
		all = append(all, cobra.CompletionWithDesc(o.Name, criteriaText(o.Criteria)))
	}
	return all, cobra.ShellCompDirectiveDefault
}
