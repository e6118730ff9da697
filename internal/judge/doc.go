// Package judge says what recorded episodes mean. It is pure: no clock, no I/O,
// no randomness, so that the same record gives the same answer next year on
// another machine.
//
// Summarize (summary.go) sums an episode up. Live (live.go) takes samples as they
// come and says what is off now: its rules, a file each, are listed in symptoms.go
// and look at a window of typed states (window.go). Tally sums an observation up.
// The ledgers, the diagnoses and the verdict are planned here.
package judge
