package graph

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// aiperfPod is the pod of AIPerf's Job, in a state.
func aiperfPod(s *Settings, phase string, state map[string]any) kube.Object {
	labels := words(Labels(s.Run, PartLoad))
	labels["batch.kubernetes.io/job-name"] = NamesOf(s.Run).Load
	return kube.Object{"kind": "Pod", "metadata": map[string]any{"name": NamesOf(s.Run).Load + "-x", "namespace": LoadNamespace(s), "labels": labels},
		"spec":   map[string]any{"containers": []any{map[string]any{"name": AIPerfContainer, "image": "example.com/aiperf:1.2.3"}}},
		"status": map[string]any{"phase": phase, "containerStatuses": []any{map[string]any{"name": AIPerfContainer, "state": state}}}}
}

func terminated(code int, at time.Time) map[string]any {
	return map[string]any{"terminated": map[string]any{"exitCode": code, "reason": "Error", "startedAt": at.UTC().Format(time.RFC3339)}}
}

func lineOf(l LoadLine) string {
	data, _ := json.Marshal(l)
	return string(data) + "\n"
}

// Lines of AIPerf's Job.
var (
	aiperfWaits    = lineOf(LoadLine{N: 1, Kind: LineNote, Text: "waiting for the first answer"})
	aiperfAnswered = lineOf(LoadLine{N: 2, T: 42.5, Kind: LineAnswer, Text: "the first answer took 42 s", Answer: &LoadAnswer{Tokens: 8, Seconds: 42.4, Tries: 1}})
	aiperfGaveUp   = lineOf(LoadLine{N: 2, T: 300, Kind: LineAnswer, Text: "HTTP 503: not ready, hf_abcdefghijklmnopqrst", Answer: &LoadAnswer{Seconds: 300, Tries: 24, Reason: "http-status"}})
	aiperfLoads    = lineOf(LoadLine{N: 3, T: 42.5, Kind: LineStage, Stage: "episode", Number: 1, Text: "AIPerf loads"})
)

// aiperfRun is a run at its load, with AIPerf's pod on the cluster.
func aiperfRun(m *memoryAPI) (*Run, *memoryBook, *heard) {
	k := keptRun()
	k.Stage = StageLoad
	k.Settings.Engine, k.Settings.AIPerf = EngineAIPerf, &AIPerfLoad{Concurrency: 16, Requests: 128}
	k.Settings.PodWithin, k.Settings.LoadWithin = Duration(time.Minute), Duration(15*time.Minute)
	k.Plan.Profile = spec.ProfileClassic
	k.Events = []spec.Event{{T: 1, Kind: spec.EventGPUs}}
	m.graphIs("successful", 1, 2)
	m.put(resPods, memoryPod("f-0", "frontend", podReady))
	m.put(resPods, memoryPod("w-0", "worker", podReady))
	m.put(resJobs, aiperfManifest(k.Settings))
	m.put(keptResource, keptManifest(k.Settings))
	r, b, h := newTestRun(m, k)
	b.events = slices.Clone(k.Events)
	return r, b, h
}

func (m *memoryAPI) says(s *Settings, lines ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs[NamesOf(s.Run).Load+"-x/"+AIPerfContainer] = strings.Join(lines, "")
}

// A first answer is waited for before AIPerf begins, and that there was none is the same
// finding as where this program loads itself.
func TestAServiceThatNeverAnswersAIPerfIsFoundAsByOurOwnLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r, b, _ := aiperfRun(m)
		s := r.Kept.Settings
		began := time.Now()
		m.put(resPods, aiperfPod(s, "Running", map[string]any{"running": map[string]any{}}))
		m.says(s, aiperfWaits)
		go func() {
			time.Sleep(5 * time.Minute)
			m.says(s, aiperfWaits, aiperfGaveUp)
			m.put(resPods, aiperfPod(s, "Failed", terminated(noAnswer, began)))
		}()
		end, err := r.measure(t.Context())
		if err != nil || end.By != ByAIPerf || end.Missing != "" {
			t.Fatalf("%+v, %v, told %+v", end, err, b.events)
		}
		if want := []string{spec.EventGPUs, spec.EventAnswer, spec.EventNotServed, spec.EventStage, spec.EventStage}; !slices.Equal(kindsOf(b.events), want) {
			t.Fatalf("told %q, want %q", kindsOf(b.events), want)
		}
		if e := b.events[2]; e.Reason != "http-status" || e.Count != 24 || *e.Seconds != 300 || e.T < 299 || e.T > 303 || strings.Contains(e.Text, "hf_abc") || e.Source != ServiceURL(s) {
			t.Errorf("told %+v", e)
		}
		if end, err = r.judge(t.Context(), end); err != nil || end.Verdict.Verdict != spec.Fail || len(end.Verdict.Findings) != 1 || end.Verdict.Findings[0].ID != "start/timeout" {
			t.Errorf("%+v, %v", end.Verdict, err)
		}
		if again, err := r.measure(t.Context()); err != nil || again.By != ByRecord { // who attaches does not take it in twice
			t.Errorf("%+v, %v", again, err)
		}
	})
}

