package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Verdict reads the verdict that the run came to. A run that was killed before it had
// one has none, which is nil.
func (r *RecordedRun) Verdict() (*Verdict, error) {
	const name = "verdict.json"
	if _, err := fs.Stat(r.files, name); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	data, err := readWhole(r.files, name, "")
	if err != nil {
		return nil, err
	}
	v := &Verdict{}
	d := decodeJSON(data, 1, v)
	d.constant("schema", v.Schema, VerdictSchema)
	d.state("verdict", v.Verdict, verdicts())
	for i, l := range v.Ledgers {
		d.state(join(element("ledgers", i), "state"), l.State, ledgerStates())
	}
	for i, e := range v.Expectations {
		at := join(element("expectations", i), "state")
		d.state(at, e.State, append(verdicts(), NotJudged))
		if e.State != e.Judged() {
			d.wrong(at, "a PASS without a value", "what was not measured is NOT JUDGED")
		}
	}
	for i, c := range v.Checks {
		at := element("checks", i)
		d.state(join(at, "verdict"), c.Verdict, CheckStates())
		d.word(join(at, "phase"), c.Phase, Phases())
		if c.Verdict == NotRun {
			d.word(join(at, "reason.code"), c.Reason.Code, []string{NotAsked, NotBuilt, FailFast})
		}
	}
	for i, f := range v.Findings {
		d.word(join(element("findings", i), "severity"), f.Severity, []string{SeverityFail, SeverityInvalid, SeverityNote})
	}
	if len(d.mistakes) == 0 {
		d.holdDeclared(v.Checks, r.Plan)
		d.holdVerdict(v, r.numbers)
	}
	return v, d.in(name)
}

// holdVerdict holds a verdict against itself and against the episodes that there are:
// it may be another run's, or somebody's wish.
func (d *document) holdVerdict(v *Verdict, episodes []int) {
	if len(v.Checks) > 0 {
		own := d.holdChecks(v)
		if own == nil {
			return
		}
		v = own
	}
	const another = "an episode was taken away, or the verdict is another run's: aicr judge says what the record means"
	var names []string
	has := map[State]bool{}
	for _, l := range v.Ledgers {
		names = append(names, l.Name)
		has[l.State] = true
	}
	if want := []string{Integrity, Capability, Stability}; !slices.Equal(names, want) {
		d.wrong("ledgers", fmt.Sprintf("are %v", names), fmt.Sprintf("a verdict has %v, in this order", want))
	}
	switch {
	case v.Verdict == Pass && (!has[Pass] || has[Fail] || has[Inconclusive]):
		d.wrong("verdict", "is PASS, and its ledgers are not", changed)
	case v.Verdict == Fail && !has[Fail]:
		d.wrong("verdict", "is FAIL, and none of its ledgers is", changed)
	case v.Verdict == Pass && v.Episodes == 0:
		d.wrong("verdict", "is PASS of no episode", changed)
	}
	there := func(path string, number int) {
		if !slices.Contains(episodes, number) {
			d.wrong(path, fmt.Sprintf("there is no episode %d", number), another)
		}
	}
	counted := 0
	for i, p := range v.Parts {
		there(join(element("parts", i), "episode"), p.Episode)
		if p.Counted {
			counted++
		}
	}
	for i, s := range v.Stalls {
		there(join(element("stalls", i), "episode"), s.Episode)
	}
	if v.Episodes != counted {
		d.wrong("episodes", fmt.Sprintf("says %d, and %d of the parts counted", v.Episodes, counted), another)
	}
	if !(v.LoadedS >= 0) {
		d.wrong("loadedSeconds", fmt.Sprintf("%g cannot be", v.LoadedS), changed)
	}
}

// changed is the hint to a verdict that contradicts itself.
const changed = "it was changed after it was written: aicr judge says what the record means"

// holdDeclared holds the results of the checks against the plan, which declares them and
// has decided those that do not run. A record of a program that knew inference-perf alone
// may have no results, where nothing else was declared.
func (d *document) holdDeclared(all []CheckVerdict, p *Plan) {
	for i := range p.Checks {
		planned := &p.Checks[i]
		if !planned.IsDeclared() || len(all) == 0 && planned.Runs && planned.Name == InferencePerf {
			continue
		}
		at := slices.IndexFunc(all, func(c CheckVerdict) bool { return c.Name == planned.Name && c.Phase == planned.Phase })
		if at < 0 {
			d.wrong("checks", fmt.Sprintf("has no result of %s, which the plan declares", planned.Name), changedOrOld)
			continue
		}
		c, path := &all[at], element("checks", at)
		if !planned.Runs && planned.Verdict != "" && (c.Verdict != planned.Verdict || c.Reason.Code != planned.Reason.Code) {
			d.wrong(path, fmt.Sprintf("says that %s is %s (%s), and the plan %s (%s)",
				c.Name, c.Verdict, c.Reason.Code, planned.Verdict, planned.Reason.Code), changed)
		}
	}
}

const changedOrOld = "an older aicr wrote it, or it was changed after it was written: aicr judge says what the record means"

// holdChecks holds the verdict on several checks against these, and gives that of
// inference-perf, which stands at the top too.
func (d *document) holdChecks(v *Verdict) *Verdict {
	if worst := WorstOfChecks(v.Checks); v.Verdict != worst {
		d.wrong("verdict", fmt.Sprintf("is %s, and the worst of its checks is %s", v.Verdict, worst), changed)
	}
	for i, c := range v.Checks {
		switch {
		case c.Detail != nil && c.Detail.Verdict != c.Verdict:
			d.wrong(join(element("checks", i), "verdict"), fmt.Sprintf("is %s, and its detail says %s", c.Verdict, c.Detail.Verdict), changed)
		case c.Detail == nil && c.Name == InferencePerf && c.Verdict == Pass:
			d.wrong(join(element("checks", i), "detail"), "a PASS of "+InferencePerf+" without its verdict", changed)
		}
	}
	top := *v
	top.Checks = nil
	own := v.Inference()
	if own == nil {
		own = &Verdict{Schema: v.Schema, Profile: v.Profile, Ledgers: []Ledger{}, Expectations: []Expected{}, Findings: []Finding{}}
	}
	top.Verdict, top.Reason = own.Verdict, own.Reason
	one, err := json.Marshal(top)
	other, unwritable := json.Marshal(own)
	if err != nil || unwritable != nil || !bytes.Equal(one, other) {
		d.wrong("", "says something else than the detail of "+InferencePerf, changed)
	}
	return v.Inference()
}

func (d *document) state(path string, s State, known []State) {
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	d.word(path, string(s), words)
}

// Verdict says whether a state is one that a run can come to.
func (s State) Verdict() bool { return slices.Contains(verdicts(), s) }

func verdicts() []State { return []State{Pass, Fail, Inconclusive, Invalid, Skip} }

func ledgerStates() []State { return []State{Pass, Fail, Inconclusive, NotJudged} }
