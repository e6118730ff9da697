package graph

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// sceneOf reads a scene as people write it.
func sceneOf(t *testing.T, text string) *Scene {
	t.Helper()
	var in struct {
		Pods, Events                    []kube.Object
		Components, CliqueSets, Cliques []kube.Object
		Graph, Volume, Populate, Node   kube.Object
		Logs                            map[string]string
	}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "\t", "  ")), &in); err != nil {
		t.Fatal(err)
	}
	s := &Scene{Settings: memorySettings(), Pods: in.Pods, Events: in.Events, Components: in.Components, CliqueSets: in.CliqueSets, Cliques: in.Cliques, Graph: in.Graph, Volume: in.Volume, Populate: in.Populate, Node: in.Node, Logs: map[logOf][]string{}}
	for key, log := range in.Logs {
		words := strings.Split(key, "/")
		s.Logs[logOf{words[0], words[1], len(words) > 2}] = strings.Split(strings.TrimSpace(log), "\n")
	}
	return s
}

const (
	workerPod = `metadata: {name: w-0, uid: u0, namespace: ns, labels: {nvidia.com/dynamo-component-type: worker}}`
	frontPod  = `metadata: {name: f-0, uid: f0, namespace: ns, labels: {nvidia.com/dynamo-component-type: frontend}}`
	ofWorker  = `involvedObject: {kind: Pod, name: w-0, uid: u0}`
)

