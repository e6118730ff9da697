package spec

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func readSnapshot(t testing.TB, name string) *Snapshot {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "snapshot", name))
	if err != nil {
		t.Fatal(err)
	}
	s, err := DecodeSnapshot(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

func TestSnapshotsAreReadAndWrittenWithoutLoss(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "snapshot", "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d snapshots: %v", len(files), err)
	}
	for _, file := range files {
		for _, format := range []string{FormatYAML, FormatJSON} {
			t.Run(filepath.Base(file)+" as "+format, func(t *testing.T) {
				s := readSnapshot(t, filepath.Base(file))
				data, err := EncodeSnapshot(s, format)
				if err != nil {
					t.Fatal(err)
				}
				again, err := DecodeSnapshot(data)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(s, again); diff != "" {
					t.Errorf("read again (-first +again):\n%s", diff)
				}
				twice, err := EncodeSnapshot(again, format)
				if err != nil || string(twice) != string(data) {
					t.Errorf("written twice, the bytes differ: %v", err)
				}
			})
		}
	}
}

func TestAGroupWithNothingInItIsWrittenAsItWas(t *testing.T) {
	const text = "metadata: {}\nmeasurements: [{type: OS, subtypes: [{subtype: grub, data: {}}, {subtype: kmod}]}, {type: GPU, subtypes: []}, {type: K8s}]"
	s, err := DecodeSnapshot([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	data, err := EncodeSnapshot(s, FormatJSON)
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := errors.Join(yaml.Unmarshal(data, &got), yaml.Unmarshal([]byte(text), &want)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{want["metadata"], want["measurements"]}, []any{got["metadata"], got["measurements"]}); diff != "" {
		t.Errorf("(-read +written):\n%s", diff)
	}
}

func TestAMistakeInASnapshotIsToldWithItsLine(t *testing.T) {
	good, err := os.ReadFile(filepath.Join("testdata", "snapshot", "upstream-eks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, old, new string
		line           int
		text, hint     string
	}{
		{"another kind", "kind: Snapshot", "kind: Snapshoot", 3, "is not known here", "did you mean Snapshot?"},
		{"another version", "aicr.nvidia.com/v1alpha1", "aicr.nvidia.com/v1alpha9", 4, "is not known here", "did you mean"},
		{"an unknown field", "measurements:", "measurement:", 19, "unknown field", "did you mean measurements?"},
		{"an unknown field of a subtype", "        context:\n          gpuType", "        contxt:\n          gpuType", 110, "unknown field", "did you mean context?"},
		{"an unknown type", "- type: SystemD", "- type: Systemd", 20, "is not known here", "did you mean SystemD?"},
		{"a type twice", "- type: SystemD", "- type: GPU", 84, "GPU is there twice", "line 20"},
		{"a subtype twice", "subtype: kmod", "subtype: grub", 37, `"grub" is there twice`, "line 32"},
		{"a subtype without a name", "subtype: kmod", "subtype: \"\"", 37, "no value", ""},
		{"a key twice", "          nvidia_uvm: true", "          nvidia: true", 40, "written twice", "line 39"},
		{"a fact that is a list", "gpu-count: 8", "gpu-count: [8]", 90, "got a list", ""},
		{"a fact that is nothing", "gpu-count: 8", "gpu-count:", 90, "no value", ""},
		{"a fact that is no number", "gpu-count: 8", "gpu-count: .nan", 90, "want a finite number", ""},
		{"a context that is a map", "identifier: group-1", "identifier: {a: b}", 112, "want text", ""},
		{"data that is text", "        data: null", "        data: none", 29, "want a map", ""},
		{"a fingerprint that is no count", "value: 2, source", "value: two, source", 15, "want a whole number", ""},
		{"a tab", "  - type: GPU", "\t- type: GPU", 84, "not YAML", "spaces"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(string(good), c.old, c.new, 1)
			if text == string(good) {
				t.Fatal("nothing was changed")
			}
			_, err := DecodeSnapshot([]byte(text))
			var all Mistakes
			if !errors.As(err, &all) {
				t.Fatalf("%v", err)
			}
			if m := all[0]; m.Line != c.line || !strings.Contains(m.Text, c.text) || !strings.Contains(m.Hint, c.hint) {
				t.Errorf("line %d: %s (%s); want line %d: %s (%s)", m.Line, m.Text, m.Hint, c.line, c.text, c.hint)
			}
		})
	}
	t.Run("an unknown reason", func(t *testing.T) {
		_, err := DecodeSnapshot([]byte("measurements:\n- type: K8s\n  subtypes:\n  - subtype: node\n    unknown:\n      a: {reason: forbiden}\n      b: {detail: x}\n"))
		var all Mistakes
		if !errors.As(err, &all) || len(all) != 2 || all[0].Line != 6 || all[0].Hint != "did you mean forbidden?" || all[1].Line != 7 {
			t.Errorf("%v", err)
		}
	})
}

func TestAScalarIsWrittenAgainAsItWas(t *testing.T) {
	for _, text := range []string{"8", "-8", "8.0", "24.10", "24.04", "9e+07", "1.5", "18446744073709551615", "9007199254740993", "true", "false", "text", `"8"`, `"true"`, `""`, `"24.10"`, `"2026-06-04"`, `"null"`, `"~"`, `" a "`, `"a: b"`, `"|"`, `"line\nline"`, `"\u0085"`, `"0x1F"`, `"1_000"`} {
		t.Run(text, func(t *testing.T) {
			doc := "measurements:\n  - type: OS\n    subtypes:\n      - subtype: grub\n        data:\n          key: " + text + "\n"
			s, err := DecodeSnapshot([]byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			for _, format := range []string{FormatYAML, FormatJSON} {
				data, err := EncodeSnapshot(s, format)
				if err != nil {
					t.Fatal(err)
				}
				again, err := DecodeSnapshot(data)
				if err != nil {
					t.Fatal(err)
				}
				a, b := s.Subtype(TypeOS, "grub").Data["key"], again.Subtype(TypeOS, "grub").Data["key"]
				if a != b { // in type and in text
					t.Errorf("as %s: %#v became %#v", format, a, b)
				}
				if bare := strings.Trim(text, `"`); format == FormatYAML && !strings.Contains(string(data), bare) && !strings.Contains(text, `\`) {
					t.Errorf("not written as it was:\n%s", data)
				}
			}
		})
	}
}

func TestAScalarIsOfOneKind(t *testing.T) {
	for _, c := range []struct {
		s              Scalar
		text           string
		isInt, isFloat bool
		isBool, isText bool
	}{
		{NewScalar(8), "8", true, true, false, false},
		{NewScalar(int64(8)), "8", true, true, false, false},
		{NewScalar(8.0), "8", true, true, false, false},
		{NewScalar(8.5), "8.5", false, true, false, false},
		{NewScalar(1e21), "1e+21", false, true, false, false},
		{NewScalar(true), "true", false, false, true, false},
		{NewScalar("8"), "8", false, false, false, true},
		{NewScalar(math.NaN()), "NaN", false, false, false, true},
		{Scalar{}, "", false, false, false, false},
	} {
		_, isInt := c.s.Int()
		_, isFloat := c.s.Float()
		_, isBool := c.s.Bool()
		_, isText := c.s.Text()
		if c.s.String() != c.text || isInt != c.isInt || isFloat != c.isFloat || isBool != c.isBool || isText != c.isText {
			t.Errorf("%#v: %q %v %v %v %v", c.s, c.s, isInt, isFloat, isBool, isText)
		}
	}
	if !NewScalar(8).Equal(NewScalar(8.0)) || NewScalar(8).Equal(NewScalar("8")) || NewScalar(8).Equal(NewScalar(8.5)) || NewScalar(true).Equal(NewScalar("true")) {
		t.Error("equality")
	}
}

func TestAFactIsFoundByItsPath(t *testing.T) {
	s := readSnapshot(t, "upstream-eks.yaml")
	for path, want := range map[string]string{
		"K8s.server.version":                                "v1.34.1-eks-113cf36",
		"OS.sysctl./proc/sys/kernel/osrelease":              "6.8.0-1021-aws",
		"OS.grub.ro":                                        "",
		"SystemD.containerd.service.ActiveState":            "active",
		"SystemD.containerd.service.LimitNOFILE":            "18446744073709551615",
		"NodeTopology.label.topology.kubernetes.io/region":  "us-east-1|ip-10-0-1-17.ec2.internal,ip-10-0-1-18.ec2.internal,ip-10-0-2-20.ec2.internal",
		"NetworkTopology.pfs[0].rail":                       "0",
		"NetworkTopology.pfs[1].pciAddress":                 "0000:83:00.0",
		"NetworkTopology.pfs[rail=1].rdmaDevice":            "mlx5_1",
		"NetworkTopology.pfs[pciAddress=0000:03:00.0].rail": "0",
		"NetworkTopology.pfs[rdmaDevice=mlx5_1].numaNode":   "1",
		"K8s.policy.driver.version":                         "580.95.05",
		"GPU.hardware.driver-loaded":                        "true",
	} {
		fact, err := s.Fact(path)
		if err != nil || !fact.Known || fact.Value.String() != want || fact.Path != path {
			t.Errorf("%s: %+v, %v", path, fact, err)
		}
		if p, err := ParsePath(path); err != nil || p.String() != path {
			t.Errorf("%s is written again as %s: %v", path, p, err)
		}
	}
	if _, err := s.Fact("NetworkTopology.pfs[traffic=east-west].rail"); err == nil {
		t.Error("two items are one fact")
	}
	s.Measurements = append(s.Measurements, s.Measurements[len(s.Measurements)-1])
	if _, err := s.Fact("NetworkTopology.identity.pf-count"); err == nil {
		t.Error("two networks are one fact")
	}
}

func TestWhatChangedBetweenSnapshotsIsSaidByPath(t *testing.T) {
	same := func(*Snapshot) {}
	served := runtimeOf(t, "eks-h100.yaml")
	node := func(s *Snapshot) *[]FactItem { return &s.Subtype(TypeNodeTopology, "nodes").Items }
	for _, c := range []struct {
		name     string
		was, now func(*Snapshot)
		want     []FactChange
	}{
		{"nothing", same, same, []FactChange{}},
		{"when it was taken", same, func(s *Snapshot) {
			s.Metadata["timestamp"] = "2027"
			s.Metadata["version"] = "v9"
			s.Fingerprint = &Fingerprint{}
		}, []FactChange{}},
		{"the order of nodes", same, func(s *Snapshot) { slices.Reverse(*node(s)) }, []FactChange{}},
		{"the order of everything", same, func(s *Snapshot) { slices.Reverse(s.Measurements); slices.Reverse(s.Measurements[3].Subtypes) }, []FactChange{}},
		{"how labels are written", same, func(s *Snapshot) { s.Subtype(TypeNodeTopology, "label").Items = nil }, []FactChange{}},
		{"a number's writing", same, func(s *Snapshot) { s.Subtype(TypeGPU, "hardware").Data["gpu-count"] = NewScalar(8.0) }, []FactChange{}},
		{"a value", same, func(s *Snapshot) { s.Subtype(TypeK8s, "dynamo-runtime").Data["version"] = NewScalar("0.9.0") },
			[]FactChange{{"K8s.dynamo-runtime.version", served, "0.9.0", nil}}},
		{"a value that came", func(s *Snapshot) { delete(s.Subtype(TypeGPU, "hardware").Data, "model") }, same,
			[]FactChange{{"GPU.hardware.model", "", "NVIDIA-H100-80GB-HBM3", nil}}},
		{"a value that went", same, func(s *Snapshot) { delete(s.Subtype(TypeGPU, "hardware").Data, "model") },
			[]FactChange{{"GPU.hardware.model", "NVIDIA-H100-80GB-HBM3", "", nil}}},
		{"a value that is empty now", same, func(s *Snapshot) { s.Subtype(TypeGPU, "hardware").Data["model"] = NewScalar("") },
			[]FactChange{{"GPU.hardware.model", "NVIDIA-H100-80GB-HBM3", `""`, nil}}},
		{"known no more", same, func(s *Snapshot) {
			sub := s.Subtype(TypeK8s, "grove")
			delete(sub.Data, "version")
			sub.Unknown = map[string]Unknown{"version": {ReasonTimedOut, ""}}
		}, []FactChange{{"K8s.grove.version", "v0.1.0-alpha.6", "unknown: timed out", nil}}},
		{"nothing known any more", same, func(s *Snapshot) {
			sub := s.Subtype(TypeK8s, "server")
			sub.Data, sub.Unknown = nil, map[string]Unknown{"*": {ReasonForbidden, "no"}}
		}, []FactChange{{"K8s.server.platform", "linux/amd64", "unknown: forbidden (no)", nil}, {"K8s.server.version", "v1.34.1-eks-113cf36", "unknown: forbidden (no)", nil}}},
		{"unknown for another reason", func(s *Snapshot) {
			sub := s.Subtype(TypeK8s, "server")
			sub.Data, sub.Unknown = nil, map[string]Unknown{"*": {ReasonTimedOut, ""}}
		}, func(s *Snapshot) {
			sub := s.Subtype(TypeK8s, "server")
			sub.Data, sub.Unknown = nil, map[string]Unknown{"*": {ReasonForbidden, ""}}
		}, []FactChange{{"K8s.server.*", "unknown: timed out", "unknown: forbidden", nil}}},
		{"a node's GPUs", same, func(s *Snapshot) { (*node(s))[0].Data["gpu-allocatable"] = NewScalar(7) },
			[]FactChange{{"NodeTopology.nodes[name=ip-10-0-1-17.ec2.internal].gpu-allocatable", "8", "7", nil}}},
		{"a node's kernel", same, func(s *Snapshot) { (*node(s))[0].Context["kernel-version"] = "6.9" },
			[]FactChange{{"NodeTopology.nodes[name=ip-10-0-1-17.ec2.internal].kernel-version", "6.8.0-1021-aws", "6.9", nil}}},
		{"a node that went", same, func(s *Snapshot) {
			*node(s) = []FactItem{(*node(s))[0], {Context: Texts{"name": "new"}, Data: Facts{"gpu-count": NewScalar(0)}}, (*node(s))[2]}
			(*node(s))[2].Context = Texts{"name": "ip-10-0-2-21.ec2.internal"}
			(*node(s))[2].Data = nil
		}, nil},
		{"a label", same, func(s *Snapshot) {
			s.Subtype(TypeNodeTopology, "label").Items[2].Context["value"] = "false"
			s.Subtype(TypeNodeTopology, "label").Data[labelGPUPresent] = NewScalar("false|ip-10-0-1-17.ec2.internal")
		}, []FactChange{{"NodeTopology.label.nvidia.com/gpu.present", "true|ip-10-0-1-17.ec2.internal", "false|ip-10-0-1-17.ec2.internal", nil}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := readSnapshot(t, "eks-h100.yaml"), readSnapshot(t, "eks-h100.yaml")
			c.was(a)
			c.now(b)
			got := DiffSnapshots(a, b)
			if c.want != nil {
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			back := DiffSnapshots(b, a)
			for i := range back {
				back[i].Was, back[i].Now = back[i].Now, back[i].Was
			}
			if diff := cmp.Diff(got, back); diff != "" {
				t.Errorf("the other way round it is not the same:\n%s", diff)
			}
			if !slices.IsSortedFunc(got, func(x, y FactChange) int { return strings.Compare(x.Path, y.Path) }) {
				t.Errorf("not sorted: %v", got)
			}
		})
	}
}

func TestANodeThatCameOrWentIsOneChange(t *testing.T) {
	a, b := readSnapshot(t, "eks-h100.yaml"), readSnapshot(t, "eks-h100.yaml")
	sub := b.Subtype(TypeNodeTopology, "nodes")
	sub.Items = sub.Items[1:]
	got := DiffSnapshots(a, b)
	if len(got) != 1 || got[0].Path != "NodeTopology.nodes[name=ip-10-0-1-17.ec2.internal]" || !strings.Contains(got[0].Was, "gpu-count=8") || got[0].Now != "" {
		t.Errorf("%v", got)
	}
	// It is told by what it is worth, and its name is not told twice.
	want := "gpu-count=8 gpu-product=NVIDIA-H100-80GB-HBM3 ready=true schedulable=true instance-type=p5.48xlarge architecture=amd64"
	if text := strings.Join(got[0].Item, " "); !strings.HasPrefix(text, want) || strings.Contains(text, "name=ip-") || len(got[0].Item) != 14 {
		t.Errorf("%s", text)
	}
	if back := DiffSnapshots(b, a); !slices.Equal(back[0].Item, got[0].Item) {
		t.Errorf("the other way round: %v", back[0].Item)
	}
	sub.Items, sub.Unknown = nil, map[string]Unknown{"*": {Reason: ReasonForbidden}}
	for _, change := range DiffSnapshots(a, b) {
		if change.Now != "unknown: forbidden" {
			t.Errorf("%v", change)
		}
	}
	if got := DiffSnapshots(nil, nil); got == nil || len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// runtimeOf is the version of the workers of a fixture.
func runtimeOf(t *testing.T, name string) string {
	t.Helper()
	f, err := readSnapshot(t, name).Fact(FactDynamoRuntime)
	if err != nil || !f.Known {
		t.Fatalf("%s does not say its runtime: %v", name, err)
	}
	return f.Value.String()
}

func TestTheSkewIsADifferenceOfFacts(t *testing.T) {
	var got []string
	for _, c := range DiffSnapshots(readSnapshot(t, "eks-h100.yaml"), readSnapshot(t, "eks-skew.yaml")) {
		got = append(got, c.Path+": "+c.Was+" to "+c.Now)
	}
	served := runtimeOf(t, "eks-h100.yaml")
	for _, want := range []string{"K8s.dynamo-platform.chart: " + served + " to 1.0.2", "K8s.dynamo-runtime.version: " + served + " to 0.9.0",
		"K8s.dynamo-runtime[namespace=dynamo,deployment=aicr-inference-perf,component=frontend].version: " + served + " to 0.9.0"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among:\n%s", want, strings.Join(got, "\n"))
		}
	}
}

func TestALargeSnapshotIsReadAndOneThatIsTooLargeIsNot(t *testing.T) {
	var b strings.Builder
	b.WriteString("measurements:\n- type: NodeTopology\n  subtypes:\n  - subtype: nodes\n    items:\n")
	const nodes = 3000
	for i := range nodes {
		fmt.Fprintf(&b, "    - {context: {name: node-%d}, data: {gpu-count: 8}}\n", i)
	}
	s, err := DecodeSnapshot([]byte(b.String()))
	if err != nil || len(s.Subtype(TypeNodeTopology, "nodes").Items) != nodes {
		t.Fatal(err)
	}
	if _, err := DecodeSnapshot(make([]byte, MaxSnapshot+1)); err == nil || !strings.Contains(err.Error(), "larger than 32 MiB") {
		t.Errorf("%v", err)
	}
	bomb := "measurements:\n- type: OS\n  subtypes:\n  - subtype: a0\n    data: &a0 {x: 1}\n"
	for i := 1; i < 30; i++ {
		bomb += fmt.Sprintf("  - subtype: a%d\n    data: &a%d {<<: [*a%d, *a%d]}\n", i, i, i-1, i-1)
	}
	if _, err := DecodeSnapshot([]byte(bomb)); err == nil {
		t.Error("a bomb was read")
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add([]byte("kind: Snapshot\nmeasurements:\n- type: NodeTopology\n  subtypes:\n  - subtype: label\n    data: {a: \"b|c\", nvidia.com/gpu.present: \"true|c\"}\n"))
	f.Add([]byte("measurements:\n- type: NodeTopology\n  subtypes:\n  - subtype: label\n    items:\n    - context: {key: a, value: b}\n      data: {node-count: 1, node-list: c, truncated: false}\n"))
	f.Add([]byte("metadata: {a: 1}\nmeasurements:\n- type: K8s\n  subtypes:\n  - subtype: node\n    data: {a: 24.10, b: 9e+07, c: true, d: \"8\"}\n    unknown: {e: {reason: absent}, \"*\": {reason: mixed, detail: x}}\n"))
	f.Add([]byte("measurements:\n- type: NodeTopology\n  subtypes:\n  - subtype: nodes\n    items:\n    - context: {name: a, gpu-product: H100, os-image: Ubuntu}\n      data: {gpu-count: 8}\n"))
	f.Add([]byte(`{"measurements": [{"type": "GPU", "subtypes": [{"subtype": "hardware", "data": {"a": 1e400}}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeSnapshot(data)
		if err != nil {
			return
		}
		InferCriteria(s)
		FingerprintOf(s)
		if changes := DiffSnapshots(s, s); len(changes) > 0 {
			t.Fatalf("it differs from itself: %v", changes)
		}
		for _, format := range []string{FormatYAML, FormatJSON} {
			out, err := EncodeSnapshot(s, format)
			if err != nil {
				t.Fatal(err)
			}
			again, err := DecodeSnapshot(out)
			if err != nil {
				t.Fatal(err)
			}
			if changes := DiffSnapshots(s, again); len(changes) > 0 {
				t.Fatalf("written as %s it is another: %v", format, changes)
			}
		}
	})
}
