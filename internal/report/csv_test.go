package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"math/big"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

func TestCSV(t *testing.T) {
	goldens(t, "csv", CSV, "pass", "fail", "skip", "bench", "bare", "hostile")
}

// rowsOf reads a table as whoever knows RFC 4180 does, by the names of its columns.
func rowsOf(t *testing.T, r *spec.Report) (rows []map[string]string) {
	t.Helper()
	var b bytes.Buffer
	if err := CSV(&b, r); err != nil {
		t.Fatal(err)
	}
	all, err := csv.NewReader(&b).ReadAll() // every row has as many cells as the first
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(csvColumns(), all[0]); diff != "" {
		t.Errorf("head (-want +got):\n%s", diff)
	}
	for _, cells := range all[1:] {
		row := map[string]string{}
		for i, c := range cells {
			if c != "" {
				row[all[0][i]] = c
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// Episodes come first, then requests; a cell is empty where there is nothing to say.
func TestARowIsAnEpisodeOrARequest(t *testing.T) {
	rows := rowsOf(t, toldPass())
	if len(rows) != 5 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, want := range map[int]map[string]string{
		1: {"record": "episode", "episode": "2", "at_s": "80", "until_s": "130", "cut_s": "84", "counted": "true", "loaded_s": "50",
			"workers": "2", "concurrency": "256", "ramp_s": "2", "duration_s": "50", "input_tokens": "128", "output_tokens": "128", "prompts": "unique",
			"sent": "27963", "served": "27963", "failed": "0", "interrupted": "0", "sentinel_sent": "500", "sentinel_served": "500", "sentinel_failed": "0",
			"client_valid": "true", "prompt_tokens": "3579264", "cached_tokens": "0", "completion_tokens": "3579264"},
		2: {"record": "request", "episode": "1", "at_s": "20", "prompt_tokens": "128", "cached_tokens": "0", "completion_tokens": "128",
			"seq": "0", "lane": "closed", "phase": "ramp", "worker": "1", "class": "ok", "status": "200", "finish": "length",
			"intended_s": "0", "sent_s": "0", "first_s": "0.014354954", "last_s": "1.112866506", "end_s": "1.112866506",
			"late_ms": "0", "ttft_ms": "14.354954", "itl_ms": "8.649697259842519", "latency_ms": "1112.866506", "gap_ms": "13.049674", "gap_end_s": "0.469943185"},
		3: {"record": "request", "episode": "2", "at_s": "81.00025", "completion_tokens": "0",
			"seq": "7", "lane": "sentinel", "phase": "steady", "class": "http-status", "status": "503",
			"intended_s": "1", "sent_s": "1.00025", "end_s": "1.20025", "late_ms": "0.25", "latency_ms": "200", "detail": `service unavailable, "try" again`},
		4: {"record": "request", "episode": "3", "completion_tokens": "0", "seq": "8", "lane": "closed", "phase": "drain", "class": "interrupted",
			"intended_s": "0.000000005", "sent_s": "0.000000005", "end_s": "0.000000006", "late_ms": "0", "latency_ms": "0.000001"},
	} {
		if diff := cmp.Diff(want, rows[i]); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i, diff)
		}
	}
}

// Each check that the recipe declares has a row, before all others.
func TestARowIsADeclaredCheck(t *testing.T) {
	r := toldPass()
	r.Verdict.Checks = []spec.CheckVerdict{
		{Name: "operator-health", Phase: spec.PhaseDeployment, Verdict: spec.NotRun, Reason: spec.Reason{Code: spec.NotBuilt, Text: "not, =yet"}},
		{Name: spec.InferencePerf, Phase: spec.PhasePerformance, Verdict: spec.Pass, Reason: spec.Reason{Code: "pass", Text: "=well"}},
	}
	rows := rowsOf(t, r)
	want := []map[string]string{
		{"record": "check", "check": "operator-health", "check_phase": "deployment", "check_state": "NOT RUN", "check_code": "not-built", "check_reason": "not, =yet"},
		{"record": "check", "check": "inference-perf", "check_phase": "performance", "check_state": "PASS", "check_code": "pass", "check_reason": "'=well"},
	}
	if diff := cmp.Diff(want, rows[:2]); diff != "" || len(rows) != 7 {
		t.Errorf("%d rows (-want +got):\n%s", len(rows), diff)
	}
}

func TestWithoutRequestsThereAreTheEpisodes(t *testing.T) {
	r := toldPass()
	r.Requests = nil
	if n := len(rowsOf(t, r)); n != 2 {
		t.Errorf("%d rows", n)
	}
}

// A record that cannot be read to its end is an error, not a shorter table.
func TestWhatCannotBeReadIsAnError(t *testing.T) {
	broken := errors.New("the archive is broken")
	r := toldPass()
	r.Requests = func(yield func(spec.RequestOf, error) bool) {
		if yield(spec.RequestOf{Episode: 1, Request: &spec.Request{}}, nil) {
			yield(spec.RequestOf{Episode: 1}, broken)
		}
	}
	if err := CSV(io.Discard, r); !errors.Is(err, broken) {
		t.Errorf("it returned %v", err)
	}
}

// A spreadsheet runs what begins like a formula.
func TestNoCellIsAFormula(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"=1+1", "'=1+1"}, {"+1", "'+1"}, {"-1", "'-1"}, {"@SUM(A1)", "'@SUM(A1)"}, {"\t=1", "' =1"}, {"\r=1", "' =1"}, {"\n\n=1", "'  =1"}, {"  =1", "'  =1"},
		{"＝1", "'＝1"}, {"\u00a0=1", "'\u00a0=1"}, {"a=1", "a=1"}, {"1-1", "1-1"}, {"'=1", "'=1"}, {"a\nb", "a b"}, {"\x00=1", "□=1"},
	} {
		r := &spec.Report{Verdict: &spec.Verdict{}, Requests: requestsInOrder(spec.RequestOf{Request: &spec.Request{
			Lane: tt.text, Phase: tt.text, Worker: tt.text, Class: tt.text, Finish: tt.text, Detail: tt.text}})}
		r.Episodes = []spec.ReportEpisode{{Episode: spec.Episode{Point: spec.OperatingPoint{Prompts: tt.text}}}}
		rows := rowsOf(t, r)
		for _, column := range []string{"lane", "phase", "worker", "class", "finish", "detail"} {
			if got := rows[1][column]; got != tt.want {
				t.Errorf("%s: %q is %q, want %q", column, tt.text, got, tt.want)
			}
		}
		if got := rows[0]["prompts"]; got != tt.want {
			t.Errorf("prompts: %q is %q, want %q", tt.text, got, tt.want)
		}
	}
}

