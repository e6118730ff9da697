package proof

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"aicr/internal/spec"
)

// What is told of.
const (
	workers  = 128
	requests = 5_000_000
	longS    = 1500 // of the first episode
	shortS   = 50   // of each of the others
	shorts   = 30
	runS     = longS + shorts*shortS
	perS     = (requests + runS - 1) / runS
)

var runStart = time.Date(2026, 6, 4, 12, 0, 0, 0, time.UTC)

// writeRun records a run under dir, as the recorder does: the same files, lines and zip.
// Half of it is one long episode and half are short ones, since what is kept of an
// episode is not what is kept of a run. What an episode holds is relative to its start,
// so that the short ones are alike.
func writeRun(t *testing.T, dir string) {
	t.Helper()
	thresholds, _ := spec.DefaultThresholds(spec.ProfileStandard)
	plan, err := spec.EncodePlan(&spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileStandard, Point: point(shortS),
		Constraints: []spec.Constraint{}, Thresholds: thresholds, Stability: spec.StabilityGate, Inputs: map[string]spec.Input{}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "plan.yaml", plan)
	putJSON(t, dir, "run.json", spec.Run{Schema: spec.RunSchema, ID: "proof", Version: "dev", Command: "aicr validate",
		Target: spec.Target{URL: "http://127.0.0.1:8000/v1", Model: "some/model"}, Start: runStart.Format(time.RFC3339)})
	verdict := spec.Verdict{Schema: spec.VerdictSchema, Verdict: spec.Fail, Reason: "a worker stalls", Profile: spec.ProfileStandard,
		Ledgers:  []spec.Ledger{{Name: spec.Integrity, State: spec.Pass, Reason: "-"}, {Name: spec.Capability, State: spec.Pass, Reason: "-"}, {Name: spec.Stability, State: spec.Fail, Reason: "-"}},
		Findings: []spec.Finding{{ID: "worker/stall", Severity: spec.SeverityFail, Confidence: spec.ConfidenceHigh, Workers: []string{"77"}, Summary: "it stalls", Evidence: []string{}, Advice: []string{}}},
		Episodes: 1 + shorts, LoadedS: runS}
	var events bytes.Buffer
	for i, at := 0, 0; i <= shorts; i++ {
		seconds := shortS
		if i == 0 {
			seconds = longS
		}
		writeEpisode(t, dir, i+1, at, seconds)
		fmt.Fprintf(&events, `{"t":%d,"kind":"stage","stage":"episode","episode":%d}`+"\n", at, i+1)
		verdict.Parts = append(verdict.Parts, spec.Part{Episode: i + 1, Cut: 3, Counted: true})
		verdict.Stalls = append(verdict.Stalls, spec.Stall{Episode: i + 1, At: stallAt, Seconds: stallS, Worker: "77", By: []string{"telemetry"}})
		at += seconds
	}
	fmt.Fprintf(&events, `{"t":%d,"kind":"stage","stage":"end"}`+"\n", runS)
	put(t, dir, "events.jsonl", events.Bytes())
	putJSON(t, dir, "verdict.json", verdict)
}

func point(seconds int) spec.OperatingPoint {
	return spec.OperatingPoint{Workers: workers, Concurrency: 64 * workers, RampS: 2, DurationS: float64(seconds),
		InputTokens: 128, OutputTokens: 128, Prompts: "unique", Router: "least-loaded", RequestTimeout: 600}
}

// writeEpisode records an episode. The first short one is made; the others are it.
func writeEpisode(t *testing.T, dir string, number, at, seconds int) {
	t.Helper()
	n := seconds * perS
	putJSON(t, dir, episodeFile(number, "episode.json"), spec.Episode{Schema: spec.EpisodeSchema, Number: number,
		Start: runStart.Add(time.Duration(at) * time.Second).Format(time.RFC3339), Point: point(seconds), LoadedS: float64(seconds),
		Requests: spec.RequestCounts{Sent: n, Served: n, Classes: map[string]int{"ok": n}},
		Sentinel: spec.RequestCounts{}, Client: spec.BenchClient{Valid: true},
		Samples: []spec.SampleCount{{Source: spec.SourceWorker, Expected: seconds * workers}, {Source: spec.SourceGPU, Expected: seconds * workers}}})
	for name, lines := range map[string]chunks{"requests.jsonl.gz": requestChunks(seconds), "series.jsonl.gz": seriesChunks(seconds)} {
		path := filepath.Join(dir, episodeFile(number, name))
		if number <= firstShort {
			zip(t, path, lines)
		} else if err := os.Link(filepath.Join(dir, episodeFile(firstShort, name)), path); err != nil {
			t.Fatal(err)
		}
	}
}

const firstShort = 2

