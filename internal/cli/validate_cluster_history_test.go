package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// onNode is a run on a node of a cluster.
func onNode(id, node string) spec.Run {
	return spec.Run{Schema: spec.RunSchema, ID: id, Version: "v0", Command: "aicr validate", Start: "2026-11-16T05:00:00Z",
		Target: spec.Target{Context: "prod", Node: node, Model: "qwen"}}
}

// clusterPlan is one for two workers.
func clusterPlan() *spec.Plan {
	th, _ := spec.DefaultThresholds(spec.ProfileQuick)
	return &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileQuick, Stability: spec.StabilityGate, Thresholds: th, Constraints: []spec.Constraint{}, Inputs: map[string]spec.Input{},
		Point: spec.OperatingPoint{Workers: 2, Concurrency: 16, DurationS: 20, InputTokens: 128, OutputTokens: 128, Prompts: "unique"}}
}

// clusterJob is what tells a verdict, with a history, and what it says.
func clusterJob(t *testing.T, path string) (*validateJob, *bytes.Buffer) {
	t.Helper()
	past, said := keepHistory(t, path)
	return &validateJob{app: past.app, options: &validateOptions{failOn: failOnNever}, plan: clusterPlan(), past: past, papers: &papers{}, origin: onNode("", "").Target}, said
}

// entriesIn are the lines of a history.
func entriesIn(t *testing.T, path string) []spec.HistoryEntry {
	t.Helper()
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	known, err := spec.DecodeHistory(data)
	if err != nil {
		t.Fatal(err)
	}
	return known.Entries
}

func placedAt(node string, gpus ...string) (all []spec.Event) {
	for i, gpu := range gpus {
		all = append(all, spec.Event{T: 1, Kind: spec.EventPlaced, Source: node, Worker: "decode-" + string(rune('a'+i)), GPU: gpu})
	}
	return all
}

