package report

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"aicr/internal/spec"
)

// CTRF writes a report in the Common Test Report Format: what a dashboard counts is the
// run as a whole, each ledger and each expectation; the numbers are in extra.
func CTRF(w io.Writer, r *spec.Report) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(newCTRF(r))
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

// The statuses of a test.
const (
	ctrfPassed  = "passed"
	ctrfFailed  = "failed"
	ctrfSkipped = "skipped"
	ctrfOther   = "other"
)

func newCTRF(r *spec.Report) *ctrfReport {
	start, end := checkSpan(r)
	out := &ctrfReport{
		Format:    "CTRF",
		Version:   ctrfVersion,
		Timestamp: end.Format(time.RFC3339Nano),
		Results: ctrfResults{
			Tool:        ctrfTool{Name: "aicr", Version: checkClean(r.Run.Version, checkNameBytes)},
			Summary:     ctrfSummary{Start: start.UnixMilli(), Stop: end.UnixMilli()},
			Environment: ctrfEnvironmentOf(r),
		},
	}
	out.GeneratedBy = strings.TrimSpace("aicr " + checkClean(r.Run.Version, checkNameBytes))
	s := &out.Results.Summary
	s.Duration = s.Stop - s.Start
	on := checkHardwareOf(r)
	for _, c := range checksOf(r) {
		t := ctrfTest{
			Name:      c.name,
			Status:    ctrfStatus(&c),
			Suite:     []string{checkPhase},
			Message:   c.reason,
			RawStatus: checkClean(string(c.state), checkNameBytes),
		}
		switch {
		case c.ledger != nil:
			t.Extra = ctrfLedgerOf(r, c, on)
		case c.expected != nil:
			t.Extra = ctrfExpectedOf(c, on)
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
		s.count(t.Status)
		out.Results.Tests = append(out.Results.Tests, t)
	}
	return out
}

// ctrfStatus fails closed: what is not known to be a pass is none. A part of the run
// that there was nothing to judge by was skipped, and its message says why.
func ctrfStatus(c *check) string {
	s := c.state
	if s == spec.NotJudged && c.group != "" {
		return ctrfSkipped
	}
	switch s {
	case spec.Pass:
		return ctrfPassed
	case spec.Fail:
		return ctrfFailed
	case spec.Skip:
		return ctrfSkipped
	case spec.Inconclusive, spec.Invalid, spec.NotJudged:
	}
	return ctrfOther
}

func (s *ctrfSummary) count(status string) {
	s.Tests++
	switch status {
	case ctrfPassed:
		s.Passed++
	case ctrfFailed:
		s.Failed++
	case ctrfSkipped:
		s.Skipped++
	default:
		s.Other++
	}
}

// ctrfMessage tells the run: why, and what was found. Most readers show nothing else of
// a failed test.
func ctrfMessage(r *spec.Report, c check) string {
	lines := []string{c.reason}
	for _, f := range r.Verdict.Findings {
		lines = append(lines, checkClean(checkFinding(f), checkLineBytes))
	}
	return checkMessage(strings.Join(lines, "\n"))
}

func ctrfEnvironmentOf(r *spec.Report) ctrfEnvironment {
	e := ctrfEnvironment{AppName: checkClean(r.Run.Target.Model, checkNameBytes)}
	if s := r.Verdict.Verdict; s == spec.Pass || s == spec.Fail {
		healthy := s == spec.Pass
		e.Healthy = &healthy
	}
	e.Extra = struct {
		Target    string      `json:"target,omitempty"`
		Simulated bool        `json:"simulated"`
		Facts     []spec.Fact `json:"facts,omitempty"`
	}{checkTarget(r), r.Run.Target.Simulated, checkFacts(r)}
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
		Value: checkNumber(e.Value), Low: checkNumber(e.Low), High: checkNumber(e.High), N: e.N,
		Unit: checkClean(e.Unit, checkNameBytes), Want: checkLine(e.Want), Effective: checkLine(e.Effective),
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
		walk := ctrfWalk{Low: checkNumber(&w.Low), High: checkNumber(&w.High), Values: []*float64{}}
		for i := range w.Values {
			walk.Values = append(walk.Values, checkNumber(&w.Values[i]))
		}
		l.Tests = append(l.Tests, walk)
	}
	return l
}

// ctrfWhole is what else there is to know of a run.
type ctrfWhole struct {
	State      spec.State    `json:"state"`
	Reason     string        `json:"reason"`
	SkipReason string        `json:"skipReason,omitempty"`
	Run        string        `json:"run,omitempty"` // its id
	Command    string        `json:"command,omitempty"`
	Kept       string        `json:"kept,omitempty"`
	Profile    string        `json:"profile,omitempty"`
	JudgedBy   string        `json:"judgedBy,omitempty"` // a plan that is not the run's own
	Episodes   int           `json:"episodes"`
	LoadedS    *float64      `json:"loadedSeconds"`
	Findings   []ctrfFinding `json:"findings"`
	Figures    []ctrfFigure  `json:"figures"`
	Stalls     []ctrfStall   `json:"stalls"`
	Workers    []ctrfWorker  `json:"workers,omitempty"`
	Bench      *ctrfBench    `json:"bench,omitempty"`
	Notes      []string      `json:"notes,omitempty"`
	Hardware   checkHardware `json:"hardware"`
}

type ctrfFinding struct {
	ID         string   `json:"id"`
	Severity   string   `json:"severity"`
	Confidence string   `json:"confidence"`
	Workers    []string `json:"workers"`
	GPUs       []string `json:"gpus"`
	Summary    string   `json:"summary"`
	Evidence   []string `json:"evidence"`
	Advice     []string `json:"advice"`
}

