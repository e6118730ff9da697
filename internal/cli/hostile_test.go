package cli

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aicr/internal/sim/truth"
	"aicr/internal/spec"
)

// What a server claims and cannot be, and what it sends without having been asked, is no
// pass; and where nothing was served, no audit makes anything else of it than a failure.
func TestBenchDoesNotBelieveEveryServer(t *testing.T) {
	honest := truth.Script{TTFT: 200 * time.Millisecond, ITL: 5 * time.Millisecond, Workers: 1, Spare: 4}
	with := func(change func(*truth.Script)) truth.Script {
		s := honest
		change(&s)
		return s
	}
	faulty := func(kind truth.Kind, share float64, after int) truth.Script {
		return with(func(s *truth.Script) { s.Faults = []truth.Fault{{Kind: kind, Share: share, After: after}} })
	}
	for name, tt := range map[string]struct {
		script truth.Script
		code   Code
		words  string
	}{
		"honest":                         {honest, 0, "PASS all 64 requests served"},
		"one letter claims 128 tokens":   {with(func(s *truth.Script) { s.OneLetter = true }), Unmeasured, "INVALID the server counts tokens that it did not send: 64 bytes of text in 64 answers that claim 8,192 tokens"},
		"2^63-1 tokens":                  {with(func(s *truth.Script) { s.UsageCount = "9223372036854775807" }), Unmeasured, "INVALID the server counts tokens that it did not send: 64 answers claimed up to 2,147,483,647 tokens where 128 were asked for"},
		"three times what was asked":     {with(func(s *truth.Script) { s.UsageCount = "384" }), Unmeasured, "64 answers claimed up to 384 tokens"},
		"a count that cannot be read":    {with(func(s *truth.Script) { s.UsageCount = `"128"` }), 0, "counted as chunks"},
		"2^64-1 tokens":                  {with(func(s *truth.Script) { s.UsageCount = "18446744073709551615" }), 0, "counted as chunks"},
		"an answer too many":             {faulty(truth.Unsolicited, 0.02, 0), Unmeasured, "INVALID the server sent bytes that no request asked for"},
		"answers without an end":         {faulty(truth.Endless, 1, 0), Failed, "oversized"},
		"connections end without a byte": {faulty(truth.Cut, 1, -1), Failed, "FAIL none of 64 requests was served"},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, network Network) {
				url, _ := network.serveScript(t, tt.script)
				run := startProgram(t, network, "bench", "--url", url, "-c", "8", "--request-count", "64", "--osl", "128", "--artifact-dir", t.TempDir())
				if code := <-run.code; code != int(tt.code) || !strings.Contains(strings.Join(strings.Fields(run.stdout.String()), " "), tt.words) {
					t.Errorf("exit code %d, want %d with %q:\n%s%s", code, tt.code, tt.words, &run.stdout, &run.stderr)
				}
			})
		})
	}
}

// judgedOf runs validate on a script, in virtual time, and gives what it came to.
func judgedOf(t *testing.T, network Network, s truth.Script, args ...string) (*spec.Verdict, int) {
	t.Helper()
	url, _ := network.serveScript(t, s)
	dir := filepath.Join(t.TempDir(), "run")
	run := startProgram(t, network, append([]string{"validate", "--run", dir, "--url", url, "--workers", "1",
		"--concurrency-per-gpu", "8", "--episode-duration", "10", "-o", "json"}, args...)...)
	code := <-run.code
	if _, err := os.Stat(filepath.Join(dir, verdictFile)); err != nil {
		t.Fatalf("exit code %d without a verdict:\n%s", code, &run.stderr)
	}
	var v spec.Verdict
	readJSON(t, filepath.Join(dir, verdictFile), &v)
	return &v, code
}

