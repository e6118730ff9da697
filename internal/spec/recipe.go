package spec

import (
	"slices"
	"strconv"
	"strings"
)

// The kinds of document that a recipe is written as. RecipeMetadata is an overlay:
// one layer, which its base and its mixins complete. RecipeResult is the whole, with
// every layer laid over the one before. RecipeMixin is a part that overlays share.
const (
	RecipeKind       = "RecipeMetadata"
	RecipeResultKind = "RecipeResult"
	RecipeMixinKind  = "RecipeMixin"
)

// RecipeVersion is the apiVersion that a recipe is written with.
const RecipeVersion = "aicr.run/v1beta1"

// RecipeVersions lists those that are read. The fields that matter here are the
// same in all of them.
func RecipeVersions() []string {
	return []string{RecipeVersion, "aicr.run/v1alpha2", "aicr.nvidia.com/v1alpha1", "aicr.run/v1alpha3", "aicr.run/v1beta2", "aicr.run/v1"}
}

// RecipeKinds lists the kinds of document that a recipe is read from.
func RecipeKinds() []string {
	return []string{RecipeKind, RecipeResultKind, RecipeMixinKind, ValidationInputKind}
}

// Recipe is what a deployment should be: what the cluster has to have, what is
// deployed on it, which checks it is held against, and how it is judged. It is an
// overlay, a mixin or a whole recipe; Kind says which.
type Recipe struct {
	Comment    string // written before the document; not read
	Kind       string // one of RecipeKinds
	APIVersion string // as it was written
	Name       string // of an overlay or a mixin; a RecipeResult is written without
	Base       string // the overlay below this one
	Criteria   Criteria
	Wants      []RecipeConstraint // of the cluster, before anything runs
	Components []Component
	Mixins     []string
	Profile    *RecipeProfile
	Phases     RecipePhases

	// Of a whole recipe alone.
	Resolution      *Resolution
	DeploymentOrder []string
	Configuration   *RecipeConfiguration
	GPUPolicy       string // how workloads ask for GPUs: a ValidationInput says it

	Unused  []Unused          // fields that are known and not used
	Origins map[string]Origin // of what a whole recipe says: see OriginOf
}

// Whole says whether the recipe is complete: no base and no mixin has to be found for it.
func (r *Recipe) Whole() bool { return r.Kind == RecipeResultKind || r.Kind == ValidationInputKind }

// Origin is where a recipe says a thing: which overlay, in which file.
type Origin struct {
	Overlay string `json:"overlay"`
	File    string `json:"file"`
}

func (o Origin) String() string { return strings.TrimSpace(o.Overlay + " " + o.File) }

// Criteria says for which deployments a recipe is.
type Criteria struct {
	Service     string `json:"service,omitempty"`     // who runs the cluster
	Accelerator string `json:"accelerator,omitempty"` // the GPU
	OS          string `json:"os,omitempty"`          // what the GPU nodes run
	Intent      string `json:"intent,omitempty"`      // what it is for
	Platform    string `json:"platform,omitempty"`    // what serves on it
	Nodes       int    `json:"nodes,omitempty"`       // GPU nodes
}

// RecipePhases are the phases of a validation. A phase that is not there is nil.
type RecipePhases struct {
	Readiness   *RecipePhase `json:"readiness,omitempty"`
	Deployment  *RecipePhase `json:"deployment,omitempty"`
	Performance *RecipePhase `json:"performance,omitempty"`
	Conformance *RecipePhase `json:"conformance,omitempty"`
}

// The phases, in the order in which they run. Readiness is no phase: what it wants is
// held against a snapshot before any of them begins.
const (
	PhaseDeployment  = "deployment"
	PhaseConformance = "conformance"
	PhasePerformance = "performance"
)

// Phases lists them in order. Performance comes last: it fills every GPU.
func Phases() []string { return []string{PhaseDeployment, PhaseConformance, PhasePerformance} }

// Named is the phase of that name, or nil.
func (p *RecipePhases) Named(name string) *RecipePhase {
	switch name {
	case PhaseDeployment:
		return p.Deployment
	case PhaseConformance:
		return p.Conformance
	case PhasePerformance:
		return p.Performance
	}
	return nil
}

