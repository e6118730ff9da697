package judge

import (
	"fmt"
	"math"
)

const (
	noTokensS     = 10  // how long
	noTokensOf    = 2   // and how many periods at the least
	noTokensLeast = 3.0 // answers
)

// noTokens finds frontends whose answers have no tokens, and those that have
// requests under way and pass no token on when no worker can be asked why.
func noTokens(w *window) []Symptom {
	if all := emptyAnswers(w); len(all) > 0 {
		return all
	}
	for _, t := range w.workers {
		if t.current(w.now) != nil {
			return nil
		}
	}
	var all []Symptom
	for _, t := range w.frontends {
		s := t.current(w.now)
		if s == nil || s.tokens != 0 || s.barrenS < noTokensS {
			continue
		}
		found := Symptom{Finding: "serving/no-tokens", Severity: Fail, Frontends: []string{t.name}, SinceS: s.barrenS,
			Words: fmt.Sprintf("the frontend has %s requests under way and has passed no token on for %s; no worker tells why", amount(s.inFlight), lasted(s.barrenS))}
		if !s.made && s.barrenS < coldTimeoutS {
			found.Severity = Note
			found.Words = fmt.Sprintf("the frontend has %s requests under way and has passed on no token yet, for %s: a cold start may take minutes; no worker tells more",
				amount(s.inFlight), lasted(s.barrenS))
		}
		all = append(all, found)
	}
	return all
}

func emptyAnswers(w *window) []Symptom {
	var all []Symptom
	for _, t := range w.frontends {
		served, tokens, known := 0.0, 0.0, false
		look := w.span(noTokensS, noTokensOf)
		for i := t.since(w.now - int64(look)*second); i < len(t.states); i++ {
			if s := &t.states[i]; s.gap == "" && !math.IsNaN(s.tokens) && !math.IsNaN(s.served) {
				served += s.served * seconds(s.t-s.from)
				tokens += s.tokens
				known = true
			}
		}
		if known && tokens == 0 && served >= noTokensLeast {
			all = append(all, Symptom{Finding: "serving/no-tokens", Severity: Fail, Frontends: []string{t.name}, SinceS: float64(look),
				Words: fmt.Sprintf("the frontend served %s in the last %s, and not one token", counted(served, "request"), lasted(float64(look)))})
		}
	}
	return all
}
