package proof

import (
	"bytes"
	"fmt"
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
	mostCPU    = 40 * time.Second // two cores for 20 s
	mostPage   = 3 << 20
)

func TestTheReportOfFiveMillionRequestsIsSmallAndFast(t *testing.T) {
	program := filepath.Join(t.TempDir(), "aicr")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "aicr/cmd/aicr").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	for _, episodes := range []int{60, 1} {
		t.Run(fmt.Sprintf("episodes=%d", episodes), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			before := time.Now()
			writeRun(t, dir, episodes)
			t.Logf("recorded in %.1f s", time.Since(before).Seconds())

			page := filepath.Join(t.TempDir(), "report.html")
			child := exec.CommandContext(t.Context(), program, "report", dir, "--report", "html="+page)
			before = time.Now()
			out, err := child.CombinedOutput()
			wall := time.Since(before)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
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
			memory, cpu := use.Maxrss<<10, child.ProcessState.UserTime()+child.ProcessState.SystemTime()
			t.Logf("%.1f s, %.1f s of CPU, %d MiB, a page of %d KiB", wall.Seconds(), cpu.Seconds(), memory>>20, len(text)>>10)
			if memory > mostMemory {
				t.Errorf("%d MiB of memory; want at most %d", memory>>20, mostMemory>>20)
			}
			if cpu > mostCPU {
				t.Errorf("%s of CPU; want at most %s", cpu, mostCPU)
			}
			if len(text) > mostPage {
				t.Errorf("a page of %d bytes; want at most %d", len(text), mostPage)
			}
		})
	}
}
