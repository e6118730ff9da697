// Package spec holds the documents that cross from room to room, and to
// scripts: what they are called, what their fields mean, how they are read.
//
// It is a leaf: it imports nothing of this project and does no I/O. There are
// Bench (bench.go), the result of a load run; Run and Episode (episode.go), the
// record that a verdict is made from; and Scenario (scenario.go, profile.go,
// faults.go), a simulated fleet and what goes wrong with it. The Verdict joins
// them when it is built.
//
// What people write is decoded strictly, by decode.go: every mistake of a
// document is found at once, and each (mistake.go) has its line and a hint.
package spec
