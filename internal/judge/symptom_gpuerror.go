package judge

import (
	"fmt"
	"math"
	"slices"
)

// brokenXIDs are the XIDs for which NVIDIA's catalogue (Xid errors, for Ampere and
// newer) asks for a reset of the GPU, a restart of the machine, or the replacement
// of a part; 94, whose memory error killed the one process that met it; and 171 and
// 172, which come with a 48 and would hide it, since an exporter tells the last.
var brokenXIDs = map[int]string{
	46:  "the GPU stopped processing",
	48:  "double-bit memory error",
	62:  "its microcontroller halted",
	64:  "a memory row could not be remapped",
	74:  "NVLink error",
	79:  "the GPU has fallen off the bus",
	94:  "contained memory error",
	95:  "uncontained memory error",
	109: "context switch timed out",
	110: "security fault",
	119: "its system processor does not answer",
	120: "its system processor failed",
	136: "link training failed",
	140: "unrecovered memory error",
	143: "it could not be initialized",
	156: "a part of it was retired",
	158: "fatal timeout",
	171: "uncorrectable memory error",
	172: "uncorrectable memory error on the chip",
}

// gpuErrors finds GPUs whose own counters say that they are broken, however many
// tokens they make.
func gpuErrors(w *window) []Symptom {
	var all []Symptom
	for i, t := range w.gpus {
		var xids []int
		since := w.now
		first, last, remap := math.NaN(), math.NaN(), false
		for j := range t.states {
			s := &t.states[j]
			if s.gap != "" {
				continue
			}
			if x := int(orZero(s.xid)); x != 0 && brokenXIDs[x] != "" {
				if !slices.Contains(xids, x) {
					xids = append(xids, x)
				}
				since = min(since, s.t)
			}
			if s.remap > 0 {
				remap = true
				since = min(since, s.t)
			}
			if math.IsNaN(first) {
				first = s.doubleBit
			}
			if !math.IsNaN(s.doubleBit) {
				last = s.doubleBit
			}
		}
		var words []string
		severity := Note
		for _, x := range xids {
			words = append(words, fmt.Sprintf("XID %d (%s)", x, brokenXIDs[x]))
			severity = Fail
		}
		if remap {
			words = append(words, "a memory row that could not be remapped")
			severity = Fail
		}
		switch {
		case last > first:
			words = append(words, counted(last-first, "new double-bit memory error"))
			severity = Fail
		case last > 0 && severity == Fail:
			words = append(words, counted(last, "double-bit memory error"))
		case last > 0:
			words = append(words, counted(last, "double-bit memory error")+" from before this watch")
		}
		if len(words) == 0 {
			continue
		}
		s := Symptom{Finding: "gpu/error", Severity: severity, GPUs: []string{t.name}, SinceS: seconds(w.now - since),
			Words: fmt.Sprintf("%s has %s", t.gpuWord(), join(words))}
		if k := w.workerOf[i]; k >= 0 {
			s.Workers = []string{w.workers[k].name}
			s.Words += "; " + workerWord(w.workers[k].name) + " is on it"
		}
		all = append(all, s)
	}
	return all
}
