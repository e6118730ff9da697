// Package judge says what recorded episodes mean. It is pure: no clock, no I/O,
// no randomness but a seeded bootstrap, so that the same record gives the same
// answer next year on another machine.
//
// Read Case (case.go) first: it hears what happened, takes episodes, and says after
// each what they mean and whether one more is wanted. An episode is laid out second
// by second as both witnesses have it (timeline.go), searched for stalls
// (stalls.go), and kept as a digest (digest.go, hardware.go). Evidence (evidence.go)
// weighs the digests by two sequential tests and the rules beside them
// (sequence.go); the diagnoses, a file each, are listed in diagnoses.go.
//
// Summarize (summary.go) sums an episode up. Live (live.go) takes samples as they
// come and says what is off now: its rules, a file each, are listed in symptoms.go
// and look at a window of typed states (window.go). Tally sums an observation up.
// The knee of a sweep is found in knee.go, what a history of runs shows in
// history.go.
package judge
