package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"aicr/internal/kube"
)

// Readiness is how far a graph is.
type Readiness struct {
	Ready      bool
	State      string
	Components []ComponentReady
}

// ComponentReady is how far a component is.
type ComponentReady struct {
	Name string
	Role string
	Want int
	Have *int // nil: the operator does not say
}

// Workers are those of all components: wanted, and ready. What is not known is not there.
func (r *Readiness) Workers() (want, have int) {
	for _, c := range r.Components {
		if c.Role == roleWorker {
			want += c.Want
			if c.Have != nil {
				have += min(*c.Have, c.Want)
			}
		}
	}
	return want, have
}

// Lacks is the first component that is not ready, workers last, since they take longest;
// nil: none.
func (r *Readiness) Lacks() *ComponentReady {
	var lacking *ComponentReady
	for i := range r.Components {
		c := &r.Components[i]
		if c.Have != nil && *c.Have >= c.Want {
			continue
		}
		if lacking == nil || lacking.Role == roleWorker {
			lacking = c
		}
	}
	return lacking
}

// readinessOf reads a graph in either version's shape. The operator's word alone is not
// enough: it called graphs successful that lacked workers.
func readinessOf(graph kube.Object) Readiness {
	r := Readiness{State: graph.Text("status", "state")}
	add := func(name, kind string, spec, status kube.Object) {
		c := ComponentReady{Name: name, Role: roleOf(kube.Object{"metadata": map[string]any{"labels": map[string]any{"nvidia.com/dynamo-component-type": kind}}}), Want: 1}
		if n, ok := spec.Int("replicas"); ok {
			c.Want = int(n)
		}
		for _, field := range []string{"readyReplicas", "availableReplicas"} {
			if n, ok := status.Int(field); ok && c.Have == nil {
				have := int(n)
				c.Have = &have
			}
		}
		r.Components = append(r.Components, c)
	}
	for _, c := range graph.List("spec", "components") { // v1beta1
		add(c.Text("name"), c.Text("type"), c, statusOf(graph.Map("status", "components"), c.Text("name")))
	}
	services := graph.Map("spec", "services") // v1alpha1
	for _, name := range slices.Sorted(maps.Keys(services)) {
		c := services.Map(name)
		add(name, c.Text("componentType"), c, statusOf(graph.Map("status", "services"), name))
	}
	generation, _ := graph.Int("metadata", "generation")
	observed, told := graph.Int("status", "observedGeneration")
	r.Ready = r.State == "successful" && len(r.Components) > 0 && r.Lacks() == nil && (!told || observed >= generation)
	return r
}

// statusOf is a component's by its name, which operators write in either case.
func statusOf(all kube.Object, name string) kube.Object {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if strings.EqualFold(key, name) {
			return all.Map(key)
		}
	}
	return nil
}

// lacking is "3 of 8 workers", or "the frontend".
func (c *ComponentReady) lacking() string {
	have := 0
	if c.Have != nil {
		have = *c.Have
	}
	switch {
	case c.Role == roleWorker:
		return fmt.Sprintf("%d of %d workers", c.Want-have, c.Want)
	case c.Want > 1:
		return fmt.Sprintf("%d of %d of %s", c.Want-have, c.Want, c.Name)
	case c.Role == roleOther:
		return c.Name
	}
	return "the " + c.Role
}
