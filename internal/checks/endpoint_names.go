package checks

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"aicr/internal/observe"
	"aicr/internal/spec"
)

// names knows what workers are called. A worker is told of by its id, in answers
// and mostly on its own page, and by where its page is: one name joins them, so
// that the two witnesses speak of the same worker.
type names struct {
	given   map[string]string // by id or host:port
	learned map[string]string // by id: those that labels give
	last    map[string]string // by host:port: who answered there last, and is meant when nobody does
}

// ofID names the worker that an answer names.
func (n *names) ofID(id uint64) string {
	text := strconv.FormatUint(id, 10)
	return cmp.Or(n.given[text], n.learned[text], text)
}

// ofPage names who is on a page: by the name that it goes by there, which may be
// followed by an engine's number, and by where the page is.
func (n *names) ofPage(name, instance string) string {
	if name == "" || name == instance {
		name = cmp.Or(n.last[instance], name)
	}
	head, engine := name, ""
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		head, engine = name[:i], name[i:]
	}
	if to := cmp.Or(n.given[head], n.given[instance]); to != "" {
		return to + engine
	}
	if to := n.given[name]; to != "" {
		return to
	}
	return cmp.Or(name, instance)
}

// page is what a worker's page showed when it was asked.
type page struct {
	name    string
	joined  bool // the name is one that answers have too
	why     string
	engines int  // that it tells of, each of which is a worker; 1 where it never answered
	reads   bool // prompts, for others to answer: no answer names it
}

func (p *page) up() bool { return p.why == "" }

// gone reports that its server is not there. Any other page that does not answer may be that
// of a worker that serves.
func (p *page) gone() bool {
	return strings.HasPrefix(p.why, spec.GapRefused) || strings.HasPrefix(p.why, spec.GapNoHost)
}

// pages asks each worker's page once, and learns which ids have which names.
func (e *Endpoint) pages(ctx context.Context) []page {
	var workers []observe.Source
	for _, s := range e.o.Sources {
		if s.Kind == spec.SourceWorker && s.Reader != nil {
			workers = append(workers, s)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	found := make([]page, len(workers))
	ids := make([]string, len(workers))
	var asking sync.WaitGroup
	for i, s := range workers {
		asking.Go(func() {
			samples, err := s.Reader.Read(ctx)
			found[i].name = e.names.ofPage(s.Labels.Name, s.Instance)
			found[i].joined = e.names.given[s.Instance] != "" || e.names.last[s.Instance] != ""
			if err != nil {
				found[i].why = e.clean(err.Error())
				return
			}
			found[i].engines = len(samples)
			found[i].reads = s.Labels.Role == spec.RolePrefill
			if len(samples) > 0 {
				found[i].reads = found[i].reads || samples[0].Worker.Role == spec.RolePrefill
				ids[i], _, _ = strings.Cut(samples[0].Name, "/")
			}
		})
	}
	asking.Wait()
	for i, w := range slices.Backward(workers) {
		if !strings.HasPrefix(found[i].why, spec.GapProxy) {
			continue
		}
		e.note("the metrics page at %s is not a worker's: %s with --worker-metrics", w.Instance, spec.GapProxy)
		at := w.Address
		e.o.Sources = slices.DeleteFunc(slices.Clone(e.o.Sources), func(s observe.Source) bool {
			return s.Kind == spec.SourceWorker && s.Reader != nil && s.Address == at
		})
		workers, found, ids = slices.Delete(workers, i, i+1), slices.Delete(found, i, i+1), slices.Delete(ids, i, i+1)
	}
	for i, s := range workers {
		e.engines[s.Address] = max(1, found[i].engines, e.engines[s.Address])
		found[i].engines = e.engines[s.Address]
	}
	for i, id := range ids {
		if id == "" {
			continue
		}
		found[i].joined = true
		if name := cmp.Or(e.names.given[id], e.names.given[workers[i].Instance], workers[i].Labels.Name); name != "" {
			e.names.learned[id] = name
			found[i].name = name
		} else {
			found[i].name = id
		}
		e.names.last[workers[i].Instance] = found[i].name
	}
	return found
}
