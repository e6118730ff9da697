package graph

import "aicr/internal/kube"

// The gateway that a recipe with gateway-epp has, as published.
const (
	GatewayName      = "inference-gateway"
	GatewayNamespace = "agentgateway-system"
)

// RouteHeader is the header by which a gateway tells the requests of a run from everybody
// else's, and its value. A gateway is shared: a route that took every path would take
// other people's requests, and two runs each other's.
func RouteHeader(s *Settings) (name, value string) { return "x-aicr-run", s.Names().Short }

// routeManifest is the gateway's way to the workers. Dynamo's operator makes the pool,
// and no route to it. A cold first answer takes long: the time is that of the probe and
// more.
func routeManifest(s *Settings) kube.Object {
	n := s.Names()
	name, value := RouteHeader(s)
	return manifest("gateway.networking.k8s.io/v1", "HTTPRoute", n.Namespace, n.Route, s, PartGraph, fields{"spec": fields{
		"parentRefs": []any{fields{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": GatewayName, "namespace": GatewayNamespace}},
		"rules": []any{fields{
			"matches": []any{fields{
				"path":    fields{"type": "PathPrefix", "value": "/"},
				"headers": []any{fields{"type": "Exact", "name": name, "value": value}},
			}},
			"backendRefs": []any{fields{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": n.Graph + "-pool"}},
			"timeouts":    fields{"request": "300s"},
		}},
	}})
}
