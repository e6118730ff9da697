package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"aicr/internal/checks/graph"
	"aicr/internal/kube"
	"aicr/internal/kube/kubetest"
	"aicr/internal/spec"
)

// What is left alone is told with the command that removes it, which finds it from
// anywhere: its namespace and its cluster are in it.
func TestWhatCleanLeavesAloneIsToldWithHowToRemoveIt(t *testing.T) {
	const list = `{"apiVersion":"v1","kind":"List","items":[ITEM]}`
	n := graph.NamesOf(someRun)
	meta := func(more string) string {
		return `"labels":{"` + graph.LabelOwner + `":"aicr","` + graph.LabelRun + `":"` + someRun + `"}` + more
	}
	w := startCluster(t, "")
	answer := func(path, item string) {
		w.Answer(path, http.StatusOK, strings.Replace(list, "ITEM", item, 1))
	}
	answer("/api/v1/namespaces", `{"metadata":{"name":"`+n.Namespace+`",`+meta(`,"annotations":{"`+graph.AnnotationHome+`":"team-a"}`)+`}}`)
	w.Answer("/api/v1/namespaces/team-a", http.StatusOK, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team-a"}}`)
	for _, name := range []string{"clusterroles", "clusterrolebindings"} {
		answer("/apis/rbac.authorization.k8s.io/v1/"+name, "")
	}
	for path, kinds := range map[string][]string{"/api/v1/": {"configmaps", "serviceaccounts"}, "/apis/rbac.authorization.k8s.io/v1/": {"roles", "rolebindings"}} {
		for _, kind := range kinds {
			w.Answer(path+kind, http.StatusForbidden, "")
			w.Answer(path+"namespaces/team-a/"+kind, http.StatusForbidden, "")
			answer(path+"namespaces/team-b/"+kind, "")
		}
	}
	job := func(active string) string {
		return `{"metadata":{"name":"` + n.Load + `","namespace":"team-a",` + meta("") + `},"status":{"active":` + active + `}}`
	}
	for name, c := range map[string]struct {
		active string
		alive  bool
		want   string
	}{
		"alive":   {"1", true, "alive its load is running COMMAND removes it all the same"},
		"unknown": {"0", false, "unknown it is not known whether somebody leads it: you may not look into namespace team-a if nobody does: COMMAND"},
	} {
		t.Run(name, func(t *testing.T) {
			answer("/apis/batch/v1/jobs", job(c.active))
			command := "aicr clean --run " + someRun + " --namespace team-a --kubeconfig " + w.config + " --context test"
			stdout, stderr, code := w.aicr("clean", "--namespace", "team-b", "--kubeconfig", w.config)
			got := strings.Join(strings.Fields(stdout), " ") // the page has lines of its own
			if want := "nothing to remove; left alone: 1 run " + someRun + " " + strings.ReplaceAll(c.want, "COMMAND", command); code != 0 || got != want {
				t.Errorf("code %d, %q, want %q: %s", code, got, want, stderr)
			}
			stdout, stderr, code = w.aicr("clean", "--namespace", "team-b", "--kubeconfig", w.config, "-o", "json")
			var found cleaned
			if err := json.Unmarshal([]byte(stdout), &found); err != nil {
				t.Fatal(err, stdout)
			}
			if len(found.Spared) != 1 || found.Spared[0].Alive != c.alive || found.Spared[0].Command != command || code != 0 {
				t.Errorf("code %d, %s: %s", code, stdout, stderr)
			}
			if all := w.wrote(); len(all) > 0 {
				t.Errorf("it wrote: %q", all)
			}
		})
	}
}

// A run that was begun with a token, and whose Secret is not made yet, is not gone on with
// without one: nothing of it is touched, and with one it can be attached to.
func TestWhoAttachesWithoutTheTokenIsToldBeforeAnythingIsTouched(t *testing.T) {
	w := startCluster(t, "")
	s := attachedSettings(t)
	s.Token = true
	w.keep(t, s, someRun)
	stdout, stderr, code := w.aicr("validate", "--attach", someRun, "--namespace", "mine")
	for _, want := range []string{"run " + someRun + ": it was begun with HF_TOKEN, which is not set here, and its Secret is not made yet",
		"set it and attach again, or remove the run: aicr clean --run " + someRun + " --namespace mine --context test"} {
		if code != int(Misused) || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("code %d, %q, no %q in %s", code, stdout, want, stderr)
		}
	}
	if all := w.wrote(); len(all) > 0 {
		t.Errorf("it wrote: %q", all)
	}
}

