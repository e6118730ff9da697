package judge

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"aicr/internal/spec"
)

// timeline is an episode second by second, as both witnesses have it: the
// client by its own record, and telemetry. Everything is NaN where it is not
// known: a second without samples is never dropped and never zero.
type timeline struct {
	seconds int // of load
	workers []*lane
	index   map[string]*lane

	fleet    []float64 // tokens that reached the client
	starts   []float64 // first tokens that did
	inFlight []float64 // that the client awaits
	// unanswered are those of them that never had a token.
	unanswered []float64
	named      bool   // the client knows who served what
	told       bool   // there is telemetry of workers
	unjoined   bool   // client and telemetry name the workers differently
	proxy      string // where a page was passed on to several workers: it is of none of them
	crowded    int    // names of workers, where they are too many to be those of workers; 0: they are not
}

// mostLanes is how many workers an episode may name, in answers or on metrics pages: twice
// the largest fleet that is judged. A source that names more gives each answer, or each
// scrape, another name, and names no worker.
const mostLanes = 1024

// lane is one worker's part of a timeline.
type lane struct {
	name, pod string
	instance  string // host:port of its page
	role      spec.Role
	gpus      []string // names, as far as they are known
	group     group

	told    []float64 // tokens, by its metrics
	held    []float64 // requests that it has, by its gauges
	most    []float64 // at any time of the second, as far as is known
	running []float64
	refused []bool  // its page was refused: nobody is there
	asked   int     // samples that were wanted
	lost    int     // of those, that did not come, less those that were refused
	apart   float64 // seconds that usually lie between two samples

	seen    []float64 // tokens, by the client's record
	streams []float64 // streams that the client has open with it
	starts  []float64 // first tokens, by the client's record
	prompts []float64 // prompt tokens, by its metrics

	prefixQueries, prefixHits float64 // tokens, grown in the episode
	preempted, kvMost         float64 // how often it put requests back in the episode; the most of its KV cache in use, NaN: not told
	asleep                    []bool  // it said that it sleeps
	madeBefore                bool    // it had made tokens when it was first asked
}

// progress is how many tokens the worker made in a second, by telemetry where it
// tells and by the client's record where it does not.
func (l *lane) progress(k int) float64 {
	if !math.IsNaN(l.told[k]) {
		return l.told[k]
	}
	return l.seen[k]
}

// has is how many requests the worker has in a second: by whoever knows of more.
func (l *lane) has(k int) float64 { return maxKnown(l.held[k], l.streams[k]) }

func maxKnown(a, b float64) float64 {
	if math.IsNaN(a) {
		return b
	}
	if math.IsNaN(b) {
		return a
	}
	return max(a, b)
}

func unknown(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = math.NaN()
	}
	return v
}

