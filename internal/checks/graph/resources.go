package graph

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"aicr/internal/spec"
)

// amounts are what a container requests and is limited to, as Kubernetes counts it.
type amounts struct{ requests, limits map[string]resource.Quantity }

// asked lays what was asked for over what a container has without it. What is asked for
// prevails: a usual request is lowered to a limit that was asked for, and a usual limit is
// raised to such a request.
func asked(usual, own spec.Resources) amounts {
	a := amounts{quantitiesOf(usual.Requests), quantitiesOf(usual.Limits)}
	maps.Copy(a.requests, quantitiesOf(own.Requests))
	maps.Copy(a.limits, quantitiesOf(own.Limits))
	for name, limit := range a.limits {
		request, both := a.requests[name]
		if !both || request.Cmp(limit) <= 0 {
			continue
		}
		if _, said := own.Limits[name]; said {
			a.requests[name] = limit
		} else {
			a.limits[name] = request
		}
	}
	return a
}

// quantitiesOf reads quantities; what cannot be read was refused with the settings.
func quantitiesOf(all map[string]string) map[string]resource.Quantity {
	read := map[string]resource.Quantity{}
	for name, text := range all {
		if q, err := resource.ParseQuantity(text); err == nil {
			read[name] = q
		}
	}
	return read
}

// fields are the amounts as a container has them.
func (a amounts) fields() fields {
	all := fields{}
	for side, of := range map[string]map[string]resource.Quantity{"requests": a.requests, "limits": a.limits} {
		one := fields{}
		for name, q := range of {
			one[name] = q.String()
		}
		if len(one) > 0 {
			all[side] = one
		}
	}
	return all
}

// leastBytes is what a container needs to start at all: less is a unit that was forgotten.
const leastBytes = 1 << 20

// CheckResources says what no container can be given, of resources that are written as they
// should be; "": nothing.
func CheckResources(r spec.Resources) (text, hint string) {
	for _, side := range []struct {
		name string
		all  map[string]string
	}{{"requests", r.Requests}, {"limits", r.Limits}} {
		for _, name := range slices.Sorted(maps.Keys(side.all)) {
			q, err := resource.ParseQuantity(side.all[name])
			switch {
			case err != nil:
				return fmt.Sprintf("%s.%s: %q is not a quantity: %v", side.name, name, side.all[name], err), "write it as Kubernetes does: 500m, 4, 16Gi"
			case q.Sign() <= 0:
				return fmt.Sprintf("%s.%s is %s, and must be above 0", side.name, name, side.all[name]), "leave it out, or give it more than 0"
			case name != "cpu" && q.CmpInt64(leastBytes) < 0:
				return fmt.Sprintf("%s.%s is %s bytes, in which no container starts", side.name, name, q.AsDec()), fmt.Sprintf("give it a unit: %s=16Gi", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		limit, both := r.Limits[name]
		if request := resource.MustParse(r.Requests[name]); both && request.Cmp(resource.MustParse(limit)) > 0 {
			return fmt.Sprintf("requests.%s is %s, above limits.%s of %s", name, r.Requests[name], name, limit), "request no more than the limit"
		}
	}
	return "", ""
}

// LoadMilliCPU is what the load requests of CPU, in millicores: a node that has less free
// takes it not.
func LoadMilliCPU(s *Settings) int64 {
	cpu := loadResources(s).requests["cpu"]
	return cpu.MilliValue()
}
