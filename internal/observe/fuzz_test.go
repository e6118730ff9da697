package observe

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"aicr/internal/spec"
)

// fresh is a reader of each kind of metrics page, as at its first page.
func fresh() map[string]pageReader {
	clock := newTicking()
	return map[string]pageReader{
		"worker": &workerPage{}, "frontend": &frontendPage{}, "gpu": &dcgmPage{clock: clock.now}, "node": &nodePage{clock: clock.now},
	}
}

// pages are the recorded ones.
func pages(t testing.TB) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) < 8 {
		t.Fatalf("%d pages, %v", len(names), err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(name)] = text
	}
	return found
}

// seriesOf is what a page says, whoever reads it.
func seriesOf(p page) map[string]float64 {
	found := map[string]float64{}
	for name, all := range p {
		for _, s := range all {
			labels, _ := json.Marshal(s.labels)
			found[name+string(labels)] = s.value
		}
	}
	return found
}

// Every name is wanted here, so that no line goes unread.
func everyName(text []byte) names {
	wanted := names{}
	for line := range bytes.Lines(text) {
		if name, ok := lineName(line); ok {
			wanted[string(name)] = true
		}
	}
	return wanted
}

// A page that was cut says less, or nothing; never anything else.
func TestAPageCutAtAnyByteNeverSaysAnythingElse(t *testing.T) {
	for name, text := range pages(t) {
		t.Run(name, func(t *testing.T) {
			// The histograms' buckets are most of the large pages, and all alike.
			text := bytes.Join(bytes.SplitAfterN(text, []byte("\n"), 81)[:min(80, bytes.Count(text, []byte("\n")))], nil)
			wanted := everyName(text)
			whole, err := (&parser{}).parse(t.Context(), text, wanted)
			if err != nil {
				t.Fatal(err)
			}
			want := seriesOf(whole)
			told := 0
			for end := range text {
				p, err := (&parser{}).parse(t.Context(), text[:end], wanted)
				if err != nil {
					continue
				}
				for key, value := range seriesOf(p) {
					if was, ok := want[key]; !ok || was != value && was == was {
						t.Fatalf("cut at byte %d, %s is %g and not %g", end, key, value, was)
					}
					told++
				}
				for kind, reader := range fresh() {
					if samples, err := reader.read(t.Context(), text[:end]); err == nil {
						check(t, kind, samples)
					}
				}
			}
			if told == 0 {
				t.Error("no part of the page said anything")
			}
		})
	}
}

// check holds a sample against what every sample keeps to.
func check(t testing.TB, kind string, samples []spec.Sample) {
	t.Helper()
	for _, s := range samples {
		if s.Source != kind || s.Gap != "" {
			t.Fatalf("a %s's page gives %+v", kind, s)
		}
		if _, err := json.Marshal(s); err != nil {
			t.Fatalf("%s: %v", kind, err) // NaN or infinity
		}
		var values map[string]any
		text, _ := json.Marshal(map[string]any{"worker": s.Worker, "gpu": s.GPU, "node": s.Node, "frontend": s.Frontend}[kind])
		if err := json.Unmarshal(text, &values); err != nil || values == nil {
			t.Fatalf("%s: %s, %v", kind, text, err)
		}
		for field := range s.NotMeasured {
			if v, both := values[field]; both {
				t.Fatalf("%s: %s is %v and not measured", kind, field, v)
			}
		}
		for field := range s.Derived {
			if _, there := values[field]; !there {
				t.Fatalf("%s: %s is derived and not there", kind, field)
			}
		}
		if kind == "node" {
			for _, share := range nodePressures(s.Node) {
				if v := *share; v != nil && !(*v >= 0 && *v <= 1) {
					t.Fatalf("a share of the time of %g", *v)
				}
			}
		}
	}
}

