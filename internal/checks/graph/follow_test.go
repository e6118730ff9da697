package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

const testRun = "20261116-015518-0123456789abcdef"

func testSettings() *Settings {
	return &Settings{Run: testRun, Namespace: "aicr-validation", Node: "gpu-0", Workers: 2, Engine: EngineOwn, Model: "m", Router: "least-loaded",
		PodWithin: Duration(time.Minute), LoadWithin: Duration(10 * time.Minute), KeepFor: Duration(5 * time.Minute)}
}

// fakeLoad is an API server with one load on it, which the test plays.
type fakeLoad struct {
	API // what is not played panics

	mu      sync.Mutex
	job     kube.Object
	pod     kube.Object
	copied  kube.Object
	node    kube.Object
	events  []kube.Object
	log     []string      // lines that were printed
	more    chan struct{} // closed when there is another
	breaks  int           // so many connections break after three lines
	hangs   int           // so many connections fall silent after two lines
	logsOut int           // times that the log was opened
	away    bool
	made    []string
	exec    func(command []string, stdout io.Writer) error
	execs   []string
}

func notFound(r kube.Resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: r.Group, Resource: r.Name}, name)
}

func (f *fakeLoad) Create(_ context.Context, r kube.Resource, o kube.Object) (kube.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.made, r.Name) {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: r.Name}, o.Name())
	}
	f.made = append(f.made, r.Name)
	return o, nil
}

func (f *fakeLoad) Read(_ context.Context, r kube.Resource, _, name string) (kube.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, &kube.AwayError{For: time.Minute}
	}
	var o kube.Object
	switch r.Name {
	case "jobs":
		o = f.job
	case "configmaps":
		o = f.copied
	case "nodes":
		o = f.node
	}
	if o == nil {
		return nil, notFound(r, name)
	}
	return o, nil
}

func (f *fakeLoad) List(_ context.Context, r kube.Resource, _, _ string) ([]kube.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.away:
		return nil, &kube.AwayError{For: time.Minute}
	case r.Name == "events":
		return f.events, nil
	case f.pod == nil:
		return nil, nil
	}
	return []kube.Object{f.pod}, nil
}

func (f *fakeLoad) Exec(_ context.Context, _, _, _ string, command []string, stdout io.Writer) error {
	f.mu.Lock()
	f.execs = append(f.execs, strings.Join(command, " "))
	f.mu.Unlock()
	return f.exec(command, stdout)
}

func (f *fakeLoad) Logs(ctx context.Context, _, _, _ string, o kube.LogOptions) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away || f.pod == nil {
		return nil, errors.New("no log")
	}
	f.logsOut++
	r, w := io.Pipe()
	limit, hang := -1, false
	if o.Follow && f.breaks > 0 {
		f.breaks, limit = f.breaks-1, 3
	} else if o.Follow && f.hangs > 0 {
		f.hangs, limit, hang = f.hangs-1, 2, true
	}
	go f.serve(ctx, w, o.Follow, limit, hang)
	return r, nil
}

