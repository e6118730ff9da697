package graph

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"aicr/internal/judge"
	"aicr/internal/kube"
	"aicr/internal/spec"
)

// patched is memoryAPI with Patch, as a server merges one.
type patched struct{ *memoryAPI }

func (p patched) Patch(_ context.Context, r kube.Resource, namespace, name string, change kube.Object) (kube.Object, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refuse("patch", r, name); err != nil {
		return nil, err
	}
	o := p.objects[memoryKey(r, namespace, name)]
	if o == nil {
		return nil, p.notFound(r, name)
	}
	if version := change.ResourceVersion(); version != "" && version != o.ResourceVersion() {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: r.Group, Resource: r.Name}, name, errors.New("it has changed"))
	}
	o = copied(o)
	merge(o, copied(change))
	p.writes = append(p.writes, "patch "+o.Text("kind")+" "+namespace+"/"+name)
	return p.place(r, o), nil
}

func merge(into, change map[string]any) {
	for k, v := range change {
		below, ok := v.(map[string]any)
		there, isMap := into[k].(map[string]any)
		if ok && isMap {
			merge(there, below)
			continue
		}
		if into[k] = v; v == nil {
			delete(into, k)
		}
	}
}

// memoryBook is the folder of a run in memory.
type memoryBook struct {
	plan        *spec.Plan
	events      []spec.Event
	diagnostics []string
	order       []string
	episodes    int
}

func (b *memoryBook) Event(e spec.Event) error {
	b.events = append(b.events, e)
	return nil
}
func (b *memoryBook) Episode(*spec.EpisodeRecord) error { return nil }
func (b *memoryBook) Episodes() (int, error)            { return b.episodes, nil }
func (b *memoryBook) Spool() (Spool, error)             { return &memorySpool{}, nil }
func (b *memoryBook) Adopt(io.Reader) error             { return nil }
func (b *memoryBook) Compact(map[string][]byte) (*spec.Verdict, error) {
	return nil, errors.New("not here")
}
func (b *memoryBook) Diagnostic(name string, _ []byte) error {
	b.diagnostics = append(b.diagnostics, name)
	return nil
}
func (b *memoryBook) Judge(context.Context) (*spec.Verdict, []spec.Event, error) {
	b.order = append(b.order, "judge")
	c := judge.NewCase(b.plan)
	c.Hear(b.events...)
	v, _ := c.Verdict()
	return v, b.events, nil
}

func runPlan() *spec.Plan {
	th, _ := spec.DefaultThresholds(spec.ProfileSmoke)
	return &spec.Plan{Schema: spec.PlanSchema, Profile: spec.ProfileSmoke, Stability: spec.StabilityReport, Thresholds: th, Constraints: []spec.Constraint{},
		Point:  spec.OperatingPoint{Workers: 2, Concurrency: 16, DurationS: 15, InputTokens: 128, OutputTokens: 128, Prompts: "unique", RequestTimeout: 60},
		Inputs: map[string]spec.Input{"node": {Value: "gpu-0", From: "cluster"}}}
}

func keptRun() *Kept {
	return &Kept{Plan: runPlan(), Settings: memorySettings(),
		Run: spec.Run{Schema: spec.RunSchema, ID: memoryRun, Version: "v1.2.3", Command: "aicr validate", Start: time.Now().UTC().Format(time.RFC3339Nano)}}
}

func newTestRun(m *memoryAPI, k *Kept) (*Run, *memoryBook, *heard) {
	h, b := &heard{}, &memoryBook{plan: k.Plan}
	return &Run{API: patched{m}, Kept: k, Book: b, Told: h.told(), Now: time.Now, Hear: func(LoadLine) {}}, b, h
}

// failsToPull is a cluster that has no image for the graph.
func failsToPull(m *memoryAPI) {
	play(m, map[time.Duration]func(){5 * time.Second: func() {
		m.graphIs("pending", 0, 0)
		m.put(resPods, memoryPod("w-0", "worker", podNoImage))
	}})
}

// left are the objects that carry this program's label.
func ownLeft(m *memoryAPI) (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		if o := m.objects[key]; o.Labels()[LabelOwner] == OwnerValue && !sharedSpace(o) {
			all = append(all, key)
		}
	}
	return all
}

