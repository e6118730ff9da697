package graph

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// cached are the settings of a run that looks at all there is.
func cached() *Settings {
	s := memorySettings()
	s.Cache = &Cache{Size: "1Gi", Populate: Duration(time.Minute)}
	return s
}

// What is not there is not there; what may not be seen is not known. What is wrong with
// the node is only told beside the rest.
func TestWhatMayNotBeSeenIsAnError(t *testing.T) {
	for denied, forbidden := range map[string]bool{
		"list pods": true, "list events": true, "get dynamographdeployments": true, "get persistentvolumeclaims": true, "get jobs": true,
		"get nodes": false, "nothing": false,
	} {
		m := newMemory()
		m.deny[denied] = true
		s, err := newWatcher(m, cached(), Told{}).look(t.Context())
		if kube.IsForbidden(err) != forbidden || !forbidden && (err != nil || s.Graph != nil || s.Volume != nil || s.Populate != nil || s.Node != nil) {
			t.Errorf("%s: %+v, %v", denied, s, err)
		}
	}
}

func TestTheSceneIsOfTheRunAndOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMemory(), cached()
		n := NamesOf(s.Run)
		place := func(r kube.Resource, namespace, name string) {
			m.put(r, kube.Object{"metadata": map[string]any{"namespace": namespace, "name": name}})
		}
		for _, in := range []string{n.Namespace, "another"} {
			place(resPods, in, "w-0")
			place(resEvents, in, "e-0")
		}
		place(resGraphs("v1beta1"), n.Namespace, n.Graph)
		place(resVolumes, n.Namespace, n.Volume)
		place(resJobs, n.Namespace, n.Populate)
		node := func(version string) {
			m.put(resNodes, kube.Object{"metadata": map[string]any{"name": "gpu-0", "labels": map[string]any{"version": version}}})
		}
		node("old")
		w := newWatcher(m, s, Told{})
		look := func() *Scene {
			scene, err := w.look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return scene
		}
		got := look()
		if len(got.Pods) != 1 || got.Pods[0].Namespace() != n.Namespace || len(got.Events) != 1 || got.Events[0].Namespace() != n.Namespace {
			t.Errorf("pods %v, events %v", got.Pods, got.Events)
		}
		if got.Graph.Name() != n.Graph || got.Volume.Name() != n.Volume || got.Populate.Name() != n.Populate || got.Node.Labels()["version"] != "old" {
			t.Errorf("graph %v, volume %v, populate %v, node %v", got.Graph, got.Volume, got.Populate, got.Node)
		}
		node("new")
		time.Sleep(11 * time.Second)
		if got := look().Node; got.Labels()["version"] != "new" {
			t.Errorf("node %v", got)
		}
		m.deny["get nodes"] = true
		time.Sleep(11 * time.Second)
		if got := look().Node; got.Labels()["version"] != "new" {
			t.Errorf("what was known of the node is forgotten: %v", got)
		}
	})
}

func TestWhichLogsAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		kind, status, want string
	}{
		"a frontend":                   {"frontend", `{"name":"main","ready":true,"state":{"running":{}}}`, "main"},
		"a frontend beside a worker":   {"worker", `{"name":"frontend","ready":true,"state":{"running":{}}}`, "frontend"},
		"a frontend that is not there": {"frontend", `{"name":"main","state":{"waiting":{}}}`, ""},
		"a worker":                     {"worker", `{"name":"main","state":{"running":{}}}`, ""},
		"one that ended":               {"worker", `{"name":"main","state":{"terminated":{"exitCode":1}}}`, "main"},
		"one that ended well":          {"worker", `{"name":"main","state":{"terminated":{"exitCode":0}}}`, ""},
		"one that was started again":   {"worker", `{"name":"main","restartCount":1,"state":{"running":{}}}`, "main previous"},
		"one that is well again":       {"worker", `{"name":"main","restartCount":1,"ready":true,"state":{"running":{}}}`, ""},
		"one that ended again":         {"worker", `{"name":"main","restartCount":1,"state":{"terminated":{"exitCode":1}}}`, "main, main previous"},
	} {
		m := newMemory()
		pod := memoryPod("p", c.kind, fields{"containerStatuses": []any{map[string]any(objectOf(t, c.status))}})
		pod["spec"] = fields{"containers": []any{fields{"name": "main"}, fields{"name": "frontend"}}}
		m.put(resPods, pod)
		for _, log := range []string{"p/main", "p/main/previous", "p/frontend"} {
			m.logs[log] = log
		}
		s, err := newWatcher(m, memorySettings(), Told{}).look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for of, lines := range s.Logs {
			key := of.Container
			if of.Previous {
				key += " previous"
			}
			if want := strings.ReplaceAll(key, " ", "/"); !slices.Equal(lines, []string{"p/" + want}) {
				t.Errorf("%s: of %s: %q", name, key, lines)
			}
			got = append(got, key)
		}
		if slices.Sort(got); strings.Join(got, ", ") != c.want {
			t.Errorf("%s: read %q, want %q", name, got, c.want)
		}
	}
}

