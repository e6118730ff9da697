package graph

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"aicr/internal/kube"
)

// How long an image may be refused: what a registry says of a name is final, and a
// network is not.
const (
	imageErrorLasts   = 5 * time.Second
	imageTroubleLasts = time.Minute
)

// imageFinal is what a registry says when asking again is of no use.
var imageFinal = regexp.MustCompile(`(?i)not found|manifest unknown|unauthorized|authentication required|denied|forbidden|no match for platform|no matching manifest|invalid reference|pull policy of Never`)

// imageNotPulled finds images that cannot be had.
func imageNotPulled(s *Scene) (all []Cause) {
	for _, pod := range s.Pods {
		for _, c := range statusesOf(pod) {
			waiting := c.Map("state", "waiting")
			reason := waiting.Text("reason")
			var after time.Duration
			switch reason {
			case "InvalidImageName", "ImagePullBackOff":
			case "ErrImageNeverPull", "ErrImagePull", "ImageInspectError", "RegistryUnavailable":
				after = imageErrorLasts
			default:
				continue
			}
			said := s.pullError(pod, c.Text("name"), waiting.Text("message"))
			if reason != "InvalidImageName" && !imageFinal.MatchString(said) {
				after = imageTroubleLasts
			}
			if reason != "InvalidImageName" && reason != "ImagePullBackOff" {
				reason = "ErrImagePull"
			}
			all = append(all, Cause{Reason: reason, Source: pod.Name(), Worker: workerName(pod), After: after,
				Text: sentence(imageOf(pod, c.Text("name"))+": "+said, causeText),
				Advice: slices.Concat([]string{"is the image's name right, and may the node pull it? `kubectl describe pod " + pod.Name() + " -n " + pod.Namespace() + "`"},
					ownImageAdvice(pod, c.Text("name")), pullSecretAdvice(pod))})
		}
	}
	return all
}

// pullError is what the registry said: the container's own message may have no more than
// that it is tried again. Of the events that a try leaves, one says why it failed.
func (s *Scene) pullError(pod kube.Object, container, message string) string {
	if _, detail, ok := strings.Cut(message, "ErrImagePull: "); ok {
		return detail
	}
	if strings.HasPrefix(message, "Back-off") || message == "" {
		failed := s.newest(func(e kube.Object) bool {
			of := e.Text("involvedObject", "fieldPath")
			return about(e, pod, "Pod") && strings.Contains(e.Text("message"), "Failed to pull") &&
				(of == "" || strings.HasSuffix(of, "{"+container+"}"))
		})
		if failed != nil {
			return failed.Text("message")
		}
	}
	return message
}

// ownImageAdvice speaks of this program's own image, which nobody publishes: the one that
// is taken without --image is in no registry.
func ownImageAdvice(pod kube.Object, container string) []string {
	if !isOfLoad(pod) || container != LoadContainer {
		return nil
	}
	return []string{"it is the image of this program: `make image` builds it; push it where the nodes can pull it, and name it with --image"}
}

// pullSecretAdvice speaks of the Secrets that a pod is pulled with. A node that does not
// find them pulls without, and says so nowhere but in an event. A namespace that a run has
// made goes when no run is in it, with what somebody has put there.
func pullSecretAdvice(pod kube.Object) (all []string) {
	own := ""
	if isOfLoad(pod) {
		own = "; make the namespace yourself before that, so that no run deletes it"
	}
	for _, secret := range pod.List("spec", "imagePullSecrets") {
		all = append(all, "Secret "+secret.Text("name")+" has to be in namespace "+pod.Namespace()+", and is not put there by this program"+own+": see docs/security.md")
	}
	return all
}
