package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubeprobe "k8s.io/kubernetes/pkg/probe"
	"k8s.io/kubernetes/pkg/probe/grpc"
)

// probe runs the probes of a process, until the function that it returns is called.
func (c *container) probe(p *process) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	others := func() {
		if probe := c.spec.ReadinessProbe; probe != nil {
			all.Go(func() {
				c.every(ctx, p, "Readiness", probe, func(ok bool) bool {
					c.set(func() { c.ready = ok && c.process == p })
					return true
				})
			})
		}
		if probe := c.spec.LivenessProbe; probe != nil {
			all.Go(func() { c.every(ctx, p, "Liveness", probe, c.restartUnless(p, "liveness")) })
		}
	}
	if probe := c.spec.StartupProbe; probe != nil {
		restart := c.restartUnless(p, "startup")
		all.Go(func() {
			c.every(ctx, p, "Startup", probe, func(ok bool) bool {
				if !ok {
					return restart(false)
				}
				c.set(func() {
					c.started = c.process == p
					c.ready = c.started && c.spec.ReadinessProbe == nil
				})
				others()
				return false
			})
		})
	} else {
		others()
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// restartUnless ends the process when a probe has failed. It is asked no more after that.
func (c *container) restartUnless(p *process, kind string) func(ok bool) bool {
	return func(ok bool) bool {
		if !ok {
			c.r.containerEvent(c, v1.EventTypeNormal, "Killing", "Container %s failed %s probe, will be restarted", c.spec.Name, kind)
			p.fail()
		}
		return ok
	}
}

// every asks a probe at its times, and tells what its thresholds make of the answers:
// once when that changes, and again as long as it is bad. It ends when it is told to.
func (c *container) every(ctx context.Context, p *process, kind string, probe *v1.Probe, verdict func(ok bool) bool) {
	if c.r.n.Quick {
		probe = quickened(kind, probe)
	}
	if !waitFor(ctx.Done(), seconds(probe.InitialDelaySeconds, 0)) {
		return
	}
	count := counter{good: atLeastOne(probe.SuccessThreshold), bad: atLeast(probe.FailureThreshold, 3)}
	for {
		err := c.ask(ctx, p, probe)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.r.containerEvent(c, v1.EventTypeWarning, "Unhealthy", "%s probe failed: %v", kind, err)
		}
		if ok, decided := count.add(err == nil); decided && !verdict(ok) {
			return
		}
		if !waitFor(ctx.Done(), seconds(probe.PeriodSeconds, 10)) {
			return
		}
	}
}

// quickAnswer is how many seconds at least a quickened probe waits for an answer.
const quickAnswer = 5

// quickened is a probe where many sandboxes share a machine, and their pods are not waited
// for: those by which a pod gets ready are tried each second and from its start, and none
// gives up on an answer that comes within 5 s. A container that does not start is restarted
// after the same time.
func quickened(kind string, probe *v1.Probe) *v1.Probe {
	quick := probe.DeepCopy()
	quick.TimeoutSeconds = max(probe.TimeoutSeconds, quickAnswer)
	if kind == "Liveness" {
		return quick
	}
	if kind == "Startup" {
		tries, every := int32(atLeast(probe.FailureThreshold, 3)), int32(seconds(probe.PeriodSeconds, 10)/time.Second)
		quick.FailureThreshold = probe.InitialDelaySeconds + tries*every
	}
	quick.InitialDelaySeconds, quick.PeriodSeconds = 0, 1
	return quick
}

func seconds(n, otherwise int32) time.Duration {
	if n <= 0 {
		n = otherwise
	}
	return time.Duration(n) * time.Second
}

func atLeastOne(n int32) int { return max(1, int(n)) }

func atLeast(n int32, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return int(n)
}

// counter makes a verdict of answers.
type counter struct {
	good, bad int // so many in a row decide
	row       int
	last      bool
	verdict   *bool
}

// add says what the answers so far mean, and whether that is news.
func (c *counter) add(ok bool) (verdict, news bool) {
	if c.row > 0 && c.last == ok {
		c.row++
	} else {
		c.row, c.last = 1, ok
	}
	need := c.bad
	if ok {
		need = c.good
	}
	if c.row < need || c.verdict != nil && *c.verdict == ok {
		return ok, false
	}
	c.verdict = &ok
	return ok, true
}

// ask asks once.
func (c *container) ask(ctx context.Context, p *process, probe *v1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, seconds(probe.TimeoutSeconds, 1))
	defer cancel()
	c.r.mu.Lock()
	ip := c.r.ip
	c.r.mu.Unlock()
	switch {
	case probe.HTTPGet != nil:
		return c.askHTTP(ctx, ip, probe.HTTPGet)
	case probe.TCPSocket != nil:
		port, err := c.port(probe.TCPSocket.Port)
		if err != nil {
			return err
		}
		host := probe.TCPSocket.Host
		if host == "" {
			host = ip
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return err
		}
		return conn.Close()
	case probe.GRPC != nil:
		return askGRPC(ip, probe.GRPC, seconds(probe.TimeoutSeconds, 1))
	case probe.Exec != nil:
		var out strings.Builder
		err := c.execute(ctx, p, probe.Exec.Command, nil, &out, &out)
		if ctx.Err() != nil {
			return fmt.Errorf("command timed out: %s timed out after %s", strings.Join(probe.Exec.Command, " "), seconds(probe.TimeoutSeconds, 1))
		}
		if err != nil {
			return errors.New(strings.TrimSpace(out.String()))
		}
		return nil
	}
	return errors.New("a kind of probe that the sandbox does not know")
}

// askGRPC asks as a kubelet does, by its own code.
func askGRPC(ip string, of *v1.GRPCAction, within time.Duration) error {
	service := ""
	if of.Service != nil {
		service = *of.Service
	}
	result, said, err := grpc.New().Probe(ip, service, int(of.Port), within)
	if err == nil && result != kubeprobe.Success {
		err = errors.New(said)
	}
	return err
}

func (c *container) askHTTP(ctx context.Context, ip string, get *v1.HTTPGetAction) error {
	port, err := c.port(get.Port)
	if err != nil {
		return err
	}
	host := get.Host
	if host == "" {
		host = ip
	}
	scheme := strings.ToLower(string(get.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	path := get.Path
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, strconv.Itoa(port))+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "kube-probe/1.36")
	for _, h := range get.HTTPHeaders {
		if strings.EqualFold(h.Name, "Host") {
			request.Host = h.Value
		}
		request.Header.Set(h.Name, h.Value)
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // a probe trusts whoever answers
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, answer.Body, 10<<10)
	_ = answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", answer.StatusCode)
	}
	return nil
}

func (c *container) port(p intstr.IntOrString) (int, error) {
	if p.Type == intstr.Int {
		return int(p.IntVal), nil
	}
	for _, one := range c.spec.Ports {
		if one.Name == p.StrVal {
			return int(one.ContainerPort), nil
		}
	}
	return 0, fmt.Errorf("couldn't find port: %q", p.StrVal)
}
