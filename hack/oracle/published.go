package main

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"aicr/internal/judge"
	"aicr/internal/spec"
)

//go:embed testdata/published_runs.csv
var publishedFile []byte

// publishedRun is what is known of one.
type publishedRun struct {
	name, cluster, router, result, was string
	gpus, concurrency                  int // 0: not told
	throughput, ttft, inFlight         float64
}

func publishedRuns() ([]publishedRun, error) {
	r := csv.NewReader(bytes.NewReader(publishedFile))
	r.Comment = '#'
	lines, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading the published runs: %w", err)
	}
	var all []publishedRun
	for _, l := range lines[1:] {
		var wrong error
		number := func(i int) float64 {
			if l[i] == "" {
				return math.NaN()
			}
			v, err := strconv.ParseFloat(l[i], 64)
			if err != nil {
				wrong = err
			}
			return v
		}
		count := func(i int) int {
			if l[i] == "" {
				return 0
			}
			return int(number(i))
		}
		run := publishedRun{name: l[0], cluster: l[1], gpus: count(2), router: l[3], concurrency: count(4), throughput: number(5), ttft: number(6), inFlight: number(7), result: l[8], was: l[9]}
		if wrong != nil {
			return nil, fmt.Errorf("the published run %s: %w", l[0], wrong)
		}
		all = append(all, run)
	}
	return all, nil
}

// The recipe of those runs: 50,000 tokens/s of eight GPUs, and 2000 ms.
const (
	floorPerGPU = 50000.0 / 8
	ceilingMS   = 2000.0
	tolerance   = 0.1
)

// plan is how such a run would be judged. There is no reference at that load.
func (r *publishedRun) plan() *spec.Plan {
	th, _ := spec.DefaultThresholds(spec.ProfileStandard)
	p := &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileStandard, Thresholds: th, Stability: spec.StabilityGate, Seed: 1,
		Point: spec.OperatingPoint{Workers: r.gpus, Concurrency: r.concurrency, InputTokens: 128, OutputTokens: 128, Router: r.router,
			Requests: 8 * r.concurrency, Wave: true},
		Constraints: []spec.Constraint{{Name: spec.ConstraintTTFT, Comparator: "<=", Threshold: ceilingMS, Unit: "ms", Tolerance: tolerance}}}
	if r.gpus > 0 { // of the others neither the model nor the GPUs are those of the floor
		p.Constraints = append(p.Constraints, spec.Constraint{Name: spec.ConstraintThroughput, Comparator: ">=", Threshold: floorPerGPU * float64(r.gpus), Unit: "tokens/s", Tolerance: tolerance})
	}
	return p
}

// neverS stands for never: how long the published checks waited is not told.
const neverS = 600.0

// events are what was published of the runs that did not come to a load.
func (r *publishedRun) events() []spec.Event {
	zero, first := 0, 42.0
	switch r.name {
	case "rtx-090-panic":
		return []spec.Event{{Kind: spec.EventVersions, Runtime: "0.9.0", Chart: "1.0.2"},
			{Kind: spec.EventLog, Source: "frontend", Text: "Unfold must not be polled", Count: 24},
			{Kind: spec.EventLog, Source: "frontend", Text: "bucket missing", Count: 97},
			{T: neverS, Kind: spec.EventNotServed, Text: "the frontend was ready and never served"}}
	case "t7":
		return []spec.Event{{Kind: spec.EventPod, Reason: "FailedPrepareDynamicResources", Text: "empty device edits"},
			{T: neverS, Kind: spec.EventNotServed, Text: "pods stayed in ContainerCreating"}}
	case "rtx-serve-timeout":
		return []spec.Event{{Kind: spec.EventAnswer, Seconds: &first}}
	case "937-zero-tokens":
		return []spec.Event{{Kind: spec.EventAnswer, Tokens: &zero, Reason: "no-tokens", Text: "all requests completed without a token"},
			{Kind: spec.EventNotServed, Text: "no answer had a token"}}
	}
	return nil
}

// judged is what the judge says of it by what was published.
func (r *publishedRun) judged() *spec.Verdict {
	c := judge.NewCase(r.plan())
	if events := r.events(); events != nil {
		c.Hear(events...)
	} else {
		c.AddFigures(judge.Figures{Throughput: r.throughput, TTFT99: r.ttft, InFlight: r.inFlight})
	}
	c.Hear(spec.Event{Kind: spec.EventStage, Stage: "end"}) // nobody went on
	v, _ := c.Verdict()
	return v
}

// gate is what one of the old gates says of it: of what was not told, nothing.
func (r *publishedRun) gate(floor, ceiling float64) string {
	switch {
	case r.gpus == 0:
		return "–" // another model, with thresholds of its own
	case r.throughput < floor || r.ttft > ceiling || r.result == "FAIL" && math.IsNaN(r.throughput) && math.IsNaN(r.ttft) && r.events() != nil:
		return "FAIL"
	case r.throughput >= floor && r.ttft <= ceiling:
		return "PASS"
	}
	return "?"
}

func published(w io.Writer) error {
	all, err := publishedRuns()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "| run | of | tokens/s | TTFT p99 ms | published | was | (a) | (a) + 10 %% | (b) | this judge | because |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	count, why := map[spec.State]int{}, []string{}
	for i := range all {
		r := &all[i]
		v := r.judged()
		count[v.Verdict]++
		k := slices.Index(why, v.Reason)
		if k < 0 {
			k = len(why)
			why = append(why, v.Reason)
		}
		because := []string{strconv.Itoa(k + 1)}
		for _, f := range v.Findings {
			if f.ID != "telemetry/gap" { // every one of them has that
				because = append(because, f.ID)
			}
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.name, r.cluster, figure(r.throughput), figure(r.ttft), r.result, r.was,
			r.gate(50000, 1000), r.gate(45000, 1100), r.gate(45000, 2200), v.Verdict, strings.Join(because, ", "))
	}
	fmt.Fprintf(w, "\n%d runs: %d PASS, %d FAIL, %d INVALID, %d INCONCLUSIVE. Because:\n\n", len(all), count[spec.Pass], count[spec.Fail], count[spec.Invalid], count[spec.Inconclusive])
	for k, reason := range why {
		fmt.Fprintf(w, "%d. %s\n", k+1, reason)
	}
	return nil
}

func figure(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
}
