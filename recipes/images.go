package recipes

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"aicr/internal/spec"
)

const latest = "latest"

// Build says which program this is.
type Build struct{ Version, Commit string }

// Overrides is what a user wants of images: those of another registry, or another tag.
type Overrides struct{ Registry, Tag string }

// Rules is what an image reference is resolved by.
type Rules struct {
	Build     Build
	Overrides Overrides
	// Ours marks an image that is built with this program: the checks of the catalog. Its
	// tag goes with the build, and a user may say another. What is not ours, a runtime
	// for one, has a version that a chart goes with: a tag that is meant for a branch of
	// this program must never reach it.
	Ours bool
	// SideLoaded marks an image that was put on the nodes by hand.
	SideLoaded bool
}

// Image is a reference to pull, and when to.
type Image struct {
	Name       string `json:"name,omitempty"` // of the pin
	Ref        string `json:"ref"`
	PullPolicy string `json:"pullPolicy"`
}

// The pull policies of Kubernetes.
const (
	PullNever   = "Never"
	PullAlways  = "Always"
	PullMissing = "IfNotPresent"
)

// Resolve says which image a reference stands for. A registry is another for every
// image, so that one mirror serves all of them.
func Resolve(ref string, r Rules) (Image, error) {
	at, err := parseImage(ref)
	if err != nil {
		return Image{}, err
	}
	if tag := r.Overrides.Tag; tag != "" && !imageTag.MatchString(tag) {
		return Image{}, fmt.Errorf("%s=%s: no tag: letters, digits, dots, dashes and underscores, at most 128", spec.KnobTag, tag)
	}
	if at, err = at.moved(r.Overrides.Registry); err != nil {
		return Image{}, err
	}
	override := r.Overrides.Tag
	switch {
	case at.digest != "": // says which image it is, whatever the tag
		override = ""
	case !r.Ours:
		override = ""
	case override != "":
		at.tag = override
	case at.tag == latest:
		at.tag = r.Build.tag()
	}
	resolved := Image{Ref: at.String(), PullPolicy: PullMissing}
	switch {
	case r.SideLoaded:
		resolved.PullPolicy = PullNever
	case at.digest != "":
	case override != "" || at.tag == latest:
		resolved.PullPolicy = PullAlways
	}
	return resolved, nil
}

// Images resolves every pinned image, in their order.
func Images(v *spec.Versions, b Build, o Overrides) ([]Image, error) {
	var all []Image
	var wrong []error
	from := map[string]string{}
	if _, err := Resolve("registry.example/aicr", Rules{Overrides: o, Ours: true}); err != nil {
		return nil, err // what is wrong with the overrides is so for every image: once is enough
	}
	for _, pin := range v.Images {
		ref := pin.Repository + ":" + pin.Tag
		if pin.Digest != "" {
			ref += "@" + pin.Digest
		}
		image, err := Resolve(ref, Rules{Build: b, Overrides: o, Ours: pin.Ours})
		if err != nil {
			wrong = append(wrong, fmt.Errorf("image %s: %w", pin.Name, err))
			continue
		}
		image.Name = pin.Name
		if other := from[image.Ref]; other != "" {
			wrong = append(wrong, fmt.Errorf("images %s and %s are both %s", other, pin.Name, image.Ref))
		}
		from[image.Ref] = pin.Name
		all = append(all, image)
	}
	return all, errors.Join(wrong...)
}

var (
	releaseVersion = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+$`)
	imageTag       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	pathPart       = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`) // of the OCI distribution specification
	commitHash     = regexp.MustCompile(`^[0-9a-f]{7,64}$`)
)

// tag is that of the image that belongs to this program. What `git describe` says of a
// commit after a release looks like a version too, and is none.
func (b Build) tag() string {
	switch {
	case releaseVersion.MatchString(b.Version):
		return "v" + strings.TrimPrefix(b.Version, "v")
	case commitHash.MatchString(b.Commit):
		return "sha-" + b.Commit
	}
	return latest
}

// imageParts is a reference, taken apart.
type imageParts struct{ repository, tag, digest string }

// parseImage takes a reference apart. One without a tag means latest.
func parseImage(ref string) (imageParts, error) {
	written, digest, hasDigest := strings.Cut(ref, "@")
	if hasDigest {
		if _, err := name.NewDigest(ref); err != nil {
			return imageParts{}, fmt.Errorf("%q is no image reference: %w", ref, err)
		}
	}
	tag, err := name.NewTag(written)
	if err != nil {
		return imageParts{}, fmt.Errorf("%q is no image reference: %w", ref, err)
	}
	parts := imageParts{repository: strings.TrimSuffix(written, ":"+tag.TagStr()), tag: tag.TagStr(), digest: digest}
	if _, err := repository(parts.repository); err != nil {
		return imageParts{}, fmt.Errorf("%q is no image reference: %w", ref, err)
	}
	if hasDigest && parts.repository == written {
		parts.tag = "" // none was written, and a digest needs none
	}
	return parts, nil
}

// repository reads a repository's name. The library takes any mix of the letters that a
// path may have, "/" and "a//b" with them; a registry does not.
func repository(written string) (name.Repository, error) {
	r, err := name.NewRepository(written)
	if err != nil {
		return r, err
	}
	for part := range strings.SplitSeq(r.RepositoryStr(), "/") {
		if !pathPart.MatchString(part) {
			return r, fmt.Errorf("%q is no part of a repository's path: small letters and digits, with dots, dashes or underscores between them", part)
		}
	}
	return r, nil
}

func (p imageParts) String() string {
	s := p.repository
	if p.tag != "" {
		s += ":" + p.tag
	}
	if p.digest != "" {
		s += "@" + p.digest
	}
	return s
}

// moved puts an image into another registry: that replaces the registry's host and the
// organisation, the first part of the path.
func (p imageParts) moved(registry string) (imageParts, error) {
	if registry == "" {
		return p, nil
	}
	registry = strings.TrimRight(registry, "/")
	if strings.Contains(registry, "://") {
		return p, fmt.Errorf("%s=%s: a registry has no scheme: write the host alone", spec.KnobRegistry, registry)
	}
	mirror, err := repository(registry + "/x")
	if err != nil {
		return p, fmt.Errorf("%s=%s: %w", spec.KnobRegistry, registry, err)
	}
	// What has neither a dot nor a port is an organisation of Docker Hub, to those who
	// pull: without this an air-gapped site would ask the internet.
	if host, _, _ := strings.Cut(registry, "/"); mirror.RegistryStr() == name.DefaultRegistry && host != "docker.io" && host != name.DefaultRegistry {
		return p, fmt.Errorf("%s=%s: %q is no registry's host: write host.domain or host:port before it", spec.KnobRegistry, registry, host)
	}
	from, err := repository(p.repository)
	if err != nil {
		return p, fmt.Errorf("%q is no repository: %w", p.repository, err)
	}
	path := from.RepositoryStr()
	if _, rest, ok := strings.Cut(path, "/"); ok {
		path = rest
	}
	p.repository = registry + "/" + path
	return p, nil
}
