package spec_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"aicr/internal/spec"

	"github.com/google/go-cmp/cmp"
)

const (
	closedLine   = `{"seq":0,"lane":"closed","phase":"ramp","intended":0,"sent":10,"first":20,"last":40,"end":50,"gap":8,"gap_end":35,"prompt":128,"cached":0,"tokens":128,"worker":"1","class":"ok","status":200,"finish":"length"}`
	failedLine   = `{"seq":1,"lane":"closed","phase":"steady","intended":5,"sent":15,"end":60,"prompt":0,"tokens":0,"class":"http-status","status":503,"detail":"no \"worker\": at all"}`
	sentinelLine = `{"seq":0,"lane":"sentinel","phase":"drain","intended":30,"sent":30,"end":90,"prompt":0,"tokens":0,"class":"interrupted"}`
	workerLine   = `{"t":1000,"source":"worker","name":"1","worker":{"running":64,"generated_tokens":3021}}`
	gapLine      = `{"t":2000,"source":"worker","name":"1","took":7,"gap":"connection refused"}`
	clientLine   = `{"t":1000,"source":"client","name":"","client":{"in_flight":2,"sent":3,"ended":1,"tokens":128}}`
)

func episodeText(number int) string {
	return fmt.Sprintf(`{
  "schema": "aicr.run/episode/v1alpha1",
  "number": %d,
  "start": "2026-06-04T12:00:00Z",
  "point": {"workers": 2, "concurrency": 2, "ramp_s": 0, "duration_s": 50, "input_tokens": 128, "output_tokens": 128, "prompts": "unique", "sentinel_rate": 0},
  "loaded_s": 50,
  "requests": {"sent": 2, "served": 1, "failed": 1, "interrupted": 0, "classes": {"ok": 1, "http-status": 1}},
  "sentinel": {"sent": 1, "served": 0, "failed": 0, "interrupted": 1, "classes": {"interrupted": 1}},
  "tokens": {"prompt": 128, "completion": 128},
  "figures": [{"name": "output throughput", "unit": "tokens/sec", "mean": 70139.4}],
  "workers": null,
  "client": {"valid": true, "steady_s": 40, "send_lateness_ms": {"n": 2, "p50": 0, "p99": 0, "max": 0},
    "stamp_lag_ms": {"n": 0, "p50": 0, "p99": 0, "max": 0}, "stamp_lag_by": "none", "gc_pauses": 0, "gc_pause_max_ms": 0,
    "sched_latency_p99_ms": 0, "cpu_s": 0, "cores": 2},
  "samples": [{"source": "client", "expected": 1, "missing": 0}, {"source": "worker", "expected": 2, "missing": 1}]
}
`, number)
}

