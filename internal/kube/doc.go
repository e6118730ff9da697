// Package kube is all that this program says to Kubernetes and hears from it. It is
// the only room that imports client-go: it finds the cluster, collects a Snapshot of
// what is there, keeps documents in ConfigMaps, and makes, reads and deletes objects of
// any kind. What the collector asks for is in access.go as data, and it asks for nothing
// else.
//
// Read call.go first: how a call bears a server that is away is there, for all of them.
// Who holds which GPU is ledger.go, which asks nothing.
package kube
