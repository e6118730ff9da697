// Package proof holds the simulator's two drivers against each other through the
// whole program: `aicr bench` against `aicr sim serve`, over sockets and in real
// time, must measure what `aicr sim play` says of the same scenario. It has no
// code, only tests; they measure time, so make runs them alone.
package proof
