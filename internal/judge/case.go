package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"aicr/internal/spec"
)

// Case is a run under judgement: what has been heard of it so far. It keeps a
// digest of each episode, not the episode. It is not for use by several
// goroutines at once.
type Case struct {
	plan   *spec.Plan
	events []spec.Event
	half   *digest
	all    []*digest
	past   past
	latest *digest // of the episode that was added last
}

// NewCase has heard nothing.
func NewCase(p *spec.Plan) *Case {
	return &Case{plan: p, past: past{workers: map[string]float64{}}}
}

// Hear takes what happened besides load.
func (c *Case) Hear(events ...spec.Event) { c.events = append(c.events, events...) }

// Add takes an episode. The look at half the load is number 0; a repeated one has
// the number that follows.
func (c *Case) Add(r *spec.EpisodeRecord) {
	if r.Episode.Number == 0 {
		c.half = digestOf(c.plan, r, &past{})
		c.latest = c.half
		return
	}
	if ref := c.plan.Reference; ref != nil { // of the plan as it is now: the number of workers may have been found since
		c.past.fleet = max(c.past.fleet, ref.Throughput)
	}
	d := digestOf(c.plan, r, &c.past)
	c.latest = d
	c.all = append(c.all, d)
	if d.judgeable(&c.plan.Thresholds) && d.client.Valid {
		c.past.fleet = max(c.past.fleet, d.throughput.value)
	}
	for _, w := range d.workers {
		c.past.workers[w.name] = max(c.past.workers[w.name], w.best)
	}
}

// Next says that the case is not decided yet, and why one more episode is wanted.
type Next struct {
	Why   string // what would end it
	Retry string // the remedy, when an episode was invalid and is repeated
}

// Judge is the verdict on a whole run.
func Judge(p *spec.Plan, events []spec.Event, episodes ...*spec.EpisodeRecord) *spec.Verdict {
	c := NewCase(p)
	c.Hear(events...)
	for _, e := range episodes {
		c.Add(e)
	}
	v, _ := c.Verdict()
	return v
}

// LedgerOf is the ledger that decided a verdict of FAIL; "" where none did.
func LedgerOf(v *spec.Verdict) string {
	if v.Verdict != spec.Fail {
		return ""
	}
	for _, f := range v.Findings {
		if l := ledgerOf(f.ID); f.Severity == spec.SeverityFail && l != "" {
			return l
		}
	}
	for _, l := range v.Ledgers {
		if l.State == spec.Fail {
			return l.Name
		}
	}
	return ""
}

// Verdict says what has been heard so far means, with a result of each check that the
// recipe declares. It is decided when Next is nil; otherwise the verdict is that of a run
// that ends here: never PASS.
func (c *Case) Verdict() (*spec.Verdict, *Next) {
	if !Loads(c.plan) {
		return Conclude(c.plan, nil, 0), nil
	}
	v, next := c.inference()
	last := 0.0
	for _, e := range c.events {
		last = max(last, e.T)
	}
	return Conclude(c.plan, v, last), next
}

// Loads says whether a plan has inference-perf run: without checks it is all that there is.
func Loads(p *spec.Plan) bool {
	return len(p.Checks) == 0 || slices.ContainsFunc(p.Checks, func(k spec.PlannedCheck) bool { return k.Name == spec.InferencePerf && k.Runs })
}

// inference is the verdict of inference-perf.
func (c *Case) inference() (*spec.Verdict, *Next) {
	if v := c.withdrawn(); v != nil {
		return v, nil
	}
	ev := evidenceOf(c.plan, c.events, c.half, c.all)
	if c.plan.Profile == spec.ProfileClassic {
		return classic(ev), nil
	}
	found := findings(ev)
	state, next := ev.decide(found)
	v := &spec.Verdict{Schema: spec.VerdictSchema, Verdict: state, Profile: c.plan.Profile, Findings: sorted(found, state),
		Episodes: len(ev.episodes), LoadedS: round(ev.tests.stalls.minutes*60, 3),
		Expectations: ev.expectations(), Figures: ev.figures(), Tests: ev.walks(), Stalls: ev.stallList(), Parts: ev.parts(), Notes: ev.notes()}
	v.Ledgers = ev.ledgers(v.Findings)
	v.Reason = ev.reason(v, next)
	ev.readable(v, next)
	return v, next
}

