// Package exporter is the Prometheus pages of a simulated fleet: the
// frontend's as Dynamo has it, each worker's as vLLM under Dynamo has it, the
// GPUs' as a DCGM exporter has it, and the node's as a node exporter has it.
//
// Two things feed a page. What is true at a moment, and the counters that the
// fleet itself keeps, come from one sim.Snapshot a scrape, so that a page never
// contradicts itself. Distributions, and what only the HTTP side knows
// (endpoints, kinds of error), are told by the package serve through Started,
// FirstToken, Gap and Finished.
//
// Names, types, labels and bucket bounds are the real ones; testdata/real_*.txt
// lists them with their sources, and a test holds the pages against the lists.
// What nothing in the model stands for is left out rather than made up: the
// list of that, with the reasons, is in names_test.go.
package exporter
