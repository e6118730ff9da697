package graph

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"aicr/internal/kube"
)

// A claim that was just given back, a plugin that just said what it has: the scheduler is
// told of them within seconds. A volume takes longer.
const (
	unschedulableLasts = 20 * time.Second
	volumeComes        = 2 * time.Minute
)

// unschedulable finds pods that no node takes.
func unschedulable(s *Scene) (all []Cause) {
	for _, pod := range s.Pods {
		c := conditionOf(pod, "PodScheduled")
		if pod.Deleting() || c.Text("status") != "False" || c.Text("reason") == "SchedulingGated" {
			continue
		}
		message := c.Text("message")
		if message == "" {
			message = s.lastEvent(pod, "Pod", "FailedScheduling", "Unschedulable").Text("message")
		}
		if message == "" {
			continue // the scheduler has not said anything yet
		}
		after := unschedulableLasts
		if strings.Contains(message, "PersistentVolumeClaim") || strings.Contains(message, "persistent volume") {
			after = volumeComes
		}
		all = append(all, Cause{Reason: "Unschedulable", Source: pod.Name(), Worker: workerName(pod), After: after,
			Text:   sentence(s.perNode(message), causeText),
			Advice: []string{"make room on " + s.Settings.Node + ", or choose another node with --node", "`kubectl describe node " + s.Settings.Node + "`"}})
	}
	return all
}

var (
	nodesAvailable = regexp.MustCompile(`^\s*0/(\d+) nodes are available: `)
	nodeReason     = regexp.MustCompile(`^(\d+) (?:node\(s\) )?(.+)$`)
)

// perNode is what the scheduler said, by node where it can be told. It counts nodes and
// does not name them, but a pod of ours may go to one node only: what is not that it is
// another node is said of the chosen one.
func (s *Scene) perNode(message string) string {
	head := nodesAvailable.FindString(message)
	if head == "" {
		return message
	}
	rest, _, _ := strings.Cut(message[len(head):], ". ") // what follows is of preemption
	var own, others []string
	last := &own
	for reason := range strings.SplitSeq(strings.TrimRight(rest, ". "), ", ") {
		m := nodeReason.FindStringSubmatch(strings.TrimSpace(reason))
		switch {
		case m == nil && len(*last) > 0: // a reason with a comma of its own
			(*last)[len(*last)-1] += ", " + reason
		case m == nil:
			return message
		case s.ofOthers(m[2]):
			others, last = append(others, m[1]+" other: "+m[2]), &others
		default:
			own, last = append(own, m[2]), &own
		}
	}
	if len(own) == 0 {
		own = []string{"does not match what is asked for, or is not there"}
	}
	own = append(own, nodeTrouble(s.Node)...)
	return fmt.Sprintf("%s: %s; %s", s.Settings.Node, strings.Join(own, ", "), strings.Join(append(others, strings.TrimSuffix(strings.TrimSpace(head), ":")), "; "))
}

// ofOthers says that a reason is not the chosen node's. The scheduler looks at taints and
// cordons before it looks at which node a pod may go to, and tells them of every node.
func (s *Scene) ofOthers(reason string) bool {
	switch {
	case strings.Contains(reason, "didn't match Pod's node affinity/selector"):
		return true
	case s.Node == nil:
		return false
	case strings.Contains(reason, "untolerated taint"):
		return !s.keptOff()
	case strings.Contains(reason, "were unschedulable"):
		return !s.Node.Bool("spec", "unschedulable")
	}
	return false
}

// keptOff says that the chosen node has a taint that the run does not tolerate.
func (s *Scene) keptOff() bool {
	var taints []kube.Taint
	for _, t := range s.Node.List("spec", "taints") {
		taints = append(taints, kube.Taint{Key: t.Text("key"), Value: t.Text("value"), Effect: t.Text("effect")})
	}
	_, taint := tolerated(taints, append([]kube.Toleration{}, s.Settings.Tolerations...))
	return taint != nil
}

// nodeTrouble is what is wrong with a node itself.
func nodeTrouble(node kube.Object) (all []string) {
	if node == nil {
		return nil
	}
	if node.Bool("spec", "unschedulable") {
		all = append(all, "the node is cordoned")
	}
	if c := conditionOf(node, "Ready"); c.Text("status") != "True" {
		all = append(all, sentence("the node is not ready: "+c.Text("message"), 200))
	}
	for _, kind := range []string{"MemoryPressure", "DiskPressure", "PIDPressure"} {
		if holds(node, kind) {
			all = append(all, "the node has "+kind)
		}
	}
	return all
}
