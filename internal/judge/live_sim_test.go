package judge

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"aicr/internal/sim"
	"aicr/internal/sim/scenarios"
	"aicr/internal/spec"
)

// moment is what a watcher is told at one time.
type moment struct {
	s       float64 // seconds
	picture Picture
}

// watched feeds a series to a Live in the order of its times and looks every second,
// a little after the second's samples.
func watched(series []spec.Sample) []moment {
	slices.SortStableFunc(series, func(a, b spec.Sample) int { return int(a.T - b.T) })
	l := NewLive(time.Second)
	var told []moment
	const later = second / 5
	next := second
	look := func() {
		told = append(told, moment{seconds(next), l.Picture(next + later)})
		next += second
	}
	for _, s := range series {
		for s.T > next+later {
			look()
		}
		l.Add(s)
	}
	look()
	return told
}

// said lists the symptoms of a finding, each as "second severity words".
func said(all []moment, finding string) []string {
	var lines []string
	for _, m := range all {
		for _, s := range m.picture.Symptoms {
			if finding == "" || s.Finding == finding {
				lines = append(lines, fmt.Sprintf("%.0f s %s %s %v: %s", m.s, s.Severity, s.Finding, s.Workers, s.Words))
			}
		}
	}
	return lines
}

// playedOut plays a scenario of the library.
func playedOut(t testing.TB, name string, seed uint64, change ...func(*spec.Scenario)) []spec.Sample {
	t.Helper()
	e, ok := scenarios.Find(name)
	if !ok {
		t.Fatalf("no scenario %s", name)
	}
	s, err := spec.DecodeScenario(e.Data)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(s)
	}
	r, err := sim.Play(t.Context(), s, seed, 1, sim.Load{Grace: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return r.Series
}

// readSeries reads a recorded run's series.jsonl.gz.
func readSeries(t testing.TB, file string) []spec.Sample {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	var all []spec.Sample
	for d := json.NewDecoder(z); ; {
		var s spec.Sample
		if err := d.Decode(&s); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
}

// misplaced gives each source a phase of its own, as sources that are asked one
// after the other have.
func misplaced(series []spec.Sample) []spec.Sample {
	series = slices.Clone(series)
	phases := map[string]int64{}
	for i := range series {
		name := series[i].Source + series[i].Name
		phase, ok := phases[name]
		if !ok {
			phase = int64(len(phases)) * 37 % 100 * second / 100
			phases[name] = phase
		}
		series[i].T += phase
	}
	return series
}

func symptomsTold(all []moment) map[string]int {
	n := map[string]int{}
	for _, m := range all {
		for _, s := range m.picture.Symptoms {
			n[s.Severity+" "+s.Finding]++
		}
	}
	return n
}

// What is well has no symptom in any second, and what is only busy has none that
// asks anyone to act.
func TestHealthyFleetsHaveNoSymptom(t *testing.T) {
	for name, seeds := range map[string]uint64{"s1": 20, "s2": 20, "small": 20, "s3": 4, "s8": 2, "s16": 2, "i6": 3, "slow-fleet": 2, "power-cap": 2, "late-client": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				series := playedOut(t, name, seed+1)
				for how, series := range map[string][]spec.Sample{"in step": series, "misplaced": misplaced(series)} {
					all := watched(series)
					if got := said(all, ""); len(got) > 0 {
						t.Errorf("seed %d, %s: %d symptoms in %d looks:\n%s", seed+1, how, len(got), len(all), strings.Join(got, "\n"))
					}
					if len(all) < 20 || len(all[10].picture.Workers) == 0 {
						t.Fatalf("nothing was looked at: %d looks", len(all))
					}
				}
			}
		})
	}
}