// gates says whether the rate of stalls decides.
func (ev *Evidence) gates() bool {
	return ev.plan.Stability != spec.StabilityReport && !ev.claims.CameAtOnce()
}

// blindToStalls is why stability cannot be judged, where it should be.
const blindToStalls = "stability was not judged: most answers came in one event, in which no stall can be seen"

// toldApart says whether anybody tells the workers apart, so far as there are
// several.
func (ev *Evidence) toldApart() bool {
	if ev.plan.Point.Workers == 1 {
		return true
	}
	for _, d := range ev.episodes {
		if d.named || d.told && len(d.workers) > 1 {
			return true
		}
	}
	return false
}

// decide is the law: hardware and workers before the instrument, the instrument
// before stalls, stalls before what the load was, that before figures; and the worst
// ledger.
func (ev *Evidence) decide(found []spec.Finding) (spec.State, *Next) {
	worst := map[string]bool{}    // of ledgers that failed
	invalid, load := false, false // the instrument, and the load that it was told to make
	for _, f := range found {
		switch {
		case f.Severity == spec.SeverityFail:
			worst[ledgerOf(f.ID)] = true
		case f.Severity == spec.SeverityInvalid && strings.HasPrefix(f.ID, "load/"):
			load = true
		case f.Severity == spec.SeverityInvalid:
			invalid = true
		}
		if f.ID == "cluster/no-free-gpus" && f.Severity == spec.SeverityNote {
			return spec.Skip, nil
		}
	}
	state, done := ev.tests.state(ev.gates())
	over := ev.start.interrupted || ev.start.ended
	failed := func() (spec.State, *Next) {
		// One cause may hide another: as many episodes as capability takes tell of all.
		if left := ev.th.MinEpisodes - len(ev.all()); ev.loaded() && left > 0 && !over {
			return spec.Fail, &Next{Why: "it has failed; what else is wrong takes " + counted(float64(left), "more episode")}
		}
		return spec.Fail, nil
	}
	switch {
	case worst[spec.Integrity]:
		return failed()
	case invalid:
		return spec.Invalid, nil
	case worst[spec.Stability]:
		return failed() // whatever the load was, it stood still
	case load:
		return spec.Invalid, nil
	case len(worst) > 0:
		return failed()
	case ev.start.broken != nil:
		return spec.Invalid, nil
	case !ev.loaded() || len(ev.episodes)+len(ev.invalid) == 0:
		return ev.unloaded()
	case len(ev.invalid) > 0 && ev.all()[len(ev.all())-1] == ev.invalid[len(ev.invalid)-1] && !over:
		return spec.Inconclusive, &Next{Why: ev.wanted(), Retry: remedy(ev.invalid[len(ev.invalid)-1])}
	}
	// What no further episode can mend ends the run where it would have passed.
	held := ev.heldBack()
	if ev.plan.Reference == nil {
		state, done = ev.withoutReference()
	}
	floorOpen := ev.floor != nil && ev.floorState() != spec.Pass
	switch {
	case done && state == spec.Pass && (held != "" || floorOpen && ev.tests.spent()):
		return spec.Inconclusive, nil
	case done && state == spec.Pass && floorOpen:
		return spec.Inconclusive, &Next{Why: ev.wanted()}
	case done && state == spec.Fail: // of capability alone, past the knee
		return spec.Inconclusive, nil
	case done:
		return state, nil
	}
	return spec.Inconclusive, &Next{Why: ev.wanted()}
}

// all is every episode in its order.
func (ev *Evidence) all() []*digest {
	all := slices.Concat(ev.episodes, ev.invalid)
	slices.SortStableFunc(all, func(a, b *digest) int { return cmp.Compare(a.number, b.number) })
	return all
}

// parts says what counts of each episode.
func (ev *Evidence) parts() []spec.Part {
	var all []spec.Part
	for _, d := range ev.all() {
		all = append(all, spec.Part{Episode: d.number, Cut: d.cutS, Counted: slices.Contains(ev.episodes, d),
			Throughput: number(d.throughput.value), Gross: number(d.gross)})
	}
	return all
}

// unloaded is the verdict on a run that has no episode.
func (ev *Evidence) unloaded() (spec.State, *Next) {
	if ev.start.interrupted || ev.start.ended || ev.start.notServed != nil || len(ev.start.cannotPass) > 0 {
		return spec.Inconclusive, nil
	}
	return spec.Inconclusive, &Next{Why: "nothing was loaded yet"}
}

