package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryCallInTheDocsParses keeps the calls that the pages show from naming
// a command or a flag that is not there.
func TestEveryCallInTheDocsParses(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
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