// scattered is an open loop at a fleet that is well: requests come by chance to
// workers by chance, live about 6 s, and make 40 tokens a second each.
func scattered(r *rand.Rand, workers, length int, each float64, counts bool) []spec.Sample {
	const life = 6.0
	type request struct{ from, first, end float64 }
	of := make([][]request, workers)
	for t := 0.0; t < float64(length); t += r.ExpFloat64() * life / (each * float64(workers)) {
		first := t + 0.3*math.Exp(0.8*r.NormFloat64())
		w := r.IntN(workers)
		of[w] = append(of[w], request{t, first, first + life*math.Exp(0.7*r.NormFloat64()-0.245)})
	}
	var all []spec.Sample
	for s := 1; s <= length; s++ {
		sent := 0.0
		for w := range workers {
			now := float64(s) + float64(w)*0.11
			running, tokens := 0.0, 0.0
			for _, q := range of[w] {
				tokens += 40 * max(0, min(now, q.end)-q.first)
				if q.from < now && now < q.end {
					running++
				}
			}
			sent += running
			one := &spec.WorkerSample{Running: &running, Waiting: new(0.0), KVUsage: new(0.2), Generated: new(math.Floor(tokens))}
			if counts {
				one.InFlight = &running
			}
			all = append(all, spec.Sample{T: int64(now * 1e9), Source: spec.SourceWorker, Name: fmt.Sprint(w), Worker: one})
		}
		all = append(all, spec.Sample{T: int64(s) * second, Source: spec.SourceFrontend, Name: "frontend", Frontend: &spec.FrontendSample{InFlight: &sent}})
	}
	return all
}

// With little to do, who has nothing and who has one request changes by chance: no
// one need act.
func TestALightLoadIsNoFault(t *testing.T) {
	for _, each := range []float64{0.3, 1, 3, 10} {
		for _, counts := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v requests each, in_flight %v", each, counts), func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(2) {
					all := watched(scattered(rand.New(rand.NewPCG(seed, 5)), 8, 300, each, counts))
					for _, m := range all {
						for _, s := range m.picture.Symptoms {
							if s.Severity == Fail {
								t.Errorf("seed %d, second %.0f: %s: %s", seed, m.s, s.Finding, s.Words)
							}
						}
					}
				}
			})
		}
	}
}

// fixed puts a fault that comes by chance at a time that is known.
func fixed(at, lasts time.Duration, workers ...int) func(*spec.Scenario) {
	return func(s *spec.Scenario) {
		f := &s.Faults[0]
		f.PerMinute, f.Spread = nil, nil
		f.At, f.Lasts = new(spec.Duration(at)), new(spec.Duration(lasts))
		if f.Workers != nil {
			f.Workers = &spec.Workers{List: workers}
		}
		s.Faults = s.Faults[:1]
	}
}

// A fault is named soon after it began, and nothing else is.
func TestFaultsOfTheSimulatorAreNamed(t *testing.T) {
	const onset = 20.0
	at := fixed(20*time.Second, 9*time.Second, 5)
	for name, c := range map[string]struct {
		change  func(*spec.Scenario)
		finding string // with its severity
		workers []string
		onset   float64
		within  float64
		also    []string // that may be told besides
	}{
		"s5":            {at, "fail worker/stall", []string{"5"}, onset, 4, nil},
		"s6":            {at, "fail worker/stall", []string{"5"}, onset, 4, nil},
		"s19":           {at, "fail worker/stall", []string{"5"}, onset, 4, nil},
		"small-stall":   {fixed(10*time.Second, 4*time.Second, 1), "fail worker/stall", []string{"1"}, 10, 4, nil},
		"s7":            {fixed(20*time.Second, 5*time.Second), "fail fleet/stall", nil, onset, 4, nil},
		"s13":           {nil, "fail worker/absent", []string{"5"}, 0, 4, nil},
		"s14":           {nil, "fail worker/slow", []string{"3"}, 2, 10, nil},
		"s15":           {nil, "fail gpu/throttle", nil, 0, 30, nil},
		"s18":           {nil, "fail gpu/error", []string{"6"}, 1.5, 4, nil},
		"s12":           {nil, "fail serving/no-tokens", nil, 0, 4, []string{"note start/cold"}},
		"i1":            {nil, "fail worker/stall", []string{"3"}, onset, 7, []string{"fail fleet/stall"}},
		"i2":            {nil, "note start/cold", []string{"2"}, 0, 8, nil},
		"i3":            {nil, "fail worker/stall", []string{"0"}, onset, 7, nil},
		"i4":            {nil, "note start/cold", []string{"0"}, 0, 8, nil},
		"i7":            {nil, "fail worker/stall", []string{"2"}, 10, 4, nil},
		"black-hole":    {nil, "fail worker/black-hole", []string{"2"}, onset, 4, []string{"fail serving/errors"}},
		"worker-leaves": {nil, "fail worker/absent", []string{"6"}, onset, 4, []string{"fail serving/errors"}},
		"http-error":    {nil, "fail serving/errors", nil, 0, 4, nil},
		"stream-error":  {nil, "fail serving/errors", nil, 0, 4, nil},
		"telemetry-gap": {nil, "note telemetry/gap", nil, 0, 50, nil},
		"s9":            {nil, "note worker/absent", nil, 0, 30, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(3) {
				change := c.change
				if change == nil {
					change = func(*spec.Scenario) {}
				}
				all := watched(playedOut(t, name, seed+1, change))
				first := -1.0
				for _, m := range all {
					for _, s := range m.picture.Symptoms {
						is := s.Severity + " " + s.Finding
						if slices.Contains(c.also, is) && is != c.finding {
							continue
						}
						if is != c.finding || m.s < c.onset {
							t.Errorf("seed %d, second %.0f: %s %v: %s", seed+1, m.s, is, s.Workers, s.Words)
						} else if first < 0 && (c.workers == nil || slices.Equal(s.Workers, c.workers)) {
							first = m.s
						}
					}
				}
				if first < 0 || first > c.onset+c.within {
					t.Errorf("seed %d: first told at second %.0f, %v wanted from %v on, within %v s:\n%s", seed+1, first, c.finding, c.onset, c.within,
						strings.Join(said(all, ""), "\n"))
				}
			}
		})
	}
}