// remedy is what is changed before an episode is repeated.
func remedy(d *digest) string {
	if len(d.client.Reasons) == 0 {
		return "the episode is repeated after a pause"
	}
	return fmt.Sprintf("%s: the episode is repeated after a pause", d.client.Reasons[0].Text)
}

// heldBack is why a run that looks well is not called so.
func (ev *Evidence) heldBack() string {
	switch {
	case ev.unseen() != "":
		return ev.unseen()
	case ev.crowded() != "":
		return ev.crowded()
	case ev.gap():
		return "too much of the workers' telemetry is missing, or is not what the client saw"
	case ev.proxied() != "":
		return Hindrance{PageOfProxy, []string{ev.proxied()}}.Words()
	case ev.surplus() > 0:
		return Hindrance{MoreWorkersThanPlanned, []string{fmt.Sprint(ev.surplus()), fmt.Sprint(ev.plan.Point.Workers)}}.Words()
	case ev.pages() > 0:
		return Hindrance{PagesOfSomeWorkers, []string{fmt.Sprint(ev.pages()), fmt.Sprint(ev.plan.Point.Workers)}}.Text()
	case ev.hung() != "":
		return ev.hung()
	case ev.errorExpected().State == spec.Inconclusive:
		return "more requests failed than are allowed, though that may be chance: more load would tell"
	case ev.plan.Stability != spec.StabilityReport && ev.claims.CameAtOnce():
		return blindToStalls
	case ev.unsureLoss() != "":
		return ev.unsureLoss()
	case ev.plan.Point.Workers == 0:
		return Hindrance{Code: WorkersUnknown}.Words()
	case ev.unwatched() > 0:
		return Hindrance{PrefillUnwatched, []string{fmt.Sprint(ev.unwatched())}}.Words()
	case !ev.toldApart():
		return Hindrance{Code: WorkersNotDistinguished}.Words()
	case !ev.compared():
		return "the workers could not be compared: their tokens are not told for all of them, or no episode had enough time without a stall"
	case ev.plan.Reference == nil && ev.floor == nil:
		return Hindrance{Code: NothingToCompareWith}.Words()
	}
	return ""
}

// unseen says that it is not known whether pods that serve have ended: one that is started
// anew leaves no other trace, so that nothing is known of it by the episodes.
func (ev *Evidence) unseen() string {
	if ev.start.unseen == nil {
		return ""
	}
	return "whether pods that serve ended under load is not known: " + shorten(ev.start.unseen.Text)
}

// crowded says that more workers were named than there can be.
func (ev *Evidence) crowded() string {
	for _, d := range ev.episodes {
		if d.crowded > 0 {
			return fmt.Sprintf("answers or metrics pages named %s workers in %s, another each time: they distinguish no worker",
				grouped(float64(d.crowded)), d.title())
		}
	}
	return ""
}

// pages is how many workers were looked at, where that is too few and nobody else
// tells of the others; 0: it is not so.
func (ev *Evidence) pages() int {
	for _, d := range ev.episodes {
		if n := len(d.workers); !d.named && d.told && n < ev.plan.Point.Workers {
			return n
		}
	}
	return 0
}

// proxied is the page of several processes that was to tell of a worker, where nothing else
// tells of each of them.
func (ev *Evidence) proxied() string {
	for _, d := range ev.episodes {
		if d.proxy != "" && !d.named && len(d.workers) < max(2, ev.plan.Point.Workers) {
			return d.proxy
		}
	}
	return ""
}

// surplus is how many workers served in an episode, where the plan has fewer; 0: in none.
func (ev *Evidence) surplus() int {
	most := 0
	for _, d := range ev.episodes {
		most = max(most, d.serving())
	}
	if want := ev.plan.Point.Workers; want > 0 && most > want {
		return most
	}
	return 0
}

// serving is how many workers made a token.
func (d *digest) serving() int {
	n := 0
	for _, w := range d.workers {
		if w.made > 0 {
			n++
		}
	}
	return n
}

