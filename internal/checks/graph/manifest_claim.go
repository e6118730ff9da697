package graph

import "aicr/internal/kube"

// deviceClass is that of whole GPUs.
const deviceClass = "gpu.nvidia.com"

// claimManifest is the template of the claim that each worker has of its own: one GPU.
// v1beta1 has no level for the kind of request.
func claimManifest(s *Settings) kube.Object {
	n := s.Names()
	one := fields{"deviceClassName": deviceClass, "allocationMode": "ExactCount", "count": int64(1)}
	request := fields{"name": gpuRequest, "exactly": one}
	if s.DRA == "v1beta1" {
		one["name"] = gpuRequest
		request = one
	}
	return manifest("resource.k8s.io/"+s.DRA, "ResourceClaimTemplate", n.Namespace, n.Claim, s, PartGraph, fields{
		"spec": fields{"spec": fields{"devices": fields{"requests": []any{request}}}},
	})
}

// gpuRequest is what a pod calls its claim, and the claim its request.
const gpuRequest = "gpu"
