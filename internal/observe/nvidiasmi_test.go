package observe

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// smi is an nvidia-smi that answers each start with the next text.
type smi struct {
	texts   []string
	started [][]string
	err     error
}

func (s *smi) run(_ context.Context, name string, args ...string) (io.ReadCloser, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.started = append(s.started, append([]string{name}, args...))
	text := s.texts[0]
	s.texts = s.texts[1:]
	return io.NopCloser(strings.NewReader(text)), nil
}

// followed is what a follower tells until it ends.
func followed(ctx context.Context, f Follower) (samples []spec.Sample, events []spec.Event, err error) {
	err = f.Follow(ctx, Tell{
		Sample: func(s spec.Sample) { samples = append(samples, s) },
		Event:  func(e spec.Event) { events = append(events, e) },
	})
	return samples, events, err
}

const noXID = "nvidia-smi tells no XID"

// What a real nvidia-smi said, of an H200 that nobody used and of the same under
// load.
func TestNvidiaSMIAsRecorded(t *testing.T) {
	for _, tc := range []struct {
		file string
		want spec.GPUSample
	}{
		{"nvidiasmi_h200_idle.csv", spec.GPUSample{
			Utilization: f(0), PowerW: f(81.76), SMClockMHz: f(345), TemperatureC: f(31), DoubleBit: f(0), RemapFailure: f(0), MemoryUsed: f(0),
			Throttle: &[]string{"gpu_idle"}, Index: "0", Model: "NVIDIA H200",
		}},
		{"nvidiasmi_h200_load.csv", spec.GPUSample{
			Utilization: f(1), PowerW: f(361.06), SMClockMHz: f(1980), TemperatureC: f(39), DoubleBit: f(0), RemapFailure: f(0), MemoryUsed: f(21963),
			Throttle: &[]string{}, Index: "0", Model: "NVIDIA H200",
		}},
	} {
		program := &smi{texts: []string{string(recorded(t, tc.file))}}
		got, _, err := followed(t.Context(), LocalGPU(program.run, time.Second).Follower)
		if !errors.Is(err, errSMIEnded) || len(got) != 6 {
			t.Errorf("%s: %d samples, ended with %v", tc.file, len(got), err)
			continue
		}
		if diff := cmp.Diff(tc.want, *got[5].GPU, nearly); diff != "" || got[5].Name != "GPU-88a1c551-7ba5-b7d7-903b-d279abe7d4db" {
			t.Errorf("%s: %s (-want +got):\n%s", tc.file, got[5].Name, diff)
		}
	}
}

func TestNvidiaSMI(t *testing.T) {
	program := &smi{texts: []string{string(recorded(t, "nvidiasmi_two_gpus.csv"))}}
	got, _, err := followed(t.Context(), LocalGPU(program.run, time.Second).Follower)
	if !errors.Is(err, errSMIEnded) {
		t.Errorf("it ended with %v", err)
	}
	const a, b = "GPU-5fd4f087-86f3-7a43-b711-4771313afc50", "GPU-9a0c7e4d-11b2-4f6e-8a3d-6c2f0d1e7b55"
	want := []spec.Sample{
		{Name: a, NotMeasured: map[string]string{"xid": noXID}, GPU: &spec.GPUSample{
			Utilization: f(0), PowerW: f(76.11), SMClockMHz: f(345), TemperatureC: f(31), DoubleBit: f(0), RemapFailure: f(0), MemoryUsed: f(0),
			Throttle: &[]string{"gpu_idle"}, Index: "0",
		}},
		{Name: b, NotMeasured: map[string]string{"xid": noXID}, GPU: &spec.GPUSample{
			Utilization: f(0.97), PowerW: f(698.2), SMClockMHz: f(1755), TemperatureC: f(64), DoubleBit: f(0), RemapFailure: f(0), MemoryUsed: f(129126),
			Throttle: &[]string{"power_cap", "sw_thermal"}, Index: "1",
		}},
		{Name: a, NotMeasured: map[string]string{"xid": noXID}, GPU: &spec.GPUSample{
			Utilization: f(0.03), PowerW: f(118.4), SMClockMHz: f(1980), TemperatureC: f(33), DoubleBit: f(0), RemapFailure: f(0), MemoryUsed: f(525),
			Throttle: &[]string{}, Index: "0",
		}},
		{Name: b, NotMeasured: map[string]string{
			"xid": noXID, "utilization": "nvidia-smi says [GPU requires reset]", "power_w": "nvidia-smi says [Unknown Error]", "sm_clock_mhz": "nvidia-smi says [N/A]",
			"ecc_double_bit": "nvidia-smi says [Not Supported]", "throttle": "nvidia-smi says [N/A]",
		}, GPU: &spec.GPUSample{TemperatureC: f(65), RemapFailure: f(1), MemoryUsed: f(129126), Index: "1"}},
	}
	for i := range want {
		want[i].Source, want[i].GPU.Model = "gpu", "NVIDIA H200"
	}
	if diff := cmp.Diff(want, got, nearly); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	asked := []string{
		"nvidia-smi",
		"--query-gpu=index,uuid,name,utilization.gpu,power.draw,clocks.current.sm,temperature.gpu,ecc.errors.uncorrected.volatile.total,remapped_rows.failure,memory.used,clocks_event_reasons.active",
		"--format=csv,nounits", "-lms", "1000",
	}
	if diff := cmp.Diff([][]string{asked}, program.started); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestAnOlderDriverIsAskedByOlderNames(t *testing.T) {
	const notValid = "Field \"%s\" is not a valid field to query.\n\n"
	refuse := func(field string) string { return strings.ReplaceAll(notValid, "%s", field) }
	for _, tc := range []struct {
		rule  string
		texts []string
		last  string // field of the last question
		want  *[]string
		why   string
	}{
		{"the bits by their older name", []string{refuse("clocks_event_reasons.active"), "index, uuid, clocks_throttle_reasons.active\n0, GPU-a, 0x0000000000000040\n"},
			"clocks_throttle_reasons.active", &[]string{"hw_thermal"}, ""},
		{"a driver that answers to the older name by the newer", []string{refuse("clocks_event_reasons.active"), "index, uuid, clocks_event_reasons.active\n0, GPU-a, 0x40\n"},
			"clocks_throttle_reasons.active", &[]string{"hw_thermal"}, ""},
		{"without them", []string{refuse("clocks_event_reasons.active"), refuse("clocks_throttle_reasons.active"), "index, uuid\n0, GPU-a\n"},
			"memory.used", nil, "nvidia-smi has no clocks_event_reasons.active or clocks_throttle_reasons.active"},
		{"each field by itself", []string{refuse("remapped_rows.failure"), refuse("clocks_event_reasons.active"), "index, uuid, clocks_throttle_reasons.active\n0, GPU-a, 0x8\n"},
			"clocks_throttle_reasons.active", &[]string{"hw_slowdown"}, ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			program := &smi{texts: slices.Clone(tc.texts)}
			got, _, err := followed(t.Context(), LocalGPU(program.run, time.Second).Follower)
			if !errors.Is(err, errSMIEnded) || len(got) != 1 {
				t.Fatalf("got %v, %v", got, err)
			}
			if diff := cmp.Diff(tc.want, got[0].GPU.Throttle); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if why := got[0].NotMeasured["throttle"]; why != tc.why {
				t.Errorf("not measured: %q, want %q", why, tc.why)
			}
			if query := program.started[len(program.started)-1][1]; !strings.HasSuffix(query, ","+tc.last) {
				t.Errorf("last asked for %s", query)
			}
		})
	}
}