// RecipePhase is what a phase checks. A list that is nil says nothing, and one that
// is empty clears what the layers below said.
type RecipePhase struct {
	Timeout        string             `json:"timeout,omitempty" aicr:"unused"`
	Checks         []string           `json:"checks,omitzero"` // by their names in the catalog; layers add up, and [] clears
	Constraints    []RecipeConstraint `json:"constraints,omitzero"`
	NodeSelection  *NodeSelection     `json:"nodeSelection,omitempty" aicr:"unused"`
	Infrastructure string             `json:"infrastructure,omitempty" aicr:"unused"`
	Verdict        RecipeVerdict      `json:"verdict,omitzero"` // of the performance phase alone
}

// NodeSelection says on which nodes a phase would run.
type NodeSelection struct {
	Selector     map[string]string `json:"selector,omitzero"`
	MaxNodes     int               `json:"maxNodes,omitempty"`
	ExcludeNodes []string          `json:"excludeNodes,omitzero"`
}

// RecipeConstraint is what a recipe wants, in its own words. Value is a comparator
// and a number for a figure, and a bare value for an input.
type RecipeConstraint struct {
	Name        string   `json:"name"`           // a fact by its path, as K8s.server.version, a figure or an input
	Value       Wanted   `json:"value"`          // a comparator and what is wanted, as ">= 1.34"; bare: just this
	Unit        string   `json:"unit,omitempty"` // of the value
	Severity    string   `json:"severity,omitempty" aicr:"unused"`
	Remediation string   `json:"remediation,omitempty"` // what to do where it is not met
	Tolerance   *float64 `json:"tolerance,omitempty"`   // share of the threshold
}

// Wanted is a value that is wanted: ">= 50000", or 256.
type Wanted string

// Component is a part of what is deployed on the cluster. What is used of it is its
// name, whether it is there at all, and its version.
type Component struct {
	Name               string             `json:"name"`                             // what constraints and checks call it
	Namespace          string             `json:"namespace,omitempty"`              // where it is deployed
	Chart              string             `json:"chart,omitempty"`                  // its chart, where that has another name
	Type               string             `json:"type,omitempty"`                   // Helm or Kustomize
	Source             string             `json:"source,omitempty"`                 // where its chart or its files come from
	Version            string             `json:"version,omitempty" aicr:"version"` // of its chart
	Tag                string             `json:"tag,omitempty" aicr:"version"`     // of its files
	ValuesFile         string             `json:"valuesFile,omitempty" aicr:"unused"`
	Overrides          Anything           `json:"overrides,omitzero" aicr:"unused"`
	Patches            []string           `json:"patches,omitzero" aicr:"unused"`
	DependencyRefs     []string           `json:"dependencyRefs,omitzero"`
	ManifestFiles      []string           `json:"manifestFiles,omitzero" aicr:"unused"`
	PreManifestFiles   []string           `json:"preManifestFiles,omitzero" aicr:"unused"`
	Path               string             `json:"path,omitempty" aicr:"unused"`
	Cleanup            *bool              `json:"cleanup,omitempty" aicr:"unused"`
	ExpectedResources  []ExpectedResource `json:"expectedResources,omitzero" aicr:"unused"`
	HealthCheckAsserts string             `json:"healthCheckAsserts,omitempty" aicr:"unused"`
	HealthCheckSkip    *bool              `json:"healthCheckSkip,omitempty" aicr:"unused"`
}

// ExpectedResource is an object that a component makes.
type ExpectedResource struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// RecipeProfile offers ways to configure a deployment, of which one is chosen.
type RecipeProfile struct {
	Name        string                  `json:"name,omitempty"`
	Description string                  `json:"description,omitempty"`
	Default     string                  `json:"default,omitempty"`
	Values      map[string]ProfileValue `json:"values,omitzero"`
}

