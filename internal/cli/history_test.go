package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aicr/internal/spec"
)

func pastRun(name string, day int) spec.HistoryEntry {
	d := spec.Deployment{Target: "gpu.example:8000", Model: "qwen", Workers: 8}
	throughput := 100e3
	return spec.HistoryEntry{Schema: spec.HistorySchema, Run: name, Start: time.Date(2026, 10, day, 8, 0, 0, 0, time.UTC).Format(time.RFC3339Nano),
		Digest: d.Digest(), Deployment: d, Profile: spec.ProfileStandard, Verdict: spec.Pass, Capability: spec.Pass, LoadedMin: 4,
		Figures: []spec.Figure{{Name: "throughput", Value: &throughput, N: 50, Unit: "tokens/s"}},
		Stalls:  []spec.HistoryStall{{GPU: "GPU-1", Worker: "5", Count: 1}}}
}

func pastLine(t *testing.T, name string, day int) string {
	t.Helper()
	e := pastRun(name, day)
	line, err := e.Line()
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// keepHistory opens a history, and gives what a person was told about it too.
func keepHistory(t *testing.T, path string) (*history, *bytes.Buffer) {
	t.Helper()
	told := &bytes.Buffer{}
	env := testEnv(nil)
	env.Stderr = told
	h, err := newApp(env).openHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	return h, told
}

func addTo(t *testing.T, h *history, name string, day int) *spec.Trend {
	t.Helper()
	trend, err := h.add(pastRun(name, day))
	if err != nil {
		t.Fatal(err)
	}
	return trend
}

func runsIn(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	known, err := spec.DecodeHistory(data)
	if err != nil || known.Torn > 0 {
		t.Fatalf("%v, %d bytes torn", err, known.Torn)
	}
	var all []string
	for _, e := range known.Entries {
		all = append(all, e.Run)
	}
	return all
}

func TestWithoutAHistoryNothingIsKept(t *testing.T) {
	h, _ := keepHistory(t, "")
	trend, err := h.add(pastRun("a", 1))
	if none, minutes := h.prior(spec.Deployment{}, time.Time{}); none != nil || minutes != 0 || trend != nil || err != nil {
		t.Error(trend, err)
	}
}

func TestAHistoryIsMadeWithItsFirstLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	h, _ := keepHistory(t, path)
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) > 0 {
		t.Fatalf("opening left %v", left)
	}
	if got, _ := h.prior(pastRun("", 1).Deployment, time.Now()); len(got) > 0 {
		t.Errorf("stalls before the first run: %v", got)
	}
	if trend := addTo(t, h, "a", 1); trend.Runs != 1 || trend.Missing != 12 {
		t.Errorf("%+v", trend)
	}
	h, told := keepHistory(t, path)
	if trend := addTo(t, h, "a", 1); trend.Runs != 1 {
		t.Errorf("a run was added twice: %+v", trend)
	}
	addTo(t, h, "a", 2) // another one, in a folder of the same name
	if got := strings.Join(runsIn(t, path), " "); got != "a a" || strings.Count(told.String(), "not added again") != 1 {
		t.Errorf("%s, told %q", got, told)
	}
	h, _ = keepHistory(t, path)
	if got, _ := h.prior(pastRun("", 1).Deployment, time.Date(2026, 10, 2, 8, 0, 0, 0, time.UTC)); len(got) != 1 || got[0].GPU != "GPU-1" || got[0].Count <= 1.9 || got[0].Count >= 2 {
		t.Errorf("%+v", got)
	}
}

func TestAHistoryThatCannotBeUsedIsFoundBeforeTheLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := pastLine(t, "a", 1)
	for _, test := range []struct{ rule, path, want string }{
		{"a folder", dir, "is a directory"},
		{"no folder for it", filepath.Join(dir, "no", "history"), "no such file or directory"},
		{"somebody's text", write("text", "dear diary"), "text:1: not JSON"},
		{"all that is wrong with it", write("wrong", good+"{}\n"+good+"x\n"), "wrong:2: schema: is missing"},
		{"with every line", filepath.Join(dir, "wrong"), "wrong:4: not JSON"},
		{"a device", os.DevNull, "is no plain file"},
	} {
		h, err := newApp(testEnv(nil)).openHistory(test.path)
		if h != nil || err == nil || !strings.Contains(err.Error(), test.want) || worst(problems(err, Unmeasured, "")) != Misused {
			t.Errorf("%s: %v (%v)", test.rule, err, h)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "text")); string(text) != "dear diary" {
		t.Errorf("somebody's file is now %q", text)
	}
}

