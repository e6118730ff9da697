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

	series htmlSeries
	lanes  []spec.Lane

	Facing   []spec.Fact // the card's own
	Unended  string      // that it did not end, or ""
	Machines []machine
	More     int // machines
	Do       []piece
	DoStop   string // what ends its sentence
	DoFrom   string // the finding that says it; "": the verdict's reason does
	Aside    []htmlLink
	Believe  []string
	Doubt    []string // what speaks against believing it

	Expected  []htmlExpected
	Workers   []htmlLane
	Watched   bool // somebody looked for stalls
	Flagged   bool // a lane shows an event
	Compact   bool
	Untold    string // why there is no picture of the fleet
	Tracks    []htmlTrack
	Stretches []htmlStretch
	Spreads   []htmlSpread
	Walks     []walkPicture
	Findings  []htmlFinding
	Stalls    []htmlStall
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
	Stops    string // how often it stood still
	Brief    string // the same for its label, "" where it never did
	Times    string // the same as a number of stalls of its own
	StoodS   string
	WithAll  string // and of the whole fleet's
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

type htmlStall struct {
	spec.Stall
	From string // on the run's clock
	In   string // the episode
}

type htmlFault struct {
	Name string
	spec.BenchReason
}

type htmlEpisodeRow struct {
	Name   string
	Stalls string
	Tokens string
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
	h := &htmlRun{Report: r, Prefix: prefix, Name: runName(r), series: newHTMLSeries(r), lanes: newHTMLLanes(r), Watched: watched(r.Verdict)}
	h.card()
	for _, e := range first(r.Verdict.Expectations, mostLines) {
		e.State = e.Judged()
		h.Expected = append(h.Expected, htmlExpected{e, newIntervalPicture(e)})
	}
	h.fleet()
	h.timeline()
	for i, d := range h.series.Distributions {
		h.Spreads = append(h.Spreads, htmlSpread{d, i, spreadWords(d)})
	}
	for _, w := range first(r.Verdict.Tests, mostLines) {
		h.Walks = append(h.Walks, newWalkPicture(w))
	}
	for i, f := range first(r.Verdict.Findings, mostLines) {
		v := htmlFinding{Finding: f, Anchor: fmt.Sprintf("%sfinding-%d", prefix, i+1), Unseen: max(0, len(f.Evidence)-mostEvidence),
			ShownWorkers: someNames(f.Named()), ShownGPUs: someNames(f.GPUs)}
		v.Evidence = first(f.Evidence, mostEvidence)
		v.Advice = first(f.Advice, mostEvidence)
		h.Findings = append(h.Findings, v)
	}
	h.stalls()
	h.audit()
	h.episodes()
	h.plan()
	h.notes()
	h.Commands = h.rerun()
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

// Halved reports whether there was a look at half the load.
func (h *htmlRun) Halved() bool {
	return slices.ContainsFunc(h.Episodes, func(e spec.ReportEpisode) bool { return e.Number == 0 })
}

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

// unwatched is said where nobody looked for stalls.
const unwatched = "stalls: not looked for"

// watched reports whether somebody looked for stalls. Where nobody did, that there are
// none says nothing.
func watched(v *spec.Verdict) bool {
	judged := func(l spec.Ledger) bool {
		return l.Name == spec.Stability && l.State != "" && l.State != spec.NotJudged
	}
	tested := func(w spec.Walk) bool { return w.Ledger == spec.Stability && len(w.Values) > 0 }
	return len(v.Stalls) > 0 || slices.ContainsFunc(v.Ledgers, judged) || slices.ContainsFunc(v.Tests, tested)
}

// notes are all, each of them once: a bench has its own in its verdict too.
func (h *htmlRun) notes() {
	all := slices.Concat(h.Verdict.Notes, h.Report.Notes)
	if h.Bench != nil {
		all = slices.Concat(all, h.Bench.Notes)
	}
	for _, note := range all {
		if len(h.AllNotes) < mostLines && !slices.Contains(h.AllNotes, note) {
			h.AllNotes = append(h.AllNotes, note)
		}
	}
}

// stalls makes their table, on the clock of the plots.
func (h *htmlRun) stalls() {
	for _, s := range first(h.Verdict.Stalls, mostStalls) {
		s.Worker = h.Verdict.Named(s.Worker)
		row := htmlStall{Stall: s, From: "–", In: episodeName(s.Episode)}
		if i := slices.IndexFunc(h.Episodes, func(e spec.ReportEpisode) bool { return e.Number == s.Episode }); i >= 0 {
			row.From = clock(h.Episodes[i].At + s.At)
		}
		h.Stalls = append(h.Stalls, row)
	}
	h.Stalled = len(h.Verdict.Stalls) - len(h.Stalls)
}

// card is what the verdict's card tells beside the verdict.
func (h *htmlRun) card() {
	run, v := h.Run, h.Verdict
	start, end, target := run.Start, run.End, run.Target
	if b := h.Bench; b != nil {
		start, end = cmp.Or(start, b.Start), cmp.Or(end, b.End)
		target.URL, target.Model = cmp.Or(target.URL, b.Target.URL), cmp.Or(target.Model, b.Target.Model)
	}
	add := func(name, value string) {
		if value != "" {
			h.Facing = append(h.Facing, spec.Fact{Name: name, Value: value})
		}
	}
	add("Target", named(targetWords(target)))
	add("Model", named(target.Model))
	add("Profile", named(v.Profile))
	add("Started", moment(start, run.Target.Simulated))
	add("Took", lasted(start, end))
	if v.LoadedS > 0 {
		add("Under load", layout.Loaded(v.LoadedS))
	}
	add("Run", h.Name)
	add("Version", named(cmp.Or(run.Version, version(h.Bench))))
	if h.Report.Unended() {
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
			m.Worker = named(h.Verdict.Named(f.Workers[i]))
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
	if own := h.Verdict.Inference(); own != nil && own.Verdict == spec.Pass && missesChecks(h.Verdict) {
		h.Do, h.DoStop = pieces(strings.ToUpper(ChooseChecks[:1])+ChooseChecks[1:]), "."
		return
	}
	decided := slices.IndexFunc(h.Verdict.Findings, func(f spec.Finding) bool { return f.Severity == severity && len(f.Advice) > 0 })
	if decided < 0 {
		decided = slices.IndexFunc(h.Verdict.Findings, func(f spec.Finding) bool { return len(f.Advice) > 0 })
	}
	if decided >= 0 && decided < mostLines {
		advice := said(h.Verdict.Findings[decided].Advice[0])
		h.Do, h.DoStop = pieces(advice), stop(advice)
		h.DoFrom = fmt.Sprintf("%sfinding-%d", h.Prefix, decided+1)
		return
	}
	if h.Verdict.Verdict == spec.Inconclusive && wantsMore(h.Verdict.Reason) {
		h.Do, h.DoStop = pieces("Measure again, and let it run on: more load would decide it"), "."
	}
}

// wantsMore reports whether a reason says that more load would decide. Others want
// something else, and say so.
func wantsMore(reason string) bool {
	return slices.ContainsFunc([]string{"more episode", "more load would tell", "more without one clear"}, func(words string) bool { return strings.Contains(reason, words) })
}

// believe tells what the verdict rests on, and what speaks against it.
func (h *htmlRun) believe() {
	say := func(format string, args ...any) { h.Believe = append(h.Believe, fmt.Sprintf(format, args...)) }
	doubt := func(format string, args ...any) { h.Doubt = append(h.Doubt, fmt.Sprintf(format, args...)) }
	v := h.Verdict
	if v.Episodes > 0 && h.Bench == nil {
		say("%s counted, %s of load", layout.Plural(v.Episodes, "episode"), layout.Loaded(v.LoadedS))
	}
	valid, expected, missing := 0, 0, 0
	for _, e := range h.Episodes {
		if e.Client.Valid {
			valid++
		}
		for _, s := range e.Samples {
			if s.Source != spec.SourceClient {
				expected, missing = expected+s.Expected, missing+s.Missing
			}
		}
	}
	switch n := len(h.Episodes); {
	case h.Bench != nil && h.Bench.Client.Valid, h.Bench == nil && n == 1 && valid == 1:
		say("the client passed its audit")
	case h.Bench != nil, n == 1:
		doubt("the client failed its audit")
	case n > 0 && valid == n:
		say("the client passed its audit in all %d episodes", n)
	case n > 0:
		doubt("the client passed its audit in %d of %d episodes", valid, n)
	}
	if text := h.requests(); text != "" {
		say("%s", text)
	}
	switch {
	case expected > 0 && missing == 0:
		say("all %s of telemetry came", things(expected, "sample"))
	case expected > 0:
		doubt("%s of %s of telemetry missing", count(missing), things(expected, "sample"))
	case len(h.Episodes) > 0 && h.Bench == nil: // a bench asks for none
		doubt("no telemetry: by the client's own record alone")
	}
}

// requests says how many there were, and of what: those that the verdict rests on, as
// its ledger counts them, or all where it does not say on which it rests.
func (h *htmlRun) requests() string {
	if b := h.Bench; b != nil {
		if b.Requests.Sent == 0 {
			return ""
		}
		text := fmt.Sprintf("%s sent, %s failed", things(b.Requests.Sent, "request"), count(b.Requests.Failed))
		if b.Requests.SentinelSent > 0 {
			text += ", beside those of the sentinel"
		}
		return text
	}
	all, of := h.Episodes, "in "+layout.Plural(len(h.Episodes), "episode")
	counts := func(e spec.ReportEpisode) bool { return e.Counted }
	if slices.ContainsFunc(all, counts) {
		all = slices.DeleteFunc(slices.Clone(all), func(e spec.ReportEpisode) bool { return !e.Counted })
		of = "in the " + layout.Plural(len(all), "episode") + " that counted"
		if len(all) == 1 {
			of = "in the episode that counted"
		}
	}
	ended, failed, sentinel := 0, 0, ""
	for _, e := range all {
		for _, c := range []spec.RequestCounts{e.Requests, e.Sentinel} {
			ended, failed = ended+c.Sent-c.Interrupted, failed+c.Failed
		}
		if e.Sentinel.Sent > 0 {
			sentinel = ", the sentinel's included"
		}
	}
	if ended <= 0 {
		return ""
	}
	return fmt.Sprintf("%s %s%s; %s failed", things(ended, "request"), of, sentinel, count(failed))
}

// things counts many.
func things(n int, one string) string { return count(n) + " " + layout.Noun(n, one) }

// fleet makes the lanes: those that a finding names come first.
func (h *htmlRun) fleet() {
	h.Compact = len(h.Lanes) > manyWorkers
	for i, l := range h.lanes {
		v := htmlLane{Lane: l, Index: i, Named: len(l.Findings) > 0,
			Run: mean(l.T, l.Running), Wait: mean(l.T, l.Waiting), PerS: mean(l.T, l.Rate), Watts: mean(l.PowerT, l.Power),
			Stood: total(l.Stalls), Quiet: total(l.Silent)}
		for _, id := range h.Lanes[i].Findings {
			link := htmlLink{Text: named(id), Shape: severityShape(spec.SeverityNote)}
			names := func(f spec.Finding) bool {
				return f.ID == id && slices.ContainsFunc(f.Workers, func(w string) bool { return h.Verdict.Named(w) == h.Lanes[i].Worker })
			}
			if n := slices.IndexFunc(first(h.Verdict.Findings, mostLines), names); n >= 0 {
				link.ID, link.Shape = fmt.Sprintf("%sfinding-%d", h.Prefix, n+1), severityShape(h.Verdict.Findings[n].Severity)
			}
			if v.Shape != "fail" {
				v.Shape = link.Shape
			}
			v.Findings = append(v.Findings, link)
		}
		h.stops(&v)
		v.Label = laneWords(v)
		h.Flagged = h.Flagged || slices.ContainsFunc(h.Marks, func(m spec.Mark) bool { return m.Worker != "" && m.Worker == h.Lanes[i].Worker })
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

// stops tells how often a worker stood still, alone and with the whole fleet.
func (h *htmlRun) stops(l *htmlLane) {
	if !h.Watched {
		l.Stops, l.Times, l.StoodS, l.WithAll = unwatched, "–", "–", "–"
		if !h.Compact { // there the key alone says it
			l.Brief = unwatched
		}
		return
	}
	all := h.series.Fleet.Stalls
	l.Times, l.StoodS, l.WithAll = count(len(l.Stalls)), fixed(l.Stood, 1), count(len(all))
	var parts, brief []string
	if n := len(l.Stalls); n > 0 {
		brief = append(brief, layout.Plural(n, "stall"))
		parts = append(parts, fmt.Sprintf("stalled %s, %s s in all", times(n), fixed(l.Stood, 1)))
	}
	if n := len(all); n > 0 {
		brief = append(brief, layout.Plural(n, "stall")+" with the fleet")
		parts = append(parts, fmt.Sprintf("stalled with the fleet %s, %s s in all", times(n), fixed(total(all), 1)))
	}
	l.Brief = strings.Join(brief, ", ")
	if l.Stops = strings.Join(parts, ", "); l.Stops == "" {
		l.Stops = "never stalled"
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
	parts = append(parts, l.Stops)
	if n := len(l.Silent); n > 0 {
		parts = append(parts, fmt.Sprintf("unknown %s, %s s in all", times(n), fixed(l.Quiet, 1)))
	}
	if l.Named {
		parts = append(parts, "named by "+someNames(l.Lane.Findings))
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
	stalls := unwatched
	switch n := len(h.series.Fleet.Stalls); {
	case n > 0:
		stalls = "the whole fleet stalled " + times(n)
	case h.Watched:
		stalls = "the whole fleet never stalled"
	}
	h.Tracks = []htmlTrack{
		{"rate", "Tokens a second", fmt.Sprintf("tokens a second of the whole fleet: %s on average, from %s to %s; %s", figureOr(mean(f.T, f.Rate), "unknown"), figureOr(rateLow, "unknown"), figureOr(rateHigh, "unknown"), stalls)},
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
	name := d.Name
	if d.Of != "" {
		name += " of " + d.Of
	}
	return fmt.Sprintf("%s (n %s): half are below %s, 90 %% below %s, 99 %% below %s, the largest is %s %s", name, count(d.N),
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
		row.Rate = e.Throughput
		row.Stalls, row.Tokens = h.stallsIn(e), count(e.Tokens.Completion)
		if e.Tokens.Completion == 0 && e.Requests.Served > 0 {
			row.Tokens = "–" // what is served has tokens: nobody told how many
		}
		for _, f := range e.Figures {
			if f.Name == "time to first token" {
				row.TTFT50, row.TTFT99 = f.P50, f.P99
			}
		}
		h.Table = append(h.Table, row)
	}
}

// stallsIn is how many there were in an episode. Nobody looks at one that does not count.
func (h *htmlRun) stallsIn(e spec.ReportEpisode) string {
	n := 0
	for _, s := range h.Verdict.Stalls {
		if s.Episode == e.Number {
			n++
		}
	}
	said := e.Counted || len(h.Verdict.Parts) == 0 && e.Number != 0
	if n == 0 && !(h.Watched && said) {
		return "–"
	}
	return count(n)
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
func (h *htmlRun) rerun() (all []htmlCommand) {
	command := h.Run.Command
	if h.Bench != nil {
		command = cmp.Or(command, h.Bench.Command)
	}
	if command != "" {
		all = append(all, htmlCommand{"Measure again", said(command)})
	}
	if h.Comparison != nil {
		return all // the others are of both runs
	}
	return append(all, retold(h.Report, "Judge the same record again")...)
}

// retold is what to type to have the same told again.
func retold(r *spec.Report, judge string) (all []htmlCommand) {
	for _, c := range []htmlCommand{{judge, r.Judge}, {"Make this page again", r.Page}} {
		if c.Text != "" && len(c.Text) <= mostText { // a part of a name is of no use to a shell
			all = append(all, htmlCommand{c.Does, layout.Clean(c.Text)})
		}
	}
	return all
}

// htmlComparison is what two runs say of each other.
type htmlComparison struct {
	*spec.Comparison
	Word    string
	State   spec.State // whose shape and colour it has
	Rows    []htmlCompared
	Beside  []string
	Percent string

	Commands []htmlCommand // that tell both again
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
