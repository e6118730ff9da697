package spec

import (
	"slices"
	"strings"
)

// The schemas of a run's files.
const (
	RunSchema     = "aicr.run/run/v1alpha1"
	EpisodeSchema = "aicr.run/episode/v1alpha1"
)

// Run is run.json: which program made the record, of what, and when.
type Run struct {
	Schema  string `json:"schema"`
	ID      string `json:"id"`
	Version string `json:"version"` // of the program
	Command string `json:"command"` // without secrets
	Target  Target `json:"target"`
	Start   string `json:"start"` // RFC 3339
	End     string `json:"end,omitempty"`
}

// Target is what was loaded. Simulated is the only thing by which the record of
// a simulated fleet differs from that of a real one.
type Target struct {
	URL       string `json:"url,omitempty"`
	Model     string `json:"model,omitempty"`
	Context   string `json:"context,omitempty"` // of the cluster that it was deployed on
	Node      string `json:"node,omitempty"`    // and its node
	Scenario  string `json:"scenario,omitempty"`
	Seed      uint64 `json:"seed,omitempty"`
	Simulated bool   `json:"simulated"`
}

// Episode is episode.json: one stretch of load, what was asked, and what came of
// it. Requests and Series, its other two files, hold what it sums up.
type Episode struct {
	Schema string `json:"schema"`
	Number int    `json:"number"` // from 1; a look at half the load is 0
	Start  string `json:"start"`  // RFC 3339; the time that every stamp counts from
	// SummaryOf says whose summary this is, where somebody else has loaded and told no
	// more: then there is no request and no sample of it.
	SummaryOf string         `json:"summary_of,omitempty"`
	Point     OperatingPoint `json:"point"`

	LoadedS  float64       `json:"loaded_s"` // from the first send to the last; what a stall rate is taken over
	Requests RequestCounts `json:"requests"`
	Sentinel RequestCounts `json:"sentinel"`
	Tokens   TokenCounts   `json:"tokens"`
	Figures  []BenchFigure `json:"figures"`
	Workers  []BenchWorker `json:"workers"`
	Client   BenchClient   `json:"client"`
	Samples  []SampleCount `json:"samples"`
}

// SummaryAIPerf is a SummaryOf: what AIPerf prints of a run.
const SummaryAIPerf = "aiperf"

// OperatingPoint is the load that was asked for.
type OperatingPoint struct {
	Workers        int     `json:"workers"`
	Prefill        int     `json:"prefill_workers,omitempty"` // of those; 0: none, or not known
	GPUsPerWorker  int     `json:"gpus_per_worker,omitempty"` // 0 is one
	Concurrency    int     `json:"concurrency"`
	RampS          float64 `json:"ramp_s"`
	DurationS      float64 `json:"duration_s"`
	InputTokens    int     `json:"input_tokens"`
	OutputTokens   int     `json:"output_tokens"`
	Prompts        string  `json:"prompts"` // unique, or how many are recycled
	SentinelRate   float64 `json:"sentinel_rate"`
	Router         string  `json:"router,omitempty"` // where it is known
	RequestTimeout float64 `json:"request_timeout_s,omitempty"`

	// Requests, when not 0, ends an episode by count instead of by time, and Wave
	// sends a request of each user first, or as many of each as WavePerUser says, and
	// waits for all of them: what the published gate does.
	Requests    int  `json:"requests,omitempty"`
	Wave        bool `json:"wave,omitempty"`
	WavePerUser int  `json:"wave_per_user,omitempty"` // 0 is one
}

// Shape gives a point the workers of a fleet.
func (p *OperatingPoint) Shape(f *Fleet) {
	p.Workers, p.Prefill, p.GPUsPerWorker = f.Workers, f.PrefillWorkers, 0
	if f.GPUsPerWorker > 1 {
		p.GPUsPerWorker = f.GPUsPerWorker
	}
}

// GPUs is how many there should be: those of one worker at least, where the number of
// workers is unknown.
func (p OperatingPoint) GPUs() int { return max(1, p.Workers) * max(1, p.GPUsPerWorker) }

// WaveRequests is how many requests are sent before those that count.
func (p OperatingPoint) WaveRequests() int {
	if !p.Wave {
		return 0
	}
	return p.Concurrency * max(1, p.WavePerUser)
}

// RequestCounts counts how requests ended.
type RequestCounts struct {
	Sent        int            `json:"sent"`
	Served      int            `json:"served"`
	Failed      int            `json:"failed"`
	Interrupted int            `json:"interrupted"`
	Resent      int            `json:"resent,omitempty"` // of all of them, those that were sent twice
	Classes     map[string]int `json:"classes"`
}

// TokenCounts counts the tokens of the closed loop's served requests, as the
// server told them.
type TokenCounts struct {
	Prompt     int64  `json:"prompt"`
	Cached     *int64 `json:"cached,omitempty"` // of the prompts' tokens, where the server tells
	Completion int64  `json:"completion"`
}

