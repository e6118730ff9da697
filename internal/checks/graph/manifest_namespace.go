package graph

import "aicr/internal/kube"

// podSecurity is the label by which a namespace says what its pods may be.
const podSecurity = "pod-security.kubernetes.io/enforce"

// namespaceManifest is the graph's own. Dynamo's operator makes pods that say nothing of
// their security but whose group their volumes are, which the level restricted would
// refuse and baseline does not; said here, so that a cluster whose default is restricted
// takes them.
func namespaceManifest(s *Settings) kube.Object {
	o := manifest("v1", "Namespace", "", s.Names().Namespace, s, PartGraph, nil)
	o["metadata"].(fields)["labels"].(fields)[podSecurity] = "baseline"
	return o
}

// validationManifest is the namespace of the load, made where there is none. It is of no
// single run, so that it carries the owner's label and no run's. All pods in it are ours,
// and restricted.
func validationManifest(s *Settings) kube.Object {
	labels := words(Labels("", PartKept))
	delete(labels, LabelRun)
	labels[podSecurity] = "restricted"
	return kube.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": fields{"name": s.Namespace, "labels": labels}}
}
