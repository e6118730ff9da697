package spec

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"
)

func ledgersOf(states ...State) (all []Ledger) {
	for i, name := range []string{Integrity, Capability, Stability} {
		all = append(all, Ledger{Name: name, State: states[i]})
	}
	return all
}

// TestAVerdictIsHeldAgainstItsRecord: what is there to be told must follow from itself
// and from the episodes that there are.
func TestAVerdictIsHeldAgainstItsRecord(t *testing.T) {
	value := 1.0
	for _, test := range []struct {
		name   string
		change func(*Verdict)
		want   string // "": it is good
	}{
		{"as the judge writes it", func(*Verdict) {}, ""},
		{"a part that nobody judged", func(v *Verdict) { v.Ledgers = ledgersOf(Pass, Pass, NotJudged) }, ""},
		{"a state that there is not", func(v *Verdict) { v.Verdict = "GREAT" }, "verdict"},
		{"an expectation's state that there is not", func(v *Verdict) { v.Expectations[0].State = "GREAT" }, "expectations[0].state"},
		{"a pass without a value", func(v *Verdict) { v.Expectations[0].Value = nil }, "a PASS without a value"},
		{"a ledger's state that there is not", func(v *Verdict) { v.Ledgers[1].State = Invalid }, "ledgers[1].state"},
		{"a severity that there is not", func(v *Verdict) { v.Findings = []Finding{{Severity: "bad"}} }, "findings[0].severity"},
		{"no ledger", func(v *Verdict) { v.Ledgers = nil }, "ledgers: are []"},
		{"one ledger three times", func(v *Verdict) { v.Ledgers[0].Name, v.Ledgers[2].Name = Capability, Capability }, "ledgers"},
		{"a pass over a failure", func(v *Verdict) { v.Ledgers = ledgersOf(Pass, Pass, Fail) }, "is PASS, and its ledgers are not"},
		{"a pass over what is not decided", func(v *Verdict) { v.Ledgers = ledgersOf(Pass, Inconclusive, Pass) }, "is PASS, and its ledgers are not"},
		{"a pass that nobody judged", func(v *Verdict) { v.Ledgers = ledgersOf(NotJudged, NotJudged, NotJudged) }, "is PASS, and its ledgers are not"},
		{"a failure of nothing", func(v *Verdict) { v.Verdict = Fail }, "is FAIL, and none of its ledgers is"},
		{"a pass of no episode", func(v *Verdict) { v.Episodes, v.Parts = 0, nil }, "is PASS of no episode"},
		{"more episodes than counted", func(v *Verdict) { v.Episodes = 5 }, "says 5, and 2 of the parts counted"},
		{"less than no load", func(v *Verdict) { v.LoadedS = -1 }, "-1 cannot be"},
		{"a part of another run", func(v *Verdict) { v.Parts[1].Episode = 9 }, "there is no episode 9"},
		{"a stall of another run", func(v *Verdict) { v.Stalls = []Stall{{Episode: 7}} }, "there is no episode 7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := &Verdict{Schema: VerdictSchema, Verdict: Pass, Ledgers: ledgersOf(Pass, Pass, Pass), Findings: []Finding{}, Episodes: 2, LoadedS: 100,
				Expectations: []Expected{{Name: "x", State: Pass, Value: &value}}, Parts: []Part{{Episode: 1, Counted: true}, {Episode: 2, Counted: true}}}
			test.change(v)
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			r := &RecordedRun{Plan: &Plan{}, files: fstest.MapFS{"verdict.json": {Data: text}}, numbers: []int{0, 1, 2}}
			switch _, err := r.Verdict(); {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	if v, err := (&RecordedRun{files: fstest.MapFS{}}).Verdict(); v != nil || err != nil {
		t.Errorf("a run that was killed has %v, %v", v, err)
	}
}
