package spec

// Thresholds is everything that the judge holds a figure against, in one place.
// A recipe overrides any of them by its name. Each says what it rests on;
// "published" are the 48 runs of NVIDIA's report of 2026-06-04 and its pull
// requests, "model" is the reference model that was calibrated with them.
type Thresholds struct {
	// Episodes.
	MinEpisodes  int     `json:"minEpisodes"`  // one lucky or unlucky episode decides nothing about capability
	MaxEpisodes  int     `json:"maxEpisodes"`  // of EpisodeS each; the budget that ends in INCONCLUSIVE
	EpisodeS     float64 `json:"episodeS"`     // ten batches of 5 s; a published run was 18 s, 5 % of what was paid for
	MaxRetries   int     `json:"maxRetries"`   // of episodes in which the client failed its audit
	MinSteadyS   float64 `json:"minSteadyS"`   // less clean time in an episode says nothing about capability
	BatchS       float64 `json:"batchS"`       // at least two lifetimes of a request at the default point
	Lag1         float64 `json:"lag1"`         // correlation of neighbouring batches above which they are doubled
	WarmupCut    float64 `json:"warmupCut"`    // share of an episode in which MSER-5 may cut
	CleanShare   float64 `json:"cleanShare"`   // of the batches; with fewer capability is not judged
	BeforeStallS float64 `json:"beforeStallS"` // what is cut off around a stall
	AfterStallS  float64 `json:"afterStallS"`

	// Capability: a sequential test of the mean of ln(throughput/reference).
	RatioGood float64 `json:"ratioGood"` // a ratio that should pass
	RatioBad  float64 `json:"ratioBad"`  // a ratio that should fail
	Sigma     float64 `json:"sigma"`     // ln-sd of an episode; published: 0.05 over 13 runs
	AlphaCap  float64 `json:"alphaCapability"`
	BetaCap   float64 `json:"betaCapability"`

	// TTFT guardrail: no gate of capacity, only a bound of what is bearable.
	TTFTGuardrailMS float64 `json:"ttftGuardrailMs"`
	TTFTBadShare    float64 `json:"ttftBadShare"`  // of the episodes, that fail it
	TTFTPassShare   float64 `json:"ttftPassShare"` // of the episodes, with which it still passes
	BootstrapDraws  int     `json:"bootstrapDraws"`
	BootstrapBlockS float64 `json:"bootstrapBlockS"`

	// Goodput: what a user calls served.
	GoodTTFTMS float64 `json:"goodTtftMs"`
	GoodGapMS  float64 `json:"goodGapMs"`

	// Peers: model: a healthy share is 0.98 to 1.00, that of a GPU 1.3 times slow 0.80.
	PeerShare      float64 `json:"peerShare"`      // of a fair share of the tokens; below it is slow
	PeerEpisodes   float64 `json:"peerEpisodes"`   // share of the episodes in which it is
	PeerPerRequest float64 `json:"peerPerRequest"` // of the peers' tokens for each request; a router that counts requests hides a slow worker from its share
	StarvedShare   float64 `json:"starvedShare"`   // of fair; with PrefixHit: the router, not the worker
	PrefixHit      float64 `json:"prefixHit"`      // published: 0.94 in the kv runs

	// Stalls: sequential tests of their rate in a loaded minute.
	RateOK        float64 `json:"rateOk"`
	RateBad       float64 `json:"rateBad"`               // published: 0.96, pooled over the EKS runs
	RateWorkers   int     `json:"rateWorkers,omitempty"` // of a fleet of so many; a larger one may have as many for each worker; 0: of any fleet
	AlphaRate     float64 `json:"alphaStability"`
	BetaRate      float64 `json:"betaStability"`
	MinStalls     int     `json:"minStalls"`
	SameWorker    int     `json:"sameWorker"`    // stalls all on one worker of eight: 1 in 64 by chance
	StallShare    float64 `json:"stallShare"`    // of the peers' tokens; below it a worker stands still
	FreezeShare   float64 `json:"freezeShare"`   // of the upper quartile second; below it the fleet stands still
	StallS        float64 `json:"stallS"`        // for so long
	RecoveredRate float64 `json:"recoveredRate"` // of what is usual, for RecoveredS: it is over
	RecoveredS    float64 `json:"recoveredS"`
	GapFactor     float64 `json:"gapFactor"` // times the usual gap between tokens
	GapStreams    float64 `json:"gapStreams"`
	WedgedS       float64 `json:"wedgedS"` // a stall that is open at the end for so long is no stall that passes

	// The instrument.
	HeldLow       float64 `json:"heldLow"` // of what was to be in flight; published: 0.22 in the run with the starved client
	HeldHigh      float64 `json:"heldHigh"`
	ClientLagMS   float64 `json:"clientLagMs"`
	Elasticity    float64 `json:"elasticity"`    // model: 0.70 below the knee, 0.54 at the published point
	LengthOff     float64 `json:"lengthOff"`     // of the declared output length
	PromptOff     float64 `json:"promptOff"`     // of the declared prompt length; a chat template adds to it
	CachedOff     float64 `json:"cachedOff"`     // more of the prompt tokens than declared were cached
	TelemetryLost float64 `json:"telemetryLost"` // share of the worker-seconds without a sample
	WitnessesOff  float64 `json:"witnessesOff"`  // of a fair share, by which client and telemetry may differ

	// Errors and hardware.
	ErrorShare    float64 `json:"errorShare"`    // of the requests; a hundredth is what a service level usually allows
	NoTokens      float64 `json:"noTokens"`      // of the expected output tokens, that must have come
	ThrottleShare float64 `json:"throttleShare"` // of a GPU's samples with a bit that harms
	HostRatio     float64 `json:"hostRatio"`     // below it, with even workers that wait, the host is slow

	// Start.
	AnswerWithinS float64 `json:"answerWithinS"` // published: a first answer took 42 s
	ColdS         float64 `json:"coldS"`         // a first answer that is worth a note
	NoServeS      float64 `json:"noServeS"`      // discovery panics and no completion for so long
}