func TestWhatNvidiaSMIDoesNotTellIsAReason(t *testing.T) {
	const header = "index, uuid, power.draw [W]\n"
	for _, tc := range []struct {
		rule, text string
		samples    int
		want       string
	}{
		{"no GPU", "No devices were found\n", 0, "nvidia-smi did not tell what it was asked: No devices were found"},
		{"no driver", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n", 0,
			"nvidia-smi did not tell what it was asked: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."},
		{"a GPU that fell off the bus", header + "0, GPU-a, 90.5\nUnable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n", 1,
			"nvidia-smi did not tell what it was asked: Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error"},
		{"a line that is cut", header + "0, GPU-a, 90.5\n0, GPU-a, 9", 1, "a line of nvidia-smi was cut short"},
		{"a line with too few columns", header + "0, GPU-a\n", 0, "nvidia-smi did not tell what it was asked: 0, GPU-a"},
		{"a quote out of place", header + "0, GPU\"a, 90.5\n", 0, "nvidia-smi did not tell what it was asked: 0, GPU\"a, 90.5"},
		{"a line that is too long", header + strings.Repeat("x", 2*maxLine) + "\n", 0, "a line of nvidia-smi was cut short"},
		{"nothing at all", "", 0, "nvidia-smi ended"},
		{"a header again is none of it", header + header + "0, GPU-a, 90.5\n\n", 1, "nvidia-smi ended"},
		{"a field refused that was not asked for", "Field \"x\" is not a valid field to query.\n", 0, "nvidia-smi does not know the field x"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got, _, err := followed(t.Context(), LocalGPU((&smi{texts: []string{tc.text}}).run, time.Second).Follower)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if len(got) != tc.samples {
				t.Errorf("%d samples, want %d", len(got), tc.samples)
			}
		})
	}
	missing := &smi{err: errors.New("exec: \"nvidia-smi\": executable file not found in $PATH")}
	if _, _, err := followed(t.Context(), LocalGPU(missing.run, time.Second).Follower); err == nil || err.Error() != "nvidia-smi: exec: \"nvidia-smi\": executable file not found in $PATH" {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestAGPUWithoutUUIDGoesByItsIndex(t *testing.T) {
	for _, uuid := range []string{"[Unknown Error]", "N/A", ""} {
		var table smiTable
		if _, err := table.line("index, uuid"); err != nil {
			t.Fatal(err)
		}
		s, err := table.line("3, " + uuid)
		if err != nil || s.Name != "gpu 3" {
			t.Errorf("%q: %v, %v", uuid, s, err)
		}
	}
}

func TestAnNvidiaSMIThatHangsIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, in := io.Pipe()
		run := func(context.Context, string, ...string) (io.ReadCloser, error) { return out, nil }
		go func() {
			for range 30 { // each of them in time
				io.WriteString(in, "index, uuid\n")
				time.Sleep(time.Second)
			}
		}()
		start := time.Now()
		if _, _, err := followed(t.Context(), LocalGPU(run, time.Second).Follower); !errors.Is(err, errSMIHung) {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(start); took != 39*time.Second {
			t.Errorf("after %s, want 10 s after the last line", took)
		}
		if _, err := in.Write([]byte("x")); err == nil {
			t.Error("the program was not closed")
		}
	})
}

func TestAnNvidiaSMIThatIsNoLongerWantedIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, in := io.Pipe()
		run := func(context.Context, string, ...string) (io.ReadCloser, error) { return out, nil }
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if _, _, err := followed(ctx, LocalGPU(run, time.Second).Follower); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it was ended after %s", took)
		}
		if _, err := in.Write([]byte("x")); err == nil {
			t.Error("the program was not closed")
		}
	})
}
