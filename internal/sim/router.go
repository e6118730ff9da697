package sim

import "math/rand/v2"

// router is a policy by which the frontend chooses a worker.
type router interface {
	pick(v *view, s *Stream) int
}

// view is what the frontend knows when it chooses: its own counts, as Dynamo's
// keeps them, and nothing of what goes on inside the workers.
type view struct {
	workers []int   // those in its list; never empty
	load    []int32 // requests that each has and that are not yet answered in full
	credit  float64
	known   []*prefixes // what it believes of each worker's prefix cache
	rng     *rand.Rand
}

// policies lists every router. To add one: write its file, add its line here and
// in spec.Routers, and its row in docs/simulator.md.
func policies() map[string]func() router {
	return map[string]func() router{
		"round-robin":  func() router { return &roundRobin{} },
		"random":       func() router { return random{} },
		"power-of-two": func() router { return powerOfTwo{} },
		"least-loaded": func() router { return &leastLoaded{} },
		"kv":           func() router { return kvAware{} },
	}
}