// ProfileValue is one of the ways: what it adds to the components and to what is
// wanted of the cluster.
type ProfileValue struct {
	Advertiser           string             `json:"advertiser,omitempty" aicr:"unused"`
	ComponentRefs        []Component        `json:"componentRefs,omitzero"`
	Constraints          []RecipeConstraint `json:"constraints,omitzero"`
	ReadinessConstraints []RecipeConstraint `json:"readinessConstraints,omitzero"` // once it is deployed
}

// RecipeConfiguration is what was decided of a whole recipe beside its components.
type RecipeConfiguration struct {
	GKE *struct {
		TCPXOInterfaces []TCPXOInterface `json:"tcpxoInterfaces,omitzero"`
	} `json:"gke,omitempty"`
	RuntimeInventory *ConfiguredMode `json:"runtimeInventory,omitempty"`
	Slurm            *struct {
		Accounting *ConfiguredMode `json:"accounting,omitempty"`
	} `json:"slurm,omitempty"`
}

// TCPXOInterface is a network interface of a GKE node and the network behind it.
type TCPXOInterface struct {
	InterfaceName string `json:"interfaceName"`
	Network       string `json:"network"`
}

// ConfiguredMode is how a part of the deployment is run.
type ConfiguredMode struct {
	Mode string `json:"mode"`
}

// Resolution says what a whole recipe was made of. It is a RecipeResult's metadata.
type Resolution struct {
	Version                  string              `json:"version,omitempty"`
	AppliedOverlays          []string            `json:"appliedOverlays,omitzero"`
	ExcludedOverlays         []ExcludedOverlay   `json:"excludedOverlays,omitzero"`
	ConstraintWarnings       []ConstraintWarning `json:"constraintWarnings,omitzero"`
	DefaultStorageClassState string              `json:"defaultStorageClassState,omitempty" aicr:"unused"`
	GPUDriverState           string              `json:"gpuDriverState,omitempty" aicr:"unused"`
	MariaDBOperatorState     string              `json:"mariaDBOperatorState,omitempty" aicr:"unused"`
	PerconaOperatorState     string              `json:"perconaOperatorState,omitempty" aicr:"unused"`
	SelectedProfile          *SelectedProfile    `json:"selectedProfile,omitempty" aicr:"unused"`
}

// ExcludedOverlay is one that would have matched and was left out. Older recipes give
// its name alone.
type ExcludedOverlay struct {
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty"`
}

// ConstraintWarning is why an overlay was left out: what it wants is not there.
type ConstraintWarning struct {
	Overlay    string `json:"overlay"`
	Constraint string `json:"constraint"`
	Expected   string `json:"expected"`
	Actual     string `json:"actual,omitempty"`
	Reason     string `json:"reason"`
}

// SelectedProfile is the way that was chosen of a RecipeProfile.
type SelectedProfile struct {
	Name       string   `json:"name"`
	Value      string   `json:"value"`
	Advertiser string   `json:"advertiser,omitempty"`
	OwnedPaths Anything `json:"ownedPaths"`
}

// RecipeVerdict is how a deployment of the recipe is judged.
type RecipeVerdict struct {
	Profile    string           `json:"profile,omitempty"`    // how thorough
	Stability  string           `json:"stability,omitempty"`  // gate: stalls decide; report: they are only told
	NoFreeGPUs string           `json:"noFreeGPUs,omitempty"` // fail, when nothing is said; skip: there is nothing to do then
	Reference  *RecipeReference `json:"reference,omitempty"`
	Thresholds ThresholdValues  `json:"thresholds,omitempty"` // those that differ from the profile's, by name
}

// ThresholdValues are some of the Thresholds, by their names.
type ThresholdValues map[string]float64

// RecipeReference is a throughput that was measured on healthy hardware of this
// kind, and the operating point at which it was.
type RecipeReference struct {
	Throughput        float64 `json:"throughput"`           // tokens/s, of all the GPUs
	GPUs              int     `json:"gpus"`                 // on which it was measured
	ConcurrencyPerGPU int     `json:"concurrencyPerGPU"`    // requests in flight for each GPU
	InputTokens       int     `json:"inputTokens"`          // of a prompt
	OutputTokens      int     `json:"outputTokens"`         // of an answer
	Prompts           int     `json:"prompts,omitempty"`    // that were recycled; none: every prompt was unique
	Dispersion        float64 `json:"dispersion,omitempty"` // ln-sd between episodes; 0: not known
	N                 int     `json:"n,omitempty"`          // episodes that it is of
	Measured          string  `json:"measured,omitempty"`   // RFC 3339, or a day
}

