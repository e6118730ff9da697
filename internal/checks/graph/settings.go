package graph

import (
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// Settings are all that a run on one node is made of, decided before anything is
// written. They are kept on the cluster with the run, so that another process, or
// another machine, can go on with it. There is no secret in them.
type Settings struct {
	Run       string `json:"run"`       // its id: 20261116-015518-0123456789abcdef
	Namespace string `json:"namespace"` // of the load's Job and of what is kept of the run; the graph has one of its own

	Node    string `json:"node"`              // everything that serves is pinned to it
	Host    string `json:"host,omitempty"`    // its label kubernetes.io/hostname, where that is not its name
	Workers int    `json:"workers"`           // a GPU each
	GPUs    string `json:"gpus"`              // how they are asked for: ByClaim, ByDevicePlugin; "": no node is chosen yet
	DRA     string `json:"dra,omitempty"`     // the version of resource.k8s.io that is served
	Graph   string `json:"graphAPI"`          // the version of DynamoGraphDeployment: v1beta1, v1alpha1
	Router  string `json:"router"`            // a word of spec.RouterModes
	Gateway bool   `json:"gateway,omitempty"` // gateway-epp: the endpoint picker chooses, and Router does not matter
	Queue   bool   `json:"queue,omitempty"`   // KAI schedules here and wants a queue
	Grove   bool   `json:"grove,omitempty"`   // it is served: the graph's pods may be made by it
	Parent  string `json:"parent,omitempty"`  // of that queue: Served has it
	Token   bool   `json:"token,omitempty"`   // a Hugging Face token is put into a Secret
	Live    bool   `json:"-"`                 // the run begins with a snapshot of the cluster

	Model  string `json:"model"`
	Images Images `json:"images"`
	Cache  *Cache `json:"cache,omitempty"` // nil: the model is fetched by each worker
	Engine string `json:"engine"`          // EngineOwn, EngineAIPerf

	Held        []kube.Holder     `json:"held,omitempty"`        // of GPUs of the node, when it was chosen
	Resources   PodResources      `json:"resources,omitzero"`    // that were asked for, of each kind of pod
	Tolerations []kube.Toleration `json:"tolerations,omitempty"` // of what serves, and of the load
	LoadOff     []string          `json:"loadOff,omitempty"`     // nodes that are too small or too busy for the load
	AIPerf      *AIPerfLoad       `json:"aiperf,omitempty"`      // of EngineAIPerf

	// How long each part may take.
	ReadyWithin  Duration `json:"readyWithin"`
	AnswerWithin Duration `json:"answerWithin"`
	PodWithin    Duration `json:"podWithin"`  // the load's pod
	LoadWithin   Duration `json:"loadWithin"` // all of the load, by the plan's worst case
	KeepFor      Duration `json:"keepFor"`    // the load's pod waits so long for somebody who fetches its record
	NoCleanup    bool     `json:"noCleanup,omitempty"`
	Version      string   `json:"version"` // of the program that began it

	Namespaced bool   `json:"namespaced,omitempty"` // all of the run is in Namespace, and nothing of it is cluster-wide
	Prepared   bool   `json:"prepared,omitempty"`   // an administrator has made the load's account and its rights
	Unseen     bool   `json:"unseen,omitempty"`     // who holds GPUs in other namespaces could not be read
	KeptUID    string `json:"-"`                    // of the ConfigMap that the run is kept in

	SpaceUID string `json:"spaceUID,omitempty"` // of the namespace that was made for the graph: one that has another is not the run's
}

// Images are the references that a run on a cluster pulls.
type Images struct {
	Runtime        string `json:"runtime"`                  // of the frontend, the workers, and what fetches the model
	Release        string `json:"release,omitempty"`        // of Dynamo that it has, where its tag does not say
	EndpointPicker string `json:"endpointPicker,omitempty"` // of a gateway
	Load           string `json:"load"`                     // this program
	AIPerf         string `json:"aiperf,omitempty"`         // of the engine aiperf
	PullSecret     string `json:"pullSecret,omitempty"`     // in the namespaces of the run; "": none
}

// PodResources are what is to be requested, and the limits, of the containers of a run.
type PodResources struct {
	Worker   spec.Resources `json:"worker,omitzero"`
	Frontend spec.Resources `json:"frontend,omitzero"` // an endpoint picker and a sidecar too
	Jobs     spec.Resources `json:"jobs,omitzero"`     // that fetch the model and try the load's image
	Load     spec.Resources `json:"load,omitzero"`
}

// Cache is the volume that the model is kept in.
type Cache struct {
	Size     string   `json:"size"`
	Class    string   `json:"class,omitempty"` // "": the cluster's own
	Populate Duration `json:"populateWithin"`
}

// AIPerfLoad is what AIPerf is told to do.
type AIPerfLoad struct {
	Concurrency  int `json:"concurrency"`
	Requests     int `json:"requests"`
	Warmup       int `json:"warmup"`
	InputTokens  int `json:"inputTokens"`
	OutputTokens int `json:"outputTokens"`
}

// How workers ask for their GPUs.
const (
	ByClaim        = "claim"         // resource.k8s.io
	ByDevicePlugin = "device-plugin" // nvidia.com/gpu
)

// Who loads.
const (
	EngineOwn    = "aicr"
	EngineAIPerf = "aiperf"
)

// Duration is written as 10m0s.
type Duration time.Duration

// MarshalText writes it as people do.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}