// SampleCount says how much of a source's telemetry there is.
type SampleCount struct {
	Source   string `json:"source"`
	Expected int    `json:"expected"`
	Missing  int    `json:"missing"`
}

// Request is a line of requests.jsonl. Stamps are nanoseconds since the
// episode's start; one that is 0 did not happen.
type Request struct {
	Seq      int64  `json:"seq"`
	Lane     string `json:"lane"`  // closed, sentinel
	Phase    string `json:"phase"` // ramp, steady, drain
	Intended int64  `json:"intended"`
	Sent     int64  `json:"sent"`
	First    int64  `json:"first,omitempty"` // first token
	Last     int64  `json:"last,omitempty"`  // last token
	End      int64  `json:"end"`
	Gap      int64  `json:"gap,omitempty"`     // longest wait between two tokens
	GapEnd   int64  `json:"gap_end,omitempty"` // the stamp at which it ended
	Prompt   int    `json:"prompt"`
	Cached   *int   `json:"cached,omitempty"`
	Tokens   int    `json:"tokens"`
	// Events is in how many events with content the answer came, and TextBytes how many
	// bytes of text (UTF-8) were in them. Absent: not known, as in older records.
	Events    *int `json:"events,omitempty"`
	TextBytes *int `json:"text_bytes,omitempty"`

	Worker string `json:"worker,omitempty"`
	Class  string `json:"class"` // ok, or a class of failure of internal/load
	Status int    `json:"status,omitempty"`
	Finish string `json:"finish,omitempty"`
	Detail string `json:"detail,omitempty"`

	// Resent says that the server closed the kept connection without a byte of an answer,
	// and that the request was sent once more on a new one. Sent is of the first time.
	Resent bool `json:"resent,omitempty"`
}

// The sources of a Sample.
const (
	SourceWorker   = "worker"
	SourceGPU      = "gpu"
	SourceNode     = "node"
	SourceFrontend = "frontend"
	SourceClient   = "client"
)

// The reasons of a Gap that mean something to whoever judges; what follows one of
// them is for people. Any other reason says only that there is no sample.
const (
	GapRefused  = "connection refused" // nobody is there
	GapNoHost   = "no such host"       // nor ever was
	GapNoAnswer = "no answer in"       // somebody is there, and silent
	GapLate     = "the answer was late"
	GapReset    = "connection reset"
	GapCutOff   = "the connection ended"
	GapOffPage  = "no longer on the page"         // its exporter answers, and tells of it no more
	GapUnlisted = "no longer listed"              // nobody wants it observed any more
	GapTooMuch  = "the page is past the limit of" // it answers with more than one source may tell
	GapObserver = "the observer itself"           // was stopped or starved: nobody else is to blame
	GapProxy    = "the page answers for several processes, as a proxy's does: name each worker's own page"
)

// Sample is a line of series.jsonl: what one source said at one time. Exactly
// one of the five kinds is set, or Gap says why there is none. A value that the
// source does not offer is left out: not measured is not zero.
type Sample struct {
	T        int64  `json:"t"` // nanoseconds since the episode's start: the middle of the scrape
	Source   string `json:"source"`
	Name     string `json:"name"`               // of the worker, the GPU, the node
	Instance string `json:"instance,omitempty"` // where it was asked, as host:port; a gap may know no more
	Took     int64  `json:"took,omitempty"`     // nanoseconds that the scrape took
	Gap      string `json:"gap,omitempty"`

	// NotMeasured says why a value is left out, and Derived how one was come by
	// that the source does not tell as such. Both are keyed by the value's name.
	// They are said when they change: until the next sample of the same name that
	// has either, they hold for every value that is left out.
	NotMeasured map[string]string `json:"not_measured,omitempty"`
	Derived     map[string]string `json:"derived,omitempty"`

	Worker   *WorkerSample   `json:"worker,omitempty"`
	GPU      *GPUSample      `json:"gpu,omitempty"`
	Node     *NodeSample     `json:"node,omitempty"`
	Frontend *FrontendSample `json:"frontend,omitempty"`
	Client   *ClientSample   `json:"client,omitempty"`
}

