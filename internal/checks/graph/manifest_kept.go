package graph

import "aicr/internal/kube"

// keptManifest is the ConfigMap that a run is kept in, without its data.
func keptManifest(s *Settings) kube.Object {
	return manifest("v1", "ConfigMap", s.Namespace, s.Names().Kept, s, PartKept, nil)
}
