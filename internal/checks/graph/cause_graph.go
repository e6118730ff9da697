package graph

import (
	"fmt"
	"regexp"
	"time"
)

// An operator tries again at once what failed for a moment, and looks at a new graph within
// seconds. One that was just moved to another node takes longer.
const (
	graphFailedLasts = 10 * time.Second
	graphSeenWithin  = 90 * time.Second
	queueLasts       = 5 * time.Second
	operatorLasts    = 3 * time.Minute // one that is restarted answers long before
)

var queueNotFound = regexp.MustCompile(`queue '([^']*)' not found`)

// graphFailed finds that Dynamo's operator gave the graph up: that is what its state
// failed is for. Pods that do not start leave it pending.
func graphFailed(s *Scene) []Cause {
	if s.Graph.Text("status", "state") != "failed" {
		return nil
	}
	message := ""
	for _, c := range s.Graph.List("status", "conditions") {
		if text := c.Text("message"); text != "" && c.Text("status") != "True" && (message == "" || c.Text("type") == "Ready") {
			message = text
			if reason := c.Text("reason"); reason != "" {
				message = reason + ": " + text
			}
		}
	}
	if message == "" {
		message = "its state is failed, and no condition says why"
	}
	advice := refusalAdvice(message, s.Graph.Namespace())
	c := Cause{Reason: "GraphFailed", Source: "DynamoGraphDeployment " + s.Graph.Name(), Text: sentence(message, causeText), After: graphFailedLasts,
		Advice: append(advice, "`kubectl get dynamographdeployment "+s.Graph.Name()+" -n "+s.Graph.Namespace()+" -o yaml`, and the log of Dynamo's operator")}
	if m := queueNotFound.FindStringSubmatch(message); m != nil {
		c.Reason, c.After = "QueueMissing", queueLasts
		c.Advice = []string{"is there a KAI queue " + m[1] + "? `kubectl get queues.scheduling.run.ai`"}
	}
	return []Cause{c}
}

// operatorAway finds that Dynamo's operator went away after the graph was made: its webhook
// does not answer. What it has made goes on without it.
func operatorAway(s *Scene) []Cause {
	if s.Graph == nil || s.Webhook == nil {
		return nil
	}
	return []Cause{{Reason: "OperatorAway", Source: "DynamoGraphDeployment " + s.Graph.Name(), After: operatorLasts,
		Text:   "the webhook of Dynamo's operator does not answer: " + sentence(s.Webhook.Text, causeText),
		Advice: []string{"`kubectl get deployments -A | grep dynamo` shows whether the operator is ready; start it"}}}
}

// graphIgnored finds that no operator looks at the graph: the first thing that Dynamo's does is
// to give it a state. One whose Deployment is not known by its name is not missed before.
func graphIgnored(s *Scene) []Cause {
	if s.Graph == nil || s.Graph.Deleting() || s.Graph.Text("status", "state") != "" || len(s.Graph.List("status", "conditions")) > 0 {
		return nil
	}
	return []Cause{{Reason: "GraphIgnored", Source: "DynamoGraphDeployment " + s.Graph.Name(), After: graphSeenWithin,
		Text:   fmt.Sprintf("the graph has no status %s after it was made", graphSeenWithin),
		Advice: []string{"`kubectl get deployments -A | grep dynamo`: is Dynamo's operator installed, and does it look at this namespace?"}}}
}
