// Package proof holds the proof that the load engine tells the truth, and
// nothing else: it is all tests.
//
// Read TestTheEngineTellsTheTruth first. A server that knows what it did (package
// sim/truth) runs in a process and on a core of its own, the engine in another
// process on another core, and what the engine reports is held against what the
// server wrote. Both keep the same clock, so the difference is the engine's
// error. The bound is one millisecond plus the server's own lateness.
//
// The other tests need the kernel's clock as well: what it does to a client
// without a processor, to acknowledgements, and to requests that nothing but
// their time limit ends. What can be said without it is tested in package load.
package proof
