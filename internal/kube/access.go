package kube

import (
	"fmt"
	"strings"
)

// Rule is a right that the collector needs, and what for.
type Rule struct {
	Group     string // of the API; "" is the core
	Resources []string
	Verbs     []string
	Paths     []string // that are no resources
	For       string
}

// Rules are all the rights that the collector needs. It has no use for others: it
// never reads Secrets, Pods or ConfigMaps, and changes nothing.
func Rules() []Rule {
	list := []string{"list"}
	return []Rule{
		{Paths: []string{"/version", "/apis", "/apis/*"}, Verbs: []string{"get"}, For: "the server's version and the APIs that it serves; every user has these unless they were taken away"},
		{Group: "", Resources: []string{"nodes"}, Verbs: list, For: "GPUs, labels, taints, kernel, kubelet, operating system"},
		{Group: "apps", Resources: []string{"deployments", "daemonsets"}, Verbs: list, For: "GPU operator, Dynamo operator, KAI, Grove, DCGM exporter: version and whether they are ready"},
		{Group: groupDRA, Resources: []string{resourceSlices, deviceClasses}, Verbs: list, For: "GPUs that are handed out by DRA"},
		{Group: groupNVIDIA, Resources: []string{graphDeployments, clusterPolicies}, Verbs: list, For: "the runtimes that are deployed; whether the GPU operator is ready"},
		{Group: "storage.k8s.io", Resources: []string{"storageclasses"}, Verbs: list, For: "storage classes, and the default one"},
	}
}

// RoleName is what the role is called.
const RoleName = "aicr-snapshot"

// ClusterRole is Rules as a manifest.
func ClusterRole() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: %s\nrules:\n", RoleName)
	for _, r := range Rules() {
		fmt.Fprintf(&b, "# %s\n", r.For)
		if len(r.Paths) > 0 {
			fmt.Fprintf(&b, "- nonResourceURLs: %s\n", flow(r.Paths))
		} else {
			fmt.Fprintf(&b, "- apiGroups: %s\n  resources: %s\n", flow([]string{r.Group}), flow(r.Resources))
		}
		fmt.Fprintf(&b, "  verbs: %s\n", flow(r.Verbs))
	}
	return []byte(b.String())
}

func flow(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
