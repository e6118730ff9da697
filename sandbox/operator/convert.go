package operator

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// annotationSpec is what a graph was in the version that it was written in, where the other one
// cannot say it: the operator writes it on what it has converted, and takes it away where it
// converts back.
const annotationSpec = "nvidia.com/dgd-spec"

// convertReview answers an API server that wants objects of Dynamo's in another version.
func convertReview(w http.ResponseWriter, r *http.Request) {
	var review apiextensions.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "this is no ConversionReview with a request", http.StatusBadRequest)
		return
	}
	answer := &apiextensions.ConversionResponse{UID: review.Request.UID}
	answer.Result.Status = metav1.StatusSuccess
	for _, o := range review.Request.Objects {
		u := &unstructured.Unstructured{}
		err := u.UnmarshalJSON(o.Raw)
		if err == nil {
			err = convert(u, review.Request.DesiredAPIVersion)
		}
		if err != nil {
			answer.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		answer.ConvertedObjects = append(answer.ConvertedObjects, runtime.RawExtension{Object: u})
	}
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // who asked is gone otherwise
}

// convert makes an object of Dynamo's one of another version. Of what is not a graph both have
// the same fields here.
func convert(u *unstructured.Unstructured, to string) error {
	from := u.GetAPIVersion()
	u.SetAPIVersion(to)
	if from == to || u.GetKind() != "DynamoGraphDeployment" {
		return nil
	}
	var there, back conversion = toAlpha, toBeta
	if to == "nvidia.com/"+beta {
		there, back = back, there
	}
	spec, _ := u.Object["spec"].(map[string]any)
	converted, err := restored(u, spec, back)
	if converted == nil && err == nil {
		converted, err = there(spec)
		if same, wrong := back(converted); err == nil && (wrong != nil || !sameJSON(same, spec)) {
			err = remember(u, spec)
		}
	}
	if err != nil {
		return fmt.Errorf("graph %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	u.Object["spec"] = converted
	if status, ok := u.Object["status"].(map[string]any); ok {
		u.Object["status"] = convertStatus(status, to)
	}
	return nil
}

// conversion makes a spec one of another version.
type conversion func(spec map[string]any) (map[string]any, error)

// restored is what a graph was before it was converted to what it is; nil: it has been changed
// since, or was not converted. What it was is forgotten.
func restored(u *unstructured.Unstructured, spec map[string]any, convertAgain conversion) (map[string]any, error) {
	annotations := u.GetAnnotations()
	text, ok := annotations[annotationSpec]
	if !ok {
		return nil, nil
	}
	delete(annotations, annotationSpec)
	u.SetAnnotations(annotations)
	var was map[string]any
	if err := kjson.Unmarshal([]byte(text), &was); err != nil {
		return nil, fmt.Errorf("its annotation %s: %w", annotationSpec, err)
	}
	if is, err := convertAgain(was); err != nil || !sameJSON(is, spec) {
		return nil, nil
	}
	return was, nil
}

func remember(u *unstructured.Unstructured, spec map[string]any) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationSpec] = string(text)
	u.SetAnnotations(annotations)
	return nil
}

// bothHave are the fields of a component that a service has by the same name.
var bothHave = []string{"replicas", "globalDynamoNamespace", "runtimeVersionOverride", "eppConfig", "multinode", "modelRef",
	"scalingAdapter", "topologyConstraint"}

// renamed is a spec with a field of another name, and without some.
func renamed(spec map[string]any, from, to string, without ...string) map[string]any {
	all := maps.Clone(spec)
	if v, ok := all[from]; ok {
		all[to] = v
	}
	for _, key := range append(without, from) {
		delete(all, key)
	}
	return all
}

// toAlpha makes a spec of v1beta1 one of v1alpha1.
func toAlpha(spec map[string]any) (map[string]any, error) {
	all := renamed(spec, "env", "envs", "components")
	components, _ := spec["components"].([]any)
	if len(components) == 0 {
		return all, nil
	}
	services := map[string]any{}
	for _, one := range components {
		c, ok := one.(map[string]any)
		name, named := c["name"].(string)
		if !ok || !named {
			return nil, fmt.Errorf("a component has no name")
		}
		service, err := toService(c)
		if err != nil {
			return nil, fmt.Errorf("component %s: %w", name, err)
		}
		services[name] = service
	}
	all["services"] = services
	return all, nil
}

