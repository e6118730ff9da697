package report

import (
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// CTRF writes a report in the Common Test Report Format: what a dashboard counts is the
// run as a whole, each ledger and each expectation; the numbers are in extra.
func CTRF(w io.Writer, r *spec.Report) error {
	return writeJSON(w, newCTRF(r))
}

// ctrfVersion is of the specification; the published validator's reports have it too.
const ctrfVersion = "0.0.1"

type ctrfReport struct {
	Format      string      `json:"reportFormat"`
	Version     string      `json:"specVersion"`
	Timestamp   string      `json:"timestamp"`
	GeneratedBy string      `json:"generatedBy"`
	Results     ctrfResults `json:"results"`
}

type ctrfResults struct {
	Tool        ctrfTool        `json:"tool"`
	Summary     ctrfSummary     `json:"summary"`
	Tests       []ctrfTest      `json:"tests"`
	Environment ctrfEnvironment `json:"environment"`
}

type ctrfTool struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// ctrfSummary counts the tests; times are milliseconds since the epoch.
type ctrfSummary struct {
	Tests    int   `json:"tests"`
	Passed   int   `json:"passed"`
	Failed   int   `json:"failed"`
	Skipped  int   `json:"skipped"`
	Pending  int   `json:"pending"`
	Other    int   `json:"other"`
	Start    int64 `json:"start"`
	Stop     int64 `json:"stop"`
	Duration int64 `json:"duration"`
}

// ctrfTest is a check. Only the run as a whole has taken time: the tests' durations add
// up to the run's.
type ctrfTest struct {
	Name      string   `json:"name"`
	Status    string   `json:"status"`
	Duration  int64    `json:"duration"`
	Start     *int64   `json:"start,omitempty"`
	Stop      *int64   `json:"stop,omitempty"`
	Suite     []string `json:"suite"`
	Message   string   `json:"message,omitempty"`
	Trace     string   `json:"trace,omitempty"`
	RawStatus string   `json:"rawStatus"`
	Stdout    []string `json:"stdout,omitempty"`
	Extra     any      `json:"extra"`
}

type ctrfEnvironment struct {
	AppName string `json:"appName,omitempty"`
	Healthy *bool  `json:"healthy,omitempty"` // neither where nobody knows
	Extra   any    `json:"extra"`
}

func newCTRF(r *spec.Report) *ctrfReport {
	start, end := checkSpan(r)
	out := &ctrfReport{
		Format:    "CTRF",
		Version:   ctrfVersion,
		Timestamp: end.Format(time.RFC3339Nano),
		Results: ctrfResults{
			Tool:        ctrfTool{Name: "aicr", Version: layout.Shown(r.Run.Version, checkNameBytes)},
			Summary:     ctrfSummary{Start: start.UnixMilli(), Stop: end.UnixMilli()},
			Environment: ctrfEnvironmentOf(r),
		},
	}
	out.GeneratedBy = strings.TrimSpace("aicr " + layout.Shown(r.Run.Version, checkNameBytes))
	s := &out.Results.Summary
	s.Duration = s.Stop - s.Start
	on := checkHardwareOf(r)
	for _, c := range checksOf(r) {
		t := ctrfTest{
			Name:      c.name,
			Status:    s.count(c.outcome()),
			Suite:     []string{checkPhase},
			Message:   c.reason,
			RawStatus: layout.Shown(string(c.state), checkNameBytes),
		}
		switch {
		case c.ledger != nil:
			t.Extra = ctrfLedgerOf(r, c, on)
		case c.expected != nil:
			t.Extra = ctrfExpectedOf(c, on)
		case c.declared != nil:
			t.Suite, t.Duration, t.Extra = []string{c.declared.Phase}, int64(c.declared.Seconds*1000), ctrfDeclaredOf(c)
		default:
			t.Duration, t.Start, t.Stop = s.Duration, &s.Start, &s.Stop
			t.Message = ctrfMessage(r, c)
			t.Trace = checkMessage(strings.Join(checkFindings(r.Verdict.Findings), "\n"))
			t.Stdout = checkText(r)
			t.Extra = ctrfWholeOf(r, c, on)
		}
		if c.group != "" {
			t.Suite = append(t.Suite, checkWhole(r), c.group)
		}
		out.Results.Tests = append(out.Results.Tests, t)
	}
	return out
}

// count takes in a test that ended so, and is its status.
func (s *ctrfSummary) count(o outcome) string {
	s.Tests++
	switch o {
	case checkPassed:
		s.Passed++
		return "passed"
	case checkFailed:
		s.Failed++
		return "failed"
	case checkSkipped:
		s.Skipped++
		return "skipped"
	case checkOther:
	}
	s.Other++
	return "other"
}

// ctrfMessage tells the run: why, and what was found. Most readers show nothing else of
// a failed test.
func ctrfMessage(r *spec.Report, c check) string {
	lines := []string{c.reason}
	if c.unended != "" {
		lines = append(lines, c.unended)
	}
	for _, f := range r.Verdict.Findings {
		lines = append(lines, layout.Shown(checkFinding(f), checkLineBytes))
	}
	return checkMessage(strings.Join(lines, "\n"))
}

func ctrfEnvironmentOf(r *spec.Report) ctrfEnvironment {
	e := ctrfEnvironment{AppName: layout.Shown(r.Run.Target.Model, checkNameBytes)}
	if s := r.Verdict.Verdict; s == spec.Pass || s == spec.Fail {
		healthy := s == spec.Pass
		e.Healthy = &healthy
	}
	several := &spec.Verdict{}
	if len(severalChecks(r.Verdict)) > 0 {
		several = r.Verdict
	}
	e.Extra = struct {
		Verdict   spec.State  `json:"verdict,omitempty"` // of several checks
		Reason    string      `json:"reason,omitempty"`
		Target    string      `json:"target,omitempty"`
		Simulated bool        `json:"simulated"`
		Facts     []spec.Fact `json:"facts,omitempty"`
	}{several.Verdict, checkLine(several.Reason), layout.Shown(targetName(r.Run.Target), checkNameBytes), r.Run.Target.Simulated, checkFacts(r)}
	return e
}

// ctrfExpected is every number of an expectation. One that was not measured is null.
type ctrfExpected struct {
	Value      *float64      `json:"value"`
	Low        *float64      `json:"low"`
	High       *float64      `json:"high"`
	N          int           `json:"n"`
	Unit       string        `json:"unit"`
	Want       string        `json:"want"`
	Effective  string        `json:"effective"`
	State      spec.State    `json:"state"`
	Note       string        `json:"note,omitempty"`
	SkipReason string        `json:"skipReason,omitempty"`
	Hardware   checkHardware `json:"hardware"`
}

func ctrfExpectedOf(c check, on checkHardware) ctrfExpected {
	e := c.expected
	return ctrfExpected{
		Value: measured(e.Value), Low: measured(e.Low), High: measured(e.High), N: e.N,
		Unit: layout.Shown(e.Unit, checkNameBytes), Want: checkLine(e.Want), Effective: checkLine(e.Effective),
		State: ctrfState(c.state), Note: checkLine(e.Note), SkipReason: ctrfSkipReason(c), Hardware: on,
	}
}

type ctrfLedger struct {
	State      spec.State    `json:"state"`
	Reason     string        `json:"reason"`
	SkipReason string        `json:"skipReason,omitempty"`
	Tests      []ctrfWalk    `json:"tests,omitempty"`
	Hardware   checkHardware `json:"hardware"`
}

// ctrfWalk is a sequential test: at Low it has decided for health, at High against it.
type ctrfWalk struct {
	Of     string     `json:"of,omitempty"`
	Low    *float64   `json:"low"`
	High   *float64   `json:"high"`
	Values []*float64 `json:"values"`
}

func ctrfLedgerOf(r *spec.Report, c check, on checkHardware) ctrfLedger {
	l := ctrfLedger{State: ctrfState(c.state), Reason: c.reason, SkipReason: ctrfSkipReason(c), Hardware: on}
	for _, w := range r.Verdict.Tests {
		if w.Ledger != c.ledger.Name {
			continue
		}
		walk := ctrfWalk{Of: w.Of, Low: measured(&w.Low), High: measured(&w.High), Values: []*float64{}}
		for i := range w.Values {
			walk.Values = append(walk.Values, measured(&w.Values[i]))
		}
		l.Tests = append(l.Tests, walk)
	}
	return l
}

// ctrfWhole is what else there is to know of a run.
type ctrfWhole struct {
	State      spec.State     `json:"state"`
	Reason     string         `json:"reason"`
	SkipReason string         `json:"skipReason,omitempty"`
	Unended    string         `json:"unended,omitempty"` // a sentence: its record has no end
	Run        string         `json:"run,omitempty"`     // its id
	Command    string         `json:"command,omitempty"`
	Kept       string         `json:"kept,omitempty"`
	Profile    string         `json:"profile,omitempty"`
	JudgedBy   string         `json:"judgedBy,omitempty"` // a plan that is not the run's own
	Episodes   int            `json:"episodes"`
	LoadedS    *float64       `json:"loadedSeconds"`
	Findings   []spec.Finding `json:"findings"`
	Figures    []spec.Figure  `json:"figures"`
	Stalls     []ctrfStall    `json:"stalls"`
	Workers    []ctrfWorker   `json:"workers,omitempty"`
	Bench      *ctrfBench     `json:"bench,omitempty"`
	Notes      []string       `json:"notes,omitempty"`
	Hardware   checkHardware  `json:"hardware"`
}

// ctrfStall is a stall whose times may be none.
type ctrfStall struct {
	spec.Stall
	At      *float64 `json:"at"`
	Seconds *float64 `json:"seconds"`
}

// ctrfWorker is what the client knows of a worker; nothing but the names where it
// knows nothing.
type ctrfWorker struct {
	Worker   string   `json:"worker"`
	GPU      string   `json:"gpu,omitempty"`
	Requests *int     `json:"requests,omitempty"`
	Failed   *int     `json:"failed,omitempty"`
	Tokens   *int64   `json:"tokens,omitempty"`
	Share    *float64 `json:"share,omitempty"`
	Findings []string `json:"findings,omitempty"`
}

type ctrfBench struct {
	Sent        int                `json:"sent"`
	Served      int                `json:"served"`
	Failed      int                `json:"failed"`
	Interrupted int                `json:"interrupted"`
	Classes     map[string]int     `json:"classes,omitempty"`
	ClientValid bool               `json:"clientValid"`
	ClientSays  []string           `json:"clientReasons,omitempty"`
	Figures     []spec.BenchFigure `json:"figures"`
}

func ctrfWholeOf(r *spec.Report, c check, on checkHardware) ctrfWhole {
	v := r.Verdict
	out := ctrfWhole{
		State: ctrfState(c.state), Reason: c.reason, SkipReason: ctrfSkipReason(c), Unended: c.unended,
		Run: layout.Shown(r.Run.ID, checkNameBytes), Command: checkLine(r.Run.Command), Kept: checkLine(r.Kept),
		Profile: layout.Shown(v.Profile, checkNameBytes), JudgedBy: checkLine(v.Plan),
		Episodes: v.Episodes, LoadedS: measured(&v.LoadedS),
		Findings: []spec.Finding{}, Figures: []spec.Figure{}, Stalls: []ctrfStall{},
		Notes: append(checkCleanAll(v.Notes), checkCleanAll(r.Notes)...), Hardware: on,
	}
	for _, f := range v.Findings {
		f.ID, f.Severity, f.Confidence, f.Summary = layout.Shown(f.ID, checkNameBytes), layout.Shown(f.Severity, checkNameBytes), layout.Shown(f.Confidence, checkNameBytes), checkLine(f.Summary)
		f.Shown = checkCleanAll(f.Shown)
		f.Workers, f.GPUs, f.Evidence, f.Advice = checkCleanAll(f.Workers), checkCleanAll(f.GPUs), checkCleanAll(f.Evidence), checkCleanAll(f.Advice)
		out.Findings = append(out.Findings, f)
	}
	for _, f := range v.Figures {
		f.Name, f.Unit, f.By = layout.Shown(f.Name, checkNameBytes), layout.Shown(f.Unit, checkNameBytes), checkLine(f.By)
		f.Value, f.Low, f.High = measured(f.Value), measured(f.Low), measured(f.High)
		out.Figures = append(out.Figures, f)
	}
	for _, s := range v.Stalls {
		s.Worker, s.GPU, s.By = layout.Shown(v.Named(s.Worker), checkNameBytes), layout.Shown(s.GPU, checkNameBytes), checkCleanAll(s.By)
		out.Stalls = append(out.Stalls, ctrfStall{s, measured(&s.At), measured(&s.Seconds)})
	}
	for _, l := range r.Lanes {
		out.Workers = append(out.Workers, ctrfWorkerOf(l))
	}
	if r.Bench != nil {
		out.Bench = ctrfBenchOf(r.Bench)
	}
	return out
}

func ctrfWorkerOf(l spec.Lane) ctrfWorker {
	w := ctrfWorker{Worker: layout.Shown(l.Worker, checkNameBytes), GPU: layout.Shown(l.GPU, checkNameBytes), Findings: checkCleanAll(l.Findings)}
	if l.Known {
		w.Requests, w.Failed, w.Tokens, w.Share = &l.Requests, &l.Failed, &l.Tokens, measured(&l.Share)
	}
	return w
}

func ctrfBenchOf(b *spec.Bench) *ctrfBench {
	out := &ctrfBench{
		Sent: b.Requests.Sent, Served: b.Requests.Served, Failed: b.Requests.Failed, Interrupted: b.Requests.Interrupted,
		Classes: map[string]int{}, ClientValid: b.Client.Valid, Figures: []spec.BenchFigure{},
	}
	for _, class := range slices.Sorted(maps.Keys(b.Requests.Classes)) {
		out.Classes[layout.Shown(class, checkNameBytes)] += b.Requests.Classes[class]
	}
	for _, why := range b.Client.Reasons {
		out.ClientSays = append(out.ClientSays, checkLine(why.Text))
	}
	for _, f := range b.Figures {
		f.Name, f.Unit, f.WithFailures = layout.Shown(f.Name, checkNameBytes), layout.Shown(f.Unit, checkNameBytes), nil
		for _, v := range []**float64{&f.Mean, &f.P50, &f.P90, &f.P95, &f.P99, &f.Min, &f.Max} {
			*v = measured(*v)
		}
		out.Figures = append(out.Figures, f)
	}
	return out
}

// ctrfSkipReason is why a run was not made, of which a SKIP is all that there is; the published validator's name for it.
func ctrfSkipReason(c check) string {
	if c.state != spec.Skip {
		return ""
	}
	return c.reason
}

func ctrfState(s spec.State) spec.State { return spec.State(layout.Shown(string(s), checkNameBytes)) }

func checkCleanAll(texts []string) []string {
	all := make([]string, 0, len(texts))
	for _, t := range texts {
		all = append(all, checkLine(t))
	}
	return all
}
