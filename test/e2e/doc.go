// Package e2e proves the whole of inference-perf on a real Kubernetes: the control plane
// of sandbox/, whose nodes run pods as processes. All of it is tests. `make e2e` builds
// the sandbox and runs them; run.sh is that command.
//
// Read cluster_test.go first: it brings a cluster up, runs the program against it, and
// compares every object before and after. healthy_test.go is the way that a user goes,
// failures_test.go each start that fails, faults_test.go each fleet that is not well,
// kill_test.go what survives a kill, together_test.go several at once, neighbours_test.go
// two teams, rights_test.go the roles, modes_test.go the other ways to deploy and to load.
package e2e