// compared says whether workers' shares were measured in enough episodes, so far as
// there are several.
func (ev *Evidence) compared() bool {
	several := false
	for _, d := range ev.episodes {
		several = several || slices.ContainsFunc(d.workers, func(w *workerDigest) bool { return len(peerWorkers(w, d.workers)) > 0 }) && ev.plan.Point.Workers != 1
	}
	for _, s := range ev.shares {
		several = several && len(s) < ev.th.MinEpisodes
	}
	return !several
}

// hung says who stood still, and had for long, when the last episode ended.
func (ev *Evidence) hung() string {
	if len(ev.episodes) == 0 {
		return ""
	}
	for _, s := range ev.episodes[len(ev.episodes)-1].stalls {
		if s.open && float64(s.until-s.from) >= ev.th.WedgedS {
			who := "the fleet"
			if s.worker != "" {
				who = workerWord(s.worker)
			}
			return who + " stood still when the load ended, and had for " + lasted(float64(s.until-s.from))
		}
	}
	return ""
}

// withoutReference decides where throughput is held against the floor alone.
func (ev *Evidence) withoutReference() (spec.State, bool) {
	t := ev.tests
	slow, suspects := t.slowWorkers()
	rate := t.rateState()
	if !ev.gates() {
		rate = spec.Pass
	}
	switch {
	case len(slow) > 0 || rate == spec.Fail || t.ttftState() == spec.Fail:
		return spec.Fail, true
	case t.enough() && len(suspects) == 0 && rate == spec.Pass && t.ttftState() == spec.Pass:
		return spec.Pass, true
	case t.spent():
		return spec.Inconclusive, true
	}
	return spec.Inconclusive, false
}

// wanted says what would end the run.
func (ev *Evidence) wanted() string {
	t := ev.tests
	var parts []string
	if need := ev.th.MinEpisodes - t.episodes; need > 0 {
		parts = append(parts, "capability takes "+counted(float64(need), "more episode"))
	} else if s := t.capacityState(); s == spec.Inconclusive {
		parts = append(parts, "throughput is neither clearly enough nor clearly too little")
	} else if s == spec.NotJudged && (ev.plan.Reference != nil || ev.floor != nil) && ev.overall.n == 0 {
		parts = append(parts, "no episode was clean enough to tell of throughput")
	}
	if ev.floorState() == spec.Inconclusive && t.enough() {
		parts = append(parts, ev.floorOpen())
	}
	if ev.gates() && t.rateState() == spec.Inconclusive {
		parts = append(parts, t.stalls.wanted())
	}
	if _, suspects := t.slowWorkers(); len(suspects) > 0 {
		parts = append(parts, several("worker", suspects)+" may be slow")
	}
	if t.enough() && t.ttftTold < ev.th.MinEpisodes {
		parts = append(parts, fmt.Sprintf("TTFT p99 could be told in %d of %d episodes: the others had too few requests for an interval", t.ttftTold, t.episodes))
	} else if t.enough() && t.ttftState() == spec.Inconclusive {
		parts = append(parts, "TTFT was above its guardrail in some episodes")
	}
	if len(parts) == 0 {
		return "one more episode"
	}
	return strings.Join(parts, "; ")
}

// ledgers are the three accounts, all of them always.
func (ev *Evidence) ledgers(found []spec.Finding) []spec.Ledger {
	reason := map[string]string{}
	for _, f := range found {
		if l := ledgerOf(f.ID); f.Severity == spec.SeverityFail && reason[l] == "" {
			reason[l] = f.Summary
		}
	}
	all := []spec.Ledger{ev.integrity(), ev.capability(), ev.stability()}
	for i := range all {
		if why := reason[all[i].Name]; why != "" {
			all[i].State, all[i].Reason = spec.Fail, why
		}
	}
	return all
}

// unjudged is why a ledger has nothing to go by.
func (ev *Evidence) unjudged() string {
	if !ev.loaded() {
		return "nothing was loaded"
	}
	return "no episode counted"
}

