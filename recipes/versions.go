package recipes

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/mod/semver"

	"aicr/internal/spec"
)

//go:embed versions.yaml
var versionsFile []byte

// VersionsFile is where the embedded document lies in this repository.
const VersionsFile = "recipes/versions.yaml"

// The pins that this product itself asks for by name.
const (
	DynamoChart  = "dynamo-platform"
	RuntimeImage = "dynamo-vllm-runtime"
)

// Versions reads the embedded versions.yaml.
func Versions() (*spec.Versions, error) {
	v, err := spec.DecodeVersions(versionsFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", VersionsFile, err)
	}
	return v, nil
}

// Drift is a pair of versions that do not go together, or one that is none.
type Drift struct {
	Rule string `json:"rule"`
	Path string `json:"path"`
	Line int    `json:"line,omitempty"` // 0 when the document was not read from a file
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// The rules of CheckVersions.
const (
	RuleDuplicate     = "duplicate-name"
	RuleChartMissing  = "chart-missing"
	RuleChartVersion  = "chart-version"
	RuleReference     = "image-reference"
	RuleDigest        = "image-digest"
	RuleLatest        = "image-latest"
	RuleTag           = "image-tag"
	RuleOwnTag        = "own-image-tag"
	RuleNoRuntime     = "runtime-missing"
	RuleFollows       = "follows-unknown"
	RuleMinor         = "minor-differs"
	RuleToolVersion   = "tool-version"
	RuleReleaseOrder  = "release-order"
	RuleReleaseOf     = "release-version"
	RuleReleaseAbsent = "release-unknown"
	RuleGraphAPI      = "graph-api"
	RuleRouterMode    = "router-mode"
	RuleVLLM          = "vllm-unknown"
)

// CheckVersions says which of the pinned versions do not go together. It looks at the
// document alone: nothing is asked for over a network.
func CheckVersions(v *spec.Versions) []Drift {
	c := &versionsCheck{v: v}
	c.charts()
	c.images()
	c.tools()
	c.releases()
	c.uses()
	slices.SortStableFunc(c.found, func(a, b Drift) int { return a.Line - b.Line })
	return c.found
}

type versionsCheck struct {
	v     *spec.Versions
	found []Drift
}

func (c *versionsCheck) drift(rule, path, hint, format string, args ...any) {
	c.found = append(c.found, Drift{rule, path, c.v.Line(path), fmt.Sprintf(format, args...), hint})
}

func (c *versionsCheck) charts() {
	seen := map[string]bool{}
	for i, chart := range c.v.Charts {
		at := fmt.Sprintf("charts[%d]", i)
		for _, n := range slices.Compact([]string{chart.Name, componentOf(chart)}) {
			if seen[n] {
				c.drift(RuleDuplicate, at+".name", "", "two charts are called %s", n)
			}
			seen[n] = true
		}
		if !wholeVersion(chart.Version) {
			c.drift(RuleChartVersion, at+".version", "write it as 1.2.3", "%q of chart %s is no semantic version", chart.Version, chart.Name)
		}
	}
	if _, ok := c.v.Chart(DynamoChart); !ok {
		c.drift(RuleChartMissing, "charts", "", "there is no chart %s: nothing says which release is deployed", DynamoChart)
	}
}

func componentOf(c spec.PinnedChart) string {
	if c.Component != "" {
		return c.Component
	}
	return c.Name
}

func (c *versionsCheck) images() {
	seen := map[string]bool{}
	for i, image := range c.v.Images {
		at := fmt.Sprintf("images[%d]", i)
		if seen[image.Name] {
			c.drift(RuleDuplicate, at+".name", "", "two images are called %s", image.Name)
		}
		seen[image.Name] = true
		if _, err := name.NewRepository(image.Repository, name.StrictValidation); err != nil {
			c.drift(RuleReference, at+".repository", "write it as registry/organisation/name, without a tag", "image %s: %v", image.Name, err)
		} else if _, err := name.NewTag(image.Repository+":"+image.Tag, name.StrictValidation); err != nil {
			c.drift(RuleReference, at+".tag", "", "image %s: %v", image.Name, err)
		}
		if image.Digest != "" {
			if _, err := name.NewDigest(image.Repository + "@" + image.Digest); err != nil {
				c.drift(RuleDigest, at+".digest", "write it as sha256:...", "image %s: %v", image.Name, err)
			}
		}
		c.tag(at, image)
		c.follows(at, "tag", "image", image.Name, image.Tag, image.Follows)
	}
	if !slices.ContainsFunc(c.v.Images, func(m spec.PinnedImage) bool { return m.Name == RuntimeImage && m.Follows == DynamoChart }) {
		c.drift(RuleNoRuntime, "images", "write follows: "+DynamoChart, "no image %s follows chart %s: the runtime could drift from it", RuntimeImage, DynamoChart)
	}
}

func (c *versionsCheck) tag(at string, image spec.PinnedImage) {
	switch {
	case image.Ours && image.Tag != latest:
		c.drift(RuleOwnTag, at+".tag", "write tag: latest", "image %s is this program's: its tag goes with the build, and is not %s", image.Name, image.Tag)
	case image.Ours:
	case image.Tag == latest:
		c.drift(RuleLatest, at+".tag", "write the version", "image %s is pinned to latest, which is another one every day", image.Name)
	case !wholeVersion(image.Tag):
		c.drift(RuleTag, at+".tag", "Dynamo's operator refuses what is no semantic version since 1.4", "tag %q of image %s is no semantic version", image.Tag, image.Name)
	}
}

// follows holds what follows a chart against it.
func (c *versionsCheck) follows(at, field, kind, named, version, chart string) {
	if chart == "" {
		return
	}
	pinned, ok := c.v.Chart(chart)
	switch {
	case !ok:
		var known []string
		for _, one := range c.v.Charts {
			known = append(known, one.Name)
		}
		hint := closest(chart, known, "the charts are "+strings.Join(known, ", "))
		c.drift(RuleFollows, at+".follows", hint, "%s %s follows chart %s, which is not pinned", kind, named, chart)
	case wholeVersion(version) && wholeVersion(pinned.Version) && spec.MinorOf(version) != spec.MinorOf(pinned.Version):
		c.drift(RuleMinor, at+"."+field, "bump both", "%s %s is at %s and chart %s at %s: they have to be of one minor version", kind, named, version, chart, pinned.Version)
	}
}

// toolVersion is wider than a semantic version: PyPI has 1.2.0.post1.
var toolVersion = regexp.MustCompile(`^v?[0-9]+(\.[0-9]+)+([-.+][0-9A-Za-z.-]+)?$`)

func (c *versionsCheck) tools() {
	seen := map[string]bool{}
	for i, tool := range c.v.Tools {
		at := fmt.Sprintf("tools[%d]", i)
		if seen[tool.Name] {
			c.drift(RuleDuplicate, at+".name", "", "two tools are called %s", tool.Name)
		}
		seen[tool.Name] = true
		if !toolVersion.MatchString(tool.Version) {
			c.drift(RuleToolVersion, at+".version", "write it as 1.2.3", "%q of tool %s is no version", tool.Version, tool.Name)
		}
		c.follows(at, "version", "tool", tool.Name, tool.Version, tool.Follows)
	}
}

func (c *versionsCheck) releases() {
	last := ""
	for i, r := range c.v.Releases {
		at := fmt.Sprintf("releases[%d]", i)
		if !wholeVersion(r.Since) {
			c.drift(RuleReleaseOf, at+".since", "write it as 1.2.3", "%q is no semantic version", r.Since)
			continue
		}
		if last != "" && semver.Compare(withV(spec.MinorOf(last)), withV(spec.MinorOf(r.Since))) >= 0 {
			c.drift(RuleReleaseOrder, at+".since", "one for each minor version, the oldest first", "release %s comes after %s", r.Since, last)
		}
		last = r.Since
	}
}

// uses holds what the deployment asks for against the release that is pinned: the API
// is served by what the chart installs, the router runs in the image.
func (c *versionsCheck) uses() {
	if chart, ok := c.v.Chart(DynamoChart); ok && wholeVersion(chart.Version) {
		at := fmt.Sprintf("charts[%d].version", slices.Index(c.v.Charts, chart))
		r, known := ReleaseOf(c.v, chart.Version)
		switch {
		case !known:
			c.drift(RuleReleaseAbsent, at, "add its row to releases, with its source", "nothing is known of Dynamo %s, which chart %s is at", chart.Version, chart.Name)
		case !slices.Contains(r.GraphAPIs, c.v.Uses.GraphAPI):
			c.drift(RuleGraphAPI, "uses.graphAPI", "it serves "+strings.Join(r.GraphAPIs, ", "), "Dynamo %s serves no DynamoGraphDeployment %s", chart.Version, c.v.Uses.GraphAPI)
		}
	}
	for i, image := range c.v.Images {
		if image.Follows != DynamoChart || !wholeVersion(image.Tag) {
			continue
		}
		at := fmt.Sprintf("images[%d].tag", i)
		r, known := ReleaseOf(c.v, image.Tag)
		switch {
		case !known:
			c.drift(RuleReleaseAbsent, at, "add its row to releases, with its source", "nothing is known of Dynamo %s, which image %s is of", image.Tag, image.Name)
		case image.Name != RuntimeImage:
		case !slices.Contains(r.RouterModes, c.v.Uses.RouterMode):
			c.drift(RuleRouterMode, "uses.routerMode", "it has "+strings.Join(r.RouterModes, ", "), "Dynamo %s has no router mode %s", image.Tag, c.v.Uses.RouterMode)
		}
		if known && image.Name == RuntimeImage && !wholeVersion(r.VLLM) {
			c.drift(RuleVLLM, at, "write vllm in the row of releases", "which vLLM is in image %s at %s is not known", image.Name, image.Tag)
		}
	}
}

// ReleaseOf is what is known of a version of Dynamo: the row of its minor version, if
// that is not above it.
func ReleaseOf(v *spec.Versions, version string) (spec.DynamoRelease, bool) {
	for _, r := range v.Releases {
		if wholeVersion(r.Since) && spec.MinorOf(r.Since) == spec.MinorOf(version) && semver.Compare(withV(r.Since), withV(baseOf(version))) <= 0 {
			return r, true
		}
	}
	return spec.DynamoRelease{}, false
}

func withV(version string) string { return "v" + strings.TrimPrefix(version, "v") }

// wholeVersion reports whether a text is a semantic version with all its three numbers.
func wholeVersion(version string) bool {
	v := withV(version)
	return semver.IsValid(v) && semver.Canonical(v) == strings.TrimSuffix(v, semver.Build(v))
}

// baseOf leaves out what comes after the three numbers: a build for another CUDA is the
// same release.
func baseOf(version string) string {
	v := withV(version)
	return strings.TrimSuffix(strings.TrimSuffix(v, semver.Build(v)), semver.Prerelease(v))
}
