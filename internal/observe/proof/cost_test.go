package proof

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aicr/internal/spec"
	"aicr/test/busy"
)

const (
	workers  = 64
	gpus     = 64
	observes = 20 * time.Second

	mostCPU    = 0.05 // of a core
	mostMemory = 60 << 20

	leastIdle = 0.5 // of the machine's CPU time; with less, neighbours are measured as well
)

// servesPages is set for the process that is the fleet, so that its cost is not
// counted as the observer's.
const servesPages = "AICR_PROOF_SERVES_PAGES"

func TestMain(m *testing.M) {
	if os.Getenv(servesPages) != "" {
		if err := servePages(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// servePages serves the recorded page of a real worker on a port for each, and
// one page of a DCGM exporter for all GPUs, with counters that move. It prints
// where, and ends with its standard input.
func servePages() error {
	page, err := os.ReadFile("../testdata/worker_during_load.txt")
	if err != nil {
		return err
	}
	start := time.Now()
	serve := func(render func(moved int) []byte) (string, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			_, _ = w.Write(render(int(time.Since(start).Milliseconds())))
		})}
		go func() { _ = server.Serve(l) }()
		return "http://" + l.Addr().String() + "/metrics", nil
	}
	for i := range workers {
		url, err := serve(func(moved int) []byte {
			text := bytes.ReplaceAll(page, []byte("d6482609b5ac09b5"), fmt.Appendf(nil, "d6482609b5ac%04x", i))
			return bytes.ReplaceAll(text, []byte(`vllm:inter_token_latency_seconds_count{engine="0",model_name="tiny"} 37463`),
				fmt.Appendf(nil, `vllm:inter_token_latency_seconds_count{engine="0",model_name="tiny"} %d`, 37463+moved))
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, url)
	}
	url, err := serve(dcgmPage)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, url)
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil
}

// dcgmPage has the fields that a DCGM exporter has by default, for every GPU.
func dcgmPage(moved int) []byte {
	var b bytes.Buffer
	for _, field := range []string{
		"SM_CLOCK", "MEM_CLOCK", "MEMORY_TEMP", "GPU_TEMP", "POWER_USAGE", "TOTAL_ENERGY_CONSUMPTION", "PCIE_REPLAY_COUNTER", "GPU_UTIL",
		"MEM_COPY_UTIL", "ENC_UTIL", "DEC_UTIL", "XID_ERRORS", "FB_FREE", "FB_USED", "FB_RESERVED", "UNCORRECTABLE_REMAPPED_ROWS", "CORRECTABLE_REMAPPED_ROWS",
		"ROW_REMAP_FAILURE", "NVLINK_BANDWIDTH_TOTAL",
	} {
		name := "DCGM_FI_DEV_" + field
		fmt.Fprintf(&b, "# TYPE %s gauge\n", name)
		for i := range gpus {
			fmt.Fprintf(&b, "%s{gpu=\"%d\",UUID=\"GPU-%08x-0000-0000-0000-000000000000\",pci_bus_id=\"00000000:%02X:00.0\",device=\"nvidia%d\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node-%d\",container=\"main\",namespace=\"dynamo\",pod=\"decode-%d\"} %d\n",
				name, i%8, i, i%8, i%8, i/8, i, (moved/1000+i)%97)
		}
	}
	return b.Bytes()
}

func TestAFleetIsObservedForATwentiethOfACore(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "aicr")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "aicr/cmd/aicr").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	fleet := exec.CommandContext(t.Context(), os.Args[0])
	fleet.Env = append(os.Environ(), servesPages+"=1")
	fleet.Stderr = os.Stderr
	in, err := fleet.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := fleet.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := fleet.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = fleet.Wait() }()
	var urls []string
	for lines := bufio.NewScanner(out); len(urls) < workers+1 && lines.Scan(); {
		urls = append(urls, lines.Text())
	}
	if len(urls) != workers+1 {
		t.Fatalf("the fleet has %d pages", len(urls))
	}
	list := filepath.Join(dir, "workers.txt")
	if err := os.WriteFile(list, []byte(strings.Join(urls[:workers], "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	records := 0
	busy.Measure(t, func() (tooBusy string) {
		records++
		idle := idleShare(t)
		r := watched(t, program, filepath.Join(dir, fmt.Sprint("record", records)),
			"--worker-metrics", list, "--gpu-metrics", urls[workers])
		idled := idle()
		t.Logf("%d workers and %d GPUs at 1 Hz: %.2f %% of a core, %.1f MB at most, %d samples, %d gaps; "+
			"the machine was idle for %.0f %%",
			workers, gpus, 100*r.share, float64(r.memory)/(1<<20), r.samples, r.gaps, 100*idled)
		if r.memory > mostMemory {
			t.Errorf("%d MB, at most %d MB is promised", r.memory>>20, mostMemory>>20)
		}
		want := (workers + gpus) * (int(observes/time.Second) - 1)
		if r.samples+r.gaps < want {
			t.Errorf("%d samples and %d gaps, want %d in all", r.samples, r.gaps, want)
		}
		// Neighbours can make an observation dearer, and late: what it misses is then a gap.
		wrong := ""
		switch {
		case r.share > mostCPU:
			wrong = fmt.Sprintf("%.1f %% of a core, at most %.0f %% is promised", 100*r.share, 100*mostCPU)
		case r.samples < want*9/10:
			wrong = fmt.Sprintf("%d samples, want nine tenths of %d", r.samples, want)
		}
		if wrong != "" && idled >= leastIdle {
			t.Error(wrong)
			return ""
		}
		return wrong
	})
}

// idleShare begins to measure how much of the machine's CPU time is idle. The fleet and
// its observer leave nearly all of it.
func idleShare(t *testing.T) (end func() float64) {
	t.Helper()
	read := func() (idle, all float64) {
		text, err := os.ReadFile("/proc/stat")
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		for i, field := range strings.Fields(line)[1:9] { // user to steal; guests are in user
			ticks, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			if all += ticks; i == 3 || i == 4 { // idle, iowait
				idle += ticks
			}
		}
		return idle, all
	}
	idle, all := read()
	return func() float64 {
		idleThen, allThen := read()
		return (idleThen - idle) / (allThen - all)
	}
}

// reading is what an observation took.
type reading struct {
	share         float64 // of a core
	memory        int64   // bytes, at most
	samples, gaps int
}

func watched(t *testing.T, program, record string, sources ...string) reading {
	t.Helper()
	watch := exec.CommandContext(t.Context(), program, append([]string{"watch", "--record", record, "--duration", observes.String()}, sources...)...)
	began := time.Now()
	if said, err := watch.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	cpu := watch.ProcessState.UserTime() + watch.ProcessState.SystemTime()
	r := reading{share: cpu.Seconds() / time.Since(began).Seconds(), memory: watch.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10}
	r.samples, r.gaps = count(t, filepath.Join(record, "series.jsonl"))
	return r
}

func count(t *testing.T, path string) (samples, gaps int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var s spec.Sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		if s.Gap != "" {
			gaps++
		} else {
			samples++
		}
	}
	return samples, gaps
}
