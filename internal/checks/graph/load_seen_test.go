package graph

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// loadPod is a pod of the load with what is said of its containers.
func loadPod(phase string, containers ...any) kube.Object {
	return kube.Object{"metadata": map[string]any{"name": "load-x"}, "status": map[string]any{"phase": phase, "containerStatuses": containers}}
}

func containerIs(name, state string) any {
	return map[string]any{"name": name, "state": map[string]any{state: map[string]any{}}}
}

// It is the load's container that says how it is, and not another beside it; a Job's word
// counts where there is no pod.
func TestHowFarALoadIs(t *testing.T) {
	runs, ended, waits := containerIs(LoadContainer, "running"), containerIs(LoadContainer, "terminated"), containerIs(LoadContainer, "waiting")
	for name, c := range map[string]struct {
		job, pod       kube.Object
		started, ended bool
	}{
		"no pod yet":                        {jobOf("", "", ""), nil, false, false},
		"it waits":                          {jobOf("", "", ""), loadPod("Pending", waits), false, false},
		"it waits, what is beside it runs":  {jobOf("", "", ""), loadPod("Running", containerIs("proxy", "running"), waits), false, false},
		"it waits, what is beside it ended": {jobOf("", "", ""), loadPod("Running", containerIs("proxy", "terminated"), waits), false, false},
		"it runs":                           {jobOf("", "", ""), loadPod("Running", runs), true, false},
		"it runs, its Job was deleted":      {nil, loadPod("Running", runs), true, false},
		"it runs, its Job is given up":      {jobOf("Failed", "DeadlineExceeded", ""), loadPod("Running", runs), true, false},
		"it has ended":                      {jobOf("", "", ""), loadPod("Failed", ended), true, true},
		"it has ended, what is beside not":  {jobOf("", "", ""), loadPod("Running", containerIs("proxy", "running"), ended), true, true},
		"its pod has ended without a word":  {jobOf("", "", ""), loadPod("Failed"), true, true},
		"its pod is gone":                   {jobOf("Failed", "BackoffLimitExceeded", ""), nil, true, true},
		"its pod is gone, and well":         {jobOf("Complete", "", ""), nil, true, true},
		"all is gone":                       {nil, nil, false, true},
	} {
		l := &loadSeen{settings: testSettings(), job: c.job, pod: c.pod}
		if l.started() != c.started || l.ended() != c.ended {
			t.Errorf("%s: started %v, ended %v", name, l.started(), l.ended())
		}
	}
}

func TestTheLoadsPodIsTheNewestOfItsJob(t *testing.T) {
	m, s := newMemory(), testSettings()
	pod := func(name, job, created string) {
		m.put(resPods, kube.Object{"metadata": map[string]any{"name": name, "namespace": s.Namespace, "creationTimestamp": created, "labels": map[string]any{"batch.kubernetes.io/job-name": job}}})
	}
	load := NamesOf(s.Run).Load
	pod("a", load, "2026-11-16T02:00:00Z")
	pod("b", load, "2026-11-16T02:00:05Z")
	pod("c", load, "2026-11-16T02:00:03Z")
	pod("z", "another", "2026-11-16T03:00:00Z")
	l, err := lookAtLoad(t.Context(), m, s)
	if err != nil || l.pod.Name() != "b" || l.job != nil {
		t.Errorf("%+v, %v", l, err)
	}
	m.deny["get jobs"] = true
	if l, err := lookAtLoad(t.Context(), m, s); !kube.IsForbidden(err) {
		t.Errorf("a Job that may not be read is taken for gone: %+v, %v", l, err)
	}
}

func TestALoadIsTheRunsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]any
		ours   bool
	}{
		"the run's":     {words(Labels(testRun, PartLoad)), true},
		"another run's": {words(Labels("another", PartLoad)), false},
		"somebody's":    {map[string]any{LabelOwner: "somebody", LabelRun: testRun}, false},
	} {
		m, s := newMemory(), testSettings()
		step := Step{Resource: resJobs, Object: loadManifest(s)}
		m.put(resJobs, kube.Object{"metadata": map[string]any{"name": NamesOf(testRun).Load, "namespace": s.Namespace, "labels": c.labels}})
		if err := makeOfLoad(t.Context(), m, s, step); (err == nil) != c.ours {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnEngineThatCannotJudgeAPlanIsNotStarted(t *testing.T) {
	s := testSettings()
	s.Engine = EngineAIPerf
	m := newMemory()
	if started, err := StartLoad(t.Context(), m, s, &spec.Plan{Profile: spec.ProfileSmoke}, Told{}); started || err == nil || !strings.Contains(err.Error(), "cannot be judged") || len(m.writes) > 0 {
		t.Errorf("%v, %v, wrote %v", started, err, m.writes)
	}
}

func TestALoadStartsThoughTheServerIsAwayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLoad()
		f.away = true
		time.AfterFunc(20*time.Second, func() { f.change(func() { f.away = false }) })
		if started, err := StartLoad(t.Context(), f, testSettings(), runPlan(), Told{}); !started || err != nil {
			t.Errorf("%v, %v", started, err)
		}
	})
}
