package graph

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// trialPod is the pod that the Job controller makes of a trial.
func trialPod(s *Settings, container map[string]any, phase string) kube.Object {
	name := loadContainerOf(s)
	container["name"] = name
	labels := words(Labels(s.Run, PartTrial))
	labels["batch.kubernetes.io/job-name"] = NamesOf(s.Run).Trial
	return kube.Object{"kind": "Pod", "metadata": map[string]any{"name": NamesOf(s.Run).Trial + "-x", "namespace": LoadNamespace(s), "labels": labels},
		"spec":   map[string]any{"containers": []any{map[string]any{"name": name, "image": "example.com/load:1.2.3"}}},
		"status": map[string]any{"phase": phase, "containerStatuses": []any{container}}}
}

func waitingFor(reason, message string) map[string]any {
	return map[string]any{"state": map[string]any{"waiting": map[string]any{"reason": reason, "message": message}}}
}

func endedWith(code int, reason, message string) map[string]any {
	return map[string]any{"state": map[string]any{"terminated": map[string]any{"exitCode": code, "reason": reason, "message": message}}}
}

// What would befall the load for certain is told while what serves starts, and is no word
// against that; what may pass is not.
func TestALoadThatCannotBeginIsKnownBeforeWhatServesIsReady(t *testing.T) {
	for name, c := range map[string]struct {
		container map[string]any
		phase     string
		want      string        // what is told; "": nothing, and what serves is waited for
		within    time.Duration // of that
	}{
		"an image that nobody has":          {waitingFor("ErrImagePull", "load:1.2.3: not found"), "Pending", "ErrImagePull: example.com/load:1.2.3: load:1.2.3: not found", 32 * time.Second},
		"an image that is backed off from":  {waitingFor("ImagePullBackOff", "Back-off pulling image: ErrImagePull: unauthorized"), "Pending", "ImagePullBackOff: example.com/load:1.2.3: unauthorized", 32 * time.Second},
		"an image whose registry is away":   {waitingFor("ErrImagePull", "dial tcp: i/o timeout"), "Pending", "ErrImagePull: example.com/load:1.2.3: dial tcp: i/o timeout", 62 * time.Second},
		"an image of another program":       {endedWith(128, "StartError", `exec: "aicr": executable file not found in $PATH`), "Failed", "NotTheLoad: example.com/load:1.2.3 was pulled, and ended with exit code 128: exec: \"aicr\": executable file not found in $PATH", 32 * time.Second},
		"a program that fails without word": {endedWith(1, "", ""), "Failed", "NotTheLoad: example.com/load:1.2.3 was pulled, and ended with exit code 1: no words", 32 * time.Second},
		"a container that cannot be made":   {waitingFor("CreateContainerConfigError", "image has non-numeric user"), "Pending", "ContainerNotMade: CreateContainerConfigError: image has non-numeric user", 32 * time.Second},
		"an image that runs":                {endedWith(0, "Completed", ""), "Succeeded", "", 0},
		"one that is being pulled":          {waitingFor("ContainerCreating", ""), "Pending", "", 0},
		"a trial that was short of memory":  {endedWith(137, "OOMKilled", ""), "Failed", "", 0},
	} {
		for _, engine := range []string{EngineOwn, EngineAIPerf} {
			t.Run(name+" "+engine, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, s, h := newMemory(), memorySettings(), &heard{}
					s.Engine, s.Images.AIPerf = engine, "example.com/load:1.2.3"
					play(m, map[time.Duration]func(){0: func() { m.graphIs("pending", 0, 0) }, 2 * time.Minute: func() { m.graphIs("successful", 1, 2) }})
					m.put(resPods, trialPod(s, c.container, c.phase))
					defer time.Sleep(3 * time.Minute) // until who plays has ended
					began := time.Now()
					ready, err := Deploy(t.Context(), m, s, "", h.told())
					if err != nil {
						t.Fatal(err)
					}
					took := time.Since(began)
					if c.want == "" {
						if !ready || took < 2*time.Minute || !slices.Equal(h.reasons(), []string{"workers"}) {
							t.Errorf("ready %v after %s, told %v", ready, took, h.events)
						}
						return
					}
					if ready || took > c.within || !slices.Equal(kindsOf(h.events), []string{spec.EventPod, spec.EventNotServed}) {
						t.Fatalf("ready %v after %s, told %v", ready, took, h.events)
					}
					pod := h.events[0]
					if got := pod.Reason + ": " + pod.Text; got != c.want || pod.Source != NamesOf(s.Run).Trial+"-x" || pod.Worker != "" {
						t.Errorf("told %+v\nwant %s", pod, c.want)
					}
					if said := strings.Join(h.said, "\n"); !strings.Contains(said, pod.Text) || !strings.Contains(said, "  try: ") {
						t.Errorf("said %s", said)
					}
				})
			})
		}
	}
}

// A trial finds no place, or is put out of it: the load may fare better minutes later.
func TestATrialWithoutAPlaceSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, h := newMemory(), memorySettings(), &heard{}
		s.Engine, s.Images.AIPerf = EngineAIPerf, "example.com/load:1.2.3" // its pod is among those that serve
		pod := trialPod(s, waitingFor("", ""), "Pending")
		pod["status"] = map[string]any{"phase": "Pending", "conditions": []any{map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu."}}}
		play(m, map[time.Duration]func(){0: func() { m.graphIs("pending", 0, 0) }, 8 * time.Minute: func() { m.graphIs("successful", 1, 2) }})
		m.put(resPods, pod)
		if ready, err := Deploy(t.Context(), m, s, "", h.told()); !ready || err != nil {
			t.Errorf("ready %v, %v, told %v", ready, err, h.events)
		}
	})
}

// Where the images of what serves cannot be had either, it is these that are told: which
// pod is refused first is nobody's fault.
func TestWhatServesIsHeardBeforeTheTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, h := newMemory(), memorySettings(), &heard{}
		play(m, map[time.Duration]func(){0: func() { m.graphIs("pending", 0, 0) }, 25 * time.Second: func() { m.put(resPods, memoryPod("w-0", "worker", podNoImage)) }})
		m.put(resPods, trialPod(s, waitingFor("ImagePullBackOff", "Back-off pulling image: ErrImagePull: not found"), "Pending"))
		ready, err := Deploy(t.Context(), m, s, "", h.told())
		if ready || err != nil || !slices.Equal(h.reasons(), []string{"workers", "pod-event ErrImagePull", "not-served ErrImagePull"}) {
			t.Errorf("ready %v, %v, told %v", ready, err, h.events)
		}
	})
}

func kindsOf(events []spec.Event) (all []string) {
	for _, e := range events {
		all = append(all, e.Kind)
	}
	return all
}
