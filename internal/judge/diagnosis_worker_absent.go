package judge

import (
	"fmt"
	"slices"

	"aicr/internal/spec"
)

// notReady is the reason of the event of a pod that runs and does not become ready, where
// nothing else is known of it.
const notReady = "NotReady"

// workerAbsent finds workers that are not there, that left, or that nobody sends
// anything to. Of a start that failed for a reason that is known, that no worker served
// is no news.
func workerAbsent(ev *Evidence) []spec.Finding {
	if !ev.loaded() && ev.start.notServed != nil && len(slices.Concat(draStale(ev), discoveryPanic(ev), podsFailed(ev))) > 0 {
		return nil
	}
	f := spec.Finding{Severity: spec.SeverityFail, Confidence: spec.ConfidenceVeryHigh,
		Advice: ev.advise(tip{cluster: "`kubectl get pods -o wide`: which worker's pod is missing or restarted?", endpoint: "does the worker's process run, and what is in its log?"},
			tip{cluster: "`kubectl describe pod POD`; `kubectl logs POD --previous`", endpoint: "ask it without what is between: `aicr bench --url WORKER_URL`"},
			tip{cluster: "a worker that was frozen for some 10 s leaves discovery and does not come back: restart it"})}
	holed := map[string]bool{}
	for _, d := range ev.looked() {
		for _, w := range holes(d) {
			holed[w] = true
		}
	}
	found := map[string]bool{}
	say := func(worker, format string, args ...any) {
		if holed[worker] {
			return
		}
		if !found[worker] {
			found[worker] = true
			f.Workers = append(f.Workers, worker)
		}
		f.Evidence = append(f.Evidence, fmt.Sprintf(format, args...))
	}
	for _, a := range ev.start.answers {
		if a.Reason == "silent" && a.Worker != "" && ev.loaded() {
			say(a.Worker, "worker %s never answered before the load", a.Worker)
		}
	}
	for _, e := range ev.start.pods {
		if e.Reason == notReady && e.Worker != "" && ev.start.notServed != nil {
			say(e.Worker, "worker %s never became ready: %s", e.Worker, shorten(e.Text))
		}
	}
	for _, e := range ev.start.pods {
		if ended(e) && e.Worker != "" && ev.loaded() {
			say(e.Worker, "worker %s: %s", e.Worker, shorten(e.Text))
		}
	}
	for _, d := range ev.looked() {
		for _, w := range d.workers {
			switch {
			case w.absent == neverThere && (d.allSeen(ev.plan.Point.Workers) || d.servedUnseen()):
				// As many served as there should be, or somebody did: it is the page that is wrong.
			case w.absent == neverThere:
				say(w.name, "%s: nobody answers in the place of worker %s", d.title(), w.name)
			case w.absent == left:
				say(w.name, "%s: worker %s served, and was gone from %.0f s on, or for a while", d.title(), w.name, w.goneS)
			case w.absent == answersNone:
				say(w.name, "%s: worker %s made no token, while up to %.0f requests waited for one that no other worker's page has", d.title(), w.name, w.waiting)
			case w.absent == neverServed && d.gross > 0 && ev.starved[w.name] == 0 && !(d.prefixHits() >= ev.th.PrefixHit):
				say(w.name, "%s: worker %s is there and got nothing to do", d.title(), w.name)
			}
		}
	}
	// Who is not even known by name. A client that only knows who served cannot have
	// missed one over a whole episode.
	missing, words := ev.unseenWorkers()
	if h := ev.start.haveWorkers; missing <= 0 && h != nil && ev.start.wantWorkers != nil && *h < *ev.start.wantWorkers && len(f.Workers) == 0 {
		missing = *ev.start.wantWorkers - *h
	}
	want := ev.plan.Point.Workers
	if want == 0 && ev.start.wantWorkers != nil {
		want = *ev.start.wantWorkers
	}
	if missing > 0 && len(words) == 0 {
		words = []string{fmt.Sprintf("%d of %d workers were never seen", missing, want)}
	}
	f.Evidence = append(f.Evidence, words...)
	if len(f.Evidence) == 0 {
		return nil
	}
	f.Workers = orderly(f.Workers)
	f.GPUs = ev.gpusOf(f.Workers)
	f.Summary = fmt.Sprintf("%d of %d workers never served", missing, want)
	if len(f.Workers) > 0 {
		f.Summary = several("worker", f.Workers) + " " + ev.howAbsent(f.Workers)
	}
	f.Evidence = firstOf(f.Evidence, 8)
	return []spec.Finding{f}
}

// howAbsent words the worst way in which workers are absent.
func (ev *Evidence) howAbsent(workers []string) string {
	gone := map[string]bool{}
	for _, e := range ev.start.pods {
		gone[e.Worker] = gone[e.Worker] || ended(e)
	}
	if !slices.ContainsFunc(workers, func(w string) bool { return !gone[w] }) {
		return "ended during the run"
	}
	if len(ev.looked()) == 0 && ev.start.notServed != nil {
		return "never became ready"
	}
	worst := stays
	for _, d := range ev.looked() {
		for _, w := range d.workers {
			if slices.Contains(workers, w.name) && w.absent != stays && (worst == stays || w.absent < worst) {
				worst = w.absent
			}
		}
	}
	switch worst {
	case neverThere:
		return verb(len(workers), "is", "are") + " not there"
	case left:
		return "ceased to serve"
	case answersNone:
		return verb(len(workers), "answers", "answer") + " none of the requests that " + verb(len(workers), "it has", "they have")
	case neverServed:
		return "got nothing to do"
	case stays:
	}
	return "never answered before the load"
}
