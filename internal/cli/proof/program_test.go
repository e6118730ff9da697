package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"aicr/internal/cli"
)

// TestMain lets the tests start the program as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"aicr": func() {
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		os.Exit(cli.Run(context.Background(), cli.System(cli.Build{Version: "v1.2.3"}, signals)))
	}})
}

// aicr runs the program in this process, on the machine's network.
func aicr(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, said bytes.Buffer
	code = cli.Run(t.Context(), cli.Env{Args: args, Stdin: &bytes.Buffer{}, Stdout: &out, Stderr: &said,
		LookupEnv: func(string) (string, bool) { return "", false },
		Now:       time.Now, Build: cli.Build{Version: "v1.2.3"}})
	return out.String(), said.String(), code
}

// process is the program as a process, in a folder of its own.
type process struct {
	*exec.Cmd
	out, said bytes.Buffer
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command("aicr", args...)}
	p.Dir, p.Stdout, p.Stderr = t.TempDir(), &p.out, &p.said
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

func read(t *testing.T, parts ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func decode(t *testing.T, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%v: %.300s", err, data)
	}
}
