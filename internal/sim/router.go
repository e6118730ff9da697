package sim

import (
	"math/rand/v2"
	"slices"

	"aicr/internal/spec"
)

// router is a policy by which the frontend chooses a worker.
type router interface {
	pick(v *view, s *Stream) int
}

// view is what the frontend knows when it chooses: its own counts, as Dynamo's
// keeps them, and nothing of what goes on inside the workers.
type view struct {
	router  router
	workers []int   // those in its list; never empty when it chooses
	load    []int32 // requests that each has and that are not yet answered in full
	levels  [][]int // the workers in the list by their load, so that the least loaded are found at once
	place   []int   // where each stands in its level; -1 for who is not in the list
	least   int32   // below it no level has anybody
	credit  float64
	known   []*prefixes // what it believes of each worker's prefix cache
	rng     *rand.Rand
}

func newView(fleet *spec.Fleet, rng *rand.Rand) view {
	v := view{router: policies()[fleet.Router](), load: make([]int32, fleet.Workers), credit: fleet.KVCredit,
		known: make([]*prefixes, fleet.Workers), rng: rng}
	for i := range v.known {
		v.known[i] = newPrefixes()
	}
	return v
}

// has says whether a worker is in the list.
func (v *view) has(w int) bool { return v.place[w] >= 0 }

// listAnew says who is in the list, where that is new.
func (v *view) listAnew(workers []int) {
	if !slices.Equal(workers, v.workers) || v.place == nil {
		v.list(workers)
	}
}

// list says who is in the frontend's list from now on.
func (v *view) list(workers []int) {
	v.workers = workers
	v.place = slices.Repeat([]int{-1}, len(v.load))
	for i := range v.levels {
		v.levels[i] = v.levels[i][:0]
	}
	v.least = 0
	for _, w := range workers {
		v.enter(w)
	}
}

// count adds to the requests that a worker has.
func (v *view) count(w int, by int32) {
	listed := v.has(w)
	if listed {
		level := v.levels[v.load[w]]
		last := level[len(level)-1]
		level[v.place[w]], v.place[last] = last, v.place[w]
		v.levels[v.load[w]] = level[:len(level)-1]
	}
	v.load[w] += by
	if listed {
		v.enter(w)
	}
}

// enter puts a worker at the end of its level.
func (v *view) enter(w int) {
	l := v.load[w]
	for int(l) >= len(v.levels) {
		v.levels = append(v.levels, nil)
	}
	v.place[w] = len(v.levels[l])
	v.levels[l] = append(v.levels[l], w)
	v.least = min(v.least, l)
}

// leastLoaded are the workers with the fewest requests.
func (v *view) leastLoaded() []int {
	for len(v.levels[v.least]) == 0 {
		v.least++
	}
	return v.levels[v.least]
}

// policies lists every router. To add one: write its file, add its line here and
// in spec.Routers, and its row in docs/simulator.md.
func policies() map[string]func() router {
	return map[string]func() router{
		"round-robin":  func() router { return &roundRobin{} },
		"random":       func() router { return random{} },
		"power-of-two": func() router { return powerOfTwo{} },
		"least-loaded": func() router { return leastLoaded{} },
		"kv":           func() router { return kvAware{} },
	}
}
