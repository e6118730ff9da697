package kubelet

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"aicr/sandbox/shim"
)

// container is the life of one container of a pod, all of its restarts included.
type container struct {
	r       *podRun
	spec    v1.Container
	init    bool
	sidecar bool          // an init container that goes on beside the others
	over    chan struct{} // closed: a sidecar is not needed any more

	// Below podRun.mu.
	state, last v1.ContainerState
	restarts    int32
	started     bool // the startup probe, if any, has succeeded
	ready       bool
	id          string
	process     *process
	logs        []*logFile // the last is the newest
	news        chan struct{}
}

func newContainer(r *podRun, spec v1.Container, init bool, waiting string) *container {
	c := &container{
		r: r, spec: spec, init: init, over: make(chan struct{}), news: make(chan struct{}),
		sidecar: init && spec.RestartPolicy != nil && *spec.RestartPolicy == v1.ContainerRestartPolicyAlways,
	}
	c.state.Waiting = &v1.ContainerStateWaiting{Reason: waiting}
	return c
}

func (c *container) status() v1.ContainerStatus {
	s := v1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, State: c.state, LastTerminationState: c.last, RestartCount: c.restarts,
		Started: new(c.started), Ready: c.ready, ContainerID: c.id,
	}
	if c.id != "" {
		s.ImageID = c.spec.Image
	}
	if c.init && !c.sidecar {
		s.Ready = c.state.Terminated != nil && c.state.Terminated.ExitCode == 0
	}
	return s
}

// set changes the container under the pod's lock, and has it told.
func (c *container) set(change func()) {
	c.r.mu.Lock()
	change()
	close(c.news)
	c.news = make(chan struct{})
	c.r.mu.Unlock()
	c.r.told1()
}

// finish ends a sidecar whose pod has done its work.
func (c *container) finish() { closeOnce(&c.r.mu, c.over) }

// waitStarted waits until a sidecar is up.
func (c *container) waitStarted(stop <-chan struct{}) bool {
	for {
		c.r.mu.Lock()
		started, news := c.started, c.news
		c.r.mu.Unlock()
		if started {
			return true
		}
		select {
		case <-stop:
			return false
		case <-news:
		}
	}
}

// stopped is closed when the container's process has to end.
func (c *container) mustEnd() bool { return closed(c.r.stop) || closed(c.over) }

func (c *container) pause(d time.Duration) bool {
	select {
	case <-c.r.stop:
		return false
	case <-c.over:
		return false
	case <-time.After(d):
		return true
	}
}

// The back-off of a container that crashes. A kubelet has 10 s and 5 min; who tries
// things out does not want to wait for that.
const (
	firstBackOff = time.Second
	lastBackOff  = 10 * time.Second
	longLife     = time.Minute // after this, a crash is the first one again
)

// backOff is how long a container waits before its next start: not at all before the
// first restart.
func backOff(crashes int) time.Duration {
	if crashes <= 1 {
		return 0
	}
	d := firstBackOff
	for range crashes - 2 {
		d = min(2*d, lastBackOff)
	}
	return d
}

// life runs the container as often as the policy wants, and returns the last exit code.
func (c *container) life(policy v1.RestartPolicy) int32 {
	crashes := 0
	for {
		begun := time.Now()
		code, ran := c.once()
		if !ran {
			return 137 // it had no turn
		}
		if c.mustEnd() || policy == v1.RestartPolicyNever || policy == v1.RestartPolicyOnFailure && code == 0 {
			return code
		}
		if time.Since(begun) > longLife {
			crashes = 0
		}
		crashes++
		wait := backOff(crashes)
		if wait > 0 {
			c.set(func() {
				c.last = c.state
				c.state = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{
					Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", wait, c.spec.Name, c.r.id()),
				}}
			})
			c.r.containerEvent(c, v1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s", c.spec.Name, c.r.id())
			if !c.pause(wait) {
				c.set(func() { c.state = c.last })
				return code
			}
		}
		c.set(func() {
			if c.state.Terminated != nil {
				c.last = c.state
			}
			c.restarts++
		})
	}
}

