//go:build !linux

// Command bench needs Linux: it pins processes to cores and drains by epoll.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "error: the cost bench runs on Linux only")
	os.Exit(2)
}