type ctrfFigure struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	N     int      `json:"n"`
	Unit  string   `json:"unit"`
	By    string   `json:"by,omitempty"`
}

type ctrfStall struct {
	Episode int      `json:"episode"`
	At      *float64 `json:"at"` // seconds since the episode's start
	Seconds *float64 `json:"seconds"`
	Open    bool     `json:"open"`
	Worker  string   `json:"worker,omitempty"` // none: the fleet
	GPU     string   `json:"gpu,omitempty"`
	By      []string `json:"by"`
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
	Sent        int               `json:"sent"`
	Served      int               `json:"served"`
	Failed      int               `json:"failed"`
	Interrupted int               `json:"interrupted"`
	Classes     map[string]int    `json:"classes,omitempty"`
	ClientValid bool              `json:"clientValid"`
	ClientSays  []string          `json:"clientReasons,omitempty"`
	Figures     []ctrfBenchFigure `json:"figures"`
}

type ctrfBenchFigure struct {
	Name string   `json:"name"`
	Unit string   `json:"unit"`
	N    int64    `json:"n"`
	Mean *float64 `json:"mean,omitempty"`
	P50  *float64 `json:"p50,omitempty"`
	P90  *float64 `json:"p90,omitempty"`
	P95  *float64 `json:"p95,omitempty"`
	P99  *float64 `json:"p99,omitempty"`
	Min  *float64 `json:"min,omitempty"`
	Max  *float64 `json:"max,omitempty"`
}

func ctrfWholeOf(r *spec.Report, c check, on checkHardware) ctrfWhole {
	v := r.Verdict
	out := ctrfWhole{
		State: ctrfState(c.state), Reason: c.reason, SkipReason: ctrfSkipReason(c),
		Run: checkClean(r.Run.ID, checkNameBytes), Command: checkLine(r.Run.Command), Kept: checkLine(r.Kept),
		Profile: checkClean(v.Profile, checkNameBytes), JudgedBy: checkLine(v.Plan),
		Episodes: v.Episodes, LoadedS: checkNumber(&v.LoadedS),
		Findings: []ctrfFinding{}, Figures: []ctrfFigure{}, Stalls: []ctrfStall{},
		Notes: append(checkCleanAll(v.Notes), checkCleanAll(r.Notes)...), Hardware: on,
	}
	for _, f := range v.Findings {
		out.Findings = append(out.Findings, ctrfFinding{
			ID: checkClean(f.ID, checkNameBytes), Severity: checkClean(f.Severity, checkNameBytes), Confidence: checkClean(f.Confidence, checkNameBytes),
			Workers: checkCleanAll(f.Workers), GPUs: checkCleanAll(f.GPUs), Summary: checkLine(f.Summary),
			Evidence: checkCleanAll(f.Evidence), Advice: checkCleanAll(f.Advice),
		})
	}
	for _, f := range v.Figures {
		out.Figures = append(out.Figures, ctrfFigure{
			Name: checkClean(f.Name, checkNameBytes), Value: checkNumber(f.Value), Low: checkNumber(f.Low), High: checkNumber(f.High),
			N: f.N, Unit: checkClean(f.Unit, checkNameBytes), By: checkLine(f.By),
		})
	}
	for _, s := range v.Stalls {
		out.Stalls = append(out.Stalls, ctrfStall{
			Episode: s.Episode, At: checkNumber(&s.At), Seconds: checkNumber(&s.Seconds), Open: s.Open,
			Worker: checkClean(s.Worker, checkNameBytes), GPU: checkClean(s.GPU, checkNameBytes), By: checkCleanAll(s.By),
		})
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
	w := ctrfWorker{Worker: checkClean(l.Worker, checkNameBytes), GPU: checkClean(l.GPU, checkNameBytes), Findings: checkCleanAll(l.Findings)}
	if l.Known {
		w.Requests, w.Failed, w.Tokens, w.Share = &l.Requests, &l.Failed, &l.Tokens, checkNumber(&l.Share)
	}
	return w
}

func ctrfBenchOf(b *spec.Bench) *ctrfBench {
	out := &ctrfBench{
		Sent: b.Requests.Sent, Served: b.Requests.Served, Failed: b.Requests.Failed, Interrupted: b.Requests.Interrupted,
		Classes: map[string]int{}, ClientValid: b.Client.Valid, Figures: []ctrfBenchFigure{},
	}
	for _, class := range slices.Sorted(maps.Keys(b.Requests.Classes)) {
		out.Classes[checkClean(class, checkNameBytes)] += b.Requests.Classes[class]
	}
	for _, why := range b.Client.Reasons {
		out.ClientSays = append(out.ClientSays, checkLine(why.Text))
	}
	for _, f := range b.Figures {
		out.Figures = append(out.Figures, ctrfBenchFigure{
			Name: checkClean(f.Name, checkNameBytes), Unit: checkClean(f.Unit, checkNameBytes), N: f.N,
			Mean: checkNumber(f.Mean), P50: checkNumber(f.P50), P90: checkNumber(f.P90), P95: checkNumber(f.P95), P99: checkNumber(f.P99),
			Min: checkNumber(f.Min), Max: checkNumber(f.Max),
		})
	}
	return out
}

// skipReason is why a check was skipped; the published validator's name for it.
func ctrfSkipReason(c check) string {
	if c.state != spec.Skip {
		return ""
	}
	return c.reason
}

func ctrfState(s spec.State) spec.State { return spec.State(checkClean(string(s), checkNameBytes)) }

func checkCleanAll(texts []string) []string {
	all := make([]string, 0, len(texts))
	for _, t := range texts {
		all = append(all, checkLine(t))
	}
	return all
}
