package graph

import (
	"strings"
	"time"
)

// A new namespace has its account and its quota some seconds after it.
const createLasts = 20 * time.Second

// notCreated finds that pods are not even made: a quota, or a policy of the namespace.
func notCreated(s *Scene) (all []Cause) {
	seen := map[string]bool{}
	for _, e := range s.Events {
		of := e.Map("involvedObject")
		key := of.Text("kind") + " " + of.Text("name")
		if e.Text("reason") != "FailedCreate" || seen[key] {
			continue
		}
		seen[key] = true
		last, made := e, time.Time{}
		for _, other := range s.Events {
			o := other.Map("involvedObject")
			if o.Text("kind")+" "+o.Text("name") != key {
				continue
			}
			switch other.Text("reason") {
			case "FailedCreate":
				if !eventTime(other).Before(eventTime(last)) {
					last = other
				}
			case "SuccessfulCreate":
				if t := eventTime(other); t.After(made) {
					made = t
				}
			}
		}
		if made.After(eventTime(last)) {
			continue
		}
		text, advice := last.Text("message"), "`kubectl describe "+strings.ToLower(of.Text("kind"))+" "+of.Text("name")+" -n "+last.Namespace()+"`"
		if strings.Contains(text, "exceeded quota") {
			text, advice = "quota exceeded: "+text, "`kubectl get resourcequota -n "+last.Namespace()+"`: raise it, or take fewer GPUs"
		}
		all = append(all, Cause{Reason: "GraphFailed", Source: key, Text: sentence(text, 400), After: createLasts, Advice: []string{advice}})
	}
	return all
}