func TestARunIsKeptFirstAndItsNamespaceIsTouchedThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		k := keptRun()
		k.Stage = StageDeploy
		if err := k.begin(t.Context(), patched{m}, time.Now(), (&heard{}).told()); err != nil {
			t.Fatal(err)
		}
		want := []string{"create Namespace /aicr-validation", "create ConfigMap aicr-validation/" + NamesOf(memoryRun).Kept, "patch Namespace /aicr-validation"}
		if diff := cmp.Diff(want, m.writes); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		found, err := FindKept(t.Context(), m, "aicr-validation", memoryRun)
		if err != nil {
			t.Fatal(err)
		}
		found.Alive = time.Time{}
		if diff := cmp.Diff(k, found); diff != "" {
			t.Errorf("what is read is not what was kept (-want +got):\n%s", diff)
		}
	})
}

func TestANamespaceOfSomebodyElseIsUsedAndNotTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.put(resNamespaces, objectOf(t, `{"kind":"Namespace","metadata":{"name":"aicr-validation"}}`))
		if err := keptRun().begin(t.Context(), patched{m}, time.Now(), (&heard{}).told()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"create ConfigMap aicr-validation/" + NamesOf(memoryRun).Kept}; !slices.Equal(m.writes, want) {
			t.Errorf("%q", m.writes)
		}
	})
}

func TestARunWaitsForANamespaceThatGoesAwayAndBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.put(resNamespaces, objectOf(t, `{"kind":"Namespace","metadata":{"name":"aicr-validation","deletionTimestamp":"2026-01-01T00:00:00Z","labels":{"aicr.run/owner":"aicr"}}}`))
		go func() { time.Sleep(20 * time.Second); m.drop(resNamespaces, "", "aicr-validation") }()
		h := &heard{}
		if err := keptRun().begin(t.Context(), patched{m}, time.Now(), h.told()); err != nil {
			t.Fatal(err)
		}
		if !m.has(resMaps(), "aicr-validation", NamesOf(memoryRun).Kept) {
			t.Error("the run is not kept")
		}
		if len(h.waiting) != 1 || !strings.Contains(h.waiting[0], "to be gone") {
			t.Errorf("said %q", h.waiting)
		}
	})
}

// The namespace is deleted by another run between this one's ConfigMap and its touch.
func TestARunThatLosesItsNamespaceBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		lost := false
		m.created = func(m *memoryAPI, r kube.Resource, o kube.Object) {
			if r.Name == "configmaps" && !lost {
				lost = true
				delete(m.objects, memoryKey(r, o.Namespace(), o.Name()))
				delete(m.objects, memoryKey(resNamespaces, "", "aicr-validation"))
			}
		}
		if err := keptRun().begin(t.Context(), patched{m}, time.Now(), (&heard{}).told()); err != nil {
			t.Fatal(err)
		}
		if !m.has(resMaps(), "aicr-validation", NamesOf(memoryRun).Kept) || !m.has(resNamespaces, "", "aicr-validation") {
			t.Errorf("there is %q", m.names())
		}
	})
}

func resMaps() kube.Resource { return keptResource }

func TestAStartThatFailsIsJudgedDiagnosedAndTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		failsToPull(m)
		r, b, _ := newTestRun(m, keptRun())
		end, err := r.Go(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if end.Verdict.Verdict != spec.Fail || len(end.Verdict.Findings) == 0 || end.Verdict.Findings[0].ID != "cluster/pods-failed" {
			t.Errorf("%+v of %+v", end.Verdict, b.events)
		}
		if len(b.diagnostics) == 0 {
			t.Error("nothing was kept of why")
		}
		if left := ownLeft(m); len(left) > 0 || len(end.Left) > 0 {
			t.Errorf("left: %q, %v", left, end.Left)
		}
		if last := b.events[len(b.events)-1]; last.Kind != spec.EventStage || last.Stage != "end" {
			t.Errorf("the record ends with %+v", last)
		}
	})
}

// A command that has ended leads no run: what it could not remove is for the next who
// cleans, who need not wait until its last sign of life is old.
func TestWhatIsLeftByACommandThatHasEndedIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		play(m, map[time.Duration]func(){5 * time.Second: func() {
			m.graphIs("pending", 0, 0)
			m.put(resPods, memoryPod("w-0", "worker", podNoImage))
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, o := range m.objects {
				if o.Text("kind") == "DynamoGraphDeployment" {
					o["metadata"].(map[string]any)["finalizers"] = []any{"nvidia.com/finalizer"}
				}
			}
		}})
		r, _, _ := newTestRun(m, keptRun())
		end, err := r.Go(t.Context())
		if err != nil || len(end.Left) == 0 {
			t.Fatalf("%+v, %v", end, err)
		}
		kept, err := FindKept(t.Context(), m, "aicr-validation", memoryRun)
		if err != nil {
			t.Fatal(err)
		}
		if !kept.Alive.IsZero() {
			t.Errorf("a command led it at %s, it says", kept.Alive)
		}
	})
}