// WithTexts is a sample with what f makes of each text that its source wrote.
func (s Sample) WithTexts(f func(string) string) Sample {
	s.Name, s.Gap = f(s.Name), f(s.Gap)
	s.NotMeasured, s.Derived = textsOf(s.NotMeasured, f), textsOf(s.Derived, f)
	if s.Worker != nil {
		w := *s.Worker
		w.GPU, w.Pod = f(w.GPU), f(w.Pod)
		w.GPUs = slices.Clone(w.GPUs)
		for i, name := range w.GPUs {
			w.GPUs[i] = f(name)
		}
		s.Worker = &w
	}
	if s.GPU != nil {
		g := *s.GPU
		g.Index, g.Model, g.Node, g.Pod = f(g.Index), f(g.Model), f(g.Node), f(g.Pod)
		if g.Throttle != nil {
			reasons := make([]string, len(*g.Throttle))
			for i, reason := range *g.Throttle {
				reasons[i] = f(reason)
			}
			g.Throttle = &reasons
		}
		s.GPU = &g
	}
	if s.Frontend != nil && s.Frontend.Outcomes != nil {
		front, outcomes := *s.Frontend, map[string]float64{}
		for name, n := range front.Outcomes {
			outcomes[f(name)] += n
		}
		front.Outcomes = outcomes
		s.Frontend = &front
	}
	return s
}

func textsOf(all map[string]string, f func(string) string) map[string]string {
	if all == nil {
		return nil
	}
	texts := make(map[string]string, len(all))
	for name, text := range all {
		texts[name] = f(text)
	}
	return texts
}

// WorkerSample is what a worker's metrics page says. Counters count since the
// worker's start.
type WorkerSample struct {
	Running       *float64 `json:"running,omitempty"`
	Waiting       *float64 `json:"waiting,omitempty"`
	Deferred      *float64 `json:"deferred,omitempty"`  // of those that wait: for something else than room
	InFlight      *float64 `json:"in_flight,omitempty"` // what it was handed and has not ended, by its runtime's or API server's count
	KVUsage       *float64 `json:"kv_usage,omitempty"`  // 0 to 1
	Asleep        *float64 `json:"asleep,omitempty"`    // 1: its weights are off the GPU, and it serves nothing until it is woken up
	Generated     *float64 `json:"generated_tokens,omitempty"`
	EndedTokens   *float64 `json:"ended_tokens,omitempty"` // generated, of requests that have ended: no sign of life
	PromptTokens  *float64 `json:"prompt_tokens,omitempty"`
	PrefixQueries *float64 `json:"prefix_queries,omitempty"` // tokens
	PrefixHits    *float64 `json:"prefix_hits,omitempty"`    // tokens
	Preemptions   *float64 `json:"preemptions,omitempty"`
	Rejected      *float64 `json:"rejected,omitempty"`     // requests that were not admitted; none of those that ended
	Ended         *float64 `json:"ended,omitempty"`        // requests
	Failed        *float64 `json:"failed,omitempty"`       // requests, of those
	Aborted       *float64 `json:"aborted,omitempty"`      // requests, of those that failed: their client went away
	TokensPerS    *float64 `json:"tokens_per_s,omitempty"` // where a log tells a rate and nothing counts
	Started       *float64 `json:"started_s,omitempty"`    // when its process began, in seconds since 1970
	GPU           string   `json:"gpu,omitempty"`          // its GPU's name, where it is known
	GPUs          []string `json:"gpus,omitempty"`         // its GPUs' names instead, where it has several
	Pod           string   `json:"pod,omitempty"`
	Role          Role     `json:"role,omitempty"`
}

// Role is what a worker does of each request.
type Role string

// The roles. A decode worker is often not told apart from one that does both.
const (
	RoleBoth    Role = ""
	RolePrefill Role = "prefill" // it reads prompts, and makes one token or none: its work is prompt tokens
	RoleDecode  Role = "decode"  // it makes the tokens of prompts that others have read
)

// RoleNamed is the role that a label, as Dynamo's component, names.
func RoleNamed(word string) Role {
	switch role := Role(strings.ToLower(word)); role {
	case RolePrefill, RoleDecode:
		return role
	default:
		return RoleBoth
	}
}

// Holds are the names of the worker's GPUs, as far as they are known.
func (w *WorkerSample) Holds() []string {
	if len(w.GPUs) > 0 || w.GPU == "" {
		return w.GPUs
	}
	return []string{w.GPU}
}

// GPUSample is what an exporter says of a GPU.
type GPUSample struct {
	Utilization  *float64  `json:"utilization,omitempty"` // 0 to 1: a duty cycle
	PowerW       *float64  `json:"power_w,omitempty"`
	SMClockMHz   *float64  `json:"sm_clock_mhz,omitempty"`
	TemperatureC *float64  `json:"temperature_c,omitempty"`
	XID          *float64  `json:"xid,omitempty"` // the last one; 0: none
	DoubleBit    *float64  `json:"ecc_double_bit,omitempty"`
	RemapFailure *float64  `json:"row_remap_failure,omitempty"`
	Throttle     *[]string `json:"throttle,omitempty"` // reasons; empty: none
	MemoryUsed   *float64  `json:"memory_used_mib,omitempty"`
	Index        string    `json:"index,omitempty"` // on its node
	Model        string    `json:"model,omitempty"`
	Node         string    `json:"node,omitempty"`
	Pod          string    `json:"pod,omitempty"` // that has it
}

