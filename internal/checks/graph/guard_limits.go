package graph

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// guardLimits finds limit ranges under which the server takes no pod of the load: a largest
// container or pod that is smaller, a smallest one that is larger, a ratio that the load is
// above, a limit by default below what it asks for, and a limit that it has to have and has
// not.
func guardLimits(ctx context.Context, api GuardAPI, in *GuardInput) ([]Refusal, error) {
	ranges, err := listLimits(ctx, api, in, "limitranges")
	if err != nil {
		return nil, err
	}
	load := loadResources(in.Settings)
	given := defaultLimits(ranges)
	var all []Refusal
	for _, l := range ranges {
		for _, item := range l.List("spec", "limits") {
			kind := strings.ToLower(item.Text("type"))
			if kind != "container" && kind != "pod" {
				continue
			}
			for _, name := range limitedNames() {
				c := limited{item: item, kind: kind, name: name, load: load, given: given[name]}
				for _, text := range c.refusals() {
					all = append(all, Refusal{spec.Inconclusive, fmt.Sprintf("limit range %s/%s: %s", l.Namespace(), l.Name(), text), raiseHint + loadSizeHint})
				}
			}
		}
	}
	return all, nil
}

func limitedNames() []string { return []string{"cpu", "memory", "ephemeral-storage"} }

// defaultLimits are those that the server gives to a container that has none.
func defaultLimits(ranges []kube.Object) map[string]string {
	all := map[string]string{} // where nothing is said, the server makes the maximum the default
	for _, l := range ranges {
		for _, item := range l.List("spec", "limits") {
			for _, name := range limitedNames() {
				if limit := cmp.Or(item.Text("default", name), item.Text("max", name)); limit != "" && item.Text("type") == "Container" {
					all[name] = limit
				}
			}
		}
	}
	return all
}

// limited is one resource of the load under one item of a limit range.
type limited struct {
	item  kube.Object
	kind  string // container, pod
	name  string
	load  amounts
	given string // the limit that the server gives where the load has none; "": none
}

// unlimited says that the load has no limit of a resource.
func (c *limited) unlimited() string {
	if c.name == "cpu" {
		return "has no limit of CPU, since a throttled client measures itself"
	}
	return "has no limit of " + c.name
}

// refusals is why the server would not take the load.
func (c *limited) refusals() (all []string) {
	request, requests := c.load.requests[c.name]
	limit, limits := c.load.limits[c.name]
	refuse := func(bound, said string, takes string) {
		all = append(all, fmt.Sprintf("%s %s of a %s is %s, and the load %s", bound, c.name, c.kind, said, takes))
	}
	said := func(bound string) (string, resource.Quantity, bool) {
		text := c.item.Text(bound, c.name)
		if text == "" {
			return "", resource.Quantity{}, false
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			refuse(bound, text, "cannot be held against that")
		}
		return text, q, err == nil
	}
	if text, usual, ok := said("default"); ok && requests && !limits && usual.Cmp(request) < 0 {
		refuse("default", text, "takes "+request.String())
	}
	if text, most, ok := said("max"); ok {
		switch needs := request; {
		case limits && most.Cmp(limit) < 0:
			refuse("max", text, "takes "+limit.String())
		case requests && !limits && most.Cmp(needs) < 0:
			refuse("max", text, "takes "+needs.String())
		case !limits && c.given == "" && c.kind == "pod": // a container's own max is its default
			refuse("max", text, c.unlimited())
		}
	}
	if text, least, ok := said("min"); ok && requests && least.Cmp(request) > 0 {
		refuse("min", text, "asks for "+request.String())
	}
	if text, ratio, ok := said("maxLimitRequestRatio"); ok {
		if given, err := resource.ParseQuantity(c.given); !limits && err == nil {
			limit, limits = given, true
		}
		switch {
		case !limits:
			refuse("maxLimitRequestRatio", text, c.unlimited())
		case !requests:
			refuse("maxLimitRequestRatio", text, "requests none of it")
		case limit.AsApproximateFloat64() > ratio.AsApproximateFloat64()*request.AsApproximateFloat64():
			refuse("maxLimitRequestRatio", text, fmt.Sprintf("asks for %s with a limit of %s", request.String(), limit.String()))
		}
	}
	return all
}