// recorded is a small run: a look at half the load and two episodes, of which the
// second is zipped.
func recorded(t testing.TB) fstest.MapFS {
	t.Helper()
	plan, err := spec.EncodePlan(somePlan(t))
	if err != nil {
		t.Fatal(err)
	}
	all := fstest.MapFS{}
	put := func(name, text string) { all[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644} }
	put("run.json", `{"schema": "aicr.run/run/v1alpha1", "id": "x", "version": "dev", "command": "aicr validate", "target": {"simulated": true, "seed": 18446744073709551615}, "start": "2026-06-04T12:00:00Z"}`)
	put("plan.yaml", string(plan))
	put("events.jsonl", `{"t":0,"kind":"stage","stage":"start"}`+"\n"+`{"t":0.5,"kind":"answer","worker":"0","seconds":0.01,"tokens":8}`+"\n"+`{"t":1,"kind":"stage","stage":"episode","episode":1}`+"\n")
	requests := strings.Join([]string{closedLine, failedLine, sentinelLine, ""}, "\n")
	series := strings.Join([]string{workerLine, gapLine, clientLine, ""}, "\n")
	for number := range 3 {
		dir := fmt.Sprintf("episodes/%03d/", number)
		put(dir+"episode.json", episodeText(number))
		if number < 2 {
			put(dir+"requests.jsonl", requests)
			put(dir+"series.jsonl", series)
			continue
		}
		put(dir+"requests.jsonl.gz", zipped(t, requests))
		put(dir+"series.jsonl.gz", zipped(t, series))
	}
	return all
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// readAll reads a run with all its episodes, whole and as a stream, which must say the
// same.
func readAll(files fs.FS) (*spec.RecordedRun, []*spec.EpisodeRecord, error) {
	r, err := spec.ReadRun(files)
	if err != nil {
		return nil, nil, err
	}
	var all []*spec.EpisodeRecord
	for _, number := range r.Numbers() {
		e, err := r.Episode(number)
		if differs := streamDiffers(r, number, e, err); differs != nil {
			return nil, nil, differs
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, e)
	}
	return r, all, nil
}

func TestARunIsReadAsItWasKept(t *testing.T) {
	r, all, err := readAll(recorded(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 1, 2}, r.Numbers()); diff != "" {
		t.Errorf("episodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(somePlan(t), r.Plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if len(r.Events) != 3 || r.Events[1].Worker != "0" || len(r.Notes) != 0 || r.Run.Target.Seed != 1<<64-1 {
		t.Errorf("events %+v, notes %q, run %+v", r.Events, r.Notes, r.Run)
	}
	for i, e := range all {
		want := []spec.Request{
			{Lane: "closed", Phase: "ramp", Sent: 10, First: 20, Last: 40, End: 50, Gap: 8, GapEnd: 35, Prompt: 128, Cached: new(0), Tokens: 128, Worker: "1", Class: "ok", Status: 200, Finish: "length"},
			{Seq: 1, Lane: "closed", Phase: "steady", Intended: 5, Sent: 15, End: 60, Class: "http-status", Status: 503, Detail: `no "worker": at all`},
			{Lane: "sentinel", Phase: "drain", Intended: 30, Sent: 30, End: 90, Class: "interrupted"},
		}
		if diff := cmp.Diff(want, e.Requests); diff != "" || e.Episode.Number != i {
			t.Errorf("episode %d: number %d, requests (-want +got):\n%s", i, e.Episode.Number, diff)
		}
		series := []spec.Sample{
			{T: 1000, Source: "worker", Name: "1", Worker: &spec.WorkerSample{Running: new(64.0), Generated: new(3021.0)}},
			{T: 2000, Source: "worker", Name: "1", Took: 7, Gap: "connection refused"},
			{T: 1000, Source: "client", Client: &spec.ClientSample{InFlight: 2, Sent: 3, Ended: 1, Tokens: 128}},
		}
		if diff := cmp.Diff(series, e.Series); diff != "" {
			t.Errorf("episode %d: series (-want +got):\n%s", i, diff)
		}
	}
}

// change is something done to a recorded run.
type change func(fstest.MapFS)

func replaced(file, from, to string) change {
	return func(all fstest.MapFS) {
		text := string(all[file].Data)
		if !strings.Contains(text, from) {
			panic(file + " has no " + from)
		}
		all[file].Data = []byte(strings.Replace(text, from, to, 1))
	}
}

func written(file, text string) change {
	return func(all fstest.MapFS) { all[file] = &fstest.MapFile{Data: []byte(text), Mode: 0o644} }
}

func removed(prefix string) change {
	return func(all fstest.MapFS) {
		maps.DeleteFunc(all, func(name string, _ *fstest.MapFile) bool { return strings.HasPrefix(name, prefix) })
	}
}

func cut(file string, bytes int) change {
	return func(all fstest.MapFS) { all[file].Data = all[file].Data[:len(all[file].Data)-bytes] }
}

func both(a, b change) change { return func(all fstest.MapFS) { a(all); b(all) } }

const (
	requests1 = "episodes/001/requests.jsonl"
	series1   = "episodes/001/series.jsonl"
	summary1  = "episodes/001/episode.json"
)

func TestWhatIsWrongWithARecordIsToldWithItsFileAndLine(t *testing.T) {
	plan := string(recorded(t)["plan.yaml"].Data)
	planLine := func(text string) string {
		before, _, _ := strings.Cut(plan, text)
		return fmt.Sprintf("plan.yaml: line %d", 1+strings.Count(before, "\n"))
	}
	for name, c := range map[string]struct {
		change change
		want   string
	}{
		"a field is missing in a request":      {replaced(requests1, `"end":60,`, ""), requests1 + ": line 2: end: is missing"},
		"each field of a request is needed":    {replaced(requests1, `"tokens":0,"class":"http-status",`, ""), requests1 + ": line 2: tokens: is missing\n" + requests1 + ": line 2: class: is missing"},
		"a field is missing in a sample":       {replaced(series1, `"name":"1",`, ""), series1 + ": line 1: name: is missing"},
		"a field is missing in client sample":  {replaced(series1, `"ended":1,`, ""), series1 + ": line 3: client.ended: is missing"},
		"a field is missing in an episode":     {replaced(summary1, `"loaded_s": 50,`, ""), summary1 + ": line 1: loaded_s: is missing"},
		"a field is missing inside an episode": {replaced(summary1, `"served": 1,`, ""), summary1 + ": line 7: requests.served: is missing"},
		"a field is missing in an event":       {replaced("events.jsonl", `"kind":"answer",`, ""), "events.jsonl: line 2: kind: is missing"},
		"a field is missing in the run":        {replaced("run.json", `"id": "x", `, ""), "run.json: line 1: id: is missing"},
		"a field is missing in the plan":       {replaced("plan.yaml", "sigma: 0.05", "# none"), planLine("thresholds:") + ": thresholds.sigma: is missing"},

		"an unknown field in a request": {replaced(requests1, `"intended":5`, `"intented":5`), requests1 + ": line 2: intented: unknown field"},
		"an unknown field in a sample":  {replaced(series1, `"running"`, `"runing"`), series1 + ": line 1: worker.runing: unknown field"},
		"an unknown field in episode":   {replaced(summary1, `"mean"`, `"Mean"`), summary1 + ": line 10: figures[0].Mean: unknown field"},
		"an unknown field in an event":  {replaced("events.jsonl", `"worker"`, `"wroker"`), "events.jsonl: line 2: wroker: unknown field"},
		"an unknown field in the run":   {replaced("run.json", `"id"`, `"x": {"y": [1, {}]}, "id"`), "run.json: line 1: x: unknown field"},
		"a field twice":                 {replaced(summary1, `"loaded_s": 50,`, "\"loaded_s\": 50,\n\"loaded_s\": 5,"), summary1 + ": line 7: loaded_s: written twice"},

		"NaN in a request":       {replaced(requests1, `"sent":15`, `"sent":NaN`), requests1 + ": line 2: not JSON: invalid character 'N' looking for beginning of value"},
		"NaN in a sample":        {replaced(series1, `64`, `NaN`), series1 + ": line 1: not JSON: invalid character 'N' looking for beginning of value"},
		"NaN in an episode":      {replaced(summary1, `70139.4`, `NaN`), summary1 + ": line 10: not JSON: invalid character 'N' looking for beginning of value"},
		"NaN in the plan":        {replaced("plan.yaml", "sigma: 0.05", "sigma: .nan"), planLine("sigma:") + `: thresholds.sigma: want a finite number, got ".nan"`},
		"infinity in a sample":   {replaced(series1, `64`, `1e999`), series1 + ": line 1: worker.running: want a number, got 1e999"},
		"infinity in the plan":   {replaced("plan.yaml", "rateBad: 0.75", "rateBad: .inf"), planLine("rateBad:") + `: thresholds.rateBad: want a finite number, got ".inf"`},
		"text for a number":      {replaced(requests1, `"sent":15`, `"sent":"15"`), requests1 + ": line 2: sent: want a whole number, got text"},
		"null for a number":      {replaced(requests1, `"sent":15`, `"sent":null`), requests1 + ": line 2: sent: no value"},
		"a fraction for a stamp": {replaced(requests1, `"sent":15`, `"sent":1.5`), requests1 + ": line 2: sent: want a whole number, got 1.5"},

		"an empty run.json":     {written("run.json", ""), "run.json: is empty"},
		"an empty plan":         {written("plan.yaml", "\n"), "plan.yaml: is empty"},
		"an empty events.jsonl": {written("events.jsonl", ""), "events.jsonl: is empty"},
		"an empty episode.json": {written(summary1, ""), summary1 + ": is empty"},
		"empty requests":        {written(requests1, ""), requests1 + ": is empty"},
		"empty series":          {written(series1, ""), series1 + ": is empty"},
		"empty zip of requests": {written("episodes/002/requests.jsonl.gz", zipped(t, "")), "episodes/002/requests.jsonl.gz: is empty"},
		"no zip at all":         {written("episodes/002/requests.jsonl.gz", ""), "episodes/002/requests.jsonl.gz: not gzip: EOF"},
		"an empty line":         {replaced(requests1, "\n", "\n\n"), requests1 + ": line 2: not JSON: unexpected end of JSON input"},

		"negative time sent":         {replaced(requests1, `"sent":15`, `"sent":-15`), requests1 + ": line 2: sent: -15 cannot be"},
		"negative time intended":     {replaced(requests1, `"intended":5`, `"intended":-5`), requests1 + ": line 2: intended: -5 cannot be"},
		"ended before it was sent":   {replaced(requests1, `"end":60`, `"end":14`), requests1 + ": line 2: end: 14 is no time for it: sent 15, first 0, last 0, end 14"},
		"a first token after end":    {replaced(requests1, `"first":20`, `"first":51`), requests1 + ": line 1: first: 51 is no time for it: sent 10, first 51, last 40, end 50"},
		"a first token before send":  {replaced(requests1, `"first":20`, `"first":9`), requests1 + ": line 1: first: 9 is no time for it: sent 10, first 9, last 40, end 50"},
		"a last token before first":  {replaced(requests1, `"last":40`, `"last":19`), requests1 + ": line 1: last: 19 is no time for it: sent 10, first 20, last 19, end 50"},
		"a last token and no first":  {replaced(requests1, `"first":20,`, ``), requests1 + ": line 1: last: 40 is no time for it: sent 10, first 0, last 40, end 50"},
		"a time beyond all":          {replaced(requests1, `"end":60`, `"end":4611686018427387905`), requests1 + ": line 2: end: 4611686018427387905 is no time for it: sent 15, first 0, last 0, end 4611686018427387905"},
		"a time beyond an integer":   {replaced(requests1, `"end":60`, `"end":9223372036854775808`), requests1 + ": line 2: end: want a whole number, got 9223372036854775808"},
		"a negative gap":             {replaced(requests1, `"gap":8`, `"gap":-8`), requests1 + ": line 1: gap: -8 cannot be"},
		"a gap's end after the end":  {replaced(requests1, `"gap_end":35`, `"gap_end":51`), requests1 + ": line 1: gap_end: 51 cannot be"},
		"negative tokens":            {replaced(requests1, `"tokens":128`, `"tokens":-1`), requests1 + ": line 1: tokens: -1 cannot be"},
		"negative prompt":            {replaced(requests1, `"prompt":128`, `"prompt":-1`), requests1 + ": line 1: prompt: -1 cannot be"},
		"negative cached tokens":     {replaced(requests1, `"cached":0`, `"cached":-1`), requests1 + ": line 1: cached: -1 cannot be"},
		"a negative place":           {replaced(requests1, `"seq":1`, `"seq":-1`), requests1 + ": line 2: seq: -1 cannot be"},
		"no class":                   {replaced(requests1, `"class":"http-status"`, `"class":""`), requests1 + ": line 2: class: no value"},
		"a status that is none":      {replaced(requests1, `"status":503`, `"status":5030`), requests1 + ": line 2: status: 5030 cannot be"},
		"a sample of negative time":  {replaced(series1, `"t":2000`, `"t":-1`), series1 + ": line 2: t: -1 cannot be"},
		"a scrape of negative time":  {replaced(series1, `"took":7`, `"took":-7`), series1 + ": line 2: took: -7 cannot be"},
		"an event of negative time":  {replaced("events.jsonl", `"t":0.5`, `"t":-0.5`), "events.jsonl: line 2: t: -0.5 is negative"},
		"a start that is no time":    {replaced("run.json", "2026-06-04T", "2026-06-32T"), `run.json: line 1: start: "2026-06-32T12:00:00Z" is no time`},
		"an episode of no time":      {replaced(summary1, "2026-06-04T12:00:00Z", "noon"), summary1 + `: line 4: start: "noon" is no time`},
		"an episode of negative use": {replaced(summary1, `"loaded_s": 50`, `"loaded_s": -50`), summary1 + ": line 6: loaded_s: -50 is negative"},

		"a truncated line of requests":   {cut(requests1, 20), requests1 + ": line 3: the last line is cut off"},
		"a line end that is missing":     {cut(requests1, 1), requests1 + ": line 3: the last line is cut off"},
		"a truncated line of series":     {cut(series1, 20), series1 + ": line 3: the last line is cut off"},
		"a truncated line in the middle": {replaced(requests1, `"end":60,"prompt":0,"tokens":0,"class":"http-status","status":503,"detail":"no \"worker\": at all"}`, ""), requests1 + ": line 2: not JSON: unexpected end of JSON input"},
		"a line broken in two":           {replaced(requests1, `"end":60,`, "\"end\":60,\n"), requests1 + ": line 2: not JSON: unexpected end of JSON input\n" + requests1 + ": line 3: not JSON: invalid character ':' after top-level value"},
		"two requests in a line":         {replaced(requests1, "\n", " "), requests1 + ": line 1: not JSON: invalid character '{' after top-level value"},
		"a truncated zip":                {cut("episodes/002/requests.jsonl.gz", 9), "episodes/002/requests.jsonl.gz: line 4: the file ends badly: unexpected EOF"},
		"a zip whose sum is wrong": {both(cut("episodes/002/series.jsonl.gz", 8), func(all fstest.MapFS) {
			f := all["episodes/002/series.jsonl.gz"]
			f.Data = append(f.Data, make([]byte, 8)...)
		}), "episodes/002/series.jsonl.gz: line 4: the file ends badly: gzip: invalid checksum"},
		"truncated run.json":              {cut("run.json", 1), "run.json: line 1: not JSON: unexpected end of JSON input"},
		"truncated episode.json":          {cut(summary1, 3), summary1 + ": line 15: not JSON: unexpected end of JSON input"},
		"a broken line amid events.jsonl": {replaced("events.jsonl", `"tokens":8}`, `"tokens":8`), "events.jsonl: line 2: not JSON: unexpected end of JSON input"},
		"a last event that is wrong":      {replaced("events.jsonl", `"episode":1}`, `"episode":1`), "events.jsonl: line 3: not JSON: unexpected end of JSON input"},
		"a last event of unknown kind":    {both(replaced("events.jsonl", `"stage","stage":"episode"`, `"stagge"`), cut("events.jsonl", 1)), `events.jsonl: line 3: kind: "stagge" is not known here`},
		"a line of more than a megabyte":  {replaced(requests1, `"detail":"no`, `"detail":"`+strings.Repeat("x", 1<<20)), requests1 + ": line 2: the line is longer than 1 MiB"},

		"no run.json":          {removed("run.json"), "run.json: is missing"},
		"no plan":              {removed("plan.yaml"), "plan.yaml: is missing"},
		"no events":            {removed("events.jsonl"), "events.jsonl: is missing"},
		"no run and no plan":   {both(removed("run.json"), removed("plan.yaml")), "run.json: is missing\nplan.yaml: is missing"},
		"no episode.json":      {removed(summary1), summary1 + ": is missing"},
		"no requests":          {removed(requests1), requests1 + ": is missing"},
		"no series":            {removed(series1), series1 + ": is missing"},
		"requests twice":       {written(requests1+".gz", "x"), requests1 + ": is there, and so is its zipped form"},
		"a folder for a file":  {both(removed(requests1), written(requests1+"/x", "")), requests1 + ": no regular file"},
		"an episode is gone":   {removed("episodes/001"), "episodes/001: is missing"},
		"no look at half load": {removed("episodes/000"), "episodes/000: is missing"},
		"another name":         {written("episodes/copy/x", ""), "episodes/copy: is no episode's name"},
		"a file for a folder":  {written("episodes/003", "x"), "episodes/003: is no folder"},
		"several files":        {both(removed(series1), both(replaced(requests1, `"lane":"closed"`, `"lane":"open"`), replaced(summary1, `"number": 1`, `"number": 1.5`))), summary1 + ": line 3: number: want a whole number, got 1.5\n" + requests1 + `: line 1: lane: "open" is not known here` + "\n" + series1 + ": is missing"},

		"another number than its folder": {replaced(summary1, `"number": 1`, `"number": 2`), summary1 + ": line 3: number: 2 is not the number of its folder, 001"},
		"fewer sent than there are":      {replaced(summary1, `"sent": 2, "served": 1`, `"sent": 1, "served": 1`), summary1 + ": requests.sent: says 1, requests.jsonl has 2"},
		"more served than there are":     {replaced(summary1, `"served": 1, "failed": 1`, `"served": 2, "failed": 1`), summary1 + ": requests.served: says 2, requests.jsonl has 1"},
		"fewer failed than there are":    {replaced(summary1, `"failed": 1`, `"failed": 0`), summary1 + ": requests.failed: says 0, requests.jsonl has 1"},
		"another class":                  {replaced(summary1, `"http-status": 1`, `"timeout": 1`), summary1 + ": requests.classes: says map[ok:1 timeout:1], requests.jsonl has map[http-status:1 ok:1]"},
		"a sentinel too many":            {replaced(summary1, `"sentinel": {"sent": 1`, `"sentinel": {"sent": 2`), summary1 + ": sentinel.sent: says 2, requests.jsonl has 1"},
		"served without a token":         {replaced(requests1, `"tokens":128`, `"tokens":0`), summary1 + ": requests.served: says 1, requests.jsonl has 0\n" + summary1 + ": requests.failed: says 1, requests.jsonl has 2"},
		"a request is gone":              {replaced(requests1, failedLine+"\n", ""), summary1 + ": requests.sent: says 2, requests.jsonl has 1\n" + summary1 + ": requests.failed: says 1, requests.jsonl has 0\n" + summary1 + ": requests.classes: says map[http-status:1 ok:1], requests.jsonl has map[ok:1]"},
		"a sample is gone":               {replaced(series1, workerLine+"\n", ""), summary1 + ": samples: says 2 samples of the worker, 1 of them missing; series.jsonl has 1 and 1"},
		"a negative count":               {replaced(summary1, `"interrupted": 0`, `"interrupted": -1`), summary1 + ": line 7: requests.interrupted: want 0 to 20000000, got -1"},

		"an unknown schema of the run":  {replaced("run.json", "run/v1alpha1", "run/v2"), `run.json: line 1: schema: "aicr.run/run/v2" is not known here`},
		"an unknown schema of the plan": {replaced("plan.yaml", "plan/v1alpha1", "plan/v2"), `plan.yaml: line 1: schema: "aicr.run/plan/v2" is not known here`},
		"an unknown schema of episode":  {replaced(summary1, "episode/v1alpha1", "episode/v2"), summary1 + `: line 2: schema: "aicr.run/episode/v2" is not known here`},
		"an unknown lane":               {replaced(requests1, `"sentinel"`, `"sentinell"`), requests1 + `: line 3: lane: "sentinell" is not known here`},
		"an unknown phase":              {replaced(requests1, `"steady"`, `"warmup"`), requests1 + `: line 2: phase: "warmup" is not known here`},
		"an unknown source":             {replaced(series1, `"source":"client"`, `"source":"clients"`), series1 + `: line 3: source: "clients" is not known here`},
		"an unknown kind of event":      {replaced("events.jsonl", `"answer"`, `"anwser"`), `events.jsonl: line 2: kind: "anwser" is not known here`},
		"an unknown profile":            {replaced("plan.yaml", "profile: standard", "profile: standrad"), `plan.yaml: line 2: profile: "standrad" is not known here`},
		"a sample of another source":    {replaced(series1, `"source":"worker"`, `"source":"node"`), series1 + ": line 1: source: want the sample of a node and nothing else, or a gap"},
		"a gap with a sample":           {replaced(series1, `"worker":{`, `"gap":"x","worker":{`), series1 + ": line 1: source: want the sample of a worker and nothing else, or a gap"},
		"neither a gap nor a sample":    {replaced(series1, `,"gap":"connection refused"`, ``), series1 + ": line 2: source: want the sample of a worker and nothing else, or a gap"},
		"a load that is none":           {replaced(summary1, `"concurrency": 2`, `"concurrency": 0`), summary1 + ": line 5: point.concurrency: want 1 to 1000000, got 0"},
	} {
		t.Run(name, func(t *testing.T) {
			files := recorded(t)
			c.change(files)
			_, _, err := readAll(files)
			if err == nil {
				t.Fatalf("read; want %s", c.want)
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, ok := errors.AsType[*spec.BadFile](err); !ok {
				t.Errorf("%T is no BadFile", err)
			}
		})
	}
}

func TestEveryRequestSaysAllThatEveryRequestHas(t *testing.T) {
	for _, field := range []string{"seq", "lane", "phase", "intended", "sent", "end", "prompt", "tokens", "class"} {
		said := regexp.MustCompile(`"` + field + `":("[^"]*"|[0-9]+),?`).FindString(closedLine)
		files := recorded(t)
		replaced(requests1, said, "")(files)
		_, _, err := readAll(files)
		if want := requests1 + ": line 1: " + field + ": is missing"; err == nil || err.Error() != want {
			t.Errorf("without %s: %v", said, err)
		}
	}
}

func TestWhatAKillLeavesBehindIsRead(t *testing.T) {
	noEpisodes := removed("episodes")
	for name, c := range map[string]struct {
		change   change
		notes    []string
		events   int
		episodes int
	}{
		"the last event is cut off":       {cut("events.jsonl", 20), []string{"events.jsonl: line 3 was cut off and is not counted: the run ended while it was written"}, 2, 3},
		"its line end alone is":           {cut("events.jsonl", 1), nil, 3, 3},
		"nothing had happened":            {both(noEpisodes, written("events.jsonl", "")), []string{"events.jsonl is empty: the run ended before anything happened"}, 0, 0},
		"no event was written":            {both(noEpisodes, removed("events.jsonl")), []string{"events.jsonl is not there: the run ended before anything happened"}, 0, 0},
		"the first event is cut off":      {both(noEpisodes, written("events.jsonl", `{"t":0,`)), []string{"events.jsonl: line 1 was cut off and is not counted: the run ended while it was written"}, 0, 0},
		"half of an episode is elsewhere": {both(written(".episode-123/episode.json", "{"), written("episodes/.episode-4/x", "")), nil, 3, 3},
		"half of a file is elsewhere":     {both(written(".run.json-77", "{"), written("episodes/x.tmp", "{")), nil, 3, 3},
		"the later episodes never came":   {both(removed("episodes/001"), removed("episodes/002")), nil, 3, 1},
		"the folder of episodes is empty": {both(noEpisodes, func(all fstest.MapFS) { all["episodes"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755} }), nil, 3, 0},
		"other things are there":          {both(written("verdict.json", "{}"), written("diagnostics/pods.txt", "x")), nil, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			files := recorded(t)
			c.change(files)
			r, all, err := readAll(files)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.notes, r.Notes); diff != "" || len(r.Events) != c.events || len(all) != c.episodes {
				t.Errorf("%d events, %d episodes, notes (-want +got):\n%s", len(r.Events), len(all), diff)
			}
		})
	}
}

func TestNobodyObservedLeavesAnEmptySeries(t *testing.T) {
	files := recorded(t)
	both(written(series1, ""), replaced(summary1, `[{"source": "client", "expected": 1, "missing": 0}, {"source": "worker", "expected": 2, "missing": 1}]`, "null"))(files)
	if _, _, err := readAll(files); err != nil {
		t.Error(err)
	}
}

func TestAMissingFileHasAHint(t *testing.T) {
	for _, file := range []string{"run.json", "plan.yaml", "events.jsonl", summary1, requests1, series1} {
		files := recorded(t)
		removed(file)(files)
		_, _, err := readAll(files)
		if bad, ok := errors.AsType[*spec.BadFile](err); !ok || bad.File != file || bad.Mistakes[0].Hint == "" {
			t.Errorf("%s: %v has no hint", file, err)
		}
	}
}

func TestAFileOfMistakesIsToldInPart(t *testing.T) {
	files := recorded(t)
	written(requests1, strings.Repeat("{}\n", 1000))(files)
	_, _, err := readAll(files)
	if got := strings.Count(err.Error(), "\n") + 1; got != 21 || !strings.HasSuffix(err.Error(), "the rest is not told") {
		t.Errorf("%d lines:\n%v", got, err)
	}
}

func TestAnEpisodeThatIsNotThereIsNotRead(t *testing.T) {
	r, err := spec.ReadRun(recorded(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range []int{-1, 3, 1000} {
		if e, err := r.Episode(number); err == nil {
			t.Errorf("episode %d: %+v", number, e)
		}
	}
}

// A run's files come from a disk that may have lost or changed anything.
func FuzzRun(f *testing.F) {
	base := recorded(f)
	names := slices.Sorted(maps.Keys(base))
	for i := range names {
		f.Add(uint8(i), uint16(30), uint8(1), []byte("-"))
		f.Add(uint8(i), uint16(3000), uint8(200), []byte{})
		f.Add(uint8(i), uint16(70), uint8(0), []byte("NaN\n"))
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, take uint8, put []byte) {
		files := maps.Clone(base)
		name := names[int(which)%len(names)]
		data := base[name].Data
		from := int(at) % (len(data) + 1)
		to := min(from+int(take), len(data))
		files[name] = &fstest.MapFile{Data: slices.Concat(data[:from], put, data[to:]), Mode: 0o644}
		r, all, err := readAll(files)
		if err != nil {
			bad, ok := errors.AsType[*spec.BadFile](err)
			if !ok || len(bad.Mistakes) == 0 || bad.File == "" {
				t.Fatalf("%v names no file", err)
			}
			return
		}
		for _, e := range all {
			for _, q := range e.Requests {
				if q.End < q.Sent || q.Sent < 0 || q.First > q.End || q.Class == "" {
					t.Fatalf("%+v was let through", q)
				}
			}
			if len(e.Requests) != e.Episode.Requests.Sent+e.Episode.Sentinel.Sent {
				t.Fatalf("%d requests, %+v", len(e.Requests), e.Episode.Requests)
			}
		}
		if _, err := json.Marshal(r.Events); err != nil || r.Plan == nil {
			t.Fatal(err)
		}
	})
}

// BenchmarkEpisode reads an episode of the size of a real one.
func BenchmarkEpisode(b *testing.B) {
	const n = 27_000
	files := recorded(b)
	var lines strings.Builder
	for range n {
		lines.WriteString(closedLine + "\n")
	}
	written("episodes/002/requests.jsonl.gz", zipped(b, lines.String()))(files)
	count := fmt.Sprintf(`"requests": {"sent": %d, "served": %[1]d, "failed": 0, "interrupted": 0, "classes": {"ok": %[1]d}},`, n)
	both(replaced("episodes/002/episode.json", `"requests": {"sent": 2, "served": 1, "failed": 1, "interrupted": 0, "classes": {"ok": 1, "http-status": 1}},`, count),
		replaced("episodes/002/episode.json", `"sentinel": {"sent": 1, "served": 0, "failed": 0, "interrupted": 1, "classes": {"interrupted": 1}}`, `"sentinel": {"sent": 0, "served": 0, "failed": 0, "interrupted": 0, "classes": {}}`))(files)
	r, err := spec.ReadRun(files)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if e, err := r.Episode(2); err != nil || len(e.Requests) != n {
			b.Fatal(err)
		}
	}
}
