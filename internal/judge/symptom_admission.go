package judge

import "fmt"

const (
	admissionS     = 10.0 // how long, before it is told
	admissionFailS = 30.0 // how long, before someone should act: a very long prompt takes its time
	admissionKV    = 0.9  // of the KV cache: with more in use it is full, and waiting is right
	admissionRuns  = 0.5  // of the most that it or a peer ran: who runs more is busy
)

// admissionStalls finds workers that leave requests waiting though they have room:
// few run, most of the KV cache is free, and not one prompt is taken up. Tokens of
// the few may still flow.
func admissionStalls(w *window) []Symptom {
	most := 0.0
	for _, t := range w.workers {
		for i := range t.states {
			if s := &t.states[i]; s.gap == "" {
				most = max(most, orZero(s.running))
			}
		}
	}
	var all []Symptom
	for i, t := range w.workers {
		if w.stall[i] != nil || t.current(w.now) == nil {
			continue
		}
		var s *workerState
		n, from := 0, w.now
		for j := len(t.states) - 1; j >= 0; j-- {
			o := &t.states[j]
			if o.gap != "" {
				continue
			}
			if !(o.waiting > 0 && o.prompts == 0 && o.kv < admissionKV && o.running <= admissionRuns*most) {
				break
			}
			if s == nil {
				s = o
			}
			n, from = n+1, o.from
		}
		forS := seconds(w.now - from)
		if s == nil || n < stallRates || forS < admissionS || !s.made || s.tokens == 0 && !(s.running > 0) {
			continue
		}
		severity := Note
		if forS >= admissionFailS {
			severity = Fail
		}
		all = append(all, Symptom{Finding: "worker/stall", Severity: severity, Workers: []string{t.name}, SinceS: forS,
			Words: fmt.Sprintf("%s has taken up no prompt for %s: %s waiting%s, %s running of the %s that it or a peer ran before",
				workerWord(t.name), lasted(forS), amount(s.waiting), kvWords(s), amount(s.running), amount(most))})
	}
	return all
}