// A log is not read every second, and is read where there is something new in it.
func TestALogIsReadAgainWhenThereIsMoreOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := newWatcher(m, memorySettings(), Told{})
		worker := func(restarts int) {
			m.put(resPods, memoryPod("w-0", "worker", fields{"containerStatuses": []any{fields{"name": "main", "restartCount": restarts, "state": fields{"running": fields{}}}}}))
		}
		m.put(resPods, memoryPod("f-0", "frontend", podReady))
		worker(1)
		for i, step := range []struct {
			front, before string // what the logs are from now on; "-": they cannot be read
			after         time.Duration
			restarts      int
			want          string
		}{
			{"", "first", 0, 1, "first"},
			{"one", "first", time.Second, 1, "one first"},
			{"two", "first", time.Second, 1, "one first"},
			{"two", "first", 2 * time.Second, 1, "two first"},
			{"two", "second", time.Minute, 1, "two first"},
			{"two", "second", time.Second, 2, "two second"},
			{"-", "-", time.Minute, 3, "two second"},
		} {
			for key, text := range map[string]string{"f-0/main": step.front, "w-0/main/previous": step.before} {
				if m.logs[key] = text; text == "-" {
					delete(m.logs, key)
				}
			}
			worker(step.restarts)
			time.Sleep(step.after)
			s, err := w.look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, of := range []logOf{{"f-0", "main", false}, {"w-0", "main", true}} {
				got = append(got, s.Logs[of]...)
			}
			if text := strings.Join(got, " "); text != step.want {
				t.Errorf("step %d: %q, want %q", i, text, step.want)
			}
			if _, empty := s.Logs[logOf{"f-0", "main", false}]; empty && step.front == "" {
				t.Error("an empty log has a line")
			}
		}
	})
}

func TestOfALogTheEndIsRead(t *testing.T) {
	m := newMemory()
	long := strings.Repeat("x", 1000)
	m.logs["p/c"] = "the first\r\n" + strings.Repeat(long+"\r\n", 398) + "the last\r\n"
	for most, want := range map[int][2]string{2: {long, "the last"}, 400: {"", "the last"}} {
		lines, err := tailOf(t.Context(), m, "ns", logOf{"p", "c", false}, most)
		if err != nil || len(lines) > most || len(lines) < 2 {
			t.Fatalf("%d lines, %v", len(lines), err)
		}
		if size := len(strings.Join(lines, "\n")); lines[len(lines)-1] != want[1] || want[0] != "" && lines[0] != want[0] || size > mostLog || most == 400 && size < mostLog-2000 {
			t.Errorf("of %d lines: %q … %q, %d bytes", most, lines[0], lines[len(lines)-1], size)
		}
	}
}

// awayAPI does not answer until a time.
type awayAPI struct {
	*memoryAPI
	until time.Time
}

func (a awayAPI) List(ctx context.Context, r kube.Resource, namespace, selector string) ([]kube.Object, error) {
	if time.Now().Before(a.until) {
		return nil, &kube.AwayError{For: time.Minute}
	}
	return a.memoryAPI.List(ctx, r, namespace, selector)
}

func TestAServerThatIsAwayIsWaitedForAsLongAsTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		away  time.Duration
		deny  string
		ready bool
		took  time.Duration
	}{
		"it comes back":       {time.Minute, "", true, time.Minute},
		"it does not":         {time.Hour, "", false, 10 * time.Minute},
		"it is there, and no": {0, "list events", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, h := newMemory(), &heard{}
				m.deny[c.deny] = true
				play(m, map[time.Duration]func(){time.Second: func() { m.graphIs("successful", 1, 2) }})
				began := time.Now()
				ready, err := Deploy(t.Context(), awayAPI{m, began.Add(c.away)}, memorySettings(), "", h.told())
				took := time.Since(began)
				if ready != c.ready || (err == nil) != c.ready || took < c.took || took > c.took+2*time.Second {
					t.Errorf("ready %v after %s: %v", ready, took, err)
				}
				if said := strings.Join(h.waiting, "\n"); strings.Contains(said, "the API server: ") != (c.away > 0) {
					t.Errorf("waited for %s", said)
				}
				time.Sleep(time.Minute) // what was to come later
			})
		})
	}
}