func (ev *Evidence) integrity() spec.Ledger {
	l := spec.Ledger{Name: spec.Integrity, State: spec.Pass}
	if !ev.loaded() || len(ev.episodes) == 0 {
		l.State, l.Reason = spec.NotJudged, ev.unjudged()
		return l
	}
	d := ev.episodes[len(ev.episodes)-1]
	serving := d.serving()
	var parts []string
	switch {
	case !ev.toldApart() || ev.proxied() != "":
		l.State = spec.Inconclusive
		parts = append(parts, "workers: no source distinguishes them")
	case len(d.workers) > 0 && d.servedUnseen():
		l.State = spec.Inconclusive
		parts = append(parts, "workers: none was observed")
	case serving == 0 && ev.plan.Point.Workers == 1:
		parts = append(parts, "workers: one, as the plan says")
	case ev.surplus() > 0:
		l.State = spec.Inconclusive
		parts = append(parts, fmt.Sprintf("%d workers served, more than the plan's %d", ev.surplus(), ev.plan.Point.Workers))
	case ev.plan.Point.Workers > 0:
		parts = append(parts, fmt.Sprintf("%d of %d workers served", serving, ev.plan.Point.Workers))
	default:
		parts = append(parts, fmt.Sprintf("%s served, how many there should be is not known", counted(float64(serving), "worker")))
	}
	if n := len(d.gpus); n > 0 && ev.plan.Point.Workers > 0 && n < ev.plan.Point.GPUs() {
		parts = append(parts, fmt.Sprintf("%d of %d GPUs without an error, the others not measured", n, ev.plan.Point.GPUs()))
	} else if n > 0 {
		parts = append(parts, counted(float64(len(d.gpus)), "GPU")+" without an error")
	} else {
		parts = append(parts, "GPUs: not measured")
	}
	failed, sent := ev.failures()
	parts = append(parts, fmt.Sprintf("%s of %s requests failed", grouped(float64(failed)), grouped(float64(sent))))
	for _, l := range ev.outside() {
		parts = append(parts, fmt.Sprintf("%s of %s %s", grouped(float64(l.failed)), grouped(float64(l.sent)), l.where))
	}
	if why := ev.unsureLoss(); why != "" {
		l.State = spec.Inconclusive
	}
	if ev.gap() {
		l.State = spec.Inconclusive
		parts = append(parts, "too much of the telemetry is missing, or is not what the client saw")
	}
	for _, why := range []string{ev.unseen(), ev.crowded()} {
		if why != "" {
			l.State = spec.Inconclusive
			parts = append(parts, why)
		}
	}
	l.Reason = strings.Join(parts, ", ")
	return l
}

func (ev *Evidence) failures() (failed, sent int) {
	for _, d := range ev.episodes {
		failed += d.errors.failed - d.errors.classes[classNoTokens]
		sent += d.requests.Sent - d.requests.Interrupted
	}
	return failed, sent
}

func (ev *Evidence) capability() spec.Ledger {
	l := spec.Ledger{Name: spec.Capability, State: spec.NotJudged, Reason: ev.unjudged()}
	if len(ev.episodes) == 0 {
		return l
	}
	t := ev.tests
	var parts []string
	if ref := ev.plan.Reference; ev.overall.n == 0 {
		parts = append(parts, "throughput: not measured, no episode had enough time without a stall")
	} else if ref != nil {
		l.State = t.capacityState()
		parts = append(parts, fmt.Sprintf("throughput %.2f of the reference (%s tokens/s)", ev.ratio(), grouped(ev.overall.value)))
	} else if ev.floor != nil {
		l.State = ev.floorState()
		parts = append(parts, fmt.Sprintf("throughput %s tokens/s, judged against the floor of %s only: there is no reference (aicr knee --write FILE makes one)", grouped(ev.overall.value), grouped(effective(ev.floor))))
	} else {
		parts = append(parts, fmt.Sprintf("throughput %s tokens/s, and nothing to hold it against (aicr knee --write FILE makes a reference)", grouped(ev.overall.value)))
	}
	if s := ev.floorState(); ev.plan.Reference != nil && ev.floor != nil && s != spec.Pass && l.State == spec.Pass {
		l.State = s
		parts = append(parts, fmt.Sprintf("floor of %s: %s", grouped(effective(ev.floor)), s))
	}
	if s := t.ttftState(); l.State == spec.Pass && s != spec.Pass {
		l.State = s
	}
	if w := ev.worstTTFT(); !math.IsNaN(w) {
		parts = append(parts, fmt.Sprintf("TTFT p99 up to %s ms", grouped(w)))
	}
	if _, suspects := t.slowWorkers(); len(suspects) > 0 && l.State == spec.Pass {
		l.State = spec.Inconclusive
		parts = append(parts, several("worker", suspects)+" may be slow")
	} else if w, share := leastOf(ev.shares); w != "" {
		parts = append(parts, fmt.Sprintf("least share %.2f of fair (worker %s)", share, w))
	}
	if ev.pastKnee() {
		parts = append(parts, "past the knee")
		if l.State == spec.Fail && ev.onlyLate() {
			l.State = spec.NotJudged
		}
	}
	if l.State == spec.Fail && ev.lateAtTheKnee() {
		l.State = spec.Inconclusive
		parts = append(parts, "at the knee, where a queue is the rule")
	}
	if l.State == spec.Fail && ev.chanceOfTheKnee() {
		l.State = spec.Inconclusive
		parts = append(parts, "where throughput is chance and nothing else speaks of a slow fleet")
	}
	l.Reason = strings.Join(parts, ", ")
	return l
}

