// Package sim is the simulated serving stack: a frontend with its router,
// workers that step as a continuous-batching engine does, their GPUs, the node,
// and everything that can go wrong with them.
//
// There is one model, Fleet, which knows nothing of clocks, sockets or clients:
// it is told what arrives, and moves from event to event. Two drivers move it.
// Play (play.go) does so as fast as it can, with a modelled client, and records
// episodes; Live (live.go) does so as real time passes, for the HTTP endpoint of
// the package serve. Read fleet.go first, then worker.go.
//
// A scenario and a seed pin everything: the same two give the same bytes.
package sim
