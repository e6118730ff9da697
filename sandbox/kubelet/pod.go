package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podRun is the life of one pod.
type podRun struct {
	n               *node
	uid             podKey
	namespace, name string
	dir             string
	begun           metav1.Time

	stop    chan struct{} // closed: every process has to end
	ended   chan struct{} // closed: every process has ended
	removal chan struct{} // closed: the API wants it removed
	gone    chan struct{} // closed: the API does not have it any more
	tell    teller

	inits, mains []*container

	refreshing sync.Mutex

	mu       sync.Mutex
	ip       string
	pod      *v1.Pod
	gpus     prepared
	deadline time.Time // of the processes, once they have to end
	phase    v1.PodPhase
	reason   string // why it failed as a whole
	message  string
	sandbox  bool // volumes and devices are there
	inited   bool
	since    map[v1.PodConditionType]v1.PodCondition
	tokens   map[string]token
}

// A pod that nobody waits for any more still has a moment to end by itself.
const forcedGrace = 2 * time.Second

func newPodRun(n *node, pod *v1.Pod) *podRun {
	r := &podRun{
		n: n, uid: pod.UID, namespace: pod.Namespace, name: pod.Name, pod: pod, begun: metav1.Now(),
		dir:  filepath.Join(n.dir, "pods", string(pod.UID)),
		stop: make(chan struct{}), ended: make(chan struct{}), removal: make(chan struct{}), gone: make(chan struct{}),
		tell: newTeller(), phase: v1.PodPending, since: map[v1.PodConditionType]v1.PodCondition{}, tokens: map[string]token{},
	}
	waiting := "ContainerCreating"
	if len(pod.Spec.InitContainers) > 0 {
		waiting = "PodInitializing"
	}
	for i := range pod.Spec.InitContainers {
		r.inits = append(r.inits, newContainer(r, pod.Spec.InitContainers[i], true, waiting))
	}
	for i := range pod.Spec.Containers {
		r.mains = append(r.mains, newContainer(r, pod.Spec.Containers[i], false, waiting))
	}
	if pod.DeletionTimestamp != nil {
		r.changed(pod)
	}
	return r
}

// changed takes the pod as the API has it now.
func (r *podRun) changed(pod *v1.Pod) {
	r.mu.Lock()
	r.pod = pod
	r.mu.Unlock()
	if pod.DeletionTimestamp == nil {
		return
	}
	grace := int64(30)
	if pod.DeletionGracePeriodSeconds != nil {
		grace = *pod.DeletionGracePeriodSeconds
	}
	closeOnce(&r.mu, r.removal)
	r.end(time.Duration(grace) * time.Second)
}

func closeOnce(mu *sync.Mutex, c chan struct{}) {
	mu.Lock()
	defer mu.Unlock()
	if !closed(c) {
		close(c)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// end tells every process to end within a time. Told again, the shorter time holds.
func (r *podRun) end(grace time.Duration) {
	by := time.Now().Add(grace)
	r.mu.Lock()
	if r.deadline.IsZero() || by.Before(r.deadline) {
		r.deadline = by
	}
	r.mu.Unlock()
	closeOnce(&r.mu, r.stop)
}

// fail ends the pod as a whole, for a reason that is not a container's.
func (r *podRun) fail(reason, message string, grace time.Duration) {
	r.mu.Lock()
	if r.reason == "" {
		r.reason, r.message = reason, message
	}
	r.mu.Unlock()
	r.end(grace)
}

func (r *podRun) over() bool { return closed(r.ended) }

// current is the pod as the API had it last.
func (r *podRun) current() *v1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pod
}

func (r *podRun) event(kind, reason, format string, values ...any) {
	r.n.says.Eventf(r.current(), kind, reason, format, values...)
}

// containerEvent is an event that names the container, as a kubelet's do.
func (r *podRun) containerEvent(c *container, kind, reason, format string, values ...any) {
	field := "spec.containers{" + c.spec.Name + "}"
	if c.init {
		field = "spec.initContainers{" + c.spec.Name + "}"
	}
	pod := r.current()
	r.n.says.Eventf(&v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, FieldPath: field,
	}, kind, reason, format, values...)
}

// pause waits, and says false when the pod has to end.
func (r *podRun) pause(d time.Duration) bool { return waitFor(r.stop, d) }

func waitFor(stop <-chan struct{}, d time.Duration) bool {
	select {
	case <-stop:
		return false
	case <-time.After(d):
		return true
	}
}

// live runs the pod from its first day to its last.
func (r *podRun) live() {
	go r.tellAll()
	phase := r.run()
	r.mu.Lock()
	if r.reason != "" {
		phase = v1.PodFailed
	}
	r.phase = phase
	r.mu.Unlock()
	close(r.ended)
	r.n.release(r)
	r.told()
	r.remove()
	_ = os.RemoveAll(r.dir)
	r.n.forget(r)
	r.tell.close()
}

