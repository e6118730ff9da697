package spec

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// The head of a Scenario document.
const (
	APIVersion   = "aicr.run/v1alpha1"
	ScenarioKind = "Scenario"
)

// Scenario is a simulated fleet, the load on it, and what goes wrong with it.
//
// A Scenario that DecodeScenario gave is whole: what the document left out has
// the value of its profile or of the default operating point, and what it says
// has been checked. One that is made in code starts from NewScenario.
type Scenario struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   Metadata     `json:"metadata"`
	Fleet      Fleet        `json:"fleet"`
	Load       Load         `json:"load"`
	Reference  Reference    `json:"reference"`
	Faults     []Fault      `json:"faults"`
	Expect     *Expectation `json:"expect,omitempty"`
}

// Metadata names a document.
type Metadata struct {
	Name string `json:"name"`
}

// Fleet is one frontend, its router, and workers.
type Fleet struct {
	Workers          int          `json:"workers"`
	GPUsPerWorker    int          `json:"gpusPerWorker"`  // that step together, as one
	PrefillWorkers   int          `json:"prefillWorkers"` // the first so many read prompts for the others; 0: each does both
	Profile          string       `json:"profile"`        // a named set of the numbers below
	Timing           Timing       `json:"timing"`
	Frontend         FrontendCost `json:"frontend"`
	MaxSequences     int          `json:"maxSequences"`     // that a worker runs at once
	MaxBatchedTokens int          `json:"maxBatchedTokens"` // of a step
	KVBlocks         int          `json:"kvBlocks"`         // of KVBlockTokens tokens
	Router           string       `json:"router"`           // how the frontend chooses a worker
	KVCredit         float64      `json:"kvCredit"`         // requests of load that a full prefix hit outweighs
}

// GPUs is how many there are in all.
func (f *Fleet) GPUs() int { return f.Workers * f.GPUsPerWorker }

// KVBlockTokens is how many tokens a KV block holds.
const KVBlockTokens = 16

// Timing is what a worker's step takes.
type Timing struct {
	Base           Duration `json:"base"`
	PerSequence    Duration `json:"perSequence"`
	PerPromptToken Duration `json:"perPromptToken"` // of uncached prompt tokens
	PerAdmission   Duration `json:"perAdmission"`
	Host           Duration `json:"host"`
	HostJitter     float64  `json:"hostJitter"` // ln-sd of the frontend's speed, drawn once an episode; 0 has no hiccups either
	StepJitter     float64  `json:"stepJitter"` // ln-sd of the workers' speed, drawn once an episode
}

// FrontendCost is what the frontend's one thread spends.
type FrontendCost struct {
	PerRequest Duration `json:"perRequest"`
	PerToken   Duration `json:"perToken"`
}

// Load is the operating point.
type Load struct {
	ConcurrencyPerGPU int      `json:"concurrencyPerGPU"` // requests in flight for each GPU
	Ramp              Duration `json:"ramp"`              // in which they start
	Episode           Duration `json:"episode"`           // how long it lasts
	InputTokens       int      `json:"inputTokens"`       // of a prompt
	OutputTokens      int      `json:"outputTokens"`      // of an answer
	Prompts           Prompts  `json:"prompts"`           // unique, or how many distinct ones are recycled
	SendsPerSecond    float64  `json:"sendsPerSecond"`    // 0: no limit
	ClientLag         Duration `json:"clientLag"`         // p99 lateness of the client's own stamps
}

// Prompts is how many distinct prompts are recycled; 0 is "unique": none is
// ever sent twice.
type Prompts int

func (p Prompts) String() string {
	if p == 0 {
		return "unique"
	}
	return strconv.Itoa(int(p))
}

// MarshalJSON writes what a document would say.
func (p Prompts) MarshalJSON() ([]byte, error) {
	if p == 0 {
		return []byte(`"unique"`), nil
	}
	return json.Marshal(int(p))
}

// Reference is what capability is held against.
type Reference struct {
	Throughput float64 `json:"throughput"` // tokens/s; 0: that of the same fleet without faults
}

