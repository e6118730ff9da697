package recipes

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"aicr/internal/spec"
)

// SkewState is how what runs differs from what is pinned.
type SkewState string

// The states. What is unknown is never the same.
const (
	SkewSame     SkewState = "same"
	SkewPatch    SkewState = "differs in patch"
	SkewMinor    SkewState = "differs in minor"
	SkewMajor    SkewState = "differs in major"
	SkewOlder    SkewState = "served in an older version"
	SkewLacks    SkewState = "not served"
	SkewAbsent   SkewState = "absent"
	SkewUnpinned SkewState = "not pinned"
	SkewUnknown  SkewState = "unknown"
)

// SkewLine is one version beside another.
type SkewLine struct {
	Name   string    `json:"name"`
	Pinned string    `json:"pinned,omitempty"`
	Found  string    `json:"found,omitempty"`
	State  SkewState `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Fact   string    `json:"fact"` // that the found one is from
	// Matters marks what a deployment stands or falls by: Dynamo's own versions. A GPU
	// operator of another minor is told, and is nobody's fault.
	Matters bool `json:"matters"`
}

// Breaks reports whether a deployment cannot be expected to work.
func (l SkewLine) Breaks() bool {
	return l.Matters && (l.State == SkewMinor || l.State == SkewMajor || l.State == SkewLacks)
}

// Open reports whether it is not known that it can.
func (l SkewLine) Open() bool { return l.Matters && l.State == SkewUnknown }

// Broken says, in words, why a deployment of what is pinned cannot be expected to work
// on the cluster of a snapshot; "" when nothing speaks against it. What other workers
// run there is their own affair, unless they do not go with the chart either.
func Broken(lines []SkewLine) string {
	for _, l := range slices.Backward(lines) { // what is wrong there by itself comes last, and says most
		switch {
		case !l.Breaks() || l.Name == RuntimeImage:
		case l.State == SkewLacks:
			return fmt.Sprintf("version skew: %s %s is not served there", l.Name, l.Pinned)
		case l.Name == runtimeThere:
			return fmt.Sprintf("version skew: runtime %s does not go with chart %s", l.Found, l.Pinned)
		default:
			return fmt.Sprintf("version skew: %s is at %s there, and pinned to %s", l.Name, l.Found, l.Pinned)
		}
	}
	return ""
}

// runtimeThere names the line that holds what was found against what was found.
const runtimeThere = "there: runtime against chart"

// Skew holds what a snapshot found against what is pinned and, in the last line, the
// runtime that it found against the chart that it found.
func Skew(v *spec.Versions, s *spec.Snapshot) []SkewLine {
	chart, _ := v.Chart(DynamoChart)
	runtime, _ := v.Image(RuntimeImage)
	platform := comparedVersion(DynamoChart+" chart", chart.Version, versionThere(s, spec.FactDynamoChart))
	operator := comparedVersion(DynamoChart+" operator", chart.Version, versionThere(s, spec.FactDynamoOperator, "K8s.image.kubernetes-operator"))
	workers := comparedVersion(RuntimeImage, runtime.Tag, versionThere(s, spec.FactDynamoRuntime, "K8s.image."+path.Base(runtime.Repository)))
	// One speaks for the other: the chart installs the operator of its own version.
	platform.Matters = platform.State != SkewUnknown || operator.State == SkewUnknown
	operator.Matters = operator.State != SkewUnknown || platform.State == SkewUnknown
	workers.Matters = true
	lines := []SkewLine{platform, operator, workers, servedAPI(s, v, platform, operator)}
	for _, other := range []struct{ name, fact, image string }{
		{"gpu-operator", spec.FactGPUOperator, "K8s.image.gpu-operator"},
		{"kai-scheduler", spec.FactKAI, ""},
		{"grove", spec.FactGrove, ""},
		{"dcgm-exporter", spec.FactDCGM, "K8s.image.dcgm-exporter"},
	} {
		pin, _ := v.Chart(other.name)
		lines = append(lines, comparedVersion(other.name, pin.Version, versionThere(s, other.fact, other.image)))
	}
	return append(lines, runtimeAgainstChart(platform, operator, workers))
}

// thereVersion is a version of a snapshot. The state is "" when there is one.
type thereVersion struct {
	fact, text string
	state      SkewState
	reason     string
}

// versionThere reads the first of these facts that the snapshot says. Upstream's
// snapshots have no others than the tags of images.
func versionThere(s *spec.Snapshot, facts ...string) thereVersion {
	there := thereVersion{fact: facts[0], state: SkewUnknown, reason: "the snapshot does not say"}
	for _, fact := range facts {
		f, err := s.Fact(fact)
		switch {
		case fact == "":
		case err != nil:
			return thereVersion{fact, "", SkewUnknown, err.Error()}
		case f.Known:
			return thereVersion{fact, f.Value.String(), "", ""}
		case !f.Looked:
		case f.Unknown.Reason == spec.ReasonAbsent:
			return thereVersion{fact, "", SkewAbsent, f.Unknown.Detail}
		default:
			return thereVersion{fact, "", SkewUnknown, f.Unknown.String()}
		}
	}
	return there
}

func comparedVersion(name, pinned string, there thereVersion) SkewLine {
	l := SkewLine{Name: name, Pinned: pinned, Found: there.text, State: there.state, Reason: there.reason, Fact: there.fact}
	if l.State == "" {
		l.State, l.Reason = difference(pinned, l.Found)
	}
	return l
}

// difference says how one version differs from another.
func difference(pinned, found string) (SkewState, string) {
	switch {
	case pinned == "":
		return SkewUnpinned, ""
	case !wholeVersion(found):
		return SkewUnknown, fmt.Sprintf("%q is no semantic version", found)
	case !wholeVersion(pinned):
		return SkewUnknown, fmt.Sprintf("%q is no semantic version", pinned)
	case semver.Major(withV(pinned)) != semver.Major(withV(found)):
		return SkewMajor, ""
	case spec.MinorOf(pinned) != spec.MinorOf(found):
		return SkewMinor, ""
	case semver.Compare(withV(pinned), withV(found)) != 0:
		return SkewPatch, ""
	}
	return SkewSame, ""
}

// servedAPI looks for the version of DynamoGraphDeployment that is used among those
// that are served, or else another that the pinned release takes: a deployment is written
// in the one that is there.
func servedAPI(s *spec.Snapshot, v *spec.Versions, platform, operator SkewLine) SkewLine {
	wanted := v.Uses.GraphAPI
	release, _ := ReleaseOf(v, platform.Pinned)
	there := versionThere(s, spec.FactGraphCRD)
	l := SkewLine{Name: "DynamoGraphDeployment API", Pinned: wanted, Found: there.text, State: there.state, Reason: there.reason, Fact: there.fact, Matters: true}
	served := strings.FieldsFunc(l.Found, func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case l.State == SkewAbsent && (platform.Found != "" || operator.Found != ""):
		l.State, l.Reason = SkewLacks, "Dynamo is there, and its CRD is not"
	case l.State != "":
	case slices.Contains(served, wanted):
		l.State = SkewSame
	default:
		l.State = SkewLacks
		for _, other := range release.GraphAPIs {
			if slices.Contains(served, other) {
				l.State, l.Reason = SkewOlder, "it is deployed as "+other
			}
		}
	}
	return l
}

// runtimeAgainstChart holds the runtime that was found against the chart that was found,
// or its operator where no chart is known.
func runtimeAgainstChart(platform, operator, workers SkewLine) SkewLine {
	if platform.Found == "" && operator.Found != "" {
		platform = operator
	}
	l := SkewLine{Name: runtimeThere, Pinned: platform.Found, Found: workers.Found, Fact: workers.Fact, Matters: true}
	switch {
	case platform.State == SkewAbsent || workers.State == SkewAbsent:
		l.State, l.Reason = SkewAbsent, "there are not both"
	case platform.Found == "":
		l.State, l.Reason = SkewUnknown, "the chart: "+platform.Reason
	case workers.Found == "":
		l.State, l.Reason = SkewUnknown, "the runtime: "+workers.Reason
	default:
		l.State, l.Reason = difference(platform.Found, workers.Found)
	}
	return l
}
