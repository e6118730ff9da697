package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aicr/internal/spec"
)

// TestEveryCallInTheDocsParses keeps the calls that the pages show from naming
// a command or a flag that is not there.
func TestEveryCallInTheDocsParses(t *testing.T) {
	var pages []string
	for _, folder := range []string{"docs", "docs/diagnoses", "docs/documents", "docs/reports"} {
		more, err := filepath.Glob(filepath.Join("../..", folder, "*.md"))
		if err != nil || len(more) == 0 {
			t.Fatalf("no page in %s: %v", folder, err)
		}
		pages = append(pages, more...)
	}
	calls := 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range callsIn(string(text)) {
			calls++
			root := newApp(Env{}).root(commands)
			cmd, rest, err := root.Find(call[1:])
			if err != nil || cmd == root {
				t.Errorf("%s: %s: no such command", page, strings.Join(call, " "))
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: %s: %v", page, strings.Join(call, " "), err)
			}
		}
	}
	if calls < 10 {
		t.Errorf("only %d calls were found: are they looked for in the right way?", calls)
	}
}

// TestTheSimulatorsPageHasEverything keeps the lists of the code and the tables of
// the page alike.
func TestTheSimulatorsPageHasEverything(t *testing.T) {
	text, err := os.ReadFile("../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // of all tables, by their first cell
	for line := range strings.SplitSeq(string(text), "\n") {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") && len(cells) > 1 {
			rows[strings.Trim(cells[0], "| `")] = line
		}
	}
	known := map[string]bool{}
	has := func(name string, words ...string) {
		t.Helper()
		known[name] = true
		for _, w := range words {
			if !strings.Contains(rows[name], w) {
				t.Errorf("the row of %s has no %q: %q", name, w, rows[name])
			}
		}
		if rows[name] == "" {
			t.Errorf("%s has no row", name)
		}
	}
	for _, k := range spec.FaultKinds() {
		has(string(k.Kind), k.Takes...)
	}
	for _, r := range spec.Routers() {
		has(r)
	}
	for _, name := range spec.ProfileNames() {
		p, _ := spec.ProfileNamed(name)
		ms := func(d spec.Duration) string { return fmt.Sprintf("%g ms", d.D().Seconds()*1e3) }
		has(name, ms(p.Timing.Base), fmt.Sprintf("%g µs", float64(p.Frontend.PerToken)/1e3), fmt.Sprintf("%g, %g", p.Timing.HostJitter, p.Timing.StepJitter))
	}
	for name := range rows {
		if !known[name] {
			t.Errorf("the page has a row of %s, which is not there", name)
		}
	}
}

// A page that has the roles applied has them bound too, or says where that is: a role that
// nobody is bound to gives nothing.
func TestARoleThatIsAppliedInTheDocsIsBound(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	applied := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "aicr validate --rbac | kubectl apply") {
			continue
		}
		applied++
		bound := strings.Contains(string(text), "create clusterrolebinding aicr-validate") && strings.Contains(string(text), "create rolebinding aicr-validate")
		if !bound && !strings.Contains(string(text), "security.md#give-the-rights-and-take-them-back") {
			t.Errorf("%s has roles applied, and does not say how they are bound", page)
		}
	}
	if applied < 3 {
		t.Errorf("only %d pages were found: are they looked for in the right way?", applied)
	}
}

// callsIn finds the calls of aicr in the code blocks of a page.
func callsIn(text string) (calls [][]string) {
	blocks := strings.Split(strings.ReplaceAll(text, "\\\n", " "), "```")
	for i := 1; i < len(blocks); i += 2 {
		for line := range strings.SplitSeq(blocks[i], "\n") {
			words := strings.Fields(strings.TrimPrefix(line, "$ "))
			if len(words) < 2 || words[0] != "aicr" {
				continue
			}
			if end := slices.IndexFunc(words, func(w string) bool { return strings.ContainsAny(w, "&|>#;") }); end > 0 {
				words = words[:end]
			}
			calls = append(calls, words)
		}
	}
	return calls
}
