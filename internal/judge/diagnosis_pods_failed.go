package judge

import (
	"fmt"
	"slices"
	"strings"

	"aicr/internal/spec"
)

// podCause is a way in which pods cannot start: the reasons of events that tell of it,
// what it is called, and what to do about it.
type podCause struct {
	reasons []string
	summary string // of so many pods
	advice  []string
}

// podCauses lists them, what is nearest to the cause first: a volume that is not there
// makes a pod unschedulable, and not the other way round.
func podCauses() []podCause {
	return []podCause{
		{[]string{"QueueMissing"}, "the scheduler's queue is missing, so that no pod of the graph is placed",
			[]string{"`kubectl get queues.scheduling.run.ai`: is the run's queue, and its parent, there?", "look at the log of KAI's controllers"}},
		{[]string{"InvalidImageName"}, "an image's name cannot be read, so that nothing is pulled",
			[]string{"look at AICR_VALIDATOR_IMAGE_REGISTRY, AICR_VALIDATOR_IMAGE_TAG and --image: `aicr versions` lists what is pulled"}},
		{[]string{"ErrImagePull", "ImagePullBackOff"}, "an image cannot be pulled",
			[]string{"is the name right, and does the registry let this cluster in? `aicr versions` lists what is pulled", "name the registry's secret with --image-pull-secret, a mirror with AICR_VALIDATOR_IMAGE_REGISTRY, or the image of this program with --image, which `make image` builds and you push"}},
		{[]string{"NotTheLoad"}, "the image does not run as the load",
			[]string{"is it this program's, of this version and for the node's processor? --image names it, and `make image` builds it", "`aicr versions` lists what is pulled, AIPerf's too"}},
		{[]string{"PopulateFailed"}, "the model could not be fetched into its volume",
			[]string{"look at the log of the Job aicr-model-cache-populate: a gated model wants HF_TOKEN, and a cluster without a way out a mirror", "AICR_INFERENCE_PERF_MODEL_CACHE_SIZE=off has each worker fetch the model itself"}},
		{[]string{"VolumeUnbound"}, "the volume for the model is not bound",
			[]string{"`kubectl get storageclasses`: is there a provisioner behind the one that is asked for?", "name another with AICR_INFERENCE_PERF_MODEL_CACHE_STORAGE_CLASS, or do without: AICR_INFERENCE_PERF_MODEL_CACHE_SIZE=off"}},
		{[]string{"FailedMount", "FailedAttachVolume"}, "a volume cannot be mounted",
			[]string{"`kubectl get volumeattachments`: is it attached to another node?", "look at the log of the storage driver on the node"}},
		{[]string{"OOMKilled"}, "memory ran out",
			[]string{"it is the host's memory and not the GPU's: give the container more, or load less of the model there"}},
		{[]string{"FailedPrepareDynamicResources"}, "the DRA plugin cannot prepare the GPU of a pod",
			[]string{"look at the log of the DRA kubelet plugin on the node", "where its driver was restarted: restart the driver, then the plugin, then see that GPUs are allocatable"}},
		{[]string{"Evicted", "Preempted"}, "a pod was put out of its node",
			[]string{"`kubectl describe node NODE`: is it short of memory, of disk, or taken by a higher priority?"}},
		{[]string{"ContainerNotMade"}, "a container cannot be made",
			[]string{"a Secret, a ConfigMap or a user that the pod names is not there or not allowed"}},
		{[]string{"CrashLoopBackOff", "BackOff", "Failed"}, "a container crashes", nil},
		{[]string{"Unschedulable", "FailedScheduling"}, "no node takes a pod of the graph",
			[]string{"what is in the way is said for each node: give way to it, or choose another with --node, --node-selector or --toleration"}},
		{[]string{"NotStarted"}, "a pod did not start in time",
			[]string{"`kubectl describe pod POD` shows what it waits for, `kubectl get nodes` whether its node is ready"}},
		{[]string{"PodRefused"}, "the cluster refuses a pod",
			[]string{"the refusal names its policy, quota or limit range: it is to be changed there, or the namespace exempted"}},
		{[]string{"GraphRefused"}, "the cluster refuses what the run makes",
			[]string{"the refusal names the webhook, the policy or the quota it comes from"}},
		{[]string{"OperatorAway"}, "Dynamo's operator does not answer",
			[]string{"`kubectl get deployments -A` shows which operator has no ready replica; start it, and validate again"}},
		{[]string{"GraphIgnored"}, "Dynamo's operator does not look at the graph",
			[]string{"is the operator running? `kubectl get pods -A` and its log; one that is restricted to a namespace looks at no other"}},
		{[]string{"GroveFailed"}, "Grove cannot make the pods of the graph",
			[]string{"`kubectl get podcliquesets,podcliques -A -o yaml` has their last errors", "look at the log of Grove's operator"}},
		{[]string{"GraphFailed"}, "Dynamo's operator cannot make the graph",
			[]string{"`kubectl get dynamographdeployment -A -o yaml` has its conditions", "look at the log of Dynamo's operator"}},
	}
}

