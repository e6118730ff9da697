package spec

import (
	"fmt"
	"strings"
	"testing"
)

func oneFact(path string, value any) *Snapshot {
	p, err := ParsePath(path)
	if err != nil {
		panic(err)
	}
	return &Snapshot{Measurements: []Measurement{{Type: p.Type, Subtypes: []Subtype{{Name: p.Subtype, Data: Facts{p.Key: NewScalar(value)}}}}}}
}

// The path of a fact of which any value is possible.
const openFact = "OS.sysctl.a"

func TestEveryComparatorHoldsForEveryKindOfFact(t *testing.T) {
	const met, not, wrong = HeldMet, HeldNotMet, HeldError
	for _, c := range []struct {
		fact any
		want string
		unit string
		is   HeldState
	}{
		// Versions.
		{"v1.34.1-eks-113cf36", ">= 1.34.1", "", met},
		{"v1.34.1-eks-113cf36", ">= 1.34.2", "", not},
		{"v1.34.1-eks-113cf36", "<= 1.34.1", "", met},
		{"v1.34.1-eks-113cf36", "<= 1.34.0", "", not},
		{"v1.34.1-eks-113cf36", "> 1.34.0", "", met},
		{"v1.34.1-eks-113cf36", "> 1.34.1", "", not},
		{"v1.34.1-eks-113cf36", "< 1.35", "", met},
		{"v1.34.1-eks-113cf36", "< 1.34.1", "", not},
		{"v1.34.1-eks-113cf36", "== 1.34.1", "", met},
		{"v1.34.1-eks-113cf36", "== 1.34.2", "", not},
		{"v1.34.1-eks-113cf36", "!= 1.34.2", "", met},
		{"v1.34.1-eks-113cf36", "!= 1.34.1", "", not},
		{"v1.34.1-eks-113cf36", "v1.34.1-eks-113cf36", "", met},
		{"v1.34.1-eks-113cf36", "1.34.1", "", not}, // bare is the text itself
		{"24.04", "== 24.04", "", met},
		{"24.04", "24.04", "", met},
		{"24.04", ">= 22.10", "", met},
		{"1.35.0-rc.1", ">= 1.35.0", "", not},
		// Every 1.34.x is within 1.34, and is not 1.34 itself.
		{"1.34.7", "<= 1.34", "", met},
		{"1.34.7", "> 1.34", "", not},
		{"1.34.7", "== 1.34", "", not},
		{"1.35.2", "> 1.35-rc.1", "", met},
		{"1.35.2", "<= 1.35-rc.1", "", not},
		{"1.34", ">= 1.34.2", "", not},

		// Numbers.
		{8, ">= 8", "", met},
		{8, ">= 9", "", not},
		{8, "<= 8", "", met},
		{8, "<= 7.5", "", not},
		{8, "> 7", "", met},
		{8, "> 8", "", not},
		{8, "< 8.5", "", met},
		{8, "< 8", "", not},
		{8, "== 8.0", "", met},
		{8, "== 9", "", not},
		{8, "!= 9", "", met},
		{8, "!= 8", "", not},
		{8, "8", "", met},
		{8.0, "8", "", met},
		{8, "9", "", not},
		{0.9, ">= 0.85", "", not}, // a number that may be a version is one
		{1.9, ">= 1.10", "", not},
		{1.9, "<= 1.10", "", met},
		{-1, ">= 0", "", not},
		{-1, ">= -1", "", met},
		{8, ">= v1.2.3", "", met}, // a whole number may be a version
		{0.5, ">= v1.2.3", "", not},
		{"5128", ">= 1024", "", met},
		{"9e3", ">= 1e3", "", met},
		{8, "!= many", "", wrong},
		{8, "== many", "", wrong},

		// Units.
		{312.5, ">= 300", "GB/s", met},
		{312.5, ">= 300 GB/s", "", met},
		{312.5, ">= 300 GB/s", "GB/s", met},
		{"312.5 GB/s", ">= 300 GB/s", "", met},
		{"312.5GB/s", ">= 300GB/s", "", met},
		{"299 GB/s", ">= 300", "GB/s", not},
		{"1.5 s", "<= 2000", "ms", met},
		{"2500 ms", "<= 2 s", "", not},
		{"2.5 s", "<= 2000", "ms", not},
		{95, ">= 90 %", "", met},
		{"95%", ">= 90%", "", met},
		{"50000 tokens/s", ">= 50000", "tokens/s", met},
		{"6250 tokens/s/GPU", "== 6250 tokens/s/GPU", "", met},
		{"6250 tokens/s/GPU", "!= 6250 tokens/s/GPU", "", not},
		{300, "300", "GB/s", met},
		{"50000 tokens/s", ">= 6250 tokens/s/GPU", "", wrong},
		{"300 ms", ">= 300 GB/s", "", wrong},
		{"fast", ">= 300 GB/s", "", wrong},
		{"300 GB/s", ">= 300", "", wrong},
		{true, ">= 300 GB/s", "", wrong},

		// True or false.
		{true, "true", "", met},
		{true, "false", "", not},
		{true, "== true", "", met},
		{true, "!= true", "", not},
		{true, "!= false", "", met},
		{false, "== false", "", met},
		{"true", "== true", "", met},
		{true, "yes", "", not},
		{true, "== yes", "", wrong},
		{true, "!= yes", "", wrong},
		{true, ">= 1", "", wrong},
		{true, "< 2", "", wrong},

		// Text.
		{"ubuntu", "ubuntu", "", met},
		{"ubuntu", "Ubuntu", "", not},
		{"ubuntu", "== ubuntu", "", met},
		{"ubuntu", "== rhel", "", not},
		{"ubuntu", "!= rhel", "", met},
		{"ubuntu", "!= ubuntu", "", not},
		{"Ubuntu 24.04.3 LTS", "Ubuntu 24.04.3 LTS", "", met},
		{"Ubuntu 24.04.3 LTS", "== Ubuntu 24.04.3 LTS", "", met},
		{"", "!= ubuntu", "", met},
		{"latest", "!= 1.2.3", "", met},
		{"ubuntu", ">= 1.2", "", wrong},
		{"ubuntu", "< 2", "", wrong},
		{"Ubuntu 24.04", ">= 24.04", "", wrong},
		{"", ">= 1.2", "", wrong},
		{"ubuntu", ">= rhel", "", wrong},

		// Compound.
		{"v1.34.3-gke.1318000", ">= 1.34.3-gke.1318000 < 1.35.0 || >= 1.35.0-gke.2745000", "", met},
		{"v1.34.3-gke.1317999", ">= 1.34.3-gke.1318000 < 1.35.0 || >= 1.35.0-gke.2745000", "", not},
		{"v1.35.0-gke.2745000", ">= 1.34.3-gke.1318000 < 1.35.0 || >= 1.35.0-gke.2745000", "", met},
		{"v1.35.0-gke.500", ">= 1.34.3-gke.1318000 < 1.35.0 || >= 1.35.0-gke.2745000", "", not},
		{"v1.34.3", ">= 1.34.3-gke.1318000 < 1.35.0 || >= 1.35.0-gke.2745000", "", not},
		{"1.34.5", ">= 1.34 < 1.35 != 1.34.5", "", not},
		{"1.34.6", ">= 1.34 < 1.35 != 1.34.5", "", met},
		{"1.34.6", ">=1.34 <1.35", "", met},
		{"rhel", "ubuntu || rhel", "", met},
		{"cos", "ubuntu || rhel", "", not},
		{"cos", "!= ubuntu != rhel", "", met},
		{400, ">= 300 GB/s < 500 GB/s", "", met},
		{400, ">= 300 < 500", "GB/s", met},
		// One alternative that cannot be held makes it an error, though the other holds.
		{"rhel", "rhel || >= 9", "", wrong},
		{"rhel", ">= 9 || rhel", "", wrong},
	} {
		t.Run(fmt.Sprintf("%v %s %s", c.fact, c.want, c.unit), func(t *testing.T) {
			h := Hold(RecipeConstraint{Name: openFact, Value: Wanted(c.want), Unit: c.unit}, oneFact(openFact, c.fact))
			if h.State != c.is {
				t.Errorf("%s (%s), want %s", h.State, h.Reason, c.is)
			}
			if (h.Reason == "") != (h.State == HeldMet) {
				t.Errorf("%s for the reason %q", h.State, h.Reason)
			}
			if h.State != HeldError && h.Value != NewScalar(c.fact).String() {
				t.Errorf("the value is %q", h.Value)
			}
		})
	}
}

