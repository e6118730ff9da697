package graph

import "aicr/internal/kube"

// populateContainer is the one of the Job that fetches the model.
const populateContainer = "populate"

// noSidecars keeps the meshes that are known from injecting a container into the pods of
// this program's Jobs: it never ends, so that the Job would not either, and what goes
// through it is measured with the deployment.
func noSidecars() (labels, annotations fields) {
	return fields{"sidecar.istio.io/inject": "false", "kuma.io/sidecar-injection": "disabled"},
		fields{
			"sidecar.istio.io/inject":                "false",
			"linkerd.io/inject":                      "disabled",
			"kuma.io/sidecar-injection":              "disabled",
			"consul.hashicorp.com/connect-inject":    "false",
			"openservicemesh.io/sidecar-injection":   "disabled",
			"appmesh.k8s.aws/sidecarInjectorWebhook": "disabled",
		}
}

// jobTemplate is the template of a Job's pods.
func jobTemplate(s *Settings, part string, pod fields) fields {
	labels, annotations := noSidecars()
	for k, v := range Labels(s.Run, part) {
		labels[k] = v
	}
	return fields{"metadata": fields{"labels": labels, "annotations": annotations}, "spec": pod}
}

// heldOpen is a container that runs on in a pod whose work is done.
type heldOpen struct{ pod, container, image string }

// sidecarOf is the container that keeps a pod running whose main container has ended; nil:
// none does. One that Kubernetes itself calls a sidecar ends with the others.
func sidecarOf(pod kube.Object, main string) *heldOpen {
	ended := false
	var beside *heldOpen
	for _, c := range pod.List("status", "containerStatuses") {
		switch name := c.Text("name"); {
		case name == main:
			ended = c.Has("state", "terminated")
		case c.Has("state", "running"):
			beside = &heldOpen{pod.Name(), name, imageOf(pod, name)}
		}
	}
	if !ended {
		return nil
	}
	return beside
}

// fetched is what keeps the Job running that has fetched the model; nil: nothing does, or
// it has not.
func (s *Scene) fetched() *heldOpen {
	for _, pod := range s.Pods {
		if roleOf(pod) != rolePopulate {
			continue
		}
		for _, c := range pod.List("status", "containerStatuses") {
			if code, ok := c.Int("state", "terminated", "exitCode"); ok && code == 0 && c.Text("name") == populateContainer {
				return sidecarOf(pod, populateContainer)
			}
		}
	}
	return nil
}