func toService(c map[string]any) (map[string]any, error) {
	s := pick(c, bothHave...)
	if kind, ok := c["type"]; ok {
		s["componentType"] = kind
	}
	if size, ok := c["sharedMemorySize"]; ok {
		s["sharedMemory"] = map[string]any{"size": size}
	}
	template, _ := c["podTemplate"].(map[string]any)
	if metadata, ok := template["metadata"].(map[string]any); ok {
		if known := pick(metadata, "labels", "annotations"); len(known) > 0 {
			s["extraPodMetadata"] = known
		}
	}
	spec, ok := template["spec"].(map[string]any)
	if !ok {
		return s, nil
	}
	pod, others := maps.Clone(spec), []any{}
	containers, _ := spec["containers"].([]any)
	for _, one := range containers {
		container, ok := one.(map[string]any)
		switch {
		case !ok:
			return nil, fmt.Errorf("a container is no object")
		case container["name"] == mainContainer:
			main := maps.Clone(container)
			delete(main, "name")
			pod["mainContainer"] = main
		case container["name"] == c["frontendSidecar"]:
			s["frontendSidecar"] = container
		default:
			others = append(others, container)
		}
	}
	delete(pod, "containers")
	if len(others) > 0 {
		pod["containers"] = others
	}
	s["extraPodSpec"] = pod
	return s, nil
}

// toBeta makes a spec of v1alpha1 one of v1beta1.
func toBeta(spec map[string]any) (map[string]any, error) {
	all := renamed(spec, "envs", "env", "services", "pvcs")
	services, _ := spec["services"].(map[string]any)
	var components []any
	for _, name := range slices.Sorted(maps.Keys(services)) {
		s, _ := services[name].(map[string]any)
		c, err := toComponent(name, s)
		if err != nil {
			return nil, fmt.Errorf("service %s: %w", name, err)
		}
		components = append(components, c)
	}
	if len(components) > 0 {
		all["components"] = components
	}
	return all, nil
}

func toComponent(name string, fields map[string]any) (map[string]any, error) {
	var s alphaService
	if err := recode(fields, &s); err != nil {
		return nil, err
	}
	one, err := s.component(name)
	if err != nil {
		return nil, err
	}
	c := pick(fields, bothHave...)
	c["name"] = name
	if kind := s.Type; kind != "" {
		c["type"] = kind
	}
	if s.Type == "worker" && (s.SubType == "prefill" || s.SubType == "decode") {
		c["type"] = s.SubType
	}
	if one.shared != "" {
		c["sharedMemorySize"] = one.shared
	}
	if one.sidecar != "" {
		c["frontendSidecar"] = one.sidecar
	}
	if c["podTemplate"], err = plainTemplate(&one.pod); err != nil {
		return nil, err
	}
	return c, nil
}

// plainTemplate is a pod as it is written.
func plainTemplate(pod *corev1.PodTemplateSpec) (map[string]any, error) {
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil, err
	}
	if metadata, ok := template["metadata"].(map[string]any); ok && len(metadata) == 0 {
		delete(template, "metadata")
	}
	return template, nil
}

func pick(from map[string]any, keys ...string) map[string]any {
	some := map[string]any{}
	for _, key := range keys {
		if v, ok := from[key]; ok {
			some[key] = v
		}
	}
	return some
}

// convertStatus is a status in another version. The older one has one name of each component
// besides all of them.
func convertStatus(status map[string]any, to string) map[string]any {
	from, key := "services", "components"
	if to == "nvidia.com/"+alpha {
		from, key = key, from
	}
	parts, ok := status[from].(map[string]any)
	if !ok {
		return status
	}
	all, next := renamed(status, from, key), map[string]any{}
	for name, one := range parts {
		part, ok := one.(map[string]any)
		if !ok {
			continue
		}
		part = maps.Clone(part)
		delete(part, "componentName")
		if names, ok := part["componentNames"].([]any); ok && len(names) > 0 && key == "services" {
			part["componentName"] = names[len(names)-1]
		}
		next[name] = part
	}
	all[key] = next
	return all
}
