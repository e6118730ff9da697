//go:build !linux

package load

import "net"

// setAck can do nothing: only Linux lets a program acknowledge at once.
func setAck(*net.TCPConn, ackHabit) {}
