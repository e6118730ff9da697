package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a command proves is told where a newcomer looks for it, and in no other words than
// the Makefile's own: each part of make prove has its row in README.md and CONTRIBUTING.md.
func TestEveryPartOfTheProofIsInTheTables(t *testing.T) {
	makefile := readTop(t, "Makefile")
	_, line, found := strings.Cut(makefile, "$(PROVE) all ")
	line, _, _ = strings.Cut(line, "\n")
	parts := strings.Fields(strings.ReplaceAll(line, "+", " "))
	if !found || len(parts) == 0 {
		t.Fatal("make prove has no parts")
	}
	for _, file := range []string{"README.md", "CONTRIBUTING.md"} {
		rows := rowsOf(readTop(t, file))
		for _, name := range append([]string{"test", "prove", "test-busy"}, parts...) {
			if !rows[name] {
				t.Errorf("%s has no row for make %s", file, name)
			}
			delete(rows, name)
			if !strings.Contains(makefile, "\n"+name+":") {
				t.Errorf("the Makefile has no target %s", name)
			}
		}
		for name := range rows {
			if !strings.Contains(makefile, "\n"+name+":") {
				t.Errorf("%s has a row for make %s, which is no target", file, name)
			}
		}
	}
}

func readTop(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var commandRow = regexp.MustCompile("(?m)^\\| `make ([a-z0-9-]+)` \\|")

// rowsOf finds the commands of a table.
func rowsOf(page string) map[string]bool {
	rows := map[string]bool{}
	for _, m := range commandRow.FindAllStringSubmatch(page, -1) {
		rows[m[1]] = true
	}
	return rows
}