// The inputs that a recipe sets by a constraint with a bare value.
const (
	InputModel        = "inference-model"
	InputConcurrency  = "inference-concurrency-per-gpu"
	InputRouting      = "inference-routing-mode"
	InputStorageClass = "inference-model-cache-storage-class"
)

// InferencePerf is the check that this product is about.
const InferencePerf = "inference-perf"

// performance is the performance phase; an empty one where there is none.
func (r *Recipe) performance() RecipePhase {
	if r.Phases.Performance == nil {
		return RecipePhase{}
	}
	return *r.Phases.Performance
}

// Verdict is how a deployment of the recipe is judged.
func (r *Recipe) Verdict() RecipeVerdict { return r.performance().Verdict }

// Figures are the figures that are wanted of a fleet of so many GPUs, in canonical
// units. What is wanted of one GPU is wanted of each.
func (r *Recipe) Figures(gpus int) []Constraint {
	var all []Constraint
	for _, w := range r.performance().Constraints {
		f, ok := figureNamed(w.Name)
		if !ok {
			continue
		}
		said := f.wanted(w)
		u, isUnit := f.unitNamed(said.unit)
		if !said.isNumber || !isUnit {
			continue // DecodeRecipe lets no such thing through
		}
		c := Constraint{Name: w.Name, Comparator: said.comparator, Threshold: said.value * u.times, Unit: f.units[0].name, Tolerance: DefaultTolerance, From: r.saidBy(PhasePerformance, w.Name)}
		if u.perGPU {
			c.Threshold *= float64(gpus)
		}
		if w.Tolerance != nil {
			c.Tolerance = *w.Tolerance
		}
		all = append(all, c)
	}
	return all
}

// OriginOf is where a whole recipe has a thing of a phase from: a check, or a
// constraint by its name. The phase of what is wanted of the cluster is "".
func (r *Recipe) OriginOf(phase, name string) (Origin, bool) {
	o, ok := r.Origins[phase+"/"+name]
	return o, ok
}

func (r *Recipe) saidBy(phase, name string) string {
	if o, ok := r.OriginOf(phase, name); ok {
		return "recipe " + o.Overlay
	}
	switch {
	case r.Name != "":
		return "recipe " + r.Name
	case r.Resolution != nil && len(r.Resolution.AppliedOverlays) > 0:
		return "recipe " + r.Resolution.AppliedOverlays[len(r.Resolution.AppliedOverlays)-1]
	}
	return "recipe"
}

// Input is the value of an input that the recipe sets.
func (r *Recipe) Input(name string) (string, bool) {
	all := r.performance().Constraints
	i := slices.IndexFunc(all, func(w RecipeConstraint) bool { return w.Name == name })
	if i < 0 {
		return "", false
	}
	return string(all[i].Value), true
}

// ConcurrencyPerGPU is the load that the recipe sets: its own input, else the
// point at which its reference was measured.
func (r *Recipe) ConcurrencyPerGPU() (int, bool) {
	if text, ok := r.Input(InputConcurrency); ok {
		n, err := strconv.Atoi(text)
		return n, err == nil
	}
	if ref := r.Verdict().Reference; ref != nil {
		return ref.ConcurrencyPerGPU, true
	}
	return 0, false
}

// Overlay lays the recipe's thresholds over others. Whether they make sense
// together is for t.Check to say.
func (r *Recipe) Overlay(t *Thresholds) {
	for name, value := range r.Verdict().Thresholds {
		t.set(name, value)
	}
}

// HasComponent says whether the recipe declares a component.
func (r *Recipe) HasComponent(name string) bool {
	return slices.ContainsFunc(r.Components, func(c Component) bool { return c.Name == name })
}
