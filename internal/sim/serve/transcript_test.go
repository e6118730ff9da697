package serve

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/sim"
	"aicr/internal/spec"
	"aicr/test/memnet"
)

var update = flag.Bool("update", false, "write the golden files")

// transcripts are exchanges whose every byte is kept in testdata.
var transcripts = []struct {
	name    string
	puppet  func(*puppet)
	page    func(*Server) http.Handler // nil: the frontend
	request string
}{
	{name: "models", request: getting("/v1/models")},
	{name: "models_without_workers", puppet: nobody, request: getting("/v1/models")},
	{name: "model", request: getting("/v1/models/tiny")},
	{name: "model_unknown", request: getting("/v1/models/huge")},
	{name: "model_without_workers", puppet: nobody, request: getting("/v1/models/tiny")},
	{name: "model_ready", request: getting("/v1/models/tiny/ready")},
	{name: "model_ready_without_workers", puppet: nobody, request: getting("/v1/models/tiny/ready")},
	{name: "health", request: getting("/health")},
	{name: "health_without_one", puppet: func(p *puppet) { p.workers[0].Present = false }, request: getting("/health")},
	{name: "health_without_workers", puppet: nobody, request: getting("/health")},
	{name: "health_discovery_panic", puppet: faulty(spec.DiscoveryPanic), request: getting("/health")},
	{name: "live", request: getting("/live")},
	{name: "path_unknown", request: getting("/v2")},
	{name: "method_wrong", request: getting(chatPath)},
	{name: "method_wrong_page", request: post("/health", "")},
	{name: "worker_health", page: worker(1), request: getting("/health")},
	{name: "worker_live", page: worker(1), request: getting("/live")},
	{name: "worker_health_restarted", puppet: func(p *puppet) { p.workers[1].Started = -90 * time.Second }, page: worker(1), request: getting("/health")},
	{name: "worker_health_missing", puppet: func(p *puppet) { p.workers[1].Present = false }, page: worker(1), request: getting("/health")},
	{name: "worker_health_dra_stale", puppet: faulty(spec.DRAStale), page: worker(1), request: getting("/health")},
	{name: "worker_health_discovery_panic", puppet: faulty(spec.DiscoveryPanic), page: worker(1), request: getting("/health")},
	{name: "worker_path_unknown", page: worker(1), request: getting("/")},

	{name: "chat_stream", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"one two three four"}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":3}`)},
	{name: "chat_stream_bare", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"one two three four"}],"stream":true}`)},
	{name: "chat_stream_every_usage", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"max_tokens":2}`)},
	{name: "chat_stream_nvext", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":2,"nvext":{"extra_fields":["worker_id","timing"]}}`)},
	{name: "chat_unary", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":4}`)},
	{name: "chat_unary_nvext", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":1,"nvext":{"extra_fields":["timing","worker_id"]}}`)},
	{name: "chat_request_id", request: strings.Replace(post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":1}`), "Host:", "X-Request-Id: 74fbfb01-efea-411f-97fe-f1832f079a19\r\nHost:", 1)},
	{name: "plain_stream", request: post(plainPath, `{"model":"tiny","prompt":"one two three","stream":true,"stream_options":{"include_usage":true},"max_tokens":2}`)},
	{name: "plain_unary", request: post(plainPath, `{"model":"tiny","prompt":"one two three","max_tokens":2}`)},

	{name: "refused_without_workers", puppet: nobody, request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`)},
	{name: "refused_discovery_panic", puppet: faulty(spec.DiscoveryPanic), request: post(plainPath, `{"model":"tiny","prompt":"hi"}`)},
	{name: "refused_unknown_model", request: post(chatPath, `{"model":"huge","messages":[{"role":"user","content":"hi"}]}`)},
	{name: "refused_bad_json", request: post(chatPath, `{"model":"tiny",`)},
	{name: "refused_worse_json", request: post(chatPath, "{\"model\":\n oops}")},
	{name: "refused_no_object", request: post(chatPath, `[1]`)},
	{name: "refused_empty_body", request: post(chatPath, ``)},
	{name: "refused_no_model", request: post(chatPath, `{"messages":[{"role":"user","content":"hi"}]}`)},
	{name: "refused_no_messages", request: post(chatPath, `{"model":"tiny","max_tokens":2}`)},
	{name: "refused_empty_messages", request: post(chatPath, `{"model":"tiny","messages":[]}`)},
	{name: "refused_no_role", request: post(chatPath, `{"model":"tiny","messages":[{"content":"hi"}]}`)},
	{name: "refused_bad_role", request: post(chatPath, `{"model":"tiny","messages":[{"role":"<king>","content":"hi"}]}`)},
	{name: "refused_bad_content", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":7}]}`)},
	{name: "refused_no_prompt", request: post(plainPath, `{"model":"tiny"}`)},
	{name: "refused_empty_prompt", request: post(plainPath, `{"model":"tiny","prompt":""}`)},
	{name: "refused_unknown_field", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"foo_bar":1}`)},
	{name: "refused_unknown_nvext", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"nvext":{"ignore_eos":true}}`)},
	{name: "refused_temperature", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"temperature":-5}`)},
	{name: "refused_top_p", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"top_p":1.5}`)},
	{name: "refused_max_tokens", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":0}`)},
	{name: "refused_max_tokens_type", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":"many"}`)},
	{name: "refused_long_type", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":"`+strings.Repeat("é", 1000)+`"}`)},
	{name: "refused_long_number", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":`+strings.Repeat("1", 1000)+`}`)},
	{name: "refused_long_role", request: post(chatPath, `{"model":"tiny","messages":[{"role":"`+strings.Repeat("k", 1000)+`","content":"hi"}]}`)},
	{name: "refused_long_field", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"`+strings.Repeat("f", 1000)+`":1}`)},
	{name: "refused_long_nvext", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"nvext":{"`+strings.Repeat("x", 1000)+`":1}}`)},
	{name: "refused_stream_options", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":true}}`)},
	{name: "refused_context", request: post(chatPath, `{"model":"tiny","messages":[{"role":"user","content":"`+strings.Repeat("word ", 62)+`"}]}`)},
	{name: "refused_no_content_type", request: strings.Replace(post(chatPath, `{}`), "Content-Type: application/json\r\n", "", 1)},

	{name: "fleet_500", puppet: ends(sim.Refused, 500), request: post(chatPath, streamed)},
	{name: "fleet_503", puppet: ends(sim.Refused, 503), request: post(chatPath, streamed)},
	{name: "fleet_529", puppet: ends(sim.Refused, 529), request: post(chatPath, streamed)},
	{name: "fleet_429", puppet: ends(sim.Refused, 429), request: post(chatPath, streamed)},
	{name: "fleet_404", puppet: ends(sim.Refused, 404), request: post(chatPath, streamed)},
	{name: "fleet_404_without_workers", puppet: func(p *puppet) { ends(sim.Refused, 404)(p); p.last = true }, request: post(chatPath, streamed)},
	{name: "fleet_error_told", puppet: ends(sim.ErrorTold, 2), request: post(chatPath, streamed)},
	{name: "fleet_truncated", puppet: ends(sim.Truncated, 2), request: post(chatPath, streamed)},
	{name: "fleet_reset", puppet: ends(sim.Reset, 2), request: post(chatPath, streamed)},
	{name: "fleet_empty", puppet: ends(sim.Empty, 0), request: post(chatPath, streamed)},
	{name: "fleet_error_told_unary", puppet: ends(sim.ErrorTold, 2), request: post(chatPath, whole)},
	{name: "fleet_truncated_unary", puppet: ends(sim.Truncated, 2), request: post(chatPath, whole)},
	{name: "fleet_reset_unary", puppet: ends(sim.Reset, 2), request: post(chatPath, whole)},
	{name: "fleet_empty_unary", puppet: ends(sim.Empty, 0), request: post(chatPath, whole)},
}

const (
	streamed = `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`
	whole    = `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`
)

func nobody(p *puppet) {
	for i := range p.workers {
		p.workers[i].Present = false
	}
}

func faulty(kind spec.FaultKind) func(*puppet) {
	return func(p *puppet) { p.faults = []spec.Fault{{Kind: kind}} }
}

// ends makes every stream end so, after that many tokens or with that status.
func ends(o sim.Outcome, n int) func(*puppet) {
	return func(p *puppet) { p.outcome, p.tokens, p.status = o, n, n }
}

func worker(i int) func(*Server) http.Handler {
	return func(s *Server) http.Handler { return s.Worker(i) }
}

func TestEveryAnswerIsAsKept(t *testing.T) {
	for _, tt := range transcripts {
		t.Run(tt.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) http.Handler {
				p := newPuppet()
				p.step = 10 * time.Millisecond
				if tt.puppet != nil {
					tt.puppet(p)
				}
				if tt.page != nil {
					return tt.page(serverOf(t, p))
				}
				return serverOf(t, p).Frontend()
			}, func(t *testing.T, network *memnet.Net) {
				got := strings.ReplaceAll(exchange(t, network, tt.request), "\r\n", "\n")
				golden(t, tt.name, got)
			})
		})
	}
}

// Every golden file is one of a test that is there.
func TestNoTranscriptIsLeftOver(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, tt := range transcripts {
		if known[tt.name] {
			t.Errorf("two transcripts are called %s", tt.name)
		}
		known[tt.name] = true
	}
	for _, f := range files {
		if !known[strings.TrimSuffix(filepath.Base(f), ".txt")] {
			t.Errorf("%s belongs to no test", f)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