// inDiagnostics is where to look: what a run has made is gone when its verdict is read.
const inDiagnostics = "diagnostics/ of the run has its pods, events and logs; with --no-cleanup the pods stay, to be looked at"

// loadPods begins the names of the pods that load. That they cannot start is no fault of
// what was to be measured.
const loadPods = "aicr-load-"

// fetchJob begins the name of the Job that fetches the model. It is this program's: that the
// cluster refuses its pod is no fault of what was to be measured either. That it fails is: what
// serves needs the model.
const fetchJob = "aicr-model-cache-populate"

// podsFailed finds pods that could not start, where nothing was served for it.
func podsFailed(ev *Evidence) []spec.Finding {
	if ev.start.notServed == nil {
		return nil
	}
	var own, loading, fetching []spec.Event
	for _, e := range ev.start.pods {
		stale := e.Reason == "FailedPrepareDynamicResources" && strings.Contains(e.Text, "empty device edits")
		switch {
		case stale || !slices.ContainsFunc(podCauses(), func(c podCause) bool { return slices.Contains(c.reasons, e.Reason) }):
		case strings.Contains(e.Source, loadPods):
			loading = append(loading, e)
		case e.Reason == "PodRefused" && strings.Contains(e.Source, fetchJob):
			fetching = append(fetching, e)
		default:
			own = append(own, e)
		}
	}
	found := podFinding(own, ev.start.logs, spec.SeverityFail, "")
	found = append(found, podFinding(fetching, nil, spec.SeverityInvalid, "the model could not be fetched: ")...)
	return append(found, podFinding(loading, nil, spec.SeverityInvalid, "the load could not begin: ")...)
}

// lastWords is the reason of lines of a log that a container ended with; so many of them
// are quoted, of one pod: the others say the same.
const (
	lastWords   = "last-words"
	quotedWords = 5
)

// quoted are the last words of one of the pods of events.
func quoted(events, logs []spec.Event) (lines []string) {
	for _, e := range events {
		for _, l := range logs {
			if l.Reason == lastWords && l.Source == e.Source {
				lines = append(lines, fmt.Sprintf("log of %s: %s", l.Source, clip(l.Text)))
			}
		}
		if len(lines) > 0 {
			return lines[max(0, len(lines)-quotedWords):]
		}
	}
	return nil
}

func podFinding(events, logs []spec.Event, severity, before string) []spec.Finding {
	if len(events) == 0 {
		return nil
	}
	f := spec.Finding{Severity: severity, Confidence: spec.ConfidenceVeryHigh}
	crash := false
	for _, c := range podCauses() {
		first := slices.IndexFunc(events, func(e spec.Event) bool { return slices.Contains(c.reasons, e.Reason) })
		hit := first >= 0
		if hit && f.Summary == "" {
			f.Summary = strings.TrimSuffix(before+c.summary+": "+headline(events[first].Text), ": ")
		}
		if hit {
			f.Advice = append(f.Advice, adviceOf(events, &c)...)
			f.Advice = append(f.Advice, c.advice...)
			crash = crash || slices.Contains(c.reasons, crashed)
		}
	}
	var seen []string
	for _, e := range events {
		line := fmt.Sprintf("%s: %s: %s", e.Source, e.Reason, shorten(e.Text))
		if slices.Contains(seen, line) {
			continue
		}
		seen = append(seen, line)
		if e.Worker != "" && !slices.Contains(f.Workers, e.Worker) {
			f.Workers = append(f.Workers, e.Worker)
		}
	}
	words := quoted(events, logs)
	switch {
	case crash && len(words) > 0:
		f.Advice = append(f.Advice, "its last lines are above, and more of them in diagnostics/")
	case crash:
		f.Advice = append(f.Advice, "its log had no line when it was read: `kubectl logs POD --previous`, or diagnostics/")
	}
	f.Evidence = append(firstOf(seen, 8), words...)
	f.Advice = distinct(append(f.Advice, inDiagnostics))
	return []spec.Finding{f}
}

// crashed is the reason of a container that ends again and again.
const crashed = "CrashLoopBackOff"

// adviceOf is what was said to do about the events of a cause by who saw them. Of eight
// workers with the same trouble, the first says it for all.
func adviceOf(events []spec.Event, c *podCause) []string {
	for _, e := range events {
		if slices.Contains(c.reasons, e.Reason) && len(e.Advice) > 0 {
			return e.Advice
		}
	}
	return nil
}

// distinct leaves out what was said before.
func distinct(lines []string) (all []string) {
	for _, l := range lines {
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// firstOf keeps a list readable.
func firstOf(lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	return append(slices.Clone(lines[:most]), fmt.Sprintf("and %d more", len(lines)-most))
}
