package spec

import (
	"fmt"
	"slices"
	"strings"
)

// Resources are what a container requests and is limited to, by the names of resources, in
// Kubernetes' quantities.
type Resources struct {
	Requests map[string]string `json:"requests,omitempty"`
	Limits   map[string]string `json:"limits,omitempty"`
}

// resourceNames are those that can be set. GPUs are handed out by the run itself.
func resourceNames() []string { return []string{"cpu", "memory", "ephemeral-storage"} }

const resourcesHint = "write it as cpu=4,memory=16Gi for requests and limits alike, or as requests.cpu=2,limits.memory=16Gi"

// ParseResources reads cpu=4,memory=16Gi: a name alone sets the request and the limit,
// requests.NAME and limits.NAME one of them. Text says what is wrong; "": nothing. What the
// quantities mean together is for who knows Kubernetes' arithmetic.
func ParseResources(value string) (r Resources, text, hint string) {
	r = Resources{Requests: map[string]string{}, Limits: map[string]string{}}
	for part := range strings.SplitSeq(value, ",") {
		key, amount, ok := strings.Cut(strings.TrimSpace(part), "=")
		side, name, one := strings.Cut(key, ".")
		if !one {
			side, name = "", key
		}
		known := slices.Contains(resourceNames(), name) && (side == "" || side == "requests" || side == "limits")
		switch digits := quantity.FindStringSubmatch(amount); {
		case !ok:
			return r, fmt.Sprintf("%s is not NAME=QUANTITY", quote(part)), resourcesHint
		case strings.Contains(name, "gpu"):
			return r, fmt.Sprintf("%s cannot be set: each worker has one GPU", quote(key)), "leave it out"
		case !known:
			return r, fmt.Sprintf("unknown resource %s; resources are %s", quote(key), strings.Join(resourceNames(), ", ")), resourcesHint
		case digits == nil:
			return r, fmt.Sprintf("%s: %s is not a quantity", key, quote(amount)), resourcesHint
		case strings.Trim(digits[1], "0.") == "":
			return r, fmt.Sprintf("%s is 0", key), "leave it out, or give it more than 0"
		}
		for _, set := range []struct {
			side string
			into map[string]string
		}{{"requests", r.Requests}, {"limits", r.Limits}} {
			if side != "" && side != set.side {
				continue
			}
			if _, twice := set.into[name]; twice {
				return r, fmt.Sprintf("%s.%s is set twice", set.side, name), "leave one of them out"
			}
			set.into[name] = amount
		}
	}
	return r, "", ""
}

func resourcesKnob(value string) (string, string) {
	_, text, hint := ParseResources(value)
	return text, hint
}

// Resources are what a knob says of a container's; none where it is not set.
func (all KnobValues) Resources(name string) Resources {
	value, _, ok := all.Said(name)
	if !ok {
		return Resources{}
	}
	r, _, _ := ParseResources(value)
	return r
}

// ResourceKnobs are the names of those that say what containers request.
func ResourceKnobs() []string {
	return []string{KnobWorkerResources, KnobFrontendResources, KnobJobResources, KnobLoadResources}
}
