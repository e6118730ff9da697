package spec

import (
	"slices"
	"time"
)

// CatalogKind is the kind of a Catalog document, and CatalogVersion its apiVersion.
const (
	CatalogKind    = "ValidatorCatalog"
	CatalogVersion = "validator.nvidia.com/v1alpha1"
)

// CatalogVersions are the apiVersions of a Catalog that are read.
func CatalogVersions() []string { return []string{CatalogVersion, "aicr.nvidia.com/v1"} }

// Catalog lists the checks that there are.
type Catalog struct {
	APIVersion string           `json:"apiVersion,omitempty"`
	Kind       string           `json:"kind,omitempty"`
	Metadata   *CatalogMetadata `json:"metadata,omitempty"`
	Validators []CatalogEntry   `json:"validators"` // the checks, each by a name of its own
	Unused     []Unused         `json:"-"`
}

// CatalogMetadata names a catalog.
type CatalogMetadata struct {
	Name    string   `json:"name,omitempty"`
	Version BareText `json:"version,omitempty"` // of the catalog itself
}

// CatalogEntry is a check: its phase, its image, how long it may take, and the
// variables that it is given.
type CatalogEntry struct {
	Name               string               `json:"name"`                  // what a recipe asks for it by: lower-case letters, digits and dashes
	Phase              string               `json:"phase"`                 // the phase in which it runs
	Description        string               `json:"description,omitempty"` // what it looks at, in a line
	Image              string               `json:"image,omitempty"`       // the image that it runs in; this program's own where it is not said
	Timeout            string               `json:"timeout,omitempty"`     // how long it may take, as 90s or 1h30m; 5m when not said
	Args               []string             `json:"args,omitzero"`         // arguments of its container
	Env                []EnvVar             `json:"env,omitzero"`          // variables of its container: where knobs are set for everybody
	Resources          *CheckResources      `json:"resources,omitempty"`   // what its container may use; one CPU and 1Gi when not said
	DependencyAffinity []DependencyAffinity `json:"dependencyAffinity,omitzero" aicr:"unused"`
}

// EnvVar is a variable of a container.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// CheckResources is what a check's container asks for and is held to. Both are said,
// or neither.
type CheckResources struct {
	CPU    BareText `json:"cpu,omitempty"`    // as 500m, or 2
	Memory BareText `json:"memory,omitempty"` // as 512Mi
}

// DependencyAffinity wishes a check near the pods of a component.
type DependencyAffinity struct {
	ComponentRef     string            `json:"componentRef"`
	PodLabelSelector map[string]string `json:"podLabelSelector,omitempty"`
	Requirement      string            `json:"requirement,omitempty"` // whether it may run elsewhere
}

// BareText is text that needs no quotes where it looks like a number: 256 is what an
// environment variable says, and hardly anybody quotes it.
type BareText string

// DefaultDeadline is how long a check may take that does not say.
const DefaultDeadline = 5 * time.Minute

// Deadline is how long the check may take.
func (e CatalogEntry) Deadline() time.Duration {
	if took, err := time.ParseDuration(e.Timeout); err == nil {
		return took
	}
	return DefaultDeadline // DecodeCatalog lets nothing else through that does not parse
}

// Named finds a check.
func (c *Catalog) Named(name string) (CatalogEntry, bool) {
	i := slices.IndexFunc(c.Validators, func(e CatalogEntry) bool { return e.Name == name })
	if i < 0 {
		return CatalogEntry{}, false
	}
	return c.Validators[i], true
}

// Merge is this catalog with another laid over it: where both have a check, the other's
// is taken whole, in the place of this one's.
func (c *Catalog) Merge(other *Catalog) *Catalog {
	merged := *c
	merged.Validators = slices.Clone(c.Validators)
	for _, e := range other.Validators {
		i := slices.IndexFunc(merged.Validators, func(mine CatalogEntry) bool { return mine.Name == e.Name })
		if i < 0 {
			merged.Validators = append(merged.Validators, e)
		} else {
			merged.Validators[i] = e
		}
	}
	merged.Unused = slices.Concat(c.Unused, other.Unused)
	return &merged
}
