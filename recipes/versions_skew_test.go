package recipes_test

import (
	"os"
	"strings"
	"testing"

	"aicr/internal/spec"
	"aicr/recipes"
)

// snapshotOf reads a small snapshot: each word is K8s.subtype.key=value, or ?reason.
func snapshotOf(t *testing.T, facts string) *spec.Snapshot {
	t.Helper()
	var b strings.Builder
	b.WriteString("kind: Snapshot\napiVersion: aicr.run/v1alpha2\nmeasurements:\n  - type: K8s\n    subtypes:\n")
	subtypes := map[string][2][]string{}
	var order []string
	for word := range strings.FieldsSeq(placeholders(t).Replace(facts)) {
		path, value, _ := strings.Cut(word, "=")
		subtype, key, _ := strings.Cut(path, ".")
		if _, ok := subtypes[subtype]; !ok {
			order = append(order, subtype)
		}
		all := subtypes[subtype]
		if reason, unknown := strings.CutPrefix(value, "?"); unknown {
			all[1] = append(all[1], key+": {reason: "+strings.ReplaceAll(reason, "_", " ")+", detail: of a test}")
		} else {
			all[0] = append(all[0], key+`: "`+value+`"`)
		}
		subtypes[subtype] = all
	}
	for _, subtype := range order {
		b.WriteString("      - subtype: " + subtype + "\n        data: {" + strings.Join(subtypes[subtype][0], ", ") + "}\n        unknown: {" + strings.Join(subtypes[subtype][1], ", ") + "}\n")
	}
	s, err := spec.DecodeSnapshot([]byte(b.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, &b)
	}
	return s
}

func TestSkew(t *testing.T) {
	const (
		chart, operator = "dynamo-platform.chart", "dynamo-platform.operator"
		runtime, crd    = "dynamo-runtime.version", "dynamo-crds.dynamographdeployments"
		well            = chart + "={dynamo} " + operator + "={dynamo} " + runtime + "={dynamo} " + crd + "=v1alpha1,v1beta1 "
	)
	for name, test := range map[string]struct {
		facts string
		line  string
		want  recipes.SkewState
		words string // of the reason
		end   string // breaks, open or ""
	}{
		"all is as it is pinned":                {well, "dynamo-vllm-runtime", recipes.SkewSame, "", ""},
		"a v is no difference":                  {strings.ReplaceAll(well, "{dynamo}", "v{dynamo}"), "dynamo-platform chart", recipes.SkewSame, "", ""},
		"another patch":                         {strings.ReplaceAll(well, "{dynamo}", "{dynamo-patched}"), "dynamo-platform chart", recipes.SkewPatch, "", ""},
		"another minor":                         {strings.ReplaceAll(well, "{dynamo}", "1.99.0"), "dynamo-platform chart", recipes.SkewMinor, "", "breaks"},
		"another major":                         {strings.ReplaceAll(well, "{dynamo}", "99.0.0"), "dynamo-platform operator", recipes.SkewMajor, "", "breaks"},
		"the published skew, against the pins":  {strings.Replace(strings.ReplaceAll(well, "{dynamo}", "1.0.2"), runtime+"=1.0.2", runtime+"=0.9.0", 1), "dynamo-vllm-runtime", recipes.SkewMajor, "", "breaks"},
		"the published skew, in itself":         {strings.Replace(strings.ReplaceAll(well, "{dynamo}", "1.0.2"), runtime+"=1.0.2", runtime+"=0.9.0", 1), "there: runtime against chart", recipes.SkewMajor, "", "breaks"},
		"an operator stands in for its chart":   {operator + "=1.0.2 " + runtime + "=0.9.0 " + crd + "=v1beta1", "there: runtime against chart", recipes.SkewMajor, "", "breaks"},
		"an older API is served":                {strings.ReplaceAll(well, ",v1beta1", ""), "DynamoGraphDeployment API", recipes.SkewOlder, "it is deployed as v1alpha1", ""},
		"no API is served that it knows":        {strings.ReplaceAll(well, "v1alpha1,v1beta1", "v1"), "DynamoGraphDeployment API", recipes.SkewLacks, "", "breaks"},
		"a part of a name is not the API":       {strings.ReplaceAll(well, "v1alpha1,v1beta1", "v1beta11"), "DynamoGraphDeployment API", recipes.SkewLacks, "", "breaks"},
		"the CRD is gone, and Dynamo is there":  {strings.ReplaceAll(well, crd+"=v1alpha1,v1beta1", crd+"=?absent"), "DynamoGraphDeployment API", recipes.SkewLacks, "its CRD is not", "breaks"},
		"forbidden is unknown":                  {strings.ReplaceAll(well, runtime+"={dynamo}", runtime+"=?forbidden"), "dynamo-vllm-runtime", recipes.SkewUnknown, "forbidden (of a test)", "open"},
		"mixed is unknown":                      {strings.ReplaceAll(well, runtime+"={dynamo}", runtime+"=?mixed"), "dynamo-vllm-runtime", recipes.SkewUnknown, "mixed", "open"},
		"latest is unknown":                     {strings.ReplaceAll(well, runtime+"={dynamo}", runtime+"=latest"), "dynamo-vllm-runtime", recipes.SkewUnknown, `"latest" is no semantic version`, "open"},
		"what nobody looked for is unknown":     {"server.version=v1.34.1", "dynamo-vllm-runtime", recipes.SkewUnknown, "the snapshot does not say", "open"},
		"a break is told beside an unknown":     {strings.Replace(strings.ReplaceAll(well, "{dynamo}", "99.0.0"), crd+"=v1alpha1,v1beta1", crd+"=?timed_out", 1), "DynamoGraphDeployment API", recipes.SkewUnknown, "timed out", "breaks"},
		"nothing is installed":                  {chart + "=?absent " + operator + "=?absent " + runtime + "=?absent " + crd + "=?absent", "there: runtime against chart", recipes.SkewAbsent, "", ""},
		"no worker runs yet":                    {strings.ReplaceAll(well, runtime+"={dynamo}", runtime+"=?absent"), "dynamo-vllm-runtime", recipes.SkewAbsent, "of a test", ""},
		"a GPU operator of another minor":       {well + "gpu-operator.version=v1.99.0", "gpu-operator", recipes.SkewMajor, "", ""},
		"a GPU operator that is pinned":         {well + "gpu-operator.version={gpu-operator}", "gpu-operator", recipes.SkewSame, "", ""},
		"what is not pinned is only told":       {well + "dcgm-exporter.version=4.4.1", "dcgm-exporter", recipes.SkewUnpinned, "", ""},
		"images of upstream's snapshots":        {"image.vllm-runtime=9.9.9 image.kubernetes-operator=1.0.2", "there: runtime against chart", recipes.SkewMajor, "", "breaks"},
		"an image's tag for a CUDA is a patch":  {strings.ReplaceAll(well, runtime+"={dynamo}", runtime+"={dynamo}-cuda13"), "dynamo-vllm-runtime", recipes.SkewPatch, "", ""},
		"the chart is unknown, its operator is": {strings.ReplaceAll(well, chart+"={dynamo}", chart+"=?forbidden"), "dynamo-platform chart", recipes.SkewUnknown, "forbidden", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := recipes.Versions()
			if err != nil {
				t.Fatal(err)
			}
			end, seen := "", false
			for _, l := range recipes.Skew(v, snapshotOf(t, test.facts)) {
				if l.Name == test.line {
					seen = true
					if l.State != test.want || !strings.Contains(l.Reason, test.words) {
						t.Errorf("%s is %q because %q, want %q because %q", l.Name, l.State, l.Reason, test.want, test.words)
					}
				}
				switch {
				case l.Breaks():
					end = "breaks"
				case l.Open() && end == "":
					end = "open"
				}
			}
			if !seen || end != test.end {
				t.Errorf("%q was seen: %v; it came to %q, want %q", test.line, seen, end, test.end)
			}
		})
	}
}

