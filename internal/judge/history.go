package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// Of the stall ledger.
const (
	halfLife   = 7 * 24 * time.Hour // a stall counts half after a week
	leastPrior = 0.05               // what has faded to less is forgotten: a lone stall, after a month
)

// Of the search for a slide. docs/history.md has what they were measured to see,
// and how often they see what is not there.
const (
	trendRuns = 13    // with fewer, not even a large step in their middle is that rare by chance
	trendMost = 100   // of the latest runs: what is older is no news
	trendP    = 0.003 // for each figure: the same history is looked at after every run
	trendSeed = 1
	placeOff  = 2 // runs
)

// tracked are the figures of a verdict that a slide is looked for in.
var tracked = []struct {
	name, words string
	highIsGood  bool
}{
	{"throughput", "throughput", true},
	{"ttft-p99", "TTFT p99", false},
}

// LearnDeployment takes up what a run tells of the deployment besides its name.
func LearnDeployment(d *spec.Deployment, events []spec.Event, series []spec.Sample) {
	has := func(gpu string) {
		if !strings.HasPrefix(gpu, "GPU-") { // without a UUID it has a name of its place alone
			return
		}
		if at, known := slices.BinarySearch(d.GPUs, gpu); !known {
			d.GPUs = slices.Insert(d.GPUs, at, gpu)
		}
	}
	for _, e := range events {
		switch {
		case e.Kind == spec.EventVersions && e.Runtime != "":
			d.Runtime = e.Runtime
		case e.Kind == spec.EventPlaced:
			has(e.GPU)
		}
	}
	for i := range series {
		if s := &series[i]; s.Source == spec.SourceGPU && s.GPU != nil {
			has(s.Name)
		}
	}
}

// NewHistoryEntry is what a history keeps of a run.
func NewHistoryEntry(run spec.Run, d spec.Deployment, plan *spec.Plan, v *spec.Verdict) spec.HistoryEntry {
	if own := v.Inference(); own != nil {
		v = own // what other checks came to says nothing of the deployment's speed
	}
	e := spec.HistoryEntry{Schema: spec.HistorySchema, Run: run.ID, Start: run.Start, Digest: d.Digest(), Deployment: d,
		Profile: plan.Profile, Verdict: v.Verdict, Capability: spec.NotJudged, Point: plan.Point,
		Episodes: v.Episodes, LoadedMin: v.LoadedS / 60, Figures: []spec.Figure{}, Stalls: []spec.HistoryStall{}}
	if plan.Reference != nil {
		e.Reference = finite(&plan.Reference.Throughput)
	}
	for _, l := range v.Ledgers {
		if l.Name == spec.Capability {
			e.Capability = l.State
		}
	}
	keep := func(f spec.Figure) {
		if !slices.ContainsFunc(e.Figures, func(known spec.Figure) bool { return known.Name == f.Name }) {
			f.Value, f.Low, f.High = finite(f.Value), finite(f.Low), finite(f.High)
			e.Figures = append(e.Figures, f)
		}
	}
	for _, x := range v.Expectations {
		keep(spec.Figure{Name: x.Name, Value: x.Value, Low: x.Low, High: x.High, N: x.N, Unit: x.Unit})
	}
	for _, f := range v.Figures {
		keep(f)
	}
	for _, s := range v.Stalls {
		s.Worker = v.Named(s.Worker) // a runtime's id is another with each start
		i := slices.IndexFunc(e.Stalls, func(known spec.HistoryStall) bool {
			return known.GPU == s.GPU && (s.GPU != "" || known.Worker == s.Worker)
		})
		if i < 0 {
			i = len(e.Stalls)
			e.Stalls = append(e.Stalls, spec.HistoryStall{GPU: s.GPU, Worker: s.Worker})
		}
		e.Stalls[i].Count++
	}
	slices.SortFunc(e.Stalls, func(a, b spec.HistoryStall) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Worker, b.Worker))
	})
	return e
}

func finite(v *float64) *float64 {
	if v == nil {
		return nil
	}
	return number(*v)
}

