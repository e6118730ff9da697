package aiperf_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load"
	"aicr/internal/load/aiperf"
	"aicr/internal/load/metric"
)

var update = flag.Bool("update", false, "rewrite golden files")

func write(t *testing.T, p *aiperf.Profile) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := p.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestWholeFileOfOneRequest(t *testing.T) {
	seed := uint64(7)
	log := load.NewLog([]load.Record{
		{
			Seq: 0, Phase: load.Steady, Flags: load.HasUsage | load.Reused | load.Done, Status: 200,
			Intended: 1e6, Sent: 2e6, FirstByte: 10e6, FirstChoice: 10e6, FirstContent: 12e6, SecondContent: 22e6,
			FirstAnswer: 12e6, LastContent: 32e6, End: 33e6, Chunks: 3, PromptTokens: 8, CompletionTokens: 3,
		},
		{Seq: 1, Phase: load.Drain, Class: load.HTTPStatus, Status: 503, Detail: 1, Intended: 3e6, Sent: 3e6, End: 4e6},
		{Seq: 2, Phase: load.Drain, Class: load.Interrupt, Flags: load.Cancelled, Intended: 5e6, Sent: 5e6, End: 9e6},
		{Seq: 3, Lane: load.Sentinel, Phase: load.Drain, Class: load.Reset, Intended: 6e6, Sent: 6e6, End: 7e6},
	}, [][]int64{{12e6, 22e6, 32e6}, nil, nil, nil}, []string{`"no workers" <&>` + "\n\x01é"})
	meta := aiperf.Meta{
		Version: "0.1.0", BenchmarkID: "b1", Epoch: time.Date(2026, 11, 15, 3, 0, 0, 0, time.UTC),
		CommandLine: "aicr load --concurrency 1", Seed: &seed, Cancelled: true,
		InputConfig: aiperf.Input{Model: "m", URL: "http://x", Requests: 3, Concurrency: 1, Input: 8, Output: 3}.JSON(),
	}
	p := aiperf.Summarize(log, nil, meta, metric.Options{RequestedTokens: 3})
	out := write(t, p)
	golden(t, "small.golden.json", out)

	back, err := aiperf.Read(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if again := write(t, back); !bytes.Equal(again, out) {
		t.Errorf("read and written again:\n%s", cmp.Diff(string(out), string(again)))
	}

	var lines bytes.Buffer
	if err := aiperf.WriteRecords(&lines, log, meta, metric.Options{RequestedTokens: 3}, true); err != nil {
		t.Fatal(err)
	}
	golden(t, "small.golden.jsonl", lines.Bytes())
}

func TestErrorsAreThoseOfAIPerf(t *testing.T) {
	log, meta, opt := readParity(t)
	got := aiperf.Summarize(log, nil, meta, opt)
	data, err := os.ReadFile("testdata/want.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := aiperf.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Errors, got.Errors); diff != "" || len(want.Errors) == 0 {
		t.Errorf("error_summary (-AIPerf +ours):\n%s", diff)
	}
	if got.Start != want.Start || got.End != want.End {
		t.Errorf("from %s to %s, AIPerf says %s to %s", got.Start, got.End, want.Start, want.End)
	}
}

func TestRecordLinesAreThoseOfAIPerf(t *testing.T) {
	log, meta, opt := readParity(t)
	var out bytes.Buffer
	if err := aiperf.WriteRecords(&out, log, meta, opt, true); err != nil {
		t.Fatal(err)
	}
	type line struct {
		Metadata map[string]json.RawMessage
		Metrics  map[string]json.RawMessage
		Error    json.RawMessage
	}
	key := func(l line) string { return string(l.Metadata["benchmark_phase"]) + string(l.Metadata["session_num"]) }
	parse := func(text []byte) []line {
		var lines []line
		for row := range bytes.Lines(text) {
			var l line
			if err := json.Unmarshal(row, &l); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, l)
		}
		return lines
	}
	ours := map[string]line{}
	for _, l := range parse(out.Bytes()) {
		ours[key(l)] = l
	}
	data, err := os.ReadFile("testdata/want.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want := parse(data)
	if len(ours) != log.Len() || len(want) < 30 {
		t.Fatalf("%d lines of %d records; %d to compare with", len(ours), log.Len(), len(want))
	}
	// Identifiers which aicr does not give its requests, or gives its own.
	for _, l := range want {
		for _, id := range []string{"x_request_id", "x_correlation_id", "conversation_id", "root_correlation_id"} {
			delete(l.Metadata, id)
		}
		l.Metadata["worker_id"] = json.RawMessage(`"aicr"`)
		l.Metadata["record_processor_id"] = json.RawMessage(`"aicr"`)
		for _, tag := range notRecorded() {
			delete(l.Metrics, tag)
		}
		text := cmp.Transformer("text", func(m json.RawMessage) string { return string(m) })
		if diff := cmp.Diff(l, ours[key(l)], text); diff != "" {
			t.Errorf("%s (-AIPerf +ours):\n%s", key(l), diff)
		}
	}
}

func TestWithoutTokensNoGapsAreWritten(t *testing.T) {
	log, meta, opt := readParity(t)
	var out bytes.Buffer
	if err := aiperf.WriteRecords(&out, log, meta, opt, false); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(out.Bytes(), []byte("inter_chunk_latency")) {
		t.Error("gaps were written")
	}
}

func TestRealFilesSurviveReadingAndWriting(t *testing.T) {
	for _, name := range []string{"real.json", "real_failures.json"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := aiperf.Read(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			var root map[string]json.RawMessage
			if err := json.Unmarshal(data, &root); err != nil {
				t.Fatal(err)
			}
			if written := strings.Trim(string(root["aiperf_version"]), `"`); written == "" || p.AIPerfVersion != written || p.AICRVersion != "" {
				t.Errorf("written by AIPerf %q, not %q, aicr %q", p.AIPerfVersion, written, p.AICRVersion)
			}
			// Telemetry is not kept: the rest of the file comes back whole, in
			// order, byte for byte.
			want := string(data)
			if raw := root["telemetry_data"]; raw != nil {
				want = strings.Replace(want, "  \"telemetry_data\": "+string(raw)+",\n", "", 1)
			}
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(string(write(t, p)), "\n")); diff != "" {
				t.Errorf("(-AIPerf +ours):\n%s", diff)
			}
		})
	}
}

