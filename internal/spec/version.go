package spec

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// ReleaseVersion is a version as clusters write it: 1 to 4 numbers, and what a vendor
// or a builder put after them. A build is no less than the release that it is of; only
// alpha, beta, rc and their like come before it.
type ReleaseVersion struct {
	parts  [4]uint64
	said   int // how many of them were written
	before string
	gke    uint64
	isGKE  bool
}

const mostVersionText = 128

// preWords are what a pre-release is told by.
const preWords = `alpha|beta|rc|preview|pre|dev|nightly|snapshot|canary`

var (
	versionShape = regexp.MustCompile(`^v?([0-9]+(?:\.[0-9]+){0,3})(.*)$`)
	// A pre-release is told by its word. Python writes it without a dash.
	beforeRelease = regexp.MustCompile(`(?i)^(?:[-.]?(` + preWords + `)|(a|b)(?:[0-9]))[-.]?([0-9]*)((?:\.[0-9a-z]+)*)(?:[-+].*)?$`)
	ofGKE         = regexp.MustCompile(`(?:^|[-.])gke\.([^-+]*)`)
	tagNumbers    = regexp.MustCompile(`^v?[0-9]+\.[0-9]+(\.[0-9]+)?`)
	tagWord       = regexp.MustCompile(`(?i)^[-.]?(` + preWords + `|post)[.-]?[0-9]*([.-][0-9]+)*`)
	afterRelease  = regexp.MustCompile(`^(?:[-+][0-9A-Za-z.+_~-]*|\.post[0-9]+(?:[-+][0-9A-Za-z.+_~-]*)?)?$`)
)

// ParseReleaseVersion reads a version. The error says that it is none.
func ParseReleaseVersion(text string) (ReleaseVersion, error) {
	var v ReleaseVersion
	none := fmt.Errorf("%s is no version", quote(text))
	if len(text) > mostVersionText {
		return v, none
	}
	shape := versionShape.FindStringSubmatch(text)
	if shape == nil {
		return v, none
	}
	for i, part := range strings.Split(shape[1], ".") {
		n, err := strconv.ParseUint(part, 10, 63) // 04 is 4
		if err != nil {
			return v, none
		}
		v.parts[i], v.said = n, i+1
	}
	rest := shape[2]
	if strings.HasSuffix(rest, "-") || strings.HasSuffix(rest, ".") {
		return v, none // cut off
	}
	if build := ofGKE.FindStringSubmatch(rest); build != nil {
		n, err := strconv.ParseUint(build[1], 10, 63)
		if err != nil {
			return v, fmt.Errorf("%s is no version: after gke. comes a number", quote(text))
		}
		v.gke, v.isGKE = n, true
	}
	if pre := beforeRelease.FindStringSubmatch(rest); pre != nil {
		v.before = preRelease(pre)
		if !semver.IsValid("v0.0.0-" + v.before) {
			return v, none
		}
		return v, nil
	}
	if !afterRelease.MatchString(rest) {
		return v, none
	}
	return v, nil
}

// preRelease writes rc1, -rc.1 and rc-01 alike, so that they compare.
func preRelease(found []string) string {
	word := strings.ToLower(found[1])
	switch {
	case strings.EqualFold(found[2], "a"):
		word = "alpha"
	case strings.EqualFold(found[2], "b"):
		word = "beta"
	}
	all := []string{word}
	for one := range strings.SplitSeq(found[3]+found[4], ".") {
		if one == "" {
			continue
		}
		if n, err := strconv.ParseUint(one, 10, 63); err == nil {
			one = strconv.FormatUint(n, 10)
		}
		all = append(all, one)
	}
	return strings.Join(all, ".")
}

func (v ReleaseVersion) core() string {
	return fmt.Sprintf("v%d.%d.%d", v.parts[0], v.parts[1], v.parts[2])
}

// Compare says whether v comes before w (-1), after it (1), or is it (0). Builds of
// GKE are counted up, and compare by their count; one that has none comes before one
// that is asked for.
func (v ReleaseVersion) Compare(w ReleaseVersion) int {
	pre := func(x ReleaseVersion) string {
		if x.before == "" {
			return "v0.0.0"
		}
		return "v0.0.0-" + x.before
	}
	build := 0
	switch {
	case v.isGKE && w.isGKE:
		build = cmp.Compare(v.gke, w.gke)
	case w.isGKE:
		build = -1
	}
	return cmp.Or(semver.Compare(v.core(), w.core()), cmp.Compare(v.parts[3], w.parts[3]), semver.Compare(pre(v), pre(w)), build)
}

// compareAsFarAs compares as far as w goes: every 1.34.x is within 1.34.
func (v ReleaseVersion) compareAsFarAs(w ReleaseVersion) int {
	for i := w.said; i < len(v.parts); i++ {
		v.parts[i] = 0
	}
	return v.Compare(w)
}

// TagVersion is the version that an image's tag says, or "". What stands behind it says
// how the image was built (-cuda13, -ubuntu22.04), unless it is a pre-release.
func TagVersion(tag string) string {
	version := tagNumbers.FindString(tag)
	rest := tag[len(version):]
	if version == "" || rest != "" && !strings.ContainsRune("-._+", rune(rest[0])) && !tagWord.MatchString(rest) {
		return "" // a word, or a date or a commit that begins like a version
	}
	return version + tagWord.FindString(rest)
}

// TagRelease is the release that Dynamo's operator reads from an image's tag, 1.2.3 of
// v1.2.3-cuda13, or "" where it reads none: to it a tag is a semantic version with all of
// its three numbers, or no version. TagVersion takes more, as people write them.
func TagRelease(tag string) string {
	if strings.HasPrefix(tag, "v") || strings.HasPrefix(tag, "V") {
		tag = tag[1:]
	}
	version := "v" + tag
	core, _, _ := strings.Cut(version, "-")
	core, _, _ = strings.Cut(core, "+")
	if !semver.IsValid(version) || strings.Count(core, ".") != 2 {
		return ""
	}
	return core[1:]
}

// MinorOf is the part of a version that two which go together share: 1.4 of v1.4.1. It
// is "" of what is no version, or says no minor.
func MinorOf(version string) string {
	v, err := ParseReleaseVersion(version)
	if err != nil || v.said < 2 {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.parts[0], v.parts[1])
}
