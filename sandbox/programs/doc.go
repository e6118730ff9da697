// Package programs is what the pods of the sandbox run in place of images that cannot
// run here: the parts of a Dynamo graph, the exporters, the gateway. Read Find
// (programs.go) for the list of them, and Images (images.go) for which image is which.
//
// A program knows its pod by POD_IP alone, which the kubelet sets, and asks the sandbox
// (facts.go) for the rest: on which node it is, what is to go wrong there, which graph it
// belongs to. It binds no address but its pod's, since all pods share one network.
//
// Nothing of Kubernetes is imported here: a pod that starts has to start fast.
package programs
