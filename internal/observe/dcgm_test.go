package observe

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/spec"
)

// ticking is a clock that a test moves.
type ticking struct{ at time.Time }

func (c *ticking) now() time.Time { return c.at }

func newTicking() *ticking { return &ticking{time.Date(2026, 11, 15, 11, 40, 0, 0, time.UTC)} }

func TestDCGMPage(t *testing.T) {
	const clean = "the DCGM exporter has no throttle field"
	for _, tc := range []struct {
		name string
		page string
		want []spec.Sample
	}{
		{
			"what the exporter has by default, and that it has neither throttle nor ECC",
			string(recorded(t, "dcgm_default.txt")),
			[]spec.Sample{
				{
					Source: "gpu", Name: "GPU-5fd4f087-86f3-7a43-b711-4771313afc50",
					NotMeasured: map[string]string{"throttle": clean, "ecc_double_bit": "the DCGM exporter has no DCGM_FI_DEV_ECC_DBE_VOL_TOTAL or DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"},
					GPU: &spec.GPUSample{
						Utilization: f(0.97), PowerW: f(604.338), SMClockMHz: f(1980), TemperatureC: f(52), XID: f(0), RemapFailure: f(0), MemoryUsed: f(129126),
						Index: "0", Model: "NVIDIA H200", Node: "gpu-node-1", Pod: "qwen-vllmdecodeworker-0",
					},
				},
				{
					Source: "gpu", Name: "GPU-9a0c7e4d-11b2-4f6e-8a3d-6c2f0d1e7b55",
					NotMeasured: map[string]string{"throttle": clean, "ecc_double_bit": "the DCGM exporter has no DCGM_FI_DEV_ECC_DBE_VOL_TOTAL or DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"},
					GPU: &spec.GPUSample{
						Utilization: f(0), PowerW: f(76.112), SMClockMHz: f(345), TemperatureC: f(31), XID: f(0), RemapFailure: f(0), MemoryUsed: f(0),
						Index: "1", Model: "NVIDIA H200", Node: "gpu-node-1",
					},
				},
			},
		},
		{
			"broken hardware in every field",
			`DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-a",hostname="n"} 79
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="3",UUID="GPU-a",hostname="n"} 2
DCGM_FI_DEV_ECC_DBE_AGG_TOTAL{gpu="3",UUID="GPU-a",hostname="n"} 9
DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="3",UUID="GPU-a",hostname="n"} 1
DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu="3",UUID="GPU-a",hostname="n"} 104
`,
			[]spec.Sample{{
				Source: "gpu", Name: "GPU-a",
				NotMeasured: map[string]string{
					"utilization":     "the DCGM exporter has no DCGM_FI_DEV_GPU_UTIL or DCGM_FI_PROF_GR_ENGINE_ACTIVE",
					"power_w":         "the DCGM exporter has no DCGM_FI_DEV_POWER_USAGE",
					"sm_clock_mhz":    "the DCGM exporter has no DCGM_FI_DEV_SM_CLOCK",
					"temperature_c":   "the DCGM exporter has no DCGM_FI_DEV_GPU_TEMP",
					"memory_used_mib": "the DCGM exporter has no DCGM_FI_DEV_FB_USED",
				},
				GPU: &spec.GPUSample{
					XID: f(79), DoubleBit: f(2), RemapFailure: f(1), Throttle: &[]string{"hw_slowdown", "hw_thermal", "sw_thermal"},
					Index: "3", Node: "n",
				},
			}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := (&dcgmPage{clock: time.Now}).read(t.Context(), []byte(tc.page))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// readGPUs reads a page that a test writes, and gives the GPUs by name.
func readGPUs(t *testing.T, d *dcgmPage, page string) map[string]spec.Sample {
	t.Helper()
	samples, err := d.read(t.Context(), []byte(page))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]spec.Sample{}
	for _, s := range samples {
		if _, twice := byName[s.Name]; twice {
			t.Errorf("%s is there twice", s.Name)
		}
		byName[s.Name] = s
	}
	return byName
}

func TestAGPUIsOneThingHoweverItIsPrinted(t *testing.T) {
	for _, tc := range []struct {
		rule, page string
		names      []string
		pod        string // of the first
	}{
		{"one line with a pod and one without", `DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a"} 90
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",pod="p",container="main"} 90
`, []string{"GPU-a"}, "p"},
		{"a line for each container of a pod", `DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",pod="p",container="main"} 90
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",pod="p",container="side"} 90
`, []string{"GPU-a"}, "p"},
		{"pods that share it are all named", `DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",pod="q"} 90
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",pod="p"} 90
`, []string{"GPU-a"}, "p,q"},
		{"the exporter's own pod is not the GPU's", `DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",pod="dcgm-exporter-x",exported_pod="p"} 90
`, []string{"GPU-a"}, "p"},
		{"without a UUID it goes by its place", `DCGM_FI_DEV_POWER_USAGE{gpu="7",Hostname="n"} 90
`, []string{"n/7"}, ""},
		{"an instance of a divided GPU is a thing of its own", `DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a"} 90
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",GPU_I_PROFILE="3g.40gb",GPU_I_ID="1",pod="p"} 90
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",GPU_I_PROFILE="4g.40gb",GPU_I_ID="2",pod="q"} 90
`, []string{"GPU-a", "GPU-a/1", "GPU-a/2"}, ""},
		{"a switch is no GPU", `DCGM_FI_DEV_POWER_USAGE{nvswitch="nvswitch0",Hostname="n"} 90
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",pod="p"} 90
`, []string{"GPU-a"}, "p"},
		{"GPUs come in the order of their places", `DCGM_FI_DEV_POWER_USAGE{gpu="10",UUID="GPU-a"} 90
DCGM_FI_DEV_POWER_USAGE{gpu="2",UUID="GPU-b",pod="p"} 90
`, []string{"GPU-b", "GPU-a"}, "p"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got, err := (&dcgmPage{clock: time.Now}).read(t.Context(), []byte(tc.page))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, s := range got {
				names = append(names, s.Name)
				if s.GPU.PowerW == nil || *s.GPU.PowerW != 90 {
					t.Errorf("%s has a power of %v, want 90: nothing is added up", s.Name, s.GPU.PowerW)
				}
			}
			if diff := cmp.Diff(tc.names, names); diff != "" {
				t.Fatalf("names (-want +got):\n%s", diff)
			}
			if got[0].GPU.Pod != tc.pod {
				t.Errorf("pod %q, want %q", got[0].GPU.Pod, tc.pod)
			}
		})
	}
}

func TestWhatDCGMFallsBackTo(t *testing.T) {
	for _, tc := range []struct {
		rule, page, field string
		value             func(*spec.GPUSample) *float64
		want              *float64
		derived           string
	}{
		{"the engine's share of the time stands in for the utilization", `DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-a"} 0.714` + "\n", "utilization",
			func(g *spec.GPUSample) *float64 { return g.Utilization }, f(0.714), "DCGM_FI_PROF_GR_ENGINE_ACTIVE, the share of the time in which an engine was busy"},
		{"the errors of the GPU's life stand in for those since the driver's start", `DCGM_FI_DEV_ECC_DBE_AGG_TOTAL{gpu="0",UUID="GPU-a"} 4` + "\n", "ecc_double_bit",
			func(g *spec.GPUSample) *float64 { return g.DoubleBit }, f(4), "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL, which counts over the GPU's life"},
		{"what is no number does not stand in the way", `DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} NaN` + "\n" + `DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",pod="p"} 50` + "\n", "utilization",
			func(g *spec.GPUSample) *float64 { return g.Utilization }, f(0.5), ""},
		{"what is no number is not measured", `DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} +Inf` + "\n", "utilization",
			func(g *spec.GPUSample) *float64 { return g.Utilization }, nil, ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			s := readGPUs(t, &dcgmPage{clock: time.Now}, tc.page)["GPU-a"]
			if diff := cmp.Diff(tc.want, tc.value(s.GPU)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if s.Derived[tc.field] != tc.derived {
				t.Errorf("derived %q, want %q", s.Derived[tc.field], tc.derived)
			}
			if told := s.NotMeasured[tc.field] == ""; told != (tc.want != nil) {
				t.Errorf("not measured: %q", s.NotMeasured[tc.field])
			}
		})
	}
}

// events is a page with the clock events of GPUs; every GPU has a line of power.
func events(lines ...string) string {
	page := ""
	for _, g := range []string{"GPU-a", "GPU-b"} {
		page += fmt.Sprintf("DCGM_FI_DEV_POWER_USAGE{UUID=%q} 90\n", g)
	}
	return page + strings.Join(lines, "\n") + "\n"
}

func TestWhyTheClocksAreLow(t *testing.T) {
	const (
		none    = "none"
		unknown = "unknown: "
		noField = unknown + "the DCGM exporter has no throttle field"
		counts  = `DCGM_EXP_CLOCK_EVENTS_COUNT{UUID="GPU-a",clock_event="sw_thermal",window_size_in_ms="300000"} 4`
		unread  = `DCGM_EXP_CLOCK_EVENTS_COUNT{UUID="GPU-b",window_size_in_ms="300000"} 0`
	)
	type want struct{ a, b string }
	for _, tc := range []struct {
		rule  string
		pages []string
		after time.Duration // between two pages
		want  []want
	}{
		{"events that were counted are told, idleness too", []string{events(counts,
			`DCGM_EXP_CLOCK_EVENTS_COUNT{UUID="GPU-a",clock_event="gpu_idle",window_size_in_ms="300000"} 2`,
			`DCGM_EXP_CLOCK_EVENTS_COUNT{UUID="GPU-a",clock_event="power_cap",window_size_in_ms="300000"} 0`,
		)}, 0, []want{{"gpu_idle sw_thermal", none}}},
		{"a shared GPU's event is one", []string{events(counts,
			`DCGM_EXP_CLOCK_EVENTS_COUNT{UUID="GPU-a",clock_event="sw_thermal",window_size_in_ms="300000",pod="p"} 4`)}, 0, []want{{"sw_thermal", none}}},
		{"an exporter that never had an event may not count them", []string{events()}, 0, []want{{noField, noField}}},
		{"one that had an event has none later", []string{events(counts), events()}, time.Second, []want{{"sw_thermal", none}, {none, none}}},
		{"one that was away may be another", []string{events(counts), events()}, 11 * time.Second, []want{{"sw_thermal", none}, {noField, noField}}},
		{"a zero of no event is a GPU that was not read", []string{events(counts, unread)}, 0,
			[]want{{"sw_thermal", unknown + "the DCGM exporter has not read this GPU's clock events"}}},
		{"a zero of no event does not make the others' silence mean none", []string{events(unread)}, 0,
			[]want{{noField, unknown + "the DCGM exporter has not read this GPU's clock events"}}},
		{"the bits of now need no count", []string{events(`DCGM_FI_DEV_CLOCKS_EVENT_REASONS{UUID="GPU-a"} 0`, `DCGM_FI_DEV_CLOCKS_EVENT_REASONS{UUID="GPU-b"} 5`)}, 0,
			[]want{{none, "gpu_idle power_cap"}}},
		{"and come before what was counted over minutes", []string{events(counts, `DCGM_FI_DEV_CLOCKS_EVENT_REASONS{UUID="GPU-a"} 0`, `DCGM_FI_DEV_CLOCKS_EVENT_REASONS{UUID="GPU-b"} 4`)}, 0,
			[]want{{none, "power_cap"}}},
		{"every bit has its name, also one that is new", []string{events(`DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{UUID="GPU-a"} 1023`, `DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{UUID="GPU-b"} 0`)}, 0,
			[]want{{"bit 0x200 clocks_setting display_clocks gpu_idle hw_power_brake hw_slowdown hw_thermal power_cap sw_thermal sync_boost", none}}},
		{"what is no set of bits is not measured", []string{events(`DCGM_FI_DEV_CLOCKS_EVENT_REASONS{UUID="GPU-a"} -1`, `DCGM_FI_DEV_CLOCKS_EVENT_REASONS{UUID="GPU-b"} 9.2e18`)}, 0,
			[]want{{unknown + "DCGM_FI_DEV_CLOCKS_EVENT_REASONS is -1, which is no set of bits", unknown + "DCGM_FI_DEV_CLOCKS_EVENT_REASONS is 9.2e+18, which is no set of bits"}}},
		{"the time that a GPU was held back for grows, or does not", []string{
			events(held("GPU-a", 100, 100), held("GPU-b", 0, 0)), events(held("GPU-a", 101, 100), held("GPU-b", 0, 1)), events(held("GPU-a", 101, 100), held("GPU-b", 5, 5)),
		}, time.Second, []want{
			{unknown + firstPage, unknown + firstPage}, {"power_cap", "thermal"}, {none, "power_cap thermal"},
		}},
		{"a counter that began anew says nothing once", []string{
			events(held("GPU-a", 100, 100), held("GPU-b", 100, 100)), events(held("GPU-a", 7, 100), held("GPU-b", 100, 100)), events(held("GPU-a", 7, 100), held("GPU-b", 100, 100)),
		}, time.Second, []want{
			{unknown + firstPage, unknown + firstPage}, {unknown + begunAnew, none}, {none, none},
		}},
		{"that one of two counters stood still does not mean none", []string{
			events(`DCGM_FI_DEV_POWER_VIOLATION{UUID="GPU-a"} 1`, `DCGM_FI_DEV_POWER_VIOLATION{UUID="GPU-b"} 1`),
			events(`DCGM_FI_DEV_POWER_VIOLATION{UUID="GPU-a"} 1`, `DCGM_FI_DEV_POWER_VIOLATION{UUID="GPU-b"} 2`),
		}, time.Second, []want{
			{unknown + firstPage, unknown + firstPage},
			{unknown + absentCounter, "power_cap"},
		}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			clock := newTicking()
			d := &dcgmPage{clock: clock.now}
			for i, page := range tc.pages {
				gpus := readGPUs(t, d, page)
				say := func(name string) string {
					s := gpus[name]
					switch {
					case s.GPU.Throttle == nil:
						return unknown + s.NotMeasured["throttle"]
					case s.NotMeasured["throttle"] != "":
						return "both told and not measured"
					case len(*s.GPU.Throttle) == 0:
						return none
					}
					return strings.Join(*s.GPU.Throttle, " ")
				}
				if diff := cmp.Diff(tc.want[i], want{say("GPU-a"), say("GPU-b")}, cmp.AllowUnexported(want{})); diff != "" {
					t.Errorf("page %d (-want +got):\n%s", i+1, diff)
				}
				clock.at = clock.at.Add(tc.after)
			}
		})
	}
}

func held(gpu string, power, thermal int) string {
	return fmt.Sprintf("DCGM_FI_DEV_POWER_VIOLATION{UUID=%q} %d\nDCGM_FI_DEV_THERMAL_VIOLATION{UUID=%q} %d", gpu, power, gpu, thermal)
}

func TestHowTheThrottleReasonsWereComeByIsSaid(t *testing.T) {
	d := &dcgmPage{clock: newTicking().now}
	gpus := readGPUs(t, d, events(`DCGM_EXP_CLOCK_EVENTS_COUNT{UUID="GPU-a",clock_event="gpu_idle",window_size_in_ms="300000"} 2`))
	if got, want := gpus["GPU-a"].Derived["throttle"], "clock events, counted by the exporter over 5m0s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := gpus["GPU-b"].Derived["throttle"], "the DCGM exporter counts clock events, and has none of this GPU"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAPageWithoutGPUsIsAReason(t *testing.T) {
	for _, page := range []string{"", "up 1\n", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{gpu=\"0\"} 1\n"} {
		if got, err := (&dcgmPage{clock: time.Now}).read(t.Context(), []byte(page)); !errors.Is(err, errNoGPUs) {
			t.Errorf("%q gives %v, %v", page, got, err)
		}
	}
}

// Every value of a GPU is told or is said not to be: neither both nor none.
func TestEveryGPUValueIsToldOrNotMeasured(t *testing.T) {
	fields := []string{"utilization", "power_w", "sm_clock_mhz", "temperature_c", "xid", "ecc_double_bit", "row_remap_failure", "throttle", "memory_used_mib"}
	s := readGPUs(t, &dcgmPage{clock: time.Now}, "DCGM_FI_DEV_POWER_USAGE{UUID=\"GPU-a\"} 1\n")["GPU-a"]
	want := slices.DeleteFunc(slices.Sorted(slices.Values(fields)), func(f string) bool { return f == "power_w" })
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(s.NotMeasured))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Of a node that is shared, a GPU of somebody else is not told of; where none is known to
// be ours, all are.
func TestDCGMPageOfOnlySomeGPUs(t *testing.T) {
	const page = `DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a",hostname="n"} 79
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-b",hostname="n"} 0
DCGM_FI_DEV_XID_ERRORS{gpu="2",UUID="GPU-c",GPU_I_ID="1",hostname="n"} 0
`
	for name, c := range map[string]struct{ only, want []string }{
		"nobody said which":   {nil, []string{"GPU-a", "GPU-b", "GPU-c/1"}},
		"one":                 {[]string{"GPU-b"}, []string{"GPU-b"}},
		"one that is divided": {[]string{"GPU-c"}, []string{"GPU-c/1"}},
		"none that is there":  {[]string{"GPU-x"}, []string{"GPU-a", "GPU-b", "GPU-c/1"}},
	} {
		samples, err := (&dcgmPage{clock: newTicking().now, only: c.only}).read(t.Context(), []byte(page))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range samples {
			got = append(got, s.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A device plugin says to nobody which GPU a pod has; an exporter may know it. What it has
// said once holds: a pod that has ended is on no line any more.
func TestDCGMPageOfTheGPUsOfOurPods(t *testing.T) {
	page := func(a, b, c string) []byte {
		return fmt.Appendf(nil, "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-a\",pod=%q} 79\nDCGM_FI_DEV_XID_ERRORS{gpu=\"1\",UUID=\"GPU-b\",pod=%q} 0\nDCGM_FI_DEV_XID_ERRORS{gpu=\"2\",Hostname=\"n\",pod=%q} 0\n", a, b, c)
	}
	for name, c := range map[string]struct {
		pods  []string
		pages [][]byte
		want  []string // after each
	}{
		"each is named":           {[]string{"w-1", "w-0"}, [][]byte{page("training", "w-0", "w-1")}, []string{"GPU-b n/2"}},
		"one of them is not":      {[]string{"w-0", "w-9"}, [][]byte{page("training", "w-0", "w-1")}, []string{"GPU-a GPU-b n/2"}},
		"one has two":             {[]string{"w-0"}, [][]byte{page("w-0", "w-0", "")}, []string{"GPU-a GPU-b"}},
		"they are named later":    {[]string{"w-0"}, [][]byte{page("", "", ""), page("w-0", "", "")}, []string{"GPU-a GPU-b n/2", "GPU-a"}},
		"they are named no more":  {[]string{"w-0", "w-1"}, [][]byte{page("x", "w-0", "w-1"), page("x", "", "")}, []string{"GPU-b n/2", "GPU-b n/2"}},
		"somebody else comes now": {[]string{"w-0"}, [][]byte{page("", "w-0", ""), page("w-0", "", "")}, []string{"GPU-b", "GPU-b"}},
	} {
		d := &dcgmPage{clock: newTicking().now, only: c.pods}
		for i, text := range c.pages {
			samples, err := d.read(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range samples {
				got = append(got, s.Name)
			}
			slices.Sort(got)
			if all := strings.Join(got, " "); all != c.want[i] {
				t.Errorf("%s, page %d: %q, want %q", name, i+1, all, c.want[i])
			}
		}
	}
}
