package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

const (
	raiseHint     = "change it, or run in another namespace: --namespace"
	loadSizeHint  = "; " + spec.KnobLoadResources + " says what the load takes"
	loadLimitHint = "set a limit of CPU that never throttles it: " + spec.KnobLoadResources + "=limits.cpu=8; or run in another namespace: --namespace"
)

// wants is what the load and its trial take of a quota in their namespace, which are not
// there at the same time. What is not here is not held against them.
func wants(s *Settings) map[string]resource.Quantity {
	one, two := resource.MustParse("1"), resource.MustParse("2")
	all := map[string]resource.Quantity{
		"pods": one, "count/pods": two, "count/jobs.batch": two, "configmaps": two, "count/configmaps": two, "count/serviceaccounts": one,
		"count/leases.coordination.k8s.io": one, "count/roles.rbac.authorization.k8s.io": one, "count/rolebindings.rbac.authorization.k8s.io": one,
	}
	most := func(name string, q resource.Quantity) {
		if was, ok := all[name]; !ok || was.Cmp(q) < 0 {
			all[name] = q
		}
	}
	for _, a := range []amounts{loadResources(s), trialResources(s)} {
		for name, q := range a.requests {
			most("requests."+name, q)
			if name != "ephemeral-storage" { // which a quota counts under its own name too
				most(name, q)
			}
		}
		if q, ok := a.requests["ephemeral-storage"]; ok {
			most("ephemeral-storage", q)
		}
		for name, q := range a.limits {
			most("limits."+name, q)
		}
	}
	return all
}

// guardQuota holds what the load takes against what is left of the quotas in its
// namespace. A namespace that is not there yet has none.
func guardQuota(ctx context.Context, api GuardAPI, in *GuardInput) ([]Refusal, error) {
	quotas, err := listLimits(ctx, api, in, "resourcequotas")
	if err != nil {
		return nil, err
	}
	wanted := wants(in.Settings)
	var all []Refusal
	for _, q := range quotas {
		if !ofLoad(q) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(q.Map("status", "hard"))) {
			hard, used := q.Text("status", "hard", name), q.Text("status", "used", name)
			refuse := func(hint, format string, args ...any) {
				all = append(all, Refusal{spec.Inconclusive, fmt.Sprintf("quota %s/%s: ", q.Namespace(), q.Name()) + fmt.Sprintf(format, args...), hint})
			}
			want, ok := wanted[name]
			if !ok && name == "limits.cpu" {
				refuse(loadLimitHint, "it limits limits.cpu, and the load has no limit of CPU, since a throttled client measures itself")
			}
			if !ok {
				continue
			}
			hint := raiseHint
			if strings.Contains(name, "cpu") || strings.Contains(name, "memory") || strings.Contains(name, "storage") {
				hint += loadSizeHint
			}
			if short, known := leaves(hard, used, want); !known {
				refuse(hint, "%s is %s of %s, which cannot be read", name, used, hard)
			} else if short {
				refuse(hint, "%s of %s are used of %s, and the load takes %s", used, hard, name, want.String())
			}
		}
	}
	return all, nil
}

// ofLoad says whether a quota is of pods like the load's, which has requests, and no
// deadline of its own.
func ofLoad(quota kube.Object) bool {
	scopes := quota.Texts("spec", "scopes")
	for _, e := range quota.List("spec", "scopeSelector", "matchExpressions") {
		scopes = append(scopes, e.Text("scopeName"))
	}
	return !slices.ContainsFunc(scopes, func(s string) bool { return s != "NotBestEffort" && s != "NotTerminating" })
}

// leaves says whether less than want is left of what is hard.
func leaves(hard, used string, want resource.Quantity) (short, known bool) {
	h, err := resource.ParseQuantity(hard)
	if err != nil {
		return false, false
	}
	u, err := resource.ParseQuantity(used)
	if err != nil {
		return false, false
	}
	h.Sub(u)
	return h.Cmp(want) < 0, true
}

// listLimits lists what limits the load's namespace. Where that may not be read, guardRights
// tells it. AIPerf runs in the run's own namespace, which is new.
func listLimits(ctx context.Context, api GuardAPI, in *GuardInput, name string) ([]kube.Object, error) {
	if in.Settings.Engine == EngineAIPerf {
		return nil, nil
	}
	found, err := api.List(ctx, resourceOf("", "v1", name), in.Settings.Namespace, "")
	if kube.IsForbidden(err) {
		return nil, nil
	}
	slices.SortFunc(found, func(a, b kube.Object) int { return strings.Compare(a.Name(), b.Name()) })
	return found, err
}
