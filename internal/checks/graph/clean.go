package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"aicr/internal/kube"
)

// AnnotationAlive is refreshed on a run's kept ConfigMap while a command leads the run:
// the time in RFC 3339. One younger than AliveFor is alive.
const (
	AnnotationAlive = "aicr.run/alive"
	AliveFor        = 2 * time.Minute
)

// Removed is an object that Clean has removed, or would remove.
type Removed struct {
	Run       string `json:"run"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Clean removes what runs have left, by label; that of one run, where one is named. A run
// that is evidently alive is left alone, unless it is the one that was named. With dryRun
// it goes the same way and touches nothing: all that it would delete is taken for gone. Who
// may not look into all namespaces looks into usual, that of the validations, and where else
// it is known that one was.
func Clean(ctx context.Context, api API, usual, run string, dryRun bool, told Told) ([]Removed, []Left, error) {
	found, shared, err := findRuns(ctx, api, usual, run, told)
	if err != nil {
		return nil, nil, err
	}
	var removed []Removed
	var left []Left
	var dry map[string]bool
	if dryRun {
		dry = map[string]bool{}
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		f := found[id]
		if why := f.alive(time.Now()); why != "" && run == "" {
			told.spares(id, why)
			continue
		}
		r := &remover{api: api, told: told, run: id, names: NamesOf(id), dry: dry}
		r.graph(ctx)
		for _, namespace := range f.namespaces() {
			r.load(ctx, namespace)
		}
		removed, left = append(removed, r.removed...), append(left, r.left...)
	}
	r := &remover{api: api, told: told, dry: dry}
	for _, namespace := range shared {
		r.validation(ctx, namespace) // of runs that are all gone
	}
	removed, left = append(removed, r.removed...), append(left, r.left...)
	told.waiting("")
	return removed, left, ctx.Err()
}

// leftBehind is what is there of a run.
type leftBehind struct {
	places map[string]bool // namespaces that something of it is in, besides the graph's own
	kept   kube.Object
	job    kube.Object // that loads
}

// alive says why a run is not to be touched; "": it may be. A clock that is ahead of ours
// says that it is alive too.
func (f *leftBehind) alive(now time.Time) string {
	if active, _ := f.job.Int("status", "active"); active > 0 && !holds(f.job, "Complete") && !holds(f.job, "Failed") {
		return "its load is running"
	}
	if beat, err := time.Parse(time.RFC3339, f.kept.Annotations()[AnnotationAlive]); err == nil && now.Sub(beat) < AliveFor {
		return fmt.Sprintf("a command led it %s ago", max(0, now.Sub(beat)).Round(time.Second))
	}
	return ""
}

// namespaces are those to look into; "" where only what is in none has been left.
func (f *leftBehind) namespaces() []string {
	if len(f.places) == 0 {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(f.places))
}

// findRuns finds what runs have left, by their id, and the namespaces that they share;
// none of those where one run is named.
func findRuns(ctx context.Context, api API, usual, run string, told Told) (map[string]*leftBehind, []string, error) {
	selector := LabelOwner + "=" + OwnerValue
	if run != "" {
		selector += "," + LabelRun + "=" + run
	}
	found := map[string]*leftBehind{}
	var shared, places []string
	for _, res := range []kube.Resource{resNamespaces, resQueues, resClusterRoles, resClusterBinds, resJobs, resConfigMaps, resAccounts, resRoles, resRoleBindings} {
		all, err := ofOurs(ctx, api, res, selector, usual, places)
		switch {
		case kube.IsNotFound(err): // the cluster has none of the kind
		case kube.IsForbidden(err) && res == resQueues:
			told.say("queues were not looked for: %v", err)
		case err != nil:
			return nil, nil, fmt.Errorf("looking for %s of ours: %w", res.Name, err)
		}
		for _, o := range all {
			id := o.Labels()[LabelRun]
			places = append(places, placesOf(o)...)
			if id == "" {
				if res == resNamespaces {
					shared = append(shared, o.Name())
				}
				continue
			}
			f := found[id]
			if f == nil {
				f = &leftBehind{places: map[string]bool{}}
				found[id] = f
			}
			n := NamesOf(id)
			switch {
			case res == resConfigMaps && o.Name() == n.Kept:
				f.kept = o
			case res == resJobs && o.Name() == n.Load:
				f.job = o
			}
			if in := o.Namespace(); in != "" && in != n.Namespace { // which takes with it what is in it
				f.places[in] = true
			}
		}
	}
	return found, shared, nil
}
