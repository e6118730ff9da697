package aiperf_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"aicr/internal/load"
	"aicr/internal/load/aiperf"
	"aicr/internal/load/metric"
)

// parity is testdata/records.json: the requests that testdata/parity.py put
// through AIPerf.
type parity struct {
	Epoch     int64
	Requested int32
	SLOs      map[string]float64
	Records   []struct {
		Seq, Intended, Sent, End int64
		Phase, Class, Detail     string
		Status                   uint16
		Stamps                   []int64
		Answer                   int
		Prompt, Completion       int32
		Reasoning, Cached        int32
		Resolve, Connect         int64
		Reused                   bool
		BytesIn                  int64 `json:"bytes_in"`
		BytesOut                 int32 `json:"bytes_out"`
	}
}

func readParity(t *testing.T) (*load.Log, aiperf.Meta, metric.Options) {
	t.Helper()
	data, err := os.ReadFile("testdata/records.json")
	if err != nil {
		t.Fatal(err)
	}
	var in parity
	if err := json.Unmarshal(data, &in); err != nil {
		t.Fatal(err)
	}
	classes := map[string]load.Class{}
	for _, c := range load.Classes() {
		classes[c.String()] = c
	}
	var (
		records []load.Record
		stamps  [][]int64
		details []string
	)
	for _, x := range in.Records {
		r := load.Record{
			Seq: x.Seq, Intended: x.Intended, Sent: x.Sent, End: x.End, Phase: load.Steady,
			Class: classes[x.Class], Status: x.Status, BytesIn: x.BytesIn, BytesOut: x.BytesOut,
			Resolve: x.Resolve, Connect: x.Connect, Chunks: int32(len(x.Stamps)),
		}
		if x.Phase == "warmup" {
			r.Phase = load.Warmup
		}
		if x.Reused {
			r.Flags |= load.Reused
		}
		if x.Detail != "" {
			if !slices.Contains(details, x.Detail) {
				details = append(details, x.Detail)
			}
			r.Detail = int32(slices.Index(details, x.Detail) + 1)
		}
		if r.OK() {
			r.FirstContent, r.LastContent = x.Stamps[0], x.Stamps[len(x.Stamps)-1]
			r.FirstByte = r.FirstContent - 1000
			r.FirstAnswer = x.Stamps[x.Answer]
			if len(x.Stamps) > 1 {
				r.SecondContent = x.Stamps[1]
			}
			r.Flags |= load.HasUsage
			r.PromptTokens, r.CompletionTokens, r.ReasoningTokens = x.Prompt, x.Completion, x.Reasoning
			if x.Cached >= 0 {
				r.Flags |= load.HasCached
				r.CachedTokens = x.Cached
			}
			stamps = append(stamps, x.Stamps)
		} else {
			stamps = append(stamps, nil)
		}
		records = append(records, r)
	}
	opt := metric.Options{RequestedTokens: in.Requested}
	for tag, limit := range in.SLOs {
		opt.SLOs = append(opt.SLOs, metric.SLO{Tag: tag, Limit: limit})
	}
	meta := aiperf.Meta{Version: "test", BenchmarkID: "parity", Epoch: time.Unix(0, in.Epoch).UTC()}
	return load.NewLog(records, stamps, details), meta, opt
}

// blocks gives the text of each metric block of a profile, byte for byte.
func blocks(t *testing.T, profile []byte) (main, warmup map[string]string) {
	t.Helper()
	var root map[string]json.RawMessage
	if err := json.Unmarshal(profile, &root); err != nil {
		t.Fatal(err)
	}
	pick := func(from map[string]json.RawMessage) map[string]string {
		to := map[string]string{}
		for key, value := range from {
			if bytes.HasPrefix(value, []byte("{")) && bytes.Contains(value, []byte(`"unit"`)) && key != "warmup_metrics" {
				to[key] = string(value)
			}
		}
		return to
	}
	var inner map[string]json.RawMessage
	if raw := root["warmup_metrics"]; raw != nil {
		if err := json.Unmarshal(raw, &inner); err != nil {
			t.Fatal(err)
		}
	}
	return pick(root), pick(inner)
}

// notRecorded are the figures that AIPerf has and a load.Record does not know.
func notRecorded() []string {
	return []string{
		"http_req_blocked", "http_req_sending", "http_req_waiting", "http_req_receiving",
		"http_req_chunks_sent", "http_req_chunks_received", "context_overflow_count",
	}
}

func TestMetricBlocksAreThoseOfAIPerfByteForByte(t *testing.T) {
	log, meta, opt := readParity(t)
	var out bytes.Buffer
	if err := aiperf.Summarize(log, nil, meta, opt).WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/want.json")
	if err != nil {
		t.Fatal(err)
	}
	gotMain, gotWarmup := blocks(t, out.Bytes())
	wantMain, wantWarmup := blocks(t, golden)
	compare := func(stage string, got, want map[string]string) {
		if len(want) < 60 {
			t.Fatalf("%s: the golden file has %d blocks only", stage, len(want))
		}
		for tag, w := range want {
			if slices.Contains(notRecorded(), tag) {
				continue
			}
			if g, ok := got[tag]; !ok {
				t.Errorf("%s: no %s", stage, tag)
			} else if g != w {
				t.Errorf("%s: %s\n got %s\nwant %s", stage, tag, g, w)
			}
		}
		for tag := range got {
			if _, ok := want[tag]; !ok {
				t.Errorf("%s: %s, which AIPerf does not have", stage, tag)
			}
		}
	}
	compare("main", gotMain, wantMain)
	compare("warm-up", gotWarmup, wantWarmup)
}
