// Package interop holds aicr against software that this project did not write:
// Dynamo's frontend with its mocker workers, AIPerf, llama.cpp's server and vLLM, as PyPI has
// them, and nginx.
// All of it is tests. `make interop` installs what requirements.txt locks and
// runs them; run.sh is that command.
//
// Read stack_test.go first: it brings up a real serving stack on loopback, which
// every test loads, watches or breaks. bench_test.go holds the figures of two
// load generators against each other, replay_test.go their files, wire_test.go
// and pages_test.go the simulator against what it imitates, routers_test.go and
// faults_test.go the observer against real processes that misbehave, and
// validate_test.go the verdict against the same. engine_test.go brings up engines without
// Dynamo: llama.cpp's, or vLLM's with `make interop-vllm`. engines_test.go has what is held
// of both, vllm_test.go what vLLM alone has.
package interop
