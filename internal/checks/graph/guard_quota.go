package graph

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// wants is what the load takes of a quota in its namespace. What is not here is not held
// against it.
func wants() map[string]string {
	return map[string]string{
		"pods": "1", "count/pods": "2", "count/jobs.batch": "2", "configmaps": "2", "count/configmaps": "2", "count/serviceaccounts": "1",
		"count/roles.rbac.authorization.k8s.io": "1", "count/rolebindings.rbac.authorization.k8s.io": "1",
		"cpu": LoadCPU, "requests.cpu": LoadCPU, "memory": LoadMemory, "requests.memory": LoadMemory, "limits.memory": loadMemoryMax,
	}
}

// guardQuota holds what the load takes against what is left of the quotas in its
// namespace. A namespace that is not there yet has none.
func guardQuota(ctx context.Context, api GuardAPI, in *GuardInput) ([]Refusal, error) {
	quotas, err := listLimits(ctx, api, in, "resourcequotas")
	if err != nil {
		return nil, err
	}
	var all []Refusal
	for _, q := range quotas {
		if !ofLoad(q) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(q.Map("status", "hard"))) {
			hard, used := q.Text("status", "hard", name), q.Text("status", "used", name)
			refuse := func(format string, args ...any) {
				all = append(all, Refusal{spec.Inconclusive, fmt.Sprintf("quota %s/%s: ", q.Namespace(), q.Name()) + fmt.Sprintf(format, args...), "raise it, or run in another namespace: --namespace"})
			}
			if name == "limits.cpu" {
				refuse("it limits limits.cpu, and the load has no limit of CPU, since a throttled client measures itself")
				continue
			}
			want, ok := wants()[name]
			if !ok {
				continue
			}
			if short, known := leaves(hard, used, want); !known {
				refuse("%s is %s of %s, which cannot be read", name, used, hard)
			} else if short {
				refuse("%s of %s are used of %s, and the load takes %s", used, hard, name, want)
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
func leaves(hard, used, want string) (short, known bool) {
	if _, err := resource.ParseQuantity(want); err != nil {
		return false, false
	}
	h, err := resource.ParseQuantity(hard)
	if err != nil {
		return false, false
	}
	u, err := resource.ParseQuantity(used)
	if err != nil {
		return false, false
	}
	h.Sub(u)
	return h.Cmp(resource.MustParse(want)) < 0, true
}

// guardLimits finds limits that make the load impossible: a largest container or pod that
// is smaller, a smallest one that is larger, a limit by default below what the load asks
// for, a ratio of limit to request that it exceeds.
func guardLimits(ctx context.Context, api GuardAPI, in *GuardInput) ([]Refusal, error) {
	ranges, err := listLimits(ctx, api, in, "limitranges")
	if err != nil {
		return nil, err
	}
	var all []Refusal
	for _, l := range ranges {
		refuse := func(format string, args ...any) {
			all = append(all, Refusal{spec.Inconclusive, fmt.Sprintf("limit range %s/%s: ", l.Namespace(), l.Name()) + fmt.Sprintf(format, args...),
				"change it, or run in another namespace: --namespace"})
		}
		limited := limitsCPU(l)
		for _, item := range l.List("spec", "limits") {
			kind := strings.ToLower(item.Text("type"))
			if kind != "container" && kind != "pod" {
				continue
			}
			for _, c := range []struct{ bound, name, want string }{
				{"max", "cpu", LoadCPU}, {"default", "cpu", LoadCPU}, {"max", "memory", loadMemoryMax},
			} {
				said := item.Text(c.bound, c.name)
				if short, known := leaves(said, "0", c.want); said != "" && (short || !known) {
					refuse("%s %s of a %s is %s, and the load takes %s", c.bound, c.name, kind, said, c.want)
				}
			}
			for _, c := range []struct{ name, asks string }{{"cpu", LoadCPU}, {"memory", LoadMemory}} {
				said := item.Text("min", c.name)
				if short, known := leaves(c.asks, "0", said); said != "" && (short || !known) {
					refuse("min %s of a %s is %s, and the load asks for %s", c.name, kind, said, c.asks)
				}
			}
			if said := item.Text("maxLimitRequestRatio", "memory"); said != "" && over(said, loadMemoryMax, LoadMemory) {
				refuse("maxLimitRequestRatio memory of a %s is %s, and the load asks for %s with a limit of %s", kind, said, LoadMemory, loadMemoryMax)
			}
			if said := item.Text("maxLimitRequestRatio", "cpu"); said != "" && (limited == "" || over(said, limited, LoadCPU)) {
				refuse("maxLimitRequestRatio cpu of a %s is %s, and the load has no limit of CPU, since a throttled client measures itself", kind, said)
			}
			if said := item.Text("max", "cpu"); said != "" && kind == "pod" && limited == "" {
				refuse("max cpu of a pod is %s, which every container must then be limited by, and the load has no limit of CPU", said)
			}
		}
	}
	return all, nil
}

// limitsCPU is the limit of CPU that a limit range gives to a container without one; "":
// none.
func limitsCPU(l kube.Object) string {
	for _, item := range l.List("spec", "limits") {
		if item.Text("type") == "Container" {
			if limit := cmp.Or(item.Text("default", "cpu"), item.Text("max", "cpu")); limit != "" {
				return limit
			}
		}
	}
	return ""
}

// over says that a limit is more than so many times a request. What cannot be read is.
func over(ratio, limit, request string) bool {
	most, err := resource.ParseQuantity(ratio)
	if err != nil {
		return true
	}
	l, err := resource.ParseQuantity(limit)
	if err != nil {
		return true
	}
	r := resource.MustParse(request)
	return l.AsApproximateFloat64()/r.AsApproximateFloat64() > most.AsApproximateFloat64()
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
