package graph

import (
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// runtimeUser is the user of Dynamo's runtime image. What is written into the cache is
// readable by it.
const runtimeUser = 1000

// fetchModel is all that the populate Job does. The model is a variable and no part of
// the program, so that no name can become one.
const fetchModel = `import os
from huggingface_hub import snapshot_download

print(snapshot_download(os.environ["AICR_MODEL"]), flush=True)
`

// populateManifest is the Job that fetches the model into the cache, before anything
// holds a GPU. It does not try again: a second download in the same time would not end
// in time either, and what went wrong is told at once. Its last words stay in its log: it
// has the token, and what it prints must not come into the pod's status, where more people
// may look.
func populateManifest(s *Settings) kube.Object {
	n := s.Names()
	pod := pinned(s, fields{
		"restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false,
		"securityContext": restrictedPod(runtimeUser),
		"containers": []any{fields{
			"name": populateContainer, "image": s.Images.Runtime, "command": row("python3", "-c", fetchModel),
			"env":             joined([]any{env("AICR_MODEL", s.Model), env("HF_HOME", cacheMount), env("HOME", "/tmp")}, tokenEnv(s)),
			"resources":       asked(spec.Resources{Requests: map[string]string{"cpu": "100m", "memory": "512Mi"}}, s.Resources.Jobs).fields(),
			"securityContext": restrictedContainer(),
			"volumeMounts":    []any{fields{"name": "model-cache", "mountPath": cacheMount}},
		}},
		"volumes": []any{fields{"name": "model-cache", "persistentVolumeClaim": fields{"claimName": n.Volume}}},
	})
	return manifest("batch/v1", "Job", n.Namespace, n.Populate, s, PartModel, fields{"spec": fields{
		"backoffLimit": int64(0), "activeDeadlineSeconds": seconds(s.Cache.Populate),
		"template": jobTemplate(s, PartModel, pod),
	}})
}