// newTimeline lays an episode out. The load is over after so many seconds.
func newTimeline(r *spec.EpisodeRecord, loadS float64) *timeline {
	t := &timeline{seconds: max(0, int(loadS)), index: map[string]*lane{}}
	n := workersNamed(r)
	if n.pages <= mostLanes {
		t.readSeries(r.Series)
	} else {
		t.crowded = n.pages
	}
	told := slices.Clone(t.workers)
	if t.named = n.answers > 0 && !n.eachItsOwn(); n.eachItsOwn() {
		t.crowded = n.answers
	}
	if t.named && t.told && !t.shareNames(r.Requests) {
		t.named, t.unjoined = false, true
	}
	t.readRequests(r.Requests)
	if t.unjoined {
		t.workers = told
	}
	t.readClient(r)
	slices.SortFunc(t.workers, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	t.join(r.Series)
	return t
}

// namedWorkers is how many workers an episode names.
type namedWorkers struct {
	answers int // by answers
	in      int // so many of them
	pages   int // by metrics pages
}

// manyWorkers is the size of a fleet from which on answers are held against its workers: in
// fewer, one request each may be all that there was time for.
const manyWorkers = 64

// eachItsOwn reports whether answers name too many workers to be those of a fleet: more than
// the largest has, or hardly any of them twice.
func (n *namedWorkers) eachItsOwn() bool {
	return n.answers > mostLanes || n.answers > manyWorkers && n.in < 2*n.answers
}

// workersNamed counts the workers that an episode names.
func workersNamed(r *spec.EpisodeRecord) (n namedWorkers) {
	names := map[string]bool{}
	for i := range r.Requests {
		if name := r.Requests[i].Worker; name != "" {
			names[name] = true
			n.in++
		}
	}
	n.answers = len(names)
	clear(names)
	for i := range r.Series {
		if s := &r.Series[i]; s.Source == spec.SourceWorker && s.Name != "" && !ofProxy(s) {
			names[s.Name] = true
		}
	}
	n.pages = len(names)
	return n
}

func (t *timeline) shareNames(requests []spec.Request) bool {
	for i := range requests {
		if t.index[requests[i].Worker] != nil {
			return true
		}
	}
	return false
}

func (t *timeline) lane(name string) *lane {
	l := t.index[name]
	if l == nil {
		l = &lane{name: name, told: unknown(t.seconds), held: unknown(t.seconds), most: unknown(t.seconds), running: unknown(t.seconds), refused: make([]bool, t.seconds),
			kvMost: math.NaN(), asleep: make([]bool, t.seconds),
			seen: unknown(t.seconds), streams: unknown(t.seconds), starts: unknown(t.seconds), prompts: unknown(t.seconds)}
		t.index[name] = l
		t.workers = append(t.workers, l)
	}
	return l
}

// nobodyThere says whether a gap's reason means that there is no such process.
func nobodyThere(gap string) bool {
	for _, reason := range []string{spec.GapRefused, spec.GapNoHost, spec.GapUnlisted, spec.GapOffPage} {
		if strings.HasPrefix(gap, reason) {
			return true
		}
	}
	return false
}

// ofProxy says whether a page was found to be that of several processes.
func ofProxy(s *spec.Sample) bool { return strings.HasPrefix(s.Gap, spec.GapProxy) }

// readSeries takes what the workers' pages say.
func (t *timeline) readSeries(series []spec.Sample) {
	generated, prompted := map[*lane]*counts{}, map[*lane]*counts{}
	last := map[*lane]*spec.WorkerSample{}
	for i := range series {
		s := &series[i]
		if s.Source != spec.SourceWorker || s.Name == "" {
			continue
		}
		if ofProxy(s) {
			t.proxy = s.Instance
			continue
		}
		t.told = true
		l := t.lane(s.Name)
		k := int(s.T / second)
		within := s.T >= 0 && k < t.seconds
		if within {
			l.asked++
		}
		if s.Gap != "" || s.Worker == nil {
			if !within {
				continue
			}
			if nobodyThere(s.Gap) {
				l.refused[k] = true
			} else if !strings.HasPrefix(s.Gap, spec.GapObserver) {
				l.lost++
			}
			continue
		}
		w := s.Worker
		l.pod, l.instance, l.role = cmp.Or(w.Pod, l.pod), cmp.Or(s.Instance, l.instance), cmp.Or(w.Role, l.role)
		if gpus := w.Holds(); len(gpus) > 0 {
			l.gpus = gpus
		}
		if within {
			l.held[k] = orNaN(sumKnown(w.Running, w.Waiting))
			if w.InFlight != nil {
				l.held[k] = maxKnown(l.held[k], *w.InFlight)
			}
			l.running[k] = valueOf(w.Running)
			l.kvMost = maxKnown(l.kvMost, valueOf(w.KVUsage))
			l.asleep[k] = w.Asleep != nil && *w.Asleep == 1
			if w.Generated == nil && w.TokensPerS != nil && l.role != spec.RolePrefill {
				l.told[k] = *w.TokensPerS
			}
		}
		if before := last[l]; before != nil {
			l.prefixQueries += grown(before.PrefixQueries, w.PrefixQueries)
			l.prefixHits += grown(before.PrefixHits, w.PrefixHits)
			l.preempted += grown(before.Preemptions, w.Preemptions)
		} else {
			generated[l], prompted[l] = &counts{}, &counts{}
			l.madeBefore = w.Generated != nil && *w.Generated > 0
		}
		generated[l].add(s.T, w.Generated)
		prompted[l].add(s.T, w.PromptTokens)
		last[l] = w
	}
	for _, l := range t.workers {
		holdOn(l.held)
		holdOn(l.running)
		// A gauge is of one moment: what was there at both ends of a second was there.
		l.most = slices.Clone(l.held)
		for k := range l.held[:max(0, len(l.held)-1)] {
			if next := l.held[k+1]; next < l.held[k] {
				l.held[k] = next
			}
		}
		if c := generated[l]; c != nil && l.role != spec.RolePrefill {
			l.apart = c.perSecond(l.told)
		}
		if c := prompted[l]; c != nil {
			apart := c.perSecond(l.prompts)
			if l.role == spec.RolePrefill { // its work: it makes one token of a request, or none
				l.apart, l.told = apart, l.prompts
			}
		}
	}
}

// counts is a counter as it was read, across restarts of what counts.
type counts struct {
	at    []int64
	total []float64
	last  *float64
}

func (c *counts) add(t int64, v *float64) {
	n := len(c.at)
	switch {
	case v == nil:
		return
	case n == 0:
		c.at, c.total = append(c.at, t), append(c.total, *v)
	case t > c.at[n-1]:
		c.at, c.total = append(c.at, t), append(c.total, c.total[n-1]+grown(c.last, v))
	default:
		return
	}
	c.last = v
}

// perSecond writes by how much the counter grew in each second for which there are
// samples near enough on both sides. It gives how many seconds usually lie between
// two of them.
func (c *counts) perSecond(to []float64) (usualS float64) {
	if len(c.at) < 2 {
		return math.Inf(1)
	}
	var apart []float64
	for i := 1; i < len(c.at); i++ {
		apart = append(apart, float64(c.at[i]-c.at[i-1]))
	}
	usual := median(apart)
	most := int64(mostApart * usual)
	i := 0
	at := func(when int64) float64 {
		for i+1 < len(c.at) && c.at[i+1] < when {
			i++
		}
		switch {
		case i+1 >= len(c.at) || c.at[i] > when:
			return math.NaN()
		case c.at[i+1] == when:
			return c.total[i+1]
		case c.at[i+1]-c.at[i] > most && c.total[i+1] != c.total[i]: // one that did not move proves that nothing was made
			return math.NaN()
		}
		share := float64(when-c.at[i]) / float64(c.at[i+1]-c.at[i])
		return c.total[i] + float64(share*(c.total[i+1]-c.total[i]))
	}
	before := at(0)
	for k := range to {
		after := at(int64(k+1) * second)
		if d := after - before; !math.IsNaN(d) {
			to[k] = d
		}
		before = after
	}
	return usual / float64(second)
}

// holdOn fills seconds without a sample by the last one, for a while.
func holdOn(v []float64) {
	since := heldFor
	for k := range v {
		switch {
		case !math.IsNaN(v[k]):
			since = 0
		case since < heldFor:
			v[k] = v[k-1]
			since++
		}
	}
}

// heldFor is for how many seconds a gauge is taken to stand.
const heldFor = 3

// mostApart is how many usual periods may lie between two samples that a rate is
// taken of.
const mostApart = 3.5

// grown is by how much a counter grew; one that was begun anew grew by all it has.
func grown(before, after *float64) float64 {
	if before == nil || after == nil {
		return 0
	}
	if *after < *before {
		return *after
	}
	return *after - *before
}

func sumKnown(a, b *float64) (float64, bool) {
	if a == nil && b == nil {
		return 0, false
	}
	return orZero(valueOf(a)) + orZero(valueOf(b)), true
}

func orNaN(v float64, ok bool) float64 {
	if !ok {
		return math.NaN()
	}
	return v
}

// readRequests takes what the client has of each stream.
func (t *timeline) readRequests(requests []spec.Request) {
	t.fleet, t.inFlight, t.starts = make([]float64, t.seconds), make([]float64, t.seconds), make([]float64, t.seconds)
	t.unanswered = make([]float64, t.seconds)
	if t.named {
		for i := range requests {
			if name := requests[i].Worker; name != "" {
				t.lane(name)
			}
		}
		for _, l := range t.workers { // of whom the client never heard, it saw nothing
			if l.role == spec.RolePrefill {
				continue // answers name who makes their tokens
			}
			l.seen, l.streams, l.starts = make([]float64, t.seconds), make([]float64, t.seconds), make([]float64, t.seconds)
		}
	}
	for i := range requests {
		q := &requests[i]
		if q.RefusedAtOnce() {
			continue // nobody waited
		}
		add(t.inFlight, q.Sent, q.End, 1/float64(second))
		if q.First == 0 {
			add(t.unanswered, q.Sent, q.End, 1/float64(second))
		}
		var l *lane
		if t.named && q.Worker != "" {
			l = t.index[q.Worker]
			add(l.streams, cmp.Or(q.First, q.Sent), q.End, 1/float64(second))
		}
		if q.Tokens == 0 || q.First == 0 {
			continue
		}
		if k := q.First / second; k >= 0 && k < int64(t.seconds) {
			t.starts[k]++
			if l != nil {
				l.starts[k]++
			}
		}
		q.TokensOver(func(from, until int64, rate float64) {
			add(t.fleet, from, until, rate)
			if l != nil {
				add(l.seen, from, until, rate)
			}
		})
	}
}

// add spreads a rate per nanosecond over the seconds of a stretch.
func add(to []float64, from, until int64, rate float64) {
	from = max(from, 0)
	for k := from / second; k < int64(len(to)) && k*second < until; k++ {
		to[k] += float64(rate * float64(min(until, (k+1)*second)-max(from, k*second)))
	}
}

// readClient puts the client's own count of tokens, taken as they came, in the
// place of what was spread, where there is one: it shows a trickle, which spreading
// hides.
func (t *timeline) readClient(r *spec.EpisodeRecord) {
	var at []int64
	var total []float64
	for i := range r.Series {
		if s := &r.Series[i]; s.Source == spec.SourceClient && s.Client != nil {
			at, total = append(at, s.T), append(total, float64(s.Client.Tokens))
		}
	}
	var sum float64
	for i := range r.Requests {
		sum += float64(r.Requests[i].Tokens)
	}
	if len(at) < 2 || total[len(total)-1] <= 0 || sum <= 0 {
		return
	}
	// The engine counts events, and an event may have several tokens in it.
	scale := sum / total[len(total)-1]
	if scale < 0.5 || scale > 8 {
		return
	}
	i := 0
	count := func(when int64) float64 {
		for i+1 < len(at) && at[i+1] < when {
			i++
		}
		switch {
		case when <= at[0]: // from nothing at the start
			return total[0] * float64(when) / float64(max(1, at[0]))
		case i+1 >= len(at) || at[i+1]-at[i] > 5*second/2:
			return math.NaN()
		}
		share := float64(when-at[i]) / float64(at[i+1]-at[i])
		return total[i] + float64(share*(total[i+1]-total[i]))
	}
	before := 0.0
	for k := range t.seconds {
		after := count(int64(k+1) * second)
		if d := (after - before) * scale; !math.IsNaN(d) {
			t.fleet[k] = d
		}
		before = after
	}
}
