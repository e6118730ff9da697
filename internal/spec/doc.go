// Package spec holds the documents that cross from room to room, and to
// scripts: what they are called, what their fields mean, how they are read.
//
// It is a leaf: it imports nothing of this project and does no I/O. So far there
// is one document, Bench (bench.go), the result of a load run; the Scenario, the
// Episode and the Verdict join it as they are built.
package spec
