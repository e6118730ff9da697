package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
)

// putKept puts a ConfigMap of a run on a cluster as whoever may write ConfigMaps could.
func putKept(t *testing.T, m *memoryAPI, namespace, run string, data fields) {
	t.Helper()
	o := keptManifest(&Settings{Run: run, Namespace: namespace})
	o["data"] = data
	m.put(keptResource, o)
}

// forge changes a document of what is kept.
func forge(t *testing.T, data fields, file string, path string, value any) {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(data[file].(string)), &doc); err != nil {
		t.Fatal(err)
	}
	at, keys := doc, strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	at[keys[len(keys)-1]] = value
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	data[file] = string(text)
}

// loadedRun is a run at the stage of its load, with all that is kept of it then.
func loadedRun() *Kept {
	k := keptRun()
	k.Stage = StageLoad
	k.Settings.Cache = &Cache{Size: "100Gi", Class: "fast", Populate: Duration(time.Minute)}
	k.Settings.Tolerations = []kube.Toleration{{Key: "nvidia.com/gpu", Operator: "Exists", Effect: "NoSchedule"}, {Operator: "Exists"}}
	k.Settings.LoadOff = []string{"gpu-1"}
	k.Settings.Images.PullSecret, k.Settings.Images.Release = "pull", "1.4.0"
	k.Targets = entrance(k.Settings)
	k.Targets.Workers = []WorkerTarget{{Name: "w-0", Pod: "w-0", URL: "http://10.0.0.1:9090/metrics", GPU: "GPU-1"}, {Name: "w-1", Pod: "w-1", URL: "http://[fd00::1]:9090/metrics"}}
	k.Targets.GPUs, k.Targets.Nodes, k.Targets.Kubelet = []string{"http://10.0.0.2:9400/metrics"}, []string{"http://10.0.0.2:9100/metrics"}, "https://10.0.0.2:10250/stats/summary"
	return k
}

