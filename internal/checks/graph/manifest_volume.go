package graph

import "aicr/internal/kube"

// volumeManifest is the claim of the volume that the model is kept in. One node has all
// pods, so that it is written by one and read by many all the same.
func volumeManifest(s *Settings) kube.Object {
	n := s.Names()
	claim := fields{"accessModes": row("ReadWriteOnce"), "resources": fields{"requests": fields{"storage": s.Cache.Size}}}
	if s.Cache.Class != "" {
		claim["storageClassName"] = s.Cache.Class
	}
	return manifest("v1", "PersistentVolumeClaim", n.Namespace, n.Volume, s, PartModel, fields{"spec": claim})
}