func TestWhatIsWrongWithAConstraintIsSaidBeforeThereIsASnapshot(t *testing.T) {
	tenth := 0.1
	for _, c := range []struct {
		name, value, unit string
		tolerance         *float64
		text, hint        string // parts of them
	}{
		{name: "k8s.server.version", value: "x", text: `"k8s" is no type`, hint: "did you mean K8s.server.version?"},
		{name: "Kubernetes.server.version", value: "x", text: "is no type", hint: "the types are K8s"},
		{name: "K8s", value: "x", text: "is no path", hint: "K8s.server.version"},
		{name: "K8s.server", value: "x", text: "names no key", hint: "Type.Subtype.Key"},
		{name: "K8s..version", value: "x", text: "names no subtype"},
		{name: "K8s.server.", value: "x", text: "names no key"},
		{name: "K8s.server.versionn", value: "x", text: `K8s.server has no "versionn"`, hint: "did you mean version?"},
		{name: "K8s.sever.version", value: "x", text: `K8s has no "sever"`, hint: "did you mean server?"},
		{name: "K8s.gpu_operator.version", value: "x", text: "has no", hint: "did you mean gpu-operator?"},
		{name: "K8s.something-else.version", value: "x", text: "has no", hint: "it has aks-gpu-pools"},
		{name: "K8s.server[0].version", value: "x", text: "has no items", hint: "write K8s.server.version"},
		{name: "NetworkTopology.pfs.rail", value: "0", text: "is a list", hint: "NetworkTopology.pfs[0].rail"},
		{name: "NetworkTopology.pfs[rali=3].rail", value: "3", text: "no \"rali\"", hint: "did you mean rail?"},
		{name: "NetworkTopology.pfs[-1].rail", value: "3", text: "chooses no item"},
		{name: "NetworkTopology.pfs[+1].rail", value: "3", text: "chooses no item"},
		{name: "NetworkTopology.pfs[].rail", value: "3", text: "chooses no item"},
		{name: "NetworkTopology.pfs[0.rail", value: "3", text: "no ] and key follow"},
		{name: "NetworkTopology.pfs[0]", value: "3", text: "no ] and key follow"},
		{name: "NetworkTopology.identity.linkType", value: "x", text: "has no"},
		{name: "NodeTopology.gpu-nodes.labels", value: "a=b", text: "is no path", hint: "did you mean NodeTopology.gpu-nodes.label?"},
		{name: "Deployment.gpu-operator.version", value: ">= 1", text: "is no type", hint: "deployment phase"},
		{name: "OS.releases.ID", value: "x", text: "has no", hint: "did you mean release?"},

		{name: openFact, value: "", text: "no value"},
		{name: openFact, value: " ", text: "no value"},
		{name: openFact, value: ">=", text: "nothing comes after >="},
		{name: openFact, value: "=> 1.2", text: `"=>" is no comparator`, hint: "did you mean >=?"},
		{name: openFact, value: "= 1.2", text: "is no comparator", hint: "did you mean ==?"},
		{name: openFact, value: "~> 1.2", text: "is no comparator"},
		{name: openFact, value: "! ubuntu", text: "is no comparator", hint: "did you mean !=?"},
		{name: openFact, value: ">=> 1", text: "is no comparator", hint: "one of >=, <="},
		{name: openFact, value: ">= newest", text: "is no version and no number", hint: "=="},
		{name: openFact, value: ">= 1.2<2.0", text: "is no version and no number", hint: "space"},
		{name: openFact, value: ">= 1.2.3.4.5", text: "is no version and no number"},
		{name: openFact, value: ">= 1.34.3-gke.x", text: "is no version and no number"},
		{name: openFact, value: ">= 300 GBps", text: `"GBps" is no unit`, hint: "did you mean GB/s?"},
		{name: openFact, value: ">= 300 furlongs", text: `is no unit`, hint: "one of ms, s"},
		{name: openFact, value: ">= 300", unit: "GB", text: `"GB" is no unit`},
		{name: openFact, value: ">= 300 GB/s", unit: "ms", text: "the value is in GB/s, and the unit is ms"},
		{name: openFact, value: "ubuntu", unit: "ms", text: `"ubuntu" is no number`},
		{name: openFact, value: ">= 1.2.3", unit: "ms", text: `"1.2.3" is no number`},
		{name: openFact, value: "|| >= 1", text: "empty alternative"},
		{name: openFact, value: ">= 1 ||", text: "empty alternative"},
		{name: openFact, value: ">= 1 || || < 2", text: "empty alternative"},
		{name: openFact, value: ">= 1 <", text: "nothing comes after <"},
		{name: openFact, value: "ubuntu != rhel", text: "bare value among others"},
		{name: openFact, value: ">= 1", tolerance: &tenth, text: "takes no tolerance"},

		{name: FactGPUCount, value: ">= eight", text: "no version and no number"},
		{name: FactGPUCount, value: "eight", text: "is a number"},
		{name: FactGPUCount, value: ">= 1.2.3", text: "is a number"},
		{name: FactGPUCount, value: ">= 8 GB/s", text: "has no unit"},
		{name: "K8s.gpu-operator.installed", value: "yes", text: "is true or false", hint: "write true or false"},
		{name: "K8s.gpu-operator.installed", value: ">= 1", text: "which >= cannot be held against"},
		{name: FactServerVersion, value: ">= 1.34", unit: "ms", text: "has no unit"},
		{name: FactServerVersion, value: ">= 1e3", text: "is a version"},

		// A version that is none is not a text to wait for.
		{name: FactServerVersion, value: "≥ 1.32", text: `"≥" is no comparator`, hint: "did you mean >=?"},
		{name: FactServerVersion, value: "＞= 1.32", text: `"＞=" is no comparator`, hint: "did you mean >=?"},
		{name: FactServerVersion, value: ">＝ 1.32", text: `">＝" is no comparator`, hint: "did you mean >=?"},
		{name: FactServerVersion, value: "≤1.32", text: `"≤" is no comparator`, hint: "did you mean <=?"},
		{name: FactServerVersion, value: "≠ 1.32", text: `"≠" is no comparator`, hint: "did you mean !=?"},
		{name: FactServerVersion, value: "＝ 1.32", text: `"＝" is no comparator`, hint: "did you mean ==?"},
		{name: FactServerVersion, value: ">= 1.32 ＜ 2", text: `"＜" is no comparator`, hint: "did you mean <?"},
		{name: openFact, value: "≥ 1.32", text: `"≥" is no comparator`, hint: "did you mean >=?"},
		{name: FactGPUCount, value: "≥ 8", text: `"≥" is no comparator`, hint: "did you mean >=?"},
		{name: FactServerVersion, value: ">= v1.32-", text: "is no version", hint: ""},
		{name: FactServerVersion, value: "v1.32-", text: "is a version", hint: `write it as ">= 1.34.1"`},
		{name: FactServerVersion, value: "at least 1.32", text: "is a version", hint: `write it as ">= 1.34.1"`},
		{name: FactServerVersion, value: "1.32 || newest", text: "is a version", hint: `write it as ">= 1.34.1"`},
		{name: FactServerVersion, value: "1e3", text: "is a version"},
		{name: FactServerVersion, value: "== junk", text: "is a version"},
		{name: FactServerVersion, value: "!= junk", text: "is a version"},
		{name: FactDynamoChart, value: "dynamo-platform-1.2.3", text: "is a version"},
		{name: "OS.release.VERSION_ID", value: "noble", text: "is a version"},
		{name: "OS.sysctl./proc/sys/kernel/osrelease", value: "!= aws", text: "is a version"},
		{name: "GPU.smi.driver-version", value: "new", text: "is a version"},

		{name: PathGPUNodesLabel, value: ">= 1", text: "takes no comparator", hint: "key=value"},
		{name: PathGPUNodesLabel, value: "!= a", text: "takes no comparator"},
		{name: PathGPUNodesLabel, value: "a", text: "neither key=value nor !key"},
		{name: PathGPUNodesLabel, value: "", text: "neither key=value nor !key"},
		{name: PathGPUNodesLabel, value: "!a=b", text: "neither key=value nor !key"},
		{name: PathGPUNodesLabel, value: "!", text: "no label's key"},
		{name: PathGPUNodesLabel, value: "a//b=c", text: "no label's key"},
		{name: PathGPUNodesLabel, value: "!A.com/x/y", text: "no label's key"},
		{name: PathGPUNodesLabel, value: "-a=b", text: "no label's key"},
		{name: PathGPUNodesLabel, value: strings.Repeat("a", 64) + "=b", text: "no label's key"},
		{name: PathGPUNodesLabel, value: strings.Repeat("a", 254) + "/a=b", text: "no label's key"},
		{name: PathGPUNodesLabel, value: "a=b c", text: "no label's value"},
		{name: PathGPUNodesLabel, value: "a=" + strings.Repeat("b", 64), text: "no label's value"},
		{name: PathGPUNodesLabel, value: "a==b", text: "no label's value"},
		{name: PathGPUNodesLabel, value: "a=b", unit: "ms", text: "no unit"},
	} {
		t.Run(c.name+" "+c.value+" "+c.unit, func(t *testing.T) {
			asked := RecipeConstraint{Name: c.name, Value: Wanted(c.value), Unit: c.unit, Tolerance: c.tolerance}
			text, hint := ConstraintMistake(asked)
			if text == "" || !strings.Contains(text, c.text) || !strings.Contains(hint, c.hint) {
				t.Errorf("%q, %q; want %q, %q", text, hint, c.text, c.hint)
			}
			if h := Hold(asked, readSnapshot(t, "eks-h100.yaml")); h.State != HeldError || !strings.Contains(h.Reason, text) {
				t.Errorf("held all the same: %+v", h)
			}
		})
	}
}