func FuzzPage(f *testing.F) {
	for _, text := range pages(f) {
		f.Add(text[:min(len(text), 4<<10)])
	}
	f.Add([]byte("DCGM_FI_DEV_CLOCKS_EVENT_REASONS{UUID=\"a\"} 1e300\n"))
	f.Add([]byte("node_pressure_cpu_waiting_seconds_total +Inf\nvllm:num_requests_running{engine=\"\\\"\"} NaN 5\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for kind, reader := range fresh() {
			for range 2 { // the second page of a source has one before it
				samples, err := reader.read(t.Context(), text)
				if err == nil {
					check(t, kind, samples)
				}
				if len(samples) > bytes.Count(text, []byte("\n")) {
					t.Errorf("%d lines give %d samples", bytes.Count(text, []byte("\n")), len(samples))
				}
			}
		}
		if len(text) == 0 || text[len(text)-1] != '\n' {
			if p, err := (&parser{}).parse(t.Context(), text, everyName(text)); err == nil && len(p) > 0 {
				t.Errorf("a page that is cut says %v", p)
			}
		}
	})
}

func FuzzKubelet(f *testing.F) {
	summary, err := os.ReadFile("testdata/kubelet_summary.json")
	if err != nil {
		f.Fatal(err)
	}
	var small bytes.Buffer // what is small is soon tried
	if err := json.Compact(&small, summary); err != nil {
		f.Fatal(err)
	}
	node, _, _ := bytes.Cut(small.Bytes(), []byte(`,"fs"`))
	f.Add(append(node, "}}"...), uint64(5e9))
	f.Add([]byte(`{"node":{"nodeName":"n","cpu":{"psi":{"some":{"total":1,"avg10":1e308}}}}}`), uint64(0))
	f.Add([]byte(`{"node":{"nodeName":"n","io":{"time":"9999-12-31T23:59:59Z","psi":{"some":{"total":18446744073709551615}}}}}`), uint64(1))
	f.Fuzz(func(t *testing.T, text []byte, passed uint64) {
		clock := newTicking()
		reader := &summaryPage{clock: clock.now}
		for range 2 {
			samples, err := reader.read(t.Context(), text)
			if err == nil {
				check(t, "node", samples)
				if len(samples) != 1 || samples[0].Name == "" {
					t.Errorf("got %v", samples)
				}
			}
			clock.at = clock.at.Add(time.Duration(passed % 1e12))
		}
	})
}

func FuzzSMI(f *testing.F) {
	text, err := os.ReadFile("testdata/nvidiasmi_h200_idle.csv")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text), len(text)-3)
	f.Add(string(text), 300)
	f.Add("Field \"uuid\" is not a valid field to query.\n", 10)
	f.Add("index, uuid [x], power.draw [W]\n0, [N/A], NaN\n0, \"a\", 0x1p-2\n", 60)
	f.Fuzz(func(t *testing.T, text string, end int) {
		follow := func(text string) (samples []spec.Sample) {
			err := readSMI(strings.NewReader(text), func() {}, func(s spec.Sample) { samples = append(samples, s) })
			if err == nil {
				t.Error("the program ended, and there is no reason")
			}
			check(t, "gpu", samples)
			return samples
		}
		whole := follow(text)
		if end < 0 || end > len(text) {
			return
		}
		// Cut short, it says less, and nothing else.
		if part := follow(text[:end]); len(part) > len(whole) {
			t.Errorf("%d samples of a part, %d of the whole", len(part), len(whole))
		} else if diff := cmp.Diff(whole[:len(part)], part, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-whole +part):\n%s", diff)
		}
	})
}

// A token of each kind that must be gone, as long as a real one's beginning.
var secretLeft = regexp.MustCompile(`\b(?:hf_|sk-|nvapi-)[A-Za-z0-9]{3,}|(?i:bearer [a-z0-9])`)

func FuzzLogLine(f *testing.F) {
	text, err := os.ReadFile("testdata/vllm.log")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f.Add(line)
	}
	f.Add("\x1b]0;x\x1b\\CUDA error hf_abcdef Authorization: Bearer sk-abc\xff\u202e")
	f.Add("thread '\x1b[1' panicked at Bearer  bearer hf_hf_hf_aaaaa")
	f.Fuzz(func(t *testing.T, line string) {
		text := cleaned([]byte(line))
		if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("cleaned, it is %q", text)
		}
		sample, class := meaning(text, "x")
		if sample != nil {
			check(t, "worker", []spec.Sample{*sample})
			if class != "" {
				t.Errorf("it is of class %s as well", class)
			}
		}
		kept := excerpt(text)
		if len(kept) > 300 || !utf8.ValidString(kept) {
			t.Errorf("%q is kept", kept)
		}
		if left := secretLeft.FindString(kept); left != "" {
			t.Errorf("%q is left in %q", left, kept)
		}
	})
}
