package judge

import "aicr/internal/spec"

// clientLate finds that the client's own stamps cannot be believed.
func clientLate(ev *Evidence) []spec.Finding {
	return audited(ev, "client/late", "the client's own stamps were late",
		"give the client more CPU: nothing else may run beside it", "look for CPU limits of the client's container: throttling counts as lateness")
}
