package graph

import (
	"regexp"
	"strings"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// causeText is how much of what a cluster says of a failure is kept: a policy's text is
// read to its end. An event has 1024 bytes at most.
const causeText = 2000

// whose says what an object is for, and who made it: a policy that refuses a pod of this
// program's own Jobs is no fault of the deployment, nor of its operator.
func (n *Names) whose(kind, name string) string {
	switch {
	case kind == "Job" && name == n.Populate:
		return "this program's, which fetches the model"
	case kind == "Job" && name == n.Trial:
		return "this program's, which tries the image of the load"
	case kind == "Job" && name == n.Load:
		return "this program's, which loads"
	case kind == "PodClique" || kind == "PodCliqueSet":
		return "made by Grove for the graph"
	}
	return "made by Dynamo's operator for the graph"
}

var (
	refusedByPolicy  = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'`)
	refusedByWebhook = regexp.MustCompile(`admission webhook "([^"]+)" denied`)
	quotaNamed       = regexp.MustCompile(`(exceeded|failed) quota: ([^:,\s]+)`)
)

// wantsResources is how a quota, a policy or a limit range says that a container has to name
// what it requests or is limited to.
var wantsResources = regexp.MustCompile(`(?i)\b(must specify|limits?|requests?)\b`)

// deniedRequest is of every refusal, and no word on resources.
var deniedRequest = regexp.MustCompile(`denied (the )?request`)

// refusalAdvice is what to do about a refusal in the words of Kubernetes. The resources of what
// a run makes can be set.
func refusalAdvice(text, namespace string) []string {
	all := refusalOwner(text, namespace)
	if len(all) > 0 && wantsResources.MatchString(deniedRequest.ReplaceAllString(text, "")) && !strings.Contains(text, "exceeded quota") && !strings.Contains(text, "violates PodSecurity") {
		all = append(all, "or give the pods what is asked for: "+spec.KnobWorkerResources+", "+spec.KnobFrontendResources+" and "+spec.KnobJobResources+", as in "+spec.KnobJobResources+"=limits.cpu=2,limits.memory=4Gi")
	}
	return all
}

// refusalOwner is where a refusal comes from, and how to change it there.
func refusalOwner(text, namespace string) []string {
	if m := quotaNamed.FindStringSubmatch(text); m != nil {
		show := "`kubectl describe resourcequota " + m[2] + " -n " + namespace + "`"
		if m[1] == "failed" { // it wants something said that the pod does not say
			return []string{"ResourceQuota " + m[2] + " wants every container to name what it takes: give the namespace a LimitRange with defaults, or exempt it from the quota: " + show}
		}
		return []string{show + ": raise it, or take fewer GPUs"}
	}
	if strings.Contains(text, "violates PodSecurity") {
		return []string{"`kubectl get namespace " + namespace + " --show-labels`: its Pod Security level refuses the pod; have the namespaces aicr-* exempted from it"}
	}
	if m := refusedByPolicy.FindStringSubmatch(text); m != nil {
		return []string{"`kubectl get validatingadmissionpolicy " + m[1] + " -o yaml`: exempt the namespace " + namespace + ", or change what it refuses"}
	}
	if m := refusedByWebhook.FindStringSubmatch(text); m != nil {
		return []string{"the admission webhook " + m[1] + " refuses it: `kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations`; exempt the namespace " + namespace}
	}
	if strings.Contains(text, " per Container is ") || strings.Contains(text, " per Pod is ") {
		return []string{"`kubectl get limitrange -n " + namespace + " -o yaml`: a LimitRange refuses it"}
	}
	return nil
}

// refused is the cause of a pod, or another object, that the cluster does not take, by the
// object that wants to make it.
func (s *Scene) refused(kind, name, namespace, text string) Cause {
	n := s.Settings.Names()
	c := Cause{Reason: "PodRefused", Source: kind + " " + name, After: createLasts,
		Text:   sentence(kind+" "+name+" ("+n.whose(kind, name)+") cannot make its pod: "+text, causeText),
		Advice: refusalAdvice(text, namespace)}
	if m := quotaNamed.FindStringSubmatch(text); m != nil && m[1] == "exceeded" {
		c.Text = sentence("quota exceeded: "+c.Text, causeText)
	}
	c.Advice = append(c.Advice, "`"+kubectlDescribe(kind, name, namespace)+"`")
	return c
}

func kubectlDescribe(kind, name, namespace string) string {
	return "kubectl describe " + strings.ToLower(kind) + " " + name + " -n " + namespace
}

// isRefusal says that an event is of a pod that could not be made, by the words of
// Kubernetes' controllers or of Grove's; isMade that one was made after all.
func isRefusal(e kube.Object) bool {
	switch e.Text("reason") {
	case "FailedCreate", "PodCreateFailed", "PodCreationFailed":
		return true
	}
	return false
}

func isMade(e kube.Object) bool {
	switch e.Text("reason") {
	case "SuccessfulCreate", "PodCreateSuccessful", "PodCreationSuccessful":
		return true
	}
	return false
}