// The verdict is there by then: what went wrong with the history is told, and is
// no usage error.
func TestAHistoryThatBrokeDuringTheRunIsToldAndLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	h, _ := keepHistory(t, path)
	if err := os.WriteFile(path, []byte("dear diary\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	trend, err := h.add(pastRun("a", 1))
	p, ok := errors.AsType[*Problem](err)
	if trend != nil || !ok || p.Code != Unmeasured || !strings.Contains(p.Error(), "line 1: not JSON") {
		t.Errorf("%v, %v", trend, err)
	}
	if text, _ := os.ReadFile(path); string(text) != "dear diary\n" {
		t.Errorf("it is now %q", text)
	}
}

func TestWhatACrashLeftOfALineIsTakenOut(t *testing.T) {
	first, second := pastLine(t, "a", 1), pastLine(t, "b", 2)
	for _, test := range []struct{ rule, text, want, told string }{
		{"half a line", first + second[:60], "a c", "cut short"},
		{"half of the only line", second[:60], "c", "cut short"},
		{"a line without its end", first + strings.TrimSuffix(second, "\n"), "a b c", ""},
		{"nothing", "", "c", ""},
	} {
		path := filepath.Join(t.TempDir(), "history.jsonl")
		if err := os.WriteFile(path, []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		h, told := keepHistory(t, path)
		addTo(t, h, "c", 3)
		if got := strings.Join(runsIn(t, path), " "); got != test.want {
			t.Errorf("%s: %s", test.rule, got)
		}
		if !strings.Contains(told.String(), test.told) || (told.Len() > 0) != (test.told != "") {
			t.Errorf("%s: told %q", test.rule, told)
		}
	}
}

func TestWhatOthersAddedDuringTheRunIsCompared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	one, _ := keepHistory(t, path)
	other, _ := keepHistory(t, path)
	addTo(t, other, "b", 2)
	if trend := addTo(t, one, "a", 1); trend.Runs != 2 {
		t.Errorf("%+v", trend)
	}
}

// Half a line of somebody who still writes is not what a crash has left.
func TestWhoeverWritesIsWaitedFor(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, _ Network) {
		path := filepath.Join(t.TempDir(), "history.jsonl")
		h, _ := keepHistory(t, path)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if err := lock(f, true); err != nil {
			t.Fatal(err)
		}
		line := pastLine(t, "b", 2)
		if _, err := f.WriteString(line[:60]); err != nil {
			t.Fatal(err)
		}
		added := make(chan error, 1)
		go func() {
			_, err := h.add(pastRun("a", 1))
			added <- err
		}()
		time.Sleep(100 * lockPause)
		select {
		case err := <-added:
			t.Fatalf("added while another wrote: %v", err)
		default:
		}
		if _, err := f.WriteString(line[60:]); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := <-added; err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(runsIn(t, path), " "); got != "b a" {
			t.Error(got)
		}
	})
}

// historyWriter names the environment variables by which this test's own program
// is told to write a history.
const historyWriter = "AICR_TEST_HISTORY_WRITER"

// writeHistories starts programs that add runs to one file: so many each, or for
// ever when there is none.
func writeHistories(t *testing.T, path, test string, writers, runs int) []*exec.Cmd {
	t.Helper()
	var all []*exec.Cmd
	for i := range writers {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+test+"$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", historyWriter, path, i, runs), "TMPDIR="+t.TempDir())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	return all
}

// writesHistory does what such a program is for, and reports whether this is one.
func writesHistory(t *testing.T) bool {
	var path string
	var writer, runs int
	if told := os.Getenv(historyWriter); told == "" {
		return false
	} else if _, err := fmt.Sscan(told, &path, &writer, &runs); err != nil {
		t.Fatal(err)
	}
	h, _ := keepHistory(t, path)
	for i := 0; i < runs || runs == 0; i++ {
		e := pastRun(fmt.Sprintf("%d-%d-%d", writer, os.Getpid(), i), 1)
		e.Deployment.Runtime = strings.Repeat("v", 20_000) // several pages of a file
		if _, err := h.add(e); err != nil {
			t.Fatal(err)
		}
	}
	return true
}

func TestProgramsThatAppendAtOnceLoseNothing(t *testing.T) {
	if writesHistory(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "history.jsonl")
	const writers, runs = 3, 5
	for _, cmd := range writeHistories(t, path, t.Name(), writers, runs) {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	seen := map[string]bool{}
	for _, run := range runsIn(t, path) {
		seen[run] = true
	}
	if len(seen) != writers*runs {
		t.Errorf("%d of %d runs are there", len(seen), writers*runs)
	}
}

func TestAProgramThatIsKilledSpoilsNoHistory(t *testing.T) {
	if writesHistory(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "history.jsonl")
	before := 0
	for i := range 3 {
		cmd := writeHistories(t, path, t.Name(), 1, 0)[0]
		for tries := 0; ; tries++ { // until it writes
			if data, err := os.ReadFile(path); err == nil && bytes.Count(data, []byte{'\n'}) > before+2+i {
				break
			}
			if tries == 60_000 {
				t.Fatal("the other program writes nothing")
			}
			time.Sleep(time.Millisecond)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		h, _ := keepHistory(t, path)
		addTo(t, h, fmt.Sprint("after ", i), 2)
		all := runsIn(t, path)
		if len(all) <= before || all[len(all)-1] != fmt.Sprint("after ", i) {
			t.Fatalf("%d runs after %d: %v", len(all), before, all)
		}
		before = len(all)
	}
}
