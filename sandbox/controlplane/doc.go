// Package controlplane is etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler in one process, unchanged and with all their state in one folder.
//
// There is one a process: the programs keep state in globals. It is meant to be killed
// at any moment; the next Run on the same folder goes on where the last has ended.
package controlplane
