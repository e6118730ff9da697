// Command versions is the guard against drift. recipes/versions.yaml is the only file
// that may name the version of an image, a chart or a tool. This command fails when
// what is there does not go together, when a lock file has another version, and when
// any other file of the repository names one.
//
//	go run ./hack/versions [directory]
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"aicr/internal/spec"
	"aicr/recipes"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	all, files, err := check(root, exceptions)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	if write(os.Stdout, all, files) {
		os.Exit(1)
	}
}

// finding is something that is wrong, and where.
type finding struct {
	file string
	line int
	text string
	hint string
}

// check looks at everything below a directory, and says how many files that were.
func check(root string, exceptions []exception) (all []finding, files int, err error) {
	data, err := readFile(root, recipes.VersionsFile)
	if err != nil {
		return nil, 0, err
	}
	pins, err := spec.DecodeVersions(data)
	if mistakes, ok := errors.AsType[spec.Mistakes](err); ok {
		for _, m := range mistakes {
			all = append(all, finding{recipes.VersionsFile, m.Line, m.Path + ": " + m.Text, m.Hint})
		}
		return all, 1, nil
	}
	if err != nil {
		return nil, 0, err
	}
	for _, d := range recipes.CheckVersions(pins) {
		all = append(all, finding{recipes.VersionsFile, d.Line, fmt.Sprintf("%s (%s)", d.Text, d.Rule), d.Hint})
	}
	all = append(all, checkLocks(root, pins)...)
	paths, err := listFiles(root)
	if err != nil {
		return nil, 0, err
	}
	literals := newLiterals(pins)
	excused := newExcuses(exceptions, pins)
	for _, path := range paths {
		if exempt(path) {
			continue
		}
		content, err := readFile(root, path)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and git does not know yet
		}
		if err != nil {
			return nil, 0, err
		}
		files++
		all = append(all, excused.without(path, literals.in(path, content))...)
	}
	all = append(all, excused.stale()...)
	slices.SortStableFunc(all, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.text, b.text))
	})
	return all, files, nil
}

// write tells what was found, and whether anything was.
func write(w io.Writer, all []finding, files int) bool {
	for _, f := range all {
		fmt.Fprintf(w, "%s:%d: %s\n", f.file, f.line, f.text)
		if f.hint != "" {
			fmt.Fprintf(w, "  hint: %s\n", f.hint)
		}
	}
	if len(all) == 0 {
		fmt.Fprintf(w, "versions: %d files, and none but %s names a version\n", files, recipes.VersionsFile)
	}
	return len(all) > 0
}