// attachedSettings are those of a run in namespace mine, as this program writes them.
func attachedSettings(t *testing.T) *graph.Settings {
	t.Helper()
	env := testEnv(nil)
	images, wrong := newApp(env).attachedImages(&validateOptions{})
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	return &graph.Settings{Run: someRun, Namespace: "mine", Node: "gpu-0", Workers: 2, GPUs: graph.ByDevicePlugin, Graph: "v1beta1", Engine: graph.EngineOwn, Images: images}
}

// keep puts a run on a cluster, at its first stage, as it would be kept with these settings.
func (w *clusterWorld) keep(t *testing.T, s *graph.Settings, run string) {
	t.Helper()
	thresholds, _ := spec.DefaultThresholds(spec.ProfileSmoke)
	plan, err := spec.EncodePlan(&spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileSmoke, Stability: spec.StabilityReport, Thresholds: thresholds, Constraints: []spec.Constraint{},
		Point: spec.OperatingPoint{Workers: 2, Concurrency: 16, DurationS: 15, InputTokens: 128, OutputTokens: 128, Prompts: "unique", RequestTimeout: 60}})
	if err != nil {
		t.Fatal(err)
	}
	about, err := json.Marshal(spec.Run{Schema: spec.RunSchema, ID: run})
	if err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	w.Keep("mine", graph.NamesOf(someRun).Kept, kubetest.Object{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": graph.NamesOf(someRun).Kept, "namespace": "mine", "labels": graph.Labels(someRun, graph.PartKept)},
		"data":     map[string]any{"run.json": string(about), "settings.json": string(settings), "plan.yaml": string(plan), "stage": graph.StageDeploy}})
}

// A ConfigMap that somebody has forged is not gone on with: nothing is touched, no character of
// theirs reaches a terminal, and no image of theirs is pulled.
func TestAForgedRunIsNotAttachedTo(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(s *graph.Settings)
		run   string
		flags []string
		code  Code
		says  []string
	}{
		"another run":       {func(s *graph.Settings) { s.Run = "20261116-030000-fedcba9876543210" }, someRun, nil, Unmeasured, []string{"settings.json run is ", "nothing of it was touched; 'aicr clean --run " + someRun}},
		"a short id":        {func(*graph.Settings) {}, "x", nil, Unmeasured, []string{`run.json id is "x"`}},
		"another namespace": {func(s *graph.Settings) { s.Namespace = "kube-system" }, someRun, nil, Unmeasured, []string{`settings.json namespace is "kube-system"`}},
		"escapes":           {func(s *graph.Settings) { s.Node = "\x1b[2J\u202e" }, someRun, nil, Unmeasured, []string{`settings.json node is "\x1b[2J\u202e"`}},
		"another image":     {func(s *graph.Settings) { s.Images.Load = "evil.example.com/miner:1" }, someRun, nil, Misused, []string{`for the load the run was begun with "evil.example.com/miner:1"`, "--image", "aicr clean --run " + someRun}},
		"an image that was asked for": {func(s *graph.Settings) { s.Images.Load = "example.com/aicr:1"; s.Token = true }, someRun, []string{"--image", "example.com/aicr:1"}, Misused,
			[]string{"it was begun with HF_TOKEN, which is not set here"}}, // and no word of images
	} {
		t.Run(name, func(t *testing.T) {
			w := startCluster(t, "")
			s := attachedSettings(t)
			c.forge(s)
			w.keep(t, s, c.run)
			stdout, stderr, code := w.aicr(append([]string{"validate", "--attach", someRun, "--namespace", "mine"}, c.flags...)...)
			if code != int(c.code) || stdout != "" || strings.Contains(stderr, "\x1b[2J") || strings.Contains(stderr, "\u202e") {
				t.Errorf("code %d, %q, %q", code, stdout, stderr)
			}
			for _, want := range c.says {
				if !strings.Contains(stderr, want) {
					t.Errorf("no %q in %s", want, stderr)
				}
			}
			if all := w.wrote(); len(all) > 0 {
				t.Errorf("it wrote: %q", all)
			}
		})
	}
}

