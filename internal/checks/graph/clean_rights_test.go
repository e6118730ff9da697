package graph

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"aicr/internal/kube"
)

// fenced is an API whose user may look into some namespaces alone.
type fenced struct {
	*memoryAPI
	may   []string
	err   error                 // instead of that it is forbidden
	asked func(selector string) // hears what is asked for
	wide  []kube.Resource       // which may be listed in all
}

func (f fenced) List(ctx context.Context, r kube.Resource, namespace, selector string) ([]kube.Object, error) {
	if f.asked != nil {
		f.asked(selector)
	}
	wide := slices.Contains(append([]kube.Resource{resNamespaces, resQueues, resClusterRoles, resClusterBinds}, f.wide...), r)
	switch {
	case wide || slices.Contains(f.may, namespace):
		return f.memoryAPI.List(ctx, r, namespace, selector)
	case f.err != nil && namespace != "":
		return nil, f.err
	}
	return nil, apierrors.NewForbidden(schema.GroupResource{Resource: r.Name}, "", errors.New("no"))
}

// Who may not look everywhere looks where runs can be. Where they may not look, and one
// could be, they are not told that there is none.
func TestWhereCleanLooks(t *testing.T) {
	in := func(namespace string, ours bool) func(m *memoryAPI) {
		return func(m *memoryAPI) {
			s := runSettings(memoryRun)
			s.Namespace = namespace
			if !ours {
				m.put(resNamespaces, kube.Object{"metadata": map[string]any{"name": namespace}})
			}
			whole(m, s)
		}
	}
	for name, c := range map[string]struct {
		there func(m *memoryAPI)
		may   []string
		err   error
		works bool
		stays bool // the run, with no error
	}{
		"in the usual one": {in("aicr-validation", true), []string{"aicr-validation"}, nil, true, false},
		"in one of ours":   {in("mine", true), []string{"mine"}, nil, true, false},
		"in one of ours, what was kept alone": {func(m *memoryAPI) {
			s := runSettings(memoryRun)
			s.Namespace = "mine"
			m.put(resNamespaces, validationManifest(s))
			m.put(resConfigMaps, keptManifest(s))
		}, []string{"mine"}, nil, true, false},
		"where a binding says that an account is": {in("mine", false), []string{"mine"}, nil, true, false},
		"in one of ours that is closed":           {in("mine", true), []string{"aicr-validation"}, nil, false, true},
		"in one that is closed, and no other":     {func(*memoryAPI) {}, nil, nil, false, false},
		"in one that does not answer":             {in("aicr-validation", true), nil, &kube.AwayError{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				c.there(m)
				graphs := NamesOf(memoryRun).Namespace
				_, left, err := Clean(t.Context(), fenced{memoryAPI: m, may: append(c.may, graphs), err: c.err}, "aicr-validation", "", false, Told{})
				gone := !m.has(resConfigMaps, "mine", NamesOf(memoryRun).Kept) && !m.has(resConfigMaps, "aicr-validation", NamesOf(memoryRun).Kept)
				if c.works && (err != nil || len(left) > 0 || !gone) || !c.works && (err == nil) != c.stays || c.stays && gone {
					t.Errorf("%v, left %v, there %v", err, left, m.names())
				}
			})
		})
	}
}

func TestCleanFindsARunByAnythingOfIt(t *testing.T) {
	s := runSettings(memoryRun)
	for _, step := range Objects(s) {
		if step.Object.Namespace() == NamesOf(s.Run).Namespace || step.Object.Name() == s.Namespace {
			continue // it goes with the namespace, or is no run's
		}
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.put(step.Resource, step.Object)
			if removed, left, err := Clean(t.Context(), m, "aicr-validation", "", false, Told{}); err != nil || len(left) > 0 || len(removed) != 1 || len(m.remains()) > 0 {
				t.Errorf("%s: removed %v, left %v, %v", step.Object, removed, left, err)
			}
		})
	}
}

func TestCleanAsksForWhatIsOursAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		m := newMemory()
		m.absent["v2/queues"] = true // which is no mistake
		api := fenced{memoryAPI: m, may: []string{""}, asked: func(selector string) { asked = append(asked, selector) }}
		if _, _, err := Clean(t.Context(), api, "aicr-validation", "", false, Told{}); err != nil || len(asked) == 0 {
			t.Fatal(asked, err)
		}
		if slices.ContainsFunc(asked, func(s string) bool { return !strings.HasPrefix(s, LabelOwner+"="+OwnerValue) }) {
			t.Error(asked)
		}
	})
}

func TestACleanThatWasInterruptedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := Clean(ctx, newMemory(), "aicr-validation", "", false, Told{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
