package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write what the golden files should be")

// The pages are made here and not by cobra/doc, which knows neither the
// sections of the flags nor their variables, and brings two modules along.
func TestReferenceIsUpToDate(t *testing.T) {
	const dir = "../../docs/reference"
	want := map[string]string{}
	for cmd := range everyCommand(testTree(t)) {
		want[pageName(cmd)] = page(cmd)
	}
	if *update {
		old, err := filepath.Glob(filepath.Join(dir, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range old {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := map[string]string{}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[f.Name()] = string(text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference is not what the commands say; run 'make docs' (-want +got):\n%s", diff)
	}
}

func pageName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "_") + ".md"
}

// page is the reference of one command, in Markdown.
func page(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- Made by 'make docs' from the command itself; do not edit. -->\n\n# %s\n\n", cmd.CommandPath())
	about := cmd.Long
	if about == "" {
		about = cmd.Short
	}
	fmt.Fprintf(&b, "%s\n\n```sh\n%s\n```\n\nUsage: `%s`\n", strings.TrimSpace(about), unindented(cmd.Example), usageLine(cmd))
	if subs := shown(cmd); len(subs) > 0 {
		fmt.Fprintf(&b, "\n| command | |\n|---|---|\n")
		for _, c := range subs {
			fmt.Fprintf(&b, "| [%s](%s) | %s |\n", c.Name(), pageName(c), cell(c.Short))
		}
	}
	for _, s := range flagSections(cmd) {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | variable | |\n|---|---|---|\n", s.title)
		for _, f := range s.flags {
			variable := flagEnv(f)
			if variable != "" {
				variable = "`" + variable + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", cell(strings.TrimSpace(flagTerm(f))), variable, cell(flagText(f)))
		}
	}
	if vars := variables(cmd); len(vars) > 0 {
		fmt.Fprintf(&b, "\n## Environment\n\n| variable | |\n|---|---|\n")
		for _, v := range vars {
			fmt.Fprintf(&b, "| `%s` | %s |\n", v.left, cell(v.right))
		}
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func unindented(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, strings.TrimPrefix(line, "  "))
	}
	return strings.TrimRight(strings.Join(lines, ""), "\n")
}