// An engine that serves an episode, rests, and never serves again: the sole worker
// makes no token in its second episode, though it did in the first.
func TestAStallAfterARestIsNamed(t *testing.T) {
	e, _ := scenarios.Find("i5")
	s, err := spec.DecodeScenario(e.Data)
	if err != nil {
		t.Fatal(err)
	}
	var series []spec.Sample
	from, made := int64(0), 0.0
	for episode := 1; episode <= 2; episode++ {
		r, err := sim.Play(t.Context(), s, 1, episode, sim.Load{Grace: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		last := int64(0)
		for _, one := range r.Series {
			last = max(last, one.T)
			if one.T += from; one.Worker != nil && episode == 2 { // the counter of the same process
				one.Worker.Generated = new(made + *one.Worker.Generated)
			} else if one.Worker != nil {
				made = *one.Worker.Generated
			}
			if one.Source == spec.SourceWorker || one.Source == spec.SourceGPU {
				series = append(series, one)
			}
		}
		from += last + 60*second
	}
	all := watched(series)
	got := said(all, "worker/stall")
	if len(got) == 0 || !strings.Contains(got[len(got)-1], "fail worker/stall [0]") {
		t.Errorf("%v", said(all, ""))
	}
}

// Recorded runs. To add one, put its series.jsonl.gz into testdata and write its line.
// small-stall-1 is of aicr sim play small-stall --run; hack/gpu/README.md says how
// those of a real H200 were made.
func TestRecordedFleets(t *testing.T) {
	for file, c := range map[string]struct {
		must []string // findings, with their severity
		may  []string
	}{
		"testdata/small-stall-1.series.jsonl.gz": {must: []string{"fail worker/stall"}},
		"testdata/h200-start.series.jsonl.gz":    {},
		"testdata/h200-healthy.series.jsonl.gz":  {},
		"testdata/h200-stopped.series.jsonl.gz":  {must: []string{"fail worker/stall"}, may: []string{"note telemetry/gap"}},
	} {
		t.Run(file, func(t *testing.T) {
			all := watched(readSeries(t, file))
			got := symptomsTold(all)
			for _, want := range c.must {
				if got[want] == 0 {
					t.Errorf("no %s", want)
				}
			}
			for is := range got {
				if !slices.Contains(c.must, is) && !slices.Contains(c.may, is) {
					t.Errorf("%s:\n%s", is, strings.Join(said(all, strings.Fields(is)[1]), "\n"))
				}
			}
		})
	}
}
