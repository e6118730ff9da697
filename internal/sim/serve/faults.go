package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"aicr/internal/sim"
	"aicr/internal/spec"
)

// maxFaults is the longest list of faults that is read.
const maxFaults = 1 << 20

// faults is /faults: GET lists those that are set, POST replaces them, DELETE
// takes them away. Whoever may do that can break the fleet, so it takes a token.
func (s *Server) faults(w http.ResponseWriter, r *http.Request) {
	if !s.authorized(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.tell(w, &refusal{http.StatusUnauthorized, "this page needs the token that was printed at the start, as Authorization: Bearer TOKEN"})
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodDelete:
		s.SetFaults(nil)
		s.logFaults(nil)
	case http.MethodPost:
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFaults))
		if err != nil {
			s.tell(w, &refusal{http.StatusRequestEntityTooLarge, saysTooLarge})
			return
		}
		faults, err := spec.DecodeFaults(body, s.scenario)
		if err != nil {
			s.tell(w, &refusal{http.StatusBadRequest, hinted(err)})
			return
		}
		s.SetFaults(faults)
		s.logFaults(faults)
	default:
		refuseMethod(w, "GET,HEAD,POST,DELETE")
		return
	}
	faults := s.fleet.Faults()
	if faults == nil {
		faults = []spec.Fault{}
	}
	writeJSON(w, http.StatusOK, struct {
		Faults []spec.Fault `json:"faults"`
	}{faults})
}

// hinted words what is wrong with a list of faults, and what to do about it.
func hinted(err error) string {
	mistakes, ok := errors.AsType[spec.Mistakes](err)
	if !ok {
		return err.Error()
	}
	lines := make([]string, len(mistakes))
	for i, m := range mistakes {
		lines[i] = m.Error()
		if m.Hint != "" {
			lines[i] += " (" + m.Hint + ")"
		}
	}
	return strings.Join(lines, "\n")
}

// logFaults logs which faults a client has set.
func (s *Server) logFaults(faults []spec.Fault) {
	kinds := make([]string, len(faults))
	for i, f := range faults {
		kinds[i] = string(f.Kind)
	}
	switch list := strings.Join(kinds, ", "); len(faults) {
	case 0:
		s.options.Log("faults: none is set")
	case 1:
		s.options.Log("faults: 1 is set: " + list)
	default:
		s.options.Log(fmt.Sprintf("faults: %d are set: %s", len(faults), list))
	}
}

func (s *Server) tell(w http.ResponseWriter, r *refusal) { writeJSON(w, r.status, r.page()) }

// authorized compares in a time that tells nothing of the token, not even its
// length.
func (s *Server) authorized(r *http.Request) bool {
	got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
	want := sha256.Sum256([]byte("Bearer " + s.options.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// SetFaults replaces the faults of the fleet. A discovery panic among them is
// logged, also when there was one before.
func (s *Server) SetFaults(faults []spec.Fault) {
	s.mu.Lock()
	s.fleet.SetFaults(faults)
	s.panicking = false
	s.mu.Unlock()
	s.noticePanic()
}

// noticePanic writes the log of a discovery panic, once each time that one
// begins. Nothing in the fleet tells when, so each request looks.
func (s *Server) noticePanic() {
	s.mu.Lock()
	defer s.mu.Unlock()
	serving, why := s.fleet.Serving()
	was := s.panicking
	s.panicking = !serving && why == spec.DiscoveryPanic
	if was || !s.panicking {
		return
	}
	faults := s.fleet.Faults()
	i := slices.IndexFunc(faults, func(f spec.Fault) bool { return f.Kind == spec.DiscoveryPanic })
	if i < 0 { // taken away since
		return
	}
	for _, l := range sim.PanicLines(&faults[i]) {
		for range l.Count {
			s.options.Log(l.Text)
		}
	}
}
