// Sandbox-pod is what runs inside the pods of a sandbox: the shim that every container
// begins with, and the programs that stand in for images.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"aicr/sandbox/programs"
	"aicr/sandbox/shim"
)

// Each is given the arguments after its name, and returns the exit code.
var commands = map[string]func(args []string) int{
	"shim":  shim.Main,
	"enter": shim.Enter,
	"pause": pause,
}

func main() {
	if len(os.Args) > 1 {
		if run, ok := commands[os.Args[1]]; ok {
			os.Exit(run(os.Args[2:]))
		}
		if code, found := programs.Run(os.Args[1], os.Args[2:]); found {
			os.Exit(code)
		}
	}
	fmt.Fprintln(os.Stderr, "sandbox-pod is started by the nodes of a sandbox, not by hand")
	os.Exit(2)
}

// pause does nothing until it is told to end.
func pause([]string) int {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
	return 0
}
