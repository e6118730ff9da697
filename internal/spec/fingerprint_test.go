package spec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCriteriaAreInferredWithTheirEvidence(t *testing.T) {
	for _, c := range []struct {
		file     string
		criteria Criteria
		evidence []string // field: path
		untold   []string // field: part of the reason
	}{
		{"eks-h100.yaml", Criteria{Service: "eks", Accelerator: "h100", OS: "ubuntu", Intent: "inference", Platform: "dynamo", Nodes: 1},
			[]string{"service: K8s.node.provider", "accelerator: GPU.hardware.model", "os: OS.release.ID", "platform: K8s.dynamo-platform.installed", "intent: K8s.dynamo-platform.installed", "nodes: NodeTopology.nodes"}, nil},
		{"gke-h100.yaml", Criteria{Service: "gke", Accelerator: "h100", OS: "cos", Nodes: 2},
			[]string{"service: K8s.node.provider", "accelerator: GPU.hardware.model", "os: OS.release.ID", "nodes: NodeTopology.nodes"},
			[]string{"platform: dynamo is not installed", "intent: say it"}},
		{"upstream-eks.yaml", Criteria{Service: "eks", Accelerator: "h100", OS: "ubuntu", Nodes: 2},
			[]string{"service: K8s.node.provider", "accelerator: GPU.hardware.model", "os: OS.release.ID", "nodes: NodeTopology.label"},
			[]string{"platform: the snapshot has no K8s.dynamo-platform", "intent: say it"}},
		{"forbidden.yaml", Criteria{Service: "eks", Intent: "inference", Platform: "dynamo"},
			[]string{"service: K8s.server.version", "platform: K8s.dynamo-crds.dynamographdeployments", "intent: K8s.dynamo-crds.dynamographdeployments"},
			[]string{"accelerator: forbidden", "os: forbidden", "nodes: forbidden"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			criteria, told, untold := InferCriteria(readSnapshot(t, c.file))
			if diff := cmp.Diff(c.criteria, criteria); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var evidence []string
			for _, e := range told {
				if evidence = append(evidence, e.Field+": "+e.Path); e.Found == "" || e.Value == "" {
					t.Errorf("%+v", e)
				}
			}
			if diff := cmp.Diff(c.evidence, evidence); diff != "" {
				t.Errorf("evidence (-want +got):\n%s", diff)
			}
			if len(untold) != len(c.untold) {
				t.Fatalf("untold: %v", untold)
			}
			for i, want := range c.untold {
				field, reason, _ := strings.Cut(want, ": ")
				if untold[i].Field != field || !strings.Contains(untold[i].Reason, reason) {
					t.Errorf("%+v, want %s", untold[i], want)
				}
			}
		})
	}
}

func TestNothingIsInferredOfNothing(t *testing.T) {
	for _, s := range []*Snapshot{nil, {}} {
		criteria, told, untold := InferCriteria(s)
		if criteria != (Criteria{}) || len(told) != 0 || len(untold) != 6 {
			t.Errorf("%+v, %v, %v", criteria, told, untold)
		}
		f := FingerprintOf(s)
		if f.Service.Value != "" || f.Service.Note == "" || f.NodeCount.Source != "" {
			t.Errorf("%+v", f)
		}
	}
}

func TestAProductIsNamedByWholeWords(t *testing.T) {
	for model, want := range map[string]string{
		"NVIDIA-H100-80GB-HBM3": "h100", "NVIDIA H100 80GB HBM3": "h100", "nvidia-h100-mega-80gb": "h100", "h100": "h100", "NVIDIA H100 NVL": "h100",
		"NVIDIA H200": "h200", "nvidia-h200-141gb": "h200", "NVIDIA B200": "b200", "NVIDIA-GB200": "gb200", "NVIDIA GB300": "gb300",
		"NVIDIA-A100-SXM4-80GB": "a100", "NVIDIA-L40S": "l40s", "NVIDIA-L40": "l40", "NVIDIA VR200": "vr200",
		"NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition": "rtx-pro-6000", "rtx-pro-6000": "rtx-pro-6000",
		"simulated": "sim", "Simulated H100": "sim",
		"NVIDIA GH200 480GB": "", "NVIDIA RTX A1000": "", "NVIDIA RTX 6000": "", "NVIDIA L4": "", "Tesla T4": "", "": "",
		"NVIDIA-H100-80GB-HBM3-MIG-1g.10gb": "h100",
	} {
		if got := acceleratorOf(model); got != want {
			t.Errorf("%s is %q, want %q", model, got, want)
		}
	}
}

