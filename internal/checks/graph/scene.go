package graph

import (
	"slices"
	"strings"
	"time"

	"aicr/internal/kube"
)

// Scene is what is to be seen of a run at one moment. Rules look at it and at nothing
// else.
type Scene struct {
	Settings *Settings

	Pods   []kube.Object // of the run's namespace
	Events []kube.Object // likewise
	Claims []kube.Object

	Components []kube.Object // DynamoComponentDeployments of the graph, where it has any
	CliqueSets []kube.Object // PodCliqueSets of the graph, where Grove makes its pods
	Cliques    []kube.Object // PodCliques, likewise

	Webhook *deadWebhook // of Dynamo's operator; nil: it answers

	Graph    kube.Object // nil, as those below: not there
	Volume   kube.Object
	Populate kube.Object
	Node     kube.Object

	Logs map[logOf][]string // last lines
}

// logOf says whose log it is.
type logOf struct {
	Pod, Container string
	Previous       bool
}

// What a pod of a graph is for.
const (
	roleFrontend = "frontend"
	roleWorker   = "worker"
	rolePicker   = "endpoint picker"
	rolePopulate = "model cache"
	roleOther    = "pod"
)

// graphLabel has the name of the graph that a pod is of; Dynamo's operator writes it.
const graphLabel = "nvidia.com/dynamo-graph-deployment-name"

func roleOf(pod kube.Object) string {
	labels := pod.Labels()
	switch strings.ToLower(labels["nvidia.com/dynamo-component-type"]) {
	case "frontend":
		return roleFrontend
	case "worker", "decode", "prefill":
		return roleWorker
	case "epp":
		return rolePicker
	}
	if strings.HasPrefix(labels["job-name"], volumeName) || strings.HasPrefix(labels["batch.kubernetes.io/job-name"], volumeName) {
		return rolePopulate
	}
	return roleOther
}

// isOfLoad says that a pod or Job is the load's, or that of its trial. AIPerf's are in the
// namespace of the graph: what befalls them is no matter of what serves.
func isOfLoad(o kube.Object) bool {
	part := o.Labels()[LabelPart]
	return part == PartLoad || part == PartTrial
}

// ofLoad says it of an event.
func (n *Names) ofLoad(event kube.Object) bool {
	return strings.HasPrefix(event.Text("involvedObject", "name"), n.Load)
}

// workerName is what findings call a pod that is a worker; "" for another.
func workerName(pod kube.Object) string {
	if roleOf(pod) == roleWorker {
		return pod.Name()
	}
	return ""
}

func phaseOf(pod kube.Object) string { return pod.Text("status", "phase") }

// statusesOf are those of a pod's containers, those that run first at first.
func statusesOf(pod kube.Object) []kube.Object {
	return append(pod.List("status", "initContainerStatuses"), pod.List("status", "containerStatuses")...)
}

// conditionOf is a condition of any object; nil where it has none of that type.
func conditionOf(o kube.Object, kind string) kube.Object {
	for _, c := range o.List("status", "conditions") {
		if c.Text("type") == kind {
			return c
		}
	}
	return nil
}

func holds(o kube.Object, condition string) bool {
	return conditionOf(o, condition).Text("status") == "True"
}

// about says that an event is of an object, and not of one of that name before it.
func about(event, o kube.Object, kind string) bool {
	of := event.Map("involvedObject")
	if uid := of.Text("uid"); uid != "" {
		return uid == o.UID()
	}
	return of.Text("kind") == kind && of.Text("name") == o.Name()
}

// eventTime is when an event was last seen, by the clock of who saw it.
func eventTime(event kube.Object) time.Time {
	var last time.Time
	for _, path := range [][]string{{"series", "lastObservedTime"}, {"lastTimestamp"}, {"eventTime"}, {"firstTimestamp"}, {"metadata", "creationTimestamp"}} {
		if t, err := time.Parse(time.RFC3339Nano, event.Text(path...)); err == nil && t.After(last) {
			last = t
		}
	}
	return last
}

func eventCount(event kube.Object) int {
	n := int64(1)
	for _, path := range [][]string{{"count"}, {"series", "count"}} {
		if c, ok := event.Int(path...); ok {
			n = max(n, c)
		}
	}
	return int(n)
}

// lastEvent is the newest event of an object with one of these reasons; nil: none.
func (s *Scene) lastEvent(o kube.Object, kind string, reasons ...string) kube.Object {
	return s.newest(func(e kube.Object) bool { return about(e, o, kind) && slices.Contains(reasons, e.Text("reason")) })
}

// newest is the last of the events that are wanted; nil: none is.
func (s *Scene) newest(wanted func(event kube.Object) bool) kube.Object {
	var last kube.Object
	for _, e := range s.Events {
		if wanted(e) && (last == nil || !eventTime(e).Before(eventTime(last))) {
			last = e
		}
	}
	return last
}

// stuckOn is the event with one of these reasons after which a pod went no further; nil
// where it did, or where there is none. Events stay after what they tell of is over.
func (s *Scene) stuckOn(pod kube.Object, reasons ...string) kube.Object {
	if phaseOf(pod) != "Pending" || pod.Deleting() || holds(pod, "PodReadyToStartContainers") {
		return nil
	}
	last := s.lastEvent(pod, "Pod", reasons...)
	if last == nil {
		return nil
	}
	if further := s.lastEvent(pod, "Pod", "Pulling", "Pulled", "Created", "Started"); further != nil && !eventTime(further).Before(eventTime(last)) {
		return nil
	}
	return last
}

// imageOf is the image of a container as the pod asks for it.
func imageOf(pod kube.Object, container string) string {
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range pod.List("spec", list) {
			if c.Text("name") == container {
				return c.Text("image")
			}
		}
	}
	return ""
}

// sentence is a text of others as one line that is not too long. What is left out of it is
// its end, from a word on: one that is cut in its middle says something else.
func sentence(text string, most int) string {
	r := []rune(strings.Join(strings.Fields(text), " "))
	if len(r) <= most {
		return string(r)
	}
	head := string(r[:most-1])
	if at := strings.LastIndexByte(head, ' '); at > len(head)/2 {
		head = head[:at]
	}
	return head + "…"
}
