package judge

import (
	"fmt"
	"slices"

	"aicr/internal/spec"
)

// gpuBroken finds GPUs whose own counters say that they are broken, however many
// tokens they make.
func gpuBroken(ev *Evidence) []spec.Finding {
	type state struct {
		words []string
		fail  bool
	}
	by := map[string]*state{}
	var order []string
	workers := map[string]string{}
	first := map[string]float64{}
	for _, d := range ev.looked() {
		for _, g := range d.gpus {
			s := by[g.name]
			if s == nil {
				s = &state{}
				by[g.name] = s
				order = append(order, g.name)
				first[g.name] = g.firstDBE
			}
			workers[g.name] = g.worker
			say := func(fail bool, format string, args ...any) {
				words := fmt.Sprintf(format, args...)
				if slices.Contains(s.words, words) {
					return
				}
				s.words, s.fail = append(s.words, words), s.fail || fail
			}
			for _, x := range g.xids {
				say(true, "XID %d (%s)", x, brokenXIDs[x])
			}
			if g.remap {
				say(true, "a memory row that could not be remapped")
			}
			switch {
			case g.lastDBE > first[g.name]:
				say(true, "new double-bit memory errors during the run")
			case g.lastDBE > 0:
				say(true, "%s that its counters hold", counted(g.lastDBE, "double-bit memory error"))
			}
		}
	}
	f := spec.Finding{Severity: spec.SeverityFail, Confidence: spec.ConfidenceVeryHigh,
		Advice: []string{"drain the node, reset the GPU, and replace it when it comes again", "`nvidia-smi -q -d ECC,ROW_REMAPPER -i GPU`", "`dmesg | grep -i xid`"}}
	for _, name := range order {
		if s := by[name]; s.fail {
			f.GPUs = append(f.GPUs, name)
			if w := workers[name]; w != "" && !slices.Contains(f.Workers, w) {
				f.Workers = append(f.Workers, w)
			}
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s has %s", gpuOfWorker(name, workers[name]), join(s.words)))
		}
	}
	if len(f.GPUs) == 0 {
		return nil
	}
	f.Summary = f.Evidence[0]
	if n := len(f.GPUs); n > 1 {
		f.Summary = fmt.Sprintf("%d GPUs are broken by their own counters", n)
	}
	f.Evidence = firstOf(f.Evidence, mostBroken) // an exporter may name others each time
	return []spec.Finding{f}
}

// mostBroken is of how many GPUs the evidence is told: all of a node that has lost its switch.
const mostBroken = 16

// gpuOfWorker is a GPU in a sentence, with whose it is.
func gpuOfWorker(gpu, worker string) string {
	if worker == "" {
		return "GPU " + gpu
	}
	return fmt.Sprintf("the GPU of worker %s (%s)", worker, gpu)
}
