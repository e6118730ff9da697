package sim

import (
	"time"

	"aicr/internal/spec"
)

// The names of what there is one of.
const (
	NodeName     = "node-0"
	frontendName = "frontend"
)

// appendSamples writes a snapshot as an observer would have it.
func appendSamples(to []spec.Sample, t time.Duration, s Snapshot, names []string) []spec.Sample {
	sample := func(source, name string) *spec.Sample {
		to = append(to, spec.Sample{T: int64(t), Source: source, Name: name})
		return &to[len(to)-1]
	}
	for i := range s.Workers {
		w := &s.Workers[i]
		line := sample(spec.SourceWorker, names[i])
		switch {
		case !w.Present:
			line.Gap = spec.GapRefused
		case w.Missing:
			line.Gap = "not delivered"
		default:
			line.Worker = &spec.WorkerSample{
				Running: value(w.Running), Waiting: value(w.Waiting), KVUsage: &w.KVUsage,
				Generated: value(w.Generated), PromptTokens: value(w.PromptTokens),
				PrefixQueries: value(w.PrefixQueries), PrefixHits: value(w.PrefixHits),
				Preemptions: value(w.Preemptions), Role: w.Role,
			}
			if line.Worker.GPUs = w.GPUs; len(w.GPUs) == 1 {
				line.Worker.GPU, line.Worker.GPUs = w.GPUs[0], nil
			}
		}
	}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		line := sample(spec.SourceGPU, g.UUID)
		if g.Missing {
			line.Gap = "not delivered"
			continue
		}
		failed := 0
		if g.RemapFailure {
			failed = 1
		}
		reasons := append([]string{}, g.Throttle...)
		line.GPU = &spec.GPUSample{Utilization: &g.Utilization, PowerW: &g.PowerW, SMClockMHz: &g.SMClockMHz,
			TemperatureC: &g.TemperatureC, XID: value(g.XID), DoubleBit: value(g.DoubleBit), RemapFailure: value(failed), Throttle: &reasons}
	}
	node := sample(spec.SourceNode, NodeName)
	if s.Node.Missing {
		node.Gap = "not delivered"
	} else {
		node.Node = &spec.NodeSample{CPUPressure: &s.Node.CPUPressure, MemoryPressure: &s.Node.MemoryPressure, IOPressure: &s.Node.IOPressure}
	}
	fe := &s.Frontend
	sample(spec.SourceFrontend, frontendName).Frontend = &spec.FrontendSample{InFlight: value(fe.InFlight), Queued: value(fe.Queued),
		Served: value(fe.Served), Failed: value(fe.Failed), Tokens: value(fe.Tokens)}
	return to
}

func value[N int | int64](n N) *float64 {
	v := float64(n)
	return &v
}
