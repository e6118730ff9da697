package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// The uses of chance. Each draws from its own sequence, so that a change of one
// thing leaves the others as they were.
const (
	useJitter uint64 = iota + 1
	useRouting
	useHiccups
	useWindows
	useFates
	useTelemetry
	usePrompts
	useStamps
	useNames
	usePrefill
)

// chance makes the sequences of one episode of one seed.
type chance struct{ seed, episode uint64 }

func (c chance) of(use uint64) *rand.Rand {
	return rand.New(rand.NewPCG(c.seed, c.episode<<8|use))
}

// lognormal draws around a median.
func lognormal(r *rand.Rand, median, sd float64) float64 {
	return median * math.Exp(sd*r.NormFloat64())
}

// workerID is how the frontend names a worker: odd and above 2^53, so that a
// reader that makes floats of ids is found out. It is the deployment's, not the
// episode's.
func workerID(seed uint64, worker int) uint64 {
	return names(seed, worker).Uint64()>>1 | 1<<62 | 1
}

// gpuUUID is the name of a worker's GPU.
func gpuUUID(seed uint64, worker int) string {
	r := names(seed, worker)
	r.Uint64() // the worker's
	a, b := r.Uint64(), r.Uint64()
	return fmt.Sprintf("GPU-%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff)
}

func names(seed uint64, worker int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(worker)<<8|useNames))
}

// after is a time that lies ns nanoseconds ahead; what is not finite never comes.
func after(now time.Duration, ns float64) (time.Duration, bool) {
	if math.IsInf(ns, 1) || ns > float64(math.MaxInt64-int64(now))/2 {
		return 0, false
	}
	return now + time.Duration(math.Round(ns)), true
}
