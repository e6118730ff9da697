// Package services tells the network what services and endpoints the API server has.
// It stands apart from the network, which knows nothing of Kubernetes.
package services