func TestWhatUpstreamsRecipesWantIsNoMistake(t *testing.T) {
	for name, value := range map[string]string{
		"K8s.server.version":                   ">= 1.32.4",
		"OS.release.ID":                        "ubuntu",
		"OS.release.VERSION_ID":                "24.04",
		"OS.sysctl./proc/sys/kernel/osrelease": ">= 6.8",
		"GPU.hardware.gpu-count":               ">= 8",
		"GPU.hardware.model":                   "h100",
		"K8s.aks-gpu-pools.gpu-driver":         "None",
		"K8s.slinky-slurm.detected":            "true",
		"K8s.slinky-slurm[id=nodeset/slurm/slinky-slurm-worker-slinky].partition-enabled": "true",
		"K8s.policy.driver.version":                              ">= 580.82.07",
		"K8s.image.gpu-operator":                                 "== v25.10.0",
		"SystemD.containerd.service.ActiveState":                 "active",
		"NetworkTopology.pfs[rail=3].pciAddress":                 "0000:03:00.0",
		"NetworkTopology.pfs[0].rail":                            "0",
		"NodeTopology.label.nvidia.com/gpu.present":              "true|a,b",
		"NodeTopology.gpu-nodes.label":                           "!cloud.google.com/gke-gpu-driver-version",
		"NodeTopology.summary.node-count":                        ">= 2",
		"NodeTopology.nodes[name=a.b].gpu-count":                 ">= 8",
		FactGraphCRD:                                             "v1alpha1,v1beta1",
		FactDynamoChart:                                          ">= 1.4 < 2",
		FactDRAAPI:                                               ">= v1beta1",
		"K8s.storage-classes.default":                            "gp3",
		"K8s.server.goVersion":                                   "go1.24.6",
		"NodeTopology.label.nvidia.com/cuda.driver-version.full": "580.95.05|a,b",
		"OS.release.VERSION":                                     "24.04.3 LTS (Noble Numbat)",
		"K8s.node.kernel-version":                                "6.12.46+",
		"K8s.storage-classes[name=gp3].default":                  "true",
	} {
		if text, hint := ConstraintMistake(RecipeConstraint{Name: name, Value: Wanted(value)}); text != "" {
			t.Errorf("%s %s: %s; %s", name, value, text, hint)
		}
	}
}

