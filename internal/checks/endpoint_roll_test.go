package checks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"aicr/internal/load"
	"aicr/internal/observe"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

// enginesOf is a page that tells of so many engines, or why it tells of none.
type enginesOf struct {
	n   int
	why string
}

func (p enginesOf) Read(context.Context) ([]spec.Sample, error) {
	if p.why != "" {
		return nil, errors.New(p.why)
	}
	all := make([]spec.Sample, p.n)
	for i := range all {
		if all[i].Worker = (&spec.WorkerSample{}); p.n > 1 {
			all[i].Name = fmt.Sprintf("/%d", i)
		}
	}
	return all, nil
}

// What was not attributed to a worker says nothing of how many serve: a server that names none
// of its workers, and answered, has lost only those whose servers are gone.
func TestWorkersThatCannotBeCountedAreNotCalledAbsent(t *testing.T) {
	one, two := enginesOf{n: 1}, enginesOf{n: 2}
	gone, moved, silent := enginesOf{why: spec.GapRefused}, enginesOf{why: "status 404"}, enginesOf{why: spec.GapNoAnswer + " 800ms"}
	for name, c := range map[string]struct {
		workers int // declared
		pages   []enginesOf
		told    string // have of want; "": nothing
		known   int    // by the pages
		silent  int
	}{
		"no page, two declared":                 {workers: 2},
		"no page, one declared":                 {workers: 1},
		"one page of two":                       {workers: 2, pages: []enginesOf{one}, known: 1},
		"two pages":                             {pages: []enginesOf{one, one}, told: "2 of 2", known: 2},
		"a server is gone":                      {pages: []enginesOf{one, gone}, told: "1 of 2", known: 2, silent: 1},
		"a page is elsewhere":                   {pages: []enginesOf{one, moved}, known: 2, silent: 1},
		"a page does not answer":                {workers: 2, pages: []enginesOf{one, silent}, known: 2, silent: 1},
		"no page answers":                       {pages: []enginesOf{gone, gone}, known: 2, silent: 2},
		"two engines on one page":               {pages: []enginesOf{two}, told: "2 of 2", known: 2},
		"two engines on one page, two declared": {workers: 2, pages: []enginesOf{two}, told: "2 of 2", known: 2},
		"two engines on one page, one declared": {workers: 1, pages: []enginesOf{two}, told: "2 of 1", known: 2},
		"three engines on two pages":            {pages: []enginesOf{two, one}, told: "3 of 3", known: 3},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Endpoint{engines: map[string]int{}, told: map[string]bool{}, mask: redact.NewMask(), probe: &load.Probe{},
				names: &names{learned: map[string]string{}, last: map[string]string{}}}
			e.o.Workers = c.workers
			for i, p := range c.pages {
				at := fmt.Sprintf("worker-%d", i)
				e.o.Sources = append(e.o.Sources, observe.Source{Kind: spec.SourceWorker, Instance: at, Address: at, Reader: p})
			}
			var told []spec.Event
			e.tell = func(event spec.Event) error {
				told = append(told, event)
				return nil
			}
			w := &warmup{endpoint: e, begun: time.Now(), until: time.Now().Add(time.Minute), seen: newRoll(e.names)}
			if err := w.everyone(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, event := range told {
				if event.Kind == spec.EventWorkers {
					got = fmt.Sprintf("%d of %d", *event.Have, *event.Want)
				}
			}
			if got != c.told {
				t.Errorf("told %q, want %q", got, c.told)
			}
			k := e.Known(t.Context())
			if k.Pages != c.known || k.Silent != c.silent {
				t.Errorf("known: %+v", k)
			}
			if want := max(c.workers, c.known); c.workers == 0 && k.Workers != want {
				t.Errorf("%d workers are known, want %d", k.Workers, want)
			}
		})
	}
}
