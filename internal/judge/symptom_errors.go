package judge

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

const (
	errorsS     = 10   // seconds that are looked at
	errorsOf    = 2    // and how many periods at the least
	errorsShare = 0.01 // of what ended
	errorsLeast = 3.0  // requests
)

// clients are the outcomes that a client makes: it left, or asked for what cannot
// be.
var clients = []string{"cancelled", "validation"}

// notFound is the client's mistake too, unless nothing is found: a frontend whose
// list of models is empty answers so for ever.
const notFound = "not_found"

// servingErrors finds frontends that fail requests.
func servingErrors(w *window) []Symptom {
	var all []Symptom
	for _, t := range w.frontends {
		kinds := map[string]float64{}
		served, failed := 0.0, 0.0
		look := w.span(errorsS, errorsOf)
		first := w.now // sample that counts a failure that is not a client's
		for i := t.since(w.now - int64(look)*second); i < len(t.states); i++ {
			s := &t.states[i]
			if s.gap != "" {
				continue
			}
			dt := seconds(s.t - s.from)
			served += orZero(s.served) * dt
			failed += orZero(s.failed) * dt
			for kind, r := range s.outcomes {
				if kind != "success" && r > 0 {
					kinds[kind] += r * dt
				}
			}
			if s.t < first && s.failsMore() {
				first = s.t
			}
		}
		for _, kind := range clients {
			failed -= kinds[kind]
		}
		if served > 0 {
			failed -= kinds[notFound]
		}
		failed = math.Round(failed)
		if failed < errorsLeast || failed <= errorsShare*(failed+served) {
			continue
		}
		words := fmt.Sprintf("the frontend failed %s of %s requests in the last %d s", amount(failed), amount(failed+served), look)
		if len(kinds) > 0 {
			var told []string
			for _, kind := range slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
				return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a, b))
			}) {
				told = append(told, fmt.Sprintf("%s %s", amount(math.Round(kinds[kind])), kind))
			}
			words += ": " + join(told)
		}
		all = append(all, Symptom{Finding: "serving/errors", Severity: Fail, Frontends: []string{t.name}, Words: words, SinceS: seconds(w.now - first)})
	}
	return all
}

// failsMore says whether requests failed that are not the clients' own.
func (s *frontendState) failsMore() bool {
	failed := s.failed
	for _, kind := range clients {
		failed -= s.outcomes[kind]
	}
	if s.served > 0 {
		failed -= s.outcomes[notFound]
	}
	return failed > 1e-6 // of floats that should come to nothing
}
