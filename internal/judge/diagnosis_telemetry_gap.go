package judge

import (
	"fmt"
	"math"
	"slices"

	"aicr/internal/spec"
)

// telemetryGap finds that the workers were not seen for a part of the time, or that
// the two witnesses tell of different things.
func telemetryGap(ev *Evidence) []spec.Finding {
	asked, lost := 0, 0
	var off []string
	unjoined := false
	for _, d := range ev.episodes {
		asked += d.asked
		lost += d.lost
		unjoined = unjoined || d.unjoined
		off = append(off, ev.disagree(d)...)
	}
	advice := []string{"ask the metrics pages yourself: `curl PAGE`", "`aicr watch --url URL --worker-metrics PAGE` says which page does not answer, and why"}
	var all []spec.Finding
	if share := float64(lost) / float64(max(1, asked)); share > ev.th.TelemetryLost {
		all = append(all, spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceVeryHigh,
			Summary:  fmt.Sprintf("%s of the workers' samples are missing: what happened meanwhile is not known", percent(share)),
			Evidence: []string{fmt.Sprintf("%s of %s samples did not come; %s are allowed", grouped(float64(lost)), grouped(float64(asked)), percent(ev.th.TelemetryLost))}, Advice: advice})
	}
	for _, w := range ev.deadPages() {
		seen := fmt.Sprintf("the client saw %d of %d workers serve", ev.plan.Point.Workers, ev.plan.Point.Workers)
		if !slices.ContainsFunc(ev.episodes, func(d *digest) bool { return d.named }) {
			seen = "the fleet served"
		}
		off = append(off, fmt.Sprintf("nobody answers at the page of worker %s, and %s", w, seen))
	}
	if unjoined {
		off = append(off, "the client and the metrics pages name the workers differently, so that they cannot be joined")
	}
	if len(off) > 0 {
		all = append(all, spec.Finding{Severity: spec.SeverityNote, Confidence: spec.ConfidenceMedium,
			Summary: "the client's record and telemetry disagree", Evidence: firstOf(off, 8),
			Advice: append([]string{"a page that tells old numbers, or a name that two workers share, looks like this"}, advice...)})
	}
	return all
}

// allSeen says whether so many workers were seen to serve, by the client but for those that
// it cannot see.
func (d *digest) allSeen(want int) bool {
	n := 0
	for _, w := range d.workers {
		if d.named && (w.seen > 0 || w.group.role == spec.RolePrefill && w.made > 0) {
			n++
		}
	}
	return want > 0 && n >= want
}

// servedUnseen says whether the fleet served although nobody answered at the page of any
// worker, and answers do not name who serves: then the pages are not those of the workers.
func (d *digest) servedUnseen() bool {
	return !d.named && d.gross > 0 && !slices.ContainsFunc(d.workers, func(w *workerDigest) bool { return w.absent != neverThere })
}

// deadPages are the pages at which nobody answers although every worker serves.
func (ev *Evidence) deadPages() []string {
	var all []string
	for _, d := range ev.episodes {
		for _, w := range d.workers {
			if w.absent == neverThere && (d.allSeen(ev.plan.Point.Workers) || d.servedUnseen()) {
				all = append(all, w.name)
			}
		}
	}
	return orderly(all)
}

// disagree is where the client's record and telemetry of the same workers differ.
func (ev *Evidence) disagree(d *digest) []string {
	workers := slices.DeleteFunc(slices.Clone(d.workers), func(w *workerDigest) bool { return w.group.role == spec.RolePrefill }) // whom no client sees
	if !d.told || d.unjoined || !d.judgeable(ev.th) || !d.toldWhole(workers) {
		return nil
	}
	var told, seen float64
	for _, w := range workers {
		told += w.told
		seen += w.seen
	}
	if !d.named {
		// Others may load the fleet too, so that pages may tell of more: not of less.
		if told < (1-ev.th.WitnessesOff)*d.arrived {
			return []string{fmt.Sprintf("%s: the metrics pages counted %s of the %s tokens that the client received: "+
				"not every worker has its page among them", d.title(), grouped(told), grouped(d.arrived))}
		}
		return nil
	}
	if told <= 0 || seen <= 0 {
		return nil
	}
	var all []string
	n := float64(len(workers))
	for _, w := range workers {
		if a, b := w.told/told*n, w.seen/seen*n; math.Abs(a-b) > ev.th.WitnessesOff {
			all = append(all, fmt.Sprintf("episode %d: worker %s made %.2f of a fair share by telemetry, %.2f by the client", d.number, w.name, a, b))
		}
	}
	return all
}

// gap says whether too much telemetry is missing for a PASS, or is not to be believed.
func (ev *Evidence) gap() bool {
	if len(ev.deadPages()) > 0 {
		return true
	}
	asked, lost, disputed := 0, 0, 0
	for _, d := range ev.episodes {
		asked += d.asked
		lost += d.lost
		if len(ev.disagree(d)) > 0 {
			disputed++
		}
	}
	if disputed >= 2 && 2*disputed >= len(ev.episodes) {
		return true
	}
	return float64(lost) > ev.th.TelemetryLost*float64(max(1, asked))
}