// The profiles of judgement.
const (
	ProfileSmoke    = "smoke"
	ProfileQuick    = "quick"
	ProfileStandard = "standard"
	ProfileCertify  = "certify"
	ProfileClassic  = "classic"
)

// Profiles lists them, from the shortest to the longest, and the published gate.
func Profiles() []string {
	return []string{ProfileSmoke, ProfileQuick, ProfileStandard, ProfileCertify, ProfileClassic}
}

// DefaultThresholds are those of a profile, and whether there is such a profile.
func DefaultThresholds(profile string) (Thresholds, bool) {
	t := Thresholds{
		MinEpisodes: 2, MaxEpisodes: 11, EpisodeS: 50, MaxRetries: 2, MinSteadyS: 5, BatchS: 5, Lag1: 0.3,
		WarmupCut: 0.2, CleanShare: 0.5, BeforeStallS: 1, AfterStallS: 3,
		RatioGood: 0.92, RatioBad: 0.80, Sigma: 0.05, AlphaCap: 0.01, BetaCap: 0.01,
		TTFTGuardrailMS: 2000, TTFTBadShare: 0.5, TTFTPassShare: 0.2, BootstrapDraws: 1000, BootstrapBlockS: 5,
		GoodTTFTMS: 2000, GoodGapMS: 1000,
		PeerShare: 0.90, PeerEpisodes: 0.8, PeerPerRequest: 0.85, StarvedShare: 0.5, PrefixHit: 0.8,
		RateOK: 1.0 / 30, RateBad: 0.75, RateWorkers: 8, AlphaRate: 0.05, BetaRate: 0.05, MinStalls: 2, SameWorker: 3,
		StallShare: 0.15, FreezeShare: 0.25, StallS: 2, RecoveredRate: 0.8, RecoveredS: 2, GapFactor: 20, GapStreams: 0.01, WedgedS: 10,
		HeldLow: 0.95, HeldHigh: 1.05, ClientLagMS: 50, Elasticity: 0.55, LengthOff: 0.02, PromptOff: 0.25, CachedOff: 0.25,
		TelemetryLost: 0.05, WitnessesOff: 0.15,
		ErrorShare: 0.01, NoTokens: 0.98, ThrottleShare: 0.05, HostRatio: 0.8,
		AnswerWithinS: 300, ColdS: 5, NoServeS: 120,
	}
	switch profile {
	case ProfileSmoke:
		t.MaxEpisodes, t.EpisodeS = 2, 15
	case ProfileQuick:
		t.MaxEpisodes, t.RateBad = 6, 1.35
	case ProfileStandard:
	case ProfileCertify:
		t.MaxEpisodes, t.RateBad = 24, 0.30
	case ProfileClassic:
		t.MinEpisodes, t.MaxEpisodes = 1, 1
	default:
		return Thresholds{}, false
	}
	return t, true
}
