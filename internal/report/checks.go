package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// check is a report's part that has a state of its own. What gathers test results
// (CTRF, JUnit) knows nothing but such parts: the run as a whole, each ledger, and each
// expectation. A finding is no check: it is the cause of one's state, and one that is
// not there could not pass.
type check struct {
	group    string // checkLedgers, checkExpectations; "": the run as a whole
	name     string // no other of its group has it
	state    spec.State
	reason   string // one line
	ledger   *spec.Ledger
	expected *spec.Expected
}

// The groups of checks.
const (
	checkLedgers      = "ledgers"
	checkExpectations = "expectations"
)

// Where the run as a whole stands. The published validator calls it so too, and who
// gathers the results of both finds them in one place.
const (
	checkPhase = "performance"
	checkRun   = "inference-perf"
	checkBench = "bench"
)

// checksOf lists the checks of a report: the whole first.
func checksOf(r *spec.Report) []check {
	v := r.Verdict
	all := []check{{name: checkWhole(r), state: v.Verdict, reason: checkLine(v.Reason)}}
	taken := map[string]bool{}
	for i := range v.Ledgers {
		l := &v.Ledgers[i]
		all = append(all, check{
			group: checkLedgers, name: checkName(taken, checkLedgers, l.Name),
			state: l.State, reason: checkLine(l.Reason), ledger: l,
		})
	}
	for i := range v.Expectations {
		e := &v.Expectations[i]
		all = append(all, check{
			group: checkExpectations, name: checkName(taken, checkExpectations, e.Name),
			state: checkExpected(e), reason: checkExpectedLine(e), expected: e,
		})
	}
	return all
}

func checkWhole(r *spec.Report) string {
	if r.Bench != nil {
		return checkBench
	}
	return checkRun
}

// checkExpected is what an expectation came to. One that was not measured did not pass,
// whatever is said of it.
func checkExpected(e *spec.Expected) spec.State {
	if e.State == spec.Pass && checkNumber(e.Value) == nil {
		return spec.NotJudged
	}
	return e.State
}

// checkName is a name that nothing else of the group has: GitLab drops a second test of
// the same name, and it may be the one that failed.
func checkName(taken map[string]bool, group, name string) string {
	name = strings.TrimSpace(checkClean(name, checkNameBytes))
	if name == "" {
		name = "(no name)"
	}
	free := name
	for n := 2; taken[group+"/"+free]; n++ {
		free = name + " (" + strconv.Itoa(n) + ")"
	}
	taken[group+"/"+free] = true
	return free
}

// How long texts may get, in bytes before the remark that they were cut. With it a
// message has no more than 4,096 bytes and a line no more than 512 characters, which
// are the published validator's limits.
const (
	checkNameBytes    = 200
	checkLineBytes    = 512 - checkRemarkBytes
	checkMessageBytes = 4096 - checkRemarkBytes
	checkRemarkBytes  = 64
	checkMostLines    = 1000
	checkMostWorkers  = 8 // in a line
)

// checkClean is text of somebody else's that is fit for JSON and for XML. It is cut
// first, since there may be much of it; a box takes more bytes than what it stands for.
func checkClean(text string, most int) string {
	clean := layout.Clean(layout.Clip(text, most))
	if len(clean) > most+checkRemarkBytes {
		clean = layout.Clean(layout.Clip(text, most/len("□")))
	}
	return clean
}

func checkLine(text string) string { return checkClean(text, checkMessageBytes) }

// checkNumber is a number that there is, or nil.
func checkNumber(v *float64) *float64 {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return nil
	}
	return v
}

// checkExpectedLine tells an expectation in a line.
func checkExpectedLine(e *spec.Expected) string {
	line := checkMeasured(e.Value, e.Low, e.High, e.N, e.Unit)
	if e.Want != "" {
		line += "; wanted " + e.Want
	}
	if e.Effective != "" && e.Effective != e.Want {
		line += "; judged by " + e.Effective
	}
	if e.Note != "" && e.Note != checkUnmeasured {
		line += "; " + e.Note
	}
	return checkLine(line)
}

const checkUnmeasured = "not measured"

// checkMeasured tells a number with its unit, its interval and its sample size.
func checkMeasured(value, low, high *float64, n int, unit string) string {
	if checkNumber(value) == nil {
		return checkUnmeasured
	}
	line := strings.TrimSpace(layout.Number(*value) + " " + unit)
	if checkNumber(low) != nil && checkNumber(high) != nil {
		line += " (" + layout.Number(*low) + " to " + layout.Number(*high) + ")"
	}
	return line + ", n " + layout.Number(float64(n))
}

