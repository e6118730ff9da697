//go:build unix

package sim

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"aicr/internal/spec"
)

// cpu is what this process has used so far.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// playEpisodes tells how many seconds of a fleet a second of one CPU plays, and
// what a second of one worker costs.
func playEpisodes(b *testing.B, s *spec.Scenario) {
	b.ReportAllocs()
	before, played := cpu(b), 0.0
	for seed := uint64(0); b.Loop(); seed++ {
		if _, err := Play(b.Context(), s, seed, 1, Load{}); err != nil {
			b.Fatal(err)
		}
		played += s.Load.Episode.D().Seconds()
	}
	used := cpu(b) - before
	b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/episode")
	b.ReportMetric(played/used.Seconds(), "sim-s/cpu-s")
	b.ReportMetric(float64(used.Nanoseconds())/played/float64(s.Fleet.Workers), "cpu-ns/worker-s")
}

// BenchmarkEpisode is the default operating point: 8 workers, 1024 in flight,
// 50 s.
func BenchmarkEpisode(b *testing.B) {
	s, _ := spec.NewScenario("bench", "h100-eks")
	playEpisodes(b, s)
}

// The frontend costs nothing here, so that each worker of a large fleet is as
// busy as one of a small: a second of a worker must then cost the same in all.
func BenchmarkEpisodeWorkers(b *testing.B) {
	for _, workers := range []int{8, 16, 32, 64, 128} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			s, _ := spec.NewScenario("bench", "h100-eks")
			s.Fleet.Workers, s.Fleet.Frontend = workers, spec.FrontendCost{}
			s.Load.Ramp, s.Load.Episode = spec.Duration(time.Second), spec.Duration(10*time.Second)
			playEpisodes(b, s)
		})
	}
}