// A run that was killed anywhere is finished by another that knows its id alone.
func TestARunThatWasKilledIsPickedUp(t *testing.T) {
	for _, dies := range []time.Duration{time.Millisecond, 2 * time.Second, 4900 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			failsToPull(m)
			first, _, _ := newTestRun(m, keptRun())
			killed, kill := context.WithCancel(t.Context())
			gone := make(chan struct{})
			first.API = dying{patched{m}, killed}
			go func() { defer close(gone); _, _ = first.Go(t.Context()) }()
			time.Sleep(dies)
			kill()
			<-gone
			kept, err := FindKept(t.Context(), m, "aicr-validation", memoryRun)
			if err != nil {
				t.Fatal(err)
			}
			second, b, _ := newTestRun(m, kept)
			b.events = slices.Clone(kept.Events)
			end, err := second.Go(t.Context())
			if err != nil || end.Verdict == nil || end.Verdict.Verdict != spec.Fail {
				t.Errorf("after %s: %+v, %v", dies, end, err)
			}
			if left := ownLeft(m); len(left) > 0 {
				t.Errorf("after %s is left: %q", dies, left)
			}
		})
	}
}

// dying is an API whose user is dead from some moment on.
type dying struct {
	patched
	dead context.Context
}

var errDead = errors.New("dead")

func (d dying) Create(ctx context.Context, r kube.Resource, o kube.Object) (kube.Object, error) {
	if d.dead.Err() != nil {
		return nil, errDead
	}
	return d.patched.Create(ctx, r, o)
}

func (d dying) Read(ctx context.Context, r kube.Resource, namespace, name string) (kube.Object, error) {
	if d.dead.Err() != nil {
		return nil, errDead
	}
	return d.patched.Read(ctx, r, namespace, name)
}

func (d dying) List(ctx context.Context, r kube.Resource, namespace, selector string) ([]kube.Object, error) {
	if d.dead.Err() != nil {
		return nil, errDead
	}
	return d.patched.List(ctx, r, namespace, selector)
}

func (d dying) Delete(ctx context.Context, r kube.Resource, namespace, name string, o kube.DeleteOptions) error {
	if d.dead.Err() != nil {
		return errDead
	}
	return d.patched.Delete(ctx, r, namespace, name, o)
}

func (d dying) Patch(ctx context.Context, r kube.Resource, namespace, name string, change kube.Object) (kube.Object, error) {
	if d.dead.Err() != nil {
		return nil, errDead
	}
	return d.patched.Patch(ctx, r, namespace, name, change)
}

func TestAnInterruptedRunIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r, b, h := newTestRun(m, keptRun())
		ctx, interrupt := context.WithCancelCause(t.Context())
		why := errors.New("interrupted")
		go func() { time.Sleep(time.Minute); interrupt(why) }()
		end, err := r.Go(ctx)
		if !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
		if end.Verdict == nil || end.Verdict.Verdict != spec.Inconclusive {
			t.Errorf("%+v", end.Verdict)
		}
		if last := b.events[len(b.events)-1]; last.Kind != spec.EventInterrupt {
			t.Errorf("the record ends with %+v", last)
		}
		if left := ownLeft(m); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		if !slices.ContainsFunc(h.said, func(s string) bool { return strings.Contains(s, "diagnostics are gathered for") }) {
			t.Errorf("said %q", h.said)
		}
	})
}

func TestWhatIsToStayStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		failsToPull(m)
		k := keptRun()
		k.Settings.NoCleanup = true
		r, _, _ := newTestRun(m, k)
		end, err := r.Go(t.Context())
		if err != nil || !end.Stays || len(ownLeft(m)) == 0 {
			t.Errorf("%+v, %v, %q", end, err, ownLeft(m))
		}
		// Whoever comes later is told the same, and takes nothing away either.
		kept, err := FindKept(t.Context(), m, "aicr-validation", memoryRun)
		if err != nil {
			t.Fatal(err)
		}
		again, _, _ := newTestRun(m, kept)
		later, err := again.Go(t.Context())
		if err != nil || !later.Stays || later.By != ByKept || later.Verdict == nil || later.Verdict.Reason != end.Verdict.Reason {
			t.Errorf("%+v, %v", later, err)
		}
	})
}

func TestARunGivesSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r, _, _ := newTestRun(m, keptRun())
		play(m, map[time.Duration]func(){time.Second: func() { m.graphIs("pending", 0, 0) }})
		go func() {
			time.Sleep(5 * time.Minute)
			kept, err := FindKept(t.Context(), m, "aicr-validation", memoryRun)
			if err != nil {
				t.Error(err)
				return
			}
			if age := time.Since(kept.Alive); age > AliveFor/2 {
				t.Errorf("the last sign of life is %s old", age)
			}
		}()
		if _, err := r.Go(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWhatIsKeptOfARunThatWasIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := FindKept(t.Context(), newMemory(), "aicr-validation", memoryRun)
		if _, ok := errors.AsType[*NothingLeft](err); !ok {
			t.Errorf("%v", err)
		}
		m := newMemory()
		m.put(keptResource, kube.Object{"kind": "ConfigMap", "metadata": map[string]any{"name": NamesOf(memoryRun).Kept, "namespace": "aicr-validation"}})
		if _, err := FindKept(t.Context(), m, "aicr-validation", memoryRun); err == nil {
			t.Error("somebody else's is taken for ours")
		}
		other := keptRun()
		other.Run.ID = "another"
		data, err := other.data()
		if err != nil {
			t.Fatal(err)
		}
		m.put(keptResource, kube.Object{"kind": "ConfigMap", "data": data, "metadata": map[string]any{"name": NamesOf(memoryRun).Kept, "namespace": "aicr-validation", "labels": words(Labels("another", PartKept))}})
		if _, err := FindKept(t.Context(), m, "aicr-validation", memoryRun); err == nil {
			t.Error("another run's is taken for this one's")
		}
	})
}

func TestOnlyWhatIsNewIsKeptOfWhatHappens(t *testing.T) {
	k := keptRun()
	e := spec.Event{T: 1, Kind: spec.EventPod, Source: "w-0", Reason: "ErrImagePull", Text: "no"}
	again := e
	again.T = 2
	if !k.add(e) || k.add(again) {
		t.Error("the same is kept twice, or not once")
	}
	for i := range 2 * mostEvents {
		k.add(spec.Event{Kind: spec.EventPod, Source: digits(i)})
	}
	if n := len(k.Events); n > mostEvents {
		t.Errorf("%d events are kept", n)
	}
	if !k.add(spec.Event{Kind: spec.EventNotServed}) {
		t.Error("what matters is let go by")
	}
	k.Events = append(k.Events, spec.Event{Kind: spec.EventLog, Text: strings.Repeat("x", mostKept)})
	if _, err := k.data(); err == nil {
		t.Error("more is kept than a ConfigMap holds")
	}
}

// FuzzKept wants that no ConfigMap makes the program fall over.
func FuzzKept(f *testing.F) {
	k := keptRun()
	k.Stage = StageLoad
	data, err := k.data()
	if err != nil {
		f.Fatal(err)
	}
	good, err := json.Marshal(kube.Object{"data": data})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, text []byte) {
		var o kube.Object
		if json.Unmarshal(text, &o) != nil {
			return
		}
		if k, err := readKept(o); err == nil && (k.Plan == nil || k.Settings == nil) {
			t.Error("half a run is taken for one")
		}
	})
}

// Who stops looking at a load that stays does not end it: it can be attached to.
func TestALoadThatIsLeftGoesOn(t *testing.T) {
	for stays, want := range map[bool]string{true: StageLoad, false: StageJudged} {
		synctest.Test(t, func(t *testing.T) {
			k := keptRun()
			k.Stage, k.Settings.NoCleanup = StageLoad, stays
			r, _, _ := newTestRun(newMemory(), k)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = r.close(ctx, &End{Verdict: &spec.Verdict{Verdict: spec.Inconclusive}}, nil) // that it was interrupted
			if k.Stage != want {
				t.Errorf("left there %v: at stage %s, want %s", stays, k.Stage, want)
			}
		})
	}
}
