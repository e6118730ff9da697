package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// htmlRun is one run as the page tells it.
type htmlRun struct {
	*spec.Report
	Prefix string // of the ids of its sections: there may be two runs on a page
	Name   string
	Which  string // first or second, where there are two

	Facing   []spec.Fact // the card's own
	Unended  string      // that it did not end, or ""
	Machines []machine
	More     int // machines
	Do       []piece
	DoFrom   string // the finding that says it
	Aside    []htmlLink
	Believe  []string

	Expected  []htmlExpected
	Workers   []htmlLane
	Compact   bool
	Untold    string // why there is no picture of the fleet
	Tracks    []htmlTrack
	Stretches []htmlStretch
	Spreads   []htmlSpread
	Walks     []walkPicture
	Findings  []htmlFinding
	Stalls    []spec.Stall
	Stalled   int // more of them
	Audits    []htmlAudit
	Faults    []htmlFault
	Heard     []spec.SampleCount
	Table     []htmlEpisodeRow
	Inputs    []htmlInput
	Limits    []spec.Fact
	AllNotes  []string
	Commands  []htmlCommand
}

// machine is what a finding names.
type machine struct{ Worker, GPU string }

type htmlExpected struct {
	spec.Expected
	Picture *intervalPicture
}

type htmlLane struct {
	spec.Lane
	Index    int
	Label    string
	Findings []htmlLink
	Named    bool
	Shape    string // of the worst finding that names it
	Run      float64
	Wait     float64
	PerS     float64
	Watts    float64
	Stood    float64
	Quiet    float64
}

// htmlTrack is a plot of the whole fleet over time.
type htmlTrack struct{ Plot, Title, Label string }

// htmlStretch is an episode as the plots show it.
type htmlStretch struct {
	Name               string
	At, Until          float64
	Rate, TTFT, TTFT99 string
	InFlight, Failed   string
}

type htmlSpread struct {
	htmlDistribution
	Index int
	Label string
}

type htmlFinding struct {
	spec.Finding
	Anchor       string
	Unseen       int // more pieces of evidence
	ShownWorkers string
	ShownGPUs    string
}

// htmlAudit is the client's audit of itself in an episode.
type htmlAudit struct {
	Name string
	spec.BenchClient
}

type htmlFault struct {
	Name string
	spec.BenchReason
}

type htmlEpisodeRow struct {
	Name   string
	Stalls int
	From   string // what counts of it
	Rate   *float64
	TTFT50 *float64
	TTFT99 *float64
	spec.ReportEpisode
}

type htmlInput struct {
	Name string
	spec.Input
}

type htmlCommand struct{ Does, Text string }

// The most of a list that the page shows.
const (
	mostMachines = 8
	mostEvidence = 20
	mostStalls   = 50
	mostLines    = 200
	manyWorkers  = 16 // from then on lanes are low
)

func newHTMLRun(r *spec.Report, prefix string) *htmlRun {
	h := &htmlRun{Report: r, Prefix: prefix, Name: runName(r)}
	h.card()
	for _, e := range first(r.Verdict.Expectations, mostLines) {
		if e.State == spec.Pass && knownOnly(e.Value) == nil {
			e.State = spec.NotJudged // nobody measured what would have passed
		}
		h.Expected = append(h.Expected, htmlExpected{e, newIntervalPicture(e)})
	}
	h.fleet()
	h.timeline()
	for i, d := range newHTMLSeries(r).Distributions {
		h.Spreads = append(h.Spreads, htmlSpread{d, i, spreadWords(d)})
	}
	for _, w := range first(r.Verdict.Tests, mostLines) {
		h.Walks = append(h.Walks, newWalkPicture(w))
	}
	for i, f := range first(r.Verdict.Findings, mostLines) {
		v := htmlFinding{Finding: f, Anchor: fmt.Sprintf("%sfinding-%d", prefix, i+1), Unseen: max(0, len(f.Evidence)-mostEvidence),
			ShownWorkers: shortList(f.Workers), ShownGPUs: shortList(f.GPUs)}
		v.Evidence = first(f.Evidence, mostEvidence)
		v.Advice = first(f.Advice, mostEvidence)
		h.Findings = append(h.Findings, v)
	}
	h.Stalls = first(r.Verdict.Stalls, mostStalls)
	h.Stalled = len(r.Verdict.Stalls) - len(h.Stalls)
	h.audit()
	h.episodes()
	h.plan()
	h.AllNotes = first(slices.Concat(r.Verdict.Notes, r.Notes), mostLines)
	if r.Bench != nil {
		h.AllNotes = first(slices.Concat(h.AllNotes, r.Bench.Notes), mostLines)
	}
	h.rerun()
	return h
}

