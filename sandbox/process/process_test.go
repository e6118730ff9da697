package process

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pidOf waits for the keeper's process, other than one that is known.
func pidOf(t *testing.T, folder string, other int) int {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(folder, "it.pid"))
		if pid, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil && pid != other {
			return pid
		}
	}
	t.Fatal("no process was started")
	return 0
}

func keeper(t *testing.T, line string) (*Keeper, chan struct{}) {
	ready := make(chan struct{})
	return &Keeper{
		Folder: t.TempDir(), Name: "it", Ready: ready, Log: t.Logf,
		Command: func() *exec.Cmd { return exec.Command("sh", "-c", line) },
	}, ready
}

func TestAProcessThatIsKilledIsStartedAgain(t *testing.T) {
	k, ready := keeper(t, "exec sleep 600")
	close(ready)
	if err := os.WriteFile(filepath.Join(k.Folder, RestartFile), []byte("0.01\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	last := 0
	for range 3 {
		last = pidOf(t, k.Folder, last)
		if err := syscall.Kill(last, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	last = pidOf(t, k.Folder, last)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if syscall.Kill(last, 0) == nil {
		t.Errorf("%d outlives its keeper", last)
	}
	if _, err := os.Stat(filepath.Join(k.Folder, "it.pid")); err == nil {
		t.Error("the file with its number outlives it")
	}
}

func TestAProcessIsAskedToEndBeforeItIsMadeTo(t *testing.T) {
	k, ready := keeper(t, "trap 'touch asked; exit 0' TERM; touch listening; while :; do sleep 0.05; done")
	close(ready)
	build := k.Command
	k.Command = func() *exec.Cmd { cmd := build(); cmd.Dir = k.Folder; return cmd }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(k.Folder, "listening")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it did not start")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(k.Folder, "asked")); err != nil {
		t.Error("it was killed without a word")
	}
}

func TestAProcessThatNeverWasOfUseIsGivenUp(t *testing.T) {
	k, _ := keeper(t, "echo x >> count; exit 3")
	build := k.Command
	k.Command = func() *exec.Cmd { cmd := build(); cmd.Dir = k.Folder; return cmd }
	if err := os.WriteFile(filepath.Join(k.Folder, RestartFile), []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := k.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the it does not start: exit status 3") {
		t.Errorf("error %v", err)
	}
	text, err := os.ReadFile(filepath.Join(k.Folder, "count"))
	if err != nil || len(text) != 2*attempts {
		t.Errorf("%d starts, want %d (%v)", len(text)/2, attempts, err)
	}
}

func TestHowLongAProcessStaysAway(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"20":      20 * time.Second,
		" 1.5\n":  1500 * time.Millisecond,
		"0":       0,
		"":        usualPause,
		"soon":    usualPause,
		"-1":      usualPause,
		"NaN":     usualPause,
		"9999999": usualPause,
	} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, RestartFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := restartAfter(folder); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := restartAfter(t.TempDir()); got != usualPause {
		t.Errorf("no file: %v, want %v", got, usualPause)
	}
}

func TestTheParentIsFoundWhateverAProcessIsCalled(t *testing.T) {
	for stat, want := range map[string][2]int{
		"12 (sh) S 7 1 1":        {12, 7},
		"12 (a) S 99 (b) R 7 1":  {12, 7},
		"12 (with space) Z 7 1":  {12, 7},
		"12 (cut":                {0, 0},
		"":                       {0, 0},
		"12 (sh) S":              {0, 0},
		"12 ()))(() S 7 1 1 1 1": {12, 7},
	} {
		pid, parent := parents([]byte(stat))
		if got := [2]int{pid, parent}; got != want {
			t.Errorf("%q: %v, want %v", stat, got, want)
		}
	}
}

func TestNoDescendantIsLeft(t *testing.T) {
	if err := AdoptOrphans(); err != nil {
		t.Fatal(err)
	}
	// The shell ends at once, and its child is nobody's.
	out, err := exec.Command("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	Bury() // it is not dead
	if syscall.Kill(orphan, 0) != nil {
		t.Fatalf("%d is gone already", orphan)
	}
	KillChildren()
	if syscall.Kill(orphan, 0) == nil {
		t.Errorf("%d is left", orphan)
	}
}
