package checks

import (
	"context"
	"net/http"

	"aicr/internal/judge"
	"aicr/internal/load"
	"aicr/internal/spec"
)

// Knower is a Target that can say, once it has started, what a judge has to know of it
// before a load.
type Knower interface {
	Known(ctx context.Context) judge.Known
}

// Where the number of workers comes from.
const (
	originHealth  = "the frontend's /health page"
	originAnswers = "worker ids in the answers"
	originPages   = "the workers' metrics pages"
)

// Known says how many workers there are and whether they are distinguished, by what the
// first answers, the pages and the frontend showed.
func (e *Endpoint) Known(ctx context.Context) judge.Known {
	k := judge.Known{Looked: true, Named: e.named}
	for _, p := range e.pages(ctx) {
		k.Pages += p.engines
		if !p.up() {
			k.Silent += p.engines
		}
	}
	if e.o.Workers > 0 {
		k.Workers = e.o.Workers
		return k
	}
	for _, found := range []struct {
		workers int
		origin  string
	}{{e.registered(ctx), originHealth}, {e.answered, originAnswers}, {k.Pages, originPages}} {
		if found.workers > max(largestFleet, e.workerPages()) {
			e.note("%d workers by %s, where %d are the most that are believed: "+
				"their number is taken as unknown; set it with --workers N", found.workers, found.origin, largestFleet)
			continue
		}
		if found.workers > k.Workers {
			k.Workers, k.Origin = found.workers, found.origin
		}
	}
	return k
}

// workerPages is how many workers the observed pages tell of, an engine being one. A page
// that does not answer yet may answer under load.
func (e *Endpoint) workerPages() int {
	n := 0
	for _, s := range e.o.Sources {
		if s.Kind == spec.SourceWorker && s.Reader != nil {
			n += max(1, e.engines[s.Address])
		}
	}
	return n
}

// registered is how many workers a Dynamo frontend lists at /health; 0: it does not say,
// or lists several components, of which only some serve what is asked.
func (e *Endpoint) registered(ctx context.Context) int {
	target, err := load.NewTarget(e.o.Target)
	if err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	c := &checker{endpoint: e, client: clientOf(&e.o.Target)}
	defer c.client.CloseIdleConnections()
	a := c.ask(ctx, http.MethodGet, target.Base()+"/health", "")
	if a.err != nil || a.status != http.StatusOK {
		return 0
	}
	return instancesOf(a.body)
}

// instancesOf counts the workers of a health page.
func instancesOf(body []byte) int {
	components, ids := map[string]bool{}, map[uint64]bool{}
	for _, i := range load.InstancesOf(body) {
		components[i.Component] = true
		ids[i.ID] = true
	}
	if len(components) != 1 {
		return 0
	}
	return len(ids)
}
