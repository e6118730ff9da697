package checks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"aicr/internal/load"
	"aicr/internal/spec"
)

// roll is who has answered before the load. It goes by ids: what a worker is called may
// not be known before its page has something to tell.
type roll struct {
	names    *names
	answered firstAnswers
	failed   firstAnswers // who was named and served nothing
	asked    int
	lost     int
	why      string            // the last one was lost for
	at       map[uint64]string // where the frontend says that they are
}

// locate asks the frontend where the workers are that nothing but their ids is known of.
func (s *roll) locate(ctx context.Context, e *Endpoint, pages []page) {
	known := map[string]bool{}
	for _, p := range pages {
		known[p.name] = true
	}
	nameless := func(a firstAnswer) bool {
		name := s.names.ofID(a.id)
		return name == strconv.FormatUint(a.id, 10) && !known[name]
	}
	if e.target != nil && slices.ContainsFunc(slices.Concat(s.answered, s.failed), nameless) {
		s.at = load.AddressesOf(e.target.Instances(ctx))
	}
}

// firstAnswer is what was seen first of a worker.
type firstAnswer struct {
	id      uint64
	seconds float64
	tokens  int
	class   string
	detail  string
}

// firstAnswers are the first of each id, in the order in which they came.
type firstAnswers []firstAnswer

// byName are the first of each worker, by what it is called by now.
func (all firstAnswers) byName(n *names) map[string]firstAnswer {
	by := map[string]firstAnswer{}
	for _, a := range all {
		name := n.ofID(a.id)
		if _, known := by[name]; !known {
			by[name] = a
		}
	}
	return by
}

func newRoll(n *names) *roll { return &roll{names: n} }

// add takes a wave. Who answered in one before keeps that answer.
func (s *roll) add(e *Endpoint, res *load.Result) {
	all := slices.Collect(res.Log.All())
	slices.SortStableFunc(all, func(a, b *load.Record) int { return cmp.Compare(a.End, b.End) })
	for _, r := range all {
		detail := e.clean(res.Log.Details[r.Detail])
		s.asked++
		if !r.OK() {
			s.lost, s.why = s.lost+1, detail
		}
		if !r.Has(load.HasWorker) {
			continue
		}
		to := &s.answered
		if !r.OK() {
			to = &s.failed
		}
		if !slices.ContainsFunc(*to, func(a firstAnswer) bool { return a.id == r.Worker }) {
			*to = append(*to, firstAnswer{r.Worker, time.Duration(r.FirstContent - r.Sent).Seconds(), int(r.Tokens()), r.Class.String(), detail})
		}
	}
}

// silent lists the pages of workers that gave no answer and should have, as far as the names of
// pages and of answers are the same.
func (s *roll) silent(pages []page) []page {
	answered := s.answered.byName(s.names)
	return slices.DeleteFunc(slices.Clone(pages), func(p page) bool {
		_, known := answered[p.name]
		return !p.joined || known || p.reads
	})
}

// events words the roll: how many are there, and each one's answer.
func (s *roll) events(e *Endpoint, pages []page) []spec.Event {
	var all []spec.Event
	answered, failed := s.answered.byName(s.names), s.failed.byName(s.names)
	there, up, open := map[string]bool{}, 0, 0
	for name := range answered {
		there[name] = true
	}
	for i := range pages {
		switch {
		case pages[i].up():
			up += pages[i].engines
			there[pages[i].name] = there[pages[i].name] || pages[i].joined
		case !pages[i].gone():
			open += pages[i].engines
		}
	}
	have := 0
	for _, is := range there {
		if is {
			have++
		}
	}
	// Where answers do not name their worker, pages tell how many there are if each worker has
	// one, some of them answer and the others' servers are gone: else the number is unknown,
	// which is not 0. None that answers is no sign of a worker that is gone, since the
	// endpoint has served.
	want := e.expected()
	known := e.probe.Workers || len(answered) > 0 || up > 0 && open == 0 && e.workerPages() >= want
	if have := max(have, up); want > 0 && known {
		all = append(all, spec.Event{Kind: spec.EventWorkers, Want: &want, Have: &have})
	}
	if !e.probe.Workers {
		return all
	}
	for _, name := range inOrder(answered) {
		a := answered[name]
		all = append(all, spec.Event{Kind: spec.EventAnswer, Source: s.at[a.id], Worker: name, Tokens: &a.tokens, Seconds: &a.seconds})
	}
	for _, p := range s.silent(pages) {
		if _, known := failed[p.name]; known {
			continue
		}
		text := fmt.Sprintf("no answer came from it in %d requests", s.asked)
		if s.lost > 0 {
			text += fmt.Sprintf(", of which %d failed: %s", s.lost, s.why)
		}
		if p.why != "" {
			text += "; its metrics page: " + p.why
		}
		all = append(all, spec.Event{Kind: spec.EventAnswer, Worker: p.name, Reason: "silent", Text: text})
	}
	return append(all, s.failures()...)
}

// failures are the answers of those who were named and served nothing.
func (s *roll) failures() (all []spec.Event) {
	answered, failed := s.answered.byName(s.names), s.failed.byName(s.names)
	for _, name := range inOrder(failed) {
		if _, served := answered[name]; !served {
			f := failed[name]
			all = append(all, spec.Event{Kind: spec.EventAnswer, Source: s.at[f.id], Worker: name, Tokens: &f.tokens, Reason: f.class, Text: f.detail})
		}
	}
	return all
}

// inOrder lists names, numbers by their size.
func inOrder(of map[string]firstAnswer) []string {
	var all []string
	for name := range of {
		all = append(all, name)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return all
}
