// Package proof runs the program as its users do: against a simulated fleet over
// sockets in real time, killed at random moments, and in sweeps of millions of
// simulated requests. It has no code, only tests; they measure time, so that make
// runs them alone.
package proof
