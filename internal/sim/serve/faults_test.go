package serve

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/sim"
	"aicr/internal/spec"
	"aicr/test/memnet"
)

func TestFaultsAreSetByWhoeverHasTheToken(t *testing.T) {
	stall := `{"faults":[{"kind":"worker-slow","workers":[1],"factor":3}]}`
	for _, tt := range []struct {
		name   string
		method string
		auth   string
		body   string
		status int
		says   string
		kinds  []spec.FaultKind // that are set afterwards
	}{
		{"list", "GET", "Bearer open-sesame", "", 200, `{"faults":[{"kind":"host-slow","factor":2}]}`, []spec.FaultKind{spec.HostSlow}},
		{"replace, JSON", "POST", "Bearer open-sesame", stall, 200, stall, []spec.FaultKind{spec.WorkerSlow}},
		{"replace, YAML list", "POST", "Bearer open-sesame", "- kind: worker-slow\n  workers: [1]\n  factor: 3\n- kind: frontend-freeze\n", 200, "frontend-freeze", []spec.FaultKind{spec.WorkerSlow, spec.FrontendFreeze}},
		{"replace by none", "POST", "Bearer open-sesame", "[]", 200, `{"faults":[]}`, []spec.FaultKind{}},
		{"clear", "DELETE", "Bearer open-sesame", "", 200, `{"faults":[]}`, []spec.FaultKind{}},
		{"all mistakes: the first", "POST", "Bearer open-sesame", "- kind: worker-slow\n  workers: [9]\n  factor: -1\n", 400, "workers", []spec.FaultKind{spec.HostSlow}},
		{"all mistakes: the second", "POST", "Bearer open-sesame", "- kind: worker-slow\n  workers: [9]\n  factor: -1\n", 400, "factor", []spec.FaultKind{spec.HostSlow}},
		{"the hints", "POST", "Bearer open-sesame", `[{kind: worker-slow, workers: [1], factr: 3}]`, 400, `line 1: [0].factr: unknown field (did you mean factor?)`, []spec.FaultKind{spec.HostSlow}},
		{"method", "PUT", "Bearer open-sesame", "[]", 405, "", []spec.FaultKind{spec.HostSlow}},
		{"no token", "DELETE", "", "", 401, "token", []spec.FaultKind{spec.HostSlow}},
		{"wrong token", "DELETE", "Bearer open-sesam", "", 401, "token", []spec.FaultKind{spec.HostSlow}},
		{"wrong scheme", "DELETE", "open-sesame", "", 401, "token", []spec.FaultKind{spec.HostSlow}},
		{"reading needs it too", "GET", "Bearer ", "", 401, "token", []spec.FaultKind{spec.HostSlow}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPuppet()
			factor := 2.0
			p.faults = []spec.Fault{{Kind: spec.HostSlow, Factor: &factor}}
			r := httptest.NewRequest(tt.method, "/faults", strings.NewReader(tt.body))
			if tt.auth != "" {
				r.Header.Set("Authorization", tt.auth)
			}
			w := httptest.NewRecorder()
			serverOf(t, p).Frontend().ServeHTTP(w, r)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, tt.status, tt.says)
			}
			kinds := []spec.FaultKind{}
			for _, f := range p.Faults() {
				kinds = append(kinds, f.Kind)
			}
			if diff := cmp.Diff(tt.kinds, kinds); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFaultsThatAClientSetsAreLogged(t *testing.T) {
	slow := `{kind: worker-slow, workers: [1], factor: 3}`
	for _, tt := range []struct {
		name   string
		method string
		token  string
		body   string
		want   []string
	}{
		{"one", "POST", testToken, "[" + slow + "]", []string{"faults: 1 is set: worker-slow"}},
		{"two", "POST", testToken, "[" + slow + ", {kind: frontend-freeze}]", []string{"faults: 2 are set: worker-slow, frontend-freeze"}},
		{"none", "POST", testToken, "[]", []string{"faults: none is set"}},
		{"cleared", "DELETE", testToken, "", []string{"faults: none is set"}},
		{"read", "GET", testToken, "", nil},
		{"wrong", "POST", testToken, "[{kind: gremlins}]", nil},
		{"forbidden", "DELETE", "sesame", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log []string
			s := newServer(newPuppet(), scenario(t), Options{Token: testToken, Log: func(line string) { log = append(log, line) }})
			r := httptest.NewRequest(tt.method, "/faults", strings.NewReader(tt.body))
			r.Header.Set("Authorization", "Bearer "+tt.token)
			s.Frontend().ServeHTTP(httptest.NewRecorder(), r)
			if diff := cmp.Diff(tt.want, log); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutATokenThereAreNoFaults(t *testing.T) {
	h := newServer(newPuppet(), scenario(t), Options{}).Frontend()
	r := httptest.NewRequest(http.MethodDelete, "/faults", nil)
	r.Header.Set("Authorization", "Bearer ")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusNotFound || w.Body.Len() > 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// What is logged is what a recording of the fleet would tell.
func TestADiscoveryPanicIsLoggedEachTimeItBegins(t *testing.T) {
	p := newPuppet()
	three, one := 3, 1
	usual, said := spec.Fault{Kind: spec.DiscoveryPanic}, spec.Fault{Kind: spec.DiscoveryPanic, Panics: &three, BucketMissing: &one}
	p.faults = []spec.Fault{{Kind: spec.HostSlow}, usual}
	var log []string
	s := newServer(p, scenario(t), Options{Log: func(line string) { log = append(log, line) }})
	logged := func(when string, lines []sim.LogLine) {
		t.Helper()
		var want []string
		for _, l := range lines {
			want = append(want, slices.Repeat([]string{l.Text}, l.Count)...)
		}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		log = nil
	}
	if lines := sim.PanicLines(&said); len(lines) != 2 || lines[0].Count != three || lines[1].Count != one {
		t.Fatalf("a panic that is said is %v", lines)
	}
	h := s.Frontend()
	logged("at the start", sim.PanicLines(&usual))
	request(h, "/health", "")
	request(h, "/health", "")
	logged("while it lasts", nil)
	s.SetFaults([]spec.Fault{said})
	logged("when it is set again", sim.PanicLines(&said))
	p.SetFaults(nil)
	request(h, "/health", "")
	logged("when it is over", nil)
	p.SetFaults([]spec.Fault{said})
	request(h, "/health", "")
	logged("when its window opens", sim.PanicLines(&said))
	s.SetFaults(nil)
	logged("when it is taken away", nil)
}

// Every request that Dynamo counts is counted, once and as what it was.
func TestRequestsAreCountedAsWhatTheyWere(t *testing.T) {
	for _, tt := range []struct {
		name   string
		puppet func(*puppet)
		path   string
		body   string
		want   string // the series that reads 1; "": none
	}{
		{"served", nil, chatPath, streamed, `endpoint="chat_completions",error_type="",model="tiny",request_type="stream",status="success"`},
		{"served whole", nil, plainPath, `{"model":"tiny","prompt":"hi"}`, `endpoint="completions",error_type="",model="tiny",request_type="unary",status="success"`},
		{"invalid", nil, chatPath, `{"model":"tiny","messages":[]}`, `endpoint="chat_completions",error_type="validation",model="tiny",request_type="unary",status="error"`},
		{"unknown model", nil, chatPath, `{"model":"huge","messages":[{"role":"user","content":"hi"}]}`, `endpoint="chat_completions",error_type="not_found",model="unknown_model",request_type="unary",status="error"`},
		{"unreadable", nil, chatPath, `{`, ``},
		{"undecodable", nil, chatPath, `{"model":"tiny","messages":7}`, ``},
		{"no workers", nobody, chatPath, streamed, ``},
		{"failed", ends(sim.Refused, 500), chatPath, streamed, `endpoint="chat_completions",error_type="internal",model="tiny",request_type="stream",status="error"`},
		{"overloaded", ends(sim.Refused, 529), chatPath, streamed, `endpoint="chat_completions",error_type="overload",model="tiny",request_type="stream",status="error"`},
		{"unavailable", ends(sim.Refused, 503), chatPath, streamed, `endpoint="chat_completions",error_type="unavailable",model="tiny",request_type="stream",status="error"`},
		{"error told", ends(sim.ErrorTold, 2), chatPath, streamed, `endpoint="chat_completions",error_type="internal",model="tiny",request_type="stream",status="error"`},
		{"empty", ends(sim.Empty, 0), chatPath, streamed, `endpoint="chat_completions",error_type="",model="tiny",request_type="stream",status="success"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPuppet()
			if tt.puppet != nil {
				tt.puppet(p)
			}
			h := serverOf(t, p).Frontend()
			request(h, tt.path, tt.body)
			var got []string
			for line := range strings.Lines(request(h, "/metrics", "").Body.String()) {
				if strings.HasPrefix(line, "dynamo_frontend_requests_total{") {
					got = append(got, strings.TrimSpace(line))
				}
			}
			var want []string
			if tt.want != "" {
				want = []string{"dynamo_frontend_requests_total{" + tt.want + "} 1"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What is measured of a request is fleet time: here a step to its worker, and
// one to each of its five tokens.
func TestTimesAreMeasured(t *testing.T) {
	var p *puppet
	inVirtualTime(t, stepping(&p), func(t *testing.T, network *memnet.Net) {
		exchange(t, network, post(chatPath, streamed))
		got := exchange(t, network, getting("/metrics"))
		for _, want := range []string{
			`time_to_first_token_seconds_sum{model="tiny"} 0.02`,
			`time_to_first_token_seconds_count{model="tiny"} 1`,
			`inter_token_latency_seconds_sum{model="tiny"} 0.04`,
			`inter_token_latency_seconds_count{model="tiny"} 4`,
			`request_duration_seconds_sum{model="tiny"} 0.06`,
			`output_sequence_tokens_sum{model="tiny"} 5`,
			`input_sequence_tokens_sum{model="tiny"} 3`,
		} {
			if !strings.Contains(got, "dynamo_frontend_"+want) {
				t.Errorf("no %s", want)
			}
		}
	})
}

// The context that a client can use is told the same everywhere.
func TestTheContextIsToldTheSameEverywhere(t *testing.T) {
	h := serverOf(t, newPuppet()).Frontend()
	for page, want := range map[string]string{
		"/v1/models": `"context_window":64`,
		"/metrics":   `dynamo_frontend_model_context_length{model="tiny"} 64`,
	} {
		if got := request(h, page, "").Body.String(); !strings.Contains(got, want) {
			t.Errorf("no %s in %s:\n%s", want, page, got)
		}
	}
}

// A snapshot holds up the fleet while all of it is copied; requests do without.
func TestRequestsTakeNoSnapshot(t *testing.T) {
	p := newPuppet()
	h := serverOf(t, p).Frontend()
	before := p.snapshots
	for _, path := range []string{"/v1/models", "/health"} {
		request(h, path, "")
	}
	request(h, chatPath, whole)
	request(h, chatPath, streamed)
	if n := p.snapshots - before; n != 0 {
		t.Errorf("%d snapshots", n)
	}
}

// Each page of metrics is behind its own server, and nothing else is.
func TestEveryServerHasItsMetrics(t *testing.T) {
	s := serverOf(t, newPuppet())
	request(s.Frontend(), chatPath, whole)
	for _, tt := range []struct {
		name string
		page http.Handler
		has  string
	}{
		{"frontend", s.Frontend(), "dynamo_frontend_output_tokens_total"},
		{"worker", s.Worker(0), "vllm:num_requests_running"},
		{"gpus", s.GPUs(), "DCGM_FI_DEV_GPU_UTIL"},
		{"node", s.Node(), "node_pressure_cpu_waiting_seconds_total"},
	} {
		if w := request(tt.page, "/metrics", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), tt.has) {
			t.Errorf("%s: %d, without %s:\n%.500s", tt.name, w.Code, tt.has, w.Body)
		}
		if w := request(tt.page, "/else", ""); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d for another page", tt.name, w.Code)
		}
		if w := request(tt.page, "/metrics", "x"); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: POST is %d", tt.name, w.Code)
		}
	}
}
