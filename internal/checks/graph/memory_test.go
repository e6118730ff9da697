package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// memoryAPI is a small API server in memory: it has labels, UIDs, preconditions,
// finalizers, and namespaces that take with them what is in them.
type memoryAPI struct {
	mu      sync.Mutex
	objects map[string]kube.Object // by memoryKey
	next    int
	writes  []string                      // verb kind namespace/name
	deletes map[string]kube.DeleteOptions // by kind namespace/name
	logs    map[string]string             // pod/container, pod/container/previous
	deny    map[string]bool               // "list queues": forbidden
	absent  map[string]bool               // resources that are not served: "v1beta1/dynamographdeployments"
	holdNS  bool                          // namespaces go by hand
	noHook  bool                          // the webhook that converts graphs, stored as v1alpha1, is dead

	undiscovered []error // parts of the API that do not say what they have
	created      func(m *memoryAPI, r kube.Resource, o kube.Object)
}

func newMemory() *memoryAPI {
	return &memoryAPI{objects: map[string]kube.Object{}, logs: map[string]string{}, deletes: map[string]kube.DeleteOptions{}, deny: map[string]bool{}, absent: map[string]bool{}}
}

func memoryKey(r kube.Resource, namespace, name string) string {
	return r.Group + "/" + r.Name + "/" + namespace + "/" + name
}

func (m *memoryAPI) refuse(verb string, r kube.Resource, name string) error {
	group := schema.GroupResource{Group: r.Group, Resource: r.Name}
	if m.deny[verb+" "+r.Name] {
		return apierrors.NewForbidden(group, name, fmt.Errorf("no %s", verb))
	}
	if m.absent[r.Version+"/"+r.Name] {
		return apierrors.NewNotFound(group, name)
	}
	if m.noHook && isGraphs(r) && r.Version == "v1beta1" { // of what is not there nothing is converted
		for key := range m.objects {
			if strings.HasPrefix(key, r.Group+"/"+r.Name+"/") {
				return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError,
					Message: `conversion webhook for nvidia.com/v1alpha1, Kind=DynamoGraphDeployment failed: Post "https://dynamo-operator-webhook-service.dynamo-system.svc:443/convert?timeout=30s": connect: connection refused`}}
			}
		}
	}
	return nil
}

func (m *memoryAPI) notFound(r kube.Resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: r.Group, Resource: r.Name}, name)
}

func copied(o kube.Object) kube.Object {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var c kube.Object
	if err := json.Unmarshal(data, &c); err != nil {
		panic(err)
	}
	return c
}

// put places an object as a controller would, without a line in writes.
func (m *memoryAPI) put(r kube.Resource, o kube.Object) kube.Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.place(r, o)
}

func (m *memoryAPI) place(r kube.Resource, o kube.Object) kube.Object {
	o = copied(o)
	meta, _ := o["metadata"].(map[string]any)
	m.next++
	if was := m.objects[memoryKey(r, o.Namespace(), o.Name())]; was != nil {
		meta["uid"] = was.UID()
	} else if o.UID() == "" {
		meta["uid"] = fmt.Sprintf("uid-%d", m.next)
	}
	meta["resourceVersion"] = fmt.Sprint(m.next)
	m.objects[memoryKey(r, o.Namespace(), o.Name())] = o
	return copied(o)
}

// drop takes an object away as a controller would.
func (m *memoryAPI) drop(r kube.Resource, namespace, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, memoryKey(r, namespace, name))
}

func (m *memoryAPI) has(r kube.Resource, namespace, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[memoryKey(r, namespace, name)] != nil
}

func (m *memoryAPI) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.objects))
}

// remains is what is there besides the namespace of the validations, and what Kubernetes puts
// into it.
func (m *memoryAPI) remains() []string {
	return slices.DeleteFunc(m.names(), func(key string) bool {
		return slices.Contains([]string{"/namespaces//aicr-validation", "/serviceaccounts/aicr-validation/default", "/configmaps/aicr-validation/kube-root-ca.crt"}, key)
	})
}

// NamespacedKinds are those that it has objects of.
func (m *memoryAPI) NamespacedKinds(context.Context) ([]kube.Kind, []error, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[kube.Resource]kube.Kind{}
	for key, o := range m.objects {
		parts := strings.Split(key, "/")
		group, resource := strings.Join(parts[:len(parts)-3], "/"), parts[len(parts)-3]
		r := kube.Resource{Group: group, Version: "v1", Name: resource}
		if o.Namespace() != "" {
			seen[r] = kube.Kind{Resource: r, Kind: kindOf(r)}
		}
	}
	return slices.SortedFunc(maps.Values(seen), func(a, b kube.Kind) int { return strings.Compare(a.String(), b.String()) }), m.undiscovered, nil
}

func (m *memoryAPI) ListMetadata(ctx context.Context, k kube.Kind, namespace string) ([]kube.Object, error) {
	all, err := m.List(ctx, k.Resource, namespace, "")
	for _, o := range all {
		delete(o, "data")
	}
	return all, err
}

func (m *memoryAPI) Create(_ context.Context, r kube.Resource, o kube.Object) (kube.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refuse("create", r, o.Name()); err != nil {
		return nil, err
	}
	if m.objects[memoryKey(r, o.Namespace(), o.Name())] != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: r.Name}, o.Name())
	}
	m.writes = append(m.writes, "create "+o.Text("kind")+" "+o.Namespace()+"/"+o.Name())
	made := m.place(r, o)
	if r == resNamespaces {
		m.place(resAccounts, kube.Object{"metadata": map[string]any{"name": "default", "namespace": o.Name()}})
	}
	if m.created != nil {
		m.created(m, r, made)
	}
	return made, nil
}