// checkText is a report in plain lines, for what shows a test's output.
func checkText(r *spec.Report) []string {
	v := r.Verdict
	var t checkLines
	for _, c := range checksOf(r) {
		t.add("%-12s %s: %s", c.state, c.name, c.reason)
	}
	t = append(t, checkFindings(v.Findings)...)
	for _, f := range v.Figures {
		line := "measured " + f.Name + ": " + checkMeasured(f.Value, f.Low, f.High, f.N, f.Unit)
		if f.By != "" {
			line += "; " + f.By
		}
		t.add("%s", line)
	}
	for _, n := range v.Notes {
		t.add("note: %s", n)
	}
	for _, n := range r.Notes {
		t.add("note: %s", n)
	}
	if v.Plan != "" {
		t.add("judged otherwise than it was planned: %s", v.Plan)
	}
	if loaded := checkNumber(&v.LoadedS); loaded != nil {
		t.add("%s, %s of load", layout.Plural(v.Episodes, "episode"), layout.Loaded(*loaded))
	}
	if r.Trend != nil {
		for _, line := range r.Trend.Lines {
			t.add("history: %s", line)
		}
	}
	if r.Kept != "" {
		t.add("kept in %s", r.Kept)
	}
	if len(t) > checkMostLines {
		left := len(t) - checkMostLines + 1
		t = append(t[:checkMostLines-1], fmt.Sprintf("and %d lines more", left))
	}
	return t
}

// checkFindings tells what was found, with its evidence and what to do.
func checkFindings(findings []spec.Finding) []string {
	var t checkLines
	for _, f := range findings {
		t.add("%s", checkFinding(f))
		if len(f.GPUs) > 0 {
			t.add("  %s %s", layout.Noun(len(f.GPUs), "GPU"), layout.Some(f.GPUs, checkMostWorkers))
		}
		for _, e := range f.Evidence {
			t.add("  - %s", e)
		}
		for _, a := range f.Advice {
			t.add("  advice: %s", a)
		}
	}
	return t
}

func checkFinding(f spec.Finding) string {
	who := ""
	if n := len(f.Workers); n > 0 {
		who = ", " + layout.Noun(n, "worker") + " " + layout.Some(f.Workers, checkMostWorkers)
	}
	return fmt.Sprintf("%s: %s%s: %s (confidence %s)", f.Severity, f.ID, who, f.Summary, f.Confidence)
}

// checkLines are lines of which each is clean and not too long.
type checkLines []string

func (t *checkLines) add(format string, args ...any) {
	*t = append(*t, strings.TrimRight(checkClean(fmt.Sprintf(format, args...), checkLineBytes), " "))
}

// checkMessage ends text where it would be longer than a message may be.
func checkMessage(text string) string { return layout.Clip(text, checkMessageBytes) }

// checkSpan is when a run took place, by its own record: the same record gives the same
// report whenever it is made. A run that was killed has no end but its last episode's.
// Where nobody knows, it is the epoch.
func checkSpan(r *spec.Report) (start, end time.Time) {
	start, ok := checkTime(r.Run.Start)
	if !ok {
		start = time.Unix(0, 0).UTC()
	}
	if end, ok := checkTime(r.Run.End); ok && !end.Before(start) {
		return start, end
	}
	last := 0.0
	for _, e := range r.Episodes {
		if e.Until < checkLongestRun.Seconds() { // no NaN either
			last = max(last, e.Until)
		}
	}
	return start, start.Add(time.Duration(last * float64(time.Second)))
}

// checkLongestRun is far more than any run takes; what is longer is no time.
const checkLongestRun = 10 * 365 * 24 * time.Hour

func checkTime(text string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, text)
	return t.UTC(), err == nil && t.Unix() >= 0 && t.Year() < 9000
}

// checkHardwareOf names the GPUs of a report, each once, in the order in which it tells of
// them, and the facts about them.
func checkHardwareOf(r *spec.Report) checkHardware {
	h := checkHardware{Workers: len(r.Lanes), GPUs: []string{}}
	seen := map[string]bool{}
	add := func(gpu string) {
		if gpu = checkClean(gpu, checkNameBytes); gpu != "" && !seen[gpu] {
			seen[gpu] = true
			h.GPUs = append(h.GPUs, gpu)
		}
	}
	for _, l := range r.Lanes {
		add(l.GPU)
	}
	for _, f := range r.Verdict.Findings {
		for _, gpu := range f.GPUs {
			add(gpu)
		}
	}
	for _, s := range r.Verdict.Stalls {
		add(s.GPU)
	}
	for _, f := range checkFacts(r) {
		if strings.Contains(strings.ToLower(f.Name), "gpu") {
			h.Facts = append(h.Facts, f)
		}
	}
	return h
}

// checkHardware is what a number was measured on, as far as it is known.
type checkHardware struct {
	Workers int         `json:"workers"` // with a lane of their own
	GPUs    []string    `json:"gpus"`    // UUIDs
	Facts   []spec.Fact `json:"facts,omitempty"`
}

func checkFacts(r *spec.Report) []spec.Fact {
	var all []spec.Fact
	for _, f := range r.Facts {
		all = append(all, spec.Fact{Name: checkClean(f.Name, checkNameBytes), Value: checkClean(f.Value, checkMessageBytes)})
	}
	return all
}

// checkTarget names what was loaded: a host and port, or a scenario.
func checkTarget(r *spec.Report) string {
	return checkClean(spec.NewDeployment(r.Run.Target, 0).Target, checkNameBytes)
}
