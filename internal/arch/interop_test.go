package arch

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	caseRow      = regexp.MustCompile(`(?m)^\| (\d+) \|.*$`)
	testOfCase   = regexp.MustCompile("`(Test[A-Z]\\w*)(?:/\\w+)?`")
	recordedCase = regexp.MustCompile(`\b(?:records|enginePasses|engineUndecided)\(t, (\d+)[,)]`)
)

// The table of cases on real engines has every one of them once, names tests that there are,
// and says of a case that it is run exactly if a test records it.
func TestEveryCaseOfRealEnginesIsInTheTable(t *testing.T) {
	page := readTop(t, "docs/interop.md")
	_, table, found := strings.Cut(page, "\n## Engines without Dynamo\n")
	table, _, _ = strings.Cut(table, "\n## ")
	if !found {
		t.Fatal("docs/interop.md has no engines without Dynamo")
	}
	files, err := filepath.Glob(filepath.Join(root, "test/interop/*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in test/interop: %v", err)
	}
	var code strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	recorded := map[int]bool{}
	for _, m := range recordedCase.FindAllStringSubmatch(code.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		recorded[n] = true
	}
	next := 1
	for _, m := range caseRow.FindAllStringSubmatch(table, -1) {
		if m[1] != strconv.Itoa(next) {
			t.Fatalf("case %s follows case %d", m[1], next-1)
		}
		tests := testOfCase.FindAllStringSubmatch(m[0], -1)
		if len(tests) == 0 && recorded[next] {
			t.Errorf("case %d is recorded by a test that the table does not name", next)
		}
		for _, test := range tests {
			if !strings.Contains(code.String(), "\nfunc "+test[1]+"(t *testing.T)") {
				t.Errorf("case %d: there is no %s in test/interop", next, test[1])
			}
		}
		delete(recorded, next)
		next++
	}
	if next != 43 || len(recorded) > 0 {
		t.Errorf("the table has %d cases, want 42; recorded and not in it: %v", next-1, slices.Sorted(maps.Keys(recorded)))
	}
}
