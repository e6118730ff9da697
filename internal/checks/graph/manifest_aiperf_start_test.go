package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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

// fakeClock has Python wait in no time: it loads this module at its start. The clock is a
// file, so that a service can have time pass too. A timer that a request may hang into is a
// real one, of a length that the test says.
const fakeClock = `import os, pathlib, signal, time

clock, real = pathlib.Path(os.environ["TEST_CLOCK"]), float(os.environ["TEST_TIMER"])
handle, start, set_to = signal.signal, signal.setitimer, 0.0


def now():
    return float(clock.read_text())


def sleep(seconds):
    clock.write_text(repr(now() + seconds))


def setitimer(which, seconds):
    global set_to
    set_to = seconds
    return start(which, real if seconds else 0)


def on(number, handler):
    def fired(*args):
        sleep(set_to)
        handler(*args)
    return handle(number, fired)


time.monotonic, time.sleep, signal.setitimer, signal.signal = now, sleep, setitimer, on
`

// The real length of a timer: one that nothing is to hang into, and one that something is.
const (
	neverFires = "TEST_TIMER=60"
	firesSoon  = "TEST_TIMER=0.2"
)

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

// startWith runs what the Job does, with an AIPerf that does nothing. The service lets so
// much time pass before it answers as it says.
func startWith(t *testing.T, service func(pass func(time.Duration)) http.HandlerFunc, change ...string) *started {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no Python, so that what AIPerf's Job does before AIPerf is not run")
	}
	dir := t.TempDir()
	folder, clock := filepath.Join(dir, "result"), filepath.Join(dir, "clock")
	at := httptest.NewServer(service(func(d time.Duration) { pass(t, clock, d) }))
	defer at.Close()
	if err := os.MkdirAll(filepath.Join(dir, "aiperf"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"aiperf/__main__.py": strings.ReplaceAll(fakeAIPerf, "FOLDER", folder),
		"sitecustomize.py":   fakeClock, "clock": "1000",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // for one that would wait for ever
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-c", strings.ReplaceAll(wrapAIPerf, aiperfFolder, folder), "profile", "--streaming")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "TEST_CLOCK="+clock, neverFires,
		"AICR_URL="+at.URL, "AICR_MODEL=some/model", "AICR_ANSWER_WITHIN=20", "AICR_ANSWER_TRY=10",
		"http_proxy=http://nobody.example:1")
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

// pass lets time pass on the clock of a program.
func pass(t *testing.T, clock string, d time.Duration) {
	text, err := os.ReadFile(clock)
	if err != nil {
		t.Error(err)
		return
	}
	now, err := strconv.ParseFloat(string(text), 64)
	if err == nil {
		err = os.WriteFile(clock, strconv.AppendFloat(nil, now+d.Seconds(), 'g', -1, 64), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

const completion = `{"choices":[{"message":{"role":"assistant","content":"hello there"}}],"usage":{"completion_tokens":2}}`

func TestAIPerfIsBegunOnceThereIsAnAnswer(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := startWith(t, func(pass func(time.Duration)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
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
			pass(1200 * time.Millisecond) // cold
			_, _ = io.WriteString(w, completion)
		}
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
	if len(events) != 1 || events[0].Kind != spec.EventAnswer || *events[0].Tokens != 2 ||
		math.Abs(*events[0].Seconds-1.2) > 1e-6 || events[0].T != 3.2 {
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
	breaks := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a connection that is closed with unread bytes is reset
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = c.Close()
		}
	}
	soon := []string{"AICR_ANSWER_WITHIN=6", "AICR_ANSWER_TRY=1"}
	hung := append([]string{firesSoon}, soon...)
	for name, c := range map[string]struct {
		service http.HandlerFunc
		change  []string
		class   load.Class
		text    string
		tries   int     // 1: it is known at once that this will not change
		seconds float64 // after which it is given up: pauses of 2 s and 3 s, and a second for each try that hangs
	}{
		"it refuses":                   {answers(503, "not ready to serve"), soon, load.HTTPStatus, "HTTP 503: not ready to serve", 3, 5},
		"it knows no such model":       {answers(404, "no model"), soon, load.HTTPStatus, "HTTP 404", 3, 5},
		"it hangs":                     {hangs, hung, load.Timeout, "no answer within 1 s", 2, 4},
		"it never ends":                {drips, hung, load.Timeout, "no answer within 1 s", 2, 4},
		"it breaks off":                {breaks, soon, load.Reset, "RemoteDisconnected", 3, 5},
		"nobody is there":              {nil, append([]string{"AICR_URL=http://127.0.0.1:1"}, soon...), load.Connect, "refused", 3, 5},
		"it says nothing":              {answers(200, `{"choices":[{"message":{"content":""}}]}`), soon, load.NoTokens, "without a token", 3, 5},
		"it does not let anybody in":   {answers(401, "who are you?"), nil, load.HTTPStatus, "HTTP 401: who are you?", 1, 0},
		"it is another kind of server": {answers(200, "<html>welcome</html>"), nil, load.BadStream, "no chat completion: <html>", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startWith(t, func(func(time.Duration)) http.HandlerFunc { return c.service }, c.change...)
			if s.code != noAnswer || strings.Contains(s.text, "AIPerf was begun") {
				t.Fatalf("exit %d\n%s", s.code, s.text)
			}
			events := s.answer(t).events("there")
			if len(events) != 2 || events[0].Kind != spec.EventAnswer || *events[0].Tokens != 0 {
				t.Fatalf("told %+v", events)
			}
			if e := events[1]; e.Kind != spec.EventNotServed || e.Reason != c.class.String() || !strings.Contains(e.Text, c.text) ||
				max(e.Count, 1) != c.tries || math.Abs(*e.Seconds-c.seconds) > 1e-6 {
				t.Errorf("told %+v after %v s, want %s: %s after %v s", e, *e.Seconds, c.class, c.text, c.seconds)
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
