package main

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"aicr/sandbox/controlplane"
	"aicr/sandbox/pki"
	"aicr/sandbox/process"
)

func newControlPlane() *cobra.Command {
	return &cobra.Command{
		Use: "control-plane", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			authority, err := pki.Open("pki")
			if err != nil {
				return err
			}
			// One that does not end in time is ended; its state is on the disk.
			context.AfterFunc(cmd.Context(), func() {
				time.AfterFunc(10*time.Second, func() { os.Exit(1) })
			})
			return controlplane.Run(cmd.Context(), authority)
		},
	}
}

// controlPlaneKeeper keeps the process of newControlPlane running.
func controlPlaneKeeper(folder string, ready <-chan struct{}, log func(string, ...any)) (*process.Keeper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	output, err := openLog(folder, controlPlaneLog)
	if err != nil {
		return nil, err
	}
	return &process.Keeper{
		Folder: folder, Name: "control-plane", Ready: ready, Log: log,
		Command: func() *exec.Cmd {
			cmd := exec.Command(self, "control-plane")
			cmd.Dir, cmd.Stdout, cmd.Stderr = folder, output, output
			return cmd
		},
	}, nil
}