// A fleet of another release is broken by itself alone: what other workers run is no
// hindrance to a deployment of what is pinned.
func TestWhyADeploymentCannotBeExpectedToWork(t *testing.T) {
	line := func(name, pinned, found string, state recipes.SkewState) recipes.SkewLine {
		return recipes.SkewLine{Name: name, Pinned: pinned, Found: found, State: state, Matters: true}
	}
	const chart, api, there = "dynamo-platform chart", "DynamoGraphDeployment API", "there: runtime against chart"
	for name, test := range map[string]struct {
		lines []recipes.SkewLine
		want  string
	}{
		"nothing":                  {nil, ""},
		"a patch":                  {[]recipes.SkewLine{line(chart, "1.2.3", "1.2.4", recipes.SkewPatch)}, ""},
		"what is unknown":          {[]recipes.SkewLine{line(chart, "1.2.3", "", recipes.SkewUnknown)}, ""},
		"workers of other people":  {[]recipes.SkewLine{line(recipes.RuntimeImage, "1.2.3", "9.9.9", recipes.SkewMajor)}, ""},
		"another chart":            {[]recipes.SkewLine{line(chart, "1.2.3", "9.9.9", recipes.SkewMajor), line(recipes.RuntimeImage, "1.2.3", "9.9.9", recipes.SkewMajor)}, "version skew: dynamo-platform chart is at 9.9.9 there, and pinned to 1.2.3"},
		"an API that is not there": {[]recipes.SkewLine{line(api, "v1beta1", "v1", recipes.SkewLacks)}, "version skew: DynamoGraphDeployment API v1beta1 is not served there"},
		"an older API":             {[]recipes.SkewLine{line(api, "v1beta1", "v1alpha1", recipes.SkewOlder)}, ""},
		"wrong by itself": {[]recipes.SkewLine{line(chart, "1.2.3", "9.9.9", recipes.SkewMajor), line(there, "9.9.9", "1.2.3", recipes.SkewMajor)},
			"version skew: runtime 1.2.3 does not go with chart 9.9.9"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := recipes.Broken(test.lines); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// The published skew, as the collector of this program would have told it.
func TestThePublishedSkewIsFoundInASnapshot(t *testing.T) {
	data, err := os.ReadFile("../internal/spec/testdata/snapshot/eks-skew.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := spec.DecodeSnapshot(data)
	if err != nil {
		t.Fatal(err)
	}
	v, err := recipes.Versions()
	if err != nil {
		t.Fatal(err)
	}
	lines := recipes.Skew(v, s)
	last := lines[len(lines)-1]
	if last.Pinned != "1.0.2" || last.Found != "0.9.0" || !last.Breaks() {
		t.Errorf("got %+v", last)
	}
}

func TestOfNoSnapshotNothingIsKnown(t *testing.T) {
	v, err := recipes.Versions()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range recipes.Skew(v, nil) {
		if l.State != recipes.SkewUnknown {
			t.Errorf("%s is %q", l.Name, l.State)
		}
	}
}
