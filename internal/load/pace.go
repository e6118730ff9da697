package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Schedule says when requests are sent. With a Rate it is an open loop:
// arrivals on an absolute time table that no slow answer moves. Without one it
// is a closed loop: Users, each of whom sends when the previous answer is whole.
type Schedule struct {
	Users int           // closed loop: requests in flight; open loop: most at once, 0 for no limit
	Ramp  time.Duration // closed loop: users start evenly over this time

	Rate       float64 // open loop: requests a second
	Pattern    Pattern
	Smoothness float64 // shape of Gamma: 1 is Poisson, larger is more even

	Count    int64         // stop after so many requests; 0: no such limit
	Duration time.Duration // stop sending after this time; 0: no such limit
}

func (s Schedule) open() bool { return s.Rate > 0 }

// empty reports a schedule that sends nothing: a run must be bounded on
// purpose, so neither Users nor Rate alone makes one.
func (s Schedule) empty() bool { return !s.open() && s.Users == 0 }

// Pattern is the law of an open loop's arrivals.
type Pattern uint8

// The laws. Constant arrivals are equally spaced; Poisson arrivals have
// exponential gaps; Gamma ones lie between the two, or beyond Poisson.
const (
	Constant Pattern = iota
	Poisson
	Gamma
)

var patternNames = [...]string{"constant", "poisson", "gamma"}

func (p Pattern) String() string { return patternNames[p] }

// ParsePattern finds a pattern by its name.
func ParsePattern(name string) (Pattern, error) {
	for i, n := range patternNames {
		if n == name {
			return Pattern(i), nil
		}
	}
	return 0, fmt.Errorf("unknown arrival pattern %q: want constant, poisson or gamma", name)
}

// arrivals gives the intended send times of an open loop, as nanoseconds since
// its start. The seed pins them all.
type arrivals struct {
	s    Schedule
	rng  *rand.Rand
	n    int64
	last float64
}

func newArrivals(s Schedule, seed uint64) *arrivals {
	return &arrivals{s: s, rng: rand.New(rand.NewPCG(seed, 0xa441_7a15))}
}

// next is the time of the next arrival. Constant arrivals are computed from
// their number, so that no rounding adds up.
func (a *arrivals) next() int64 {
	at := a.last
	mean := 1e9 / a.s.Rate
	a.n++
	switch a.s.Pattern {
	case Constant:
		a.last = float64(a.n) * mean
	case Poisson:
		a.last += a.rng.ExpFloat64() * mean
	case Gamma:
		a.last += gamma(a.rng, a.s.Smoothness) * mean / a.s.Smoothness
	}
	return int64(math.Round(at))
}

// dueBy counts the arrivals of the first so many nanoseconds.
func (s Schedule) dueBy(elapsed int64, seed uint64) (n int64) {
	table := newArrivals(s, seed)
	for (s.Count == 0 || n < s.Count) && table.next() < elapsed {
		n++
	}
	return n
}

// gamma draws from the gamma distribution of the given shape and scale 1, by
// Marsaglia and Tsang's squeeze (ACM TOMS 26, 2000).
func gamma(rng *rand.Rand, shape float64) float64 {
	boost := 1.0
	if shape < 1 {
		boost = math.Pow(rng.Float64(), 1/shape)
		shape++
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return boost * d * v
		}
	}
}

// userStart is when the closed loop's user u sends for the first time.
func (s Schedule) userStart(u int) int64 {
	return int64(s.Ramp) * int64(u) / int64(max(1, s.Users))
}