func (ev *Evidence) worstTTFT() float64 {
	worst := math.NaN()
	for _, d := range ev.episodes {
		worst = maxKnown(worst, d.ttft.value)
	}
	return worst
}

func (ev *Evidence) stability() spec.Ledger {
	l := spec.Ledger{Name: spec.Stability, State: spec.NotJudged, Reason: ev.unjudged()}
	t := ev.tests
	if len(ev.episodes) == 0 {
		return l
	}
	l.Reason = t.stalls.summary()
	switch {
	case ev.claims.CameAtOnce():
		l.Reason += "; " + blindToStalls
	case !ev.gates() && ev.plan.Profile == spec.ProfileSmoke:
		l.Reason += "; reported, not judged: a smoke test is too short for it"
	case !ev.gates():
		l.Reason += "; reported, not judged"
	default:
		l.State = t.rateState()
	}
	return l
}

// reason is the one line that says why.
func (ev *Evidence) reason(v *spec.Verdict, next *Next) string {
	for _, f := range v.Findings {
		if v.Verdict == spec.Fail && f.Severity == spec.SeverityFail || v.Verdict == spec.Invalid && f.Severity == spec.SeverityInvalid ||
			v.Verdict == spec.Skip && f.ID == "cluster/no-free-gpus" {
			if all := ev.bothKinds(); all != "" && ledgerOf(f.ID) == spec.Stability {
				return all
			}
			return f.Summary
		}
	}
	switch {
	case v.Verdict == spec.Pass:
		return ev.passed()
	case ev.start.broken != nil:
		return ev.brokeOff()
	case ev.start.taken != nil:
		return ev.start.taken.Text
	case ev.start.interrupted:
		return fmt.Sprintf("interrupted after %s: %s", counted(float64(len(ev.episodes)), "episode"), ev.wanted())
	case !ev.loaded() && len(ev.start.cannotPass) > 0:
		return "ended before the load, since it could not pass: " + strings.Join(ev.start.cannotPass, "; ")
	case !ev.loaded():
		return "nothing was loaded"
	case next != nil:
		return "not decided: " + next.Why
	case ev.lateAtTheKnee():
		return fmt.Sprintf("%s at a load that may be past the knee (elasticity %.2f; the knee is at %.2f), where a queue is the rule: step the concurrency down",
			ev.slowWords(), ev.doubling.Elasticity, ev.th.Elasticity)
	case ev.chanceOfTheKnee():
		return fmt.Sprintf("%s past the knee, where throughput is chance, and nothing else speaks of a slow fleet: step the concurrency down", ev.slowWords())
	}
	if why := ev.heldBack(); why != "" {
		return why
	}
	return fmt.Sprintf("not decided after %s: %s", counted(float64(len(ev.episodes)), "episode"), ev.wanted())
}

// brokeOff says that the instrument did not come to its end. That is no word on the
// deployment, and never a pass.
func (ev *Evidence) brokeOff() string {
	return fmt.Sprintf("the load broke off after %s: %s", counted(float64(len(ev.all())), "episode"), ev.start.broken.Text)
}

// bothKinds counts the stalls where workers and the whole fleet had some: it takes
// both to tell why the rate is what it is.
func (ev *Evidence) bothKinds() string {
	by := ev.stallCount()
	t, fleet := &ev.tests.stalls, by[""]
	if fleet == 0 || fleet == t.all || t.large() && (t.fleetState() == spec.Fail || len(t.sick()) > 0) {
		return ""
	}
	return fmt.Sprintf("%d stalls in %.1f min of load: %d of single workers, %d of the whole fleet", t.all, t.minutes, t.all-fleet, fleet)
}