// first are so many of a list.
func first[T any](all []T, most int) []T { return all[:min(len(all), most)] }

// Judged reports whether something was wanted of it: of a bench nothing may be.
func (h *htmlRun) Judged() bool {
	return h.Bench == nil || len(h.Verdict.Ledgers) > 0 || len(h.Verdict.Expectations) > 0
}

// Tested reports whether the sequential tests are of it: of a bench they may not be.
func (h *htmlRun) Tested() bool { return h.Bench == nil || len(h.Walks) > 0 }

// Diagnosed reports whether causes were looked for: of a bench they may not be.
func (h *htmlRun) Diagnosed() bool { return h.Bench == nil || len(h.Findings) > 0 }

// Pass reports whether all is well.
func (h *htmlRun) Pass() bool { return h.Verdict.Verdict == spec.Pass }

// ID is a section's.
func (h *htmlRun) ID(section string) string { return h.Prefix + section }

// FirstFacts are those of the environment that the page shows.
func (h *htmlRun) FirstFacts() []spec.Fact { return first(h.Facts, mostLines) }

// BenchFailures are those that the page shows.
func (h *htmlRun) BenchFailures() []spec.BenchFailure {
	return first(h.Bench.Requests.Failures, mostStalls)
}

// BenchWorkers are those that the page shows.
func (h *htmlRun) BenchWorkers() []spec.BenchWorker { return first(h.Bench.Workers, mostLines) }

// card is what the verdict's card tells beside the verdict.
func (h *htmlRun) card() {
	run, v := h.Run, h.Verdict
	start, end, target, model := run.Start, run.End, run.Target.URL, run.Target.Model
	if b := h.Bench; b != nil {
		start, end = cmp.Or(start, b.Start), cmp.Or(end, b.End)
		target, model = cmp.Or(target, b.Target.URL), cmp.Or(model, b.Target.Model)
	}
	add := func(name, value string) {
		if value != "" {
			h.Facing = append(h.Facing, spec.Fact{Name: name, Value: value})
		}
	}
	if run.Target.Simulated {
		add("Target", "simulated fleet "+named(run.Target.Scenario)+fmt.Sprintf(", seed %d", run.Target.Seed))
	}
	if target != "" {
		add("Target", named(target))
	}
	add("Model", named(model))
	add("Profile", named(v.Profile))
	add("Started", moment(start, run.Target.Simulated))
	add("Took", lasted(start, end))
	if v.LoadedS > 0 {
		add("Under load", layout.Loaded(v.LoadedS))
	}
	add("Run", h.Name)
	add("Version", named(cmp.Or(run.Version, version(h.Bench))))
	if start != "" && end == "" {
		h.Unended = "This run did not end. It was judged by its " + layout.Plural(v.Episodes, "whole episode") + "."
	}

	severity := spec.SeverityFail
	if v.Verdict == spec.Invalid {
		severity = spec.SeverityInvalid
	}
	for _, f := range v.Findings {
		if f.Severity == severity && !h.Pass() {
			h.name(f)
		}
	}
	if over := len(h.Machines) - mostMachines; over > 0 {
		h.Machines, h.More = h.Machines[:mostMachines], over
	}
	h.firstAdvice(severity)
	h.believe()
}

func version(b *spec.Bench) string {
	if b == nil {
		return ""
	}
	return b.Version
}

// name takes in the machines that a finding names: a worker with its GPU where it has
// one of each.
func (h *htmlRun) name(f spec.Finding) {
	for i := range max(len(f.Workers), len(f.GPUs)) {
		var m machine
		if i < len(f.Workers) {
			m.Worker = named(f.Workers[i])
		}
		if i < len(f.GPUs) && (len(f.Workers) == 0 || len(f.GPUs) == len(f.Workers)) {
			m.GPU = named(f.GPUs[i])
		}
		same := func(o machine) bool { return o.Worker == m.Worker && o.Worker != "" || o == m }
		if m != (machine{}) && !slices.ContainsFunc(h.Machines, same) {
			h.Machines = append(h.Machines, m)
		}
	}
}

