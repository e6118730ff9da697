package judge_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/judge"
	"aicr/internal/sim"
	"aicr/internal/spec"
)

var firstRun = time.Date(2026, 10, 3, 8, 0, 0, 0, time.UTC)

// past is a run of a history, so many days after the first.
func past(day float64, change ...func(*spec.HistoryEntry)) spec.HistoryEntry {
	d := spec.Deployment{Target: "gpu.example:8000", Model: "qwen", Workers: 8}
	e := spec.HistoryEntry{Schema: spec.HistorySchema, Run: fmt.Sprintf("run-%g", day),
		Start: firstRun.Add(time.Duration(day * 24 * float64(time.Hour))).Format(time.RFC3339Nano), Digest: d.Digest(), Deployment: d,
		Profile: spec.ProfileStandard, Verdict: spec.Pass, Capability: spec.Pass, LoadedMin: 4,
		Point: spec.OperatingPoint{Workers: 8, Concurrency: 1024, DurationS: 50}}
	for _, c := range change {
		c(&e)
	}
	return e
}

func stalls(all ...spec.HistoryStall) func(*spec.HistoryEntry) {
	return func(e *spec.HistoryEntry) { e.Stalls = all }
}

func verdict(s spec.State) func(*spec.HistoryEntry) {
	return func(e *spec.HistoryEntry) { e.Verdict = s }
}

func runtime(version string) func(*spec.HistoryEntry) {
	return func(e *spec.HistoryEntry) { e.Deployment.Runtime = version }
}

func figure(name string, v float64) func(*spec.HistoryEntry) {
	return func(e *spec.HistoryEntry) { e.Figures = append(e.Figures, spec.Figure{Name: name, Value: &v}) }
}

func throughput(v float64) func(*spec.HistoryEntry) { return figure("throughput", v) }

func TestPriorStalls(t *testing.T) {
	on := func(gpu, worker string, count int) spec.HistoryStall {
		return spec.HistoryStall{GPU: gpu, Worker: worker, Count: count}
	}
	here := past(0).Deployment
	upgraded, known := here, here
	upgraded.Runtime = "1.4.1"
	known.GPUs = []string{"GPU-2"}
	elsewhere := past(0, stalls(on("GPU-1", "", 1)))
	elsewhere.Deployment.Target = "gpu2.example:8000"
	elsewhere.Digest = elsewhere.Deployment.Digest()
	for _, test := range []struct {
		rule    string
		entries []spec.HistoryEntry
		of      spec.Deployment
		day     float64
		want    string
	}{
		{"a stall counts in full at once", []spec.HistoryEntry{past(0, stalls(on("GPU-1", "5", 2)))}, here, 0, "GPU-1/5 2.000 10-03"},
		{"half after a week", []spec.HistoryEntry{past(0, stalls(on("GPU-1", "5", 2)))}, here, 7, "GPU-1/5 1.000 10-03"},
		{"less by the day", []spec.HistoryEntry{past(0, stalls(on("GPU-1", "5", 1)))}, here, 3.5, "GPU-1/5 0.707 10-03"},
		{"and is forgotten below a twentieth", []spec.HistoryEntry{past(0, stalls(on("GPU-1", "5", 1)))}, here, 31, ""},
		{"not before", []spec.HistoryEntry{past(0, stalls(on("GPU-1", "5", 1)))}, here, 30, "GPU-1/5 0.051 10-03"},
		{"those of one GPU add up, whatever its worker was called", []spec.HistoryEntry{past(0, stalls(on("GPU-1", "5", 1))), past(7, stalls(on("GPU-1", "6", 1)))}, here, 7, "GPU-1/6 1.500 10-10"},
		{"whichever run is first in the file", []spec.HistoryEntry{past(7, stalls(on("GPU-1", "6", 1))), past(0, stalls(on("GPU-1", "5", 1)))}, here, 7, "GPU-1/6 1.500 10-10"},
		{"without a GPU a worker is known by its name", []spec.HistoryEntry{past(0, stalls(on("", "5", 1), on("", "6", 1), on("", "", 1))), past(1, stalls(on("", "5", 1)))}, here, 1, "/ 0.906 10-03, /5 1.906 10-04, /6 0.906 10-03"},
		{"another deployment's are not ours", []spec.HistoryEntry{elsewhere}, here, 0, ""},
		{"nor those that a failed instrument saw", []spec.HistoryEntry{past(0, stalls(on("GPU-1", "5", 1)), verdict(spec.Invalid)), past(0, stalls(on("GPU-1", "5", 1)), verdict(spec.Skip))}, here, 0, ""},
		{"nor those of another runtime", []spec.HistoryEntry{past(0, stalls(on("GPU-1", "5", 1)), runtime("1.4.0"))}, upgraded, 0, ""},
		{"a runtime that is not known may be the same", []spec.HistoryEntry{past(0, stalls(on("GPU-1", "5", 1)))}, upgraded, 0, "GPU-1/5 1.000 10-03"},
		{"whoever does not know it", []spec.HistoryEntry{past(0, stalls(on("GPU-1", "5", 1)), runtime("1.4.0"))}, here, 0, "GPU-1/5 1.000 10-03"},
		{"a GPU that is gone is gone", []spec.HistoryEntry{past(0, stalls(on("GPU-1", "5", 1), on("GPU-2", "6", 1), on("", "7", 1)))}, known, 0, "/7 1.000 10-03, GPU-2/6 1.000 10-03"},
		{"a clock that was ahead adds nothing", []spec.HistoryEntry{past(9, stalls(on("GPU-1", "5", 1)))}, here, 0, "GPU-1/5 1.000 10-12"},
	} {
		var got []string
		for _, p := range judge.PriorStalls(test.entries, test.of, firstRun.Add(time.Duration(test.day*24*float64(time.Hour)))) {
			got = append(got, fmt.Sprintf("%s/%s %.3f %s", p.GPU, p.Worker, p.Count, p.Last[5:10]))
		}
		if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.rule, diff)
		}
	}
}

