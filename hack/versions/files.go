package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"aicr/recipes"
)

// listFiles names every file that is or could be committed, with slashes.
func listFiles(root string) ([]string, error) {
	cmd := exec.Command("git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z")
	if out, err := cmd.Output(); err == nil && len(out) > 0 {
		names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
		slices.Sort(names)
		return slices.Compact(names), nil
	}
	return walk(root) // an archive has no git
}

func walk(root string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && at != root && (strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".ci" || slices.Contains([]string{"bin", "demo", "artifacts", "node_modules"}, entry.Name())):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		name, err := filepath.Rel(root, at)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}

// exempt are the files that may name versions: fixtures, which are other people's or
// made up; lock files, which are held against the pins instead; the examples of the
// pages about documents; and the list of exceptions.
func exempt(name string) bool {
	return name == recipes.VersionsFile || name == exceptionsFile ||
		slices.Contains(strings.Split(path.Dir(name), "/"), "testdata") ||
		strings.HasPrefix(name, "docs/documents/") ||
		lockReader(name) != nil || path.Base(name) == "go.sum"
}

// isText reports whether people read a file.
func isText(content []byte) bool {
	return !bytes.Contains(content[:min(len(content), 8000)], []byte{0})
}

func readFile(root, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
}