func episodeFile(number int, name string) string {
	return filepath.Join("episodes", fmt.Sprintf("%03d", number), name)
}

// When worker 77 stands still in each episode.
const stallAt, stallS = 20, 8

func put(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func putJSON(t *testing.T, dir, name string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, name, data)
}

// chunks are parts of a file of lines, of chunkS seconds each.
type chunks struct {
	n     int
	lines func(b []byte, chunk int) []byte // appended to b
}

const chunkS = 10

// requestChunks makes the lines of the requests that are sent in chunk after chunk.
func requestChunks(seconds int) chunks {
	return chunks{(seconds + chunkS - 1) / chunkS, func(b []byte, chunk int) []byte {
		rng := rand.New(rand.NewPCG(7, uint64(chunk)))
		until := min(seconds, (chunk+1)*chunkS)
		for seq := chunk * chunkS * perS; seq < until*perS; seq++ {
			sent := int64(seq) * 1e9 / perS
			first := sent + 40e6 + rng.Int64N(200e6)
			last := first + 127*(30e6+rng.Int64N(8e6))
			phase := "steady"
			if sent < 2e9 {
				phase = "ramp"
			}
			b = append(b, `{"seq":`...)
			b = strconv.AppendInt(b, int64(seq), 10)
			b = append(b, `,"lane":"closed","phase":"`...)
			b = append(b, phase...)
			for _, stamp := range []struct {
				name string
				at   int64
			}{{`","intended":`, sent}, {`,"sent":`, sent}, {`,"first":`, first}, {`,"last":`, last}, {`,"end":`, last + rng.Int64N(1e6)},
				{`,"gap":`, 30e6 + rng.Int64N(20e6)}, {`,"gap_end":`, first + rng.Int64N(last-first)}} {
				b = append(b, stamp.name...)
				b = strconv.AppendInt(b, stamp.at, 10)
			}
			b = append(b, `,"prompt":128,"cached":0,"tokens":128,"worker":"`...)
			b = strconv.AppendInt(b, int64(seq%workers), 10)
			b = append(b, `","class":"ok","status":200,"finish":"length"}`+"\n"...)
		}
		return b
	}}
}

// seriesChunks makes the lines of a scrape a second of every worker and its GPU.
func seriesChunks(seconds int) chunks {
	return chunks{(seconds + chunkS - 1) / chunkS, func(b []byte, chunk int) []byte {
		rng := rand.New(rand.NewPCG(8, uint64(chunk)))
		for s := chunk * chunkS; s < min(seconds, (chunk+1)*chunkS); s++ {
			for w := range workers {
				made := (s + 1) * 1667
				if w == 77 && s >= stallAt {
					made = max(stallAt, s+1-stallS) * 1667
				}
				b = fmt.Appendf(b, `{"t":%d,"source":"worker","name":"%d","worker":{"running":%d,"waiting":%d,"kv_usage":%v,"generated_tokens":%d,"prompt_tokens":%d,"prefix_queries":8320,"prefix_hits":0,"preemptions":0,"gpu":"GPU-%04d"}}`+"\n",
					int64(s+1)*1e9+rng.Int64N(5e6), w, 60+rng.IntN(8), rng.IntN(3), rng.Float64(), made+rng.IntN(40), made, w)
				b = fmt.Appendf(b, `{"t":%d,"source":"gpu","name":"GPU-%04d","gpu":{"utilization":%v,"power_w":%v,"sm_clock_mhz":1980,"temperature_c":%v,"xid":0,"ecc_double_bit":0,"row_remap_failure":0,"throttle":[],"model":"NVIDIA H200"}}`+"\n",
					int64(s+1)*1e9+rng.Int64N(5e6), w, rng.Float64(), 500+100*rng.Float64(), 35+rng.Float64())
			}
		}
		return b
	}}
}

// zip makes the chunks of a file and zips them, two at a time. A file of several zipped
// parts is unzipped like one of one. It keeps little in memory: what this process has
// when it starts another is counted as that one's.
func zip(t *testing.T, path string, from chunks) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	const atOnce = 2
	parts := make([]chan []byte, atOnce) // chunk i comes from parts[i%atOnce]
	for w := range parts {
		parts[w] = make(chan []byte)
		go func() {
			var lines []byte
			for i := w; i < from.n; i += atOnce {
				var part bytes.Buffer
				z, _ := gzip.NewWriterLevel(&part, gzip.BestSpeed) // there is such a level
				lines = from.lines(lines[:0], i)
				_, _ = z.Write(lines) // a buffer takes all
				_ = z.Close()
				parts[w] <- part.Bytes()
			}
		}()
	}
	for i := range from.n {
		if _, err := file.Write(<-parts[i%atOnce]); err != nil {
			t.Fatal(err)
		}
	}
}
