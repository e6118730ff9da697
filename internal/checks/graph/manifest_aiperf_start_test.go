package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aicr/internal/load"
	"aicr/internal/spec"
)

// fakeAIPerf leaves a result, and says what it was given.
const fakeAIPerf = `import pathlib, sys

pathlib.Path("FOLDER").mkdir()
pathlib.Path("FOLDER/profile_export_aiperf.json").write_text('{"fake": true}')
print("AIPerf was begun:", *sys.argv[1:])
`

// started is how the Job of AIPerf ended, with a service that is played.
type started struct {
	code  int
	lines []LoadLine
	text  string
}

func (s *started) answer(t *testing.T) *LoadLine {
	t.Helper()
	for i := range s.lines {
		if s.lines[i].Kind == LineAnswer {
			return &s.lines[i]
		}
	}
	t.Fatalf("whether there was an answer is not told:\n%s", s.text)
	return nil
}

// startWith runs what the Job does, with an AIPerf that does nothing.
func startWith(t *testing.T, service http.HandlerFunc, change ...string) *started {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no Python, so that what AIPerf's Job does before AIPerf is not run")
	}
	at := httptest.NewServer(service)
	defer at.Close()
	dir := t.TempDir()
	folder := filepath.Join(dir, "result")
	if err := os.MkdirAll(filepath.Join(dir, "aiperf"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "aiperf", "__main__.py"), []byte(strings.ReplaceAll(fakeAIPerf, "FOLDER", folder)), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for one that would wait for ever
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-c", strings.ReplaceAll(wrapAIPerf, aiperfFolder, folder), "profile", "--streaming")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "AICR_URL="+at.URL, "AICR_MODEL=some/model", "AICR_ANSWER_WITHIN=20", "AICR_ANSWER_TRY=10", "http_proxy=http://nobody.example:1")
	cmd.Env = append(cmd.Env, change...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	s := &started{code: cmd.ProcessState.ExitCode(), text: string(out)}
	for line := range strings.Lines(s.text) {
		if l := ParseLoadLine([]byte(strings.TrimSpace(line))); l.N > 0 {
			s.lines = append(s.lines, l)
		}
	}
	for i, l := range s.lines {
		if l.N != i+1 {
			t.Errorf("line %d is numbered %d", i+1, l.N)
		}
	}
	return s
}

const completion = `{"choices":[{"message":{"role":"assistant","content":"hello there"}}],"usage":{"completion_tokens":2}}`

func TestAIPerfIsBegunOnceThereIsAnAnswer(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := startWith(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var q struct {
			Model     string
			MaxTokens int `json:"max_tokens"`
			Messages  []struct{ Role, Content string }
		}
		if err := json.Unmarshal(body, &q); err != nil || q.Model != "some/model" || q.MaxTokens < 1 || q.MaxTokens > 16 || len(q.Messages) != 1 ||
			r.URL.Path != "/v1/chat/completions" || r.Method != http.MethodPost || r.Header.Get("x-aicr-run") != "abcd" {
			t.Errorf("asked %s %s %v: %s (%v)", r.Method, r.URL.Path, r.Header, body, err)
		}
		if asked.Add(1) == 1 {
			http.Error(w, "no worker yet", http.StatusServiceUnavailable)
			return
		}
		time.Sleep(1200 * time.Millisecond) // cold
		_, _ = io.WriteString(w, completion)
	}, "AICR_HEADER=x-aicr-run:abcd")
	if s.code != 0 || !strings.Contains(s.text, "AIPerf was begun: profile --streaming\n") || strings.Count(s.text, AIPerfSentinel+"\n") != 2 {
		t.Fatalf("exit %d\n%s", s.code, s.text)
	}
	var kinds []string
	for _, l := range s.lines {
		kinds = append(kinds, l.Kind)
	}
	if want := []string{LineNote, LineNote, LineAnswer, LineStage}; !slices.Equal(kinds, want) || !strings.Contains(s.lines[1].Text, "HTTP 503: no worker yet") {
		t.Errorf("told %q, want %q\n%s", kinds, want, s.text)
	}
	if last := s.lines[len(s.lines)-1]; last.Stage != "episode" || last.Number != 1 || strings.Index(s.text, "AIPerf was begun") < strings.Index(s.text, `"stage"`) {
		t.Errorf("that AIPerf begins is told by %+v\n%s", last, s.text)
	}
	events := s.answer(t).events("there")
	if len(events) != 1 || events[0].Kind != spec.EventAnswer || *events[0].Tokens != 2 || *events[0].Seconds < 1.2 || events[0].T < 3.2 {
		t.Errorf("told %+v", events)
	}
}

func TestAIPerfIsNotBegunWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	answers := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	hangs := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or nobody is told that who asked is gone
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	}
	drips := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	}
	breaks := func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = c.Close()
		}
	}
	soon := []string{"AICR_ANSWER_WITHIN=6", "AICR_ANSWER_TRY=1"}
	for name, c := range map[string]struct {
		service http.HandlerFunc
		change  []string
		class   load.Class
		text    string
		again   bool // it is asked again; else it is known at once that this will not change
	}{
		"it refuses":                   {answers(503, "not ready to serve"), soon, load.HTTPStatus, "HTTP 503: not ready to serve", true},
		"it knows no such model":       {answers(404, "no model"), soon, load.HTTPStatus, "HTTP 404", true},
		"it hangs":                     {hangs, soon, load.Timeout, "no answer within 1 s", true},
		"it never ends":                {drips, soon, load.Timeout, "no answer within 1 s", true},
		"it breaks off":                {breaks, soon, load.Reset, "RemoteDisconnected", true},
		"nobody is there":              {nil, append([]string{"AICR_URL=http://127.0.0.1:1"}, soon...), load.Connect, "refused", true},
		"it says nothing":              {answers(200, `{"choices":[{"message":{"content":""}}]}`), soon, load.NoTokens, "without a token", true},
		"it does not let anybody in":   {answers(401, "who are you?"), nil, load.HTTPStatus, "HTTP 401: who are you?", false},
		"it is another kind of server": {answers(200, "<html>welcome</html>"), nil, load.BadStream, "no chat completion: <html>", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startWith(t, c.service, c.change...)
			if s.code != noAnswer || strings.Contains(s.text, "AIPerf was begun") {
				t.Fatalf("exit %d\n%s", s.code, s.text)
			}
			events := s.answer(t).events("there")
			if len(events) != 2 || events[0].Kind != spec.EventAnswer || *events[0].Tokens != 0 {
				t.Fatalf("told %+v", events)
			}
			if e := events[1]; e.Kind != spec.EventNotServed || e.Reason != c.class.String() || !strings.Contains(e.Text, c.text) || (e.Count > 1) != c.again || *e.Seconds <= 0 {
				t.Errorf("told %+v, want %s: %s", e, c.class, c.text)
			}
		})
	}
}

// The time for a first answer is a part of what the Job is given, and nothing that opens
// anything is in what a process list shows.
func TestWhatAIPerfsJobIsGivenToWaitWith(t *testing.T) {
	s := variants()["aiperf-gateway"]
	c := aiperfManifest(s).List("spec", "template", "spec", "containers")[0]
	got := map[string]string{}
	for _, v := range c.List("env") {
		got[v.Text("name")] = v.Text("value")
	}
	_, short := RouteHeader(s)
	for name, want := range map[string]string{"AICR_URL": ServiceURL(s), "AICR_MODEL": s.Model, "AICR_ANSWER_WITHIN": "300", "AICR_ANSWER_TRY": "120", "AICR_HEADER": "x-aicr-run:" + short} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if text := fmt.Sprint(c["command"], c["args"]); strings.Contains(text, "HF_TOKEN") || strings.Contains(strings.ToLower(text), "authorization") {
		t.Errorf("a secret is in the command line: %s", text)
	}
}