// Who attaches from another machine may call the cluster by another name than who began
// the run: the commands that are told are for where they are told.
func TestACommandThatIsToldFindsTheRunFromHere(t *testing.T) {
	kept := &graph.Kept{Run: spec.Run{ID: someRun, Target: spec.Target{Context: "theirs"}}, Settings: &graph.Settings{Namespace: "mine"}}
	o := &validateOptions{}
	o.on.cluster.kubeconfig = "my config"
	j := &validateJob{options: o, cluster: &kube.Cluster{Context: "ours"}}
	if got, want := j.attachCommand(kept), "aicr validate --attach "+someRun+" --namespace mine --kubeconfig 'my config' --context ours"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The namespace that runs share is listed whole before anything is done to it, and stays where
// something of others is in it.
func TestCleanListsTheNamespaceBeforeItRemovesIt(t *testing.T) {
	w := startCluster(t, "")
	list := func(path, items string) {
		w.Answer(path, http.StatusOK, `{"apiVersion":"v1","kind":"List","items":[`+items+`]}`)
	}
	list("/api/v1/namespaces", "")
	for path, kinds := range map[string][]string{"/api/v1/": {"configmaps", "serviceaccounts"}, "/apis/batch/v1/": {"jobs"},
		"/apis/rbac.authorization.k8s.io/v1/": {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}} {
		for _, kind := range kinds {
			list(path+kind, "")
		}
	}
	w.Answer("/api/v1/namespaces/aicr-validation", http.StatusOK, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"aicr-validation","uid":"u","labels":{"aicr.run/owner":"aicr"}}}`)
	w.Answer("/apis", http.StatusOK, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	w.Answer("/api/v1", http.StatusOK, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"secrets","kind":"Secret","namespaced":true,"verbs":["list"]}]}`)
	const secrets = "/api/v1/namespaces/aicr-validation/secrets"

	list(secrets, `{"metadata":{"name":"registry","namespace":"aicr-validation","uid":"s"}}`)
	stdout, stderr, code := w.aicr("clean", "--namespace-too")
	for _, want := range []string{"namespace aicr-validation stays: ", "1 object in it", "Secret", "registry", "not of a run", "kubectl delete namespace aicr-validation"} {
		if code != int(Unmeasured) || !strings.Contains(stdout, want) {
			t.Errorf("code %d, no %q in %s%s", code, want, stdout, stderr)
		}
	}
	stdout, _, code = w.aicr("clean", "--namespace-too", "-o", "json")
	var found cleaned
	if err := json.Unmarshal([]byte(stdout), &found); err != nil || code != int(Unmeasured) {
		t.Fatal(err, code, stdout)
	}
	if found.Space == nil || found.Space.Removed || found.Space.Reason == nil || found.Space.Reason.Code != string(graph.SpaceInUse) || len(found.Space.Objects) != 1 {
		t.Errorf("%s", stdout)
	}
	w.Answer(secrets, http.StatusForbidden, "")
	if stdout, _, code := w.aicr("clean", "--namespace-too"); code != int(Unmeasured) || !strings.Contains(stdout, "1 kind could not be listed") || !strings.Contains(stdout, "not listed") {
		t.Errorf("code %d, %s", code, stdout)
	}
	list(secrets, "")
	if stdout, _, code := w.aicr("clean", "--namespace-too", "--dry-run"); code != 0 || !strings.Contains(stdout, "namespace aicr-validation would be removed: nothing is in it") {
		t.Errorf("code %d, %s", code, stdout)
	}
	if all := w.wrote(); len(all) > 0 {
		t.Errorf("it wrote: %q", all)
	}
}
