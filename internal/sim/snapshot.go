package sim

import (
	"time"

	"aicr/internal/spec"
)

// Snapshot is what a fleet's telemetry would say.
type Snapshot struct {
	At       time.Duration // fleet time
	Workers  []WorkerState
	GPUs     []GPUState // in the order of the workers
	Node     NodeState
	Frontend FrontendState
}

// WorkerState is a worker as its metrics tell. Counters count since its start.
type WorkerState struct {
	ID      uint64        // as the frontend names it: odd, above 2^53, and pinned by the seed
	Present bool          // it is there, and in the router's list
	Started time.Duration // when its process did
	Missing bool          // its sample of this second is not delivered

	Running       int // as its gauge says, which a wedge may have made to lie
	Waiting       int
	Held          int     // requests that it has, whatever its gauge says
	KVUsage       float64 // 0 to 1
	Generated     int64   // tokens
	PromptTokens  int64
	PrefixQueries int64 // tokens looked up in the prefix cache
	PrefixHits    int64 // and found
	Preemptions   int64
	Finished      int64

	Role spec.Role
	GPUs []string // their UUIDs
}

// GPUState is a GPU as an exporter tells, over the last second.
type GPUState struct {
	UUID    string
	Missing bool

	Utilization  float64 // 0 to 1
	PowerW       float64
	EnergyJ      float64 // since the start
	SMClockMHz   float64
	MemClockMHz  float64
	TemperatureC float64
	MemoryUsed   float64 // bytes
	MemoryTotal  float64
	XID          int // the last; 0: none
	DoubleBit    int64
	RemapFailure bool
	Throttle     []string // reasons, as DCGM names them
}

// NodeState is the node as its exporter tells. Waits are seconds since the
// start in which some task waited; pressure is its share of the last second.
type NodeState struct {
	Missing    bool
	CPUWait    float64
	MemoryWait float64
	IOWait     float64

	CPUPressure    float64
	MemoryPressure float64
	IOPressure     float64
}

// FrontendState is the frontend as its metrics tell.
type FrontendState struct {
	InFlight int
	Queued   int // not at their first token yet
	Served   int64
	Failed   int64
	Tokens   int64

	Stalls  int64         // of its one thread, that have ended
	Stalled time.Duration // in all, the one that is on included
}
