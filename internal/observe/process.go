package observe

import (
	"context"
	"errors"

	"aicr/internal/spec"
)

// oneProcess reads a worker's page, and tells a worker that was restarted from a proxy that
// passes its page on to several workers: only the latter shows an earlier process again.
type oneProcess struct {
	*fetch
	before  []spec.Sample // of the last page
	several bool
}

const errSeveral = reason(spec.GapProxy)

func (p *oneProcess) Read(ctx context.Context) ([]spec.Sample, error) {
	if p.several {
		return nil, errSeveral
	}
	now, err := p.fetch.Read(ctx)
	if err != nil {
		return nil, err
	}
	if p.before != nil && isAnother(p.before, now) && p.alternates(ctx, now) {
		p.several = true
		return nil, errSeveral
	}
	p.before = now
	return now, nil
}

// readAgain is how often a page is read to find out whether it is always the same process's:
// of two that are chosen by chance, one is missed once in 256 times.
const readAgain = 8

// alternates reads the page on connections of its own, which a proxy may pass on to another
// server each.
func (p *oneProcess) alternates(ctx context.Context, now []spec.Sample) bool {
	last := now
	for range readAgain {
		next, err := p.fetch.ask(ctx, true)
		switch {
		case err != nil:
			continue
		case isAnother(last, next), countedOn(p.before, now, next):
			return true
		}
		last = next
	}
	return false
}

// isAnother reports that two pages, one after the other, are of two processes: they began at
// different times or, where it is not known when, a counter is lower than it was.
func isAnother(before, now []spec.Sample) bool {
	for i := range now {
		b := sampleOf(before, now[i].Name)
		if b == nil {
			continue
		}
		if was, is := b.Started, now[i].Worker.Started; was != nil && is != nil {
			return *was != *is
		}
		if was, is := b.Generated, now[i].Worker.Generated; was != nil && is != nil && *is < *was {
			return true
		}
	}
	return false
}

// countedOn reports that a counter that was lower goes on from where it had been, where it is
// not known when the process began.
func countedOn(before, low, now []spec.Sample) bool {
	for i := range now {
		b, l, is := sampleOf(before, now[i].Name), sampleOf(low, now[i].Name), now[i].Worker
		if b != nil && l != nil && is.Started == nil && b.Generated != nil && l.Generated != nil && is.Generated != nil &&
			*l.Generated < *b.Generated && *is.Generated >= *b.Generated {
			return true
		}
	}
	return false
}

func sampleOf(all []spec.Sample, name string) *spec.WorkerSample {
	for i := range all {
		if all[i].Name == name {
			return all[i].Worker
		}
	}
	return nil
}

// AnswersForSeveral asks a worker's page some times, each on a connection of its own, and
// reports whether several processes answer: then it is a proxy's.
func AnswersForSeveral(ctx context.Context, s Source) bool {
	r := s.Reader
	if l, beside := r.(*loadReader); beside {
		r = l.page
	}
	p, ok := r.(*oneProcess)
	if !ok {
		return false
	}
	now, err := p.Read(ctx)
	return errors.Is(err, errSeveral) || err == nil && p.alternates(ctx, now)
}
