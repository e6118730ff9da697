package graph

import (
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// trialWithin is how long a trial may take; what is not known by then is found when the
// load starts.
const trialWithin = Duration(15 * time.Minute)

// findAIPerf ends well where AIPerf is. To load all of it would take as long as a load's
// start.
const findAIPerf = `import importlib.util, sys

sys.exit(importlib.util.find_spec("aiperf") is None)
`

// trialResources are those of the trial's container: next to nothing, unless it is told
// otherwise.
func trialResources(s *Settings) amounts {
	return asked(spec.Resources{Requests: map[string]string{"cpu": "10m", "memory": "64Mi"}, Limits: map[string]string{"memory": "512Mi"}}, s.Resources.Jobs)
}

// trialManifest is the Job that runs the load's image once, while what serves starts: that
// the image cannot be had, or is another program's, is then known before any model is in
// any GPU's memory, and the node has pulled it. Its pod goes where the load's would, and
// asks for next to nothing, so that it takes nobody's place.
func trialManifest(s *Settings) kube.Object {
	name, image, command := LoadContainer, s.Images.Load, row("aicr", "version")
	if s.Engine == EngineAIPerf {
		name, image, command = AIPerfContainer, s.Images.AIPerf, row("python3", "-c", findAIPerf)
	}
	pod := offBusy(s, fields{
		"automountServiceAccountToken": false,
		"containers": []any{fields{
			"name": name, "image": image, "command": command,
			"resources":                trialResources(s).fields(),
			"securityContext":          readOnlyContainer(),
			"terminationMessagePolicy": "FallbackToLogsOnError",
		}},
	})
	return manifest("batch/v1", "Job", LoadNamespace(s), s.Names().Trial, s, PartTrial, fields{"spec": fields{
		"backoffLimit": int64(0), "activeDeadlineSeconds": seconds(trialWithin),
		"template": jobTemplate(s, PartTrial, pod),
	}})
}
