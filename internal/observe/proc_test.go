package observe

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// dir is a directory of testdata that stands for /proc.
type dir string

func (d dir) Open(name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join("testdata", string(d), strings.TrimPrefix(name, "/proc/")))
}

// files are files that a test writes, or the errors of opening them.
type files map[string]any

func (f files) Open(name string) (io.ReadCloser, error) {
	switch file := f[name].(type) {
	case string:
		return io.NopCloser(strings.NewReader(file)), nil
	case error:
		return nil, file
	case io.Reader:
		return io.NopCloser(file), nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func TestLocalNode(t *testing.T) {
	clock := newTicking()
	local := LocalNode(dir("proc_1"), "here").Reader.(*localNode)
	local.clock = clock.now
	first, err := local.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clock.at = clock.at.Add(2 * time.Second)
	local.files = dir("proc_2")
	second, err := local.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []spec.Sample{
		{Source: "node", Name: "here", NotMeasured: all(firstPage, "cpu_pressure", "memory_pressure", "io_pressure"), Node: &spec.NodeSample{Load1: f(1.27)}},
		{Source: "node", Name: "here", Node: &spec.NodeSample{CPUPressure: f(0.026066), MemoryPressure: f(0), IOPressure: f(0.0006825), Load1: f(1.27)}},
	}
	if diff := cmp.Diff(want, append(first, second...), nearly); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// nearly forgives what nanoseconds round off.
var nearly = cmp.Comparer(func(a, b float64) bool { return a == b || a > b-1e-8 && a < b+1e-8 })

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func TestKernelsThatTellLess(t *testing.T) {
	const psi = "some avg10=6.60 avg60=3.30 avg300=4.74 total=4734815502\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
	unsupported := errors.New("operation not supported")
	for _, tc := range []struct {
		rule  string
		files files
		want  map[string]string
		load  *float64
	}{
		{"a kernel without PSI", files{"/proc/loadavg": "0.79 0.97 1.02 1/96 24118\n"}, map[string]string{
			"cpu_pressure": "the kernel has no /proc/pressure/cpu", "memory_pressure": "the kernel has no /proc/pressure/memory", "io_pressure": "the kernel has no /proc/pressure/io",
		}, f(0.79)},
		{"PSI that was switched off, and no load", files{"/proc/pressure/cpu": broken{unsupported}, "/proc/pressure/memory": unsupported, "/proc/pressure/io": psi}, map[string]string{
			"cpu_pressure": "operation not supported", "memory_pressure": "operation not supported", "io_pressure": firstPage, "load1": "the kernel has no /proc/loadavg",
		}, nil},
		{"files that are cut or something else", files{
			"/proc/pressure/cpu": psi[:50], "/proc/pressure/memory": "full avg10=0.00 total=5\n", "/proc/pressure/io": "some total=-1\n", "/proc/loadavg": "0.7",
		}, map[string]string{
			"cpu_pressure": "not a file of /proc/pressure: it has no total", "memory_pressure": "not a file of /proc/pressure: it has no total",
			"io_pressure": "not a file of /proc/pressure: it has no total", "load1": "not a /proc/loadavg",
		}, nil},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got, err := LocalNode(tc.files, "here").Reader.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := []spec.Sample{{Source: "node", Name: "here", NotMeasured: tc.want, Node: &spec.NodeSample{Load1: tc.load}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return copy(p, strings.Repeat("some ", len(p)/5+1)), nil
}

func TestAFileWithoutEndIsReadInPart(t *testing.T) {
	file := &endless{}
	if _, err := LocalNode(files{"/proc/pressure/cpu": file}, "here").Reader.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if file.read > 64<<10 {
		t.Errorf("read %d bytes", file.read)
	}
}

func TestALocalNodeThatIsNoLongerWantedSaysNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := LocalNode(files{}, "here").Reader.Read(ctx); err == nil {
		t.Errorf("got %v", got)
	}
}
