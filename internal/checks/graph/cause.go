package graph

import (
	"time"

	"aicr/internal/spec"
)

// Cause is why a start fails.
type Cause struct {
	Reason string // as in the record's EventPod
	Source string // a pod, or another object
	Worker string // the pod's name, where it is a worker
	Text   string
	Advice []string
	Lines  []string      // the last of the log
	After  time.Duration // what is seen for a shorter time may pass; 0: it does not
	Logged []spec.Event  // told instead of an event of a pod

	rule string
}

// causeRule finds one kind of cause in a scene. It is a pure function.
type causeRule struct {
	name string
	find func(*Scene) []Cause
}

// causes are the rules, what is nearest to the cause first.
func causes() []causeRule {
	return []causeRule{
		{"operator", operatorAway},
		{"graph", graphFailed},
		{"ignored", graphIgnored},
		{"component", componentFailed},
		{"clique", cliqueFailed},
		{"image", imageNotPulled},
		{"container", containerNotMade},
		{"prepare", notPrepared},
		{"populate", populateFailed},
		{"volume", volumeUnbound},
		{"mount", notMounted},
		{"memory", outOfMemory},
		{"crash", crashLoop},
		{"evicted", evicted},
		{"unschedulable", unschedulable},
		{"create", notCreated},
		{"discovery", discoveryPanicked},
	}
}

// find is what all rules find in a scene.
func (s *Scene) find() []Cause {
	var all []Cause
	for _, r := range causes() {
		for _, c := range r.find(s) {
			c.rule = r.name
			all = append(all, c)
		}
	}
	return all
}

// causeLedger keeps since when each cause has been seen without a break. It goes by the
// clock of who looks: that of the cluster may be another.
type causeLedger map[string]time.Time

// settled are the causes that have lasted, with the others of their rules, since the same
// thing befalls the workers one after the other. None: nothing has to fail yet.
func (l causeLedger) settled(found []Cause, now time.Time) []Cause {
	there, rules := map[string]bool{}, map[string]bool{}
	for _, c := range found {
		key := c.rule + " " + c.Source
		there[key] = true
		if _, ok := l[key]; !ok {
			l[key] = now
		}
		if now.Sub(l[key]) >= c.After {
			rules[c.rule] = true
		}
	}
	for key := range l {
		if !there[key] {
			delete(l, key)
		}
	}
	var all []Cause
	for _, c := range found {
		if rules[c.rule] {
			all = append(all, c)
		}
	}
	return all
}
