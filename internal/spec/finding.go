package spec

// FindingIDs lists what a verdict can have found.
func FindingIDs() []string {
	return []string{
		"start/cold", "start/timeout",
		"config/version-skew", "config/discovery-panic",
		"cluster/dra-stale", "cluster/no-free-gpus", "cluster/pods-failed", "cluster/node-changed", "cluster/removed",
		"worker/stall", "worker/slow", "worker/absent", "worker/black-hole",
		"fleet/stall", "fleet/slow-host", "fleet/slow",
		"gpu/error", "gpu/throttle",
		"client/under-driven", "client/late",
		"load/past-knee", "load/prefix-affinity", "load/wrong-length", "load/kv-full",
		"serving/no-tokens", "serving/errors", "serving/restarted",
		"server/tokens-implausible", "server/unsolicited",
		"telemetry/gap",
	}
}
