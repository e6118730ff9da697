package network

import (
	"fmt"
	"net/netip"
)

// The addresses of a cluster. The pods have all of Pods but its last /23, which is the
// control plane's and the nodes'.
var (
	Pods     = netip.MustParsePrefix("10.244.0.0/16")
	Services = netip.MustParsePrefix("10.96.0.0/16")

	APIServer  = netip.MustParseAddrPort("10.244.254.1:6443") // where it listens
	APIService = netip.MustParseAddr("10.96.0.1")             // the Service kubernetes, its first address by convention
	NameServer = netip.MustParseAddrPort("10.96.0.10:53")
)

// KubeletPort is that of every node.
const KubeletPort = 10250

// Node is the address of the i-th node, from 0. It is not one that a pod is given.
func Node(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 244, 255, byte(i + 1)})
}

// Domain is the cluster's own.
const Domain = "cluster.local"

// ResolvConf is /etc/resolv.conf of the pods of a namespace.
func ResolvConf(namespace string) string {
	return fmt.Sprintf("search %s.svc.%s svc.%[2]s %[2]s\nnameserver %s\noptions ndots:5\n", namespace, Domain, NameServer.Addr())
}