func TestPriorMinutesFadeAsStallsDo(t *testing.T) {
	entries := []spec.HistoryEntry{past(0), past(7), past(7, verdict(spec.Invalid)), past(7, runtime("1.0.0"))}
	d := entries[0].Deployment
	d.Runtime = "2.0.0"
	if got := judge.PriorMinutes(entries, d, firstRun.Add(14*24*time.Hour)); got != 3 { // 4/4 + 4/2
		t.Errorf("%v minutes", got)
	}
}

func TestAHistoryKeepsWhatARunCameTo(t *testing.T) {
	value, low, none := 101e3, 100e3, math.NaN()
	d := past(0).Deployment
	plan := &spec.Plan{Profile: spec.ProfileQuick, Point: spec.OperatingPoint{Workers: 8, Concurrency: 1024}, Reference: &spec.ReferenceFigure{Throughput: 1e5}}
	v := &spec.Verdict{Verdict: spec.Fail, Episodes: 3, LoadedS: 150,
		Ledgers:      []spec.Ledger{{Name: spec.Integrity, State: spec.Pass}, {Name: spec.Capability, State: spec.Inconclusive}, {Name: spec.Stability, State: spec.Fail}},
		Expectations: []spec.Expected{{Name: spec.ConstraintThroughput, Value: &value, Low: &low, High: &none, N: 30, Unit: "tokens/s", State: spec.Pass}},
		Figures:      []spec.Figure{{Name: spec.ConstraintThroughput, N: 1}, {Name: "goodput", Value: &none, N: 9, Unit: "%", By: "Wilson"}},
		Stalls: []spec.Stall{{Episode: 1, Worker: "5", GPU: "GPU-5"}, {Episode: 2, Worker: "4"}, {Episode: 2}, {Episode: 3, Worker: "5", GPU: "GPU-5"},
			{Episode: 3, Worker: "3"}}}
	got := judge.NewHistoryEntry(spec.Run{ID: "r", Start: "2026-10-03T08:00:00Z"}, d, plan, v)
	reference := 1e5
	want := spec.HistoryEntry{Schema: spec.HistorySchema, Run: "r", Start: "2026-10-03T08:00:00Z", Digest: d.Digest(), Deployment: d,
		Profile: spec.ProfileQuick, Verdict: spec.Fail, Capability: spec.Inconclusive, Point: plan.Point, Reference: &reference, Episodes: 3, LoadedMin: 2.5,
		Figures: []spec.Figure{{Name: spec.ConstraintThroughput, Value: &value, Low: &low, N: 30, Unit: "tokens/s"}, {Name: "goodput", N: 9, Unit: "%", By: "Wilson"}},
		Stalls:  []spec.HistoryStall{{Count: 1}, {Worker: "3", Count: 1}, {Worker: "4", Count: 1}, {GPU: "GPU-5", Worker: "5", Count: 2}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := got.Line(); err != nil {
		t.Error(err)
	}
	empty := judge.NewHistoryEntry(spec.Run{ID: "r", Start: "2026-10-03T08:00:00Z"}, d, &spec.Plan{Profile: spec.ProfileQuick}, &spec.Verdict{Verdict: spec.Skip})
	if _, err := empty.Line(); err != nil || empty.Capability != spec.NotJudged {
		t.Errorf("a run of nothing: %v, %+v", err, empty)
	}
}

// Names are what holds a verdict and its history together.
func TestWhatIsComparedIsWhatAVerdictTells(t *testing.T) {
	s, _ := spec.NewScenario("small", "small")
	s.Fleet.Workers, s.Load.ConcurrencyPerGPU, s.Load.Episode = 2, 16, spec.Duration(20*time.Second)
	r, err := sim.Play(t.Context(), s, 1, 1, sim.Load{})
	if err != nil {
		t.Fatal(err)
	}
	limits, _ := spec.DefaultThresholds(spec.ProfileSmoke)
	plan := &spec.Plan{Profile: spec.ProfileSmoke, Point: r.Point, Thresholds: limits, Stability: spec.StabilityGate}
	events, _ := sim.Start(s, 1)
	episode := &spec.EpisodeRecord{Episode: *judge.Summarize(&judge.Record{Number: 1, Start: firstRun.Format(time.RFC3339Nano), Point: r.Point,
		Requests: r.Requests, Series: r.Series, Lags: r.Lags, LagBy: "the model"}), Requests: r.Requests, Series: r.Series}
	d := spec.NewDeployment(spec.Target{Scenario: "small"}, 2)
	judge.LearnDeployment(&d, events, r.Series)
	if d.Runtime == "" || len(d.GPUs) != 2 {
		t.Errorf("learned %+v", d)
	}
	v := judge.Judge(plan, events, episode)
	var entries []spec.HistoryEntry
	for i := range 13 {
		run := spec.Run{ID: fmt.Sprint("run-", i), Start: firstRun.Add(time.Duration(i) * time.Hour).Format(time.RFC3339Nano)}
		e := judge.NewHistoryEntry(run, d, plan, v)
		e.Verdict = spec.Pass // of one episode alone it is not
		if _, err := e.Line(); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	got := judge.Trend(entries, entries[0])
	if diff := cmp.Diff([]string{"no change of throughput or TTFT p99 found over 13 runs"}, got.Lines); diff != "" {
		t.Errorf("(-want +got):\n%s\nfigures: %+v", diff, entries[0].Figures)
	}
}

func TestADeploymentIsLearnedFromTheRun(t *testing.T) {
	d := past(0).Deployment
	gpu := func(name string) spec.Sample {
		return spec.Sample{Source: spec.SourceGPU, Name: name, GPU: &spec.GPUSample{}}
	}
	judge.LearnDeployment(&d, []spec.Event{{Kind: spec.EventVersions, Runtime: "1.4.1"}, {Kind: spec.EventVersions, Chart: "1.4.0"}, {Kind: spec.EventLog, Runtime: "9"}}, nil)
	judge.LearnDeployment(&d, nil, []spec.Sample{gpu("GPU-2"), gpu("GPU-1"), gpu("GPU-2"), gpu("gpu 0"), {Source: spec.SourceGPU, Name: "GPU-3", Gap: "no answer in 1s"}, {Source: spec.SourceWorker, Name: "GPU-4"}})
	if d.Runtime != "1.4.1" || !slices.Equal(d.GPUs, []string{"GPU-1", "GPU-2"}) {
		t.Errorf("%+v", d)
	}
	// On a cluster it is told who was given which, whatever an exporter says.
	judge.LearnDeployment(&d, []spec.Event{{Kind: spec.EventPlaced, Worker: "decode-0", Source: "node", GPU: "GPU-0"}, {Kind: spec.EventPlaced, Worker: "decode-1", Source: "node"}, {Kind: spec.EventLog, GPU: "GPU-9"}}, nil)
	if !slices.Equal(d.GPUs, []string{"GPU-0", "GPU-1", "GPU-2"}) {
		t.Errorf("%q", d.GPUs)
	}
}

// series is a history with one run a day of these throughputs.
func series(values []float64, change ...func(*spec.HistoryEntry)) []spec.HistoryEntry {
	var all []spec.HistoryEntry
	for i, v := range values {
		all = append(all, past(float64(i), append(change, throughput(v))...))
	}
	return all
}

// around gives n values with a small spread that no chance is needed for.
func around(n int, mean func(i int) float64) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = mean(i) * (1 + 0.01*math.Sin(float64(7*i*i+3*i)))
	}
	return all
}

func TestWhatAHistoryShows(t *testing.T) {
	level := func(int) float64 { return 100e3 }
	step := func(i int) float64 {
		if i >= 20 {
			return 95e3
		}
		return 100e3
	}
	stepped := series(around(30, step))
	shuffled := slices.Clone(stepped)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	upgraded := func(at int) []spec.HistoryEntry {
		all := slices.Clone(stepped)
		for i := range all {
			all[i].Deployment.Runtime, all[i].Deployment.GPUs = "1.4.0", []string{"GPU-1"}
			if i >= at {
				all[i].Deployment.Runtime, all[i].Deployment.GPUs = "1.4.1", []string{"GPU-2"}
			}
		}
		return all
	}
	failed := slices.Clone(stepped)
	failed[25].Capability = spec.Fail
	half := func(e *spec.HistoryEntry) { e.Point.Concurrency = 512 }
	elsewhere := func(e *spec.HistoryEntry) { e.Deployment.Model = "llama"; e.Digest = e.Deployment.Digest() }
	const fell = "throughput fell 4.9 % between run run-19 (2026-10-22) and run run-20 (2026-10-23), by the means of the 20 runs before and the 10 since (p = 0.001)"
	const within = "; each of these runs was within tolerance"
	const noTTFT = "TTFT p99 was measured in 0 of 30 runs: too few to compare"
	for _, test := range []struct {
		rule    string
		entries []spec.HistoryEntry
		run     spec.HistoryEntry
		want    []string
	}{
		{"nothing is said of too few", series(around(9, level)), past(0), []string{"9 runs of this deployment at this operating point; 4 more before a slide can be told"}},
		{"of one either", series(around(1, level)), past(0), []string{"1 run of this deployment at this operating point; 12 more before a slide can be told"}},
		{"no change is said to be none found", series(around(30, level)), past(0), []string{noTTFT, "no change of throughput found over 30 runs"}},
		{"a step has its place and its size", stepped, past(0), []string{fell + within, noTTFT}},
		{"in whichever order the runs ended", shuffled, past(0), []string{fell + within, noTTFT}},
		{"what changed long before has nothing to do with it", upgraded(17), past(0), []string{fell + within, noTTFT}},
		{"nor what changed long after", upgraded(23), past(0), []string{fell + within, noTTFT}},
		{"what else changed there is told, a run off too", upgraded(21), past(0), []string{fell + "; the runtime went from 1.4.0 to 1.4.1 about then; the GPUs are not the same since about then" + within, noTTFT}},
		{"a run that failed was not within tolerance", failed, past(0), []string{fell, noTTFT}},
		{"other operating points are other histories", series(around(30, step), half), past(0), []string{"0 runs of this deployment at this operating point; 13 more before a slide can be told"}},
		{"other deployments too", series(around(30, step), elsewhere), past(0), []string{"0 runs of this deployment at this operating point; 13 more before a slide can be told"}},
		{"a small step is no slide", series(around(30, func(i int) float64 { return 100e3 - 2e3*float64(i/15) })), past(0),
			[]string{"throughput fell 2.1 % between run run-14 (2026-10-17) and run run-15 (2026-10-18), by the means of the 15 runs before and the 15 since (p = 0.001)" + within, noTTFT}},
		{"runs that measured nothing do not count", series(around(30, step), verdict(spec.Invalid)), past(0), []string{"0 runs of this deployment at this operating point; 13 more before a slide can be told"}},
		{"a run that measured nothing says so", stepped, past(0, verdict(spec.Invalid)), []string{"this run is INVALID: it is kept and not compared", fell + within, noTTFT}},
		{"a slide has its ends", series(around(30, func(i int) float64 { return 100e3 * (1 - 0.0008*float64(i)) })), past(0),
			[]string{"throughput fell 2.2 % between run run-0 (2026-10-03) and run run-29 (2026-11-01), little by little over 30 runs (p < 0.001)" + within, noTTFT}},
		{"what is better is not worse", series(around(30, func(i int) float64 { return 100e3 * 100e3 / step(i) })), past(0),
			[]string{strings.Replace(strings.Replace(fell, "fell", "rose", 1), "4.9", "5.3", 1), noTTFT}},
		{"nor is what no run measured", series(make([]float64, 30)), past(0), []string{"throughput was measured in 0 of 30 runs: too few to compare", noTTFT}},
	} {
		got := judge.Trend(test.entries, test.run)
		if diff := cmp.Diff(test.want, got.Lines); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.rule, diff)
		}
		if again := judge.Trend(test.entries, test.run); !cmp.Equal(got, again) {
			t.Errorf("%s: not the same twice", test.rule)
		}
	}
	got := judge.Trend(stepped, past(0))
	want := []spec.TrendChange{{Figure: "throughput", Kind: spec.TrendStep, From: "run-19", To: "run-20", Before: 20, Since: 10, P: 0.001, Worse: true}}
	if len(got.Changes) == 1 {
		want[0].Ratio = got.Changes[0].Ratio
	}
	if diff := cmp.Diff(want, got.Changes); diff != "" || math.Abs(want[0].Ratio-0.95) > 0.005 {
		t.Errorf("ratio %v (-want +got):\n%s", want[0].Ratio, diff)
	}
}