// A cell has quotes where encoding/csv has them, and is as long as it may be.
func TestACellIsQuotedAsEncodingCSVDoes(t *testing.T) {
	for _, text := range []string{"", "a", "a b", "a,b", `a"b`, `"a"`, `\.`, `\`, `a\.`, " a", "a ", "\u2003a", "工人", "工,人", "'a", "#a", "a~", "(a)", "a\u0085", strings.Repeat("a", csvText), strings.Repeat("a", csvText+1)} {
		row := &csvRow{}
		row.text(text)
		var want bytes.Buffer
		w := csv.NewWriter(&want)
		w.UseCRLF = true
		if err := w.WriteAll([][]string{{layout.Shown(text, csvText), ""}}); err != nil {
			t.Fatal(err)
		}
		row.none(1)
		if got := string(row.line()); got != want.String() {
			t.Errorf("%.20q is %.100q, want %.100q", text, got, want.String())
		}
	}
}

// The table is what encoding/csv would write of the same cells, and reads back as them.
func TestATableIsWrittenAsEncodingCSVDoes(t *testing.T) {
	parts := rapid.SampledFrom([]string{"", " ", ",", `"`, `""`, `\.`, `\`, ".", "a", "B7", "-", "=", "+1", "@", "\r", "\n", "\r\n", "\t", "'", "#", ";", "\x00", "\xff", "\u00a0", "\u2003", "\u0085", "\ufeff",
		"＝", "工人", "e\u0301", "~", "\x7f", strings.Repeat("long, ", 200), strings.Repeat("x", csvText)})
	text := rapid.Map(rapid.SliceOfN(parts, 0, 5), func(all []string) string { return strings.Join(all, "") })
	stamp := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, 1, 10, 999_999_999, 1_000_000_000, 1_000_000_010, math.MinInt64, math.MaxInt64}))
	rapid.Check(t, func(t *rapid.T) {
		q := spec.Request{Lane: text.Draw(t, "lane"), Phase: text.Draw(t, "phase"), Worker: text.Draw(t, "worker"), Class: text.Draw(t, "class"), Finish: text.Draw(t, "finish"), Detail: text.Draw(t, "detail"),
			Sent: stamp.Draw(t, "sent"), First: stamp.Draw(t, "first"), GapEnd: stamp.Draw(t, "gap")}
		r := &spec.Report{Verdict: &spec.Verdict{}, Requests: requestsInOrder(spec.RequestOf{Episode: 1, Request: &q})}
		var got, want bytes.Buffer
		if err := CSV(&got, r); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(bytes.NewReader(got.Bytes())).ReadAll()
		if err != nil {
			t.Fatalf("%v in\n%s", err, &got)
		}
		for _, told := range []struct{ column, text string }{{"lane", q.Lane}, {"phase", q.Phase}, {"worker", q.Worker}, {"class", q.Class}, {"finish", q.Finish}, {"detail", q.Detail}} {
			cell := rows[1][slices.Index(rows[0], told.column)]
			if cell != layout.Shown(told.text, csvText) && cell != "'"+layout.Shown(told.text, csvText) {
				t.Fatalf("%s: %q reads back as %q", told.column, told.text, cell)
			}
		}
		w := csv.NewWriter(&want)
		w.UseCRLF = true
		if err := w.WriteAll(rows); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Fatalf("(-encoding/csv +here):\n%s", diff)
		}
	})
}

