package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"aicr/recipes"
	"aicr/test/memnet"
)

// processName is what tests call the program by that need a process of it.
const processName = "aicr-process"

// TestMain lets tests start the program by its name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){processName: func() {
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		os.Exit(Run(context.Background(), System(scriptBuild(), signals)))
	}, "aicr-crashes": crashingProgram, "aicr-deaf": deafProgram})
}

// raceSettings keeps a program under the race detector from sleeping for a
// second before it exits.
func raceSettings() (variable, value string) { return "GORACE", "atexit_sleep_ms=0" }

func scriptBuild() Build { return Build{Version: "v1.2.3", Commit: "abcdef0"} }

// scriptT gives a script's commands its *testing.T. Scripts run one after the
// other, since a process has one working directory.
type scriptT struct{ *testing.T }

func (t scriptT) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(scriptT{t}) })
}
func (scriptT) Parallel()     {}
func (scriptT) Verbose() bool { return testing.Verbose() }

// TestScripts plays what users type. The program runs inside this process and in
// virtual time, with a network in memory: no script waits, and none depends on
// the speed of the machine.
func TestScripts(t *testing.T) {
	testscript.RunT(scriptT{t}, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Values[worldKey{}] = &world{t: e.T().(scriptT).T}
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
			"aicr":    passes,
			"exits":   exits,
			"process": exitsAsProcess,

			// The world that aicr bench runs in, and what is seen of it; see
			// script_bench_test.go.
			"truth":       startTruth,
			"web":         startWeb,
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

// outcome is what a command came to.
type outcome struct {
	code           int
	stdout, stderr string
	took           time.Duration // of virtual time
}

// run runs the program in the script's folder and with its variables, beside its
// servers.
func (w *world) run(ts *testscript.TestScript, args []string) (o outcome) {
	vars := scriptVariables(ts)
	here, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	defer func() { ts.Check(os.Chdir(here)) }()
	synctest.Test(w.t, func(t *testing.T) {
		network := &memnet.Net{}
		for _, s := range w.servers {
			defer s.serve(network.Listen(s.addr))()
		}
		var stdout, stderr bytes.Buffer
		env := Env{Args: args, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Now: time.Now, Build: scriptBuild(),
			Network: memoryNetwork(network), Environ: func() []string { return vars },
			LookupEnv: func(name string) (string, bool) {
				for _, v := range slices.Backward(vars) {
					if value, ok := strings.CutPrefix(v, name+"="); ok {
						return value, true
					}
				}
				return "", false
			}}
		begun := time.Now()
		code := Run(t.Context(), env)
		o = outcome{code, stdout.String(), stderr.String(), time.Since(begun)}
	})
	_, _ = ts.Stdout().Write([]byte(o.stdout))
	_, _ = ts.Stderr().Write([]byte(o.stderr))
	return o
}

// scriptVariables are the script's variables, which testscript shows to a process alone.
func scriptVariables(ts *testscript.TestScript) []string {
	ts.Check(ts.Exec("env"))
	return strings.Split(strings.TrimSuffix(ts.ReadFile("stdout"), "\n"), "\n")
}

// passes runs the program, which must end with 0: aicr ARG...
func passes(ts *testscript.TestScript, neg bool, args []string) {
	exits(ts, neg, append([]string{"0", "aicr"}, args...))
}

// exits runs the program, which must end with a code: exits CODE aicr ARG...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want := wantedCode(ts, neg, args)
	if got := worldOf(ts).run(ts, args[2:]).code; got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func wantedCode(ts *testscript.TestScript, neg bool, args []string) int {
	if neg || len(args) < 2 || args[1] != "aicr" {
		ts.Fatalf("usage: exits|process CODE aicr [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	return want
}

// exitsAsProcess runs the program as a process, over the machine's own network,
// for what only a process shows: process CODE aicr ARG... Whether the machine
// was quiet enough for a load is not the script's concern: where it should pass,
// 3 is as good.
func exitsAsProcess(ts *testscript.TestScript, neg bool, args []string) {
	want := wantedCode(ts, neg, args)
	command := slices.Clone(args[2:])
	for _, s := range worldOf(ts).servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		addr := l.Addr().String()
		defer s.serve(l)()
		for i := range command {
			command[i] = strings.ReplaceAll(command[i], s.addr, addr)
		}
	}
	got := 0
	if err := ts.Exec(processName, command...); err != nil {
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = failed.ExitCode()
	}
	if got != want && (want != int(Passed) || got != int(Unmeasured)) {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
