package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"aicr/internal/spec"
)

func newSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [KIND]",
		Short: "Print the JSON Schema of a kind of document",
		Long: `Print the JSON Schema of a kind of document, by which an editor completes its
fields and marks mistakes. Without a kind: list them.

A kind goes by its short name or by the one that documents write, in whichever case.`,
		Example: `  aicr schema
  aicr schema recipe > recipe.schema.json
  aicr schema AICRConfig`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return misuse("see 'aicr schema'", "one kind is printed at a time, %d were named", len(args))
			}
			return nil
		},
		ValidArgsFunction: documentKinds,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listKinds()
			}
			return a.schema(args[0])
		},
	}
}

func (a *app) listKinds() error {
	names, kinds := 0, 0
	for _, k := range spec.DocumentKinds() {
		names, kinds = max(names, len(k.Name)), max(kinds, len(k.Kind))
	}
	for _, k := range spec.DocumentKinds() {
		if _, err := fmt.Fprintf(a.env.Stdout, "%-*s  %-*s  %s\n", names, k.Name, kinds, k.Kind, k.About); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) schema(name string) error {
	k, ok := spec.DocumentKindNamed(name)
	if !ok {
		return unknownKind(name)
	}
	text, err := k.Schema()
	if err != nil {
		return fmt.Errorf("the schema of %s: %w", k.Name, err)
	}
	_, err = a.env.Stdout.Write(text)
	return err
}

func unknownKind(name string) error {
	var known, short []string
	for _, k := range spec.DocumentKinds() {
		known, short = append(known, k.Name, k.Kind), append(short, k.Name)
	}
	hint := "see 'aicr schema'"
	if near := nearest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %s? see 'aicr schema'", near)
	}
	return misuse(hint, "no kind of document is %q; want one of %s", name, strings.Join(short, ", "))
}

// documentKinds completes the name of a kind.
func documentKinds(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var all []string
	for _, k := range spec.DocumentKinds() {
		all = append(all, cobra.CompletionWithDesc(k.Name, k.About))
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}