// waiting says why the container does not run yet.
func (c *container) waiting(reason, message string) {
	c.set(func() {
		if c.state.Terminated != nil {
			c.last = c.state
		}
		c.state = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

// once runs the container one time. It says false when the pod ended before.
func (c *container) once() (code int32, ran bool) {
	image, ok := c.pull()
	if !ok {
		return 0, false
	}
	spec, ok := c.configure(image)
	if !ok {
		return 0, false
	}
	begun := metav1.Now()
	p, termination, err := c.start(spec)
	if err != nil {
		c.r.containerEvent(c, v1.EventTypeWarning, "Failed", "Error: %v", err)
		c.set(func() {
			c.started, c.ready = false, false
			c.state = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: err.Error(), StartedAt: begun, FinishedAt: metav1.Now(), ContainerID: c.id}}
		})
		return 128, true
	}
	c.r.containerEvent(c, v1.EventTypeNormal, "Started", "Container started")
	c.set(func() {
		c.process = p
		c.state = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: begun}}
		c.started = c.spec.StartupProbe == nil
		c.ready = c.started && c.spec.ReadinessProbe == nil
	})
	stopProbes := c.probe(p)
	c.guard(p)
	stopProbes()
	<-p.drained
	message := c.message(p, termination)
	c.set(func() {
		c.process, c.started, c.ready = nil, false, false
		c.state = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: p.code, Reason: p.reason(), Message: message, StartedAt: begun, FinishedAt: metav1.Now(), ContainerID: c.id,
		}}
	})
	return p.code, true
}

// goesOn waits until the process has ended, or has to be ended. Its faults may be named
// while it runs.
func (c *container) goesOn(p *process) (ended bool) {
	var strike <-chan time.Time
	look := time.NewTicker(faultsEvery)
	defer look.Stop()
	for {
		if after, there := faultAfter(c.r.n.faultsOf(c.r.current(), len(c.r.gpusOf(c.spec.Name)) > 0), faultOOM); there && strike == nil {
			strike = time.After(after)
		}
		select {
		case <-p.ended:
			return true
		case <-strike:
			p.outOfMemory()
		case <-c.r.stop:
			return false
		case <-c.over:
			return false
		case <-p.unhealthy:
			return false
		case <-look.C:
		}
	}
}

// guard waits for the process to end, and ends it when it has to.
func (c *container) guard(p *process) {
	if c.goesOn(p) {
		return
	}
	if !closed(p.unhealthy) {
		c.r.containerEvent(c, v1.EventTypeNormal, "Killing", "Stopping container %s", c.spec.Name)
	}
	by := time.Now().Add(c.r.ownGrace())
	if closed(p.unhealthy) {
		if probe := c.spec.LivenessProbe; probe != nil && probe.TerminationGracePeriodSeconds != nil {
			by = time.Now().Add(time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second)
		}
	}
	p.signal(termSignal)
	for {
		c.r.mu.Lock()
		if d := c.r.deadline; !d.IsZero() && d.Before(by) {
			by = d
		}
		c.r.mu.Unlock()
		left := time.Until(by)
		if left <= 0 {
			p.signal(killSignal)
			<-p.ended
			return
		}
		select {
		case <-p.ended:
			return
		case <-time.After(min(left, 200*time.Millisecond)): // somebody may want it sooner
		}
	}
}

// The back-off of an image that cannot be pulled.
const (
	firstPullBackOff = 2 * time.Second
	lastPullBackOff  = 10 * time.Second
)

