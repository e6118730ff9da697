package judge

import (
	"fmt"
	"testing"
	"time"

	"aicr/internal/spec"
)

// large is a second of a fleet of 64 workers and 64 GPUs.
func large(s int64, stalled bool) []spec.Sample {
	const n = 64
	all := make([]spec.Sample, 0, 2*n+2)
	for i := range n {
		tokens := 5000.0 * float64(s)
		if stalled && i%8 == 0 {
			tokens = 5000.0 * float64(min(s, 60))
		}
		gpu := fmt.Sprintf("GPU-%08d", i)
		t := s*second + int64(i)*second/100
		all = append(all,
			spec.Sample{T: t, Source: spec.SourceWorker, Name: fmt.Sprint(i), Instance: fmt.Sprintf("h%d:9090", i), Worker: &spec.WorkerSample{
				Running: new(128.0), Waiting: new(0.0), InFlight: new(128.0), KVUsage: new(0.3), Generated: &tokens, Ended: new(float64(s * 40)), Failed: new(0.0), GPU: gpu}},
			spec.Sample{T: t, Source: spec.SourceGPU, Name: gpu, Instance: "h:9400", GPU: &spec.GPUSample{Utilization: new(0.9), PowerW: new(600.0),
				SMClockMHz: new(1980.0), TemperatureC: new(60.0), XID: new(0.0), DoubleBit: new(0.0), RemapFailure: new(0.0), Throttle: &[]string{"power_cap"}}})
	}
	return append(all,
		spec.Sample{T: s * second, Source: spec.SourceNode, Name: "node-0", Node: &spec.NodeSample{CPUPressure: new(0.01)}},
		spec.Sample{T: s * second, Source: spec.SourceFrontend, Name: "frontend", Frontend: &spec.FrontendSample{InFlight: new(8192.0), Queued: new(0.0),
			Served: new(float64(s * 2560)), Failed: new(0.0), Tokens: new(float64(s * 320000)), Outcomes: map[string]float64{"success": float64(s * 2560)}}})
}

func BenchmarkPicture(b *testing.B) {
	for name, stalled := range map[string]bool{"healthy": false, "8 stalled": true} {
		b.Run(name, func(b *testing.B) {
			l := NewLive(time.Second)
			for s := range int64(130) {
				for _, one := range large(s, stalled) {
					l.Add(one)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if p := l.Picture(129*second + 9*second/10); (len(p.Symptoms) > 0) != stalled {
					b.Fatalf("%+v", p.Symptoms)
				}
			}
		})
	}
}

func BenchmarkAdd(b *testing.B) {
	l := NewLive(time.Second)
	s := int64(0)
	batch := large(s, false)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i == len(batch) {
			b.StopTimer()
			s++
			batch, i = large(s, false), 0
			b.StartTimer()
		}
		l.Add(batch[i])
	}
}