// What is free is what a run can be given: stalls of any other GPU are not this one's.
func TestTheGPUsOfARunAreKnownBeforeItIsThere(t *testing.T) {
	devices := func(all ...kube.Device) []kube.GPUNode {
		return []kube.GPUNode{{Name: "other", Devices: []kube.Device{{UUID: "GPU-x"}}}, {Name: "gpu-0", Devices: all}}
	}
	two := devices(kube.Device{UUID: "GPU-b"}, kube.Device{UUID: "GPU-a"})
	for name, c := range map[string]struct {
		nodes []kube.GPUNode
		on    graph.Chosen
		want  []string
	}{
		"all":                            {two, graph.Chosen{Node: "gpu-0", By: graph.ByClaim}, []string{"GPU-a", "GPU-b"}},
		"not what somebody holds":        {devices(kube.Device{UUID: "GPU-b", Held: true}, kube.Device{UUID: "GPU-a"}), graph.Chosen{Node: "gpu-0", By: graph.ByClaim}, []string{"GPU-a"}},
		"one without a UUID may be any":  {devices(kube.Device{UUID: "GPU-b"}, kube.Device{Name: "gpu-1"}), graph.Chosen{Node: "gpu-0", By: graph.ByClaim}, nil},
		"a device plugin does not say":   {two, graph.Chosen{Node: "gpu-0", By: graph.ByDevicePlugin}, nil},
		"a node that is no longer there": {two, graph.Chosen{Node: "gone", By: graph.ByClaim}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			j := &validateJob{plan: clusterPlan(), nodes: c.nodes}
			got := j.toBe(onNode("r", "gpu-0"), []spec.Event{{Kind: spec.EventVersions, Runtime: "1.4.1"}}, c.on)
			want := spec.Deployment{Target: "cluster:prod/gpu-0", Model: "qwen", Workers: 2, Runtime: "1.4.1", GPUs: c.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What a history keeps of a run on a cluster is what its record says: of the runtime, and
// of the GPUs that its workers had, and nobody else's.
func TestAHistoryKnowsTheGPUsOfARunOnACluster(t *testing.T) {
	_, record, _ := loadRecord(t)
	episode, err := record.Episode(record.Numbers()[0])
	if err != nil {
		t.Fatal(err)
	}
	var names []string // of GPUs
	for i := range episode.Series {
		if s := &episode.Series[i]; s.GPU != nil {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
			s.GPU.Pod = "training-0"
			if s.Name == names[0] {
				s.GPU.Pod = "decode-b"
			}
		}
	}
	if len(names) < 2 {
		t.Fatalf("GPUs %q", names)
	}
	versions := spec.Event{Kind: spec.EventVersions, Runtime: "1.4.1"}
	for name, c := range map[string]struct {
		events []spec.Event
		want   []string
	}{
		"by their claims":            {placedAt("gpu-0", "GPU-b", "GPU-a"), []string{"GPU-a", "GPU-b"}},
		"by an exporter's pods":      {placedAt("gpu-0", "", ""), names[:1]},
		"by nobody's, if none is":    {[]spec.Event{{Kind: spec.EventPlaced, Source: "gpu-0", Worker: "decode-z"}}, nil},
		"by nobody's, if not told":   {nil, nil},
		"by claims, as far as known": {placedAt("gpu-0", "GPU-b", ""), []string{"GPU-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := bookOf(t, &graph.Kept{Run: onNode("r", "gpu-0"), Plan: record.Plan, Events: append([]spec.Event{versions}, c.events...)})
			if err := b.Event(spec.Event{T: 2, Kind: spec.EventStage, Stage: "episode", Episode: episode.Episode.Number}); err != nil {
				t.Fatal(err)
			}
			if err := b.Episode(episode); err != nil {
				t.Fatal(err)
			}
			want := spec.Deployment{Target: "cluster:prod/gpu-0", Model: "qwen", Workers: 2, Runtime: "1.4.1", GPUs: c.want}
			if diff := cmp.Diff(want, b.deployment(2)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Each node of a fleet has a line of its own, and what the history shows of it is said.
func TestEachNodeOfAFleetIsALineOfTheHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	j, said := clusterJob(t, path)
	v := &spec.Verdict{Schema: spec.VerdictSchema, Verdict: spec.Fail, Profile: spec.ProfileQuick, LoadedS: 60, Stalls: []spec.Stall{{Episode: 1, Worker: "decode-a", GPU: "GPU-a"}}}
	for _, node := range []string{"gpu-0", "gpu-1"} {
		b := bookOf(t, &graph.Kept{Run: onNode("run-"+node, node), Plan: j.plan, Events: placedAt(node, "GPU-a", "GPU-"+node)})
		if err := j.tellVerdict(t.Context(), b, &graph.End{Verdict: v}, false); err != nil {
			t.Fatal(err)
		}
		if want := node + "  history: 1 run of this deployment"; !strings.Contains(said.String(), want) {
			t.Errorf("%q is not said:\n%s", want, said)
		}
	}
	all := entriesIn(t, path)
	if len(all) != 2 || all[0].Digest == all[1].Digest || all[1].Deployment.Target != "cluster:prod/gpu-1" {
		t.Fatalf("%+v", all)
	}
	if got := all[1]; !slices.Equal(got.Deployment.GPUs, []string{"GPU-a", "GPU-gpu-1"}) || !slices.Equal(got.Stalls, []spec.HistoryStall{{GPU: "GPU-a", Worker: "decode-a", Count: 1}}) {
		t.Errorf("%+v", got)
	}
	// Before the next run they count, for the node that they were on.
	h, _ := keepHistory(t, path)
	prior, _ := h.prior(spec.NewDeployment(onNode("", "gpu-1").Target, 2), all[1].Time())
	if len(prior) != 1 || prior[0].GPU != "GPU-a" || prior[0].Count != 1 {
		t.Errorf("%+v", prior)
	}
}

// A run whose load goes on is judged by half of it: who attaches appends it, once and whole.
func TestARunThatGoesOnIsNotInTheHistoryYet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	j, said := clusterJob(t, path)
	for _, goesOn := range []bool{true, false} {
		b := bookOf(t, &graph.Kept{Run: onNode("r", "gpu-0"), Plan: j.plan, Events: placedAt("gpu-0", "GPU-a")})
		b.goesOn = goesOn
		v := &spec.Verdict{Schema: spec.VerdictSchema, Verdict: spec.Inconclusive, Profile: spec.ProfileQuick}
		if err := j.tellVerdict(t.Context(), b, &graph.End{Verdict: v}, false); err != nil {
			t.Fatal(err)
		}
		if n := len(entriesIn(t, path)); (n == 0) != goesOn {
			t.Errorf("%d lines, and it goes on: %v", n, goesOn)
		}
	}
	if !strings.Contains(said.String(), "--attach with --history appends it") {
		t.Error(said)
	}
}

// That no GPU is free is a verdict as any other: a line of the history, which names who
// holds them.
func TestNothingFreeIsALineOfTheHistory(t *testing.T) {
	for node, target := range map[string]string{"": "cluster:prod/", "gpu-0": "cluster:prod/gpu-0"} {
		path := filepath.Join(t.TempDir(), "history.jsonl")
		j, said := clusterJob(t, path)
		j.choice = &graph.Choice{Rejected: []graph.Rejected{{Node: "gpu-0", Full: true, GPUs: 2, Held: []kube.Holder{{Kind: "Pod", Namespace: "x", Name: "y", GPUs: 2}}}}}
		v, err := j.nothingFree(t.Context(), filepath.Join(t.TempDir(), "run"), node, true)
		if err != nil || v == nil || v.Verdict != spec.Fail || !strings.Contains(v.Reason, "x/y (2)") {
			t.Fatalf("%+v, %v\n%s", v, err, said)
		}
		all := entriesIn(t, path)
		if len(all) != 1 || all[0].Verdict != spec.Fail || all[0].Deployment.Target != target || time.Since(all[0].Time()) > time.Hour {
			t.Errorf("%+v", all)
		}
	}
}
