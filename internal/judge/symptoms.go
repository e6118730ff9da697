package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The severities of a symptom.
const (
	Fail = "fail" // someone should act
	Note = "note" // someone should know
)

// Symptom is what is off now, in words.
type Symptom struct {
	Finding  string // an id of spec.FindingIDs
	Severity string // Fail or Note

	Workers, GPUs    []string // the names of whom it is about
	Nodes, Frontends []string

	Words  string  // a plain sentence with the numbers, and how long
	SinceS float64 // for how long it has been so, as far as is known
}

func (s *Symptom) weight() int {
	if s.Severity == Fail {
		return 2
	}
	return 1
}

// rule is one thing that can be off. It is a function of what was seen: the same
// window gives the same symptoms.
type rule struct {
	name     string   // its section in docs/symptoms.md
	findings []string // that it can tell
	look     func(*window) []Symptom
}

// rules lists them. To add one, write its file, its line here, its section in
// docs/symptoms.md, and a table with what it must see and the nearest thing that it
// must not.
func rules() []rule {
	return []rule{
		{"A worker stands still", []string{"worker/stall"}, workerStalls},
		{"A worker admits nothing", []string{"worker/stall"}, admissionStalls},
		{"A worker has made no token yet", []string{"start/cold", "start/timeout"}, coldWorkers},
		{"A worker does not answer", []string{"worker/absent", "worker/stall", "telemetry/gap"}, unansweredWorkers},
		{"A worker starts anew", []string{"worker/absent"}, restarts},
		{"A worker is slow", []string{"worker/slow"}, slowWorkers},
		{"A worker gets nothing to do", []string{"worker/absent", "worker/stall"}, idleWorkers},
		{"A worker fails what it is sent", []string{"worker/black-hole"}, blackHoles},
		{"A worker runs out of KV cache", []string{"load/kv-full"}, fullCaches},
		{"The fleet stands still", []string{"fleet/stall"}, fleetStalls},
		{"Requests fail", []string{"serving/errors"}, servingErrors},
		{"No tokens are served", []string{"serving/no-tokens"}, noTokens},
		{"A GPU is broken", []string{"gpu/error"}, gpuErrors},
		{"A GPU throttles", []string{"gpu/throttle"}, gpuThrottles},
		{"A node is short of CPU", []string{"fleet/slow-host"}, shortNodes},
		{"A source is silent", []string{"telemetry/gap", "serving/no-tokens"}, silentSources},
	}
}

// symptoms is all that is off, worst first.
func symptoms(w *window) []Symptom {
	w.stall = stallsOf(w)
	if nobody := nobodyHeard(w); nobody != nil {
		return nobody
	}
	var all []Symptom
	for _, r := range rules() {
		all = append(all, r.look(w)...)
	}
	slices.SortStableFunc(all, func(a, b Symptom) int {
		return cmp.Or(cmp.Compare(b.weight(), a.weight()), cmp.Compare(b.SinceS, a.SinceS))
	})
	return all
}

// lasted words a time: 6 s, 4 min.
func lasted(s float64) string {
	switch {
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 7200:
		return fmt.Sprintf("%.0f min", s/60)
	}
	return fmt.Sprintf("%.1f h", s/3600)
}

// amount words a number with as many digits as say something.
func amount(v float64) string {
	switch {
	case math.IsNaN(v):
		return "?"
	case v != 0 && math.Abs(v) < 10 && v != math.Trunc(v):
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// counted words a number of things.
func counted(v float64, one string) string {
	if amount(v) == "1" {
		return "1 " + one
	}
	return amount(v) + " " + one + "s"
}

func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }

// requests words what a worker says that it has.
func (s *workerState) requests() string {
	var parts []string
	add := func(v float64, what string) {
		if !math.IsNaN(v) {
			parts = append(parts, amount(v)+" "+what)
		}
	}
	add(s.running, "running")
	if s.waiting > 0 {
		add(s.waiting, "waiting")
	}
	if s.inFlight > orZero(s.running)+orZero(s.waiting) || math.IsNaN(s.running) {
		add(s.inFlight, "in flight")
	}
	if len(parts) == 0 {
		return "an unknown number of requests"
	}
	return join(parts)
}

// join words a list.
func join(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// several words names: all of a few, the first of many.
func several(one string, names []string) string {
	const most = 4
	if len(names) == 1 {
		return one + " " + names[0]
	}
	if len(names) > most {
		return fmt.Sprintf("%d %ss (%s, …)", len(names), one, strings.Join(names[:most], ", "))
	}
	return one + "s " + join(names)
}

// workerWord is a worker in a sentence.
func workerWord(name string) string { return "worker " + name }

// gpuWord is a GPU in a sentence: by its number where that is known, since nobody
// reads a UUID aloud.
func (t *gpuTrack) gpuWord() string { return "GPU " + t.short() }

func (t *gpuTrack) short() string {
	name := strings.TrimPrefix(t.name, "GPU-")
	if len(name) > 8 {
		name = name[:8]
	}
	switch {
	case t.index != "" && t.node != "":
		return t.index + " of " + t.node
	case t.index != "":
		return t.index
	}
	return name
}