// Expectation is what a judge must say of the scenario.
type Expectation struct {
	Verdict []State `json:"verdict"` // any of these
	Ledger  string  `json:"ledger,omitempty"`
	Finding string  `json:"finding,omitempty"`
	Workers []int   `json:"workers,omitempty"` // exactly those that the finding names
}

// Fault is one thing that goes wrong. Which fields a kind takes is told by
// FaultKinds; a field that was not said is nil, or has its default where it has
// one.
type Fault struct {
	Kind FaultKind `json:"kind"`

	// The window: At and Lasts, or PerMinute and Lasts; none of them is always.
	At        *Duration `json:"at,omitempty"` // since the episode's start
	Lasts     *Duration `json:"lasts,omitempty"`
	PerMinute *float64  `json:"perMinute,omitempty"` // Poisson arrivals; Lasts is the median then
	Spread    *float64  `json:"spread,omitempty"`    // ln-sd of Lasts, 0.5 when not said
	Episodes  []int     `json:"episodes,omitempty"`  // counted from 1; none: all

	Workers *Workers  `json:"workers,omitempty"`
	Factor  *float64  `json:"factor,omitempty"`
	Running string    `json:"running,omitempty"` // what a wedged worker's gauge says: real, zero
	Takes   *Duration `json:"takes,omitempty"`
	Status  *int      `json:"status,omitempty"`
	Share   *float64  `json:"share,omitempty"`
	How     string    `json:"how,omitempty"` // reset, truncated, error-event

	GPU          *int   `json:"gpu,omitempty"` // of the worker's, counted from 0; not said: the first, or none in particular
	XID          *int   `json:"xid,omitempty"`
	DoubleBit    *int   `json:"doubleBit,omitempty"`
	RemapFailure *bool  `json:"remapFailure,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Source       string `json:"source,omitempty"` // workers, gpus, node

	Panics        *int   `json:"panics,omitempty"`
	BucketMissing *int   `json:"bucketMissing,omitempty"`
	Runtime       string `json:"runtime,omitempty"`
	Chart         string `json:"chart,omitempty"`
}

// Workers says on which workers a fault falls.
type Workers struct {
	Any  bool  // one at random, drawn anew for each window
	All  bool  // every worker
	List []int // otherwise these, counted from 0
}

// MarshalJSON writes what a document would say.
func (w Workers) MarshalJSON() ([]byte, error) {
	switch {
	case w.Any:
		return []byte(`"any"`), nil
	case w.All:
		return []byte(`"all"`), nil
	default:
		return json.Marshal(w.List)
	}
}

// FaultKind is a kind of fault.
type FaultKind string

// The kinds of fault.
const (
	WorkerSlow     FaultKind = "worker-slow"
	WorkerStall    FaultKind = "worker-stall"
	WorkerWedge    FaultKind = "worker-wedge"
	FrontendFreeze FaultKind = "frontend-freeze"
	HostSlow       FaultKind = "host-slow"
	WorkerMissing  FaultKind = "worker-missing"
	ColdStart      FaultKind = "cold-start"
	WorkerDead     FaultKind = "worker-dead"
	HTTPError      FaultKind = "http-error"
	StreamBreak    FaultKind = "stream-break"
	ZeroTokens     FaultKind = "zero-tokens"
	GPUError       FaultKind = "gpu-error"
	GPUThrottle    FaultKind = "gpu-throttle"
	TelemetryGap   FaultKind = "telemetry-gap"
	DiscoveryPanic FaultKind = "discovery-panic"
	DRAStale       FaultKind = "dra-stale"
	GPUsClaimed    FaultKind = "gpus-claimed"
)

// What a fault stands for when it does not say.
const (
	DefaultStallFactor = 40.0
	DefaultSpread      = 0.5
)

// Duration is a time.Duration that documents write as "1.5s".
type Duration time.Duration

// D is d as the standard library knows it.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String is in letters that every keyboard has.
func (d Duration) String() string { return strings.ReplaceAll(d.D().String(), "µ", "u") }

// MarshalText writes what a document would say.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
