package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The packages that make race leaves out do one thing at a time.
func TestWhatIsTestedWithoutTheRaceDetectorStartsNothing(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(makefile), "\nSEQUENTIAL := ")
	list, _, _ = strings.Cut(list, "\n")
	packages := strings.Fields(list)
	if len(packages) == 0 {
		t.Fatal("no SEQUENTIAL list in the Makefile")
	}
	for _, dir := range packages {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no Go files, %v", dir, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, what := range startsBeside(file) {
				t.Errorf("%s %s: take it out of SEQUENTIAL in the Makefile", name, what)
			}
		}
	}
}

// startsBeside says by what a file does more than one thing at a time.
func startsBeside(file *ast.File) (how []string) {
	for _, imported := range file.Imports {
		path, _ := strconv.Unquote(imported.Path.Value) // the parser has read it
		if within(path, "sync") || within(path, "golang.org/x/sync") {
			how = append(how, "imports "+path)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok {
			how = append(how, "starts a goroutine")
		}
		return true
	})
	return how
}

func TestWhatStartsSomethingIsSeen(t *testing.T) {
	for code, want := range map[string]int{
		"package p\nfunc f() {}":                           0,
		"package p\nfunc f() { go f() }":                   1,
		"package p\nfunc f() { func() { go f() }() }":      1,
		"package p\nimport \"sync\"":                       1,
		"package p\nimport \"sync/atomic\"":                1,
		"package p\nimport \"golang.org/x/sync/errgroup\"": 1,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", code, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := startsBeside(file); len(got) != want {
			t.Errorf("%q: %q, want %d", code, got, want)
		}
	}
}
