package judge

import (
	"fmt"

	"aicr/internal/spec"
	"aicr/internal/stats"
)

// lostRequests are the requests of one part of a run, and how many of them failed.
type lostRequests struct {
	where        string // in a sentence: "in the look at half the load"
	failed, sent int
	unsure       bool // the client failed its own audit there: whose fault it was is not known
}

// over says that more failed than are allowed, and that chance does not explain it.
func (l lostRequests) over(th *spec.Thresholds) bool {
	if l.failed == 0 {
		return false
	}
	low, _ := stats.ClopperPearson(l.failed, l.sent, confidence)
	return low > th.ErrorShare
}

func (l lostRequests) words() string {
	low, high := stats.ClopperPearson(l.failed, l.sent, confidence)
	return fmt.Sprintf("%s of %s requests failed (%s %%, 95 %% between %s and %s %%)", grouped(float64(l.failed)), grouped(float64(l.sent)),
		twoDigits(100*float64(l.failed)/float64(l.sent)), twoDigits(100*low), twoDigits(100*high))
}

// outside are the requests of a run that are in no episode that counts, by part: those
// before the load, those of the look at half the load, those of episodes that were
// repeated. A frontend that dies there serves again by the next episode, and leaves no
// other trace in the figures. Parts without a failure are left out.
func (ev *Evidence) outside() (all []lostRequests) {
	for _, e := range ev.start.requests {
		if e.Want != nil && e.Have != nil && *e.Have < *e.Want {
			all = append(all, lostRequests{where: "before the load", failed: *e.Want - *e.Have, sent: *e.Want})
		}
	}
	if d := ev.half; d != nil && d.errors.failed > 0 {
		all = append(all, lostIn(d, "in the look at half the load"))
	}
	for _, d := range ev.invalid {
		if d.errors.failed > 0 {
			all = append(all, lostIn(d, fmt.Sprintf("in episode %d, which does not count", d.number)))
		}
	}
	return all
}

func lostIn(d *digest, where string) lostRequests {
	return lostRequests{where: where, failed: d.errors.failed, sent: d.requests.Sent - d.requests.Interrupted, unsure: !d.client.Valid}
}

// lostOutside is the worst part outside the episodes in which more requests failed than
// are allowed; nil: there is none. One of which the client is sure comes first.
func (ev *Evidence) lostOutside() (worst *lostRequests) {
	for _, l := range ev.outside() {
		if l.over(ev.th) && (worst == nil || worst.unsure && !l.unsure || worst.unsure == l.unsure && l.failed > worst.failed) {
			worst = &l
		}
	}
	return worst
}

// unsureLoss is why a run with failed requests outside its episodes is not called well,
// where they do not fail it: "" where nothing is held against it.
func (ev *Evidence) unsureLoss() string {
	if l := ev.lostOutside(); l != nil && l.unsure {
		return l.words() + " " + l.where + ", and the client failed its own audit there"
	}
	failed, sent := ev.failures()
	for _, l := range ev.outside() {
		if !l.unsure {
			failed, sent = failed+l.failed, sent+l.sent
		}
	}
	if float64(failed) > ev.th.ErrorShare*float64(sent) {
		return "more requests failed than are allowed, those outside the episodes included, though that may be chance: more load would tell"
	}
	return ""
}

// exampleOutside is what was said of a request that failed outside the episodes.
func (ev *Evidence) exampleOutside() string {
	if ev.half != nil && ev.half.errors.example != "" {
		return ev.half.errors.example
	}
	for _, d := range ev.invalid {
		if d.errors.example != "" {
			return d.errors.example
		}
	}
	for _, e := range ev.start.requests {
		if e.Text != "" {
			return e.Text
		}
	}
	return ""
}