// validate ends at the first episode whose tokens cannot be, or which was answered unasked.
func TestValidateDoesNotBelieveEveryServer(t *testing.T) {
	for id, s := range map[string]truth.Script{
		"server/tokens-implausible": {TTFT: 200 * time.Millisecond, ITL: 5 * time.Millisecond, Workers: 1, OneLetter: true},
		"server/unsolicited":        {TTFT: 200 * time.Millisecond, ITL: 5 * time.Millisecond, Workers: 1, Spare: 20, Faults: []truth.Fault{{Kind: truth.Unsolicited, Share: 0.01}}},
	} {
		t.Run(id, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, network Network) {
				v, code := judgedOf(t, network, s)
				if v.Verdict != spec.Invalid || code != int(Unmeasured) ||
					!slices.ContainsFunc(v.Findings, func(f spec.Finding) bool { return f.ID == id && f.Severity == spec.SeverityInvalid }) {
					t.Errorf("exit code %d, %s: %s\n%+v", code, v.Verdict, v.Reason, v.Findings)
				}
			})
		})
	}
}

// Where answers come in one event each, no stall inside one can be seen: stability is not
// judged, and that is said; how many tokens an event carried is in the report.
func TestValidateSaysWhereItCannotSeeStalls(t *testing.T) {
	for tokens, want := range map[int]spec.State{1000: spec.NotJudged, 4: ""} {
		inVirtualTime(t, func(t *testing.T, network Network) {
			v, _ := judgedOf(t, network, truth.Script{TTFT: 200 * time.Millisecond, ITL: 5 * time.Millisecond, Workers: 1, TokensPerChunk: tokens})
			for _, l := range v.Ledgers {
				if blind := strings.Contains(l.Reason, "most answers came in one event"); l.Name == spec.Stability && ((l.State == spec.NotJudged) != (want == spec.NotJudged) || blind != (want == spec.NotJudged)) {
					t.Errorf("%d tokens an event: %+v", tokens, l)
				}
			}
			carried := float64(min(tokens, 128))
			if !slices.ContainsFunc(v.Figures, func(f spec.Figure) bool { return f.Name == "tokens-per-event" && f.Value != nil && *f.Value == carried }) {
				t.Errorf("%d tokens an event: %+v", tokens, v.Figures)
			}
			if v.Verdict == spec.Pass {
				t.Errorf("%d tokens an event: %s", tokens, v.Reason)
			}
		})
	}
}

// A server that ends each connection after the first answers has failed, and the load is
// not what is wrong.
func TestValidateFailsAServerThatClosesEachConnection(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		s := truth.Script{TTFT: 200 * time.Millisecond, ITL: 5 * time.Millisecond, Workers: 1, Spare: 12, Faults: []truth.Fault{{Kind: truth.Cut, Share: 1, After: -1}}}
		v, code := judgedOf(t, network, s)
		if v.Verdict != spec.Fail || code != int(Failed) {
			t.Errorf("exit code %d, %s: %s\n%+v", code, v.Verdict, v.Reason, v.Findings)
		}
	})
}

// A server that does not list its models, or has none for such a request, is reported with
// its own words and what to do about it, before any load.
func TestWhatStandsInTheWayHasTheRightHint(t *testing.T) {
	says := func(status int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
	}
	short := says(200, `{"data":[{"id":"m","max_model_len":1024}]}`)
	for name, tt := range map[string]struct {
		server http.Handler
		args   []string
		cause  string
		hint   string
	}{
		"a key is wanted":            {says(401, `{"error":{"message":"no key was given"}}`), []string{"bench"}, "models failed: HTTP 401: no key was given", "--api-key-file"},
		"the list fails":             {says(500, `{"detail":"the list is away"}`), []string{"bench"}, "HTTP 500: the list is away", "name the model with --model"},
		"no list":                    {says(404, `{"detail":"Not Found"}`), []string{"bench"}, "HTTP 404: Not Found", "check the path of --url"},
		"a list of something else":   {says(200, `{"models":["m"]}`), []string{"bench"}, "not a list of models", "name the model with --model"},
		"more than the context":      {short, []string{"bench", "--isl", "700", "--osl", "400"}, "do not fit in the model's context of 1024", "ask for fewer tokens"},
		"the same, validated":        {short, []string{"validate", "--workers", "1", "--isl", "700", "--osl", "400"}, "do not fit in the model's context of 1024", "ask for fewer tokens"},
		"the same, for its knee":     {short, []string{"knee", "--workers", "1", "--isl", "700", "--osl", "400"}, "do not fit in the model's context of 1024", "ask for fewer tokens"},
		"refused for the context":    {says(400, `{"error":{"message":"This model's maximum context length is 9 tokens"}}`), []string{"bench", "-m", "m"}, "HTTP 400: This model's maximum context length is 9 tokens", "ask for fewer tokens"},
		"refused for something else": {says(400, `{"error":{"message":"no such thing"}}`), []string{"bench", "-m", "m"}, "HTTP 400: no such thing", "--endpoint-type"},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, network Network) {
				run := startProgram(t, network, append(tt.args, "--url", network.serve(t, tt.server))...)
				code, words := <-run.code, run.stderr.String()
				if code != int(Misused) || !strings.Contains(words, tt.cause) || !strings.Contains(words, tt.hint) {
					t.Errorf("exit code %d, want %q and %q:\n%s", code, tt.cause, tt.hint, words)
				}
			})
		})
	}
}