func (f *fakeLoad) serve(ctx context.Context, w *io.PipeWriter, follow bool, limit int, hang bool) {
	defer w.Close()
	for n := 0; ; {
		f.mu.Lock()
		lines, more := f.log[n:], f.more
		f.mu.Unlock()
		for _, line := range lines {
			if n == limit {
				// The half of a line is what a connection that breaks leaves.
				_, _ = io.WriteString(w, line[:len(line)/2])
				if hang {
					<-ctx.Done()
				}
				w.CloseWithError(errors.New("connection reset"))
				return
			}
			n++
			if _, err := io.WriteString(w, line+"\n"); err != nil {
				return
			}
		}
		if !follow {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// print has the load print lines, with a pause before each.
func (f *fakeLoad) print(pause time.Duration, lines ...string) {
	for _, line := range lines {
		time.Sleep(pause)
		f.mu.Lock()
		f.log = append(f.log, line)
		close(f.more)
		f.more = make(chan struct{})
		f.mu.Unlock()
	}
}

func (f *fakeLoad) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func numberedLine(n int, kind, text string) string {
	data, _ := json.Marshal(LoadLine{N: n, Kind: kind, Text: text})
	return string(data)
}

func jobOf(condition, reason, message string) kube.Object {
	o := kube.Object{"kind": "Job", "metadata": map[string]any{"name": NamesOf(testRun).Load, "uid": "job"}}
	if condition != "" {
		o["status"] = map[string]any{"conditions": []any{map[string]any{"type": condition, "status": "True", "reason": reason, "message": message}}}
	}
	return o
}

func podWith(phase string, state map[string]any) kube.Object {
	return kube.Object{"kind": "Pod", "metadata": map[string]any{"name": "load-x", "uid": "pod", "namespace": "aicr-validation"},
		"spec":   map[string]any{"containers": []any{map[string]any{"name": LoadContainer, "resources": map[string]any{"limits": map[string]any{"memory": "4Gi"}}}}},
		"status": map[string]any{"phase": phase, "containerStatuses": []any{map[string]any{"name": LoadContainer, "state": state}}}}
}

func running() kube.Object { return podWith("Running", map[string]any{"running": map[string]any{}}) }

func ended(code int, reason, message string) kube.Object {
	phase := "Failed"
	if code == 0 {
		phase = "Succeeded"
	}
	return podWith(phase, map[string]any{"terminated": map[string]any{"exitCode": float64(code), "reason": reason, "message": message}})
}

// memorySpool is a file in memory.
type memorySpool struct {
	data []byte
	at   int64
}

func (m *memorySpool) Write(p []byte) (int, error) {
	m.data = append(m.data[:m.at], p...)
	m.at += int64(len(p))
	return len(p), nil
}

func (m *memorySpool) Read(p []byte) (int, error) {
	if m.at >= int64(len(m.data)) {
		return 0, io.EOF
	}
	n := copy(p, m.data[m.at:])
	m.at += int64(n)
	return n, nil
}
func (m *memorySpool) Seek(offset int64, _ int) (int64, error) { m.at = offset; return offset, nil }
func (m *memorySpool) Truncate(size int64) error               { m.data = m.data[:size]; return nil }

func recordOf(t *testing.T, run string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteArchive(&b, fstest.MapFS{"run.json": {Data: []byte(fmt.Sprintf(`{"id":%q}`, run))}, "verdict.json": {Data: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func newFakeLoad() *fakeLoad {
	return &fakeLoad{job: jobOf("", "", ""), pod: running(), more: make(chan struct{})}
}

func TestEachLineOfALoadIsHeardOnceWhateverBecomesOfTheConnection(t *testing.T) {
	for name, play := range map[string]func(f *fakeLoad){
		"it holds":                        func(*fakeLoad) {},
		"it breaks again and again":       func(f *fakeLoad) { f.breaks = 4 },
		"it falls silent, as after sleep": func(f *fakeLoad) { f.hangs = 2 },
		"both":                            func(f *fakeLoad) { f.breaks, f.hangs = 2, 2 },
		"the server is away for 20 s": func(f *fakeLoad) {
			f.away = true
			go func() { time.Sleep(20 * time.Second); f.change(func() { f.away = false }) }()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				whole := recordOf(t, testRun)
				f.exec = func(command []string, stdout io.Writer) error {
					if slices.Contains(command, "--received") {
						return nil
					}
					_, err := stdout.Write(whole)
					return err
				}
				play(f)
				want := []string{"one", "two", "warning: of somebody else", "warning: of somebody else", "three", "a panic's trace", "four", "done"}
				go f.print(3*time.Second, numberedLine(1, LineNote, "one"), numberedLine(2, LineNote, "two"), want[2], want[3],
					numberedLine(3, LineNote, "three"), want[5], numberedLine(4, LineNote, "four"), numberedLine(5, LineDone, "done"))
				var got []string
				spool := &memorySpool{}
				out, err := FollowLoad(t.Context(), f, testSettings(), Told{}, spool, func(l LoadLine) { got = append(got, l.Text) })
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if out.By != ByRecord || out.Pod != "load-x" || !bytes.Equal(spool.data, whole) {
					t.Errorf("it came to %+v", out)
				}
				if slices.ContainsFunc(f.execs, func(e string) bool { return strings.HasSuffix(e, "--received") }) {
					t.Error("the pod was let go before its record was taken in")
				}
			})
		})
	}
}

func TestARecordIsFetchedAgainUntilItIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLoad()
		whole, tries := recordOf(t, testRun), 0
		f.exec = func(command []string, stdout io.Writer) error {
			tries++
			switch tries {
			case 1:
				_, _ = stdout.Write(whole[:40])
				return errors.New("connection reset")
			case 2:
				_, err := stdout.Write(whole[:len(whole)-3]) // an end that was lost without a word
				return err
			}
			_, err := stdout.Write(whole)
			return err
		}
		spool := &memorySpool{}
		if err := FetchLoad(t.Context(), f, testSettings(), Told{}, "load-x", spool, false); err != nil {
			t.Fatal(err)
		}
		if tries != 3 || !bytes.Equal(spool.data, whole) {
			t.Errorf("after %d tries, %d bytes of %d", tries, len(spool.data), len(whole))
		}
	})
}

func TestTheRecordOfAnotherRunIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLoad()
		f.exec = func(_ []string, stdout io.Writer) error {
			_, err := stdout.Write(recordOf(t, "another"))
			return err
		}
		err := FetchLoad(t.Context(), f, testSettings(), Told{}, "load-x", &memorySpool{}, false)
		if err == nil || !strings.Contains(err.Error(), `of run "another"`) || len(f.execs) != 1 {
			t.Errorf("after %d tries: %v", len(f.execs), err)
		}
	})
}