// A graph that serves is ready, whatever has befallen one of its pods; and what is there
// when its time is up is told, though it has not lasted.
func TestAStartEndsWithWhatThereIs(t *testing.T) {
	crashed := fields{"phase": "Running", "containerStatuses": []any{fields{"name": "main", "restartCount": 1, "state": fields{"waiting": fields{"reason": "CrashLoopBackOff"}}}}}
	trouble := fields{"phase": "Pending", "containerStatuses": []any{fields{"name": "main", "state": fields{"waiting": fields{"reason": "ErrImagePull", "message": "i/o timeout"}}}}}
	for name, c := range map[string]struct {
		after time.Duration
		pod   map[string]any
		state string
		want  string
	}{
		"ready, and a crash beside it":    {time.Second, crashed, "successful", "workers"},
		"trouble in the last half minute": {570 * time.Second, trouble, "pending", "workers, pod-event ErrImagePull, not-served ErrImagePull"},
		"trouble that lasts":              {time.Second, trouble, "pending", "workers, pod-event ErrImagePull, not-served ErrImagePull"},
		"and what else there is":          {540 * time.Second, crashed, "pending", "workers, pod-event CrashLoopBackOff, not-served CrashLoopBackOff"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, h := newMemory(), &heard{}
			lines := []string{}
			told := h.told()
			told.Waiting = func(s string) { lines = append(lines, s) }
			play(m, map[time.Duration]func(){
				time.Second / 2:   func() { m.graphIs("pending", 0, 0) },
				500 * time.Second: func() { m.put(resPods, memoryPod("w-1", "worker", podCreating)) },
				c.after:           func() { m.put(resPods, memoryPod("w-0", "worker", c.pod)); m.graphIs(c.state, 1, 2) },
				535 * time.Second: func() {
					if c.after == 540*time.Second { // one that may pass, and is not told with the other
						m.put(resPods, memoryPod("w-2", "worker", trouble))
					}
				}})
			if _, err := Deploy(t.Context(), m, memorySettings(), "", told); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(h.reasons(), ", "); got != c.want {
				t.Errorf("%s: told %s", name, got)
			}
			if len(lines) == 0 || lines[len(lines)-1] != "" {
				t.Errorf("%s: it says still that it waits: %q", name, lines)
			}
			time.Sleep(10 * time.Minute) // what was to come later
		})
	}
}

func TestWhoHasNobodyToTellGoesOn(t *testing.T) {
	nobody := Told{}
	nobody.say("x")
	nobody.waiting("x")
	nobody.spares(Spared{Run: "r", Why: "why"})
	if err := nobody.event(spec.Event{}); err != nil {
		t.Error(err)
	}
	var said, spared []string
	told := Told{Say: func(text string) { said = append(said, text) }}
	told.spares(Spared{Run: "r", Why: "why"})
	told.Spared = func(s Spared) { spared = append(spared, s.Run+" "+s.Why) }
	told.spares(Spared{Run: "r", Why: "why"})
	if len(said) != 1 || !strings.Contains(said[0], "run r is left alone: why") || !slices.Equal(spared, []string{"r why"}) {
		t.Errorf("said %q, spared %q", said, spared)
	}
}