// NodeSample is what a node says. Pressure is the share of the time in which
// some task waited, 0 to 1.
type NodeSample struct {
	CPUPressure    *float64 `json:"cpu_pressure,omitempty"`
	MemoryPressure *float64 `json:"memory_pressure,omitempty"`
	IOPressure     *float64 `json:"io_pressure,omitempty"`
	Load1          *float64 `json:"load1,omitempty"` // tasks that ran or wanted to, over the last minute
}

// FrontendSample is what the frontend says.
type FrontendSample struct {
	InFlight *float64 `json:"in_flight,omitempty"`
	Queued   *float64 `json:"queued,omitempty"` // not yet at their first token
	Served   *float64 `json:"served,omitempty"`
	Failed   *float64 `json:"failed,omitempty"`
	Tokens   *float64 `json:"tokens,omitempty"`
	Stalls   *float64 `json:"stalls,omitempty"` // of its event loop
	Busy     *float64 `json:"busy,omitempty"`   // 0 to 1: its busiest thread
	// Outcomes counts the requests that ended: success, or an error's type.
	Outcomes map[string]float64 `json:"outcomes,omitempty"`
}

// ClientSample is what the load engine itself has seen.
type ClientSample struct {
	InFlight int   `json:"in_flight"`
	Sent     int64 `json:"sent"`
	Ended    int64 `json:"ended"`
	Tokens   int64 `json:"tokens"` // since the episode's start
}

// The kinds of Event.
const (
	EventStage      = "stage"       // a stage began: start, warm, episode, end
	EventVersions   = "versions"    // of the runtime and of the chart
	EventGPUs       = "gpus"        // how many there are, and how many are free
	EventWorkers    = "workers"     // how many should be there, and how many are
	EventPlaced     = "placed"      // where a worker is: its node and, where that is known, its GPU
	EventAnswer     = "answer"      // the first completion of a worker, or that there was none
	EventLog        = "log"         // lines of a log that say something
	EventPod        = "pod-event"   // an event of a pod
	EventNotServed  = "not-served"  // the endpoint was asked and never served
	EventCannotPass = "cannot-pass" // the run ended before any load, since it could not pass; the reason is a code
	EventInterrupt  = "interrupt"   // somebody ended the run before it was decided
	EventRequests   = "requests"    // requests outside the episodes, of which some failed: Want were sent, Have served
	EventNode       = "node"        // what befell the node while it served; the reason is a Node word
	EventRemoved    = "removed"     // somebody else deleted what the run had made, while it was loaded: Seconds into the run, if that is known

	EventSymptom     = "symptom"      // something began to be off; the reason is a finding
	EventSymptomOver = "symptom-over" // and ended
)

// PodEnded is the reason of the EventPod of a pod that serves and ended after it was ready,
// whether or not it was started anew; Count is how often. PodReplaced is that of one which
// was deleted after it was ready. Worker is "" where the pod is no worker.
const (
	PodEnded    = "Ended"
	PodReplaced = "Replaced"
)

// The reasons of an EventNode.
const (
	NodeCordoned   = "Cordoned"   // it was marked unschedulable
	NodeDeleted    = "Deleted"    // its Node object is gone
	NodeRegistered = "Registered" // its Node object was deleted, and made anew
)

// PodsUnseen is the reason of the EventPod that stands where it could not be found out
// whether pods that serve have ended: that none did is not known then.
const PodsUnseen = "Unseen"

// GPUsTaken is the reason of the EventInterrupt of a run that ended since somebody else took
// GPUs of its node, after that was chosen; Text is who.
const GPUsTaken = "GPUsTaken"

// Event is a line of events.jsonl: what happened, besides load.
type Event struct {
	T       float64  `json:"t"` // seconds since the run's start
	Kind    string   `json:"kind"`
	Stage   string   `json:"stage,omitempty"`
	Episode int      `json:"episode,omitempty"`
	Source  string   `json:"source,omitempty"` // a pod, a container, an endpoint, a node
	Worker  string   `json:"worker,omitempty"`
	GPU     string   `json:"gpu,omitempty"` // its UUID
	Reason  string   `json:"reason,omitempty"`
	Text    string   `json:"text,omitempty"`
	Advice  []string `json:"advice,omitempty"` // what to do about it, where who told it knows
	Count   int      `json:"count,omitempty"`  // how often; 0 is once
	Seconds *float64 `json:"seconds,omitempty"`
	Tokens  *int     `json:"tokens,omitempty"`
	Want    *int     `json:"want,omitempty"`
	Have    *int     `json:"have,omitempty"`
	Runtime string   `json:"runtime,omitempty"`
	Chart   string   `json:"chart,omitempty"`
}
