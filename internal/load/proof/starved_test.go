package proof

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aicr/internal/load"
	"aicr/internal/sim/truth"
	"aicr/test/busy"
)

const roleStarved = "starved"

// starvedJob is what the client that is starved is asked to do.
type starvedJob struct {
	URL  string
	Wire load.WireKind
}

// childReport is what it says of itself.
type childReport struct {
	Reasons   []load.Reason
	Throttled *load.Throttling
	InFlight  float64
	StampLag  load.Spread
	Failed    int
}

// beStarved is a client that waits, when it is ready to send, until its parent
// has taken the processor away.
func beStarved() error {
	var j starvedJob
	if err := json.Unmarshal([]byte(os.Getenv(jobEnv)), &j); err != nil {
		return err
	}
	p, err := planFor(context.Background(), j.URL, 24)
	if err != nil {
		return err
	}
	p.Main = load.Schedule{Users: 256, Duration: 1500 * ms}
	p.Grace, p.Host, p.Wire = 100*ms, os.DirFS("/"), j.Wire
	fmt.Fprintln(os.Stdout, "ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	res, err := load.Run(context.Background(), p, nil)
	if err != nil {
		return err
	}
	a := res.Audit
	out := childReport{Reasons: a.Reasons, Throttled: a.Throttled, InFlight: a.InFlight, StampLag: a.StampLag}
	if math.IsNaN(out.InFlight) {
		out.InFlight = -1 // JSON has no NaN
	}
	for r := range res.Log.All() {
		if !r.OK() && r.Class != load.Interrupt {
			out.Failed++
		}
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// runStarved runs the client and lets starve at it, if it is not nil, once it is
// ready to send.
func runStarved(t *testing.T, j starvedJob, starve func(pid int) (end func())) childReport {
	t.Helper()
	b, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), roleEnv+"="+roleStarved, jobEnv+"="+string(b))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() {}
	var report childReport
	told := errors.New("it said nothing")
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if line := lines.Text(); line != "ready" {
			told = json.Unmarshal([]byte(line), &report)
			continue
		}
		if starve != nil {
			end = starve(cmd.Process.Pid)
		}
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Error(err)
		}
	}
	end()
	if err := errors.Join(cmd.Wait(), told); err != nil {
		t.Fatal(err)
	}
	return report
}

// starveAt leaves a process a fortieth of a core, half of what the event loop
// needs for this load: by a cgroup's quota where one
// can be made, or else by stopping it most of the time.
func starveAt(t *testing.T) (how string, starve func(pid int) (end func())) {
	name := fmt.Sprintf("aicr-test-%d", os.Getpid())
	for _, group := range []struct{ how, dir, file, quota string }{
		{"cgroup version 1", "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "2500"},
		{"cgroup version 2", "/sys/fs/cgroup", "cpu.max", "2500 100000"},
	} {
		dir := filepath.Join(group.dir, name)
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if os.WriteFile(filepath.Join(dir, group.file), []byte(group.quota), 0) != nil {
			continue
		}
		return group.how, func(pid int) func() {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
				t.Errorf("moving the child: %v", err)
			}
			return func() {}
		}
	}
	return "signals", func(pid int) func() {
		over, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				_ = syscall.Kill(pid, syscall.SIGSTOP)
				time.Sleep(195 * ms)
				_ = syscall.Kill(pid, syscall.SIGCONT)
				select {
				case <-over:
					return
				case <-time.After(5 * ms):
				}
			}
		}()
		return func() { close(over); <-ended }
	}
}

// A client that is given a fortieth of a core says that its figures are its
// own; the same client with a core to itself does not.
func TestAStarvedClientSaysSo(t *testing.T) {
	srv := serve(t, truth.Script{TTFT: 200 * ms, TTFTSpread: 20 * ms, ITL: 20 * ms, HeadersFirst: true})
	how, starve := starveAt(t)
	for wire, name := range plainWires {
		t.Run(name, func(t *testing.T) {
			j := starvedJob{srv.URL(), wire}
			starved := runStarved(t, j, starve)
			t.Logf("by %s: %+v", how, starved)
			if len(starved.Reasons) == 0 {
				t.Errorf("starved by %s, it says nothing", how)
			}
			if how != "signals" && (starved.Throttled == nil || starved.Throttled.Throttled == 0) {
				t.Errorf("its quota is not in the audit: %+v", starved.Throttled)
			}
			busy.Measure(t, func() string {
				fed := runStarved(t, j, nil)
				if fed.Failed != 0 {
					t.Errorf("with a processor: %+v", fed)
				}
				var why []string
				for _, r := range fed.Reasons {
					why = append(why, r.Text)
				}
				return strings.Join(why, "; ")
			})
		})
	}
}
