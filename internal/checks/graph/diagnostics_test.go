package graph

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode"

	"sigs.k8s.io/yaml"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// A container that was killed may be back when its pod is looked at for the diagnostics:
// what decided is told all the same, once, and nothing that says the opposite.
func TestTheIndexTellsWhatDecidedAndHasPassed(t *testing.T) {
	killed := spec.Event{Kind: spec.EventPod, Source: "w-0", Worker: "w-0", Reason: "OOMKilled", Text: "container main was killed for its memory"}
	unknown := spec.Event{Kind: spec.EventPod, Source: "w-0", Worker: "w-0", Reason: notReadyReason, Text: "ContainerCreating"}
	for name, c := range map[string]struct {
		status map[string]any
		told   []spec.Event
		want   string
	}{
		"it is back": {podReady, []spec.Event{unknown, killed, {Kind: spec.EventNotServed}},
			"FAIL: memory ran out\nw-0: OOMKilled: container main was killed for its memory (seen before, and not any more)\n\n"},
		"it is not": {map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{"name": "main", "state": map[string]any{"terminated": map[string]any{"reason": "OOMKilled", "exitCode": 137}}}}},
			[]spec.Event{killed}, "FAIL: memory ran out\nw-0: OOMKilled: container main was killed for its memory, without a limit"},
		"nothing was told": {podReady, []spec.Event{unknown}, "FAIL: memory ran out\nNothing is seen to be wrong with the pods of the graph.\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := newMemory(), runSettings(memoryRun)
				m.put(resGraphs("v1beta1"), graphObject("pending", 1, 0))
				m.put(resPods, memoryPod("w-0", "worker", c.status))
				index := ""
				Diagnose(t.Context(), m, s, "FAIL: memory ran out", func(name string, data []byte) error {
					if name == "index.txt" {
						index = string(data)
					}
					return nil
				}, c.told...)
				if !strings.HasPrefix(index, c.want) || strings.Count(index, "OOMKilled: ") > 1 {
					t.Errorf("it begins otherwise than with\n%s\n%s", c.want, index)
				}
			})
		})
	}
}

// The load's Job, its pod and those of its trial are kept wherever they are, each once, and
// what is wrong with them is told: AIPerf's are among what serves.
func TestTheLoadIsDiagnosedWhoeverLoads(t *testing.T) {
	for _, engine := range []string{EngineOwn, EngineAIPerf} {
		t.Run(engine, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := newMemory(), runSettings(memoryRun)
				s.Engine, s.Images.AIPerf, s.Cache = engine, "example.com/load:1.2.3", &Cache{Size: "1Gi"}
				n := NamesOf(s.Run)
				m.put(resGraphs("v1beta1"), graphObject("pending", 1, 0))
				m.put(resPods, memoryPod("w-0", "worker", podReady))
				m.put(resJobs, populateManifest(s))
				m.put(resJobs, trialManifest(s))
				for _, step := range Objects(s) {
					if step.Part == PartLoad && step.Resource == resJobs {
						m.put(resJobs, step.Object)
					}
				}
				trial := trialPod(s, waitingFor("ImagePullBackOff", "Back-off pulling image: ErrImagePull: not found"), "Pending")
				m.put(resPods, trial)
				loads := aiperfPod(s, "Running", map[string]any{"running": map[string]any{}})
				loads.List("status", "containerStatuses")[0]["name"] = loadContainerOf(s)
				m.put(resPods, loads)
				m.logs[loads.Name()+"/"+loadContainerOf(s)] = "a line"
				for _, of := range []string{n.Trial, n.Load, "w-0"} {
					namespace := LoadNamespace(s)
					if of == "w-0" {
						namespace = n.Namespace
					}
					m.put(resEvents, kube.Object{"kind": "Event", "metadata": map[string]any{"name": of, "namespace": namespace}, "reason": "Scheduled", "involvedObject": map[string]any{"kind": "Pod", "name": of}})
				}
				var names []string
				text := map[string]string{}
				wrong := Diagnose(t.Context(), m, s, "", func(name string, data []byte) error {
					names, text[name] = append(names, name), string(data)
					return nil
				})
				for _, want := range []string{"job-load.yaml", "job-trial.yaml", "job-populate.yaml", "pod-" + trial.Name() + ".yaml", "pod-" + loads.Name() + ".yaml",
					"log-" + loads.Name() + "-" + loadContainerOf(s) + ".txt", "pod-w-0.yaml", "events.txt", "events-load.txt", "index.txt"} {
					if at := slices.Index(names, want); at < 0 || slices.Contains(names[at+1:], want) {
						t.Errorf("%s is not kept once: %q, %v", want, names, wrong)
					}
				}
				if !strings.Contains(text["job-load.yaml"], "name: "+n.Load+"\n") || !strings.Contains(text["job-populate.yaml"], "name: "+n.Populate+"\n") {
					t.Errorf("a Job is kept under another's name:\n%s\n%s", text["job-load.yaml"], text["job-populate.yaml"])
				}
				if strings.Contains(text["events.txt"], n.Load) || strings.Count(text["events-load.txt"], n.Load) != 2 {
					t.Errorf("events of the load:\n%s\nof what serves:\n%s", text["events-load.txt"], text["events.txt"])
				}
				if strings.Count(text["index.txt"], "ImagePullBackOff: ") != 1 {
					t.Errorf("what is wrong is not told once:\n%s", text["index.txt"])
				}
			})
		})
	}
}

