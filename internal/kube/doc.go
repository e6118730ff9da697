// Package kube is all that this program says to Kubernetes and hears from it. It is
// the only room that imports client-go: it finds the cluster, collects a Snapshot of
// what is there, and keeps documents in ConfigMaps. What it asks for is in access.go
// as data, and it asks for nothing else.
package kube
