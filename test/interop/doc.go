// Package interop holds aicr against software that this project did not write:
// Dynamo's frontend with its mocker workers, and AIPerf, both as PyPI has them.
// All of it is tests. `make interop` installs what requirements.txt locks and
// runs them; run.sh is that command.
//
// Read stack_test.go first: it brings up a real serving stack on loopback, which
// every test loads, watches or breaks. bench_test.go holds the figures of two
// load generators against each other, replay_test.go their files, wire_test.go
// and pages_test.go the simulator against what it imitates, routers_test.go and
// faults_test.go the observer against real processes that misbehave, and
// validate_test.go the verdict against the same.
package interop
