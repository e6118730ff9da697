package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
)

// teller brings the status of a pod to the API: always the newest, as soon as it can,
// and again until it is there.
type teller struct {
	dirty chan struct{}
	flush chan chan struct{}
	end   chan struct{}
	once  *sync.Once
}

func newTeller() teller {
	return teller{make(chan struct{}, 1), make(chan chan struct{}), make(chan struct{}), new(sync.Once)}
}

func (t teller) close() { t.once.Do(func() { close(t.end) }) }

// told1 says that there is something new to tell.
func (r *podRun) told1() {
	select {
	case r.tell.dirty <- struct{}{}:
	default:
	}
}

// told waits until the API knows all, or does not want to, or the sandbox stops.
func (r *podRun) told() {
	done := make(chan struct{})
	select {
	case r.tell.flush <- done:
	case <-r.gone:
		return
	case <-r.tell.end:
		return
	}
	limit := make(<-chan time.Time)
	r.n.mu.Lock()
	if r.n.stopping {
		limit = time.After(time.Second)
	}
	r.n.mu.Unlock()
	select {
	case <-done:
	case <-r.gone:
	case <-limit:
	}
}

func (r *podRun) tellAll() {
	var waiting []chan struct{}
	for {
		select {
		case <-r.tell.end:
			return
		case <-r.tell.dirty:
		case done := <-r.tell.flush:
			waiting = append(waiting, done)
		}
		for wait := 100 * time.Millisecond; !r.tellOnce(); wait = min(2*wait, 2*time.Second) {
			select {
			case <-r.tell.end:
				return
			case done := <-r.tell.flush:
				waiting = append(waiting, done)
			case <-time.After(wait):
			}
		}
		for _, done := range waiting {
			close(done)
		}
		waiting = nil
	}
}

// tellOnce says whether the API has the status, or will never want it.
func (r *podRun) tellOnce() bool {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": r.uid}, "status": r.status()})
	if err != nil {
		r.n.Logf("pod %s: %v", r.id(), err)
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = r.n.api.CoreV1().Pods(r.namespace).Patch(ctx, r.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return true
	case apierrors.IsInvalid(err):
		r.n.Logf("pod %s: %v", r.id(), err)
		return true
	}
	return false
}

// podStatus is the part of a pod's status that is the node's. Others write the rest.
type podStatus struct {
	Phase      v1.PodPhase          `json:"phase"`
	Reason     string               `json:"reason,omitempty"`
	Message    string               `json:"message,omitempty"`
	HostIP     string               `json:"hostIP,omitempty"`
	HostIPs    []v1.HostIP          `json:"hostIPs,omitempty"`
	PodIP      string               `json:"podIP,omitempty"`
	PodIPs     []v1.PodIP           `json:"podIPs,omitempty"`
	StartTime  *metav1.Time         `json:"startTime,omitempty"`
	QOS        v1.PodQOSClass       `json:"qosClass,omitempty"`
	Inits      []v1.ContainerStatus `json:"initContainerStatuses,omitempty"`
	Containers []v1.ContainerStatus `json:"containerStatuses,omitempty"`
	Conditions []v1.PodCondition    `json:"conditions"`
}

func (r *podRun) status() podStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	host := r.n.addr.String()
	s := podStatus{
		Phase: r.phase, Reason: r.reason, Message: r.message, HostIP: host, HostIPs: []v1.HostIP{{IP: host}},
		StartTime: &r.begun, QOS: qos.GetPodQOS(r.pod),
	}
	if r.ip != "" {
		s.PodIP, s.PodIPs = r.ip, []v1.PodIP{{IP: r.ip}}
	}
	for _, c := range r.inits {
		s.Inits = append(s.Inits, c.status())
	}
	for _, c := range r.mains {
		s.Containers = append(s.Containers, c.status())
	}
	if s.Phase == v1.PodPending && r.inited && !slices.ContainsFunc(r.mains, func(c *container) bool { return c.state.Waiting != nil && c.last.Terminated == nil }) {
		s.Phase = v1.PodRunning
	}
	s.Conditions = r.conditions(s)
	return s
}

func (r *podRun) conditions(s podStatus) []v1.PodCondition {
	var unready, uninit []string
	for _, c := range s.Containers {
		if !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	for i, c := range s.Inits {
		sidecar := r.inits[i].sidecar
		done := c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		if sidecar {
			done = c.Started != nil && *c.Started || done || r.inited
			if !c.Ready {
				unready = append(unready, c.Name)
			}
		}
		if !done {
			uninit = append(uninit, c.Name)
		}
	}
	succeeded := s.Phase == v1.PodSucceeded
	ready := func(kind v1.PodConditionType) v1.PodCondition {
		switch {
		case succeeded:
			return v1.PodCondition{Type: kind, Status: v1.ConditionFalse, Reason: "PodCompleted"}
		case s.Phase == v1.PodFailed:
			return v1.PodCondition{Type: kind, Status: v1.ConditionFalse, Reason: "PodFailed"}
		case len(unready) > 0:
			return v1.PodCondition{Type: kind, Status: v1.ConditionFalse, Reason: "ContainersNotReady", Message: fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))}
		}
		return v1.PodCondition{Type: kind, Status: v1.ConditionTrue}
	}
	initialized := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	if len(uninit) > 0 && !succeeded {
		initialized = v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionFalse, Reason: "ContainersNotInitialized", Message: fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(uninit, " "))}
	} else if succeeded {
		initialized.Reason = "PodCompleted"
	}
	sandbox := v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionFalse}
	if r.sandbox && !closed(r.ended) {
		sandbox.Status = v1.ConditionTrue
	}
	all := []v1.PodCondition{sandbox, initialized, ready(v1.ContainersReady), ready(v1.PodReady)}
	for i := range all {
		one := &all[i]
		if before, there := r.since[one.Type]; there && before.Status == one.Status {
			one.LastTransitionTime = before.LastTransitionTime
		} else {
			one.LastTransitionTime = metav1.Now()
		}
		r.since[one.Type] = *one
	}
	return all
}
