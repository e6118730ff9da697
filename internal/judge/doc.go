// Package judge says what recorded episodes mean. It is pure: no clock, no I/O,
// no randomness, so that the same record gives the same answer next year on
// another machine.
//
// So far it sums an episode up (Summarize, summary.go); the ledgers, the
// diagnoses and the verdict are planned here.
package judge
