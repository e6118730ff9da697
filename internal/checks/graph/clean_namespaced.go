package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"aicr/internal/kube"
)

// CleanIn is Clean for runs that are in one namespace, with rights in that alone: nothing
// outside of it is looked at.
func CleanIn(ctx context.Context, api API, namespace, run string, dryRun bool, told Told) ([]Removed, []Left, error) {
	found, err := findIn(ctx, api, namespace, run)
	if err != nil {
		return nil, nil, err
	}
	var removed []Removed
	var left []Left
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if why := found[id].alive(time.Now()); why != "" && run == "" {
			told.spares(Spared{Run: id, Namespace: namespace, Alive: true, Why: why})
			continue
		}
		s := &Settings{Run: id, Namespace: namespace, Namespaced: true}
		r := &remover{api: api, told: told, run: id, names: s.Names(), shared: true, prepared: true, dry: dryRun}
		r.graph(ctx)
		r.load(ctx, namespace)
		removed, left = append(removed, r.removed...), append(left, r.left...)
	}
	told.waiting("")
	return removed, left, ctx.Err()
}

// findIn finds runs by what is kept of them, their Jobs and their graphs.
func findIn(ctx context.Context, api API, namespace, run string) (map[string]*leftBehind, error) {
	selector := LabelOwner + "=" + OwnerValue
	if run != "" {
		selector += "," + LabelRun + "=" + run
	}
	found := map[string]*leftBehind{}
	kinds := []kube.Resource{resConfigMaps, resJobs}
	for _, v := range graphVersions {
		kinds = append(kinds, resGraphs(v))
	}
	for _, res := range kinds {
		all, _, err := listAny(ctx, api, res, namespace, selector)
		if kube.IsNotFound(err) { // the cluster has none of the kind
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking for %s of ours in namespace %s: %w", res.Name, namespace, err)
		}
		for _, o := range all {
			id := o.Labels()[LabelRun]
			if id == "" {
				continue
			}
			if found[id] == nil {
				found[id] = &leftBehind{id: id}
			}
			switch n := NamesOf(id); {
			case res == resConfigMaps && o.Name() == n.Kept:
				found[id].kept = o
			case res == resJobs && o.Name() == n.Load:
				found[id].job = o
			}
		}
	}
	return found, nil
}
