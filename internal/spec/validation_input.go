package spec

// ValidationInputKind is the kind of a ValidationInput, whose apiVersion is the
// catalog's.
const ValidationInputKind = "ValidationInput"

// ValidationInput is what a check of upstream's is given: a whole recipe, with its
// phases below config. As a part of another object it has no kind and no apiVersion.
type ValidationInput struct {
	Kind                string                   `json:"kind,omitempty"`
	APIVersion          string                   `json:"apiVersion,omitempty"`
	Metadata            *ValidationInputMetadata `json:"metadata,omitempty"`
	Config              RecipePhases             `json:"config"`
	ComponentRefs       wholeComponents          `json:"componentRefs,omitzero"`
	Criteria            *Criteria                `json:"criteria,omitempty"`
	Constraints         []RecipeConstraint       `json:"constraints,omitzero"`
	GPUAllocationPolicy string                   `json:"gpuAllocationPolicy,omitempty"`
	Unused              []Unused                 `json:"-"`
}

// ValidationInputMetadata names what the input was made by.
type ValidationInputMetadata struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// The ways in which a workload asks for GPUs.
const (
	PolicyDevicePlugin = "device-plugin-extended-resource"
	PolicyDRAClaim     = "dra-resource-claim"
	PolicyDRAExtended  = "dra-extended-resource"
	PolicyUnspecified  = "unspecified"
)

// Recipe is the input as a whole recipe, so that it is planned and checked like any
// other.
func (v *ValidationInput) Recipe() *Recipe {
	r := &Recipe{Kind: ValidationInputKind, APIVersion: v.APIVersion, Wants: v.Constraints, Components: v.ComponentRefs, Phases: v.Config,
		GPUPolicy: v.GPUAllocationPolicy, Unused: v.Unused}
	if v.Criteria != nil {
		r.Criteria = *v.Criteria
	}
	if v.Metadata != nil {
		r.Name = v.Metadata.Name
		if v.Metadata.Version != "" {
			r.Resolution = &Resolution{Version: v.Metadata.Version}
		}
	}
	return r
}

// validationInputOf is the input that Recipe made the recipe of.
func validationInputOf(r *Recipe) *ValidationInput {
	v := &ValidationInput{APIVersion: r.APIVersion, Config: r.Phases, ComponentRefs: r.Components, Constraints: r.Wants, GPUAllocationPolicy: r.GPUPolicy, Criteria: someCriteria(r)}
	if r.APIVersion != "" {
		v.Kind = ValidationInputKind
	}
	if version := r.madeBy(); r.Name != "" || version != "" {
		v.Metadata = &ValidationInputMetadata{r.Name, version}
	}
	return v
}
