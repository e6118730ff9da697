// Command aicr-sandbox runs a Kubernetes with simulated GPU nodes on this machine.
//
// It is three kinds of processes of the one program:
//
//	up              on the host: owns the folder and the port, says what goes on, ends all
//	└ inner         in namespaces of its own: the network, the nodes, the operators
//	  ├ control-plane  etcd and Kubernetes' own three; restarted when it dies
//	  └ sandbox-pod    one for each container
//
// The host reaches the API server through a port that up listens on, and that inner
// inherits: it is the same over all restarts.
package main
