package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kcmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	kubescheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"aicr/sandbox/network"
	"aicr/sandbox/pki"
)

// Run runs the four programs until ctx ends or one of them does. The working folder of
// the process is the folder of the state.
func Run(ctx context.Context, authority *pki.Authority) error {
	arguments, err := prepare(authority)
	if err != nil {
		return err
	}
	etcd, err := startEtcd("etcd")
	if err != nil {
		return err
	}
	defer etcd.Close()
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	ended := make(chan error, 4)
	go func() { ended <- fmt.Errorf("etcd: %w", <-etcd.Err()) }()
	// They end in the opposite order: controllers that lose their server complain.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	controlling, stopControlling := context.WithCancel(ctx)
	var servers, controllers sync.WaitGroup
	defer func() {
		stopControlling()
		controllers.Wait()
		stopServing()
		servers.Wait()
	}()
	start := func(group *sync.WaitGroup, name string, run func() error) {
		group.Go(func() { ended <- fmt.Errorf("%s: %w", name, orEnded(run())) })
	}
	start(&servers, "kube-apiserver", func() error { return runAPIServer(serving, arguments.apiServer) })
	if err := awaitReady(ctx, authority, ended); err != nil {
		return err
	}
	start(&controllers, "kube-controller-manager", func() error { return runControllerManager(controlling, arguments.controllerManager) })
	start(&controllers, "kube-scheduler", func() error { return runScheduler(controlling, arguments.scheduler) })
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

func orEnded(err error) error {
	if err == nil {
		return errors.New("ended")
	}
	return err
}

// awaitReady returns when the API server is.
func awaitReady(ctx context.Context, authority *pki.Authority, ended <-chan error) error {
	for !Ready(ctx, authority) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// answersWithin is how long the API server may take to say that it is ready. One that is
// not there refuses at once; one that has other things to do takes its time.
const answersWithin = 15 * time.Second

// Ready asks the API server whether it is.
func Ready(ctx context.Context, authority *pki.Authority) bool {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS13}, DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, URL()+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// arguments are the command lines of the programs.
type arguments struct{ apiServer, controllerManager, scheduler []string }

func prepare(a *pki.Authority) (arguments, error) {
	for _, s := range []pki.Subject{server, kubeletClient} {
		if _, err := a.Issue(s); err != nil {
			return arguments{}, err
		}
	}
	tokens, err := a.SigningKey()
	if err != nil {
		return arguments{}, err
	}
	kcmArgs, err := client(a, controllerManager)
	if err != nil {
		return arguments{}, err
	}
	schedulerArgs, err := client(a, scheduler)
	if err != nil {
		return arguments{}, err
	}
	address, port := network.APIServer.Addr().String(), strconv.Itoa(int(network.APIServer.Port()))
	audit, err := auditArguments()
	if err != nil {
		return arguments{}, err
	}
	return arguments{
		apiServer: append([]string{
			"--etcd-servers=" + etcdURL,
			"--bind-address=" + address, "--advertise-address=" + address, "--secure-port=" + port,
			"--tls-cert-file=" + a.CertificateFile(server.File), "--tls-private-key-file=" + a.KeyFile(server.File),
			"--client-ca-file=" + a.CertificateFile("ca"),
			"--authorization-mode=Node,RBAC",
			"--service-cluster-ip-range=" + network.Services.String(),
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + tokens, "--service-account-signing-key-file=" + tokens,
			"--kubelet-client-certificate=" + a.CertificateFile(kubeletClient.File), "--kubelet-client-key=" + a.KeyFile(kubeletClient.File),
			"--kubelet-certificate-authority=" + a.CertificateFile("ca"), "--kubelet-preferred-address-types=InternalIP",
			"--allow-privileged=true", "--profiling=false",
		}, audit...),
		controllerManager: append(kcmArgs,
			"--service-account-private-key-file="+tokens, "--root-ca-file="+a.CertificateFile("ca"), "--use-service-account-credentials=true",
			"--cluster-signing-cert-file="+a.CertificateFile("ca"), "--cluster-signing-key-file="+a.KeyFile("ca"),
			"--concurrent-job-syncs=20",
		),
		scheduler: schedulerArgs,
	}, nil
}

// client is the part of a command line that is the same for everyone who asks the API
// server; it writes the kubeconfig that it names.
func client(a *pki.Authority, s pki.Subject) ([]string, error) {
	text, err := a.Kubeconfig(URL(), s)
	if err != nil {
		return nil, err
	}
	path := filepath.Join("pki", s.File+".kubeconfig")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	return []string{
		"--kubeconfig=" + path, "--authentication-kubeconfig=" + path, "--authorization-kubeconfig=" + path,
		"--leader-elect=false", "--secure-port=0",
		// The defaults are made for clusters that many share.
		"--kube-api-qps=500", "--kube-api-burst=1000",
	}, nil
}

func parse(sets cliflag.NamedFlagSets, args []string) error {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		all.AddFlagSet(set)
	}
	return all.Parse(args)
}

// The programs' own commands want the process to themselves: they handle signals, and
// may do so once. What follows is what stands below those commands.

func runAPIServer(ctx context.Context, args []string) error {
	o := apiserveroptions.NewServerRunOptions()
	if err := parse(o.Flags(), args); err != nil {
		return err
	}
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(completed.Validate()...); err != nil {
		return err
	}
	return apiserver.Run(ctx, completed)
}

func runControllerManager(ctx context.Context, args []string) error {
	o, err := kcmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	all, off, aliases := kcm.KnownControllers(), kcm.ControllersDisabledByDefault(), kcm.ControllerAliases()
	sets := o.Flags(all, off, aliases)
	o.ParsedFlags = &sets
	if err := parse(sets, args); err != nil {
		return err
	}
	c, err := o.Config(ctx, all, off, aliases)
	if err != nil {
		return err
	}
	return kcm.Run(ctx, c.Complete())
}

func runScheduler(ctx context.Context, args []string) error {
	o := scheduleroptions.NewOptions()
	if err := parse(*o.Flags, args); err != nil {
		return err
	}
	c, s, err := kubescheduler.Setup(ctx, o)
	if err != nil {
		return err
	}
	return kubescheduler.Run(ctx, c, s)
}
