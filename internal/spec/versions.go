package spec

// VersionsKind is the kind of a Versions document, and VersionsVersion its apiVersion.
const (
	VersionsKind    = "Versions"
	VersionsVersion = "aicr.run/v1alpha1"
)

// Versions is what is pinned: every image, chart and tool that this product deploys or
// is tried with, and what is known of the releases that they are of. It is the only
// document that names a version.
type Versions struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Charts     []PinnedChart   `json:"charts"`
	Images     []PinnedImage   `json:"images"`
	Tools      []PinnedTool    `json:"tools"`
	Uses       VersionUses     `json:"uses"`
	Releases   []DynamoRelease `json:"releases"`

	lines map[string]int
}

// PinnedChart is a Helm chart that a recipe's component is installed by.
type PinnedChart struct {
	Name      string `json:"name"`
	Source    string `json:"source"`
	Version   string `json:"version"`
	Component string `json:"component,omitempty"` // of recipes; its own name when not given
}

// PinnedImage is a container image. One that follows a chart has its minor version. A
// digest is beside the tag, never instead of it: what a digest alone is of, nobody can
// compare.
type PinnedImage struct {
	Name       string `json:"name"`
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
	Digest     string `json:"digest,omitempty"`
	Follows    string `json:"follows,omitempty"` // a chart
	Ours       bool   `json:"ours,omitempty"`    // built from this repository: its tag goes with the build
}

// PinnedTool is a program or a library that is built with, or that the tests hold
// something against.
type PinnedTool struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Follows string   `json:"follows,omitempty"` // a chart
	Locked  []string `json:"locked"`            // the files that have to have the same version
}

// VersionUses is what the deployment asks of the pinned release.
type VersionUses struct {
	GraphAPI   string `json:"graphAPI"`   // of DynamoGraphDeployment
	RouterMode string `json:"routerMode"` // of the frontend
}

// DynamoRelease is what the releases of one minor version of Dynamo have. A minor
// version without one is not known, and nothing is concluded from its neighbours.
type DynamoRelease struct {
	Since       string   `json:"since"`
	GraphAPIs   []string `json:"graphAPIs"`
	RouterModes []string `json:"routerModes"`
	VLLM        string   `json:"vllm,omitempty"` // that its runtime image has; "" when not known
	Source      string   `json:"source"`
}

// Line is where a value was written, as images[0].tag, or what it would be part of; 0
// when the document was not read from a file.
func (v *Versions) Line(path string) int {
	for ; ; path = parent(path) {
		if line, ok := v.lines[path]; ok || path == "" {
			return line
		}
	}
}

// Chart finds a chart by its name or by the component of recipes that it installs.
func (v *Versions) Chart(name string) (PinnedChart, bool) {
	for _, c := range v.Charts {
		if c.Name == name || c.Component != "" && c.Component == name {
			return c, true
		}
	}
	return PinnedChart{}, false
}

// Image finds an image by its name.
func (v *Versions) Image(name string) (PinnedImage, bool) {
	for _, i := range v.Images {
		if i.Name == name {
			return i, true
		}
	}
	return PinnedImage{}, false
}