// What is kept of a run is somebody's word. Whatever it says, nothing but the run that was
// asked for is gone on with, and no value has the program fall over or act elsewhere.
func TestAForgedConfigMapIsNotBelieved(t *testing.T) {
	const other = "20261116-030000-fedcba9876543210"
	const escape = "\x1b[31mgpu-0\x1b[0m"
	set := func(file, path string, value any) func(*testing.T, fields) {
		return func(t *testing.T, data fields) { forge(t, data, file, path, value) }
	}
	long := strings.Repeat("x", 5000)
	for name, c := range map[string]struct {
		forge func(t *testing.T, data fields)
		says  string // of the error; "": believed
	}{
		"as it was kept":                   {func(*testing.T, fields) {}, ""},
		"another run in its settings":      {set(fileSettings, "run", other), `settings.json run is "` + other + `", and "` + memoryRun + `" was asked for`},
		"another run in run.json":          {set(fileRun, "id", other), `run.json id is "` + other + `"`},
		"a short id":                       {set(fileRun, "id", "x"), `run.json id is "x"`},
		"no id":                            {set(fileRun, "id", ""), `run.json id is ""`},
		"another namespace":                {set(fileSettings, "namespace", "team-b"), `settings.json namespace is "team-b", and "aicr-validation" was asked for`},
		"kube-system":                      {set(fileSettings, "namespace", "kube-system"), `settings.json namespace is "kube-system"`},
		"a namespace that is a path":       {set(fileSettings, "namespace", "../../kube-system"), `settings.json namespace is "../../kube-system"`},
		"no namespace":                     {set(fileSettings, "namespace", ""), `settings.json namespace is ""`},
		"escapes in a node":                {set(fileSettings, "node", escape), `settings.json node is "\x1b[31mgpu-0\x1b[0m"`},
		"a node that is a path":            {set(fileSettings, "node", "../nodes/x"), "settings.json node"},
		"a node of 5000 letters":           {set(fileSettings, "node", long), "settings.json node"},
		"a start that is no time":          {set(fileRun, "start", escape), "run.json start"},
		"a stage of its own":               {func(_ *testing.T, data fields) { data[fileStage] = "\u202edeploy" }, `stage is "\u202edeploy"`},
		"no stage":                         {func(_ *testing.T, data fields) { data[fileStage] = "" }, `stage is ""`},
		"no workers":                       {set(fileSettings, "workers", 0), "settings.json workers"},
		"workers below 0":                  {set(fileSettings, "workers", -5), "settings.json workers"},
		"workers without end":              {set(fileSettings, "workers", 1<<40), "settings.json workers"},
		"workers that are a word":          {set(fileSettings, "workers", "many"), "cannot be read"},
		"workers beyond a number":          {func(_ *testing.T, data fields) { data[fileSettings] = `{"workers":1e999}` }, "cannot be read"},
		"a time below 0":                   {set(fileSettings, "readyWithin", "-10m"), "settings.json readyWithin"},
		"a time of years":                  {set(fileSettings, "keepFor", "99999h"), "settings.json keepFor"},
		"a time that is none":              {set(fileSettings, "podWithin", escape), "cannot be read"},
		"a size below 0":                   {set(fileSettings, "cache.size", "-1Gi"), "settings.json cache.size"},
		"a size that is none":              {set(fileSettings, "cache.size", "huge"), "settings.json cache.size"},
		"a size of zettabytes":             {set(fileSettings, "cache.size", "99999999999999999999Ei"), "settings.json cache.size"},
		"a class that is a path":           {set(fileSettings, "cache.class", "a/../b"), "settings.json cache.class"},
		"a cache that is a list":           {set(fileSettings, "cache", []int{1}), "cannot be read"},
		"GPUs in a way of its own":         {set(fileSettings, "gpus", "privileged"), "settings.json gpus"},
		"claims without a version":         {set(fileSettings, "dra", ""), "settings.json dra"},
		"a version that is a path":         {set(fileSettings, "dra", "v1/../../x"), "settings.json dra"},
		"a graph of a version of its own":  {set(fileSettings, "graphAPI", "v9"), "settings.json graphAPI"},
		"a router of its own":              {set(fileSettings, "router", "$(id)"), "settings.json router"},
		"a model that is a flag":           {set(fileSettings, "model", "--trust-remote-code"), "settings.json model"},
		"a model with an escape":           {set(fileSettings, "model", escape), "settings.json model"},
		"an engine of its own":             {set(fileSettings, "engine", "sh"), "settings.json engine"},
		"AIPerf without its load":          {set(fileSettings, "engine", EngineAIPerf), "settings.json aiperf"},
		"AIPerf without end":               {set(fileSettings, "aiperf.requests", 1<<50), "settings.json aiperf.requests"},
		"an image with a space":            {set(fileSettings, "images.load", "a b"), "settings.json images.load"},
		"a Secret that is a path":          {set(fileSettings, "images.pullSecret", "../x"), "settings.json images.pullSecret"},
		"a toleration of its own":          {set(fileSettings, "tolerations", []any{map[string]any{"operator": "Any"}}), "settings.json tolerations.operator"},
		"tolerations without end":          {set(fileSettings, "tolerations", slices.Repeat([]any{map[string]any{"key": "a"}}, 5000)), "settings.json tolerations, how many"},
		"nodes without end":                {set(fileSettings, "loadOff", slices.Repeat([]any{"n"}, 30000)), "settings.json loadOff, how many"},
		"a node to avoid that is none":     {set(fileSettings, "loadOff", []any{escape}), "settings.json loadOff"},
		"settings that are a list":         {func(_ *testing.T, data fields) { data[fileSettings] = "[]" }, "cannot be read"},
		"settings that are null":           {func(_ *testing.T, data fields) { data[fileSettings] = "null" }, "settings.json run"},
		"a resource of its own":            {set(fileSettings, "resources.worker.limits", map[string]any{"nvidia.com/gpu": "64"}), "settings.json resources.worker"},
		"an amount below 0":                {set(fileSettings, "resources.load.requests", map[string]any{"cpu": "-4"}), "settings.json resources.load"},
		"a holder with an escape":          {set(fileSettings, "held", []any{map[string]any{"Kind": "Pod", "Namespace": "a", "Name": escape}}), "settings.json held"},
		"a load for another's service":     {set(fileTargets, "url", "http://llm.team-b.svc:8000"), "targets.json url"},
		"a frontend of another":            {set(fileTargets, "frontend", "http://10.9.9.9:80/metrics"), "targets.json frontend"},
		"a header of its own":              {set(fileTargets, "headers", map[string]any{"Authorization": "x"}), "targets.json headers"},
		"a worker that is a name":          {set(fileTargets, "workers", []any{map[string]any{"name": "w", "pod": "w", "url": "http://vault.secrets.svc:8200/metrics"}}), "targets.json workers.url"},
		"a worker's page of another path":  {set(fileTargets, "workers", []any{map[string]any{"name": "w", "pod": "w", "url": "http://10.0.0.1:9090/shutdown"}}), "targets.json workers.url"},
		"a worker with an escape":          {set(fileTargets, "workers", []any{map[string]any{"name": escape, "pod": "w", "url": "http://10.0.0.1:9090/metrics"}}), "targets.json workers.name"},
		"no workers to look at":            {set(fileTargets, "workers", []any{}), "targets.json workers, how many"},
		"an exporter that is a file":       {set(fileTargets, "gpus", []any{"file:///etc/passwd"}), "targets.json gpus or nodes"},
		"a kubelet with a password":        {set(fileTargets, "kubelet", "https://a:b@10.0.0.1:10250/stats/summary"), "targets.json kubelet"},
		"another node's targets":           {set(fileTargets, "node", "gpu-9"), "targets.json node"},
		"restarts that hide the real ones": {set(fileTargets, "workers", []any{map[string]any{"name": "w", "pod": "w", "url": "http://10.0.0.1:9090/metrics", "restarts": -1}}), "targets.json workers.restarts"},
		"a verdict of its own":             {func(_ *testing.T, data fields) { data[fileVerdict] = `{"verdict":"GREEN"}` }, "verdict.json verdict"},
		"many at once":                     {func(_ *testing.T, data fields) { data[fileSettings] = `{}` }, "more"},
	} {
		t.Run(name, func(t *testing.T) {
			m, k := newMemory(), loadedRun()
			data, err := k.data()
			if err != nil {
				t.Fatal(err)
			}
			c.forge(t, data)
			putKept(t, m, "aicr-validation", memoryRun, data)
			found, err := FindKept(t.Context(), m, "aicr-validation", memoryRun)
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || found != nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want %s", err, c.says)
			}
			if text := err.Error(); strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) || len(text) > 3000 {
				t.Errorf("the error has characters of others in it, or is too long: %q", text)
			}
			if _, ok := errors.AsType[*DistrustError](err); !ok && c.says != "cannot be read" {
				t.Errorf("%T", err)
			}
		})
	}
}

