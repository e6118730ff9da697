package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"

	"aicr/sandbox/config"
	"aicr/sandbox/controlplane"
	"aicr/sandbox/host"
	"aicr/sandbox/network"
	"aicr/sandbox/pki"
	"aicr/sandbox/process"
)

func newUp() *cobra.Command {
	var configFile, dir string
	cmd := &cobra.Command{
		Use:   "up [--config FILE] [--dir DIR]",
		Short: "Run a cluster until interrupted, and print how to reach it",
		Long: `Run a cluster until interrupted, and print how to reach it.

What is printed on standard output may be given to a shell's eval. Pods are processes
of this machine with your own rights: apply only manifests that you trust.`,
		Example: `  aicr-sandbox up
  aicr-sandbox up --dir ~/cluster --config nodes.yaml
  aicr-sandbox kubectl get nodes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd.Context(), configFile, dir) },
	}
	cmd.Flags().StringVar(&configFile, "config", "", "YAML `FILE` that says what nodes there are and what is installed (default: two nodes with GPUs, one without)")
	cmd.Flags().StringVar(&dir, "dir", "", "`DIR` in which the cluster lives on when it is stopped (default: a temporary folder, removed at the end)")
	return cmd
}

func up(ctx context.Context, configFile, dir string) error {
	// Processes that are started end with the thread that has started them.
	runtime.LockOSThread()
	began := time.Now()
	c, err := readConfig(configFile)
	if err != nil {
		return err
	}
	if err := complete(&c); err != nil {
		return err
	}
	folder, remove, err := host.OpenFolder(dir)
	if err != nil {
		return err
	}
	defer remove()
	listener, err := host.OpenPort(folder)
	if err != nil {
		return err
	}
	authority, err := pki.Open(filepath.Join(folder, "pki"))
	if err != nil {
		return err
	}
	kubeconfig, err := writeKubeconfig(folder, authority, listener.Addr())
	if err != nil {
		return err
	}
	in, err := startInner(c, folder, listener)
	if err != nil {
		return err
	}
	defer in.stop()

	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, "stopping")
			return nil
		case m, open := <-in.messages:
			switch {
			case !open:
				<-in.ended
				return advised{errors.New("the sandbox has ended by itself"), "see " + logFile(folder, dir, innerLog)}
			case m.Error != "":
				return m.err()
			case m.Ready:
				fmt.Fprintf(os.Stderr, "ready after %.1f s\n", time.Since(began).Seconds())
				fmt.Print(answer(c, kubeconfig))
			default:
				fmt.Fprintln(os.Stderr, m.Progress)
			}
		}
	}
}

// logFile keeps the log of a folder that is about to be removed.
func logFile(folder, dir, name string) string {
	path := filepath.Join(folder, name)
	if dir != "" {
		return path
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return path
	}
	kept := filepath.Join(os.TempDir(), "aicr-sandbox-"+name)
	if os.WriteFile(kept, text, 0o600) != nil {
		return path
	}
	return kept
}

// answer is what up prints: to the shell a command, to a person what there is.
func answer(c config.Config, kubeconfig string) string {
	var nodes []string
	for _, n := range c.Nodes {
		switch n.GPUs {
		case 0:
			nodes = append(nodes, n.Name)
		default:
			nodes = append(nodes, fmt.Sprintf("%s (%d GPUs)", n.Name, n.GPUs))
		}
	}
	var installed []string
	if len(c.Dynamo.API) > 0 {
		what := map[string]string{config.RuntimeSim: "simulated", config.RuntimeReal: "real"}[c.Dynamo.Runtime]
		installed = append(installed, "Dynamo "+strings.Join(c.Dynamo.API, " and ")+", "+what)
	}
	if c.KAI {
		installed = append(installed, "KAI")
	}
	if c.Gateway {
		installed = append(installed, "Gateway API")
	}
	text := "export KUBECONFIG=" + host.Quote(kubeconfig) + "\n" +
		"# Kubernetes " + version.Get().GitVersion + ": " + strings.Join(nodes, ", ")
	if len(installed) > 0 {
		text += "; " + strings.Join(installed, "; ")
	}
	return text + "\n# Pods are processes with your rights: apply only manifests that you trust. Ctrl-C ends it all.\n"
}

func readConfig(path string) (config.Config, error) {
	if path == "" {
		return config.Default(), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return config.Config{}, err
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return config.Config{}, err
	}
	c, err := config.Decode(text, folder)
	var wrong config.Mistakes
	if errors.As(err, &wrong) {
		return c, fmt.Errorf("%s:\n  %s", path, strings.Join(wrong, "\n  "))
	}
	return c, err
}

// complete finds the programs that the configuration does not name: they are built
// beside this one.
func complete(c *config.Config) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bin := filepath.Dir(self)
	if c.AICR == "" {
		c.AICR = filepath.Join(bin, "aicr")
	}
	switch c.Venv {
	case config.NoVenv:
		c.Venv = ""
	case "":
		venv := filepath.Join(bin, "..", ".cache", "interop", "venv")
		if exists(filepath.Join(venv, "bin", "python")) {
			c.Venv = venv
		}
	}
	switch {
	case !exists(c.AICR):
		return advised{fmt.Errorf("there is no aicr program at %s", c.AICR), "build it with `make build`, or name it in the configuration: aicr: PATH"}
	case !exists(podProgram(self)):
		return advised{fmt.Errorf("there is no program for the pods at %s", podProgram(self)), "build it with `make sandbox`"}
	case c.Dynamo.Runtime == config.RuntimeReal && c.Venv == "":
		return advised{errors.New("dynamo.runtime: real needs the Python environment that has Dynamo"), "install it with `make peers`, or name it in the configuration: venv: PATH"}
	case c.Venv != "" && !exists(filepath.Join(c.Venv, "bin", "python")):
		return advised{fmt.Errorf("venv: %s has no bin/python", c.Venv), "install it with `make peers`"}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func podProgram(self string) string { return filepath.Join(filepath.Dir(self), "sandbox-pod") }

func writeKubeconfig(folder string, authority *pki.Authority, at net.Addr) (string, error) {
	text, err := authority.Kubeconfig("https://"+at.String(), controlplane.Administrator)
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "kubeconfig")
	return path, os.WriteFile(path, text, 0o600)
}

// inner is the process in which everything happens.
type inner struct {
	cmd      *exec.Cmd
	messages <-chan message
	ended    chan struct{}
}

// How long inner may take to end. Pods have a grace period of their own.
const stopWithin = 40 * time.Second

func startInner(c config.Config, folder string, listener *net.TCPListener) (*inner, error) {
	if err := process.AdoptOrphans(); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	given, err := writeGiven(folder, c)
	if err != nil {
		return nil, err
	}
	port, err := listener.File()
	if err != nil {
		return nil, err
	}
	defer func() { _ = port.Close() }()
	_ = listener.Close() // inner has it now
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = to.Close() }()
	log, err := openLog(folder, innerLog)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd, err := network.StartIsolated(func() *exec.Cmd {
		cmd := exec.Command(self, "inner", "--dir", folder, "--given", given)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.ExtraFiles = []*os.File{port, to}
		// A group of its own: Ctrl-C is for up, which tells inner.
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
		return cmd
	})
	if errors.Is(err, network.ErrForbidden) {
		return nil, advised{err, namespaceHint}
	}
	if err != nil {
		return nil, err
	}
	in := &inner{cmd: cmd, messages: listen(from), ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(in.ended)
	}()
	go in.reap()
	return in, nil
}

// stop ends inner and all that it has left.
func (in *inner) stop() {
	_ = in.cmd.Process.Signal(syscall.SIGTERM)
	deadline := time.After(stopWithin)
	for waiting := true; waiting; {
		select {
		case <-in.ended:
			waiting = false
		case <-deadline:
			_ = in.cmd.Process.Kill()
			<-in.ended
			waiting = false
		case _, open := <-in.messages: // nobody reads them any more
			if !open {
				in.messages = nil
			}
		}
	}
	process.KillChildren()
}

// reap buries orphans while inner runs.
func (in *inner) reap() {
	for {
		select {
		case <-in.ended:
			return
		case <-time.After(5 * time.Second):
			process.Bury(in.cmd.Process.Pid)
		}
	}
}

// namespaceHint is for machines on which only some may have namespaces.
const namespaceHint = "run it as root, or allow everyone namespaces, with those of these that your kernel has: " +
	"sysctl kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 user.max_user_namespaces=10000"

// The logs of a sandbox.
const (
	innerLog        = "sandbox.log"
	controlPlaneLog = "control-plane.log"
)

func openLog(folder, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
