package kubelet

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
)

func talk(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestBackOffGrowsAndEnds(t *testing.T) {
	want := []time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second}
	for crashes, d := range want {
		if got := backOff(crashes); got != d {
			t.Errorf("after %d crashes it waits %s, and should %s", crashes, got, d)
		}
	}
}

func TestProbeThresholds(t *testing.T) {
	for _, one := range []struct {
		good, bad     int
		answers, news string // + and -; what is told at each
	}{
		{1, 3, "---+--+", "..-+..."},
		{2, 1, "-+-++-", "-...+-"},
		{1, 1, "++--", "+.-."},
	} {
		c := counter{good: one.good, bad: one.bad}
		var got strings.Builder
		for _, a := range one.answers {
			switch ok, news := c.add(a == '+'); {
			case !news:
				got.WriteByte('.')
			case ok:
				got.WriteByte('+')
			default:
				got.WriteByte('-')
			}
		}
		if got.String() != one.news {
			t.Errorf("%s with %d and %d tells %s, and should tell %s", one.answers, one.good, one.bad, got.String(), one.news)
		}
	}
}

func TestFaultsAreRead(t *testing.T) {
	got := Faults(map[string]string{FaultsAnnotation: "oom, slow-start=42s,,dra-stale"})
	if len(got) != 3 || got["slow-start"] != "42s" {
		t.Errorf("got %v", got)
	}
	if after, there := faultAfter(got, "slow-start"); !there || after != 42*time.Second {
		t.Errorf("slow-start is after %s, %t", after, there)
	}
	if after, there := faultAfter(got, faultOOM); !there || after != time.Second {
		t.Errorf("oom is after %s, %t", after, there)
	}
}

func TestImageTable(t *testing.T) {
	const tagged = ":1.2.3"
	table := Images(Programs{AICR: "/bin/aicr", Pod: "/bin/sandbox-pod"})
	for reference, want := range map[string]string{
		"busybox": "", "busybox:1.2.3": "", "docker.io/library/busybox": "", "registry.example/aicr/aicr@sha256:" + strings.Repeat("0", 64): "",
		"nvcr.io/nvidia/ai-dynamo/vllm-runtime" + tagged: "", "ghcr.io/nobody/none" + tagged: reasonPull, "Not A Name": reasonInvalidName, "": reasonInvalidName,
	} {
		_, wrong := find(table, reference)
		got := ""
		if wrong != nil {
			got = wrong.reason
		}
		if got != want {
			t.Errorf("%q gives %q, and should give %q", reference, got, want)
		}
	}
}

func TestSubPathStaysInTheVolume(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for sub, fine := range map[string]bool{"a/b": true, "../x": false, "/etc": false, "link": false, "link/passwd": false, "a/../../x": false} {
		if got, err := subPath(dir, sub, true); (err == nil) != fine {
			t.Errorf("%q gives %q, %v", sub, got, err)
		}
	}
}

