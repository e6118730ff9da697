package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"aicr/sandbox/config"
	"aicr/sandbox/controlplane"
	"aicr/sandbox/network"
	"aicr/sandbox/pki"
	"aicr/sandbox/services"
)

// The files that inner inherits.
const (
	portDescriptor     = 3
	messagesDescriptor = 4
)

func newInner() *cobra.Command {
	var dir, given string
	cmd := &cobra.Command{
		Use: "inner", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			to := &teller{to: os.NewFile(messagesDescriptor, "messages")}
			err := runInner(cmd.Context(), dir, given, to)
			if err != nil && cmd.Context().Err() == nil {
				to.tell(messageOf(err))
				return err
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "")
	cmd.Flags().StringVar(&given, "given", "", "")
	return cmd
}

func messageOf(err error) message {
	m := message{Error: err.Error()}
	if a, ok := err.(advised); ok {
		m.Hint = a.hint
	}
	return m
}

// writeGiven hands a configuration to inner.
func writeGiven(folder string, c config.Config) (string, error) {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "config.json")
	return path, os.WriteFile(path, text, 0o600)
}

func readGiven(path string) (c config.Config, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(text, &c)
}

func runInner(ctx context.Context, folder, given string, to *teller) error {
	log := func(format string, values ...any) { klog.InfofDepth(1, format, values...) }
	c, err := readGiven(given)
	if err != nil {
		return err
	}
	if err := network.Isolate(); err != nil {
		return advised{err, namespaceHint}
	}
	authority, err := pki.Open(filepath.Join(folder, "pki"))
	if err != nil {
		return err
	}
	if c.Audit {
		if err := controlplane.EnableAudit(folder); err != nil {
			return err
		}
	}
	port, err := net.FileListener(os.NewFile(portDescriptor, "port"))
	if err != nil {
		return fmt.Errorf("the port of the API server: %w", err)
	}
	go network.Forward(ctx, port.(*net.TCPListener), network.APIServer, func() bool { return controlplane.Ready(ctx, authority) })

	to.tell(message{Progress: "starting etcd, the API server, the controllers and the scheduler"})
	// The control plane is the last to end: whoever uses it may finish.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	ready, failed := make(chan struct{}), make(chan error, 1)
	plane, err := controlPlaneKeeper(folder, ready, log)
	if err != nil {
		stopServing()
		return err
	}
	go func() { failed <- plane.Run(serving) }()
	ended := false
	defer func() {
		stopServing()
		if !ended {
			<-failed
		}
	}()
	for !controlplane.Ready(ctx, authority) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			ended = true
			return advised{err, "see " + filepath.Join(folder, controlPlaneLog)}
		case <-time.After(50 * time.Millisecond):
		}
	}
	close(ready)

	client, err := administrator(authority)
	if err != nil {
		return err
	}
	if err := serveNetwork(ctx, client, log); err != nil {
		return err
	}
	stop, err := startCluster(ctx, parts{
		config: c, client: client, authority: authority, folder: folder, log: log,
		progress: func(text string) { to.tell(message{Progress: text}) },
	})
	defer stop()
	if err != nil {
		return err
	}
	to.tell(message{Ready: true})
	<-ctx.Done()
	return nil
}

// administrator is how the parts of the sandbox reach the API server.
func administrator(authority *pki.Authority) (*rest.Config, error) {
	text, err := authority.Kubeconfig(controlplane.URL(), controlplane.Administrator)
	if err != nil {
		return nil, err
	}
	client, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return nil, err
	}
	client.QPS, client.Burst = 200, 400
	return client, nil
}

// serveNetwork starts what makes names and addresses of services work.
func serveNetwork(ctx context.Context, client *rest.Config, log func(string, ...any)) error {
	api, err := kubernetes.NewForConfig(client)
	if err != nil {
		return err
	}
	var now atomic.Pointer[network.Directory]
	names := network.Names{Directory: now.Load}
	if err := names.Serve(ctx, network.NameServer); err != nil {
		return err
	}
	proxy := network.NewProxy(ctx, log)
	return services.Watch(ctx, api, func(d *network.Directory) {
		now.Store(d)
		proxy.Apply(d)
	})
}