// PriorStalls is the stall ledger at a time: how often each GPU, or worker where
// no GPU is known, stood still in earlier runs of this deployment, halved with
// every week since. Runs of another runtime, and GPUs that are known to be gone,
// are left out: a repair is not held against what it repaired.
func PriorStalls(entries []spec.HistoryEntry, d spec.Deployment, at time.Time) []spec.PriorStall {
	var all []spec.PriorStall
	for _, e := range priorRuns(entries, d) {
		for _, s := range e.Stalls {
			if s.GPU != "" && len(d.GPUs) > 0 && !slices.Contains(d.GPUs, s.GPU) {
				continue
			}
			i := slices.IndexFunc(all, func(known spec.PriorStall) bool {
				return known.GPU == s.GPU && (s.GPU != "" || known.Worker == s.Worker)
			})
			if i < 0 {
				i = len(all)
				all = append(all, spec.PriorStall{GPU: s.GPU})
			}
			all[i].Worker, all[i].Last = s.Worker, e.Start // the latest that had it
			all[i].Count += float64(s.Count) * faded(&e, at)
		}
	}
	all = slices.DeleteFunc(all, func(p spec.PriorStall) bool { return p.Count < leastPrior })
	slices.SortFunc(all, func(a, b spec.PriorStall) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Worker, b.Worker))
	})
	return all
}

// PriorMinutes is how long those runs were under load, faded alike. Counts mean
// nothing without it: a healthy deployment that is tested every day gathers
// stalls too.
func PriorMinutes(entries []spec.HistoryEntry, d spec.Deployment, at time.Time) float64 {
	sum := 0.0
	for _, e := range priorRuns(entries, d) {
		sum += e.LoadedMin * faded(&e, at)
	}
	return sum
}

// priorRuns are the runs whose stalls say something about this deployment.
func priorRuns(entries []spec.HistoryEntry, d spec.Deployment) []spec.HistoryEntry {
	digest := d.Digest()
	return inOrder(entries, func(e *spec.HistoryEntry) bool {
		known := e.Deployment.Runtime
		return e.Digest == digest && (known == "" || d.Runtime == "" || known == d.Runtime)
	})
}

// inOrder picks runs that measured something, by their start and not by their
// place in the file, which is that of their end. Simulated time begins always at
// the same date: there the place tells.
func inOrder(entries []spec.HistoryEntry, wanted func(*spec.HistoryEntry) bool) []spec.HistoryEntry {
	var all []spec.HistoryEntry
	for i := range entries {
		if e := &entries[i]; e.Verdict != spec.Invalid && e.Verdict != spec.Skip && wanted(e) {
			all = append(all, *e)
		}
	}
	slices.SortStableFunc(all, func(a, b spec.HistoryEntry) int { return a.Time().Compare(b.Time()) })
	return all
}

// faded is what is left of a stall of that run at a time. A run that claims to
// come later has lost nothing.
func faded(e *spec.HistoryEntry, at time.Time) float64 {
	since := max(0, at.Sub(e.Time()))
	return math.Pow(0.5, float64(since)/float64(halfLife))
}

// Trend looks for a slide in the runs of the same deployment at the same
// operating point. The run need not be among the entries.
func Trend(entries []spec.HistoryEntry, run spec.HistoryEntry) *spec.Trend {
	runs := inOrder(entries, func(e *spec.HistoryEntry) bool { return e.Digest == run.Digest && e.Point == run.Point })
	runs = runs[max(0, len(runs)-trendMost):]
	t := &spec.Trend{Runs: len(runs), Missing: max(0, trendRuns-len(runs)), Changes: []spec.TrendChange{}}
	say := func(format string, args ...any) { t.Lines = append(t.Lines, fmt.Sprintf(format, args...)) }
	if run.Verdict == spec.Invalid || run.Verdict == spec.Skip {
		say("this run is %s: it is kept and not compared", run.Verdict)
	}
	if t.Missing > 0 {
		say("%s of this deployment at this operating point; %d more before a slide can be told", counted(float64(len(runs)), "run"), t.Missing)
		return t
	}
	var unchanged []string
	for _, figure := range tracked {
		var measured []spec.HistoryEntry
		var ln []float64
		for _, e := range runs {
			if v, ok := measuredOf(&e, figure.name); ok {
				measured, ln = append(measured, e), append(ln, math.Log(v))
			}
		}
		if len(measured) < trendRuns {
			say("%s was measured in %d of %d runs: too few to compare", figure.words, len(measured), len(runs))
			continue
		}
		changes, err := changesOf(ln)
		if err != nil {
			say("%s could not be compared: %v", figure.words, err)
			continue
		}
		if len(changes) == 0 {
			unchanged = append(unchanged, figure.words)
		}
		for _, c := range changes {
			told := spec.TrendChange{Figure: figure.words, Kind: c.kind, Ratio: math.Exp(c.by), From: measured[c.from].Run, To: measured[c.to].Run,
				Before: c.before, Since: c.since, P: c.p, Worse: (c.by < 0) == figure.highIsGood}
			t.Changes = append(t.Changes, told)
			say("%s", sentence(&told, measured, c))
		}
	}
	if len(unchanged) > 0 {
		say("no change of %s found over %d runs", strings.Join(unchanged, " or "), len(runs))
	}
	return t
}

