package programs

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// slowFleet answers as long as it is not slow, and then not at all.
func slowFleet(t *testing.T, ip string, ports ...string) (slow func()) {
	t.Helper()
	never := make(chan struct{})
	h := &house{}
	t.Cleanup(h.close)
	for _, port := range ports {
		err := h.serve(t.Context(), net.JoinHostPort(ip, port), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-never:
				<-r.Context().Done()
			default:
				fmt.Fprint(w, "1")
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	return func() { close(never) }
}

func newMembership(fleet string) *membership {
	c := &Call{Stdout: io.Discard, Stderr: io.Discard}
	return &membership{call: c, who: member{Pod: "a"}, at: &following{call: c, ip: fleet, asked: time.Now().Add(time.Hour)}}
}

func TestAWorkerStaysAMemberOfAFleetThatTakesItsTime(t *testing.T) {
	t.Parallel()
	const ip = "127.97.0.1"
	slow := slowFleet(t, ip, registryPort)
	m := newMembership(ip)
	if err := m.join(t.Context()); err != nil || !m.known() {
		t.Fatalf("it did not join: %v", err)
	}
	slow()
	hurried, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := m.join(hurried); err == nil || !m.known() {
		t.Errorf("after %v it is a member: %v", err, m.known())
	}
	m.at.ip = "127.97.0.3" // nobody is there
	if err := m.join(t.Context()); err == nil || m.known() {
		t.Errorf("of another fleet, which is not there: %v, member %v", err, m.known())
	}
}

func TestAWorkerIsWellWhileItsFleetHasNoTimeToSaySo(t *testing.T) {
	t.Parallel()
	const ip = "127.97.0.2"
	slow := slowFleet(t, ip, fmt.Sprint(firstWorker+1))
	m := newMembership(ip)
	m.set(1, ip, true)
	slow()
	for _, page := range []string{"/health", "/live"} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, page, http.NoBody))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"ready"`) {
			t.Errorf("%s: %d %s", page, w.Code, w.Body)
		}
	}
}

func TestAWorkerThatItsFleetMissesIsNotReadyAndLives(t *testing.T) {
	t.Parallel()
	const ip = "127.97.0.4"
	h := &house{}
	defer h.close()
	err := h.serve(t.Context(), net.JoinHostPort(ip, fmt.Sprint(firstWorker)), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	if err != nil {
		t.Fatal(err)
	}
	m := newMembership(ip)
	m.set(0, ip, true)
	for page, want := range map[string]int{"/health": http.StatusServiceUnavailable, "/live": http.StatusOK} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, page, http.NoBody))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", page, w.Code, want)
		}
	}
}
