package programs

// Images says which program stands in for which image, by the repository: a tag or a
// digest chooses nothing.
func Images() map[string]string {
	return map[string]string{
		"nvcr.io/nvidia/ai-dynamo/vllm-runtime":        "runtime",
		"nvcr.io/nvidia/ai-dynamo/dynamo-frontend":     "epp",
		"nvcr.io/nvidia/ai-dynamo/kubernetes-operator": "dynamo-operator",
		"nvcr.io/nvidia/gpu-operator":                  "controller",
		"nvcr.io/nvidia/k8s/dcgm-exporter":             "dcgm-exporter",
		"registry.k8s.io/dra-driver-nvidia/driver":     "controller",
		"quay.io/prometheus/node-exporter":             "node-exporter",
		"cr.agentgateway.dev/agentgateway":             "gateway",
		"ghcr.io/kai-scheduler/kai-scheduler/operator": "controller",
		"ghcr.io/ai-dynamo/grove/grove-operator":       "controller",
	}
}
