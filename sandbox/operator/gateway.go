package operator

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

const gatewayController = "agentgateway.dev/agentgateway"

// gatewayObjects are the gateway that a recipe with an endpoint picker has, as published.
func gatewayObjects() []fields {
	at := time.Now().UTC().Format(time.RFC3339)
	condition := func(kind string) fields {
		return fields{"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at, "observedGeneration": int64(1)}
	}
	return []fields{
		{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": fields{"name": gatewayClass},
			"spec":   fields{"controllerName": gatewayController},
			"status": fields{"conditions": []any{condition("Accepted")}}},
		{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": fields{"name": gatewayName, "namespace": gatewayNamespace},
			"spec": fields{"gatewayClassName": gatewayClass, "listeners": []any{fields{"name": "http", "protocol": "HTTP", "port": int64(80), "allowedRoutes": fields{"namespaces": fields{"from": "All"}}}}},
			"status": fields{"conditions": []any{condition("Accepted"), condition("Programmed")},
				"addresses": []any{fields{"type": "Hostname", "value": gatewayName + "." + gatewayNamespace + ".svc"}}}},
		{"apiVersion": "v1", "kind": "Service", "metadata": fields{"name": gatewayName, "namespace": gatewayNamespace, "labels": fields{"gateway.networking.k8s.io/gateway-name": gatewayName}},
			"spec": fields{"selector": fields{"app": gatewayName}, "ports": []any{fields{"name": "http", "port": int64(80), "targetPort": int64(8080)}}}},
	}
}

// route is what matters of an HTTPRoute.
type route struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Hostnames  []string `json:"hostnames"`
		ParentRefs []struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"parentRefs"`
		Rules []struct {
			Matches []struct {
				Path struct {
					Type  string `json:"type"`
					Value string `json:"value"`
				} `json:"path"`
				Headers []struct {
					Name  string `json:"name"`
					Value string `json:"value"`
				} `json:"headers"`
			} `json:"matches"`
			BackendRefs []struct {
				Kind string `json:"kind"`
				Name string `json:"name"`
			} `json:"backendRefs"`
		} `json:"rules"`
	} `json:"spec"`
}

// ours says whether the route is for the one gateway.
func (r *route) ours() bool {
	for _, p := range r.Spec.ParentRefs {
		if p.Name == gatewayName && cmp.Or(p.Namespace, r.Namespace) == gatewayNamespace {
			return true
		}
	}
	return false
}

// pool is the pool that a request goes to; false: the route is not for it.
func (r *route) pool(host, path string, header http.Header) (string, bool) {
	host, _, _ = strings.Cut(host, ":")
	if len(r.Spec.Hostnames) > 0 && !slices.Contains(r.Spec.Hostnames, host) {
		return "", false
	}
	for _, rule := range r.Spec.Rules {
		matches := len(rule.Matches) == 0
		for _, m := range rule.Matches {
			prefix := cmp.Or(m.Path.Value, "/")
			one := path == prefix || m.Path.Type != "Exact" && strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
			for _, h := range m.Headers {
				one = one && header.Get(h.Name) == h.Value
			}
			matches = matches || one
		}
		if !matches {
			continue
		}
		for _, b := range rule.BackendRefs {
			if b.Kind == "InferencePool" {
				return b.Name, true
			}
		}
	}
	return "", false
}

// readRoutes are the routes of the gateway. The oldest comes first, as the Gateway API
// has it where two are for the same.
func (op *operator) readRoutes() ([]*route, error) {
	all, err := op.routes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var some []*route
	for _, o := range all {
		var r route
		if err := recode(o.(*unstructured.Unstructured).Object, &r); err != nil {
			return nil, err
		}
		if r.ours() && r.DeletionTimestamp == nil {
			some = append(some, &r)
		}
	}
	slices.SortFunc(some, func(a, b *route) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return some, nil
}

// lookAtRoutes tells of each route whether its pool is there.
func (op *operator) lookAtRoutes(ctx context.Context) error {
	all, err := op.routes.List(labels.Everything())
	wrong := []error{err}
	for _, o := range all {
		u := o.(*unstructured.Unstructured)
		var r route
		if err := recode(u.Object, &r); err != nil || !r.ours() || r.DeletionTimestamp != nil {
			continue
		}
		resolved, reason, message := "True", "ResolvedRefs", ""
		for _, rule := range r.Spec.Rules {
			for _, b := range rule.BackendRefs {
				if _, err := op.pools.ByNamespace(r.Namespace).Get(b.Name); b.Kind == "InferencePool" && err != nil {
					resolved, reason, message = "False", "BackendNotFound", "InferencePool "+b.Name+" is not there"
				}
			}
		}
		at := time.Now().UTC().Format(time.RFC3339)
		before, _ := u.Object["status"].(map[string]any)
		if parents, ok := before["parents"].([]any); ok && len(parents) > 0 {
			if old, ok := parents[0].(map[string]any)["conditions"].([]any); ok && len(old) == 2 && old[1].(map[string]any)["status"] == resolved {
				continue
			}
		}
		next := u.DeepCopy()
		next.Object["status"] = fields{"parents": []any{fields{
			"parentRef":      fields{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": gatewayName, "namespace": gatewayNamespace},
			"controllerName": gatewayController,
			"conditions": []any{
				fields{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": at, "observedGeneration": u.GetGeneration()},
				fields{"type": "ResolvedRefs", "status": resolved, "reason": reason, "message": message, "lastTransitionTime": at, "observedGeneration": u.GetGeneration()},
			},
		}}}
		_, err := op.api.Resource(routes).Namespace(r.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{FieldManager: gatewayController})
		wrong = append(wrong, unlessStale(err))
	}
	return errors.Join(wrong...)
}
