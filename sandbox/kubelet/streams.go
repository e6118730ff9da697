package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	utilexec "k8s.io/utils/exec"

	"aicr/sandbox/shim"
)

func (n *node) container(namespace, pod, name string) (*container, error) {
	r := n.find(namespace, pod)
	if r == nil {
		return nil, errdefs.NotFoundf("pod %q not found in namespace %q", pod, namespace)
	}
	for _, list := range [][]*container{r.mains, r.inits} {
		for _, c := range list {
			if c.spec.Name == name {
				return c, nil
			}
		}
	}
	return nil, errdefs.NotFoundf("container %q not found in pod %q", name, pod)
}

// RunInContainer runs a command beside a container's program.
func (n *node) RunInContainer(ctx context.Context, namespace, pod, name string, command []string, attach api.AttachIO) error {
	c, err := n.container(namespace, pod, name)
	if err != nil {
		return err
	}
	c.r.mu.Lock()
	p := c.process
	c.r.mu.Unlock()
	if p == nil {
		return errdefs.InvalidInputf("container not found (%q)", name)
	}
	return c.execute(ctx, p, command, attach.Stdin(), orDiscard(attach.Stdout()), orDiscard(attach.Stderr()))
}

func orDiscard(w io.WriteCloser) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// execute runs a command in the file system and with the environment of a process. A
// command that fails gives an error with its exit code.
func (c *container) execute(ctx context.Context, p *process, command []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if p.pidfd == nil {
		return errors.New("the container cannot be entered")
	}
	image, wrong := find(c.r.n.Images, c.spec.Image)
	if wrong != nil {
		return wrong
	}
	env, _, err := c.env(image)
	if err != nil {
		return err
	}
	file, err := c.execFile(&shim.Spec{Dir: c.spec.WorkingDir, Argv: command, Env: env})
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file) }()
	cmd := exec.Command(c.r.n.Shim, "enter", file)
	cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{p.pidfd}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	var input io.WriteCloser
	if stdin != nil {
		if input, err = cmd.StdinPipe(); err != nil {
			return err
		}
	}
	if err := c.r.n.starter.start(cmd); err != nil {
		return err
	}
	if input != nil {
		go func() {
			_, _ = io.Copy(input, stdin) // whoever does not read its input may end before it does
			_ = input.Close()
		}()
	}
	err = outlive(ctx, cmd, p.ended)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: int(exitCode(exit.ProcessState))}
	}
	return err
}

// outlive waits until a command has ended and all that it said was taken, however long
// that takes: whoever reads it may be slow, and half of an answer would look like one. It
// is killed when its container ends, or nobody waits for it any more. Then what holds on to
// its output, in a session of its own, is not waited for.
func outlive(ctx context.Context, cmd *exec.Cmd, ended <-chan struct{}) error {
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	whole := make(chan error, 1)
	go func() { whole <- cmd.Wait() }()
	select {
	case err := <-whole:
		return err
	case <-ctx.Done():
	case <-ended:
		kill()
		select {
		case err := <-whole:
			return err
		case <-ctx.Done():
		}
	}
	kill()
	select {
	case err := <-whole:
		return err
	case <-time.After(drainWithin):
		return ctx.Err()
	}
}

func (c *container) execFile(spec *shim.Spec) (string, error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Join(c.r.dir, "containers", c.spec.Name), "exec-*.json")
	if err != nil {
		return "", err
	}
	if _, err := f.Write(data); err != nil {
		return "", errors.Join(err, f.Close())
	}
	return f.Name(), f.Close()
}

// AttachToContainer gives a container's log from now on: nothing is read by its program.
func (n *node) AttachToContainer(ctx context.Context, namespace, pod, name string, attach api.AttachIO) error {
	log, err := n.GetContainerLogs(ctx, namespace, pod, name, api.ContainerLogOpts{Follow: true})
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	_, err = io.Copy(orDiscard(attach.Stdout()), log)
	return err
}

// PortForward joins a stream with a port of a pod.
func (n *node) PortForward(ctx context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error {
	r := n.find(namespace, pod)
	if r == nil {
		return errdefs.NotFoundf("pod %q not found in namespace %q", pod, namespace)
	}
	r.mu.Lock()
	ip := r.ip
	r.mu.Unlock()
	dialer := net.Dialer{Timeout: 10 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = io.Copy(conn, stream)
		if half, ok := conn.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(stream, conn)
	return err
}
