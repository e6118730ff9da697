package graph

import "aicr/internal/kube"

// queueManifest is a queue of KAI for this run alone: it guarantees nothing and limits
// nothing, so that what others share is not changed by it. KAI takes a resource without
// limits for one of which there is none.
func queueManifest(s *Settings) kube.Object {
	unlimited := func() fields { return fields{"quota": int64(0), "limit": int64(-1), "overQuotaWeight": int64(1)} }
	return manifest("scheduling.run.ai/v2", "Queue", "", s.Names().Queue, s, PartGraph, fields{"spec": fields{
		"parentQueue": s.Parent,
		"resources":   fields{"gpu": unlimited(), "cpu": unlimited(), "memory": unlimited()},
	}})
}