// The ConfigMap of a run may say what it likes of names: those of the id that was asked for are
// deleted, and no others.
func TestTeardownTouchesNothingThatTheConfigMapNames(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 33))
			m, s, theirs := newMemory(), runSettings(memoryRun), runSettings("20261116-030000-fedcba9876543210")
			theirs.Namespace = "team-b"
			whole(m, s)
			whole(m, theirs)
			before := slices.DeleteFunc(m.names(), func(key string) bool { return m.objects[key].Labels()[LabelRun] != theirs.Run })
			for _, change := range []func(){ // what of settings could name something
				func() { s.Node, s.Host = "kube-system", "../x" },
				func() { s.Parent, s.Queue = theirs.Run, true },
				func() { s.Images.PullSecret, s.Model = NamesOf(theirs.Run).Namespace, theirs.Run },
				func() { s.Cache.Class, s.SpaceUID = NamesOf(theirs.Run).Volume, "" },
				func() { s.Engine = EngineAIPerf },
			} {
				if r.IntN(2) == 0 {
					change()
				}
			}
			Teardown(t.Context(), m, s, Told{})
			for _, key := range before {
				if m.objects[key] == nil {
					t.Errorf("seed %d: %s of another run is gone", seed, key)
				}
			}
		})
	}
}

// A run goes on with the images that are resolved again, and not at all with others, as long as
// a pod is still to be made of them.
func TestImagesAreNotTakenFromWhatIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		stage  string
		change func(i *Images)
		job    bool
		other  int
	}{
		"the same":                           {StageDeploy, func(*Images) {}, false, 0},
		"another runtime":                    {StageDeploy, func(i *Images) { i.Runtime = "evil.example.com/miner:1" }, false, 1},
		"another load":                       {StageDeploy, func(i *Images) { i.Load = "evil.example.com/miner:1" }, false, 1},
		"another release":                    {StageDeploy, func(i *Images) { i.Release = "9.9.9" }, false, 1},
		"another Secret":                     {StageDeploy, func(i *Images) { i.PullSecret = "theirs" }, false, 1},
		"a picker that no pod has":           {StageDeploy, func(i *Images) { i.EndpointPicker = "x" }, false, 0},
		"the load, before its Job":           {StageLoad, func(i *Images) { i.Load = "evil.example.com/miner:1" }, false, 1},
		"the load, which runs":               {StageLoad, func(i *Images) { i.Load = "evil.example.com/miner:1" }, true, 0},
		"the runtime, which runs":            {StageLoad, func(i *Images) { i.Runtime = "x" }, false, 0},
		"a run of which nothing is made now": {StageJudged, func(i *Images) { i.Runtime, i.Load = "x", "y" }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, k := newMemory(), keptRun()
			k.Stage = c.stage
			asked := k.Settings.Images
			c.change(&k.Settings.Images)
			if c.job {
				m.put(resJobs, loadManifest(k.Settings))
			}
			other, err := k.UseImages(t.Context(), m, asked)
			if err != nil || len(other) != c.other {
				t.Fatalf("%v %v", other, err)
			}
			if c.stage == StageDeploy && c.other == 0 && k.Settings.Images != asked {
				t.Errorf("it goes on with %+v", k.Settings.Images)
			}
		})
	}
}

