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
		name := of.Text("name")
		if !isComponentRefusal(e) || seen[name] {
			continue
		}
		last := s.newest(func(o kube.Object) bool { return isOf(o, of) && o.Text("reason") == e.Text("reason") })
		if !isComponentRefusal(last) || s.servesSince(last) {
			continue
		}
		seen[name] = true // its Deployment has the same name, and the same words
		c := componentCause(name, last.Namespace(), last.Text("message"))
		c.After = createLasts
		all = append(all, c)
	}
	return all
}

// isComponentRefusal says that an event is of a component that Dynamo's operator could not make:
// it tells of the component, and of the Deployment or the Service that was refused.
func isComponentRefusal(e kube.Object) bool {
	if e.Text("type") == "Normal" { // what it creates, it tells by the same reason
		return false
	}
	switch kind := e.Text("involvedObject", "kind"); e.Text("reason") {
	case "ReconcileError":
		return kind == "DynamoComponentDeployment"
	case "CreateDeployment", "UpdateDeployment", "CreateService", "UpdateService":
		return kind == "Deployment" || kind == "Service" || kind == "DynamoComponentDeployment"
	}
	return false
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
