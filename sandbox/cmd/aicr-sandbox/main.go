package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	// Before anything else, because it has flags of its own.
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		os.Args = os.Args[1:]
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		tell(err)
		os.Exit(1)
	}
}

// advised is an error with a way out.
type advised struct {
	error
	hint string
}

func (a advised) Unwrap() error { return a.error }

func tell(err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	var a advised
	if errors.As(err, &a) {
		fmt.Fprintln(os.Stderr, "hint:", a.hint)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "aicr-sandbox",
		Short: "A Kubernetes with simulated GPU nodes on this machine, without a container runtime",
		Long: `A Kubernetes with simulated GPU nodes on this machine, without a container runtime.

The API server, etcd, the controllers and the scheduler are the real ones. Nodes are
simulated, and pods are local processes with your own rights: apply only manifests
that you trust.`,
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(newUp(), newKubectl(), newInner(), newControlPlane())
	return root
}

// newKubectl is for the help alone: main has run it before.
func newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl [ARGUMENT...]",
		Short:              "The kubectl of the same version",
		DisableFlagParsing: true,
		Run:                func(*cobra.Command, []string) {},
	}
}
