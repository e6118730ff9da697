package spec

import "time"

// Profile is a named set of a fleet's numbers. Those that a Scenario cannot
// override are here alone.
type Profile struct {
	Timing           Timing
	Frontend         FrontendCost
	MaxSequences     int
	MaxBatchedTokens int
	KVBlocks         int

	Network Duration // from the frontend to the client, on top of all
	// Hiccups are pauses of a worker's host thread: so many per second of work,
	// each of that median and ln-sd.
	HiccupsPerSecond float64
	Hiccup           Duration
	HiccupSpread     float64
}

// profiles are the published fleets as the reference model calibrated them (one
// H100 a worker, Qwen3-8B in BF16, vLLM's defaults), and one that a laptop can
// serve in real time.
func profiles() map[string]Profile {
	eks := Profile{
		Timing: Timing{Base: us(5600), PerSequence: us(33), PerPromptToken: us(20), PerAdmission: us(100),
			Host: us(1800), HostJitter: 0.25, StepJitter: 0.045},
		Frontend:     FrontendCost{PerRequest: us(350), PerToken: Duration(3200)},
		MaxSequences: 1024, MaxBatchedTokens: 8192, KVBlocks: 21900,
		Network:          us(4000),
		HiccupsPerSecond: 0.03, Hiccup: us(120_000), HiccupSpread: 0.9,
	}
	gke := eks
	gke.Timing.Host, gke.Timing.StepJitter = 0, 0.012
	gke.Frontend = FrontendCost{PerRequest: us(150), PerToken: Duration(2400)}
	gke.HiccupsPerSecond, gke.Hiccup, gke.HiccupSpread = 0.01, us(100_000), 0.6
	small := Profile{
		Timing: Timing{Base: us(18_000), PerSequence: us(250), PerPromptToken: us(40), PerAdmission: us(500),
			Host: us(2000), HostJitter: 0.05, StepJitter: 0.01},
		Frontend:     FrontendCost{PerRequest: us(400), PerToken: us(10)},
		MaxSequences: 64, MaxBatchedTokens: 2048, KVBlocks: 2048,
		Network: us(500),
	}
	return map[string]Profile{"h100-eks": eks, "h100-gke": gke, "small": small}
}

func us(n int64) Duration { return Duration(n * int64(time.Microsecond)) }

// ProfileNamed finds a profile.
func ProfileNamed(name string) (Profile, bool) {
	p, ok := profiles()[name]
	return p, ok
}

// ProfileNames lists the profiles.
func ProfileNames() []string { return []string{"h100-eks", "h100-gke", "small"} }

// Routers lists the policies by which a frontend chooses a worker.
func Routers() []string {
	return []string{"round-robin", "random", "power-of-two", "least-loaded", "kv"}
}

// NewScenario is a healthy fleet of a profile at the default operating point;
// ok is false when there is no such profile.
func NewScenario(name, profile string) (s *Scenario, ok bool) {
	p, ok := ProfileNamed(profile)
	if !ok {
		return nil, false
	}
	return &Scenario{
		APIVersion: APIVersion, Kind: ScenarioKind, Metadata: Metadata{Name: name},
		Fleet: Fleet{Workers: 8, GPUsPerWorker: 1, Profile: profile, Timing: p.Timing, Frontend: p.Frontend,
			MaxSequences: p.MaxSequences, MaxBatchedTokens: p.MaxBatchedTokens, KVBlocks: p.KVBlocks,
			Router: "least-loaded", KVCredit: 302},
		Load: Load{ConcurrencyPerGPU: 128, Ramp: Duration(2 * time.Second), Episode: Duration(50 * time.Second),
			InputTokens: 128, OutputTokens: 128},
	}, true
}