func message(m LoadMessage) string {
	m.Schema, m.Run = LoadMessageSchema, testRun
	return string(m.Encode())
}

// endedBy is the load's pod, ended for a reason of its own.
func endedBy(reason string) kube.Object {
	pod := ended(137, "Error", "")
	pod["status"].(map[string]any)["reason"] = reason
	return pod
}

func TestALoadWithoutAResultFailsInItsOwnWords(t *testing.T) {
	at := message(LoadMessage{Stage: "episode 2"})
	lost := running()
	lost["status"].(map[string]any)["phase"] = "Failed"
	lost["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "DisruptionTarget", "status": "True", "message": "node gpu-0 is gone"}}
	evictedPod := ended(137, "Error", "")
	evictedPod["status"].(map[string]any)["reason"] = "Evicted"
	evictedPod["status"].(map[string]any)["message"] = "The node was low on resource: ephemeral-storage"
	leaving := ended(137, "Error", "")
	leaving["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	for name, c := range map[string]struct {
		job, pod kube.Object
		log      []string
		reason   string
		words    []string
	}{
		"killed for its memory":    {jobOf("Failed", "BackoffLimitExceeded", ""), ended(137, "OOMKilled", at), nil, "OOMKilled", []string{"memory", "4Gi", "episode 2"}},
		"deadline":                 {jobOf("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"), nil, nil, "DeadlineExceeded", []string{"deadline", "active longer"}},
		"evicted":                  {jobOf("", "", ""), evictedPod, nil, "Evicted", []string{"ephemeral-storage"}},
		"its node is gone":         {jobOf("", "", ""), lost, nil, "NodeLost", []string{"gpu-0 is gone"}},
		"its pod was deleted":      {jobOf("Failed", "BackoffLimitExceeded", ""), nil, nil, "PodDeleted", []string{"was deleted"}},
		"its pod is being deleted": {jobOf("", "", ""), leaving, nil, "PodDeleted", []string{"was deleted"}},
		"its Job was deleted":      {nil, nil, nil, "JobDeleted", []string{"was deleted"}},
		"a panic, which ends as a skip does": {jobOf("Failed", "BackoffLimitExceeded", ""), ended(2, "Error", ""),
			[]string{"panic: runtime error: index out of range", "", "goroutine 1 [running]:"}, "Panic", []string{"index out of range"}},
		"a traceback": {jobOf("Failed", "BackoffLimitExceeded", ""), ended(1, "Error", ""),
			[]string{"Traceback (most recent call last):", `  File "tokenizer.py", line 5, in load`, "aiperf.common.exceptions.TokenizerError: Failed to load tokenizer", "bye"}, "Panic", []string{"crashed: aiperf", "Failed to load tokenizer"}},
		"a fatal error": {jobOf("Failed", "BackoffLimitExceeded", ""), ended(2, "Error", ""),
			[]string{"fatal error: all goroutines are asleep", "", "goroutine 1 [running]:"}, "Panic", []string{"all goroutines are asleep"}},
		"a traceback of a traceback": {jobOf("Failed", "BackoffLimitExceeded", ""), ended(1, "Error", ""),
			[]string{"Traceback (most recent call last):", "KeyError: 'a'", "During handling of the above exception, another exception occurred:", "Traceback (most recent call last):", "ValueError: no such model"}, "Panic", []string{"ValueError: no such model"}},
		"killed by nobody knows whom": {jobOf("Failed", "BackoffLimitExceeded", ""), ended(137, "Error", ""), nil, "Killed", []string{"137"}},
		"an end, and its Job deleted": {nil, ended(3, "Error", ""), nil, "Exit", []string{"code 3"}},
		"preempted":                   {jobOf("", "", ""), endedBy("Preempting"), nil, "Evicted", []string{"Preempting"}},
		"its node shut down":          {jobOf("", "", ""), endedBy("NodeShutdown"), nil, "Evicted", []string{"NodeShutdown"}},
		"its node is shutting down":   {jobOf("", "", ""), endedBy("Shutdown"), nil, "Evicted", []string{"Shutdown"}},
		"its node ended it":           {jobOf("", "", ""), endedBy("Terminated"), nil, "Evicted", []string{"Terminated"}},
		"its node does not answer":    {jobOf("", "", ""), endedBy("NodeLost"), nil, "NodeLost", []string{"lost with its node"}},
		"a skip's code and no word":   {jobOf("Failed", "BackoffLimitExceeded", ""), ended(2, "Error", ""), nil, "Exit", []string{"code 2", "without a result"}},
		"a pass's code and no word":   {jobOf("Complete", "", ""), ended(0, "Completed", ""), nil, "Exit", []string{"code 0", "without a result"}},
		"a code and words":            {jobOf("Failed", "BackoffLimitExceeded", ""), ended(3, "Error", message(LoadMessage{Stage: "failed", Error: "targets.json: no url"})), nil, "Exit", []string{"targets.json: no url"}},
		"a run of another version": {jobOf("Failed", "BackoffLimitExceeded", ""), ended(3, "Error", strings.ReplaceAll(message(LoadMessage{Stage: "failed", Error: "settings.json: unknown field\nand more"}), testRun, "")), nil, "Exit",
			[]string{"of another version than this program? settings.json: unknown field and more", testSettings().Images.Load}},
		"a verdict of no run":         {jobOf("Complete", "", ""), ended(0, "Completed", strings.ReplaceAll(message(LoadMessage{Stage: "done", Verdict: "PASS"}), testRun, "")), nil, "Exit", []string{"code 0"}},
		"a message of another run":    {jobOf("Failed", "BackoffLimitExceeded", ""), ended(0, "Completed", strings.ReplaceAll(message(LoadMessage{Stage: "done", Verdict: "PASS"}), testRun, "other")), nil, "Exit", []string{"code 0"}},
		"a program that is not there": {jobOf("Failed", "BackoffLimitExceeded", ""), ended(128, "StartError", "exec: aicr: not found"), nil, "Exit", []string{"aicr: not found"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				go func() {
					time.Sleep(5 * time.Second)
					f.print(0, c.log...)
					f.change(func() { f.job, f.pod = c.job, c.pod })
				}()
				out, err := FollowLoad(t.Context(), f, testSettings(), Told{}, &memorySpool{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if out.By != "" || out.Reason != c.reason {
					t.Errorf("by %q, reason %s (%s), want %s", out.By, out.Reason, out.Why, c.reason)
				}
				for _, w := range c.words {
					if !strings.Contains(out.Why, w) {
						t.Errorf("%q is not in: %s", w, out.Why)
					}
				}
				if e := out.Event(); e.Kind != spec.EventInterrupt || e.Reason == "" || e.Text == "" {
					t.Errorf("the record is told %+v", e)
				}
			})
		})
	}
}

func TestAResultIsTakenFromTheBestPlaceThatIsLeft(t *testing.T) {
	s := testSettings()
	copied := ResultCopy(s, []ResultFile{{"verdict.json", []byte(`{"verdict":"FAIL"}`)}})
	done := message(LoadMessage{Stage: "done", Verdict: "FAIL", Reason: "worker 5 stalled"})
	foreign := sent(t, copied)
	foreign["metadata"].(map[string]any)["labels"] = map[string]any{}
	for name, c := range map[string]struct {
		copied kube.Object
		pod    kube.Object
		want   string
	}{
		"the copy":                    {copied, ended(1, "Error", done), ByConfigMap},
		"the copy alone":              {copied, nil, ByConfigMap},
		"the message":                 {nil, ended(1, "Error", done), ByMessage},
		"a copy of somebody else":     {foreign, ended(1, "Error", done), ByMessage},
		"a copy without a verdict":    {ResultCopy(s, []ResultFile{{"run.json", []byte("{}")}}), ended(1, "Error", done), ByMessage},
		"a message without a verdict": {nil, ended(1, "Error", message(LoadMessage{Stage: "episode 1"})), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				f.job, f.copied = jobOf("Failed", "BackoffLimitExceeded", ""), c.copied
				f.pod = c.pod
				out, err := FollowLoad(t.Context(), f, s, Told{}, &memorySpool{}, nil)
				if err != nil || out.By != c.want {
					t.Errorf("by %q (%v), want %q", out.By, err, c.want)
				}
			})
		})
	}
}

func TestAnInterruptLeavesTheLoadAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLoad()
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("interrupted")
		go func() { time.Sleep(7 * time.Second); cancel(why) }()
		out, err := FollowLoad(ctx, f, testSettings(), Told{}, &memorySpool{}, nil)
		if !errors.Is(err, why) || out == nil || out.Pod != "load-x" || out.By != "" {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

func TestALoadThatDoesNotStartSaysWhy(t *testing.T) {
	waiting := func(reason, text string) kube.Object {
		return podWith("Pending", map[string]any{"waiting": map[string]any{"reason": reason, "message": text}})
	}
	event := func(kind, name, uid, reason, text string) kube.Object {
		return kube.Object{"involvedObject": map[string]any{"kind": kind, "name": name, "uid": uid}, "reason": reason, "message": text,
			"lastTimestamp": "2026-11-16T01:55:18Z", "metadata": map[string]any{"namespace": "aicr-validation"}}
	}
	pending := podWith("Pending", nil)
	pending["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
		"message": "0/3 nodes are available: 3 Insufficient cpu."}}
	for name, c := range map[string]struct {
		pod    kube.Object
		events []kube.Object
		reason string
		words  string
		within time.Duration
	}{
		"its image":       {waiting("ImagePullBackOff", `Back-off pulling image: ErrImagePull: manifest unknown`), nil, "ImagePullBackOff", "manifest unknown", 20 * time.Second},
		"no room":         {pending, nil, "Unschedulable", "cpu", 2 * time.Minute},
		"it is refused":   {nil, []kube.Object{event("Job", NamesOf(testRun).Load, "job", "FailedCreate", "violates PodSecurity")}, "PodRefused", "(this program's, which loads) cannot make its pod: violates PodSecurity", time.Minute},
		"never there":     {nil, nil, "NotStarted", "did not appear in 1m0s", 2 * time.Minute},
		"never started":   {podWith("Pending", nil), nil, "NotStarted", "did not start in 1m0s", 2 * time.Minute},
		"somebody else's": {podWith("Pending", nil), []kube.Object{event("Job", "other", "other", "FailedCreate", "violates PodSecurity")}, "NotStarted", "did not start", 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				f.pod, f.events = c.pod, c.events
				var told []spec.Event
				began := time.Now()
				started, err := StartLoad(t.Context(), f, testSettings(), &spec.Plan{Profile: spec.ProfileSmoke}, Told{Event: func(e spec.Event) error { told = append(told, e); return nil }})
				if err != nil || started {
					t.Fatalf("started %v, %v", started, err)
				}
				if len(told) == 0 || told[0].Kind != spec.EventPod || told[0].Reason != c.reason || !strings.Contains(told[0].Text, c.words) {
					t.Errorf("told %+v, want %s with %q", told, c.reason, c.words)
				}
				if took := time.Since(began); took > c.within {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestALoadIsStartedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLoad()
		for _, step := range Objects(testSettings()) {
			if step.Part == PartLoad {
				f.job = step.Object // any of them has the labels
			}
		}
		for range 2 {
			if started, err := StartLoad(t.Context(), f, testSettings(), &spec.Plan{Profile: spec.ProfileSmoke}, Told{}); !started || err != nil {
				t.Fatalf("started %v, %v", started, err)
			}
			f.made = []string{"jobs"} // what else is there is made again
		}
		delete(f.job["metadata"].(map[string]any), "labels")
		_, err := StartLoad(t.Context(), f, testSettings(), &spec.Plan{Profile: spec.ProfileSmoke}, Told{})
		if _, foreign := errors.AsType[*ForeignError](err); !foreign {
			t.Errorf("a Job of somebody else: %v", err)
		}
	})
}

func sortedStrings(all []string) []string { return slices.Sorted(slices.Values(all)) }