// What pods, events and nodes say is kept to be read, in a terminal or in the log of a workflow,
// and does nothing else there.
func TestDiagnosticsDoNothingButBeRead(t *testing.T) {
	const hostile = "a\x1b[2J\x1b]8;;http://evil\x07b\u202e\u009b31m\x00\n::stop-commands::x\n##[group]y"
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), runSettings(memoryRun)
		graph := graphObject("pending", 1, 0)
		graph["status"].(map[string]any)["message"] = hostile
		m.put(resGraphs("v1beta1"), graph)
		pod := memoryPod("w-0", "worker", podReady)
		pod["metadata"].(map[string]any)["annotations"] = map[string]any{"note": hostile}
		m.put(resPods, pod)
		m.logs["w-0/main"] = hostile + " key \x1b[31mhf_\x1b[0mABCDEF0123\n"
		m.put(resEvents, kube.Object{"kind": "Event", "metadata": map[string]any{"name": "e", "namespace": NamesOf(s.Run).Namespace},
			"reason": hostile, "message": hostile, "involvedObject": map[string]any{"kind": "Pod", "name": "w-0"}})
		m.put(resNodes, kube.Object{"metadata": map[string]any{"name": s.Node},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": hostile, "message": hostile}}}})
		said := map[string]bool{}
		Diagnose(t.Context(), m, s, "FAIL: "+hostile, func(name string, data []byte) error {
			said[name] = true
			for line := range strings.Lines(string(data)) {
				line = strings.TrimSuffix(line, "\n")
				trimmed := strings.TrimSpace(line)
				if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || r == '\u202e' }) ||
					strings.HasPrefix(trimmed, "::") || strings.Contains(line, "##[") || strings.Contains(line, "ABCDEF") {
					t.Errorf("%s: %q", name, line)
				}
			}
			if strings.HasSuffix(name, ".yaml") {
				var o kube.Object
				if err := yaml.Unmarshal(data, &o); err != nil {
					t.Errorf("%s: %v\n%s", name, err, data)
				}
			}
			return nil
		})
		for _, name := range []string{"graph.yaml", "pod-w-0.yaml", "log-w-0-main.txt", "events.txt", "node.txt", "index.txt"} {
			if !said[name] {
				t.Errorf("%s is not kept: %v", name, said)
			}
		}
	})
}