// A stamp is what its nanoseconds are, to the last one.
func TestAStampLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64(), rapid.Map(rapid.Int64Range(-99, 99), func(n int64) int64 { return n * 10_000_000 })).Draw(t, "n")
		places := rapid.SampledFrom([]int{6, 9}).Draw(t, "places")
		text := string(appendDecimal(nil, n, places))
		got, ok := new(big.Rat).SetString(text)
		if want := big.NewRat(n, int64(math.Pow10(places))); !ok || got.Cmp(want) != 0 || strings.Contains(text, ".") && strings.TrimRight(text, "0.") != text {
			t.Fatalf("%d with %d places is %s", n, places, text)
		}
	})
}

// lengths counts bytes and looks at how much memory is in use as they pass.
type lengths struct {
	bytes, rows int64
	most        uint64
}

func (w *lengths) Write(b []byte) (int, error) {
	w.bytes += int64(len(b))
	w.rows += int64(bytes.Count(b, []byte{'\n'}))
	if w.bytes>>24 != (w.bytes-int64(len(b)))>>24 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.most = max(w.most, m.HeapAlloc)
	}
	return len(b), nil
}

// A run of an hour has millions of requests. They pass through.
func TestAMillionRequestsTakeTheMemoryOfOne(t *testing.T) {
	const requests = 1_000_000
	r := toldPass()
	r.Requests = requestsGenerated(requests)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w := &lengths{}
	if err := CSV(w, r); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if w.rows != requests+3 {
		t.Errorf("%d rows", w.rows)
	}
	if grown := int64(w.most) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("%d bytes more are in use while %d pass", grown, w.bytes)
	}
	if each := float64(after.Mallocs-before.Mallocs) / requests; each > 0.01 {
		t.Errorf("%.3f allocations a row", each)
	}
}

// Whoever reads the table by the place of its columns finds them on the page.
func TestTheColumnsAreOnTheirPageInOrder(t *testing.T) {
	page, err := os.ReadFile(reportPages + "csv.md")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| ([0-9]+) \\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		if row[1] != strconv.Itoa(len(told)+1) {
			t.Errorf("column %s is told as number %s", row[2], row[1])
		}
		told = append(told, row[2])
	}
	if diff := cmp.Diff(csvColumns(), told); diff != "" {
		t.Errorf("columns (-code +page):\n%s", diff)
	}
}

// As RFC 4180 has it, a line ends with CR and LF, the last one too.
func TestALineEndsAsTheRFCHasIt(t *testing.T) {
	var b bytes.Buffer
	if err := CSV(&b, hostile(toldFail())); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if strings.Count(text, "\n") != strings.Count(text, "\r\n") || !strings.HasSuffix(text, "\r\n") {
		t.Error("there are lines that end otherwise")
	}
}

// requestsGenerated are so many as a run makes them, one request at a time.
func requestsGenerated(n int64) func(func(spec.RequestOf, error) bool) {
	q := spec.Request{Lane: "closed", Phase: "steady", Prompt: 128, Tokens: 128, Worker: "worker-7", Class: "ok", Status: 200, Finish: "length"}
	return func(yield func(spec.RequestOf, error) bool) {
		for i := range n {
			q.Seq, q.Intended, q.Sent = i, i*1_000_003, i*1_000_003+17
			q.First, q.Last, q.End = q.Sent+30_123_456, q.Sent+1_812_345_678, q.Sent+1_812_345_999
			q.Gap, q.GapEnd = 13_049_674+i, q.First+13_049_674+i
			if !yield(spec.RequestOf{Episode: 1, Request: &q}, nil) {
				return
			}
		}
	}
}

func BenchmarkCSV(b *testing.B) {
	const rows = 200_000
	r := toldPass()
	r.Requests = requestsGenerated(rows)
	for b.Loop() {
		if err := CSV(io.Discard, r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