// run starts what the pod has, and returns what became of it when all has ended.
func (r *podRun) run() v1.PodPhase {
	pod := r.current()
	if lost(pod) {
		r.lose(pod)
		return v1.PodFailed
	}
	if err := r.open(pod); err != nil {
		r.fail("NodeError", err.Error(), 0)
		return v1.PodFailed
	}
	r.told1()
	if !r.setUp() {
		r.neverStarted()
		return v1.PodFailed
	}
	defer r.faults()()
	mainDone := make(chan struct{})
	var sidecars sync.WaitGroup
	defer sidecars.Wait()
	var running []*container
	endSidecars := sync.OnceFunc(func() {
		close(mainDone)
		for _, c := range slices.Backward(running) { // the last one first
			c.finish()
		}
	})
	defer endSidecars()
	for _, c := range r.inits {
		if c.sidecar {
			running = append(running, c)
			sidecars.Go(func() { c.life(v1.RestartPolicyAlways) })
			if !c.waitStarted(r.stop) {
				r.neverStarted()
				return v1.PodFailed
			}
			continue
		}
		policy := pod.Spec.RestartPolicy
		if policy == v1.RestartPolicyAlways {
			policy = v1.RestartPolicyOnFailure
		}
		if code := c.life(policy); code != 0 || closed(r.stop) {
			r.neverStarted()
			return v1.PodFailed
		}
	}
	r.mu.Lock()
	r.inited = true
	r.mu.Unlock()
	r.told1()
	var mains sync.WaitGroup
	codes := make([]int32, len(r.mains))
	for i, c := range r.mains {
		mains.Go(func() { codes[i] = c.life(pod.Spec.RestartPolicy) })
	}
	mains.Wait()
	if slices.ContainsFunc(codes, func(code int32) bool { return code != 0 }) {
		return v1.PodFailed
	}
	return v1.PodSucceeded
}

// open makes the pod's folder and finds its address.
func (r *podRun) open(pod *v1.Pod) error {
	ip := r.n.addr.String()
	if !pod.Spec.HostNetwork {
		var err error
		if ip, err = r.n.address(); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.ip = ip
	r.mu.Unlock()
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	return r.writeNames(pod)
}

// setUp gets devices and volumes. It tries until they are there, or the pod has to end.
func (r *podRun) setUp() bool {
	if closed(r.stop) {
		return false
	}
	for wait := time.Second; ; wait = min(2*wait, 5*time.Second) {
		gpus, err := r.n.prepare(r.current())
		if err == nil {
			r.mu.Lock()
			r.gpus = gpus
			r.mu.Unlock()
			break
		}
		r.event(v1.EventTypeWarning, "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: %v", err)
		if !r.pause(wait) {
			return false
		}
	}
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		volume, err := r.mountAll()
		if err == nil {
			break
		}
		r.event(v1.EventTypeWarning, "FailedMount", "MountVolume.SetUp failed for volume %q : %v", volume, err)
		if !r.pause(wait) {
			return false
		}
	}
	r.mu.Lock()
	r.sandbox = true
	r.mu.Unlock()
	r.told1()
	return !closed(r.stop)
}

// neverStarted says of the containers that had no turn that they will have none.
func (r *podRun) neverStarted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range slices.Concat(r.inits, r.mains) {
		if c.state.Waiting != nil && !c.sidecar && closed(r.stop) {
			c.state = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
				ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated",
			}}
		}
	}
}

// lost says whether a pod was begun by a process of the sandbox that is no more, and
// may not be begun again.
func lost(pod *v1.Pod) bool {
	if pod.Spec.RestartPolicy != v1.RestartPolicyNever {
		return false
	}
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(s v1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil
	})
}

func (r *podRun) lose(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ip, r.inited = pod.Status.PodIP, true
	unknown := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated", FinishedAt: metav1.Now(),
	}}
	for _, c := range slices.Concat(r.inits, r.mains) {
		c.state = unknown
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if s.Name == c.spec.Name && s.State.Terminated != nil {
				c.state = s.State
			}
		}
	}
}

// faults arms what strikes the pod as a whole. The function it returns disarms it.
func (r *podRun) faults() func() {
	pod := r.current()
	var timers []*time.Timer
	if seconds := pod.Spec.ActiveDeadlineSeconds; seconds != nil {
		left := time.Duration(*seconds)*time.Second - time.Since(r.begun.Time)
		timers = append(timers, time.AfterFunc(left, func() {
			r.event(v1.EventTypeNormal, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
			r.fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline", r.ownGrace())
		}))
	}
	if after, there := faultAfter(r.n.faultsOf(pod, len(r.gpusOf("")) > 0), faultEvict); there {
		timers = append(timers, time.AfterFunc(after, func() {
			message := "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi. "
			r.event(v1.EventTypeWarning, "Evicted", "%s", message)
			r.fail("Evicted", message, 0)
		}))
	}
	return func() {
		for _, t := range timers {
			t.Stop()
		}
	}
}

func (r *podRun) ownGrace() time.Duration {
	if s := r.current().Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}

// gpusOf are the GPUs of a container, or of all when it has no name.
func (r *podRun) gpusOf(container string) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if container != "" {
		return r.gpus[container]
	}
	var all []int
	for _, some := range r.gpus {
		all = append(all, some...)
	}
	return all
}

// remove waits until the API wants the pod removed, and removes it: at once, since all
// of its processes have ended.
func (r *podRun) remove() {
	r.n.mu.Lock()
	stopping := r.n.stopping
	r.n.mu.Unlock()
	if stopping {
		return
	}
	select {
	case <-r.gone:
		return
	case <-r.removal:
	}
	r.told()
	for wait := 100 * time.Millisecond; !closed(r.gone); wait = min(2*wait, 2*time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		o := metav1.NewDeleteOptions(0)
		o.Preconditions = metav1.NewUIDPreconditions(string(r.uid))
		err := r.n.api.CoreV1().Pods(r.namespace).Delete(ctx, r.name, *o)
		cancel()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			break
		}
		waitFor(r.gone, wait)
	}
	<-r.gone // a finalizer may take its time
}

func (r *podRun) id() string { return fmt.Sprintf("%s_%s(%s)", r.name, r.namespace, r.uid) }