func TestAServiceIsKnownByWhereItsNodesCameFrom(t *testing.T) {
	for provider, want := range map[string]string{
		"eks": "eks", "aws": "eks", "aws:///us-east-1a/i-0": "eks", "gce://p/z/n": "gke", "azure:///subscriptions/x": "aks", "oci": "oke", "ocid1.instance.oc1": "oke",
		"linode://1": "lke", "kind://docker/kind/x": "kind", "sim": "sim", "openstack:///x": "", "": "",
	} {
		if got := serviceOf(provider); got != want {
			t.Errorf("%s is %q, want %q", provider, got, want)
		}
	}
	for path, want := range map[string]string{
		"K8s.node.provider-id=aws:///us-east-1a/i-0": "eks",
		"K8s.server.version=v1.34.1-eks-113cf36":     "eks",
		"K8s.server.version=v1.34.1-gke.100":         "gke",
		"K8s.server.version=v1.34.1":                 "",
	} {
		path, value, _ := strings.Cut(path, "=")
		if c, _, _ := InferCriteria(oneFact(path, value)); c.Service != want {
			t.Errorf("%s=%s is %q, want %q", path, value, c.Service, want)
		}
	}
}

func TestASystemIsKnownByItsNameOrItsImage(t *testing.T) {
	for text, want := range map[string]string{
		"ubuntu": "ubuntu", "Ubuntu 24.04.3 LTS": "ubuntu", "cos": "cos", "Container-Optimized OS from Google": "cos", "amzn": "amazonlinux", "Amazon Linux 2023.8": "amazonlinux",
		"rhel": "rhel", "Red Hat Enterprise Linux CoreOS 418": "rhel", "Talos (v1.9.0)": "talos", "Oracle Linux Server 8.10": "ol", "Bottlerocket OS 1.40": "", "debian": "", "": "",
	} {
		if got := osOf(text); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestFactsThatContradictEachOtherInferNothing(t *testing.T) {
	mixed := topology(Subtype{Name: "label", Data: Facts{labelGPUProduct + ".NVIDIA-H100": NewScalar("NVIDIA-H100|a"), labelGPUProduct + ".NVIDIA-L4": NewScalar("NVIDIA-L4|b")}})
	folded := topology(Subtype{Name: "label", Data: Facts{labelGPUProduct + ".NVIDIA-L40": NewScalar("NVIDIA-L40|b")}})
	folded.Measurements = append(folded.Measurements, oneFact(FactGPUModel, "h100").Measurements...)
	eks := readSnapshot(t, "eks-h100.yaml")
	eks.Subtype(TypeK8s, "node").Data["provider"] = NewScalar("gke")
	eks.Subtype(TypeOS, "release").Data["ID"] = NewScalar("rhel")
	for _, c := range []struct {
		s     *Snapshot
		field string
	}{{mixed, "accelerator"}, {folded, "accelerator"}, {eks, "service"}, {eks, "os"}} {
		criteria, _, untold := InferCriteria(c.s)
		of := map[string]string{"accelerator": criteria.Accelerator, "service": criteria.Service, "os": criteria.OS}
		reason := ""
		for _, u := range untold {
			if u.Field == c.field {
				reason = u.Reason
			}
		}
		if of[c.field] != "" || !strings.Contains(reason, "contradict") {
			t.Errorf("%s: %q, %q", c.field, of[c.field], reason)
		}
	}
}

func TestAFingerprintIsConcludedAnew(t *testing.T) {
	s := readSnapshot(t, "upstream-eks.yaml")
	s.Fingerprint.Accelerator.Value = "gb200"
	got := FingerprintOf(s)
	want := Fingerprint{
		Service:      FingerprintText{Value: "eks", Source: "K8s.node.provider"},
		Accelerator:  FingerprintText{Value: "h100", Source: FactGPUModel},
		OS:           FingerprintText{Value: "ubuntu", Version: "24.04", Source: "OS.release.ID"},
		GPUModel:     FingerprintText{Value: "h100", Source: FactGPUModel},
		GPUNodeCount: FingerprintCount{2, "NodeTopology.label"},
		NodeCount:    FingerprintCount{3, "NodeTopology.summary.node-count"},
		K8sVersion:   FingerprintText{Value: "1.34.1-eks-113cf36", Source: FactServerVersion},
		Region:       FingerprintText{Value: "us-east-1", Source: "NodeTopology.label." + labelRegion},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