func TestAFactThatIsNotKnownIsAnErrorWithItsReason(t *testing.T) {
	forbidden := readSnapshot(t, "forbidden.yaml")
	eks := readSnapshot(t, "eks-h100.yaml")
	for _, c := range []struct {
		in     *Snapshot
		path   string
		value  string
		reason string
	}{
		{forbidden, "K8s.node.provider", "!= aks", "forbidden (nodes is not for this account to list)"},
		{forbidden, FactDynamoRuntime, "!= 0.9.0", "mixed (0.9.0 and 1.0.2)"},
		{forbidden, "K8s.storage-classes.default", "!= gp2", "timed out (no answer within 10 s)"},
		{forbidden, FactDRAAPI, "!= v1alpha1", "unreachable (the connection was refused)"},
		{forbidden, FactDCGM, "!= 1", "unreadable (the image has a digest and no tag)"},
		{forbidden, FactKAI, "!= 1", "absent (the snapshot has no K8s.kai-scheduler)"},
		{forbidden, "NodeTopology.nodes[0].gpu-count", "!= 1", "forbidden"},
		{forbidden, PathGPUNodesLabel, "!a", "forbidden"},
		{forbidden, PathGPUNodesLabel, "a=b", "forbidden"},
		{eks, "OS.release.NAME", "!= x", "absent (it is not in the snapshot)"},
		{eks, "OS.sysctl.a", "!= x", "absent (the snapshot has no OS.sysctl)"},
		{eks, "K8s.storage-classes[name=io1].default", "!= true", "absent (no such item"},
		{eks, "K8s.storage-classes[9].default", "!= true", "absent (no such item"},
		{eks, "K8s.storage-classes[name=gp3].size", "!= 1", "absent (the item has no size)"},
		{eks, "NodeTopology.nodes[instance-type=m6i.xlarge].ready", "true", "2 items have instance-type=m6i.xlarge"},
		{nil, FactServerVersion, "!= 1", "there is no snapshot"},
		{nil, PathGPUNodesLabel, "!a", "there is no snapshot"},
		{&Snapshot{}, FactServerVersion, "!= 1", "absent"},
		{&Snapshot{}, PathGPUNodesLabel, "!a", "no GPU node is known"},
	} {
		t.Run(c.path+" "+c.reason, func(t *testing.T) {
			h := Hold(RecipeConstraint{Name: c.path, Value: Wanted(c.value), Remediation: "ask"}, c.in)
			if h.State != HeldError || !strings.Contains(h.Reason, c.reason) || h.Remediation != "ask" {
				t.Errorf("%+v, want %q", h, c.reason)
			}
		})
	}
}