func (ev *Evidence) passed() string {
	var parts []string
	if r := ev.ratio(); !math.IsNaN(r) {
		parts = append(parts, fmt.Sprintf("throughput is %.2f of the reference", r))
	} else {
		parts = append(parts, fmt.Sprintf("throughput is %s tokens/s, above the floor", grouped(ev.overall.value)))
	}
	parts = append(parts, fmt.Sprintf("%s in %.1f min of load", counted(float64(ev.tests.stalls.all), "stall"), ev.tests.stalls.minutes))
	return strings.Join(parts, ", ")
}

// walks are the two tests on their way.
func (ev *Evidence) walks() []spec.Walk {
	if len(ev.episodes) == 0 {
		return nil
	}
	t := ev.tests
	var all []spec.Walk
	if ev.plan.Reference != nil {
		low, high := t.capBounds()
		all = append(all, spec.Walk{Ledger: spec.Capability, Low: round(low, 4), High: round(high, 4), Values: rounded(t.capWalk)})
	}
	return append(all, t.stalls.walks()...)
}

// round keeps as many digits as are meant.
func round(v float64, digits int) float64 {
	p := math.Pow(10, float64(digits))
	return math.Round(v*p) / p
}

func rounded(v []float64) []float64 {
	all := make([]float64, len(v))
	for i := range v {
		all[i] = round(v[i], 4)
	}
	return all
}

func (ev *Evidence) stallList() []spec.Stall {
	var all []spec.Stall
	for _, d := range ev.episodes {
		for _, s := range d.stalls {
			all = append(all, spec.Stall{Episode: d.number, At: float64(s.from), Seconds: float64(s.until - s.from), Open: s.open, Worker: s.worker, GPU: ev.gpuOf(s.worker), By: s.by()})
		}
	}
	return all
}

// cachedTold is the share of cached prompt tokens from which on it is told: unique prompts
// share their template alone.
const cachedTold = 0.05

func (ev *Evidence) notes() []string {
	var all []string
	if ev.half != nil && len(ev.half.stalls) > 0 {
		all = append(all, fmt.Sprintf("%s in the look at half the load, which the rate does not count", counted(float64(len(ev.half.stalls)), "stall")))
	}
	if ev.half != nil && len(ev.episodes) > 0 && math.IsNaN(ev.doubling.Elasticity) {
		all = append(all, "whether the load is past the knee was not measured: "+ev.notDoubledBecause())
	}
	if len(ev.episodes) > 0 && !slices.ContainsFunc(ev.episodes, func(d *digest) bool { return d.told || d.named }) {
		all = append(all, "judged by the client's record alone: no server told its state, so that queues, caches, "+
			"idle or restarted workers and their GPUs were not seen")
	}
	unsteady := 0
	for _, d := range ev.episodes {
		if !d.steady && len(d.stalls) == 0 {
			unsteady++
		}
	}
	if unsteady > 0 {
		all = append(all, fmt.Sprintf("no steady state within the first %s of %s", percent(ev.th.WarmupCut), counted(float64(unsteady), "episode")))
	}
	if n := ev.resent(); n > 0 {
		all = append(all, ResentNote(n))
	}
	cached := 0.0
	for _, d := range ev.episodes {
		cached = max(cached, d.prefixHits())
	}
	if cached >= cachedTold {
		all = append(all, fmt.Sprintf("up to %s of the prompts' tokens came from a prefix cache", percent(cached)))
	}
	if ev.plan.Reference == nil && len(ev.episodes) > 0 {
		all = append(all, "capability was judged without a reference for this hardware: aicr knee --write FILE measures one")
	}
	return all
}

// resent is how many requests of the episodes were sent twice.
func (ev *Evidence) resent() (n int) {
	for _, d := range ev.episodes {
		n += d.requests.Resent
	}
	if ev.half != nil {
		n += ev.half.requests.Resent
	}
	return n
}

// ResentNote says of so many requests that they were sent twice.
func ResentNote(n int) string {
	verb := "was"
	if n != 1 {
		verb = "were"
	}
	return fmt.Sprintf("%s %s sent again: the server closed kept connections", counted(float64(n), "request"), verb)
}