func (m *memoryAPI) Apply(context.Context, kube.Resource, kube.Object) (kube.Object, error) {
	return nil, fmt.Errorf("apply: not used here")
}

func (m *memoryAPI) Exec(context.Context, string, string, string, []string, io.Writer) error {
	return fmt.Errorf("exec: not used here")
}

func (m *memoryAPI) Read(_ context.Context, r kube.Resource, namespace, name string) (kube.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refuse("get", r, name); err != nil {
		return nil, err
	}
	o := m.objects[memoryKey(r, namespace, name)]
	if o == nil {
		return nil, m.notFound(r, name)
	}
	return copied(o), nil
}

func (m *memoryAPI) List(_ context.Context, r kube.Resource, namespace, selector string) ([]kube.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refuse("list", r, ""); err != nil {
		return nil, err
	}
	if err := m.refuse("list all", r, ""); err != nil && namespace == "" {
		return nil, err
	}
	var all []kube.Object
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		o := m.objects[key]
		if strings.HasPrefix(key, r.Group+"/"+r.Name+"/") && (namespace == "" || o.Namespace() == namespace) && memorySelects(selector, o.Labels()) {
			all = append(all, copied(o))
		}
	}
	return all, nil
}

func memorySelects(selector string, labels map[string]string) bool {
	if key, values, ok := strings.Cut(selector, " in ("); ok {
		return slices.Contains(strings.Split(strings.TrimSuffix(values, ")"), ","), labels[key])
	}
	for want := range strings.SplitSeq(selector, ",") {
		if key, value, ok := strings.Cut(want, "="); ok && labels[key] != value {
			return false
		}
	}
	return true
}

func (m *memoryAPI) Delete(_ context.Context, r kube.Resource, namespace, name string, o kube.DeleteOptions) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refuse("delete", r, name); err != nil {
		return err
	}
	there := m.objects[memoryKey(r, namespace, name)]
	if there == nil {
		return m.notFound(r, name)
	}
	if o.UID == "" {
		panic("deleted without a UID: " + name)
	}
	if o.UID != there.UID() || o.ResourceVersion != "" && o.ResourceVersion != there.ResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{Resource: r.Name}, name, fmt.Errorf("another"))
	}
	m.writes = append(m.writes, "delete "+kindOf(r)+" "+namespace+"/"+name)
	m.deletes[kindOf(r)+" "+namespace+"/"+name] = o
	meta, _ := there["metadata"].(map[string]any)
	if waits := slices.Equal(there.Finalizers(), []string{"foregroundDeletion"}); waits && !o.Foreground {
		delete(meta, "finalizers")
	}
	if len(there.Finalizers()) > 0 || r == resNamespaces {
		meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		if r == resNamespaces && !m.holdNS {
			m.sweep(name)
		}
		return nil
	}
	delete(m.objects, memoryKey(r, namespace, name))
	for key, one := range m.objects { // what it owns goes with it
		if slices.ContainsFunc(one.List("metadata", "ownerReferences"), func(owner kube.Object) bool { return owner.Text("uid") == o.UID }) {
			delete(m.objects, key)
		}
	}
	return nil
}

// sweep takes away what is in a namespace, and the namespace if nothing holds on.
func (m *memoryAPI) sweep(namespace string) {
	held := 0
	for key, o := range m.objects {
		if o.Namespace() != namespace {
			continue
		}
		if len(o.Finalizers()) > 0 {
			held++
			continue
		}
		delete(m.objects, key)
	}
	if held == 0 {
		delete(m.objects, memoryKey(resNamespaces, "", namespace))
	}
}

func (m *memoryAPI) Logs(_ context.Context, _, pod, container string, o kube.LogOptions) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := pod + "/" + container
	if o.Previous {
		key += "/previous"
	}
	text, ok := m.logs[key]
	if !ok {
		return nil, fmt.Errorf("no log of %s", key)
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if o.Tail == 0 { // all of it
		o.Tail = len(lines)
	}
	return io.NopCloser(bytes.NewBufferString(strings.Join(lines[max(0, len(lines)-o.Tail):], "\n") + "\n")), nil
}

// heard keeps what was told.
type heard struct {
	said    []string
	waiting []string
	events  []spec.Event
}

func (h *heard) told() Told {
	return Told{Say: func(s string) { h.said = append(h.said, s) },
		Waiting: func(s string) {
			if s != "" && (len(h.waiting) == 0 || h.waiting[len(h.waiting)-1] != s) {
				h.waiting = append(h.waiting, s)
			}
		},
		Event: func(e spec.Event) error { h.events = append(h.events, e); return nil }}
}

func (h *heard) reasons() []string {
	var all []string
	for _, e := range h.events {
		all = append(all, strings.TrimSuffix(e.Kind+" "+e.Reason, " "))
	}
	return all
}

const memoryRun = "20261116-020000-0123456789abcdef"

func memorySettings() *Settings {
	return &Settings{Run: memoryRun, Namespace: "aicr-validation", Node: "gpu-0", Workers: 2, GPUs: ByClaim, DRA: "v1", Graph: "v1beta1",
		Router: "least-loaded", Model: "Qwen/Qwen3-8B", Images: Images{Runtime: "example.com/runtime:1.2.3", Load: "example.com/aicr:1.2.3"}, Engine: EngineOwn,
		ReadyWithin: Duration(10 * time.Minute), AnswerWithin: Duration(5 * time.Minute)}
}

// objectOf reads an object as people write it.
func objectOf(t *testing.T, text string) kube.Object {
	t.Helper()
	var o kube.Object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

// hook has the webhook that converts graphs answer, or not.
func (m *memoryAPI) hook(answers bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noHook = !answers
}
