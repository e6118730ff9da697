package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A fuzz target that make fuzz does not run finds nothing, and go test says
// nothing of one that is listed and not there.
func TestMakeFuzzesEveryTargetThatThereIs(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	written, err := fuzzTargets(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	listed := fuzzList(string(makefile))
	if len(listed) == 0 {
		t.Fatal("no FUZZ list in the Makefile")
	}
	slices.Sort(listed)
	slices.Sort(written)
	if diff := cmp.Diff(written, listed); diff != "" {
		t.Errorf("FUZZ in the Makefile is not what the tree has (-tree +Makefile):\n%s", diff)
	}
}

// fuzzList reads the Makefile's list of package:function.
func fuzzList(makefile string) []string {
	_, list, _ := strings.Cut(makefile, "\nFUZZ := \\\n")
	list, _, _ = strings.Cut(list, "\n\n")
	return strings.Fields(strings.ReplaceAll(list, `\`, " "))
}

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// fuzzTargets finds the fuzz functions of the module, as package:function.
func fuzzTargets(tree fs.FS) ([]string, error) {
	var found []string
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." {
			_, nested := fs.Stat(tree, path+"/go.mod")
			if nested == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") {
				return fs.SkipDir
			}
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		for _, m := range fuzzFunc.FindAllSubmatch(source, -1) {
			found = append(found, filepath.ToSlash(filepath.Dir(path))+":"+string(m[1]))
		}
		return nil
	})
	return found, err
}

func TestFuzzTargetsAreFoundInTheModuleAlone(t *testing.T) {
	target := []byte("package x\n\nfunc FuzzIt(f *testing.F) {}\n")
	tree := t.TempDir()
	for _, path := range []string{"a/b/x_test.go", "a/x.go", "a/testdata/x_test.go", "nested/x_test.go", ".hidden/x_test.go"} {
		if err := os.MkdirAll(filepath.Join(tree, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tree, path), target, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(tree, "nested/go.mod"), []byte("module nested\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := fuzzTargets(os.DirFS(tree))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a/b:FuzzIt"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a:FuzzA", "b:FuzzB"}, fuzzList("x:\n\nFUZZ := \\\n\ta:FuzzA \\\n\tb:FuzzB \\\n\nLINT := x\n")); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}
