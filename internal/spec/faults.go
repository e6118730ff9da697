package spec

import "slices"

// FaultDescription is what a kind of fault does, and what it has to be told.
type FaultDescription struct {
	Kind     FaultKind
	Effect   string
	Takes    []string // its fields, beside kind and those of a window
	Requires []string // of those that it takes
	// NeedsWindow is set where the fault makes no sense all the time. Every kind
	// may have a window.
	NeedsWindow bool
	// AnyWorker is set where workers may be "any".
	AnyWorker bool
}

// FaultKinds describes every kind of fault.
func FaultKinds() []FaultDescription {
	list := func(names ...string) []string { return names }
	return []FaultDescription{
		{Kind: WorkerSlow, Effect: "steps take factor times as long",
			Takes: list("workers", "factor", "gpu"), Requires: list("workers", "factor"), AnyWorker: true},
		{Kind: WorkerStall, Effect: "steps take factor times as long (40) for a while",
			Takes: list("workers", "factor"), Requires: list("workers"), NeedsWindow: true, AnyWorker: true},
		{Kind: WorkerWedge, Effect: "no step at all, while health stays 200",
			Takes: list("workers", "running"), Requires: list("workers"), AnyWorker: true},
		{Kind: FrontendFreeze, Effect: "the frontend moves no request and no token"},
		{Kind: HostSlow, Effect: "the frontend's work takes factor times as long",
			Takes: list("factor"), Requires: list("factor")},
		{Kind: WorkerMissing, Effect: "workers that are not there",
			Takes: list("workers"), Requires: list("workers")},
		{Kind: ColdStart, Effect: "the first answer of each worker comes after this long",
			Takes: list("takes"), Requires: list("takes")},
		{Kind: WorkerDead, Effect: "every request is answered with a fast 500, and the router keeps sending",
			Takes: list("workers"), Requires: list("workers"), AnyWorker: true},
		{Kind: HTTPError, Effect: "a share of the requests is answered with an error status",
			Takes: list("status", "share"), Requires: list("status", "share")},
		{Kind: StreamBreak, Effect: "a share of the answers breaks off in mid-stream",
			Takes: list("how", "share"), Requires: list("how", "share")},
		{Kind: ZeroTokens, Effect: "a share of the answers (all) is a 200 with a finish reason and no content",
			Takes: list("share")},
		{Kind: GPUError, Effect: "telemetry tells of a hardware error",
			Takes: list("workers", "gpu", "xid", "doubleBit", "remapFailure"), Requires: list("workers")},
		{Kind: GPUThrottle, Effect: "telemetry tells of throttling in a share of the samples",
			Takes: list("workers", "gpu", "reason", "share"), Requires: list("workers", "reason", "share")},
		{Kind: TelemetryGap, Effect: "a share of a source's samples is not delivered",
			Takes: list("source", "share"), Requires: list("source", "share")},
		{Kind: DiscoveryPanic, Effect: "the frontend is up and never serves; its log tells of panics",
			Takes: list("panics", "bucketMissing", "runtime", "chart")},
		{Kind: DRAStale, Effect: "pods stay in ContainerCreating: the DRA plugin is stale"},
		{Kind: GPUsClaimed, Effect: "no GPU is free before the run"},
	}
}

// FaultKindNamed finds the description of a kind.
func FaultKindNamed(kind FaultKind) (FaultDescription, bool) {
	all := FaultKinds()
	i := slices.IndexFunc(all, func(k FaultDescription) bool { return k.Kind == kind })
	if i < 0 {
		return FaultDescription{}, false
	}
	return all[i], true
}

// What a fault's words can be.
func runningWords() []string { return []string{"real", "zero"} }
func howWords() []string     { return []string{"reset", "truncated", "error-event"} }
func sourceWords() []string  { return []string{"workers", "gpus", "node"} }
func reasonWords() []string {
	return []string{"hw_thermal", "hw_slowdown", "hw_power_brake", "sw_thermal", "power_cap"}
}

// windowFields are the fields that every kind takes.
func windowFields() []string { return []string{"at", "lasts", "perMinute", "spread", "episodes"} }

// fieldNames are the fields that a fault of this kind takes.
func (f *Fault) fieldNames() []string {
	names := []string{"kind"}
	if known, ok := FaultKindNamed(f.Kind); ok {
		names = append(names, known.Takes...)
	} else {
		for _, k := range FaultKinds() {
			for _, name := range k.Takes {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return append(names, windowFields()...)
}

// complete gives a fault the values that it did not say.
func (f *Fault) complete() {
	if f.Kind == WorkerStall && f.Factor == nil {
		f.Factor = new(DefaultStallFactor)
	}
	if f.Kind == ZeroTokens && f.Share == nil {
		f.Share = new(1.0)
	}
	if f.Kind == WorkerWedge && f.Running == "" {
		f.Running = "real"
	}
	if f.PerMinute != nil && f.Spread == nil {
		f.Spread = new(DefaultSpread)
	}
}
