package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"aicr/recipes"
)

// raceSettings keeps a program under the race detector from sleeping for a
// second before it exits, which a hundred calls of it would have to wait for.
func raceSettings() (variable, value string) { return "GORACE", "atexit_sleep_ms=0" }

// TestMain lets the scripts call the program by its name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"aicr": func() {
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		os.Exit(Run(context.Background(), System(Build{Version: "v1.2.3", Commit: "abcdef0"}, signals)))
	}, "aicr-crashes": crashingProgram, "aicr-deaf": deafProgram})
}

// unwatched builds the program as its users have it. Scripts see what a command says, one
// at a time; the tests that do several things at once are watched for races, and so is
// the program that they start. Plays of fleets take five times the CPU under the detector.
func unwatched(t *testing.T) (path string) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-ldflags", "-X main.version=v1.2.3 -X main.commit=abcdef0", "-o", dir, "../../cmd/aicr")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir + string(filepath.ListSeparator) + os.Getenv("PATH")
}

func TestScripts(t *testing.T) {
	path := os.Getenv("PATH")
	if raceWatched {
		path = unwatched(t)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Values[worldKey{}] = &world{}
			e.Setenv(raceSettings())
			e.Setenv("PATH", path)
			fixtures, err := filepath.Abs("../spec/testdata/snapshot")
			if err != nil {
				return err
			}
			e.Setenv("FIXTURES", fixtures)
			pinned, err := recipes.Versions()
			if err != nil {
				return err
			}
			runtime, _ := pinned.Image(recipes.RuntimeImage)
			e.Setenv("RUNTIME", runtime.Repository+":"+runtime.Tag)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,

			// The world that aicr bench runs in, and what is seen of it; see
			// script_bench_test.go.
			"truth":       startTruth,
			"web":         startWeb,
			"measures":    measures,
			"refuses":     refuses,
			"json":        checkJSON,
			"keep":        keepJSON,
			"hides":       hides,
			"unlisted":    unlisted,
			"asked":       asked,
			"connections": connections,
		},
	})
}

// exits runs a command that must end with a code: exits CODE COMMAND ARG...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts, args[1:]); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func exitCode(ts *testscript.TestScript, args []string) int {
	err := ts.Exec(args[0], args[1:]...)
	if err == nil {
		return 0
	}
	failed, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		ts.Fatalf("%v", err)
	}
	return failed.ExitCode()
}