func TestLogTailBeginsAtALine(t *testing.T) {
	l, err := newLog(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	l.copy(strings.NewReader(strings.Repeat("x", 20<<10) + "\nsecond\nlast"))
	l.close()
	for lines, want := range map[int]string{1: "last\n", 2: "second\nlast\n"} {
		r, err := openLog(t.Context(), l, api.ContainerLogOpts{Tail: lines})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != want {
			t.Errorf("the last %d lines are %q, %v", lines, got, err)
		}
		_ = r.Close()
	}
	if got := l.tail(80, 4); got != "ast\n" {
		t.Errorf("the last bytes are %q", got)
	}
}

func FuzzPressure(f *testing.F) {
	f.Add("some avg10=0.73 avg60=0.79 avg300=7.44 total=22649927934\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	f.Add("some avg10=x")
	f.Fuzz(func(t *testing.T, text string) {
		if psi, err := parsePressure(text); err == nil && psi == nil {
			t.Error("neither pressure nor an error")
		}
	})
}

func TestPressureIsRead(t *testing.T) {
	psi, err := parsePressure("some avg10=0.73 avg60=0.79 avg300=7.44 total=22\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=3\n")
	if err != nil || psi.Some.Avg10 != 0.73 || psi.Some.Total != 22000 || psi.Full.Avg10 != 0.5 || psi.Full.Total != 3000 {
		t.Errorf("got %+v, %v", psi, err)
	}
	if _, err := parsePressure(""); err == nil {
		t.Error("an empty file is no pressure at all")
	}
}

// slowReader takes its time for the first bytes.
type slowReader struct {
	pause time.Duration
	bytes.Buffer
}

func (r *slowReader) Write(b []byte) (int, error) {
	time.Sleep(r.pause)
	r.pause = 0
	return r.Buffer.Write(b)
}

func TestWhoReadsACommandSlowlyReadsAllOfIt(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]chan struct{}{"in a container that goes on": nil, "in one that has ended meanwhile": make(chan struct{})} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const size = 60_000 // the system has room for it
			r := &slowReader{pause: drainWithin + drainWithin/2}
			cmd := exec.Command("head", "-c", strconv.Itoa(size), "/dev/zero")
			cmd.Stdout, cmd.SysProcAttr = r, &syscall.SysProcAttr{Setsid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if ended != nil {
				time.AfterFunc(drainWithin/2, func() { close(ended) }) // it has said all by then
			}
			if err := outlive(t.Context(), cmd, ended); err != nil || r.Len() != size {
				t.Errorf("%d of %d bytes, %v", r.Len(), size, err)
			}
		})
	}
}

func TestACommandThatNobodyWaitsForIsKilled(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{"alone": "sleep 600", "with one that left": "setsid sleep 5 & sleep 600"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("sh", "-c", line)
			cmd.Stdout, cmd.SysProcAttr = new(bytes.Buffer), &syscall.SysProcAttr{Setsid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := outlive(ctx, cmd, nil); err == nil {
				t.Error("it ended well")
			}
		})
	}
}

// A quickened probe gets a pod ready sooner, and ends none sooner.
func TestQuickProbesGiveUpNoSooner(t *testing.T) {
	probe := func(delay, period, timeout, failures int32) *v1.Probe {
		return &v1.Probe{InitialDelaySeconds: delay, PeriodSeconds: period, TimeoutSeconds: timeout, FailureThreshold: failures}
	}
	for name, c := range map[string]struct {
		kind      string
		said, got *v1.Probe
	}{
		"a frontend's liveness":  {"Liveness", probe(15, 10, 1, 3), probe(15, 10, 5, 3)},
		"a frontend's readiness": {"Readiness", probe(10, 10, 3, 3), probe(0, 1, 5, 3)},
		"a worker's start":       {"Startup", probe(0, 10, 5, 720), probe(0, 1, 5, 7200)},
		"one that says nothing":  {"Startup", probe(20, 0, 0, 0), probe(0, 1, 5, 50)},
		"one that waits longer":  {"Liveness", probe(0, 30, 20, 1), probe(0, 30, 20, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			said := c.said.DeepCopy()
			if diff := cmp.Diff(c.got, quickened(c.kind, c.said)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(said, c.said); diff != "" {
				t.Errorf("it changed the pod: %s", diff)
			}
		})
	}
}

// What a probe by gRPC finds is what the server says of the service that is asked for.
func TestProbesByGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said, server := health.NewServer(), grpc.NewServer()
	said.SetServingStatus("well", grpc_health_v1.HealthCheckResponse_SERVING)
	said.SetServingStatus("sick", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(server, said)
	go func() { _ = server.Serve(l) }() // it ends by Stop
	t.Cleanup(server.Stop)
	port := int32(l.Addr().(*net.TCPAddr).Port)
	c := &container{r: &podRun{ip: "127.0.0.1"}}
	for service, want := range map[string]string{"": "", "well": "", "sick": `service unhealthy (responded with "NOT_SERVING")`, "none": "unknown service"} {
		of := &v1.GRPCAction{Port: port}
		if service != "" {
			of.Service = &service
		}
		err := c.ask(t.Context(), nil, &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: of}, TimeoutSeconds: 60})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", service, err, want)
		}
	}
}
