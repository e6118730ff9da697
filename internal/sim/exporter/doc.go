// Package exporter is the Prometheus pages of a simulated fleet: the
// frontend's as Dynamo has it, each worker's as vLLM under Dynamo has it, the
// GPUs' as a DCGM exporter has it, and the node's as a node exporter has it.
//
// Three things feed the pages. What is true at a moment, and most counters, come
// from one sim.Snapshot a scrape. What a worker sees of its requests it is told
// as the fleet's sim.Observer, when the worker sees it: how a frontend hands
// tokens on is no matter of a worker's. What the frontend sees is told by the
// package serve through Started, FirstToken, Gap and Finished.
//
// What a worker has observed is kept together and copied at once, so that a page
// never contradicts itself: its tokens are as many as their times. It starts anew
// with the worker's process, as of the first scrape that finds another.
//
// Names, types, labels and bucket bounds are the real ones; testdata/real_*.txt
// lists them with their sources, and a test holds the pages against the lists.
// What nothing in the model stands for is left out rather than made up: the
// list of that, with the reasons, is in names_test.go. Thus the node's page has
// its name and its pressure, and neither a load nor what its CPUs did, since the
// model has no scheduler.
package exporter
