package graph

import (
	"strings"

	"aicr/internal/kube"
)

// componentPrefix is what Dynamo's operator says before why it cannot make a component's
// children.
const componentPrefix = "Failed to reconcile"

// componentFailed finds that Dynamo's operator cannot make what a component of the graph is
// made of, where the graph itself stays pending: a Deployment or a Service that is refused.
// The operator says so on the component, and in an event of it.
func componentFailed(s *Scene) (all []Cause) {
	seen := map[string]bool{}
	for _, c := range s.Components {
		is := conditionOf(c, "Available")
		text := is.Text("message")
		if is != nil {
			seen[c.Name()] = true
		}
		if is.Text("status") == "False" && strings.HasPrefix(text, componentPrefix) {
			all = append(all, componentCause(c.Name(), c.Namespace(), text))
		}
	}
	for _, e := range s.Events { // of components that cannot be read
		of := e.Map("involvedObject")
		if name := of.Text("name"); e.Text("reason") == "ReconcileError" && of.Text("kind") == "DynamoComponentDeployment" && !seen[name] {
			seen[name] = true
			last := s.newest(func(e kube.Object) bool { return e.Text("reason") == "ReconcileError" && isOf(e, of) })
			c := componentCause(name, last.Namespace(), last.Text("message"))
			c.After = createLasts
			if !s.servesSince(last) {
				all = append(all, c)
			}
		}
	}
	return all
}

// servesSince says that a pod of the graph was made after an event: what failed then was
// tried again.
func (s *Scene) servesSince(e kube.Object) bool {
	made := s.newest(isMade)
	return made != nil && eventTime(made).After(eventTime(e))
}

func componentCause(name, namespace, text string) Cause {
	_, why, told := strings.Cut(text, ": ")
	if !told {
		why = text
	}
	advice := refusalAdvice(why, namespace)
	return Cause{Reason: "GraphFailed", Source: "DynamoComponentDeployment " + name, After: graphFailedLasts,
		Text:   sentence("the operator cannot make DynamoComponentDeployment "+name+": "+why, causeText),
		Advice: append(advice, "`"+kubectlDescribe("dynamocomponentdeployment", name, namespace)+"`")}
}
