package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/rest"

	"aicr/sandbox/config"
	"aicr/sandbox/kubelet"
	"aicr/sandbox/operator"
	"aicr/sandbox/pki"
)

// parts are what the cluster is made of, once its control plane and network are there.
type parts struct {
	config    config.Config
	client    *rest.Config
	authority *pki.Authority
	folder    string
	log       func(format string, values ...any)
	progress  func(text string)
}

// startCluster starts the nodes, then what is installed on them. stop ends the pods, and
// is never nil.
func startCluster(ctx context.Context, p parts) (stop func(), err error) {
	stop = func() {}
	self, err := os.Executable()
	if err != nil {
		return stop, err
	}
	pod := podProgram(self)
	p.progress(fmt.Sprintf("starting %d nodes", len(p.config.Nodes)))
	stopNodes, err := kubelet.Start(ctx, kubelet.Options{
		Client: p.client, Authority: p.authority, Nodes: p.config.Nodes, Dir: p.folder,
		Shim: pod, Images: kubelet.Images(kubelet.Programs{AICR: p.config.AICR, Pod: pod, Venv: p.config.Venv}),
		Default: p.config.DefaultStorageClass, Quick: p.config.Probes == config.ProbesQuick, Logf: p.log,
	})
	if err != nil {
		return stop, fmt.Errorf("nodes: %w", err)
	}
	// The operators end before the pods do, or they would make new ones.
	installed, stopOperators := context.WithCancel(ctx)
	stop = func() {
		stopOperators()
		stopNodes()
	}
	gpus := map[string][]string{}
	for _, n := range p.config.Nodes {
		gpus[n.Name] = kubelet.UUIDs(n)
	}
	p.progress("installing the operators")
	err = operator.Start(installed, operator.Options{
		REST: p.client, Authority: p.authority, GraphAPIs: p.config.Dynamo.API, Real: p.config.Dynamo.Runtime == config.RuntimeReal,
		KAI: p.config.KAI, Gateway: p.config.Gateway, GPUs: gpus,
		AICR: p.config.AICR, Venv: p.config.Venv, Dir: p.folder, Logf: p.log,
	})
	if err != nil {
		return stop, fmt.Errorf("operators: %w", err)
	}
	return stop, nil
}