// FuzzNames wants names that are names, whatever a run is called.
func FuzzNames(f *testing.F) {
	for _, run := range []string{"", "x", memoryRun, "../../kube-system", "a/b", "\x00", strings.Repeat("a", 300), "-", "kube-system", "20261116-0", "\x1b[31m"} {
		f.Add(run)
	}
	f.Fuzz(func(t *testing.T, run string) {
		n := NamesOf(run)
		if run == "" {
			return // of a plan
		}
		for _, name := range []string{n.Namespace, n.Graph, n.Secret, n.Volume, n.Populate, n.Claim, n.Queue, n.Route, n.Load, n.Trial, n.Kept} {
			if !isLabel(name) {
				t.Errorf("%q of %q", name, run)
			}
		}
		if !isObjectName(n.Results) || !strings.HasPrefix(n.Results, "aicr-ctrf-") {
			t.Errorf("%q of %q", n.Results, run)
		}
		if ValidRun(run) && !isLabel(n.Results) {
			t.Errorf("%q", n.Results)
		}
	})
}

// FuzzKeptRun wants that whatever is kept of a run and believed makes objects in the two
// namespaces of that run alone, and never has the program fall over.
func FuzzKeptRun(f *testing.F) {
	data, err := loadedRun().data()
	if err != nil {
		f.Fatal(err)
	}
	text := func(file string) string { return data[file].(string) }
	f.Add(text(fileRun), text(filePlan), text(fileSettings), text(fileTargets), StageLoad)
	f.Add(`{"id":"x"}`, "", `{"run":"x","cache":{}}`, `{}`, "")
	f.Fuzz(func(t *testing.T, run, plan, settings, targets, stage string) {
		k, err := readKept(kube.Object{"data": map[string]any{fileRun: run, filePlan: plan, fileSettings: settings, fileTargets: targets, fileStage: stage}})
		if err != nil {
			return
		}
		if err := k.distrust("aicr-validation", memoryRun); err != nil {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
				t.Errorf("%q", err)
			}
			return
		}
		n := NamesOf(memoryRun)
		for _, step := range Objects(k.Settings) {
			if in := step.Object.Namespace(); in != "" && in != "aicr-validation" && in != n.Namespace {
				t.Errorf("%s", step.Object)
			}
			if !isObjectName(step.Object.Name()) {
				t.Errorf("%s", step.Object)
			}
		}
	})
}

// An error of what is kept names some of what is wrong, and how much more there is.
func TestADistrustIsShort(t *testing.T) {
	e := &DistrustError{Run: memoryRun, Namespace: "aicr-validation"}
	for i := range 30 {
		e.All = append(e.All, Distrust{DistrustUnsound, fmt.Sprint("field ", i), strings.Repeat("y", 1000), "a name"})
	}
	if text := e.Error(); !strings.HasSuffix(text, "and 22 more") || len(text) > 1500 {
		t.Errorf("%d: %s", len(text), text)
	}
}