// pull finds the image. It tries until it is there, or the pod has to end.
func (c *container) pull() (Image, bool) {
	reference := c.spec.Image
	for wait := firstPullBackOff; ; wait = min(2*wait, lastPullBackOff) {
		image, wrong := find(c.r.n.Images, reference)
		_, before := c.r.n.pulled.Load(reference)
		if wrong == nil && !before && c.spec.ImagePullPolicy == v1.PullNever {
			before = true // it is a file of this machine
		}
		if wrong == nil {
			if before && c.spec.ImagePullPolicy != v1.PullAlways {
				c.r.containerEvent(c, v1.EventTypeNormal, "Pulled", "Container image %q already present on machine and can be accessed by the pod", reference)
			} else {
				c.r.n.pulled.Store(reference, true)
				c.r.containerEvent(c, v1.EventTypeNormal, "Pulling", "Pulling image %q", reference)
				c.r.containerEvent(c, v1.EventTypeNormal, "Pulled", "Successfully pulled image %q in 1ms (1ms including waiting). Image size: 0 bytes.", reference)
			}
			return image, !c.mustEnd()
		}
		if wrong.reason == reasonPull && c.spec.ImagePullPolicy == v1.PullNever {
			wrong = &pullError{reasonNeverPull, fmt.Sprintf("Container image %q is not present with pull policy of Never", reference)}
		}
		switch wrong.reason {
		case reasonPull:
			c.r.containerEvent(c, v1.EventTypeNormal, "Pulling", "Pulling image %q", reference)
			c.r.containerEvent(c, v1.EventTypeWarning, "Failed", "Failed to pull image %q: %s", reference, wrong.message)
		case reasonInvalidName:
			c.r.containerEvent(c, v1.EventTypeWarning, "InspectFailed", "%s", wrong.message)
		case reasonNeverPull:
			c.r.containerEvent(c, v1.EventTypeWarning, "ErrImageNeverPull", "%s", wrong.message)
		}
		c.r.containerEvent(c, v1.EventTypeWarning, "Failed", "Error: %s", wrong.reason)
		c.waiting(wrong.reason, wrong.message)
		if wrong.reason == reasonPull {
			if !c.pause(wait / 2) {
				return image, false
			}
			c.r.containerEvent(c, v1.EventTypeNormal, "BackOff", "Back-off pulling image %q", reference)
			c.r.containerEvent(c, v1.EventTypeWarning, "Failed", "Error: %s", reasonPullBackOff)
			c.waiting(reasonPullBackOff, fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", reference, wrong.message))
		}
		if !c.pause(wait) {
			return image, false
		}
	}
}

// configure makes what the shim is to run. It tries until everything that the container
// refers to is there, or the pod has to end.
func (c *container) configure(image Image) (*shim.Spec, bool) {
	for wait := time.Second; ; wait = min(2*wait, 5*time.Second) {
		spec, err := c.shimSpec(image)
		if err == nil {
			c.r.containerEvent(c, v1.EventTypeNormal, "Created", "Container created")
			return spec, !c.mustEnd()
		}
		c.r.containerEvent(c, v1.EventTypeWarning, "Failed", "Error: %v", err)
		c.waiting("CreateContainerConfigError", err.Error())
		if !c.pause(wait) {
			return nil, false
		}
	}
}

func (c *container) shimSpec(image Image) (*shim.Spec, error) {
	env, values, err := c.env(image)
	if err != nil {
		return nil, err
	}
	mounts, err := c.mounts(values)
	if err != nil {
		return nil, err
	}
	mounts = append(mounts, image.Files...)
	command, args := image.Entrypoint, image.Cmd
	if len(c.spec.Command) > 0 {
		command, args = expandAll(c.spec.Command, values), nil
	}
	if len(c.spec.Args) > 0 {
		args = expandAll(c.spec.Args, values)
	}
	argv := append(append([]string{}, command...), args...)
	if len(image.Wrap) > 0 {
		return &shim.Spec{Mounts: mounts, Argv: append(append([]string{}, image.Wrap...), argv...), Env: env}, nil
	}
	if len(argv) == 0 {
		return nil, fmt.Errorf("no command specified for the image %q", c.spec.Image)
	}
	return &shim.Spec{Mounts: mounts, Dir: c.spec.WorkingDir, Argv: argv, Env: env}, nil
}

// start begins the process of the container.
func (c *container) start(spec *shim.Spec) (p *process, termination string, err error) {
	c.r.mu.Lock()
	turn := c.restarts
	c.r.mu.Unlock()
	dir := filepath.Join(c.r.dir, "containers", c.spec.Name, fmt.Sprint(turn))
	spec.Root = filepath.Join(dir, "root")
	if err := os.MkdirAll(spec.Root, 0o755); err != nil {
		return nil, "", err
	}
	termination = filepath.Join(dir, "termination")
	if err := os.WriteFile(termination, nil, 0o666); err != nil {
		return nil, "", err
	}
	target := c.spec.TerminationMessagePath
	if target == "" {
		target = v1.TerminationMessagePathDefault
	}
	spec.Mounts = append(spec.Mounts, shim.Mount{Source: termination, Target: target})
	log, err := newLog(filepath.Join(dir, "log"))
	if err != nil {
		return nil, "", err
	}
	c.set(func() {
		c.id = fmt.Sprintf("sandbox://%s-%s-%d", c.r.uid, c.spec.Name, turn)
		c.logs = append(c.logs, log)
		if len(c.logs) > 2 {
			c.logs[0].remove()
			c.logs = c.logs[1:]
		}
	})
	p, err = c.r.n.starter.shim(c.r.n.Shim, filepath.Join(dir, "spec.json"), spec, log)
	if err != nil {
		log.close()
		return nil, "", err
	}
	return p, termination, nil
}

const (
	longestMessage = 4096
	longestTail    = 2048
	longestLines   = 80
)

// message is what the container says about its end.
func (c *container) message(p *process, file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		data = nil
	}
	if len(data) > longestMessage {
		data = data[len(data)-longestMessage:]
	}
	if len(data) == 0 && p.code != 0 && c.spec.TerminationMessagePolicy == v1.TerminationMessageFallbackToLogsOnError {
		return p.log.tail(longestLines, longestTail)
	}
	return strings.ToValidUTF8(string(bytes.TrimRight(data, "\x00")), "�")
}
