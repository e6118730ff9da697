package graph

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// awayForPods is a cluster that does not answer about pods for a while.
type awayForPods struct {
	patched
	until time.Time
}

func (a awayForPods) List(ctx context.Context, r kube.Resource, namespace, selector string) ([]kube.Object, error) {
	if left := time.Until(a.until); r.Name == "pods" && left > 0 { // as kube.Cluster waits for it
		if pauseFor(ctx, min(left, kube.DefaultPatience)) != nil || left > kube.DefaultPatience {
			return nil, &kube.AwayError{For: min(left, kube.DefaultPatience)}
		}
	}
	return a.patched.List(ctx, r, namespace, selector)
}

// passed is the verdict of a load whose record is not here.
func passed() *spec.Verdict {
	return &spec.Verdict{Schema: spec.VerdictSchema, Verdict: spec.Pass, Reason: "fast", Profile: spec.ProfileSmoke, Episodes: 2,
		Ledgers: []spec.Ledger{{Name: spec.Integrity, State: spec.Pass, Reason: "2 of 2 workers served"}}, Expectations: []spec.Expected{}, Findings: []spec.Finding{}}
}

// That workers ended is held against a verdict wherever it comes from, and that nobody
// could see whether they did keeps it from being PASS.
func TestWorkersThatEndedCountWithoutTheRecordToo(t *testing.T) {
	worker := []WorkerTarget{{Name: "w-0", Pod: "w-0"}}
	crash := func() kube.Object { return restartedPod("w-0", 1, 30*time.Second, "Error", 1) }
	for name, c := range map[string]struct {
		by      string
		workers []WorkerTarget
		pod     func() kube.Object
		over    time.Duration // the load, after the run's start; 0: not known
		away    time.Duration
		deny    bool
		want    spec.State
		words   string
	}{
		"the copy, and a worker ended":         {by: ByConfigMap, pod: crash, over: time.Minute, want: spec.Fail, words: "worker w-0 ended during the run"},
		"the message, and a worker ended":      {by: ByMessage, pod: crash, over: time.Minute, want: spec.Fail, words: "worker w-0 ended during the run"},
		"the copy, and none ended":             {by: ByConfigMap, over: time.Minute, want: spec.Pass, words: "fast"},
		"the copy, and one ended after it":     {by: ByConfigMap, pod: func() kube.Object { return restartedPod("w-0", 1, time.Hour, "Error", 1) }, over: time.Minute, want: spec.Pass, words: "fast"},
		"one ended, and nobody knows when":     {by: ByMessage, pod: crash, want: spec.Inconclusive, words: "w-0 has ended, and when the load was over is not known"},
		"none ended, whenever it was over":     {by: ByMessage, want: spec.Pass, words: "fast"},
		"the server is away for a minute":      {by: ByConfigMap, pod: crash, over: time.Minute, away: time.Minute, want: spec.Fail, words: "ended during the run"},
		"the server is away for an hour":       {by: ByConfigMap, pod: crash, over: time.Minute, away: time.Hour, want: spec.Inconclusive, words: "whether pods that serve ended under load is not known"},
		"pods may not be seen":                 {by: ByMessage, pod: crash, over: time.Minute, deny: true, want: spec.Inconclusive, words: "whether pods that serve ended under load is not known"},
		"nobody kept who the workers are":      {by: ByConfigMap, workers: []WorkerTarget{}, over: time.Minute, want: spec.Inconclusive, words: "which pods there were is not kept"},
		"a verdict that was kept had its look": {by: ByKept, pod: crash, over: time.Minute, want: spec.Pass, words: "fast"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, k := newMemory(), keptRun()
				k.Stage = StageLoad
				if c.workers == nil {
					k.Targets = &Targets{Workers: worker}
				}
				if c.pod == nil {
					c.pod = func() kube.Object { return memoryPod("w-0", "worker", podReady) }
				}
				m.put(resPods, c.pod())
				m.deny["list pods"] = c.deny
				r, book, _ := newTestRun(m, k)
				r.API = awayForPods{patched{m}, time.Now().Add(c.away)}
				end := &End{By: c.by, Verdict: passed()}
				if c.over > 0 {
					end.over = time.Now().Add(c.over)
				}
				end, err := r.judge(t.Context(), end)
				if err != nil || end.Verdict.Verdict != c.want || !strings.Contains(end.Verdict.Reason, c.words) {
					t.Errorf("%s: %s, %v; want %s: %s", end.Verdict.Verdict, end.Verdict.Reason, err, c.want, c.words)
				}
				if fail := len(end.Verdict.Findings) == 1 && end.Verdict.Findings[0].ID == "worker/absent"; fail != (c.want == spec.Fail) {
					t.Errorf("found %+v", end.Verdict.Findings)
				}
				if told := len(book.events) > 0; told != (c.want != spec.Pass) {
					t.Errorf("the record is told %+v", book.events)
				}
			})
		})
	}
}

