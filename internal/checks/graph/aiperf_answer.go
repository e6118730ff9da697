package graph

import "aicr/internal/spec"

// LoadAnswer is what came of waiting for a first answer before AIPerf was begun.
type LoadAnswer struct {
	Tokens  int     `json:"tokens"`
	Seconds float64 `json:"seconds"`          // that the answer took; without one, that it was waited for
	Tries   int     `json:"tries"`            // requests that were sent
	Reason  string  `json:"reason,omitempty"` // how the last of them failed, as a class of the load; "": it was answered
}

// events are what a record keeps of a first answer, as of that of this program's own load.
// A line that does not tell has none.
func (l *LoadLine) events(source string) []spec.Event {
	if l == nil || l.Answer == nil {
		return nil
	}
	a := *l.Answer
	if a.Reason == "" {
		return []spec.Event{{T: l.T, Kind: spec.EventAnswer, Source: source, Tokens: &a.Tokens, Seconds: &a.Seconds}}
	}
	none, text := 0, sentence(l.Text, 400)
	return []spec.Event{
		{T: l.T, Kind: spec.EventAnswer, Source: source, Reason: a.Reason, Text: text, Tokens: &none},
		{T: l.T, Kind: spec.EventNotServed, Source: source, Reason: a.Reason, Text: text, Count: a.Tries, Seconds: &a.Seconds},
	}
}
