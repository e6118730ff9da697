package spec

// SnapshotKind is the kind of a Snapshot document.
const SnapshotKind = "Snapshot"

// SnapshotVersion is the apiVersion that a Snapshot is written with.
const SnapshotVersion = "aicr.run/v1alpha2"

// Snapshot is what was found on a cluster: facts, by type, subtype and key. A fact
// that could not be read is there as unknown, with the reason.
type Snapshot struct {
	APIVersion   string        `json:"apiVersion,omitempty"`
	Kind         string        `json:"kind,omitempty"`
	Metadata     Texts         `json:"metadata,omitzero"`
	Fingerprint  *Fingerprint  `json:"fingerprint,omitempty"`
	Measurements []Measurement `json:"measurements"`
}

// The types of measurement.
const (
	TypeK8s             = "K8s"
	TypeGPU             = "GPU"
	TypeOS              = "OS"
	TypeSystemD         = "SystemD"
	TypeNodeTopology    = "NodeTopology"
	TypeNetworkTopology = "NetworkTopology"
)

// Measurement is everything of one type.
type Measurement struct {
	Type     string    `json:"type"` // what it is about
	Subtypes []Subtype `json:"subtypes,omitzero"`
}

// Subtype is a group of facts. Data can be named by a constraint, and so can Items;
// Context describes.
type Subtype struct {
	Name    string             `json:"subtype"`          // the name of the group
	Data    Facts              `json:"data,omitzero"`    // facts by their keys
	Context Texts              `json:"context,omitzero"` // what describes them
	Items   []FactItem         `json:"items,omitzero"`
	Unknown map[string]Unknown `json:"unknown,omitempty"` // by key; "*" is all of them
}

// FactItem is one of several things of a kind.
type FactItem struct {
	Data    Facts `json:"data,omitzero"`
	Context Texts `json:"context,omitzero"`
}

// Facts are values by their keys.
type Facts map[string]Scalar

// Texts are texts by their keys. A number is taken as the text that it was written as.
type Texts map[string]string

// Unknown is why a fact could not be read.
type Unknown struct {
	Reason string `json:"reason"`           // why
	Detail string `json:"detail,omitempty"` // in the words of who refused
}

// The reasons. What is absent is known to be: only what else was to be read of it is not.
const (
	ReasonForbidden   = "forbidden"
	ReasonAbsent      = "absent"
	ReasonTimedOut    = "timed out"
	ReasonMixed       = "mixed" // the nodes do not agree
	ReasonUnreachable = "unreachable"
	ReasonUnreadable  = "unreadable" // it is there, and makes no sense
)

// Fingerprint is what a cluster is, for a person, and what a recipe is chosen by.
// Each value has its evidence.
type Fingerprint struct {
	Service      FingerprintText  `json:"service"`
	Accelerator  FingerprintText  `json:"accelerator"`
	OS           FingerprintText  `json:"os"`
	GPUModel     FingerprintText  `json:"gpuModel"`
	GPUNodeCount FingerprintCount `json:"gpuNodeCount"`
	NodeCount    FingerprintCount `json:"nodeCount"`
	K8sVersion   FingerprintText  `json:"k8sVersion"`
	Region       FingerprintText  `json:"region"`
}

// FingerprintText is a word and the fact that it was concluded from.
type FingerprintText struct {
	Value   string `json:"value"`
	Version string `json:"version,omitempty"`
	Source  string `json:"source,omitempty"`
	Note    string `json:"note,omitempty"`
}

// FingerprintCount is a number and the fact that it was concluded from.
type FingerprintCount struct {
	Value  int    `json:"value"`
	Source string `json:"source,omitempty"`
}

// The facts that this product's own collector writes beside those that upstream's
// does. A constraint may name them.
const (
	FactServerVersion  = "K8s.server.version"
	FactDynamoChart    = "K8s.dynamo-platform.chart"              // the chart's version
	FactDynamoOperator = "K8s.dynamo-platform.operator"           // the operator's version
	FactDynamoRuntime  = "K8s.dynamo-runtime.version"             // of the workers that run; mixed when they differ
	FactGPUOperator    = "K8s.gpu-operator.version"               // its version, or absent
	FactKAI            = "K8s.kai-scheduler.version"              //
	FactGrove          = "K8s.grove.version"                      //
	FactDCGM           = "K8s.dcgm-exporter.version"              //
	FactDRAAPI         = "K8s.dra.api-version"                    // of resource.k8s.io: v1, v1beta2, v1beta1
	FactGPUModel       = "GPU.hardware.model"                     //
	FactGPUCount       = "GPU.hardware.gpu-count"                 // of all nodes
	FactGraphCRD       = "K8s.dynamo-crds.dynamographdeployments" // versions served, comma-separated
)