// When the first answer came is told, at its time: a cold start is no fault.
func TestTheFirstAnswerBeforeAIPerfIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		ahead time.Duration // of the node's clock
		code  int
		kinds []string
	}{
		"as it came":              {0, 0, []string{spec.EventGPUs, spec.EventAnswer, spec.EventStage, spec.EventStage}},
		"by a clock that is late": {-time.Hour, 0, []string{spec.EventGPUs, spec.EventAnswer, spec.EventStage, spec.EventStage}},
		"by a clock that is fast": {time.Hour, 0, []string{spec.EventGPUs, spec.EventAnswer, spec.EventStage, spec.EventStage}},
		"and then AIPerf failed":  {0, 1, []string{spec.EventGPUs, spec.EventAnswer, spec.EventInterrupt}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				r, b, _ := aiperfRun(m)
				s := r.Kept.Settings
				node := time.Now().Add(c.ahead)
				m.put(resPods, aiperfPod(s, "Running", map[string]any{"running": map[string]any{}}))
				go func() {
					time.Sleep(2 * time.Minute)
					m.says(s, aiperfWaits, aiperfAnswered, aiperfLoads, string(printed(t, "healthy.json")))
					m.put(resPods, aiperfPod(s, map[bool]string{true: "Succeeded", false: "Failed"}[c.code == 0], terminated(c.code, node)))
				}()
				if _, err := r.measure(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(kindsOf(b.events), c.kinds) {
					t.Fatalf("told %q, want %q", kindsOf(b.events), c.kinds)
				}
				e := b.events[1]
				if *e.Seconds != 42.4 || *e.Tokens != 8 || e.T < b.events[0].T || e.T > b.events[2].T || c.ahead == 0 && (e.T < 42 || e.T > 44) {
					t.Errorf("told %+v of %+v", e, b.events)
				}
			})
		})
	}
}

// What was ready may fail while AIPerf waits for a first answer: that ends the wait. Once
// AIPerf loads it is the measurement that tells, and what befalls AIPerf's own pod is never
// a matter of what serves.
func TestWhatServesIsWatchedWhileAIPerfWaitsForItsFirstAnswer(t *testing.T) {
	killed := map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{"name": "main", "restartCount": 1,
		"state": map[string]any{"terminated": map[string]any{"reason": "OOMKilled", "exitCode": 137}}}}}
	const panicked = "Unfold must not be polled after it returned"
	for name, c := range map[string]struct {
		says  []string
		fails func(m *memoryAPI, s *Settings)
		want  string // the reason of what is told; "": AIPerf's result
	}{
		"a worker is killed": {[]string{aiperfWaits}, func(m *memoryAPI, _ *Settings) { m.put(resPods, memoryPod("w-0", "worker", killed)) }, "OOMKilled"},
		"the discovery panicked": {[]string{aiperfWaits}, func(m *memoryAPI, _ *Settings) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.logs["f-0/main"] = panicked
		}, "DiscoveryPanic"},
		"a worker is killed under load": {[]string{aiperfWaits, aiperfAnswered, aiperfLoads}, func(m *memoryAPI, _ *Settings) { m.put(resPods, memoryPod("w-0", "worker", killed)) }, ""},
		"a word against AIPerf's pod": {[]string{aiperfWaits}, func(m *memoryAPI, s *Settings) {
			m.put(resEvents, kube.Object{"kind": "Event", "metadata": map[string]any{"name": "e", "namespace": LoadNamespace(s)}, "reason": "FailedCreate", "message": "exceeded quota",
				"involvedObject": map[string]any{"kind": "Job", "name": NamesOf(s.Run).Load}})
			pod := aiperfPod(s, "Running", map[string]any{"running": map[string]any{}})
			pod.List("status", "containerStatuses")[0]["lastState"] = map[string]any{"terminated": map[string]any{"reason": "OOMKilled", "exitCode": 137}}
			m.put(resPods, pod)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				r, b, _ := aiperfRun(m)
				s := r.Kept.Settings
				began := time.Now()
				m.put(resPods, aiperfPod(s, "Running", map[string]any{"running": map[string]any{}}))
				m.says(s, c.says...)
				go func() { time.Sleep(20 * time.Second); c.fails(m, s) }()
				go func() {
					time.Sleep(4 * time.Minute)
					m.says(s, aiperfWaits, aiperfAnswered, aiperfLoads, string(printed(t, "healthy.json")))
					m.put(resPods, aiperfPod(s, "Succeeded", terminated(0, began)))
				}()
				end, err := r.measure(t.Context())
				took := time.Since(began)
				time.Sleep(5 * time.Minute) // until who plays has ended
				if err != nil {
					t.Fatal(err)
				}
				if c.want == "" {
					if end.By != ByAIPerf || took < 4*time.Minute {
						t.Errorf("%+v after %s, told %+v", end, took, b.events)
					}
					return
				}
				none := slices.IndexFunc(b.events, func(e spec.Event) bool { return e.Kind == spec.EventNotServed })
				if end.By != "" || r.Kept.Stage != StageFailed || took > time.Minute || none < 0 || b.events[none].Reason != c.want {
					t.Errorf("%+v after %s, told %+v", end, took, b.events)
				}
			})
		})
	}
}
