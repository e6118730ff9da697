package graph

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// The annotations that make a storage class the default; the second is of old clusters.
const (
	defaultClass    = "storageclass.kubernetes.io/is-default-class"
	oldDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
)

// guardStorage wants to know which storage class the cache is made of: the named one, or
// the one default. With two defaults Kubernetes takes the younger, which nobody chose. One
// that keeps its volumes is refused: a run that cannot take away what it made does not
// begin, and nobody here has the right to delete a volume.
func guardStorage(ctx context.Context, api GuardAPI, in *GuardInput) ([]Refusal, error) {
	cache := in.Settings.Cache
	if cache == nil {
		return nil, nil
	}
	classes := resourceOf("storage.k8s.io", "v1", "storageclasses")
	if cache.Class != "" {
		class, err := api.Read(ctx, classes, "", cache.Class)
		switch {
		case err == nil:
			return keepsVolumes(class), nil
		case kube.IsNotFound(err):
			return []Refusal{{spec.Fail, fmt.Sprintf("there is no storage class %s for the model cache", cache.Class), noCacheHint}}, nil
		case kube.IsForbidden(err): // told by guardRights
			return nil, nil
		}
		return nil, err
	}
	found, err := api.List(ctx, classes, "", "")
	if kube.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var usual, all []string
	var chosen kube.Object
	for _, c := range found {
		all = append(all, c.Name())
		if c.Annotations()[defaultClass] == "true" || c.Annotations()[oldDefaultClass] == "true" {
			usual, chosen = append(usual, c.Name()), c
		}
	}
	slices.Sort(all)
	slices.Sort(usual)
	switch {
	case len(usual) == 1:
		return keepsVolumes(chosen), nil
	case len(usual) > 1:
		return []Refusal{{spec.Inconclusive, fmt.Sprintf("%d storage classes are the default: %s", len(usual), strings.Join(usual, ", ")), "name one of them: " + spec.KnobCacheClass}}, nil
	case len(all) == 0:
		return []Refusal{{spec.Fail, "the cluster has no storage class for the model cache", noCacheHint}}, nil
	}
	return []Refusal{{spec.Fail, "no storage class is the default one, and none is named for the model cache: there are " + strings.Join(all, ", "), noCacheHint}}, nil
}

// keepsVolumes refuses a class whose volumes stay when their claims are gone. One that says
// nothing deletes them.
func keepsVolumes(class kube.Object) []Refusal {
	if policy := class.Text("reclaimPolicy"); policy != "" && policy != "Delete" {
		return []Refusal{{spec.Inconclusive, fmt.Sprintf("storage class %s has reclaimPolicy %s: the volume of the model cache would stay when the run is gone", class.Name(), policy), noCacheHint}}
	}
	return nil
}

const noCacheHint = "name one with " + spec.KnobCacheClass + ", or do without a cache: " + spec.KnobCacheSize + "=off"
