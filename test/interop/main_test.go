//go:build linux

package interop_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// patience is how long a real process may take for what it usually does in a
// few seconds.
const patience = 90 * time.Second

// What every test uses, set once before the first of them.
var (
	venv    string // where Dynamo and AIPerf are installed
	program string // aicr, built from this tree
	keep    string // where tables for the documentation go
	cases   caseTable
)

// TestMain builds the program once. Without an installation there is nothing to
// meet, and `make interop`, which makes one, is the way to run these tests.
func TestMain(m *testing.M) {
	venv = os.Getenv("INTEROP_VENV")
	if venv == "" {
		fmt.Fprintln(os.Stderr, "*** INTEROP WAS NOT RUN: it needs an installation; use `make interop` ***")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "aicr")
	build := exec.Command("go", "build", "-o", program, "./cmd/aicr")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the program: %v\n%s", err, out)
		return 1
	}
	keep = filepath.Dir(venv)
	code := m.Run()
	if err := cases.write(filepath.Join(keep, "cases.md")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// python is the interpreter of the installation.
func python() string { return filepath.Join(venv, "bin", "python") }