// firstAdvice is what to do now, by the first finding that decided, else by the first.
// Where all is well there is nothing to do, but maybe something to know.
func (h *htmlRun) firstAdvice(severity string) {
	if h.Pass() {
		for i, f := range first(h.Verdict.Findings, 3) {
			h.Aside = append(h.Aside, htmlLink{ID: fmt.Sprintf("%sfinding-%d", h.Prefix, i+1), Text: said(f.Summary), Shape: severityShape(f.Severity)})
		}
		return
	}
	decided := slices.IndexFunc(h.Verdict.Findings, func(f spec.Finding) bool { return f.Severity == severity && len(f.Advice) > 0 })
	if decided < 0 {
		decided = slices.IndexFunc(h.Verdict.Findings, func(f spec.Finding) bool { return len(f.Advice) > 0 })
	}
	if decided >= 0 && decided < mostLines {
		h.Do = commands(h.Verdict.Findings[decided].Advice[0])
		h.DoFrom = fmt.Sprintf("%sfinding-%d", h.Prefix, decided+1)
	}
}

// believe tells what the verdict rests on.
func (h *htmlRun) believe() {
	say := func(format string, args ...any) { h.Believe = append(h.Believe, fmt.Sprintf(format, args...)) }
	v := h.Verdict
	if v.Episodes > 0 && h.Bench == nil {
		say("%s counted, %s of load", layout.Plural(v.Episodes, "episode"), layout.Loaded(v.LoadedS))
	}
	valid, requests, failed := 0, 0, 0
	var expected, missing int
	for _, e := range h.Episodes {
		if e.Client.Valid {
			valid++
		}
		requests, failed = requests+e.Requests.Sent, failed+e.Requests.Failed
		for _, s := range e.Samples {
			if s.Source != spec.SourceClient {
				expected, missing = expected+s.Expected, missing+s.Missing
			}
		}
	}
	if b := h.Bench; b != nil {
		requests, failed = b.Requests.Sent, b.Requests.Failed
		if b.Client.Valid {
			say("the client passed its audit")
		} else {
			say("the client failed its audit")
		}
	} else if n := len(h.Episodes); n > 0 {
		say("the client passed its audit in %d of %s", valid, layout.Plural(n, "episode"))
	}
	if requests > 0 {
		say("%s requests, %s failed", layout.Number(float64(requests)), layout.Number(float64(failed)))
	}
	switch {
	case expected > 0:
		say("%s of %s samples of telemetry missing", layout.Number(float64(missing)), layout.Number(float64(expected)))
	case len(h.Episodes) > 0:
		say("no telemetry: by the client's own record alone")
	}
}

// fleet makes the lanes: those that a finding names come first.
func (h *htmlRun) fleet() {
	h.Compact = len(h.Lanes) > manyWorkers
	for i, l := range newHTMLData(h.Report).Lanes {
		v := htmlLane{Lane: l, Index: i, Named: len(l.Findings) > 0,
			Run: mean(l.T, l.Running), Wait: mean(l.T, l.Waiting), PerS: mean(l.T, l.Rate), Watts: mean(l.PowerT, l.Power),
			Stood: total(l.Stalls), Quiet: total(l.Silent)}
		for _, id := range h.Lanes[i].Findings {
			link := htmlLink{Text: named(id), Shape: severityShape(spec.SeverityNote)}
			names := func(f spec.Finding) bool { return f.ID == id && slices.Contains(f.Workers, h.Lanes[i].Worker) }
			if n := slices.IndexFunc(first(h.Verdict.Findings, mostLines), names); n >= 0 {
				link.ID, link.Shape = fmt.Sprintf("%sfinding-%d", h.Prefix, n+1), severityShape(h.Verdict.Findings[n].Severity)
			}
			if v.Shape != "fail" {
				v.Shape = link.Shape
			}
			v.Findings = append(v.Findings, link)
		}
		v.Label = laneWords(v)
		h.Workers = append(h.Workers, v)
	}
	slices.SortStableFunc(h.Workers, func(a, b htmlLane) int {
		switch {
		case a.Named == b.Named:
			return 0
		case a.Named:
			return -1
		}
		return 1
	})
	switch {
	case len(h.Lanes) > 0:
	case h.Bench != nil:
		h.Untold = "The server does not name its workers, so there is no lane for each of them."
	case len(h.Episodes) == 0:
		h.Untold = "Nothing was loaded, so there is nothing to show of the workers."
	default:
		h.Untold = "No telemetry came from the workers, and the server does not name them: there is no lane for each of them."
	}
}

