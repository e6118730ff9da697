package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	apiresource "k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/pkg/kubelet/envvars"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// env is the environment of the container, as a list and as a table.
func (c *container) env(image Image) ([]string, map[string]string, error) {
	pod := c.r.current()
	base := map[string]string{}
	put := func(pairs ...string) {
		for _, pair := range pairs {
			name, value, _ := strings.Cut(pair, "=")
			base[name] = value
		}
	}
	c.r.mu.Lock()
	ip := c.r.ip
	c.r.mu.Unlock()
	put("PATH="+defaultPath, "HOME=/root", "HOSTNAME="+hostname(pod), "POD_IP="+ip)
	put(c.r.n.gpuEnv(c.r.gpusOf(c.spec.Name))...)
	put(image.Env...)
	for _, e := range c.r.n.serviceEnv(pod) {
		base[e.Name] = e.Value
	}
	set := map[string]string{} // what the pod itself says
	if err := c.envFrom(pod, set); err != nil {
		return nil, nil, err
	}
	expand := expansion.MappingFuncFor(set, base)
	for _, e := range c.spec.Env {
		if e.ValueFrom == nil {
			set[e.Name] = expansion.Expand(e.Value, expand)
			continue
		}
		value, there, err := c.valueFrom(pod, ip, e.ValueFrom)
		if err != nil {
			return nil, nil, err
		}
		if there {
			set[e.Name] = value
		}
	}
	maps.Copy(base, set)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(base)) {
		list = append(list, name+"="+base[name])
	}
	return list, base, nil
}

func hostname(pod *v1.Pod) string {
	if pod.Spec.Hostname != "" {
		return pod.Spec.Hostname
	}
	return pod.Name
}

// serviceEnv are the services of the pod's namespace, and the API server's.
func (c *cluster) serviceEnv(pod *v1.Pod) []v1.EnvVar {
	var services []*v1.Service
	if one, err := c.services.Services(v1.NamespaceDefault).Get("kubernetes"); err == nil {
		services = append(services, one)
	}
	if pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks {
		own, err := c.services.Services(pod.Namespace).List(labels.Everything())
		if err != nil {
			own = nil
		}
		for _, s := range own {
			if s.Spec.ClusterIP != "" && s.Spec.ClusterIP != v1.ClusterIPNone && !(s.Namespace == v1.NamespaceDefault && s.Name == "kubernetes") {
				services = append(services, s)
			}
		}
	}
	return envvars.FromServices(services)
}

func (c *container) envFrom(pod *v1.Pod, set map[string]string) error {
	for _, from := range c.spec.EnvFrom {
		switch {
		case from.ConfigMapRef != nil:
			m, err := c.r.n.configs.ConfigMaps(pod.Namespace).Get(from.ConfigMapRef.Name)
			if err != nil {
				if apierrors.IsNotFound(err) && optional(from.ConfigMapRef.Optional) {
					continue
				}
				return err
			}
			for name, value := range m.Data {
				set[from.Prefix+name] = value
			}
		case from.SecretRef != nil:
			s, err := c.r.n.secrets.Secrets(pod.Namespace).Get(from.SecretRef.Name)
			if err != nil {
				if apierrors.IsNotFound(err) && optional(from.SecretRef.Optional) {
					continue
				}
				return err
			}
			for name, value := range s.Data {
				set[from.Prefix+name] = string(value)
			}
		}
	}
	return nil
}

func optional(o *bool) bool { return o != nil && *o }

// valueFrom is a value that stands elsewhere. It says false where there is none and
// none is needed.
func (c *container) valueFrom(pod *v1.Pod, ip string, from *v1.EnvVarSource) (string, bool, error) {
	switch {
	case from.FieldRef != nil:
		value, err := c.r.field(pod, ip, from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err := c.r.n.resourceField(pod, from.ResourceFieldRef, c.spec.Name)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		m, err := c.r.n.configs.ConfigMaps(pod.Namespace).Get(ref.Name)
		if apierrors.IsNotFound(err) && optional(ref.Optional) {
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
		value, there := m.Data[ref.Key]
		if !there && !optional(ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", ref.Key, pod.Namespace, ref.Name)
		}
		return value, there, nil
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		s, err := c.r.n.secrets.Secrets(pod.Namespace).Get(ref.Name)
		if apierrors.IsNotFound(err) && optional(ref.Optional) {
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
		value, there := s.Data[ref.Key]
		if !there && !optional(ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %s in Secret %s/%s", ref.Key, pod.Namespace, ref.Name)
		}
		return string(value), there, nil
	}
	return "", false, fmt.Errorf("a source of a value that the sandbox does not know")
}

// field is a field of the pod, those of its status included.
func (r *podRun) field(pod *v1.Pod, ip, path string) (string, error) {
	switch path {
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return r.n.addr.String(), nil
	case "status.podIP", "status.podIPs":
		return ip, nil
	}
	return fieldpath.ExtractFieldPathAsString(pod, path)
}

func (n *node) resourceField(pod *v1.Pod, ref *v1.ResourceFieldSelector, container string) (string, error) {
	if ref.ContainerName != "" {
		container = ref.ContainerName
	}
	return apiresource.ExtractResourceValueByContainerNameAndNodeAllocatable(ref, pod, container, n.status().Allocatable)
}

func expandAll(words []string, values map[string]string) []string {
	mapping := expansion.MappingFuncFor(values)
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = expansion.Expand(w, mapping)
	}
	return out
}