func TestABareNumberIsHeldAsItWasWrittenAndAsItIs(t *testing.T) {
	s, err := DecodeSnapshot([]byte("measurements: [{type: OS, subtypes: [{subtype: sysctl, data: {a: 9e+07, b: 24.10}}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, value string
		is          HeldState
	}{
		{"OS.sysctl.a", "9e+07", HeldMet}, {"OS.sysctl.a", "90000000", HeldMet}, {"OS.sysctl.a", "9", HeldNotMet},
		{"OS.sysctl.b", "24.10", HeldMet}, {"OS.sysctl.b", "24.1", HeldNotMet}, {"OS.sysctl.b", "24.01", HeldNotMet},
	} {
		if h := Hold(RecipeConstraint{Name: c.path, Value: Wanted(c.value)}, s); h.State != c.is {
			t.Errorf("%s %s: %+v", c.path, c.value, h)
		}
	}
}

// snapshotSaying is a snapshot of one fact, written as it would be in a file.
func snapshotSaying(t *testing.T, path, yaml string) *Snapshot {
	t.Helper()
	p, err := ParsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	facts := fmt.Sprintf("data: {%q: %s}", p.Key, yaml)
	if p.Item != nil {
		facts = fmt.Sprintf("items: [{%s}]", facts)
	}
	s, err := DecodeSnapshot(fmt.Appendf(nil, "measurements: [{type: %s, subtypes: [{subtype: %s, %s}]}]", p.Type, p.Subtype, facts))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The facts that can only be versions, wherever they are found.
func versionPaths() []string {
	return []string{
		FactServerVersion, "K8s.node.kubelet-version", "K8s.node.kernel-version", "K8s.node.container-runtime-version",
		FactGPUOperator, "K8s.gpu-operator.chart", FactDynamoChart, "K8s.dynamo-platform.operator", FactDynamoRuntime, FactKAI, FactGrove, FactDCGM,
		"K8s.dynamo-runtime[0].version", "K8s.dra[0].driver-version", "K8s.policy.driver.version",
		"GPU.hardware.driver-version", "GPU.hardware.cuda-version", "GPU.hardware[0].driver-version", "GPU.smi.driver-version",
		"OS.release.VERSION_ID", "OS.sysctl./proc/sys/kernel/osrelease", "NodeTopology.nodes[0].kernel-version", "NodeTopology.nodes[0].kubelet-version",
	}
}

func TestAVersionIsHeldByItsTextWithAndWithoutQuotes(t *testing.T) {
	const met, not, wrong = HeldMet, HeldNotMet, HeldError
	for _, c := range []struct {
		written, want string
		is            HeldState
	}{
		{"1.4", ">= 1.32", not},
		{"1.4", "< 1.32", met},
		{"1.9", ">= 1.10", not},
		{"1.10", "<= 1.9", not},
		{"1.10", "> 1.9", met},
		{"1.10", "== 1.1", not},
		{"1.10", "!= 1.1", met},
		{"1.10", "1.1", not},
		{"1.10", "1.10", met},
		{"9.6", ">= 9.10", not},
		{"24.04", "24.04", met},
		{"24.04", "24.4", not}, // bare is the text itself
		{"24.04", "== 24.4", met},
		{"24.0", "24", not},
		{"1.32", "1.32", met},
		{"1.320", ">= 1.33", met},
		{"2", ">= 1.32", met},
		{"1.32.4", ">= 1.32", met},
		{"v1.34.3-gke.1318000", ">= 1.34.3-gke.1318000 < 1.35.0 || >= 1.35.0-gke.2745000", met},

		// What is no version is neither another nor none.
		{"1e3", ">= 1.32", wrong},
		{"1e3", "1000", wrong},
		{"0x7fff", ">= 1.32", wrong},
		{"0x7fff", "!= 1.32", wrong},
		{"1_000", ">= 1.32", wrong},
		{"-1", "< 1.32", wrong},
		{".5", "< 1.32", wrong},
		{"junk", ">= 1.32", wrong},
		{"junk", "!= 1.33", wrong},
		{"junk", "== 1.33", wrong},
		{"junk", "1.33", wrong},
		{`""`, "!= 1.33", wrong},
		{`""`, "1.33", wrong},
		{"true", "!= 1.33", wrong},
		{"1.33-", "!= 1.34", wrong},
		{"sha256:00", "!= 1.33", wrong},
	} {
		for _, path := range versionPaths() {
			for _, written := range []string{c.written, `"` + strings.Trim(c.written, `"`) + `"`} {
				h := Hold(RecipeConstraint{Name: path, Value: Wanted(c.want)}, snapshotSaying(t, path, written))
				if h.State != c.is {
					t.Errorf("%s: %s %s is %s (%s), want %s", path, written, c.want, h.State, h.Reason, c.is)
				}
				if c.is == wrong && !strings.Contains(h.Reason, "which is no version") {
					t.Errorf("%s: %s %s for the reason %q", path, written, c.want, h.Reason)
				}
			}
		}
	}
}

func TestAValueThatIsNoneOfItsKindCannotBeHeld(t *testing.T) {
	const met, not, wrong = HeldMet, HeldNotMet, HeldError
	for _, c := range []struct {
		path, written, want string
		is                  HeldState
		reason              string
	}{
		{FactGPUCount, "x", "!= 8", wrong, `"x", which is no number`},
		{FactGPUCount, "x", "8", wrong, "which is no number"},
		{FactGPUCount, "x", ">= 8", wrong, "which is no number"},
		{FactGPUCount, `""`, "!= 8", wrong, "which is no number"},
		{FactGPUCount, "true", "!= 8", wrong, "which is no number"},
		{FactGPUCount, "1.2.3", "!= 8", wrong, "which is no number"},
		{FactGPUCount, "8 GB/s", "!= 8", wrong, "has no unit"},
		{FactGPUCount, "8 GB/s", "8", wrong, "has no unit"},
		{FactGPUCount, "8", "!= 8", not, ""},
		{FactGPUCount, `"8"`, "!= 8", not, ""},
		{FactGPUCount, `"8"`, ">= 8", met, ""},
		{FactGPUCount, "0x10", ">= 16", met, ""},
		// What is known to be a number is no version.
		{"GPU.hardware.gpu-memory-mib", "0.9", ">= 0.85", met, ""},
		{"GPU.hardware.gpu-memory-mib", `"0.9"`, ">= 0.85", met, ""},
		{"GPU.hardware.gpu-memory-mib", "8.5", "<= 8", not, ""},
		{"GPU.hardware.gpu-memory-mib", "8.10", "8.1", met, ""},

		{"GPU.hardware.gpu-present", "maybe", "!= false", wrong, `"maybe", which is neither true nor false`},
		{"GPU.hardware.gpu-present", "maybe", "true", wrong, "neither true nor false"},
		{"GPU.hardware.gpu-present", `""`, "!= false", wrong, "neither true nor false"},
		{"GPU.hardware.gpu-present", "1", "!= false", wrong, "neither true nor false"},
		{"GPU.hardware.gpu-present", "true", "!= false", met, ""},
		{"GPU.hardware.gpu-present", `"true"`, "!= false", met, ""},
		{"GPU.hardware.gpu-present", "false", "!= false", not, ""},

		// Of a fact whose kind is not known, any text is another.
		{"K8s.image.gpu-operator", "latest", "!= v25.10.0", met, ""},
		{"K8s.image.gpu-operator", "25.10", ">= 25.9", met, ""},
		{"K8s.image.gpu-operator", "25.9", ">= 25.10", not, ""},
		{"OS.sysctl.a", "1e3", ">= 5", met, ""},
		{"OS.sysctl.a", "0x7fff", ">= 40000", not, ""},
	} {
		h := Hold(RecipeConstraint{Name: c.path, Value: Wanted(c.want)}, snapshotSaying(t, c.path, c.written))
		if h.State != c.is || !strings.Contains(h.Reason, c.reason) {
			t.Errorf("%s: %s %s is %s (%s), want %s (%s)", c.path, c.written, c.want, h.State, h.Reason, c.is, c.reason)
		}
	}
}

func TestAnUnknownFactPrevailsOverAValueOfItAndAValueOverAllTheRest(t *testing.T) {
	s := oneFact("K8s.grove.installed", false)
	s.Measurements[0].Subtypes[0].Unknown = map[string]Unknown{"*": {Reason: ReasonAbsent}}
	if h := Hold(RecipeConstraint{Name: "K8s.grove.installed", Value: "false"}, s); h.State != HeldMet {
		t.Errorf("%+v", h)
	}
	s.Measurements[0].Subtypes[0].Unknown = map[string]Unknown{"installed": {Reason: ReasonTimedOut}}
	if h := Hold(RecipeConstraint{Name: "K8s.grove.installed", Value: "false"}, s); h.State != HeldError {
		t.Errorf("%+v", h)
	}
}

func TestVersionsOfADeploymentAreFactsOfTheSnapshot(t *testing.T) {
	eks := readSnapshot(t, "eks-h100.yaml")
	for _, c := range []struct {
		name, value string
		is          HeldState
	}{
		{"Deployment.gpu-operator.version", ">= 25.10.0", HeldMet},
		{"gpu-operator.version", "== v25.10.0", HeldMet},
		{"Deployment.gpu-operator.version", ">= 26", HeldNotMet},
		{"Deployment.gpu-driver.version", ">= 580.82.07", HeldMet},
		{"Deployment.gpu-driver.version", ">= 580.95.6", HeldNotMet},
		{"dynamo-platform.version", ">= 1.4 < 1.5", HeldMet},
		{"Deployment.nothing.version", ">= 1", HeldError},
		{"Deployment.gpu-operator.chart", ">= 1", HeldError},
		{"Deployment.gpu-operator.version", ">= new", HeldError},
	} {
		h := HoldDeployment(RecipeConstraint{Name: c.name, Value: Wanted(c.value)}, eks)
		if h.State != c.is || h.Name != c.name {
			t.Errorf("%s %s: %+v", c.name, c.value, h)
		}
	}
	if h := HoldDeployment(RecipeConstraint{Name: "Deployment.gpu-operator.version", Value: ">= 1"}, readSnapshot(t, "forbidden.yaml")); h.State != HeldError || !strings.Contains(h.Reason, "forbidden") {
		t.Errorf("%+v", h)
	}
}

func TestEverythingThatARecipeWantsOfTheClusterIsHeldWithItsOrigin(t *testing.T) {
	r := &Recipe{Name: "h100", Wants: []RecipeConstraint{{Name: FactServerVersion, Value: ">= 1.34"}, {Name: "OS.release.ID", Value: "rhel"}},
		Origins: map[string]Origin{"/" + FactServerVersion: {"eks", "overlays/eks.yaml"}, "readiness/" + FactGPUCount: {"h100-any", ""}}}
	r.Phases.Readiness = &RecipePhase{Constraints: []RecipeConstraint{{Name: FactGPUCount, Value: ">= 8"}}}
	var got []string
	for _, h := range HoldAll(r, readSnapshot(t, "eks-h100.yaml")) {
		got = append(got, fmt.Sprintf("%s %s from %s", h.Name, h.State, h.From))
	}
	want := "K8s.server.version met from eks (overlays/eks.yaml); OS.release.ID not met from h100; GPU.hardware.gpu-count met from h100-any"
	if strings.Join(got, "; ") != want {
		t.Errorf("%s\nwant %s", strings.Join(got, "; "), want)
	}
	if all := HoldAll(&Recipe{}, nil); all == nil || len(all) != 0 {
		t.Errorf("of nothing: %v", all)
	}
}

func FuzzConstraint(f *testing.F) {
	for _, seed := range [][3]string{
		{FactServerVersion, ">= 1.34.3-gke.1318000 < 1.35.0 || >= 1.35.0-gke.2745000", ""},
		{PathGPUNodesLabel, "!nvidia.com/gpu", ""}, {PathGPUNodesLabel, "a=b", ""}, {openFact, ">= 300 GB/s", "GB/s"},
		{"NetworkTopology.pfs[rail=3].rail", "3", ""}, {"SystemD.a.service.b", "!= x", ""}, {openFact, "1.0.0rc1", "%"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	eks, forbidden := readSnapshot(f, "eks-h100.yaml"), readSnapshot(f, "forbidden.yaml")
	f.Fuzz(func(t *testing.T, name, value, unit string) {
		c := RecipeConstraint{Name: name, Value: Wanted(value), Unit: unit}
		text, _ := ConstraintMistake(c)
		for _, s := range []*Snapshot{nil, eks, forbidden} {
			h := Hold(c, s)
			switch {
			case h.State != HeldMet && h.State != HeldNotMet && h.State != HeldError:
				t.Fatalf("a state of %q", h.State)
			case text != "" && h.State != HeldError:
				t.Fatalf("%s, and yet %s", text, h.State)
			case s == nil && h.State != HeldError:
				t.Fatalf("of nothing: %s", h.State)
			case h.State != HeldMet && h.Reason == "":
				t.Fatalf("%s without a reason", h.State)
			}
		}
		if v, err := ParseReleaseVersion(value); err == nil && v.Compare(v) != 0 {
			t.Fatalf("%q is not itself", value)
		}
	})
}
