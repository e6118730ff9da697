//go:build linux

package interop_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load/aiperf"
	"aicr/internal/load/metric"
)

// recorder stands before the frontend and keeps the bodies that it is sent.
type recorder struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func record(t *testing.T, target string) *recorder {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	pass := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return // the client has gone
			}
			r.mu.Lock()
			r.bodies = append(r.bodies, string(body))
			r.mu.Unlock()
			req.Body = io.NopCloser(bytes.NewReader(body))
		}
		pass.ServeHTTP(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// taken gives what was kept since it was asked last, sorted.
func (r *recorder) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	bodies := r.bodies
	r.bodies = nil
	slices.Sort(bodies)
	return bodies
}

// AIPerf's inputs.json, sent by AIPerf and then by aicr, is the same to the
// server byte for byte, and so is what both make of the answers to the readers
// of their files, ours and AIPerf's.
func TestReplayOfAIPerfsInputs(t *testing.T) {
	s := bringUp(t, plan{router: "round-robin", workers: alike(2)})
	seen := record(t, s.url)
	s.url = seen.URL
	l := load{concurrency: 4, requests: 16, input: 130, output: 24, seed: 7}

	theirs := s.aiperf(t, l)
	sent := seen.taken()
	inputs := filepath.Join(theirs.dir, "inputs.json")
	if diff := cmp.Diff(payloads(t, inputs), sent); diff != "" {
		t.Errorf("AIPerf did not send its inputs.json (-file +sent):\n%s", diff)
	}
	if different := len(slices.Compact(slices.Clone(sent))); different != l.requests {
		t.Errorf("%d different bodies in %d requests", different, l.requests)
	}

	ours := s.aicr(t, "--inputs", inputs, "--concurrency", "4", "--request-count", "16", "--no-probe", "--connection-reuse-strategy", "never")
	if diff := cmp.Diff(sent, seen.taken()); diff != "" {
		t.Errorf("aicr does not send what AIPerf sent (-AIPerf +aicr):\n%s", diff)
	}
	keepsCount(t, ours.bench, l)

	t.Run("one reader has the figures of both", func(t *testing.T) { haveTheSame(t, theirs.profile, ours.profile) })
	t.Run("AIPerf's models read what aicr wrote", func(t *testing.T) { readBack(t, ours, l) })
}

// payloads are the bodies of an inputs.json, without the space between their
// tokens, sorted.
func payloads(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var inputs struct {
		Data []struct{ Payloads []json.RawMessage }
	}
	if err := json.Unmarshal(text, &inputs); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, session := range inputs.Data {
		for _, payload := range session.Payloads {
			var b bytes.Buffer
			if err := json.Compact(&b, payload); err != nil {
				t.Fatal(err)
			}
			all = append(all, b.String())
		}
	}
	slices.Sort(all)
	return all
}

// unknown are figures of AIPerf's that aicr does not measure.
var unknown = map[string]string{
	"http_req_blocked":         "a request waits for no connection",
	"http_req_sending":         "the wire keeps no stamp of it",
	"http_req_waiting":         "the wire keeps no stamp of it",
	"http_req_receiving":       "the wire keeps no stamp of it",
	"http_req_chunks_sent":     "the wire keeps no stamp of it",
	"http_req_chunks_received": "the wire keeps no stamp of it",
	"osl_mismatch_count":       "a replay asks for no one length",
	"osl_mismatch_diff_pct":    "a replay asks for no one length",
}

// haveTheSame checks that each figure of AIPerf's is one of aicr's, in the same
// unit and with the same statistics; and that those which the load alone decides
// are equal.
func haveTheSame(t *testing.T, theirs, ours *aiperf.Profile) {
	if theirs.AIPerfVersion == "" || ours.AIPerfVersion != "" || ours.AICRVersion == "" || theirs.SchemaVersion != ours.SchemaVersion {
		t.Errorf("AIPerf %q and aicr %q wrote schema %q; AIPerf %q and aicr %q wrote %q",
			theirs.AIPerfVersion, theirs.AICRVersion, theirs.SchemaVersion, ours.AIPerfVersion, ours.AICRVersion, ours.SchemaVersion)
	}
	used := map[string]bool{}
	for _, f := range theirs.Metrics {
		our, have := ours.Get(f.Tag)
		why, left := unknown[f.Tag]
		used[f.Tag] = true
		switch {
		case have && left:
			t.Errorf("%s is said to be unknown, and is there: %s", f.Tag, why)
		case left:
		case !have:
			t.Errorf("aicr has no %s", f.Tag)
		default:
			if diff := cmp.Diff(present(f.Distribution), present(our)); diff != "" {
				t.Errorf("%s (-AIPerf +aicr):\n%s", f.Tag, diff)
			}
		}
	}
	for tag := range unknown {
		if !used[tag] {
			t.Errorf("AIPerf has no %s", tag)
		}
	}
	for _, tag := range []string{"request_count", "output_sequence_length", "input_sequence_length", "total_output_tokens", "total_isl", "total_osl"} {
		their, _ := theirs.Get(tag)
		our, have := ours.Get(tag)
		if !have || their.Avg != our.Avg {
			t.Errorf("%s: AIPerf has %v, aicr %v", tag, their.Avg, our.Avg)
		}
	}
}

// present says of a figure what there is of it.
func present(d metric.Distribution) map[string]bool {
	p := map[string]bool{d.Unit: true}
	for name, v := range map[string]float64{
		"avg": d.Avg, "p1": d.P1, "p5": d.P5, "p10": d.P10, "p25": d.P25, "p50": d.P50, "p75": d.P75, "p90": d.P90,
		"p95": d.P95, "p99": d.P99, "min": d.Min, "max": d.Max, "std": d.Std, "sum": d.Sum,
	} {
		p[name] = !math.IsNaN(v)
	}
	return p
}

// readBack gives aicr's files to AIPerf's own models.
func readBack(t *testing.T, o outcome, l load) {
	got := finish(t, patience, bare(t.TempDir()), python(), "readback.py",
		filepath.Join(o.dir, "profile_export_aiperf.json"), filepath.Join(o.dir, "profile_export.jsonl"))
	if got.code != 0 {
		t.Fatalf("AIPerf's models do not read it:\n%s", got.stderr)
	}
	type found struct {
		Schema       string   `json:"schema_version"`
		Served       int      `json:"served"`
		Blocks       int      `json:"blocks"`
		Undeclared   []string `json:"undeclared"`
		Same         bool     `json:"same_when_dumped"`
		Records      int      `json:"records"`
		Failed       int      `json:"failed"`
		OutputTokens int      `json:"output_tokens"`
	}
	var have found
	if err := json.Unmarshal([]byte(got.stdout), &have); err != nil {
		t.Fatalf("%s: %v", got.stdout, err)
	}
	want := found{
		Schema: aiperf.SchemaVersion, Served: l.requests, Blocks: len(o.profile.Metrics),
		Undeclared: []string{"aicr"}, // says who wrote it
		Same:       true, Records: l.requests, OutputTokens: l.requests * l.output,
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-aicr +AIPerf):\n%s", diff)
	}
}
