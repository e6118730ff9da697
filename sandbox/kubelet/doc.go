// Package kubelet is the nodes of a sandbox. Their pods are processes of this machine.
//
// Read kubelet.go first (what is started), then node.go (a node and its lease), pod.go
// (the life of a pod), container.go (the life of a container) and process.go. What a
// container is given is in env.go, volumes.go, devices.go and images.go. Who asks a node
// over HTTP comes in by server.go, and is served by logs.go and streams.go.
// provisioner.go gives claims of storage their volumes.
//
// What differs from a real kubelet:
//   - Pods are processes with the rights of whoever runs the sandbox. The user, groups,
//     capabilities and limits of a securityContext or of resources are accepted and do
//     nothing. Run manifests that you trust.
//   - All pods share one network namespace. A pod has an address of its own, in POD_IP,
//     and a program has to listen there, not at 0.0.0.0.
//   - A container sees the host's files, with its own volumes over them.
//   - Back-off after a crash begins with 1 s and ends at 10 s, and after a failed pull
//     with 2 s and ends at 10 s, where a kubelet has 10 s and 5 min.
//   - Probes may be quick: each second and from the start, where they get a pod ready.
//   - Nobody is killed for memory. The fault "oom" plays it.
//   - Images are local programs (images.go).
//
// Faults are words in the annotation sandbox.aicr.run/faults, with commas between them.
// On a node they hold for the containers that have GPUs there, on a pod for all of its
// containers: see faults.go.
package kubelet
