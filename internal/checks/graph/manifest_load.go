package graph

import (
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// Where the load's pod has things.
const (
	LoadContainer = "validator" // as published
	LoadGiven     = "/data/run" // the run as it is kept
	LoadResults   = "/results"  // its record

	loadUser = 65532
)

// What the load asks for, unless it is told otherwise. Two cores are what its own audit was
// proven with; it has no limit of them, since a throttled client measures itself.
const (
	LoadCPU       = "2"
	LoadMemory    = "2Gi"
	loadMemoryMax = "4Gi"
)

// loadManifest is the Job that loads: this program, in the image of the run.
func loadManifest(s *Settings) kube.Object {
	n := s.Names()
	pod := offBusy(s, fields{
		"serviceAccountName": loadAccount(s),
		"containers": []any{fields{
			"name": LoadContainer, "image": s.Images.Load,
			"command": row("aicr", "run", spec.InferencePerf, "--given", LoadGiven, "--results", LoadResults),
			"env": []any{
				env("AICR_RUN_ID", s.Run), env("AICR_NAMESPACE", s.Namespace),
				env("AICR_VALIDATOR_NAME", spec.InferencePerf), env("AICR_VALIDATOR_PHASE", spec.PhasePerformance),
				env("AICR_CHECK_TIMEOUT", time.Duration(s.LoadWithin).String()), env("AICR_CLI_VERSION", s.Version),
			},
			"resources":       loadResources(s).fields(),
			"securityContext": readOnlyContainer(),
			"volumeMounts": []any{
				fields{"name": "run", "mountPath": LoadGiven, "readOnly": true},
				fields{"name": "results", "mountPath": LoadResults},
				fields{"name": "tmp", "mountPath": "/tmp"},
			},
		}},
		"volumes": []any{
			fields{"name": "run", "configMap": fields{"name": n.Kept}},
			fields{"name": "results", "emptyDir": fields{}},
			fields{"name": "tmp", "emptyDir": fields{}},
		},
	})
	return manifest("batch/v1", "Job", s.Namespace, n.Load, s, PartLoad, loadJob(s, pod))
}

// loadAccount is who the load is.
func loadAccount(s *Settings) string {
	if s.Prepared {
		return LoadAccount
	}
	return s.Names().Load
}

// loadResources are those of the load's container.
func loadResources(s *Settings) amounts {
	return asked(spec.Resources{Requests: map[string]string{"cpu": LoadCPU, "memory": LoadMemory}, Limits: map[string]string{"memory": loadMemoryMax}}, s.Resources.Load)
}

// loadJob is a Job that runs once. Its deadline is the last resort: it counts from the
// Job's start, with the pull of the image in it, and is later than everything that ends
// the load in good order. It does not go away by itself: what its pod has last said is
// wanted when somebody attaches tomorrow, and 'aicr clean' removes it.
func loadJob(s *Settings, pod fields) fields {
	return fields{"spec": fields{
		"backoffLimit": int64(0), "activeDeadlineSeconds": int64(loadDeadline(s) / time.Second),
		"template": jobTemplate(s, PartLoad, pod),
	}}
}

func loadDeadline(s *Settings) time.Duration {
	return time.Duration(seconds(s.PodWithin, s.LoadWithin, s.KeepFor, Duration(time.Minute))) * time.Second
}

// offBusy is a pod of the load where it can be trusted to keep up: never on a node that
// is too small or too busy, off the nodes with GPUs where there are others, and off the one
// that is measured where that is not known of any. Upstream's
// tolerates every taint; then it also lands on nodes that are kept for somebody else, or
// are being drained. This one tolerates what the graph does and no more, so that the
// graph's own node is left to it where there is no other.
func offBusy(s *Settings, pod fields) fields {
	near := fields{"preferredDuringSchedulingIgnoredDuringExecution": []any{
		fields{"weight": int64(100), "preference": fields{"matchExpressions": []any{fields{"key": "nvidia.com/gpu.present", "operator": "DoesNotExist"}}}},
		fields{"weight": int64(100), "preference": fields{"matchFields": []any{fields{"key": "metadata.name", "operator": "NotIn", "values": row(s.Node)}}}},
	}}
	var off []any
	for _, node := range s.LoadOff {
		off = append(off, fields{"key": "metadata.name", "operator": "NotIn", "values": row(node)}) // a field takes one value
	}
	if len(off) > 0 {
		near["requiredDuringSchedulingIgnoredDuringExecution"] = fields{"nodeSelectorTerms": []any{fields{"matchFields": off}}}
	}
	pod["affinity"] = fields{"nodeAffinity": near}
	pod["restartPolicy"] = "Never"
	pod["enableServiceLinks"] = false
	pod["securityContext"] = restrictedPod(loadUser)
	return pulled(s, tolerant(s, pod))
}
