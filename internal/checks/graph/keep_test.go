package graph

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// fullRun is a run of which everything is kept that can be.
func fullRun() *Kept {
	k := keptRun()
	k.Stage = StageJudged
	k.Events = []spec.Event{{T: 1, Kind: spec.EventPod, Source: "w-0", Text: "a < b"}, {T: 2, Kind: spec.EventNotServed}}
	k.Targets = &Targets{URL: "http://frontend:8000", Node: "gpu-0", Workers: []WorkerTarget{{Name: "w-0", Pod: "w-0", URL: "http://10.0.0.1:9090/metrics"}}}
	k.Verdict = &spec.Verdict{Verdict: spec.Fail, Reason: "a worker stalled"}
	return k
}

func TestARunIsKeptAsItIs(t *testing.T) {
	k := fullRun()
	data, err := k.data()
	if err != nil {
		t.Fatal(err)
	}
	o := copied(kube.Object{"data": data, "metadata": fields{"annotations": fields{AnnotationAlive: "2026-11-16T02:00:00Z"}}})
	found, err := readKept(o)
	if err != nil {
		t.Fatal(err)
	}
	k.Alive = time.Date(2026, 11, 16, 2, 0, 0, 0, time.UTC)
	if diff := cmp.Diff(k, found); diff != "" {
		t.Errorf("(-kept +read):\n%s", diff)
	}
	if !strings.Contains(o.Text("data", fileEvents), "a < b") {
		t.Error("people cannot read the events")
	}
}

func TestHalfOfWhatWasKeptIsNoRun(t *testing.T) {
	for _, name := range []string{fileRun, filePlan, fileSettings, fileEvents, fileTargets, fileVerdict} {
		data, err := fullRun().data()
		if err != nil {
			t.Fatal(err)
		}
		data[name] = data[name].(string)[:1]
		if k, err := readKept(copied(kube.Object{"data": data})); err == nil || !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s is cut off: %+v, %v", name, k, err)
		}
	}
	for _, name := range []string{fileRun, filePlan, fileSettings} {
		data, err := fullRun().data()
		if err != nil {
			t.Fatal(err)
		}
		delete(data, name)
		if k, err := readKept(copied(kube.Object{"data": data})); err == nil {
			t.Errorf("%s is missing: %+v", name, k)
		}
	}
}