// The same, where the record is here: the event that is kept is what is judged by, so that
// whoever judges the folder again says the same.
func TestEndsThatCouldNotBeSeenAreToldToTheRecord(t *testing.T) {
	for away, want := range map[time.Duration]int{time.Minute: 0, time.Hour: 1} {
		synctest.Test(t, func(t *testing.T) {
			m, k := newMemory(), keptRun()
			k.Stage, k.Targets = StageLoad, &Targets{Workers: []WorkerTarget{{Name: "w-0", Pod: "w-0"}}}
			m.put(resPods, memoryPod("w-0", "worker", podReady))
			r, book, _ := newTestRun(m, k)
			r.API = awayForPods{patched{m}, time.Now().Add(away)}
			book.events = []spec.Event{{Kind: spec.EventStage, Stage: "start", T: 10}, {Kind: spec.EventStage, Stage: "end", T: 60}}
			if _, err := r.judge(t.Context(), &End{By: ByRecord}); err != nil {
				t.Fatal(err)
			}
			told := book.events[2:]
			if len(told) != want || len(book.order) != 1+want {
				t.Fatalf("away for %s: told %+v, judged %d times", away, told, len(book.order))
			}
			if want > 0 && (told[0].Kind != spec.EventPod || told[0].Reason != spec.PodsUnseen || told[0].Text == "") {
				t.Errorf("told %+v", told[0])
			}
		})
	}
}

// However much was told of pods, that one ended under load is.
func TestAnEndIsKeptBesideManyEvents(t *testing.T) {
	k := keptRun()
	for i := range 2 * mostEvents {
		k.add(spec.Event{Kind: spec.EventPod, Source: digits(i)})
	}
	for _, reason := range []string{spec.PodEnded, spec.PodReplaced, spec.PodsUnseen} {
		if !k.add(spec.Event{Kind: spec.EventPod, Reason: reason}) {
			t.Errorf("%s is let go by", reason)
		}
	}
}

// When a load was over is known by the end of its record, or by its last line.
func TestWhenALoadThatIsGoneWasOver(t *testing.T) {
	events := `{"t":10,"kind":"stage","stage":"start"}` + "\n" + `{"t":70,"kind":"stage","stage":"end"}` + "\n"
	broken := `{"t":10,"kind":"stage","stage":"start"}` + "\n" + `{"t":50,"kind":"interrupt","reason":"Panic"}` + "\n"
	done := message(LoadMessage{Stage: "done", Verdict: "PASS"})
	for name, c := range map[string]struct {
		files []ResultFile
		line  float64
		want  float64 // 0: not known
	}{
		"the copy's events":            {[]ResultFile{{"verdict.json", []byte("{}")}, {"events.jsonl", []byte(events)}}, 71, 70},
		"the copy of one that crashed": {[]ResultFile{{"verdict.json", []byte("{}")}, {"events.jsonl", []byte(broken)}}, 71, 50},
		"the copy has no events":       {[]ResultFile{{"verdict.json", []byte("{}")}}, 71, 71},
		"its message":                  {nil, 71, 71},
		"its message, and no log":      {nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				k := keptRun()
				k.Settings = testSettings()
				f.pod = ended(0, "Completed", done)
				if c.files != nil {
					f.copied = ResultCopy(k.Settings, c.files)
				}
				if c.line > 0 {
					f.log = []string{`{"n":1,"t":71,"kind":"done","text":"x"}`}
				}
				h, book := &heard{}, &takingBook{memoryBook{plan: k.Plan}, &memorySpool{}}
				r := &Run{API: ledLoad{f}, Kept: k, Told: h.told(), Now: time.Now, Book: book}
				end, err := r.follow(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				began, _ := time.Parse(time.RFC3339Nano, k.Run.Start)
				if c.want == 0 && !end.over.IsZero() || c.want > 0 && !end.over.Equal(began.Add(time.Duration(c.want*float64(time.Second)))) {
					t.Errorf("over %s after %s, want %v s", end.over, began, c.want)
				}
			})
		})
	}
}

// fullCopyBook has no room for the copy, and knows its verdict all the same.
type fullCopyBook struct{ takingBook }

func (b *fullCopyBook) Compact(map[string][]byte) (*spec.Verdict, error) {
	return passed(), syscall.ENOSPC
}

// A disk that is full takes nothing from what is held against a verdict.
func TestACopyThatCannotBeKeptIsHeldAgainstTheWorkersToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keptRun()
		k.Stage, k.Settings.PodWithin, k.Settings.NoCleanup = StageLoad, Duration(time.Hour), true
		k.Targets = &Targets{Workers: []WorkerTarget{{Name: "w-0", Pod: "w-0"}}}
		m := newMemory()
		pod := ended(1, "Error", "")
		pod["metadata"].(map[string]any)["labels"] = map[string]any{"batch.kubernetes.io/job-name": NamesOf(memoryRun).Load}
		m.put(resPods, pod)
		m.put(resPods, restartedPod("w-0", 1, 30*time.Second, "Error", 1))
		m.put(resConfigMaps, ResultCopy(k.Settings, []ResultFile{{"verdict.json", []byte("{}")}, {"events.jsonl", []byte(`{"t":60,"kind":"stage","stage":"end"}`)}}))
		data, err := k.data()
		if err != nil {
			t.Fatal(err)
		}
		m.put(keptResource, kube.Object{"kind": "ConfigMap", "data": data, "metadata": map[string]any{"name": NamesOf(memoryRun).Kept, "namespace": "aicr-validation", "labels": words(Labels(memoryRun, PartKept))}})
		r := &Run{API: patched{m}, Kept: k, Book: &fullCopyBook{takingBook{memoryBook{plan: k.Plan}, &memorySpool{}}}, Told: (&heard{}).told(), Now: time.Now}
		end, err := r.Go(t.Context())
		if !errors.Is(err, syscall.ENOSPC) || end.Verdict == nil || end.Verdict.Verdict != spec.Fail {
			t.Errorf("%+v, %v", end.Verdict, err)
		}
	})
}
