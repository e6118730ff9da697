package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"net/http"

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
		s.setFaults(nil)
	case http.MethodPost:
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFaults))
		if err != nil {
			s.tell(w, &refusal{http.StatusRequestEntityTooLarge, saysTooLarge})
			return
		}
		faults, err := spec.DecodeFaults(body, s.scenario)
		if err != nil {
			s.tell(w, &refusal{http.StatusBadRequest, err.Error()})
			return
		}
		s.setFaults(faults)
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

func (s *Server) tell(w http.ResponseWriter, r *refusal) { writeJSON(w, r.status, r.page()) }

// authorized compares in a time that tells nothing of the token, not even its
// length.
func (s *Server) authorized(r *http.Request) bool {
	got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
	want := sha256.Sum256([]byte("Bearer " + s.options.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

func (s *Server) setFaults(faults []spec.Fault) {
	s.fleet.SetFaults(faults)
	s.mu.Lock()
	s.panicking = false // one that is set again is told again
	s.mu.Unlock()
	s.noticePanic()
}

// What the published case of a discovery panic logged, and how often.
const (
	panicLine  = "thread 'tokio-runtime-worker' panicked at futures-util-0.3.31/src/stream/unfold.rs: Unfold must not be polled after it returned `Poll::Ready(None)`"
	bucketLine = "KVStoreDiscovery::list: bucket missing for query=AllEndpoints, prefix=v1/instances, bucket=v1/instances"

	panicsSeen  = 24
	bucketsSeen = 97
)

// noticePanic writes the log of a discovery panic, once each time that one
// begins. Nothing in the fleet tells when, so each request looks.
func (s *Server) noticePanic() {
	serving, why := s.fleet.Serving()
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.panicking
	s.panicking = !serving && why == spec.DiscoveryPanic
	if was || !s.panicking {
		return
	}
	panics, buckets := panicsSeen, bucketsSeen
	for _, f := range s.fleet.Faults() {
		if f.Kind != spec.DiscoveryPanic {
			continue
		}
		if f.Panics != nil {
			panics = *f.Panics
		}
		if f.BucketMissing != nil {
			buckets = *f.BucketMissing
		}
		break
	}
	for range panics {
		s.options.Log(panicLine)
	}
	for range buckets {
		s.options.Log(bucketLine)
	}
}
