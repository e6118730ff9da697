package programs

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

// member is a worker that has registered.
type member struct {
	Pod       string `json:"pod"`
	Namespace string `json:"namespace,omitempty"`
	GPU       string `json:"gpu,omitempty"` // its UUID
	Model     string `json:"model,omitempty"`
}

// registry is who of a fleet's workers is which. A worker that comes takes the lowest
// number that is free, and has it until it leaves.
type registry struct {
	mu      sync.Mutex
	members []member // by number; without a pod: free
	changed chan struct{}
}

func newRegistry(workers int) *registry {
	return &registry{members: make([]member, workers), changed: make(chan struct{}, 1)}
}

// place is the number of a pod; below 0: it has none.
func place(members []member, pod string) int {
	return slices.IndexFunc(members, func(m member) bool { return m.Pod == pod })
}

// join gives a worker its number; false: all are taken.
func (r *registry) join(m member) (number int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := place(r.members, m.Pod); i >= 0 && m.Pod != "" {
		return i, true
	}
	i := place(r.members, "")
	if i < 0 || m.Pod == "" {
		return 0, false
	}
	r.members[i] = m
	r.tell()
	return i, true
}

// leave frees the number of a pod.
func (r *registry) leave(pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := place(r.members, pod); i >= 0 && pod != "" {
		r.members[i] = member{}
		r.tell()
	}
}

func (r *registry) tell() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// all are the members by number.
func (r *registry) all() []member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.members)
}

// absent are the numbers that nobody has.
func (r *registry) absent() []int {
	free := []int{}
	for i, m := range r.all() {
		if m.Pod == "" {
			free = append(free, i)
		}
	}
	return free
}

// tellAgain is how long a fleet is left alone that could not be told: it may not listen yet.
const tellAgain = 200 * time.Millisecond

// keepTold tells the fleet who is missing until ctx ends: when it is somebody else than
// it knows of, at first nobody, and again until it has heard.
func (r *registry) keepTold(ctx context.Context, tell func(absent []int) error) {
	known := []int{}
	for again := make(<-chan time.Time); ; {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		case <-again:
		}
		absent := r.absent()
		switch {
		case slices.Equal(absent, known):
		case tell(absent) != nil:
			again = time.After(tellAgain)
		default:
			known = absent
		}
	}
}

// registryPort is the port of a fleet's pod at which workers register.
const registryPort = "8001"

// ServeHTTP lets workers join (POST) and leave (DELETE), and tells who is there (GET).
func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	m := member{Pod: q.FormValue("pod"), Namespace: q.FormValue("namespace"), GPU: q.FormValue("gpu"), Model: q.FormValue("model")}
	switch q.Method {
	case http.MethodPost:
		number, ok := r.join(m)
		if !ok {
			http.Error(w, "there is no place for "+m.Pod, http.StatusConflict)
			return
		}
		answer(w, number)
	case http.MethodDelete:
		r.leave(m.Pod)
	default:
		answer(w, r.all())
	}
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // who asked is gone otherwise
}
