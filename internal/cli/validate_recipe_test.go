package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe in a folder of recipes would be waited for until somebody writes to it.
func TestAFolderOfRecipesHasPlainFilesAlone(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plain.yaml"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := plainFiles{os.DirFS(dir)}
	if _, err := files.Open("pipe.yaml"); err == nil {
		t.Error("the pipe was opened")
	}
	if text, err := fs.ReadFile(files, "plain.yaml"); err != nil || string(text) != "a" {
		t.Errorf("%q, %v", text, err)
	}
	if found, err := fs.Glob(files, "*.yaml"); err != nil || len(found) != 2 {
		t.Errorf("%v, %v", found, err)
	}
}