func TestHowAPodIsInTheLine(t *testing.T) {
	statuses := func(all string) string { return `status: {phase: Pending, containerStatuses: [` + all + `]}` }
	for name, c := range map[string]struct{ pod, events, want string }{
		"it goes":                      {`status: {phase: Running}, gone`, "", "Terminating"},
		"new":                          {`status: {}`, "", "Pending"},
		"running":                      {`status: {phase: Running, containerStatuses: [{name: a, ready: true, state: {running: {}}}]}`, "", "Running"},
		"no node takes it":             {`status: {conditions: [{type: PodScheduled, status: "False", message: full}]}`, "", "Pending not scheduled: full"},
		"nobody says why":              {`status: {conditions: [{type: PodScheduled, status: "False"}]}`, "", "Pending not scheduled"},
		"not looked at":                {`status: {conditions: [{type: PodScheduled, status: Unknown}]}`, "", "Pending"},
		"pulling":                      {statuses(`{name: a, state: {waiting: {reason: ContainerCreating}}}`), `{reason: Pulling, message: x, ` + ofWorker + `}`, "ContainerCreating pulling image"},
		"pulled":                       {statuses(`{name: a, state: {waiting: {reason: ContainerCreating}}}`), `{reason: Pulled, message: x, ` + ofWorker + `}`, "ContainerCreating image pulled"},
		"not mounted":                  {statuses(`{name: a, state: {waiting: {reason: ContainerCreating}}}`), `{reason: FailedMount, message: no disk, ` + ofWorker + `}`, "ContainerCreating FailedMount: no disk"},
		"not attached":                 {statuses(`{name: a, state: {waiting: {reason: ContainerCreating}}}`), `{reason: FailedAttachVolume, message: no disk, ` + ofWorker + `}`, "ContainerCreating FailedAttachVolume: no disk"},
		"not prepared":                 {statuses(`{name: a, state: {waiting: {reason: ContainerCreating}}}`), `{reason: FailedPrepareDynamicResources, message: stale, ` + ofWorker + `}`, "ContainerCreating FailedPrepareDynamicResources: stale"},
		"no sandbox":                   {statuses(`{name: a, state: {waiting: {reason: ContainerCreating}}}`), `{reason: FailedCreatePodSandBox, message: cni, ` + ofWorker + `}`, "ContainerCreating FailedCreatePodSandBox: cni"},
		"nobody says what it is at":    {statuses(`{name: a, state: {waiting: {reason: ContainerCreating}}}`), `{reason: Other, message: x, ` + ofWorker + `}`, "ContainerCreating"},
		"what comes first at first":    {`status: {initContainerStatuses: [{name: i, state: {waiting: {reason: CrashLoopBackOff}}}], containerStatuses: [{name: a, state: {waiting: {reason: ContainerCreating}}}]}`, "", "CrashLoopBackOff"},
		"what waits for the first one": {`status: {containerStatuses: [{name: a, state: {waiting: {reason: PodInitializing}}}, {name: b, state: {running: {}}}]}`, "", "Running not ready"},
		"what is through":              {`status: {initContainerStatuses: [{name: i, state: {terminated: {exitCode: 0}}}], containerStatuses: [{name: a, state: {running: {}}}]}`, "", "Running not ready"},
		"probed, and not started":      {`status: {containerStatuses: [{name: a, state: {running: {}}}]}`, `{reason: Unhealthy, ` + ofWorker + `}`, "Running starting"},
		"probed, and started":          {`status: {containerStatuses: [{name: a, started: true, state: {running: {}}}]}`, `{reason: Unhealthy, ` + ofWorker + `}`, "Running not ready"},
		"ended":                        {`status: {containerStatuses: [{name: a, ready: true, state: {running: {}}}, {name: b, state: {terminated: {exitCode: 3}}}]}`, "", "Error exit code 3"},
	} {
		pod := workerPod
		if rest, gone := strings.CutSuffix(c.pod, ", gone"); gone {
			c.pod, pod = rest, strings.Replace(pod, "uid: u0", "uid: u0, deletionTimestamp: now", 1)
		}
		s := sceneOf(t, `{pods: [{`+pod+`, `+c.pod+`}], events: [`+c.events+`]}`)
		state, detail := s.stateOf(s.Pods[0])
		if got := strings.TrimSpace(state + " " + detail); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The line tells of the pods of one role, and of how long the first of them has been as it
// is.
func TestTheLineCountsFromWhenAPodIsAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher(newMemory(), memorySettings(), Told{})
		pod := func(name, kind, state string, ready bool) kube.Object {
			o := memoryPod(name, kind, fields{"phase": "Pending", "containerStatuses": []any{fields{"name": "main", "state": fields{"waiting": fields{"reason": state}}}}})
			o["metadata"].(map[string]any)["uid"] = "uid of " + name
			if ready {
				o["status"] = podReady
			}
			return o
		}
		done := pod("w-2", "worker", "", true)
		done["status"] = fields{"phase": "Succeeded"}
		first := []kube.Object{pod("f-0", "frontend", "Pulling", false), pod("w-0", "worker", "Pulling", false), pod("w-1", "worker", "Pulling", false), done}
		var got []string
		for _, step := range []struct {
			after time.Duration
			role  string
			pods  []kube.Object
		}{
			{0, roleFrontend, first},
			{4 * time.Second, roleFrontend, first},
			{3 * time.Second, roleFrontend, first},
			{60 * time.Second, roleWorker, first},
			{time.Second, roleWorker, append([]kube.Object{pod("w-0", "worker", "Creating", false)}, first[2:]...)},
			{9 * time.Second, roleWorker, []kube.Object{pod("w-0", "worker", "", true), first[2]}},
			{time.Second, roleWorker, []kube.Object{pod("w-0", "worker", "", true), pod("w-1", "worker", "Creating", false)}},
			{9 * time.Second, roleWorker, []kube.Object{first[2]}},
			{time.Second, roleFrontend, first[1:]},
			{0, roleWorker, []kube.Object{pod("w-0", "worker", "Creating", false), first[2]}},
			{6 * time.Second, roleWorker, []kube.Object{pod("w-0", "worker", "Creating", false), first[2]}},
			{time.Second, roleWorker, []kube.Object{pod("w-0", "worker", "", true), pod("w-1", "worker", "Creating", false)}},
		} {
			time.Sleep(step.after)
			got = append(got, w.lineOfPods(&Scene{Settings: w.s, Pods: step.pods}, step.role))
		}
		want := []string{"f-0 Pulling", "f-0 Pulling", "f-0 Pulling (5s)", "w-0 Pulling (1m0s) and 1 more", "w-0 Creating and 1 more", "w-1 Pulling (1m10s)", "w-1 Creating", "w-1 Pulling", "no pod yet",
			"w-0 Creating and 1 more", "w-0 Creating (5s) and 1 more", "w-1 Creating"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheLineOfAGraphBeginsWithWhatItLacks(t *testing.T) {
	graph := func(state string, components map[string][2]int) kube.Object { // wanted, and ready
		wanted, have := []any{}, fields{}
		for _, name := range slices.Sorted(maps.Keys(components)) {
			wanted = append(wanted, fields{"name": name, "type": name, "replicas": components[name][0]})
			have[name] = fields{"readyReplicas": components[name][1]}
		}
		return kube.Object{"spec": fields{"components": wanted}, "status": fields{"state": state, "components": have}}
	}
	for want, g := range map[string]kube.Object{
		"the graph to appear":                               nil,
		"Dynamo's operator: the graph is not looked at yet": graph("", nil),
		"Dynamo's operator: the graph is pending":           graph("pending", map[string][2]int{"worker": {2, 2}}),
		"the frontend: f-0 Pending":                         graph("", map[string][2]int{"decode": {2, 0}, "frontend": {1, 0}, "worker": {2, 0}}),
		"the endpoint picker: no pod yet":                   graph("", map[string][2]int{"epp": {1, 0}, "frontend": {1, 0}}),
		"1 of 3 of epp: no pod yet":                         graph("", map[string][2]int{"epp": {3, 2}}),
		"planner: p-0 Pending":                              graph("", map[string][2]int{"planner": {1, 0}}),
		"1 of 3 workers: w-0 Pending":                       graph("", map[string][2]int{"worker": {3, 2}}),
	} {
		s := &Scene{Settings: memorySettings(), Graph: g, Pods: []kube.Object{memoryPod("f-0", "frontend", nil), memoryPod("p-0", "planner", nil), memoryPod("w-0", "worker", nil)}}
		if got := newWatcher(newMemory(), s.Settings, Told{}).lineOfGraph(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Where every pod is ready and the operator has not said so, it is the operator that is
// waited for, and not a pod.
func TestAnOperatorThatIsBehindIsWaitedFor(t *testing.T) {
	w := newWatcher(newMemory(), memorySettings(), Told{})
	s := &Scene{Settings: memorySettings(), Graph: graphObject("pending", 0, 2), Pods: []kube.Object{memoryPod("f-0", "frontend", podReady)}}
	if got := w.lineOfGraph(s); got != "the frontend: its pods are Ready, and Dynamo's operator has not counted them yet" {
		t.Error(got)
	}
	s.Pods = nil
	if got := w.lineOfGraph(s); got != "the frontend: no pod yet" {
		t.Error(got)
	}
}