// laneWords is a lane in words.
func laneWords(l htmlLane) string {
	parts := []string{figureOr(l.Run, "an unknown number") + " running on average"}
	if known(l.Wait) {
		parts = append(parts, layout.Number(l.Wait)+" waiting")
	}
	if known(l.PerS) {
		parts = append(parts, layout.Number(l.PerS)+" tokens/s")
	}
	if known(l.Watts) {
		parts = append(parts, layout.Number(l.Watts)+" W")
	}
	if n := len(l.Stalls); n > 0 {
		parts = append(parts, fmt.Sprintf("stalled %s, %s s in all", times(n), fixed(l.Stood, 1)))
	} else {
		parts = append(parts, "never stalled")
	}
	if n := len(l.Silent); n > 0 {
		parts = append(parts, fmt.Sprintf("unknown %s, %s s in all", times(n), fixed(l.Quiet, 1)))
	}
	if l.Named {
		parts = append(parts, "named by "+shortList(l.Lane.Findings))
	}
	return "worker " + l.Worker + ": " + strings.Join(parts, ", ")
}

// timeline makes the plots of the whole fleet, and the same in figures.
func (h *htmlRun) timeline() {
	f := h.Fleet
	if len(f.T) == 0 {
		return
	}
	rateLow, rateHigh := spread(f.Rate)
	p50Low, p50High := spread(f.TTFT50)
	_, p99 := spread(f.TTFT99)
	_, failed := spread(f.Failed)
	none := "an unknown number of"
	h.Tracks = []htmlTrack{
		{"rate", "Tokens a second", fmt.Sprintf("tokens a second of the whole fleet: %s on average, from %s to %s; the fleet stalled %s", figureOr(mean(f.T, f.Rate), "unknown"), figureOr(rateLow, "unknown"), figureOr(rateHigh, "unknown"), times(len(f.Stalls)))},
		{"ttft", "Time to first token", fmt.Sprintf("time to first token: the median from %s to %s ms, the 99th percentile up to %s ms", figureOr(p50Low, "unknown"), figureOr(p50High, "unknown"), figureOr(p99, "unknown"))},
		{"inflight", "Requests in flight, and failed", fmt.Sprintf("%s requests in flight on average, up to %s failed a second", figureOr(mean(f.T, f.InFlight), none), figureOr(failed, none))},
	}
	for _, e := range h.Episodes {
		in := within(f, e.At, e.Until)
		low, high := spread(in.TTFT50)
		_, p99 := spread(in.TTFT99)
		_, failed := spread(in.Failed)
		ttft := figureOr(low, "–") + " to " + figureOr(high, "–")
		if !known(low) {
			ttft = "–"
		}
		h.Stretches = append(h.Stretches, htmlStretch{Name: episodeName(e.Number), At: e.At, Until: e.Until,
			Rate: figureOr(mean(in.T, in.Rate), "–"), TTFT: ttft, TTFT99: figureOr(p99, "–"), InFlight: figureOr(mean(in.T, in.InFlight), "–"), Failed: figureOr(failed, "–")})
	}
}

// within is the part of a track between two times.
func within(f spec.FleetTrack, from, until float64) spec.FleetTrack {
	var in spec.FleetTrack
	at := func(v spec.Values, i int) float64 {
		if i < len(v) {
			return v[i]
		}
		return math.NaN()
	}
	for i, t := range f.T {
		if t >= from && t <= until {
			in.T, in.Rate, in.InFlight = append(in.T, t), append(in.Rate, at(f.Rate, i)), append(in.InFlight, at(f.InFlight, i))
			in.TTFT50, in.TTFT99, in.Failed = append(in.TTFT50, at(f.TTFT50, i)), append(in.TTFT99, at(f.TTFT99, i)), append(in.Failed, at(f.Failed, i))
		}
	}
	return in
}

func episodeName(n int) string {
	if n == 0 {
		return "half load"
	}
	return fmt.Sprint(n)
}

func episodeWords(n int) string {
	if n == 0 {
		return episodeName(n)
	}
	return "episode " + episodeName(n)
}

// spreadWords is a distribution in words.
func spreadWords(d htmlDistribution) string {
	if d.N == 0 || d.P50 == nil {
		return d.Name + ": none measured"
	}
	return fmt.Sprintf("%s of %s %s: half are below %s, 90 %% below %s, 99 %% below %s, the largest is %s %s", d.Name, layout.Number(float64(d.N)), d.Of,
		optional(d.P50), optional(d.P90), optional(d.P99), optional(d.Max), d.Unit)
}

