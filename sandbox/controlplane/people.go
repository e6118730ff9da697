package controlplane

import (
	"net"

	"aicr/sandbox/network"
	"aicr/sandbox/pki"
)

// Administrator may do everything. The user of a sandbox is one, and so are its parts.
var Administrator = pki.Subject{File: "admin", User: "sandbox-admin", Group: "system:masters"}

var (
	server = pki.Subject{
		File: "apiserver", User: "kube-apiserver",
		Names:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + network.Domain},
		Addresses: []net.IP{net.IPv4(127, 0, 0, 1), network.APIServer.Addr().AsSlice(), network.APIService.AsSlice()},
	}
	kubeletClient     = pki.Subject{File: "apiserver-kubelet", User: "kube-apiserver-kubelet-client", Group: "system:masters"}
	controllerManager = pki.Subject{File: "controller-manager", User: "system:kube-controller-manager"}
	scheduler         = pki.Subject{File: "scheduler", User: "system:kube-scheduler"}
)

// URL is where the API server is within the sandbox's network.
func URL() string { return "https://" + network.APIServer.String() }