func TestWhatIsKeptIsTheRunsOwnOrNothing(t *testing.T) {
	for name, labels := range map[string]map[string]any{
		"nobody's":      nil,
		"somebody's":    {LabelOwner: "somebody", LabelRun: memoryRun},
		"another run's": {LabelOwner: OwnerValue, LabelRun: "another"},
	} {
		m := newMemory()
		m.put(keptResource, kube.Object{"metadata": map[string]any{"name": NamesOf(memoryRun).Kept, "namespace": "aicr-validation", "labels": labels}})
		_, err := FindKept(t.Context(), m, "aicr-validation", memoryRun)
		if _, foreign := errors.AsType[*ForeignError](err); !foreign {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := newMemory()
	m.deny["get configmaps"] = true
	_, err := FindKept(t.Context(), m, "aicr-validation", memoryRun)
	if _, nothing := errors.AsType[*NothingLeft](err); nothing || !kube.IsForbidden(err) {
		t.Errorf("what may not be read is taken for gone: %v", err)
	}
}

func TestHowManyEventsAreKept(t *testing.T) {
	for _, kind := range []string{spec.EventPod, spec.EventLog} {
		k := keptRun()
		for i := range 2 * mostEvents {
			k.add(spec.Event{Kind: kind, Source: digits(i)})
		}
		if len(k.Events) != mostEvents {
			t.Errorf("%d of %s", len(k.Events), kind)
		}
		for _, other := range []string{spec.EventPod, spec.EventLog} {
			if isNew := k.add(spec.Event{Kind: other, Source: "another"}); isNew != (other != kind) {
				t.Errorf("after many of %s, one of %s is kept: %v", kind, other, isNew)
			}
		}
		for i := range mostEvents + 5 {
			if !k.add(spec.Event{Kind: spec.EventNotServed, Text: digits(i)}) {
				t.Fatal("what matters is let go by")
			}
		}
	}
}

// unlucky is an API on which calls fail, each by its verb, kind and number.
type unlucky struct {
	patched
	calls map[string]int
	fails func(verb string, r kube.Resource, n int) error
}

func (u unlucky) fail(verb string, r kube.Resource) error {
	u.calls[verb+r.Name]++
	return u.fails(verb, r, u.calls[verb+r.Name])
}

func (u unlucky) Create(ctx context.Context, r kube.Resource, o kube.Object) (kube.Object, error) {
	if err := u.fail("create", r); err != nil {
		return nil, err
	}
	return u.patched.Create(ctx, r, o)
}

func (u unlucky) Read(ctx context.Context, r kube.Resource, namespace, name string) (kube.Object, error) {
	if err := u.fail("get", r); err != nil {
		return nil, err
	}
	return u.patched.Read(ctx, r, namespace, name)
}

// The namespace may be made, deleted and made again by others while a run begins: it is
// kept at the end, and never believed to be when it is not.
func TestARunIsKeptWhateverOthersDoToItsNamespace(t *testing.T) {
	spaces, maps := schema.GroupResource{Resource: "namespaces"}, schema.GroupResource{Resource: "configmaps"}
	gone, exists := apierrors.NewNotFound(spaces, "aicr-validation"), apierrors.NewAlreadyExists(spaces, "aicr-validation")
	terminating := apierrors.NewForbidden(maps, "x", errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	first := func(verb, name string, err error) func(string, kube.Resource, int) error {
		return func(v string, r kube.Resource, n int) error {
			if v == verb && r.Name == name && n == 1 {
				return err
			}
			return nil
		}
	}
	ours := func(m *memoryAPI) { m.put(resNamespaces, validationManifest(memorySettings())) }
	for name, c := range map[string]struct {
		there func(m *memoryAPI)
		fails func(verb string, r kube.Resource, n int) error
	}{
		"somebody is faster": {ours, first("get", "namespaces", gone)},
		"somebody is faster, and ends": {func(*memoryAPI) {}, func(verb string, r kube.Resource, n int) error {
			if verb == "create" && r.Name == "namespaces" && n == 1 {
				return exists
			}
			return nil
		}},
		"it goes before the ConfigMap":        {ours, first("create", "configmaps", terminating)},
		"it is gone before the ConfigMap":     {ours, first("create", "configmaps", apierrors.NewNotFound(maps, "x"))},
		"the ConfigMap of the try before was": {ours, first("create", "configmaps", apierrors.NewAlreadyExists(maps, "x"))},
		"it goes when it is touched": {func(m *memoryAPI) {
			ours(m)
			m.created = func(m *memoryAPI, r kube.Resource, _ kube.Object) {
				if r.Name != "configmaps" {
					return
				}
				m.created = nil
				m.objects[memoryKey(resNamespaces, "", "aicr-validation")]["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
				time.AfterFunc(5*time.Second, func() {
					m.mu.Lock()
					defer m.mu.Unlock()
					m.sweep("aicr-validation")
				})
			}
		}, func(string, kube.Resource, int) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				c.there(m)
				k := keptRun()
				if err := k.begin(t.Context(), unlucky{patched{m}, map[string]int{}, c.fails}, time.Now(), (&heard{}).told()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				space, err := m.Read(t.Context(), resNamespaces, "", "aicr-validation")
				if !m.has(keptResource, "aicr-validation", NamesOf(memoryRun).Kept) || err != nil || space.Annotations()[AnnotationTouched] != memoryRun {
					t.Errorf("there is %v, and %v, %v", m.names(), space, err)
				}
			})
		})
	}
}

func TestWhoLeadsARunGivesASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, k := newMemory(), keptRun()
		k.Stage = StageDeploy
		began := time.Now().Truncate(time.Second)
		for _, c := range []struct {
			how string
			do  func(now time.Time) error
		}{
			{"beginning", func(now time.Time) error { return k.begin(t.Context(), patched{m}, now, (&heard{}).told()) }},
			{"saving", func(now time.Time) error { return k.save(t.Context(), patched{m}, now) }},
			{"beating", func(now time.Time) error { return k.beat(t.Context(), patched{m}, now) }},
		} {
			began = began.Add(time.Hour)
			if err := c.do(began); err != nil {
				t.Fatal(err)
			}
			found, err := FindKept(t.Context(), m, "aicr-validation", memoryRun)
			if err != nil || !found.Alive.Equal(began) {
				t.Errorf("%s: alive at %s, want %s (%v)", c.how, found.Alive, began, err)
			}
		}
	})
}

func TestAPauseThatIsCutShortSaysWhy(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	if err := pauseFor(ctx, time.Hour); !errors.Is(err, why) {
		t.Error(err)
	}
}

func TestARunWithoutAnIDHasNamesWithAGap(t *testing.T) {
	if n := NamesOf(""); n.Kept != "aicr-run-<8 hex>" || n.Results != "aicr-ctrf-<run>-performance" {
		t.Errorf("%+v", n)
	}
}
