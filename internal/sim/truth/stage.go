package truth

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// stage is what the two drivers share: the script, the clock, and the ledger
// of what has been done. It is safe for concurrent use.
type stage struct {
	script Script

	mu     sync.Mutex
	epoch  time.Time // when the server began; all stamps count from here
	ledger *ledger
}

func newStage(s Script) (*stage, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	return &stage{script: s.withDefaults(), epoch: time.Now(), ledger: newLedger()}, nil
}

// Epoch is the moment from which all stamps count.
func (s *stage) Epoch() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// Reset forgets every request. Those in flight are still answered, and are in
// no report; the next one has index 0 again.
func (s *stage) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = newLedger()
}

// Requests is a copy of the ledger, in the order of arrival at the driver.
func (s *stage) Requests() []Request {
	return s.current().copy()
}

// Truth sums up all requests so far.
func (s *stage) Truth() Truth { return s.TruthOf(Filter{}) }

// TruthOf sums up the requests that pass the filter.
func (s *stage) TruthOf(f Filter) Truth {
	l := s.current()
	epoch := s.Epoch()
	return l.report(f, epoch, time.Since(epoch))
}

func (s *stage) current() *ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger
}

// begin routes a request and makes its answer.
func (s *stage) begin(r request) *play {
	switch r.path {
	case "/health":
		return whole(http.StatusOK, "application/json", []byte(`{"status":"healthy"}`))
	case "/truth":
		return s.serveTruth(r)
	case "/truth/reset":
		if r.method != http.MethodPost {
			return refusal(http.StatusMethodNotAllowed, "POST resets")
		}
		s.Reset()
		return whole(http.StatusOK, "application/json", []byte(`{}`))
	}
	if s.script.APIKey != "" && r.auth != "Bearer "+s.script.APIKey {
		return whole(http.StatusUnauthorized, "application/json",
			[]byte(`{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`))
	}
	switch r.path {
	case "/v1/models":
		return whole(http.StatusOK, "application/json",
			[]byte(`{"object":"list","data":[{"id":`+string(quote(s.script.Model))+`,"object":"model","created":0,"owned_by":"truth"}]}`))
	case "/v1/chat/completions", "/v1/completions":
		if r.method != http.MethodPost {
			return refusal(http.StatusMethodNotAllowed, "POST asks for a completion")
		}
		return s.complete(r)
	}
	return refusal(http.StatusNotFound, "Not Found")
}

// complete answers a completion request. What it refuses has no index: the
// script's faults fall on requests that a healthy server would have served.
func (s *stage) complete(r request) *play {
	a, reason := parse(r.body, s.script.Refuse)
	a.chat = r.path == "/v1/chat/completions"
	var refused *play
	switch {
	case reason != "":
		refused = refusal(http.StatusBadRequest, reason)
	case a.model != s.script.Model:
		refused = refusal(http.StatusNotFound, "Model not found")
	}
	l := s.current()
	if refused != nil {
		l.refuse()
		return refused
	}
	entry, windows := l.open(s.script, r, a)
	return completion(s.script, l, entry, windows, a, s.Epoch().Unix())
}

func (s *stage) serveTruth(r request) *play {
	q, err := url.ParseQuery(r.query)
	var f Filter
	for name, value := range map[string]*int{"skip": &f.Skip, "asked": &f.Asked, "concurrency": &f.Concurrency} {
		if err == nil && q.Has(name) {
			*value, err = strconv.Atoi(q.Get(name))
		}
	}
	if err != nil {
		return refusal(http.StatusBadRequest, err.Error())
	}
	body, err := json.MarshalIndent(s.TruthOf(f), "", "  ")
	if err != nil {
		return refusal(http.StatusInternalServerError, err.Error())
	}
	return whole(http.StatusOK, "application/json", append(body, '\n'))
}

// frozen is the end of the freeze window that now lies in, or 0.
func (s *stage) frozen(now time.Duration) time.Duration {
	if len(s.script.Freezes) == 0 {
		return 0
	}
	for _, w := range s.current().windows(s.script) {
		if w.from <= now && now < w.to {
			return w.to
		}
	}
	return 0
}