// audit is the client's word about itself, an episode at a time.
func (h *htmlRun) audit() {
	add := func(name, longName string, c spec.BenchClient) {
		h.Audits = append(h.Audits, htmlAudit{name, c})
		for _, reason := range first(c.Reasons, mostEvidence) {
			h.Faults = append(h.Faults, htmlFault{longName, reason})
		}
	}
	if h.Bench != nil {
		add("whole run", "whole run", h.Bench.Client)
	}
	for _, e := range h.Episodes {
		if h.Bench == nil {
			add(episodeName(e.Number), episodeWords(e.Number), e.Client)
		}
		for _, s := range first(e.Samples, mostLines) {
			i := slices.IndexFunc(h.Heard, func(o spec.SampleCount) bool { return o.Source == s.Source })
			if i < 0 {
				h.Heard, i = append(h.Heard, spec.SampleCount{Source: s.Source}), len(h.Heard)
			}
			h.Heard[i].Expected += s.Expected
			h.Heard[i].Missing += s.Missing
		}
	}
	slices.SortFunc(h.Heard, func(a, b spec.SampleCount) int { return strings.Compare(a.Source, b.Source) })
}

// episodes makes their table.
func (h *htmlRun) episodes() {
	for _, e := range h.Episodes {
		row := htmlEpisodeRow{Name: episodeName(e.Number), ReportEpisode: e, From: "–"}
		switch {
		case e.Counted && e.Cut != nil:
			row.From = "from " + fixed(*e.Cut-e.At, 1) + " s"
		case e.Counted:
			row.From = "all of it"
		case len(h.Verdict.Parts) > 0 || e.Number == 0:
			row.From = "nothing" // otherwise nobody has said
		}
		for _, s := range h.Verdict.Stalls {
			if s.Episode == e.Number {
				row.Stalls++
			}
		}
		for _, f := range e.Figures {
			switch f.Name {
			case "output throughput":
				row.Rate = f.Mean
			case "time to first token":
				row.TTFT50, row.TTFT99 = f.P50, f.P99
			}
		}
		h.Table = append(h.Table, row)
	}
}

// plan lists what it was given, and by what it judges.
func (h *htmlRun) plan() {
	if h.Plan == nil {
		return
	}
	for name, in := range h.Plan.Inputs {
		h.Inputs = append(h.Inputs, htmlInput{name, in})
	}
	slices.SortFunc(h.Inputs, func(a, b htmlInput) int { return strings.Compare(a.Name, b.Name) })
	h.Inputs = first(h.Inputs, mostLines)

	// The thresholds are many, and told by the names that their documentation has.
	text, err := json.Marshal(h.Plan.Thresholds)
	var all map[string]json.Number
	if err != nil || json.Unmarshal(text, &all) != nil {
		return
	}
	for name, v := range all {
		h.Limits = append(h.Limits, spec.Fact{Name: name, Value: v.String()})
	}
	slices.SortFunc(h.Limits, func(a, b spec.Fact) int { return strings.Compare(a.Name, b.Name) })
}

// rerun is what to type to have it again.
func (h *htmlRun) rerun() {
	command := h.Run.Command
	if h.Bench != nil {
		command = cmp.Or(command, h.Bench.Command)
	}
	if command != "" {
		h.Commands = append(h.Commands, htmlCommand{"Measure again", said(command)})
	}
	if h.Kept != "" && len(h.Kept) <= mostText { // a part of a name is of no use to a shell
		kept := layout.Clean(layout.Quoted(h.Kept))
		h.Commands = append(h.Commands,
			htmlCommand{"Judge the same record again", "aicr judge " + kept},
			htmlCommand{"Make this page again", "aicr report " + kept + " --report html=report.html"})
	}
}

// htmlComparison is what two runs say of each other.
type htmlComparison struct {
	*spec.Comparison
	Word    string
	State   spec.State // whose shape and colour it has
	Rows    []htmlCompared
	Beside  []string
	Percent string
}

type htmlCompared struct {
	spec.Compared
	State   spec.State
	Picture *intervalPicture
}

func newHTMLComparison(c *spec.Comparison) *htmlComparison {
	h := &htmlComparison{Comparison: c, Word: strings.ToUpper(named(c.Says)), State: saysState(c.Says), Beside: first(c.Notes, mostLines)}
	if sure := func(p float64) bool { return p > 0 && p < 1 }; sure(c.Each) && sure(c.Together) {
		h.Percent = fmt.Sprintf("The intervals hold together with %.3g %%, each with %.3g %%.", c.Together*100, c.Each*100)
	}
	reach := reachOf(c.Figures)
	for _, f := range first(c.Figures, mostLines) {
		h.Rows = append(h.Rows, htmlCompared{f, saysState(f.Says), newRatioPicture(f, reach)})
	}
	return h
}

// saysState is the state that a comparison's word looks like.
func saysState(says string) spec.State {
	switch says {
	case spec.IsBetter:
		return spec.Pass
	case spec.IsWorse:
		return spec.Fail
	case spec.IsMixed:
		return spec.Inconclusive
	}
	return spec.NotJudged
}
