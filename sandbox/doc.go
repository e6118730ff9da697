// Package sandbox is a whole Kubernetes on one machine, without a container runtime
// and without a GPU: the real etcd, API server, controller manager and scheduler, and
// nodes whose pods are local processes. aicr is proved on it, and may be tried on it.
//
// Read cmd/aicr-sandbox first: it says which process starts which. Then config (what
// the cluster is to have), network (its private addresses, names and services), pki
// (who is who), controlplane (the four programs of Kubernetes), kubelet (nodes and
// pods) and operator (what a GPU cluster has installed besides).
//
// It is a module of its own, because Kubernetes as a library is a heavy dependency with
// many replaced modules, of which aicr itself must know nothing.
package sandbox
