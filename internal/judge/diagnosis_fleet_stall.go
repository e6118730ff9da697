package judge

import (
	"fmt"

	"aicr/internal/spec"
)

// fleetStands finds that everything stood still at once: the frontend, the host or the
// network, and no one worker.
func fleetStands(ev *Evidence) []spec.Finding {
	f := spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceMedium,
		Advice: ev.advise(tip{any: "look at the frontend's CPU, at interrupts and at isolcpus on its node"},
			tip{cluster: "`kubectl top pod`; `cat /proc/pressure/cpu` on the node", endpoint: "`top -H` and `cat /proc/pressure/cpu` on the frontend's machine"}, tip{any: "add a frontend replica"})}
	n, longest := 0, 0
	for _, d := range ev.episodes {
		for _, s := range d.stalls {
			if s.worker == "" {
				n++
				longest = max(longest, s.until-s.from)
				f.Evidence = append(f.Evidence, s.words(d.number))
			}
		}
	}
	if n == 0 {
		return nil
	}
	times := "once"
	if n > 1 {
		times = fmt.Sprintf("%d times", n)
	}
	who := "the whole fleet"
	if !ev.toldApart() {
		who = "the fleet, or a part of it," // a share of the streams was held up, and nobody tells whose
	}
	f.Summary = fmt.Sprintf("%s stood still %s in %.1f min of load, for up to %d s", who, times, ev.tests.stalls.minutes, longest)
	if t := &ev.tests.stalls; ev.gates() && (t.fleetState() == spec.Fail || t.allState() == spec.Fail && t.single == 0) {
		f.Severity = spec.SeverityFail
	}
	f.Evidence = firstOf(f.Evidence, 12)
	return []spec.Finding{f}
}