func TestASlowerFirstTokenIsWorse(t *testing.T) {
	var entries []spec.HistoryEntry
	for i, v := range around(30, func(i int) float64 { return 100 + 100*float64(i/15) }) {
		entries = append(entries, past(float64(i), throughput(100e3), figure("ttft-p99", v)))
	}
	got := judge.Trend(entries, past(0))
	if len(got.Changes) != 1 || got.Changes[0].Figure != "TTFT p99" || !got.Changes[0].Worse || math.Abs(got.Changes[0].Ratio-2) > 0.02 {
		t.Errorf("%+v", got)
	}
}

// What is old is not looked at for ever.
func TestOnlyTheLatestRunsAreCompared(t *testing.T) {
	entries := series(around(130, func(i int) float64 { return 100e3 + 50e3*float64(min(1, i/30)) }))
	if got := judge.Trend(entries, past(0)); got.Runs != 100 || len(got.Changes) != 0 {
		t.Errorf("%+v", got)
	}
}

// The figures of docs/history.md are of 200 histories; these are the first of
// them, since the race detector makes each take a quarter of a second. Noise is 1.5 % of throughput and, as published,
// a ln-sd of 0.27 of TTFT p99.
func TestASlideOfFourPercentIsSeenAndNoiseIsNot(t *testing.T) {
	const histories, runs = 40, 40
	noisy := func(seed uint64, slide float64) []spec.HistoryEntry {
		r := rand.New(rand.NewPCG(seed, 6))
		var all []spec.HistoryEntry
		for i := range runs {
			all = append(all, past(float64(i), throughput(100e3*math.Exp(0.015*r.NormFloat64()-slide*float64(i)/(runs-1))),
				figure("ttft-p99", 300*math.Exp(0.27*r.NormFloat64()))))
		}
		return all
	}
	alarms, seen := 0, 0
	for seed := range uint64(histories) {
		if len(judge.Trend(noisy(seed, 0), past(0)).Changes) > 0 {
			alarms++
		}
		if slices.ContainsFunc(judge.Trend(noisy(seed, 0.04), past(0)).Changes, func(c spec.TrendChange) bool { return c.Figure == "throughput" && c.Worse }) {
			seen++
		}
	}
	t.Logf("of %d histories of %d runs: a slide of 4 %% seen in %d, an alarm without one in %d", histories, runs, seen, alarms)
	if alarms > 2 || seen < 36 {
		t.Errorf("seen %d, false alarms %d", seen, alarms)
	}
}
