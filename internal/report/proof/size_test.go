package proof

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What a report may cost.
const (
	mostMemory = 500 << 20
	mostPage   = 3 << 20

	// The CPU it takes, in plain passes over the same files: a time would be the
	// machine's. Measured on two busy cores: 12.2 s against 13.2 s, and 13.5 s against
	// 16.3 s, which is 0.92 and 0.83 passes. It keeps 1.4 cores and more busy, so that
	// twice that is some 20 s on two cores.
	mostPasses = 2.0
)

func TestTheReportOfFiveMillionRequestsIsSmallAndFast(t *testing.T) {
	program := filepath.Join(t.TempDir(), "aicr")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "aicr/cmd/aicr").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	dir := filepath.Join(t.TempDir(), "run")
	before := time.Now()
	writeRun(t, dir)
	t.Logf("recorded in %.1f s", time.Since(before).Seconds())

	plain := plainPass(t, dir)
	page := filepath.Join(t.TempDir(), "report.html")
	child := exec.CommandContext(t.Context(), program, "report", dir, "--report", "html="+page)
	before = time.Now()
	out, err := child.CombinedOutput()
	wall := time.Since(before)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	plain = (plain + plainPass(t, dir)) / 2 // before and after: the machine may have become another

	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for w := range workers {
		if gpu := fmt.Sprintf("GPU-%04d", w); !bytes.Contains(text, []byte(gpu)) {
			t.Errorf("the page says nothing of %s", gpu)
		}
	}
	use, ok := child.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatalf("%T is no usage", child.ProcessState.SysUsage())
	}
	memory, cpu := use.Maxrss<<10, cpuOf(use)
	passes := cpu.Seconds() / plain.Seconds()
	t.Logf("%.1f s, %.1f s of CPU, which is %.2f plain passes of %.1f s, %d MiB, a page of %d KiB",
		wall.Seconds(), cpu.Seconds(), passes, plain.Seconds(), memory>>20, len(text)>>10)
	if memory > mostMemory {
		t.Errorf("%d MiB of memory; want at most %d", memory>>20, mostMemory>>20)
	}
	if passes > mostPasses {
		t.Errorf("the CPU of %.2f plain passes; want at most %v", passes, mostPasses)
	}
	if len(text) > mostPage {
		t.Errorf("a page of %d bytes; want at most %d", len(text), mostPage)
	}
}

// plainPass is the CPU that this machine now needs to unzip all files of a run and to
// see that each line of them is JSON. It is measured on some short episodes, and they
// stand for the run.
func plainPass(t *testing.T, dir string) time.Duration {
	t.Helper()
	const some = 4
	before := ownCPU(t)
	for n := range some {
		for _, name := range []string{"requests.jsonl.gz", "series.jsonl.gz"} {
			if err := everyLine(filepath.Join(dir, episodeFile(firstShort+n, name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return (ownCPU(t) - before) * runS / (some * shortS)
}

func everyLine(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	unzipped, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return err
	}
	in := bufio.NewReader(unzipped)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case !json.Valid(line):
			return fmt.Errorf("%s: no JSON: %s", path, line)
		}
	}
}

func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return cpuOf(&use)
}

func cpuOf(use *syscall.Rusage) time.Duration {
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