func TestNumbersArePrintedLikeOrjson(t *testing.T) {
	data, err := os.ReadFile("testdata/orjson.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases [][2]string
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		p := &aiperf.Profile{Metrics: []metric.Figure{{Tag: "x", Distribution: metric.Scalar("u", float(t, c[0]))}}}
		if out := string(write(t, p)); !strings.Contains(out, `"avg": `+c[1]+"\n") {
			t.Errorf("want %s in %s", c[1], out)
		}
	}
}

func float(t *testing.T, bits string) float64 {
	t.Helper()
	var u uint64
	for _, c := range bits {
		u = u<<4 | uint64(strings.IndexRune("0123456789abcdef", c))
	}
	return math.Float64frombits(u)
}

func TestReadRefusesWhatIsNotAProfile(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":            "",
		"a list":             "[]",
		"an empty object":    "{}",
		"some other object":  `{"schema_version":"1.4","input_config":{}}`,
		"half a profile":     `{"request_count":{"unit":"requests","avg":1.0}`,
		"two profiles":       `{"request_count":{"unit":"requests","avg":1.0}}{}`,
		"a key twice":        `{"request_count":{"unit":"requests","avg":1.0},"request_count":{"unit":"requests","avg":2.0}}`,
		"a word for a value": `{"request_count":{"unit":"requests","avg":"many"}}`,
		"half a request":     `{"request_count":{"unit":"requests","avg":1.0},"request_latency":{"unit":"ms","count":1.5}}`,
		"fewer than none":    `{"request_count":{"unit":"requests","avg":1.0},"request_latency":{"unit":"ms","count":-1}}`,
		"warm-up not a map":  `{"request_count":{"unit":"requests","avg":1.0},"warmup_metrics":[]}`,
		"a record line":      `{"metadata":{"session_num":1},"metrics":{"request_latency":{"value":1,"unit":"ms"}}}`,
	} {
		if p, err := aiperf.Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s was read as %+v", name, p)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriteErrorsAreReported(t *testing.T) {
	log, meta, opt := readParity(t)
	if err := aiperf.Summarize(log, nil, meta, opt).WriteJSON(brokenPipe{}); err == nil {
		t.Error("the profile was not written, and no error")
	}
	if err := aiperf.WriteRecords(brokenPipe{}, log, meta, opt, true); err == nil {
		t.Error("the records were not written, and no error")
	}
	bad := &aiperf.Profile{InputConfig: json.RawMessage("{")}
	if err := bad.WriteJSON(&bytes.Buffer{}); err == nil {
		t.Error("a broken configuration was written")
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"request_count":{"unit":"requests","avg":1e400}}`,
		`{"request_count":{"unit":"","avg":null,"count":0}}`,
		`{"schema_version":"1.4","aiperf_version":"9","benchmark_id":"b","request_count":{"unit":"requests","avg":128.0},` +
			`"telemetry_data":{},"input_config":{"a":[]},"run_info":{"random_seed":100,"trial":0,"cli_command":"x"},` +
			`"was_cancelled":false,"is_complete":true,"error_summary":[{"error_details":{"code":500,"type":"t","message":"m"},"count":72}],` +
			`"start_time":"2026-11-15T03:00:15.017522","warmup_metrics":{"x":{"unit":"ms","avg":-0.0}},` +
			`"request_latency":{"unit":"ms","avg":1.5e-7,"p50":0.1,"min":1,"max":2,"std":0.0,"count":3,"sum":4},"aicr":{"version":"1"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := aiperf.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		once := write(t, p)
		again, err := aiperf.Read(bytes.NewReader(once))
		if err != nil {
			t.Fatalf("our own file: %v\n%s", err, once)
		}
		if twice := write(t, again); !bytes.Equal(once, twice) {
			t.Errorf("written once:\n%s\nand again:\n%s", once, twice)
		}
	})
}
