// Package operator is what a GPU cluster has installed besides Kubernetes: the CRDs of
// Dynamo, KAI, Grove and the Gateway API, stand-ins for the Dynamo operator and for Grove
// (grove.go) that make pods of graphs, and the workloads by which the GPU operator, the DRA driver and the exporters
// are known. Read Start first.
//
// What a graph becomes is decided by pure functions: readGraph (graph.go) reads either
// version of it, convert (convert.go) makes one the other, children (children.go) are the
// objects that it is made into, status (status.go) is what is reported of it. The rest looks
// and writes. What of it was held against the public sources, and what the real ones do
// besides, is in docs/upstream-facts.md.
package operator
