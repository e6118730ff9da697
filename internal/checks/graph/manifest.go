package graph

import (
	"maps"
	"slices"
	"strconv"

	"aicr/internal/kube"
)

// fields are those of an object or of a part of one.
type fields = map[string]any

// manifest is an object with the labels of its run. Namespace is "" where it is
// cluster-wide, and then it says where the run is kept.
func manifest(apiVersion, kind, namespace, name string, s *Settings, part string, more fields) kube.Object {
	meta := fields{"name": name, "labels": words(Labels(s.Run, part))}
	if namespace != "" {
		meta["namespace"] = namespace
	} else if s.Namespace != "" {
		meta["annotations"] = fields{AnnotationHome: s.Namespace}
	}
	o := kube.Object{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	maps.Copy(o, more)
	return o
}

// words is a map of strings as objects have it.
func words(from map[string]string) fields {
	all := fields{}
	for k, v := range from {
		all[k] = v
	}
	return all
}

// row is a list of strings as objects have it.
func row(from ...string) []any {
	all := make([]any, len(from))
	for i, v := range from {
		all[i] = v
	}
	return all
}

// env is a variable of a container.
func env(name, value string) fields { return fields{"name": name, "value": value} }

// tokenEnv are the variables that the token is read from. The pod has no more than the
// name of its Secret, and starts without one too.
func tokenEnv(s *Settings) []any {
	if !s.Token {
		return nil
	}
	var all []any
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		all = append(all, fields{"name": name, "valueFrom": fields{"secretKeyRef": fields{"name": s.Names().Secret, "key": tokenKey, "optional": true}}})
	}
	return all
}

// pinned puts a pod on the one node of the run, by the label that the scheduler knows
// every node by.
func pinned(s *Settings, pod fields) fields {
	host := s.Host
	if host == "" {
		host = s.Node
	}
	pod["nodeSelector"] = fields{"kubernetes.io/hostname": host}
	return pulled(s, tolerant(s, pod))
}

// tolerant gives a pod the tolerations of the run.
func tolerant(s *Settings, pod fields) fields {
	var all []any
	for _, t := range s.Tolerations {
		one := fields{}
		for key, value := range map[string]string{"key": t.Key, "operator": t.Operator, "value": t.Value, "effect": t.Effect} {
			if value != "" {
				one[key] = value
			}
		}
		if t.Seconds != nil {
			one["tolerationSeconds"] = *t.Seconds
		}
		all = append(all, one)
	}
	if len(all) > 0 {
		pod["tolerations"] = all
	}
	return pod
}

// pulled gives a pod what its images are pulled with.
func pulled(s *Settings, pod fields) fields {
	if s.Images.PullSecret != "" {
		pod["imagePullSecrets"] = []any{fields{"name": s.Images.PullSecret}}
	}
	return pod
}

// restrictedPod and restrictedContainer are what Pod Security's level restricted asks
// of a pod. Everything that is ours keeps to it.
func restrictedPod(uid int64) fields {
	return fields{"runAsNonRoot": true, "runAsUser": uid, "runAsGroup": uid, "fsGroup": uid, "seccompProfile": fields{"type": "RuntimeDefault"}}
}

func restrictedContainer() fields {
	return fields{"allowPrivilegeEscalation": false, "capabilities": fields{"drop": row("ALL")}}
}

// readOnlyContainer is one that writes to its volumes alone.
func readOnlyContainer() fields {
	c := restrictedContainer()
	c["readOnlyRootFilesystem"] = true
	return c
}

// cacheMount is where every pod of the graph has the model.
const cacheMount = "/model-cache"

func digits(n int) string { return strconv.Itoa(n) }

// seconds are whole ones, rounded up.
func seconds(all ...Duration) int64 {
	var sum Duration
	for _, d := range all {
		sum += d
	}
	const one = Duration(1e9)
	return int64((sum + one - 1) / one)
}

// joined are lists, one after the other.
func joined(all ...[]any) []any { return slices.Concat(all...) }
