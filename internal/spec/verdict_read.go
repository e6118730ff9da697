package spec

import (
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
		d.state(join(element("expectations", i), "state"), e.State, append(verdicts(), NotJudged))
	}
	for i, f := range v.Findings {
		d.word(join(element("findings", i), "severity"), f.Severity, []string{SeverityFail, SeverityInvalid, SeverityNote})
	}
	if d.sound("ledgers") && len(v.Ledgers) == 0 {
		d.wrong("ledgers", "there is none", "a verdict has three")
	}
	for i, s := range v.Stalls {
		if !slices.Contains(r.numbers, s.Episode) {
			d.wrong(join(element("stalls", i), "episode"), fmt.Sprintf("there is no episode %d", s.Episode), "an episode was taken away, or the verdict is another run's")
		}
	}
	return v, d.in(name)
}

func (d *document) state(path string, s State, known []State) {
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	d.word(path, string(s), words)
}

func verdicts() []State { return []State{Pass, Fail, Inconclusive, Invalid, Skip} }

func ledgerStates() []State { return []State{Pass, Fail, Inconclusive, NotJudged} }
