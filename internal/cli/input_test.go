package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// place makes a thing of a kind, and gives its path.
func place(t *testing.T, kind string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "given")
	var err error
	switch kind {
	case "pipe":
		err = syscall.Mkfifo(path, 0o600)
	case "folder":
		err = os.Mkdir(path, 0o700)
	case "endless":
		path = "/dev/zero"
	case "link to a pipe":
		if err = syscall.Mkfifo(path+".pipe", 0o600); err == nil {
			err = os.Symlink(path+".pipe", path)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Whatever a flag names that has no end, or waits for somebody, is refused at once; no
// command reads it, nor hangs.
func TestNoInputHangsOrNeverEnds(t *testing.T) {
	commands := map[string][]string{
		"a key":          {"bench", "--url", "http://127.0.0.1:1", "--api-key-file", "FILE"},
		"certificates":   {"bench", "--url", "http://127.0.0.1:1", "--ca-cert", "FILE"},
		"a dataset":      {"bench", "--url", "http://127.0.0.1:1", "--model", "m", "--dataset", "FILE"},
		"inputs":         {"bench", "--url", "http://127.0.0.1:1", "--inputs", "FILE"},
		"settings":       {"bench", "--demo", "--config", "FILE"},
		"a recipe":       {"validate", "--no-cluster", "--recipe", "FILE"},
		"a snapshot":     {"recipe", "--snapshot", "FILE"},
		"a scenario":     {"sim", "play", "FILE"},
		"another one":    {"validate", "--sim", "FILE"},
		"a list":         {"watch", "--worker-metrics", "FILE", "--duration", "1"},
		"a log":          {"watch", "--log", "FILE", "--duration", "1"},
		"a token":        {"watch", "--node-metrics", "http://127.0.0.1:1", "--metrics-token-file", "FILE", "--duration", "1"},
		"a run":          {"judge", "FILE"},
		"a run's report": {"report", "FILE"},
		"a history":      {"validate", "--sim", "small", "--history", "FILE", "--dry-run"},
		"a kubeconfig":   {"snapshot", "--kubeconfig", "FILE"},
		"one to clean":   {"clean", "--kubeconfig", "FILE"},
		"one to run on":  {"validate", "--recipe", "h100-eks-ubuntu-inference-dynamo", "--kubeconfig", "FILE"},
	}
	for what, args := range commands {
		for _, kind := range []string{"pipe", "folder", "endless", "link to a pipe"} {
			if what == "a log" && kind == "endless" || strings.HasPrefix(what, "a run") && kind == "folder" {
				continue // what is written to a device is followed from its end; a folder is a run
			}
			t.Run(what+" that is "+kind, func(t *testing.T) {
				path := place(t, kind)
				own := make([]string, len(args))
				for i := range args {
					own[i] = strings.ReplaceAll(args[i], "FILE", path)
				}
				env := testEnv(nil, own...)
				var said keptWriter
				env.Stderr = &said
				ended := make(chan int, 1)
				go func() { ended <- Run(context.WithoutCancel(t.Context()), env) }()
				select {
				case code := <-ended:
					if code != int(Misused) && code != int(Unmeasured) || !strings.Contains(said.String(), "error: ") {
						t.Errorf("exit code %d\n%s", code, &said)
					}
				case <-time.After(2 * time.Minute):
					t.Fatal("it hangs")
				}
			})
		}
	}
}

func TestAFileIsReadUpToItsLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for size, want := range map[int]bool{maxSecretFile: true, maxSecretFile + 1: false} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := readWhole(nil, path, maxSecretFile)
		wrong, typed := errors.AsType[*InputError](err)
		if want && (err != nil || len(text) != size) || !want && (!typed || wrong.Fault != TooLarge || !strings.Contains(err.Error(), "larger than 64 KiB")) {
			t.Errorf("%d bytes: %d read, %v", size, len(text), err)
		}
	}
	if text, err := readWhole(nil, os.DevNull, 10); err != nil || len(text) != 0 {
		t.Errorf("what is always empty: %d bytes, %v", len(text), err)
	}
}

// What a shell gives for <(command) is a pipe with a name of this process's: it is read,
// however slowly it comes, and no further than to the limit.
func TestAStreamOfTheProcessIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		most int64
		want error
	}{
		"whole":    {"sk-from-a-pipe\n", 64, nil},
		"too long": {strings.Repeat("x", 200_000), 64, &InputError{}},
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			go func() {
				for part := range strings.SplitSeq(c.text, "-") {
					_, _ = io.WriteString(w, part+"-")
				}
				_ = w.Close()
			}()
			text, err := readWhole(nil, "/dev/fd/"+strconv.Itoa(int(r.Fd())), c.most)
			if c.want == nil && (err != nil || strings.TrimSuffix(string(text), "-") != c.text) || c.want != nil && err == nil {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// Whoever is waited for, an interrupt ends it.
func TestAStreamIsGivenUp(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ended := make(chan struct{})
	got := make(chan error, 1)
	go func() {
		_, err := readWhole(ended, "/dev/fd/"+strconv.Itoa(int(r.Fd())), 64)
		got <- err
	}()
	close(ended)
	select {
	case err := <-got:
		if wrong, ok := errors.AsType[*InputError](err); !ok || wrong.Fault != GivenUp || !errors.Is(err, errInterrupted) {
			t.Errorf("%v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it is still waited for")
	}
}

// A recorded run with a pipe in the place of a file is refused, and not waited for.
func TestARunWithAPipeInItIsRefused(t *testing.T) {
	for _, name := range []string{runFile, planFile, eventsFile} {
		dir := filepath.Join(t.TempDir(), "run")
		synctest.Test(t, func(t *testing.T) {
			env := testEnv(nil, "validate", "--sim", "small", "--profile", "smoke", "--run", dir)
			if code := Run(t.Context(), env); code != int(Passed) {
				t.Fatalf("exit code %d", code)
			}
		})
		if err := errors.Join(os.Remove(filepath.Join(dir, name)), syscall.Mkfifo(filepath.Join(dir, name), 0o600)); err != nil {
			t.Fatal(err)
		}
		env := testEnv(nil, "judge", dir)
		var said keptWriter
		env.Stderr = &said
		if code := Run(t.Context(), env); code != int(Unmeasured) || !strings.Contains(said.String(), "no plain file") {
			t.Errorf("%s: exit code %d\n%s", name, code, &said)
		}
	}
}
