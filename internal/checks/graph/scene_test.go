package graph

import (
	"strings"
	"testing"

	"aicr/internal/kube"
)

func TestWhatAPodIsFor(t *testing.T) {
	for labels, want := range map[[2]string]string{
		{"nvidia.com/dynamo-component-type", "Frontend"}:              roleFrontend,
		{"nvidia.com/dynamo-component-type", "worker"}:                roleWorker,
		{"nvidia.com/dynamo-component-type", "decode"}:                roleWorker,
		{"nvidia.com/dynamo-component-type", "prefill"}:               roleWorker,
		{"nvidia.com/dynamo-component-type", "epp"}:                   rolePicker,
		{"nvidia.com/dynamo-component-type", "planner"}:               roleOther,
		{"job-name", NamesOf(memoryRun).Populate}:                     rolePopulate,
		{"batch.kubernetes.io/job-name", NamesOf(memoryRun).Populate}: rolePopulate,
		{"batch.kubernetes.io/job-name", NamesOf(memoryRun).Load}:     roleOther,
		{"app", "worker"}: roleOther,
	} {
		pod := kube.Object{"metadata": fields{"name": "p", "labels": fields{labels[0]: labels[1]}}}
		if got, worker := roleOf(pod), workerName(pod); got != want || (worker == "p") != (want == roleWorker) {
			t.Errorf("%v: %s, worker %q", labels, got, worker)
		}
	}
}

func TestAnEventIsOfTheObjectThatItNames(t *testing.T) {
	pod := kube.Object{"metadata": fields{"name": "w-0", "uid": "u0"}}
	for name, c := range map[string]struct {
		of   fields
		want bool
	}{
		"by its UID":                {fields{"kind": "Pod", "name": "w-0", "uid": "u0"}, true},
		"the one before":            {fields{"kind": "Pod", "name": "w-0", "uid": "u"}, false},
		"by its name":               {fields{"kind": "Pod", "name": "w-0"}, true},
		"another of its kind":       {fields{"kind": "Pod", "name": "w-1"}, false},
		"another kind of this name": {fields{"kind": "Job", "name": "w-0"}, false},
	} {
		if got := about(kube.Object{"involvedObject": c.of}, pod, "Pod"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if about(kube.Object{"involvedObject": fields{"kind": "Pod", "name": "w-0", "uid": "u0"}}, nil, "Pod") {
		t.Error("of nothing")
	}
}

// Who writes events fills in some of their times and counts, and not the same ones.
func TestAnEventIsAsNewAsItsNewestTime(t *testing.T) {
	const old, then = "2026-01-01T00:00:01Z", "2026-01-01T00:00:09.5Z"
	for text, count := range map[string]int{
		`{"series":{"lastObservedTime":"` + then + `","count":3},"lastTimestamp":"` + old + `"}`:                    3,
		`{"lastTimestamp":"` + then + `","firstTimestamp":"` + old + `","count":2,"series":{"count":1}}`:            2,
		`{"eventTime":"` + then + `","lastTimestamp":null}`:                                                         1,
		`{"firstTimestamp":"` + then + `"}`:                                                                         1,
		`{"metadata":{"creationTimestamp":"` + then + `"},"lastTimestamp":"` + old + `","eventTime":"` + old + `"}`: 1,
	} {
		e := objectOf(t, text)
		if got := eventTime(e).Format("05.0"); got != "09.5" || eventCount(e) != count {
			t.Errorf("%s: at %s, %d times", text, got, eventCount(e))
		}
	}
	if !eventTime(kube.Object{}).IsZero() {
		t.Error("an event without a time has one")
	}
}

func TestAPodIsStuckUntilItGoesFurther(t *testing.T) {
	const failed, before, after = `{reason: FailedMount, lastTimestamp: "2026-01-01T00:00:05Z"`, `lastTimestamp: "2026-01-01T00:00:01Z"`, `lastTimestamp: "2026-01-01T00:00:09Z"`
	of := `, ` + ofWorker + `}`
	for name, c := range map[string]struct {
		pod, events string
		stuck       bool
	}{
		"it failed":                      {`status: {phase: Pending}`, failed + of, true},
		"another failed":                 {`status: {phase: Pending}`, failed + `, involvedObject: {kind: Pod, name: w-1, uid: u1}}`, false},
		"it failed otherwise":            {`status: {phase: Pending}`, `{reason: BackOff` + of, false},
		"it runs":                        {`status: {phase: Running}`, failed + of, false},
		"its containers may be made":     {`status: {phase: Pending, conditions: [{type: PodReadyToStartContainers, status: "True"}]}`, failed + of, false},
		"its containers may not be made": {`status: {phase: Pending, conditions: [{type: PodReadyToStartContainers, status: "False"}]}`, failed + of, true},
		"then it pulled":                 {`status: {phase: Pending}`, `{reason: Pulling, ` + after + of + `, ` + failed + of, false},
		"then its image was there":       {`status: {phase: Pending}`, failed + of + `, {reason: Pulled, ` + after + of, false},
		"then a container was made":      {`status: {phase: Pending}`, failed + of + `, {reason: Created, ` + after + of, false},
		"then a container was started":   {`status: {phase: Pending}`, failed + of + `, {reason: Started, ` + after + of, false},
		"in that second it pulled":       {`status: {phase: Pending}`, failed + of + `, {reason: Pulling, lastTimestamp: "2026-01-01T00:00:05Z"` + of, false},
		"it had pulled":                  {`status: {phase: Pending}`, failed + of + `, {reason: Pulling, ` + before + of, true},
		"it goes":                        {`status: {phase: Pending}, gone`, failed + of, false},
	} {
		pod := workerPod
		if rest, gone := strings.CutSuffix(c.pod, ", gone"); gone {
			c.pod, pod = rest, strings.Replace(pod, "uid: u0", "uid: u0, deletionTimestamp: now", 1)
		}
		s := sceneOf(t, `{pods: [{`+pod+`, `+c.pod+`}], events: [`+c.events+`]}`)
		if got := s.stuckOn(s.Pods[0], "FailedMount"); (got != nil) != c.stuck || c.stuck && got.Text("reason") != "FailedMount" {
			t.Errorf("%s: stuck on %v", name, got)
		}
	}
}

// Of the same second it is the one that the server names last.
func TestTheNewestEventIsTaken(t *testing.T) {
	event := func(name, second string) kube.Object {
		return kube.Object{"metadata": fields{"name": name}, "involvedObject": fields{"kind": "Pod", "name": "p"}, "reason": "R", "lastTimestamp": "2026-01-01T00:00:0" + second + "Z"}
	}
	for want, all := range map[string][]kube.Object{
		"last":   {event("a", "1"), event("b", "5"), event("last", "5")},
		"first":  {event("first", "5"), event("b", "1"), event("c", "3")},
		"middle": {event("a", "1"), event("middle", "5"), event("c", "3")},
		"":       nil,
	} {
		s := &Scene{Events: all}
		if got := s.lastEvent(kube.Object{"metadata": fields{"name": "p"}}, "Pod", "Q", "R"); got.Name() != want {
			t.Errorf("%s, want %s", got.Name(), want)
		}
	}
}