// A server that closes connections which it said it would keep is healthy. What was sent
// twice is told; one that keeps none is found by the probe, and nothing is sent twice.
func TestAServerThatClosesKeptConnectionsIsHealthy(t *testing.T) {
	const again = "sent again: the server closed kept connections"
	for name, tt := range map[string]struct {
		after int
		flags []string
		again bool
	}{
		"after each answer":            {1, nil, false},
		"after seven":                  {7, nil, true},
		"after seven, and none reused": {7, []string{"--connection-reuse-strategy", "never"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := truth.Script{TTFT: 200 * time.Millisecond, ITL: 5 * time.Millisecond, Workers: 1, Close: truth.Close{After: tt.after}}
			inVirtualTime(t, func(t *testing.T, network Network) {
				v, _ := judgedOf(t, network, s, tt.flags...)
				if v.Verdict == spec.Fail || v.Verdict == spec.Invalid || len(v.Findings) > 0 {
					t.Errorf("%s: %s\n%+v", v.Verdict, v.Reason, v.Findings)
				}
				if told := strings.Contains(strings.Join(v.Notes, "\n"), again); told != tt.again {
					t.Errorf("%q", v.Notes)
				}
			})
			inVirtualTime(t, func(t *testing.T, network Network) {
				url, _ := network.serveScript(t, s)
				run := startProgram(t, network, append([]string{"bench", "--url", url, "-c", "8", "--request-count", "64", "--artifact-dir", t.TempDir()}, tt.flags...)...)
				code := <-run.code
				out := strings.Join(strings.Fields(run.stdout.String()), " ")
				if code != 0 || !strings.Contains(out, "PASS all 64 requests served") || strings.Contains(out, again) != tt.again ||
					strings.Contains(out, "closes each connection after its answer") != (tt.after == 1) {
					t.Errorf("exit code %d:\n%s%s", code, &run.stdout, &run.stderr)
				}
			})
		})
	}
}

// A server that serves no request is not asked thousands of times: what a bench records
// of five seconds is a few lines a user.
func TestBenchRecordsLittleOfAServerThatIsGone(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		l, err := network.listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func(c net.Conn) {
					_, _ = http.ReadRequest(bufio.NewReader(c))
					_ = c.Close()
				}(c)
			}
		}()
		t.Cleanup(func() { _ = l.Close() })
		dir := t.TempDir()
		run := startProgram(t, network, "bench", "--url", "http://"+l.Addr().String(), "--model", "m", "--no-probe", "-c", "8", "--benchmark-duration", "5", "--artifact-dir", dir)
		if code := <-run.code; code != int(Failed) {
			t.Errorf("exit code %d:\n%s%s", code, &run.stdout, &run.stderr)
		}
		var doc spec.Bench
		readJSON(t, filepath.Join(dir, "bench.json"), &doc)
		if n := doc.Requests.Sent; n > 8*10 || n < 8 {
			t.Errorf("%d requests in five seconds of 8 users", n)
		}
	})
}
