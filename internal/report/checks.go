package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

// check is a report's part that has a state of its own. What gathers test results
// (CTRF, JUnit) knows nothing but such parts: the run as a whole or each declared check,
// each ledger, and each expectation. A finding is no check: it is the cause of one's state, and one that is
// not there could not pass.
type check struct {
	group    string // checkLedgers, checkExpectations; "": the run as a whole, or a declared check
	name     string // no other of its group has it
	state    spec.State
	reason   string // one line
	unended  string // of the run as a whole, one line: that it did not end; "": it did
	ledger   *spec.Ledger
	expected *spec.Expected
	declared *spec.CheckVerdict // a declared check other than the run as a whole
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
	all := []check{{name: checkWhole(r), state: v.Verdict, reason: checkLine(v.Reason), unended: checkUnended(r)}}
	taken := map[string]int{}
	if len(v.Checks) > 0 {
		all = declaredChecks(r, taken)
	}
	for i := range v.Ledgers {
		l := &v.Ledgers[i]
		all = append(all, check{
			group: checkLedgers, name: checkName(taken, checkLedgers, l.Name),
			state: l.State, reason: checkLine(ledgerReason(r, l)), ledger: l,
		})
	}
	for i := range v.Expectations {
		e := &v.Expectations[i]
		all = append(all, check{
			group: checkExpectations, name: checkName(taken, checkExpectations, e.Name),
			state: e.Judged(), reason: checkLine(expectedLine(e)), expected: e,
		})
	}
	return all
}

// ledgerReason is why a ledger is in its state. A bench that decided nothing has a ledger
// that counts requests and one reason for both: without it, "61 of 61 requests were
// served" would be told as an error. The ledgers of a run have reasons of their own.
func ledgerReason(r *spec.Report, l *spec.Ledger) string {
	why := r.Verdict.Reason
	if r.Bench == nil || l.State != spec.Inconclusive || r.Verdict.Verdict != spec.Inconclusive || strings.Contains(l.Reason, why) {
		return l.Reason
	}
	return strings.TrimSuffix(layout.Clip(why, checkMessageBytes/2)+"; "+l.Reason, "; ")
}

func checkWhole(r *spec.Report) string {
	if r.Bench != nil {
		return checkBench
	}
	return checkRun
}

// outcome is how a check ended, in the words that test results have. It fails closed:
// what is not known to be a pass is none. A part of the run that there was nothing to
// judge by was skipped; the run as a whole was not.
func (c *check) outcome() outcome {
	switch c.state {
	case spec.Pass:
		return checkPassed
	case spec.Fail:
		return checkFailed
	case spec.Skip:
		return checkSkipped
	case spec.NotJudged:
		if c.group != "" {
			return checkSkipped
		}
	case spec.NotRun:
		if c.declared != nil && c.declared.LeftOut() {
			return checkSkipped
		}
	case spec.Inconclusive, spec.Invalid:
	}
	return checkOther
}

type outcome int

const (
	checkOther outcome = iota
	checkPassed
	checkFailed
	checkSkipped
)

// checkName is a name that nothing else of the group has: GitLab drops a second test of
// the same name, and it may be the one that failed. Taken has the last number that a
// name was given, so that no number is tried twice.
func checkName(taken map[string]int, group, name string) string {
	name = strings.TrimSpace(layout.Shown(name, checkNameBytes))
	if name == "" {
		name = "(no name)"
	}
	key := group + "/" + name
	free, n := name, max(1, taken[key])
	for taken[group+"/"+free] > 0 {
		n++
		free = name + " (" + strconv.Itoa(n) + ")"
	}
	taken[group+"/"+free] = 1
	taken[key] = n
	return free
}

// How long texts may get, in bytes before the remark that they were cut. With it a
// message has no more than 4,096 bytes and a line no more than 512 characters, which
// are the published validator's limits.
const (
	checkNameBytes    = 200
	checkLineBytes    = 512 - layout.Remark
	checkMessageBytes = 4096 - layout.Remark
	checkMostLines    = 1000
)

// checkLine is text of somebody else's that is fit for JSON and for XML.
func checkLine(text string) string { return layout.Shown(text, checkMessageBytes) }

// checkText is a report in plain lines, for what shows a test's output.
func checkText(r *spec.Report) []string {
	v := r.Verdict
	var t checkLines
	if len(severalChecks(v)) > 0 {
		t.add("%-12s %s", v.Verdict, v.Reason)
	}
	for _, c := range checksOf(r) {
		t.add("%-12s %s: %s", c.state, c.name, c.reason)
	}
	if r.Unended() {
		t.add("%s", unendedLine(r))
	}
	t = append(t, checkFindings(v.Findings)...)
	for _, f := range v.Figures {
		line := "measured " + f.Name + ": " + measuredLine(f.Value, f.Low, f.High, f.N, f.Unit)
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
	if loaded := measured(&v.LoadedS); loaded != nil {
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
			t.add("  %s", namedThings("GPU", f.GPUs))
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
	if len(f.Workers) > 0 {
		who = ", " + namedThings("worker", f.Named())
	}
	return fmt.Sprintf("%s: %s%s: %s (confidence %s)", f.Severity, f.ID, who, f.Summary, f.Confidence)
}

// checkLines are lines of which each is clean and not too long.
type checkLines []string

func (t *checkLines) add(format string, args ...any) {
	*t = append(*t, strings.TrimRight(layout.Shown(fmt.Sprintf(format, args...), checkLineBytes), " "))
}

// checkMessage ends text where it would be longer than a message may be.
func checkMessage(text string) string { return layout.Clip(text, checkMessageBytes) }

// checkSpan is when a run took place, by its own record: the same record gives the same
// report whenever it is made. A run that was killed has no end but its last episode's.
// Where nobody knows, it is the epoch.
func checkSpan(r *spec.Report) (start, end time.Time) {
	start, ok := stampOf(r.Run.Start)
	if !ok {
		start = time.Unix(0, 0).UTC()
	}
	if end, ok := stampOf(r.Run.End); ok && !end.Before(start) {
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

// checkHardwareOf names the GPUs of a report, each once, in the order in which it tells of
// them, and the facts about them.
func checkHardwareOf(r *spec.Report) checkHardware {
	h := checkHardware{Workers: len(r.Lanes), GPUs: []string{}}
	seen := map[string]bool{}
	add := func(gpu string) {
		if gpu = layout.Shown(gpu, checkNameBytes); gpu != "" && !seen[gpu] {
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
		all = append(all, spec.Fact{Name: layout.Shown(f.Name, checkNameBytes), Value: layout.Shown(f.Value, checkMessageBytes)})
	}
	return all
}