func TestEachCauseIsFoundByItsRuleAlone(t *testing.T) {
	creating := `status: {phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: ContainerCreating}}}]}`
	unscheduled := func(message string) string {
		return `pods: [{` + workerPod + `, status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "` + message + `"}]}}]`
	}
	volume := func(phase, reason, message string) string {
		return `{volume: {metadata: {name: v, uid: v0, namespace: ns}, spec: {storageClassName: fast}, status: {phase: ` + phase + `}}, events: [{involvedObject: {kind: PersistentVolumeClaim, name: v, uid: v0}, reason: ` + reason + `, message: "` + message + `"}]}`
	}
	waits := func(reason, message string) string {
		return `pods: [{` + workerPod + `, status: {containerStatuses: [{name: main, state: {waiting: {reason: ` + reason + `, message: "` + message + `"}}}]}}]`
	}
	// With the chosen node's own part of it.
	unscheduledOn := func(node, message string) string {
		return `{` + unscheduled(message) + `, node: {` + node + `}}`
	}
	conditions := func(all string) string {
		return `graph: {metadata: {name: g, namespace: ns}, status: {state: failed, conditions: [` + all + `]}}`
	}
	// What was told of something, each at its second.
	told := func(of string, all ...string) string {
		var events []string
		for _, one := range all {
			words := strings.SplitN(one, " ", 3)
			events = append(events, `{metadata: {namespace: ns}, involvedObject: {`+of+`}, lastTimestamp: "2026-01-01T00:00:0`+words[0]+`Z", reason: `+words[1]+`, message: "`+strings.Join(words[2:], "")+`"}`)
		}
		return `events: [` + strings.Join(events, ", ") + `]`
	}
	ofSet, ofVolume := `kind: ReplicaSet, name: r`, `kind: PersistentVolumeClaim, name: v, uid: v0`
	pending := `volume: {metadata: {name: v, uid: v0, namespace: ns}, status: {phase: Pending}}, `
	pulling := `pods: [{` + workerPod + `, status: {containerStatuses: [{name: main, state: {waiting: {reason: ImagePullBackOff, message: "Back-off pulling image"}}}]}}], `
	for name, c := range map[string]struct {
		scene string
		want  string // rule reason source
		text  string
		after time.Duration
	}{
		"nothing there": {`{}`, "", "", 0},
		"an image that is not there": {`pods: [{` + workerPod + `, spec: {containers: [{name: other, image: a/b}, {name: main, image: x/y}]}, status: {containerStatuses: [{name: main, state: {waiting: {reason: ImagePullBackOff, message: "Back-off pulling image: ErrImagePull: manifest unknown"}}}]}}]`,
			"image ImagePullBackOff w-0", "x/y: manifest unknown", 0},
		"its reason is in an event": {`{pods: [{` + workerPod + `, status: {containerStatuses: [{name: main, state: {waiting: {reason: ImagePullBackOff, message: "Back-off pulling image"}}}]}}], events: [{` + ofWorker + `, reason: Failed, message: "Failed to pull image: unauthorized"}]}`,
			"image ImagePullBackOff w-0", "unauthorized", 0},
		"the event before its last one says why": {`{` + pulling + told(`kind: Pod, name: w-0, uid: u0`, "3 Failed Failed to pull image: unauthorized", "3 Failed Error: ErrImagePull", "4 Failed Error: ImagePullBackOff", "1 Failed Failed to pull image: i/o timeout") + `}`,
			"image ImagePullBackOff w-0", "unauthorized", 0},
		"why another pod's image was not pulled": {`{` + pulling + told(`kind: Pod, name: w-1, uid: u1`, "3 Failed Failed to pull image: unauthorized") + `}`,
			"image ImagePullBackOff w-0", ": Back-off pulling image", imageTroubleLasts},
		"why the image beside it was not pulled": {`{` + pulling + told(`kind: Pod, name: w-0, uid: u0, fieldPath: "spec.containers{other}"`, "3 Failed Failed to pull image: unauthorized") + `}`,
			"image ImagePullBackOff w-0", ": Back-off pulling image", imageTroubleLasts},
		"its reason is nowhere but in an event": {`{` + waits("ErrImagePull", "") + `, ` + told(`kind: Pod, name: w-0, uid: u0, fieldPath: "spec.containers{main}"`, "3 Failed Failed to pull image: denied") + `}`,
			"image ErrImagePull w-0", "denied", imageErrorLasts},
		"a reason of its own, and events of another": {`{` + waits("ErrImagePull", "not found") + `, ` + told(`kind: Pod, name: w-0, uid: u0`, "3 Failed Failed to pull image: i/o timeout") + `}`,
			"image ErrImagePull w-0", ": not found", imageErrorLasts},
		"an image that may not be pulled":       {waits("ErrImageNeverPull", "x is not present with pull policy of Never"), "image ErrImagePull w-0", "pull policy", imageErrorLasts},
		"an image that is not for this machine": {waits("ErrImagePull", "no match for platform in manifest"), "image ErrImagePull w-0", "platform", imageErrorLasts},
		"an image that nobody may have":         {waits("ErrImagePull", "Access DENIED"), "image ErrImagePull w-0", "DENIED", imageErrorLasts},
		"an image that is broken":               {waits("ImageInspectError", "disk"), "image ErrImagePull w-0", "disk", imageTroubleLasts},
		"a registry that does not answer":       {waits("RegistryUnavailable", "no route to host"), "image ErrImagePull w-0", "no route", imageTroubleLasts},
		"the first error of a pull": {`pods: [{` + workerPod + `, status: {containerStatuses: [{name: main, state: {waiting: {reason: ErrImagePull, message: "not found"}}}]}}]`,
			"image ErrImagePull w-0", "not found", imageErrorLasts},
		"a registry that is away": {`pods: [{` + workerPod + `, status: {containerStatuses: [{name: main, state: {waiting: {reason: ImagePullBackOff, message: "Back-off: ErrImagePull: i/o timeout"}}}]}}]`,
			"image ImagePullBackOff w-0", "i/o timeout", imageTroubleLasts},
		"a name that is none": {`pods: [{` + workerPod + `, spec: {initContainers: [{name: first, image: X Y}]}, status: {initContainerStatuses: [{name: first, state: {waiting: {reason: InvalidImageName, message: "couldn't parse"}}}]}}]`,
			"image InvalidImageName w-0", "X Y: couldn't parse", 0},
		"an image that is being pulled": {`pods: [{` + workerPod + `, ` + creating + `}]`, "", "", 0},

		"a Secret that is not there": {`pods: [{` + workerPod + `, status: {containerStatuses: [{name: main, state: {waiting: {reason: CreateContainerConfigError, message: "secret x not found"}}}]}}]`,
			"container ContainerNotMade w-0", "secret x not found", containerErrorLasts},
		"a container that cannot be made": {waits("CreateContainerError", "name is in use"), "container ContainerNotMade w-0", "CreateContainerError: name is in use", containerErrorLasts},
		"a container that cannot be run":  {waits("RunContainerError", "no such program"), "container ContainerNotMade w-0", "RunContainerError: no such program", containerErrorLasts},

		"a stale DRA plugin": {`{pods: [{` + workerPod + `, ` + creating + `}], events: [{` + ofWorker + `, reason: FailedPrepareDynamicResources, message: "prepare: empty device edits", lastTimestamp: "2026-01-01T00:00:09Z"}]}`,
			"prepare FailedPrepareDynamicResources w-0", "empty device edits", prepareLasts},
		"a stale DRA plugin, as nested errors say it": {`{pods: [{` + workerPod + `, ` + creating + `}], events: [{` + ofWorker + `, reason: FailedPrepareDynamicResources, message: "` + strings.Repeat("error preparing devices for claim: ", 20) + `empty device edits"}]}`,
			"prepare FailedPrepareDynamicResources w-0", "empty device edits", prepareLasts},
		"a stale DRA plugin, in the midst of what is said": {`{pods: [{` + workerPod + `, ` + creating + `}], events: [{` + ofWorker + `, reason: FailedPrepareDynamicResources, message: "` + strings.Repeat("error preparing devices: ", 20) + `empty device edits` + strings.Repeat(", to be tried again", 20) + `"}]}`,
			"prepare FailedPrepareDynamicResources w-0", "empty device edits", prepareLasts},
		"a DRA plugin that restarts": {`{pods: [{` + workerPod + `, ` + creating + `}], events: [{` + ofWorker + `, reason: FailedPrepareDynamicResources, message: "DRA driver gpu.nvidia.com is not registered"}]}`,
			"prepare FailedPrepareDynamicResources w-0", "not registered", pluginAway},
		"a DRA plugin that is away": {`{pods: [{` + workerPod + `, ` + creating + `}], events: [{` + ofWorker + `, reason: FailedPrepareDynamicResources, message: "dial unix: connection refused"}]}`,
			"prepare FailedPrepareDynamicResources w-0", "refused", pluginAway},
		"a DRA plugin that does not answer": {`{pods: [{` + workerPod + `, ` + creating + `}], events: [{` + ofWorker + `, reason: FailedPrepareDynamicResources, message: "rpc error: code = DeadlineExceeded"}]}`,
			"prepare FailedPrepareDynamicResources w-0", "DeadlineExceeded", pluginAway},
		"prepared at last": {`{pods: [{` + workerPod + `, ` + creating + `}], events: [{` + ofWorker + `, reason: FailedPrepareDynamicResources, message: no, lastTimestamp: "2026-01-01T00:00:09Z"}, {` + ofWorker + `, reason: Pulling, lastTimestamp: "2026-01-01T00:00:12Z"}]}`,
			"", "", 0},
		"an event of the pod before": {`{pods: [{` + workerPod + `, ` + creating + `}], events: [{involvedObject: {kind: Pod, name: w-0, uid: other}, reason: FailedPrepareDynamicResources, message: no}]}`, "", "", 0},

		"a volume that cannot be mounted": {`{pods: [{` + workerPod + `, ` + creating + `}], events: [{` + ofWorker + `, reason: FailedMount, message: "timed out"}]}`,
			"mount FailedMount w-0", "timed out", mountLasts},
		"a volume that is attached elsewhere": {`{pods: [{` + workerPod + `, ` + creating + `}], events: [{` + ofWorker + `, reason: FailedAttachVolume, message: "Multi-Attach error"}]}`,
			"mount FailedMount w-0", "Multi-Attach", mountLasts},
		"what is to be mounted is not there": {`{pods: [{` + workerPod + `, ` + creating + `}], events: [{` + ofWorker + `, reason: FailedMount, message: "secret x not found"}]}`,
			"mount FailedMount w-0", "not found", missingLasts},

		"killed for its memory": {`{pods: [{` + workerPod + `, spec: {containers: [{name: main, resources: {limits: {memory: 1Gi}}}]}, status: {containerStatuses: [{name: main, ready: false, restartCount: 1, state: {running: {}}, lastState: {terminated: {reason: OOMKilled, exitCode: 137}}}]}}]}`,
			"memory OOMKilled w-0", "limit 1Gi", memoryLasts},
		"killed for its memory, and not back": {`{pods: [{` + workerPod + `, spec: {containers: [{name: main, resources: {limits: {memory: 1Gi}}}, {name: other, resources: {limits: {memory: 2Gi}}}]}, status: {containerStatuses: [{name: other, state: {terminated: {reason: OOMKilled}}}]}}]}`,
			"memory OOMKilled w-0", "limit 2Gi", memoryLasts},
		"killed for its memory, again": {`{pods: [{` + workerPod + `, spec: {initContainers: [{name: first, resources: {limits: {memory: 3Gi}}}]}, status: {initContainerStatuses: [{name: first, restartCount: 1, state: {terminated: {reason: OOMKilled}}, lastState: {terminated: {reason: OOMKilled}}}]}}]}`,
			"memory OOMKilled w-0", "limit 3Gi", memoryLasts},
		"killed for its memory, again and again": {`{pods: [{` + workerPod + `, spec: {containers: [{name: main}]}, status: {containerStatuses: [{name: main, restartCount: 3, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {reason: OOMKilled}}}]}}]}`,
			"memory OOMKilled w-0", "without a limit of its own", memoryLasts},
		"killed once, and back": {`{pods: [{` + workerPod + `, status: {containerStatuses: [{name: main, ready: true, restartCount: 1, lastState: {terminated: {reason: OOMKilled}}}]}}]}`, "", "", 0},

		"a crash loop": {`{pods: [{` + workerPod + `, status: {containerStatuses: [{name: main, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {reason: Error, exitCode: 3}}}]}}], logs: {w-0/main/previous: "first\nKeyError: model"}}`,
			"crash CrashLoopBackOff w-0", "last with code 3: KeyError: model", 0},
		"between two crashes": {`{pods: [{` + workerPod + `, status: {containerStatuses: [{name: main, restartCount: 2, state: {running: {}}}]}}]}`,
			"crash CrashLoopBackOff w-0", "ended 2 times", crashLasts},
		"it came too early once":  {`{pods: [{` + workerPod + `, status: {containerStatuses: [{name: main, restartCount: 1, state: {running: {}}}]}}]}`, "", "", 0},
		"it got through at last":  {`{pods: [{` + workerPod + `, status: {initContainerStatuses: [{name: first, restartCount: 4, state: {terminated: {reason: Completed, exitCode: 0}}}]}}]}`, "", "", 0},
		"it crashed, and is well": {`{pods: [{` + workerPod + `, status: {containerStatuses: [{name: main, ready: true, restartCount: 4, state: {running: {}}}]}}]}`, "", "", 0},

		"put out of its node": {`pods: [{` + workerPod + `, status: {phase: Failed, reason: Evicted, message: "The node was low on resource: memory."}}]`,
			"evicted Evicted w-0", "low on resource", evictedLasts},
		"a node that does not say how it is": {`pods: [{` + workerPod + `, status: {phase: Running, reason: NodeLost}}]`, "", "", 0},

		"no device is free": {unscheduled("0/3 nodes are available: 1 cannot allocate all claims, 2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."),
			"unschedulable Unschedulable w-0", "gpu-0: cannot allocate all claims; 2 other: didn't match Pod's node affinity/selector; 0/3 nodes are available", unschedulableLasts},
		"a taint with commas in it": {unscheduled("0/2 nodes are available: 1 node(s) had untolerated taint {a: b, c}, 1 node(s) didn't match Pod's node affinity/selector."),
			"unschedulable Unschedulable w-0", "gpu-0: had untolerated taint {a: b, c}; 1 other", unschedulableLasts},
		"a taint and a cordon of other nodes": {unscheduledOn(`spec: {taints: [{key: nvidia.com/gpu, effect: PreferNoSchedule}]}, status: {conditions: [{type: Ready, status: "True"}, {type: DiskPressure, status: "False"}]}`, "0/4 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 1 node(s) didn't match Pod's node affinity/selector."),
			"unschedulable Unschedulable w-0", "gpu-0: Insufficient cpu, Insufficient memory; 1 other: had untolerated taint(s); 1 other: were unschedulable; 1 other", unschedulableLasts},
		"a taint with commas in it of another node": {unscheduledOn(`status: {conditions: [{type: Ready, status: "True"}]}`, "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {a: b, c}, 1 Insufficient x, y."),
			"unschedulable Unschedulable w-0", "gpu-0: Insufficient cpu, Insufficient x, y; 1 other: had untolerated taint {a: b, c}; 0/2", unschedulableLasts},
		"a taint and a cordon of the node": {unscheduledOn(`spec: {unschedulable: true, taints: [{key: k, effect: NoExecute}]}, status: {conditions: [{type: Ready, status: "True"}]}`, "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."),
			"unschedulable Unschedulable w-0", "gpu-0: had untolerated taint(s), were unschedulable, the node is cordoned; 0/2", unschedulableLasts},
		"a volume of another node": {unscheduled("0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) didn't match Pod's node affinity/selector."),
			"unschedulable Unschedulable w-0", "gpu-0: didn't match PersistentVolume's node affinity; 1 other", unschedulableLasts},
		"a node that has left": {unscheduledOn(`status: {conditions: [{type: Ready, status: Unknown, message: "Kubelet stopped posting"}, {type: DiskPressure, status: "True"}]}`, "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
			"unschedulable Unschedulable w-0", "gpu-0: does not match what is asked for, or is not there, the node is not ready: Kubelet stopped posting, the node has DiskPressure; 1 other", unschedulableLasts},
		"another scheduler's words":          {unscheduled("no queue has room"), "unschedulable Unschedulable w-0", "no queue has room", unschedulableLasts},
		"another scheduler's words, counted": {unscheduled("2 queues are full"), "unschedulable Unschedulable w-0", "2 queues are full", unschedulableLasts},
		"what it says in an event":           {`{` + unscheduled("") + `, ` + told(`kind: Pod, name: w-0, uid: u0`, "1 FailedScheduling full") + `}`, "unschedulable Unschedulable w-0", "full", unschedulableLasts},
		"what KAI says in an event":          {`{` + unscheduled("") + `, ` + told(`kind: Pod, name: w-0, uid: u0`, "1 Unschedulable full") + `}`, "unschedulable Unschedulable w-0", "full", unschedulableLasts},
		"a pod that has found its node":      {`{pods: [{` + workerPod + `, status: {phase: Running}}], ` + told(`kind: Pod, name: w-0, uid: u0`, "1 FailedScheduling full") + `}`, "", "", 0},
		"a pod that goes":                    {strings.Replace(unscheduled("full"), "uid: u0,", "uid: u0, deletionTimestamp: now,", 1), "", "", 0},
		"volumes that are not there yet":     {unscheduled("0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."), "unschedulable Unschedulable w-0", "persistent volumes", volumeComes},
		"a volume that is being made":        {unscheduled("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."), "unschedulable Unschedulable w-0", "unbound", volumeComes},
		"the scheduler has said nothing":     {unscheduled(""), "", "", 0},
		"a gang that is not complete yet":    {strings.Replace(unscheduled("x"), "reason: Unschedulable", "reason: SchedulingGated", 1), "", "", 0},

		"a queue that is not there": {`graph: {metadata: {name: g, namespace: ns}, status: {state: failed, conditions: [{type: Ready, status: "False", reason: failed_to_reconcile_the_resources, message: "kai-scheduler queue validation failed: queue 'dynamo' not found in cluster."}]}}`,
			"graph QueueMissing DynamoGraphDeployment g", "failed_to_reconcile_the_resources: kai-scheduler queue validation failed: queue 'dynamo' not found", queueLasts},
		"given up, and nothing says why": {conditions(`{type: Ready, status: "False", reason: x}`), "graph GraphFailed DynamoGraphDeployment g", "no condition says why", graphFailedLasts},
		"what is well is no reason":      {conditions(`{type: A, status: "True", message: well}, {type: B, status: Unknown, message: no room}`), "graph GraphFailed DynamoGraphDeployment g", "no room", graphFailedLasts},
		"the first reason of all":        {conditions(`{type: A, status: "False", message: first}, {type: B, status: "False", message: second}`), "graph GraphFailed DynamoGraphDeployment g", "first", graphFailedLasts},
		"the reason of the whole":        {conditions(`{type: A, status: "False", message: part}, {type: Ready, status: "False", message: whole}, {type: B, status: "False", message: part}`), "graph GraphFailed DynamoGraphDeployment g", "whole", graphFailedLasts},
		"a graph that was given up": {`graph: {metadata: {name: g, namespace: ns}, status: {state: failed, conditions: [{type: Ready, status: "False", message: "webhook said no"}]}}`,
			"graph GraphFailed DynamoGraphDeployment g", "webhook said no", graphFailedLasts},
		"a graph that is pending": {`graph: {metadata: {name: g}, status: {state: pending, conditions: [{type: Ready, status: "False", message: "some resources are not ready"}]}}`, "", "", 0},

		"a quota": {`events: [{metadata: {namespace: ns}, involvedObject: {kind: ReplicaSet, name: r}, reason: FailedCreate, message: 'pods "x" is forbidden: exceeded quota: q, requested: pods=1'}]`,
			"create PodRefused ReplicaSet r", "quota exceeded: ", createLasts},
		"refused again and again": {told(ofSet, "5 FailedCreate between", "9 FailedCreate last", "1 FailedCreate first"), "create PodRefused ReplicaSet r", "last", createLasts},
		"made, and then refused":  {told(ofSet, "9 FailedCreate no", "5 SuccessfulCreate"), "create PodRefused ReplicaSet r", "no", createLasts},
		"made before and after":   {told(ofSet, "9 SuccessfulCreate", "5 FailedCreate no", "1 SuccessfulCreate"), "", "", 0},
		"another was made": {`events: [{involvedObject: {` + ofSet + `}, reason: FailedCreate, message: refused, lastTimestamp: "2026-01-01T00:00:00Z"}, {involvedObject: {kind: ReplicaSet, name: other}, reason: SuccessfulCreate, lastTimestamp: "2026-01-01T00:00:05Z"}]`,
			"create PodRefused ReplicaSet r", "refused", createLasts},
		"made at last": {`events: [{involvedObject: {kind: ReplicaSet, name: r}, reason: FailedCreate, message: x, lastTimestamp: "2026-01-01T00:00:00Z"}, {involvedObject: {kind: ReplicaSet, name: r}, reason: SuccessfulCreate, lastTimestamp: "2026-01-01T00:00:05Z"}]`, "", "", 0},

		"a quota that wants something said": {`events: [{metadata: {namespace: ns}, involvedObject: {kind: Job, name: ` + NamesOf(memoryRun).Populate + `}, reason: FailedCreate, message: 'pods "x" is forbidden: failed quota: q: must specify limits.cpu'}]`,
			"create PodRefused Job " + NamesOf(memoryRun).Populate, "this program's, which fetches the model) cannot make its pod: pods", createLasts},
		"a policy's text to its end": {told(ofSet, "1 FailedCreate violates PodSecurity "+strings.Repeat("(a list of what is wrong) ", 30)+"the end"), "create PodRefused ReplicaSet r", "wrong) the end", createLasts},
		"a component that is refused": {`components: [{metadata: {name: d-worker, namespace: ns}, status: {conditions: [{type: Available, status: "False", reason: Reconciling, message: "Failed to reconcile DynamoComponentDeployment: failed to create Deployment: admission webhook \"x\" denied the request: no"}]}}]`,
			"component GraphFailed DynamoComponentDeployment d-worker", "cannot make DynamoComponentDeployment d-worker: failed to create Deployment: admission webhook", graphFailedLasts},
		"a component that is not ready yet":     {`components: [{metadata: {name: d-worker}, status: {conditions: [{type: Available, status: "False", reason: NotReady, message: "Deployment is not ready"}]}}]`, "", "", 0},
		"a component that is well, and was not": {`{components: [{metadata: {name: d-worker}, status: {conditions: [{type: Available, status: "True", message: "ok"}]}}], ` + told(`kind: DynamoComponentDeployment, name: d-worker`, "1 ReconcileError Failed to reconcile DynamoComponentDeployment: x") + `}`, "", "", 0},
		"a component that cannot be read": {told(`kind: DynamoComponentDeployment, name: d-worker`, "1 ReconcileError Failed to reconcile DynamoComponentDeployment: first", "3 ReconcileError Failed to reconcile DynamoComponentDeployment: last"),
			"component GraphFailed DynamoComponentDeployment d-worker", "d-worker: last", createLasts},
		"a component that was tried again": {told(`kind: DynamoComponentDeployment, name: d-worker`, "1 ReconcileError Failed to reconcile DynamoComponentDeployment: x", "5 SuccessfulCreate y"), "", "", 0},
		"a clique whose pods are refused": {`{cliques: [{metadata: {name: g-0-worker, namespace: ns}, spec: {replicas: 2}, status: {readyReplicas: 0, lastErrors: [{code: ERR_CREATE_POD, description: "failed to sync Pod: [Operation: Sync, Code: ERR_CREATE_POD] message: failed to create Pod: for PodClique ns/g-0-worker, cause: pods is forbidden: violates PodSecurity"}]}}], ` + told(`kind: PodClique, name: g-0-worker`, "1 PodCreateFailed x") + `}`,
			"clique PodRefused PodClique g-0-worker", "made by Grove for the graph) cannot make its pod: ERR_CREATE_POD: pods is forbidden", createLasts},
		"a clique with another trouble": {`cliques: [{metadata: {name: g-0-worker, namespace: ns}, spec: {replicas: 2}, status: {lastErrors: [{code: ERR_LIST_POD, description: "no"}]}}]`,
			"clique GroveFailed PodClique g-0-worker", "ERR_LIST_POD: no", createLasts},
		"a graph that no operator looks at": {`graph: {metadata: {name: g, namespace: ns}}`, "ignored GraphIgnored DynamoGraphDeployment g", "no status 1m30s after", graphSeenWithin},
		"a graph that is looked at":         {`graph: {metadata: {name: g}, status: {state: pending}}`, "", "", 0},
		"a set whose cliques are refused": {`cliqueSets: [{metadata: {name: g, namespace: ns}, spec: {replicas: 1}, status: {lastErrors: [{code: ERR_CREATE_OR_UPDATE_PODCLIQUE, description: "failed to sync PodClique: [Operation: Sync, Code: X] message: m, cause: podcliques is forbidden: no"}]}}]`,
			"clique GroveFailed PodCliqueSet g", "what PodCliqueSet g asks for: ERR_CREATE_OR_UPDATE_PODCLIQUE: podcliques is forbidden: no", createLasts},
		"a set that is complete": {`cliqueSets: [{metadata: {name: g}, spec: {replicas: 1}, status: {availableReplicas: 1, lastErrors: [{code: ERR_SYNC, description: "no"}]}}]`, "", "", 0},
		"a set that cannot be read": {told(`kind: PodCliqueSet, name: g`, "1 PodCliqueCreateOrUpdateFailed first", "3 PodCliqueCreateOrUpdateFailed last"),
			"clique GroveFailed PodCliqueSet g", "asks for: last", createLasts},
		"a Deployment that is refused, without its component": {`{` + told(`kind: Deployment, name: d-worker`, "1 CreateDeployment Failed to create Deployment ns: no") + `}`,
			"component GraphFailed DynamoComponentDeployment d-worker", "d-worker: no", createLasts},
		"a Deployment that was made":         {`events: [{involvedObject: {kind: Deployment, name: d}, type: Normal, reason: CreateDeployment, message: Created Deployment ns}]`, "", "", 0},
		"a Deployment that was made at last": {`events: [{involvedObject: {kind: Deployment, name: d}, type: Warning, reason: CreateDeployment, message: "Failed to create Deployment ns: no", lastTimestamp: "2026-01-01T00:00:01Z"}, {involvedObject: {kind: Deployment, name: d}, type: Normal, reason: CreateDeployment, message: Created Deployment ns, lastTimestamp: "2026-01-01T00:00:03Z"}]`, "", "", 0},
		"a clique that is complete":          {`cliques: [{metadata: {name: c}, spec: {replicas: 2}, status: {readyReplicas: 2, lastErrors: [{code: ERR_CREATE_POD, description: "no"}]}}]`, "", "", 0},
		"Grove's events, without a clique":   {told(`kind: PodClique, name: c`, "1 PodCreateFailed refused"), "create PodRefused PodClique c", "refused", createLasts},
		"Grove's events, and made at last":   {told(`kind: PodClique, name: c`, "1 PodCreateFailed refused", "5 PodCreateSuccessful made"), "", "", 0},
		"a crash loop without a word of it": {`{pods: [{` + workerPod + `, status: {containerStatuses: [{name: main, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 3}}}]}}]}`,
			"crash CrashLoopBackOff w-0", "last with code 3", wordsCome},
		"the model was not fetched, and a sidecar runs": {`{populate: {metadata: {name: p}, status: {active: 1}}, pods: [{metadata: {name: p-1, labels: {job-name: aicr-model-cache-populate-1}}, spec: {containers: [{name: populate}, {name: istio-proxy, image: istio/proxyv2}]}, status: {phase: Running, containerStatuses: [{name: populate, state: {terminated: {exitCode: 1}}}, {name: istio-proxy, state: {running: {}}}]}}], logs: {p-1/populate: "401"}}`,
			"populate PopulateFailed Job p", "401 (ContainerFailed: container istio-proxy (istio/proxyv2) keeps the pod running)", 0},
		"the model is fetched, and a sidecar runs": {`{populate: {metadata: {name: p}, status: {active: 1}}, pods: [{metadata: {name: p-1, labels: {job-name: aicr-model-cache-populate-1}}, status: {phase: Running, containerStatuses: [{name: populate, state: {terminated: {exitCode: 0}}}, {name: istio-proxy, state: {running: {}}}]}}]}`, "", "", 0},

		"no provisioner":              {volume("Pending", "FailedBinding", "no persistent volumes available for this claim and no storage class is set"), "volume VolumeUnbound PersistentVolumeClaim v", "Pending, storage class fast: no persistent volumes", bindingLasts},
		"a provisioner that fails":    {volume("Pending", "ProvisioningFailed", "quota of disks"), "volume VolumeUnbound PersistentVolumeClaim v", "quota of disks", provisionLasts},
		"a provisioner that is at it": {volume("Pending", "ExternalProvisioning", "waiting for a volume"), "volume VolumeUnbound PersistentVolumeClaim v", "waiting for a volume", volumeComes},
		"volumes that are made by hand": {volume("Pending", "ExternalProvisioning", "Waiting for a volume to be created either by the external provisioner 'kubernetes.io/no-provisioner' or manually by the system administrator"),
			"volume VolumeUnbound PersistentVolumeClaim v", "no-provisioner", bindingLasts},
		"a volume that is lost":         {volume("Lost", "X", ""), "volume VolumeUnbound PersistentVolumeClaim v", "lost", 0},
		"it waits for who consumes it":  {volume("Pending", "WaitForFirstConsumer", "waiting for first consumer"), "", "", 0},
		"a volume that is there":        {volume("Bound", "ProvisioningFailed", "x"), "", "", 0},
		"it failed, and is tried":       {`{` + pending + told(ofVolume, "1 ProvisioningFailed no disk", "5 ExternalProvisioning waiting") + `}`, "volume VolumeUnbound PersistentVolumeClaim v", "Pending, storage class none: no disk", provisionLasts},
		"it is being made":              {`{` + pending + told(ofVolume, "5 Provisioning waiting") + `}`, "volume VolumeUnbound PersistentVolumeClaim v", "waiting", volumeComes},
		"it failed before it was asked": {`{` + pending + told(ofVolume, "1 ProvisioningFailed no", "5 WaitForFirstConsumer waiting") + `}`, "", "", 0},
		"it failed before its pod was":  {`{` + pending + told(ofVolume, "1 ProvisioningFailed no", "5 WaitForPodScheduled waiting") + `}`, "", "", 0},
		"it failed, and is made":        {`{` + pending + told(ofVolume, "1 ProvisioningFailed no", "5 ProvisioningSucceeded done") + `}`, "", "", 0},
		"a volume that is new":          {`volume: {metadata: {name: v}, status: {phase: Pending}}`, "", "", 0},
		"the model cannot be fetched":   {`{populate: {metadata: {name: p}, status: {conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: "Job has reached"}]}}, pods: [{metadata: {name: p-1, labels: {job-name: aicr-model-cache-populate-1}}, status: {phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: 1}}}]}}], logs: {p-1/c: "a\n401 Client Error"}}`, "populate PopulateFailed Job p", "401 Client Error (BackoffLimitExceeded: Job has reached)", 0},
		"the model could be fetched":    {`populate: {metadata: {name: p}, status: {conditions: [{type: Failed, status: "False"}]}}`, "", "", 0},
		"the model is being fetched":    {`populate: {metadata: {name: p}, status: {active: 1}}`, "", "", 0},
		"the model is there":            {`populate: {metadata: {name: p}, status: {conditions: [{type: Complete, status: "True"}]}}`, "", "", 0},
		"a frontend that panicked":      {`{pods: [{` + frontPod + `, spec: {containers: [{name: main}]}}], logs: {f-0/main: "INFO x\nthread 'tokio-runtime-worker' panicked at unfold.rs\nUnfold must not be polled after it returned"}}`, "discovery DiscoveryPanic f-0", "Unfold must not be polled", 0},
		"a frontend that finds nobody":  {`{pods: [{` + frontPod + `, spec: {containers: [{name: main}]}}], logs: {f-0/main: "bucket missing for query=AllEndpoints"}}`, "", "", 0},
		"a worker that says Unfold":     {`{pods: [{` + workerPod + `, spec: {containers: [{name: main}]}}], logs: {w-0/main: "Unfold must not be polled after it returned"}}`, "", "", 0},
		"a frontend beside each worker": {`{pods: [{` + workerPod + `, spec: {containers: [{name: main}, {name: frontend}]}}], logs: {w-0/frontend: "Unfold must not be polled after it returned"}}`, "discovery DiscoveryPanic w-0", "Unfold", 0},
	} {
		t.Run(name, func(t *testing.T) {
			found := sceneOf(t, c.scene).find()
			if c.want == "" {
				if len(found) > 0 {
					t.Fatalf("found %+v, and nothing is wrong", found)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("found %+v", found)
			}
			f := found[0]
			if got := f.rule + " " + f.Reason + " " + f.Source; got != c.want || !strings.Contains(f.Text, c.text) || f.After != c.after {
				t.Errorf("found %s after %s: %s\nwant  %s after %s: %s", got, f.After, f.Text, c.want, c.after, c.text)
			}
			if f.Advice == nil {
				t.Error("no advice")
			}
			// What a log says is told as it is, of whoever said it.
			panicked, worker := f.rule == "discovery", ""
			if f.Source == "w-0" && !panicked {
				worker = "w-0"
			}
			if f.Worker != worker || (len(f.Logged) > 0) != panicked {
				t.Errorf("told of worker %q, as logged: %+v", f.Worker, f.Logged)
			}
		})
	}
}

// The scheduler does not say whose taint it is that a pod does not tolerate.
func TestATaintThatTheRunToleratesIsOfAnotherNode(t *testing.T) {
	node := kube.Object{"spec": fields{"taints": []any{fields{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}}}}
	for name, c := range map[string]struct {
		tolerations []kube.Toleration
		want        bool
	}{
		"it tolerates nothing":      {nil, false},
		"it tolerates another":      {[]kube.Toleration{{Key: "other", Operator: "Exists"}}, false},
		"it tolerates another word": {[]kube.Toleration{{Key: "nvidia.com/gpu", Operator: "Equal", Value: "absent"}}, false},
		"it tolerates it":           {[]kube.Toleration{{Key: "nvidia.com/gpu", Operator: "Equal", Value: "present", Effect: "NoSchedule"}}, true},
	} {
		s := &Scene{Settings: &Settings{Tolerations: c.tolerations}, Node: node}
		if got := s.ofOthers("had untolerated taint(s)"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A container's last words are those of the one that ended, and who reads more of them is
// sent there.
func TestLastWordsAreOfTheContainerThatEnded(t *testing.T) {
	pod := func(status string) string {
		return `pods: [{` + workerPod + `, status: {containerStatuses: [{name: beside, ready: true, state: {running: {}}}, {name: main, ` + status + `}]}}]`
	}
	const both = `logs: {w-0/main: "is there\nnow", w-0/main/previous: "was there\nbefore", w-0/beside: other}`
	const crashed, killed = `restartCount: 2, state: {running: {}}, lastState: {terminated: {exitCode: 3}}`, `kubectl logs w-0 -n ns -c main`
	for name, c := range map[string]struct {
		scene, text, lines, command string
	}{
		"a crash, of the one before":      {`{` + pod(crashed) + `, ` + both + `}`, "container main ended 2 times, last with code 3: before", "was there|before", "`" + killed + " --previous`"},
		"a crash, of the one that is":     {`{` + pod(crashed) + `, logs: {w-0/main: now, w-0/beside: other}}`, "container main ended 2 times, last with code 3: now", "now", "`" + killed + " --previous`"},
		"a crash, and its log is gone":    {`{` + pod(crashed) + `}`, "container main ended 2 times, last with code 3", "", ""},
		"a crash, with a message":         {`{` + pod(`restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 3, message: no kernel}}`) + `, ` + both + `}`, "container main ended 2 times, last with code 3: no kernel", "was there|before", ""},
		"killed, and not started again":   {`{` + pod(`state: {terminated: {reason: OOMKilled}}`) + `, ` + both + `}`, "container main was killed for its memory, without a limit of its own", "is there|now", "`" + killed + "`"},
		"killed, and started again":       {`{` + pod(`state: {running: {}}, lastState: {terminated: {reason: OOMKilled}}`) + `, ` + both + `}`, "container main was killed for its memory, without a limit of its own", "was there|before", "`" + killed + " --previous`"},
		"a fetch, and a worker beside it": {`{populate: {metadata: {name: p}, status: {conditions: [{type: Failed, status: "True", reason: R, message: M}]}}, pods: [{metadata: {name: p-1, labels: {batch.kubernetes.io/job-name: aicr-model-cache-populate-1}}, status: {containerStatuses: [{name: c}]}}, {` + workerPod + `, status: {containerStatuses: [{name: main}]}}], logs: {p-1/c: "a\n401", w-0/main: other}}`, "401 (R: M)", "a|401", ""},
	} {
		found := sceneOf(t, c.scene).find()
		if len(found) != 1 || found[0].Text != c.text || strings.Join(found[0].Lines, "|") != c.lines || c.command != "" && !slices.Contains(found[0].Advice, c.command) {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

func TestWhatIsTooLongIsCutAtItsEnd(t *testing.T) {
	for text, want := range map[string]string{
		"as it is":         "as it is",
		"two\n  lines":     "two lines",
		"0123456789":       "0123456789",
		"0123456789abcdef": "012345678…",
		"ÄÖÜäöüßÄÖÜäöü":    "ÄÖÜäöüßÄÖ…",
		"one two three":    "one two…",
		"a threethree":     "a threeth…",
	} {
		if got := sentence(text, 10); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestACauseSettlesWhenItHasLastedWithoutABreak(t *testing.T) {
	l := causeLedger{}
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	slow := Cause{rule: "a", Source: "x", After: 10 * time.Second}
	if got := l.settled([]Cause{slow}, at(0)); got != nil {
		t.Fatal("at once")
	}
	if got := l.settled([]Cause{slow}, at(9)); got != nil {
		t.Fatal("too early")
	}
	if got := l.settled(nil, at(10)); got != nil {
		t.Fatal("of nothing")
	}
	if got := l.settled([]Cause{slow}, at(12)); got != nil {
		t.Fatal("it had passed meanwhile")
	}
	young, other := Cause{rule: "a", Source: "y", After: 10 * time.Second}, Cause{rule: "b", Source: "x", After: time.Hour}
	got := l.settled([]Cause{slow, young, other}, at(22))
	if len(got) != 2 || got[0].Source != "x" || got[1].Source != "y" {
		t.Fatalf("settled %+v: want those of rule a", got)
	}
	// What befell one before is neither what befalls it now, nor what befalls another.
	if got := l.settled([]Cause{young}, at(23)); got != nil {
		t.Fatalf("settled %+v: one of them is gone", got)
	}
	if got := l.settled([]Cause{{rule: "c", Source: "y", After: 10 * time.Second}}, at(33)); got != nil {
		t.Fatalf("settled %+v: it is another cause", got)
	}
}

// The image of this program is in no registry until somebody pushes it, and the Secret that
// it is pulled with is in a namespace that a run may have made.
func TestWhoCannotPullTheLoadIsToldWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		part, container string
		image, space    bool
	}{
		"the load":    {PartLoad, LoadContainer, true, true},
		"its trial":   {PartTrial, LoadContainer, true, true},
		"AIPerf":      {PartLoad, AIPerfContainer, false, true},
		"what serves": {PartGraph, "main", false, false},
	} {
		pod := kube.Object{"metadata": fields{"name": "x", "namespace": "n", "labels": words(Labels(memoryRun, c.part))},
			"spec":   fields{"imagePullSecrets": []any{fields{"name": "mirror"}}},
			"status": fields{"containerStatuses": []any{fields{"name": c.container, "state": fields{"waiting": fields{"reason": "ErrImagePull", "message": "not found"}}}}}}
		all := imageNotPulled(&Scene{Pods: []kube.Object{pod}})
		if len(all) != 1 {
			t.Fatal(name, all)
		}
		advice := strings.Join(all[0].Advice, "\n")
		if strings.Contains(advice, "`make image` builds it; push it where the nodes can pull it, and name it with --image") != c.image ||
			strings.Contains(advice, "make the namespace yourself before that, so that no run deletes it") != c.space {
			t.Errorf("%s: %s", name, advice)
		}
	}
}

// A node that does not find the Secret pulls without it, and the error is the registry's.
func TestAPodThatNamesAPullSecretIsToldWhereThatHasToBe(t *testing.T) {
	for names, want := range map[bool]int{true: 2, false: 1} {
		pod := kube.Object{"metadata": fields{"name": "w-0", "namespace": "n"}, "spec": fields{},
			"status": fields{"containerStatuses": []any{fields{"name": "main", "state": fields{"waiting": fields{"reason": "ErrImagePull", "message": "unauthorized"}}}}}}
		if names {
			pod["spec"] = fields{"imagePullSecrets": []any{fields{"name": "mirror"}}}
		}
		all := imageNotPulled(&Scene{Pods: []kube.Object{pod}})
		if len(all) != 1 || len(all[0].Advice) != want || names && !strings.Contains(all[0].Advice[1], "Secret mirror has to be in namespace n") {
			t.Errorf("%v: %+v", names, all)
		}
	}
}

// Where a policy or a quota wants a container to say what it takes, that can be set.
func TestARefusalThatWantsResourcesNamesTheSettings(t *testing.T) {
	for text, want := range map[string]bool{
		`pods "x" is forbidden: failed quota: q: must specify limits.cpu`:                                                                  true,
		`pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: every container needs limits`:               true,
		`admission webhook "kyverno" denied the request: CPU and memory requests are required`:                                             true,
		`pods "x" is forbidden: minimum memory usage per Container is 1Gi, but request is 512Mi`:                                           true,
		`pods "x" is forbidden: exceeded quota: q, requested: limits.cpu=8, used: limits.cpu=0, limited: limits.cpu=4`:                     false,
		`pods "x" is forbidden: violates PodSecurity "restricted:latest": unrestricted capabilities`:                                       false,
		`pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: images come from the registry of the house`: false,
		`no policy, and limits`: false,
	} {
		if got := strings.Contains(strings.Join(refusalAdvice(text, "ns"), "\n"), spec.KnobWorkerResources); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
