//go:build !unix

package load

import "net"

func stale(net.Conn) bool { return false }