// change is a TrendChange in places and logarithms.
type change struct {
	kind          string
	from, to      int
	before, since int
	by, p         float64
}

// changesOf finds steps or a slide, whichever is nearer to the values. A slide
// comes in amounts too small for any one place to stand out, and where it is
// steep enough to be cut into steps these are no places at which anything
// happened.
func changesOf(ln []float64) ([]change, error) {
	steps, err := stats.ChangePoints(ln, trendP, trendSeed)
	if err != nil {
		return nil, err
	}
	var all []change
	off := 0.0 // how far the values are from the steps, squared
	for i, from := 0, 0; i <= len(steps); i++ {
		to := len(ln)
		if i < len(steps) {
			to = steps[i].At
		}
		off += squares(ln[from:to], stats.Mean(ln[from:to]), 0)
		if i > 0 {
			all[i-1].since = to - from
		}
		if i < len(steps) {
			s := steps[i]
			all = append(all, change{kind: spec.TrendStep, from: s.At - 1, to: s.At, before: s.At - from, by: s.After - s.Before, p: s.P})
		}
		from = to
	}
	slope, p := slide(ln)
	last := len(ln) - 1
	if middle := stats.Mean(ln); p <= trendP && squares(ln, middle-slope*float64(last)/2, slope) < off {
		return []change{{kind: spec.TrendSlide, to: last, by: slope * float64(last), p: p}}, nil
	}
	return all, nil
}

// squares is how far values are from a line, squared.
func squares(x []float64, first, slope float64) float64 {
	sum := 0.0
	for i, v := range x {
		d := v - first - slope*float64(i)
		sum += d * d
	}
	return sum
}

// slide is the change from one value to the next (Theil and Sen: the median of
// all pairs) and how rare it is by chance that so many pairs go one way (Mann
// and Kendall, by the normal approximation, two-sided).
func slide(x []float64) (slope, p float64) {
	ways := 0.0
	var slopes []float64
	for i, v := range x {
		for j, w := range x[:i] {
			slopes = append(slopes, (v-w)/float64(i-j))
			switch {
			case v > w:
				ways++
			case v < w:
				ways--
			}
		}
	}
	if ways == 0 {
		return 0, 1
	}
	slices.Sort(slopes)
	n := float64(len(x))
	z := (math.Abs(ways) - 1) / math.Sqrt(n*(n-1)*(2*n+5)/18)
	return stats.Percentile(slopes, 50), math.Erfc(z / math.Sqrt2)
}

// measuredOf is a figure of a run, if it has a logarithm.
func measuredOf(e *spec.HistoryEntry, name string) (float64, bool) {
	for _, f := range e.Figures {
		if f.Name == name && f.Value != nil && *f.Value > 0 {
			return *f.Value, true
		}
	}
	return 0, false
}

// sentence says what changed and where, and what else did there.
func sentence(t *spec.TrendChange, runs []spec.HistoryEntry, c change) string {
	day := func(e *spec.HistoryEntry) string { return e.Time().UTC().Format(time.DateOnly) }
	from, to, since := &runs[c.from], &runs[c.to], runs
	how := fmt.Sprintf("little by little over %d runs", len(runs))
	if c.kind == spec.TrendStep {
		how = fmt.Sprintf("by the means of the %d runs before and the %d since", c.before, c.since)
		since = runs[c.to : c.to+c.since]
	}
	way := "rose"
	if c.by < 0 {
		way = "fell"
	}
	chance := "p < 0.001"
	if t.P >= 0.001 {
		chance = fmt.Sprintf("p = %.2g", t.P)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %.1f %% between run %s (%s) and run %s (%s), %s (%s)",
		t.Figure, way, 100*math.Abs(t.Ratio-1), from.Run, day(from), to.Run, day(to), how, chance)
	// Noise moves the place that is found by a run or two.
	was, is := &runs[max(0, c.from-placeOff)].Deployment, &runs[min(len(runs)-1, c.to+placeOff)].Deployment
	if was.Runtime != "" && is.Runtime != "" && was.Runtime != is.Runtime {
		fmt.Fprintf(&b, "; the runtime went from %s to %s about then", was.Runtime, is.Runtime)
	}
	if len(was.GPUs) > 0 && len(is.GPUs) > 0 && !slices.Equal(was.GPUs, is.GPUs) {
		b.WriteString("; the GPUs are not the same since about then")
	}
	if t.Worse && !slices.ContainsFunc(since, func(e spec.HistoryEntry) bool { return e.Capability != spec.Pass }) {
		b.WriteString("; each of these runs was within tolerance")
	}
	return b.String()
}
