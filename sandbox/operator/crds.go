package operator

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"go.yaml.in/yaml/v3"
)

//go:embed crds/*.yaml
var definitionFiles embed.FS

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// readDefinitions reads the definitions of a file. YAML's aliases are of use there, which
// the reader of Kubernetes does not know.
func readDefinitions(file string) ([]*apiextensions.CustomResourceDefinition, error) {
	data, err := definitionFiles.ReadFile("crds/" + file + ".yaml")
	if err != nil {
		return nil, err
	}
	var all []*apiextensions.CustomResourceDefinition
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var fields map[string]any
		if err := decoder.Decode(&fields); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		var d apiextensions.CustomResourceDefinition
		if err := recode(fields, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, &d)
	}
}

// graphDefinition is that of graphs, with the versions that are to be served. Where
// v1alpha1 is served it is the stored one, as it is up to Dynamo 1.4; the other is then had
// through a webhook of the operator.
func graphDefinition(served []string) (*apiextensions.CustomResourceDefinition, error) {
	all, err := readDefinitions("dynamographdeployments")
	if err != nil {
		return nil, err
	}
	d := all[0]
	d.Spec.Versions = slices.DeleteFunc(d.Spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool { return !slices.Contains(served, v.Name) })
	if len(d.Spec.Versions) != len(served) {
		return nil, fmt.Errorf("of the versions %q of DynamoGraphDeployment, %d are known", served, len(d.Spec.Versions))
	}
	for i := range d.Spec.Versions {
		d.Spec.Versions[i].Storage = d.Spec.Versions[i].Name == stored(served)
	}
	return d, nil
}

// stored is the version that graphs are stored in, of those that are served.
func stored(served []string) string {
	if slices.Contains(served, alpha) {
		return alpha
	}
	return beta
}

// define installs definitions and waits until they are served.
func define(ctx context.Context, client dynamic.Interface, all []*apiextensions.CustomResourceDefinition) error {
	crds := client.Resource(definitions)
	for _, d := range all {
		d.APIVersion, d.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
		if err != nil {
			return err
		}
		delete(fields, "status")
		object := &unstructured.Unstructured{Object: fields}
		if _, err := crds.Create(ctx, object, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			_, err = crds.Apply(ctx, d.Name, object, metav1.ApplyOptions{FieldManager: manager, Force: true})
			if err != nil {
				return fmt.Errorf("%s: %w", d.Name, err)
			}
		} else if err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	for _, d := range all {
		for {
			o, err := crds.Get(ctx, d.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("%s: %w", d.Name, err)
			}
			var seen apiextensions.CustomResourceDefinition
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &seen); err != nil {
				return err
			}
			if slices.ContainsFunc(seen.Status.Conditions, func(c apiextensions.CustomResourceDefinitionCondition) bool {
				return c.Type == apiextensions.Established && c.Status == apiextensions.ConditionTrue
			}) {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is not served: %w", d.Name, ctx.Err())
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}
