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
// the time in RFC 3339. One younger than AliveFor is alive. AnnotationHome is on what a run
// has made in no namespace, and is the one that this ConfigMap is in: who may not look into
// all of them looks there.
const (
	AnnotationAlive = "aicr.run/alive"
	AnnotationHome  = "aicr.run/namespace"
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
// that is evidently alive is left alone, and so is one of which that could not be found out,
// unless it is the one that was named. With dryRun it goes the same way and touches nothing:
// all that it would delete is taken for gone. Who may not look into all namespaces looks
// into usual, that of the validations, and where else it is known that one was. No namespace
// of validations is removed: RemoveSpace does that.
func Clean(ctx context.Context, api API, usual, run string, dryRun bool, told Told) ([]Removed, []Left, error) {
	look := &lookout{api: api, usual: usual, closed: map[string]bool{}}
	found, shared, err := findRuns(ctx, look, run, told)
	if err != nil {
		return nil, nil, err
	}
	var removed []Removed
	var left []Left
	for _, id := range slices.Sorted(maps.Keys(found)) {
		f := found[id]
		if spare := f.spared(look, time.Now()); spare != nil && run == "" {
			told.spares(*spare)
			continue
		}
		r := &remover{api: api, told: told, run: id, names: NamesOf(id), unsure: true, dry: dryRun}
		r.graph(ctx)
		for _, namespace := range f.namespaces(look) {
			r.load(ctx, namespace)
		}
		removed, left = append(removed, r.removed...), append(left, r.left...)
	}
	for _, namespace := range shared {
		if look.closed[namespace] {
			told.say("namespace %s was not looked into, since you may not", namespace)
		} else {
			told.say("namespace %s stays; 'aicr clean --namespace-too --namespace %s' lists what is in it, and removes it if that is nothing", namespace, namespace)
		}
	}
	told.waiting("")
	return removed, left, ctx.Err()
}

// leftBehind is what is there of a run.
type leftBehind struct {
	id     string
	places map[string]bool // namespaces that something of it is in, besides the graph's own
	homes  map[string]bool // those that it is kept in, by what is there of it: one
	kept   kube.Object
	job    kube.Object // that loads
	lease  kube.Object // of its node
}

// alive says why a run is not to be touched; "": it may be. A clock that is ahead of ours
// says that it is alive too.
func (f *leftBehind) alive(now time.Time) string {
	if active, _ := f.job.Int("status", "active"); active > 0 && !holds(f.job, "Complete") && !holds(f.job, "Failed") {
		return "its load is running"
	}
	// A run that begins has a reservation before it is kept.
	signs := []string{f.kept.Annotations()[AnnotationAlive]}
	if f.kept == nil {
		signs = append(signs, f.lease.Text("spec", "renewTime"))
	}
	for _, said := range signs {
		if beat, err := time.Parse(time.RFC3339Nano, said); err == nil && now.Sub(beat) < AliveFor {
			return fmt.Sprintf("a command led it %s ago", max(0, now.Sub(beat)).Round(time.Second))
		}
	}
	return ""
}

// namespaces are those to look into; "" where only what is in none has been left. One that
// is closed is among them, so that it is told of.
func (f *leftBehind) namespaces(look *lookout) []string {
	all := maps.Clone(f.places)
	for home := range f.homes {
		if look.closed[home] {
			all[home] = true
		}
	}
	if len(all) == 0 {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(all))
}

// findRuns finds what runs have left, by their id, and the namespaces that they share;
// none of those where one run is named.
func findRuns(ctx context.Context, look *lookout, run string, told Told) (map[string]*leftBehind, []string, error) {
	selector := LabelOwner + "=" + OwnerValue
	if run != "" {
		selector += "," + LabelRun + "=" + run
	}
	found := map[string]*leftBehind{}
	var shared []string
	for _, res := range []kube.Resource{resNamespaces, resQueues, resClusterRoles, resClusterBinds, resJobs, resConfigMaps, resLeases, resAccounts, resRoles, resRoleBindings} {
		all, err := look.ofOurs(ctx, res, selector)
		switch {
		case kube.IsNotFound(err): // the cluster has none of the kind
		case kube.IsForbidden(err) && (res == resQueues || res == resLeases || isRights(res)):
			told.say("%s were not looked for, since you may not: runs that were begun with wider rights than yours may have left some", res.Name)
		case err != nil:
			return nil, nil, fmt.Errorf("looking for %s of ours: %w", res.Name, err)
		}
		for _, o := range all {
			id := o.Labels()[LabelRun]
			homes := homesOf(o)
			look.known = append(look.known, homes...)
			if id == "" {
				if res == resNamespaces {
					shared = append(shared, o.Name())
				}
				continue
			}
			f := found[id]
			if f == nil {
				f = &leftBehind{id: id, places: map[string]bool{}, homes: map[string]bool{}}
				found[id] = f
			}
			for _, home := range homes {
				f.homes[home] = true
			}
			n := NamesOf(id)
			switch {
			case res == resNamespaces && o.Name() == n.Namespace:
				look.graphs = append(look.graphs, o.Name())
			case res == resConfigMaps && o.Name() == n.Kept:
				f.kept = o
			case res == resJobs && o.Name() == n.Load:
				f.job = o
			case res == resLeases:
				f.lease = o
			}
			if in := o.Namespace(); in != "" && in != n.Namespace { // which takes with it what is in it
				f.places[in] = true
			}
		}
	}
	return found, shared, nil
}
