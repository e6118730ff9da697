//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"testing"
)

// What every test uses, set once before the first of them.
var (
	program = os.Getenv("E2E_AICR")    // aicr, built from this tree
	sandbox = os.Getenv("E2E_SANDBOX") // aicr-sandbox
	venv    = os.Getenv("E2E_VENV")    // Dynamo and AIPerf, as `make interop` installs them
	keep    = os.Getenv("E2E_KEEP")    // what the program said, for who looks into a failure
)

// TestMain needs the programs: `make e2e`, which builds them, is the way to run these
// tests.
func TestMain(m *testing.M) {
	if sandbox == "" || program == "" {
		fmt.Fprintln(os.Stderr, "*** E2E WAS NOT RUN: it needs the sandbox; use `make e2e` ***")
		return
	}
	os.Exit(m.Run())
}
