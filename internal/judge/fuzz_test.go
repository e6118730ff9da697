package judge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"testing/fstest"

	"aicr/internal/judge"
	"aicr/internal/sim"
	"aicr/internal/sim/scenarios"
	"aicr/internal/spec"
)

// recorded is a run of the small fleet that passes, as it is kept.
func recorded(t testing.TB) fstest.MapFS {
	t.Helper()
	entry, _ := scenarios.Find("small")
	s, err := spec.DecodeScenario(entry.Data)
	if err != nil {
		t.Fatal(err)
	}
	limits, _ := spec.DefaultThresholds(spec.ProfileSmoke)
	files := fstest.MapFS{}
	put := func(name string, data []byte) { files[name] = &fstest.MapFile{Data: data} }
	lines := func(name string, n int, line func(i int) any) {
		var b bytes.Buffer
		for i := range n {
			if err := json.NewEncoder(&b).Encode(line(i)); err != nil {
				t.Fatal(err)
			}
		}
		put(name, b.Bytes())
	}
	whole := func(name string, doc any) {
		data, err := json.MarshalIndent(doc, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		put(name, append(data, '\n'))
	}
	plan := &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileSmoke, Thresholds: limits, Stability: spec.StabilityReport, Seed: 1,
		Constraints: []spec.Constraint{}, Inputs: map[string]spec.Input{}, Reference: &spec.ReferenceFigure{Throughput: 400, From: "a test"}}
	var events []spec.Event
	for number := 1; number <= 2; number++ {
		r, err := sim.Play(t.Context(), s, 1, number, sim.Load{})
		if err != nil {
			t.Fatal(err)
		}
		plan.Point = r.Point
		e := judge.Summarize(&judge.Record{Number: number, Start: "2026-11-15T12:00:00Z", Point: r.Point, Requests: r.Requests, Series: r.Series, Lags: r.Lags, LagBy: "the model"})
		dir := fmt.Sprintf("episodes/%03d/", number)
		whole(dir+"episode.json", e)
		lines(dir+"requests.jsonl", len(r.Requests), func(i int) any { return r.Requests[i] })
		lines(dir+"series.jsonl", len(r.Series), func(i int) any { return r.Series[i] })
		events = append(events, spec.Event{T: float64(number), Kind: spec.EventStage, Stage: "episode", Episode: number})
	}
	events = append(events, spec.Event{T: 100, Kind: spec.EventStage, Stage: "end"})
	lines("events.jsonl", len(events), func(i int) any { return events[i] })
	whole("run.json", spec.Run{Schema: spec.RunSchema, ID: "a", Version: "dev", Command: "aicr validate", Target: spec.Target{Scenario: "small", Simulated: true},
		Start: "2026-11-15T12:00:00Z", End: "2026-11-15T12:02:00Z"})
	text, err := spec.EncodePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	put("plan.yaml", text)
	return files
}

// judged reads a run and judges it.
func judged(files fstest.MapFS) (*spec.Verdict, error) {
	run, err := spec.ReadRun(files)
	if err != nil {
		return nil, err
	}
	c := judge.NewCase(run.Plan)
	c.Hear(run.Events...)
	for _, number := range run.Numbers() {
		e, err := run.Episode(number)
		if err != nil {
			return nil, err
		}
		c.Add(e)
	}
	v, _ := c.Verdict()
	return v, nil
}

var (
	numbers = regexp.MustCompile(`: ?-?[0-9][0-9.]*`)
	times   = regexp.MustCompile(`"(?:t|sent|end|first|last|intended)": ?[0-9]+`)
)

// damage breaks a file in a way that must not go unnoticed; nil: it cannot be broken
// so. Events are left out: what a kill cuts off there is a part of the contract.
func damage(data []byte, how uint8, at uint32) []byte {
	at = at % uint32(len(data))
	pick := func(of *regexp.Regexp) []int {
		all := of.FindAllIndex(data, -1)
		if len(all) == 0 {
			return nil
		}
		return all[int(at)%len(all)]
	}
	put := func(where []int, text string) []byte {
		if where == nil {
			return nil
		}
		return slices.Concat(data[:where[0]], []byte(text), data[where[1]:])
	}
	switch how % 5 {
	case 0: // cut off
		if len(bytes.TrimSpace(data[at:])) == 0 {
			return nil
		}
		return data[:at]
	case 1:
		return []byte{}
	case 2:
		return put(pick(numbers), ": NaN")
	case 3:
		if where := pick(times); where != nil {
			colon := bytes.IndexByte(data[where[0]:where[1]], ':')
			return put(where, string(data[where[0]:where[0]+colon])+": -5000000000")
		}
		return nil
	}
	return put(pick(numbers), `: {"a": [}`)
}

// A run that is damaged is an error that names the file, or it is no PASS. Nothing
// makes the reader or the judge panic.
func FuzzDamagedRun(f *testing.F) {
	whole := recorded(f)
	if v, err := judged(whole); err != nil || v.Verdict != spec.Pass {
		f.Fatalf("the run is to pass: %v %+v", err, v)
	}
	names := slices.Sorted(maps.Keys(whole))
	names = slices.DeleteFunc(names, func(n string) bool { return n == "events.jsonl" })
	for i := range names {
		for how := range uint8(5) {
			f.Add(uint8(i), how, uint32(997*(int(how)+1)))
		}
	}
	f.Fuzz(func(t *testing.T, file, how uint8, at uint32) {
		name := names[int(file)%len(names)]
		files := maps.Clone(whole)
		broken := damage(whole[name].Data, how, at)
		if broken == nil {
			return
		}
		files[name] = &fstest.MapFile{Data: broken}
		v, err := judged(files)
		if err == nil && v.Verdict == spec.Pass {
			t.Errorf("%s, damaged by %d at %d, passes", name, how%5, at)
		}
		if err != nil && !bytes.Contains([]byte(err.Error()), []byte("episodes/")) && !bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("%s: the error does not name it: %v", name, err)
		}
	})
}
