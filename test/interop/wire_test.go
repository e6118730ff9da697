//go:build linux

package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// allowed is a difference between the simulator and the real thing that is
// meant, and why. The places that it is allowed in, and what it says, may hold
// one * for anything.
type allowed struct{ where, what, why string }

// difference is something that one side has and the other has not.
type difference struct{ where, what string }

// judgeDifferences fails for each difference that is not allowed, and for each
// allowed one that is no more.
func judgeDifferences(t *testing.T, found []difference, table []allowed) {
	t.Helper()
	used := make([]bool, len(table))
	for _, d := range found {
		fine := false
		for i, a := range table {
			if matches(a.where, d.where) && matches(a.what, d.what) {
				used[i], fine = true, true
			}
		}
		if !fine {
			t.Errorf("%s: %s", d.where, d.what)
		}
	}
	for i, a := range table {
		if !used[i] {
			t.Errorf("%s: %q is said to differ, and does not any more", a.where, a.what)
		}
	}
	if !t.Failed() {
		t.Logf("%d differences, each by one of %d documented reasons", len(found), len(table))
	}
}

func matches(pattern, text string) bool {
	head, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	return len(text) >= len(head)+len(rest) && strings.HasPrefix(text, head) && strings.HasSuffix(text, rest)
}

func TestADifferenceIsJudgedByTheTable(t *testing.T) {
	for text, want := range map[string]bool{"abc": true, "ac": true, "abcd": false, "a": false, "xabc": false} {
		if got := matches("a*c", text); got != want {
			t.Errorf("a*c matches %q: %t", text, got)
		}
	}
	if !matches("abc", "abc") || matches("abc", "abcd") {
		t.Error("without a star only the same matches")
	}
}

// simulator is aicr sim serve at work, as it says itself.
type simulator struct {
	URL     string
	Model   string
	Workers []struct{ ID, Metrics string }
}

func simulate(t *testing.T) *simulator {
	t.Helper()
	p := launch(t, "simulator", t.TempDir(), bare(t.TempDir()),
		program, "sim", "serve", "small", "--model", modelName, "--listen", "127.0.0.1:0", "-o", "json")
	s := &simulator{}
	eventually(t, patience, func(context.Context) error {
		if !p.alive() {
			t.Fatalf("the simulator ended: %s", p.ended())
		}
		return json.NewDecoder(strings.NewReader(tail(p.log, 100))).Decode(s)
	})
	return s
}

// exchange is what both sides are asked.
type exchange struct {
	name, path string
	body       string // "": a GET
	plain      bool   // without a content type
}

const hello = `"model":"tiny","messages":[{"role":"user","content":"the king is here"}],"max_tokens":4`

var exchanges = []exchange{
	{name: "models", path: "/v1/models"},
	{name: "model", path: "/v1/models/tiny"},
	{name: "model unknown", path: "/v1/models/huge"},
	{name: "model ready", path: "/v1/models/tiny/ready"},
	{name: "health", path: "/health"},
	{name: "live", path: "/live"},
	{name: "path unknown", path: "/v1/nothing"},
	{name: "method wrong", path: "/v1/chat/completions"},
	{name: "chat", path: "/v1/chat/completions", body: `{` + hello + `}`},
	{name: "chat with worker id", path: "/v1/chat/completions", body: `{` + hello + `,"nvext":{"extra_fields":["worker_id","timing"]}}`},
	{name: "stream", path: "/v1/chat/completions", body: `{` + hello + `,"stream":true}`},
	{name: "stream with usage", path: "/v1/chat/completions", body: `{` + hello + `,"stream":true,"stream_options":{"include_usage":true}}`},
	{name: "stream with usage in each", path: "/v1/chat/completions",
		body: `{` + hello + `,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
	{name: "stream with worker id", path: "/v1/chat/completions",
		body: `{` + hello + `,"stream":true,"nvext":{"extra_fields":["worker_id","timing"]}}`},
	{name: "completion", path: "/v1/completions", body: `{"model":"tiny","prompt":"the king is here","max_tokens":4}`},
	{name: "completion stream", path: "/v1/completions",
		body: `{"model":"tiny","prompt":"the king is here","max_tokens":4,"stream":true,"stream_options":{"include_usage":true}}`},
	{name: "refused: unknown model", path: "/v1/chat/completions", body: `{"model":"huge","messages":[{"role":"user","content":"hi"}],"max_tokens":4}`},
	{name: "refused: bad JSON", path: "/v1/chat/completions", body: `{"model":`},
	{name: "refused: no messages", path: "/v1/chat/completions", body: `{"model":"tiny","max_tokens":4}`},
	{name: "refused: empty messages", path: "/v1/chat/completions", body: `{"model":"tiny","messages":[],"max_tokens":4}`},
	{name: "refused: unknown field", path: "/v1/chat/completions", body: `{` + hello + `,"foo_bar":1}`},
	{name: "refused: unknown extension", path: "/v1/chat/completions", body: `{` + hello + `,"nvext":{"foo_bar":1}}`},
	{name: "refused: no tokens", path: "/v1/chat/completions", body: `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":0}`},
	{name: "refused: temperature", path: "/v1/chat/completions", body: `{` + hello + `,"temperature":-5}`},
	{name: "refused: no content type", path: "/v1/chat/completions", body: `{` + hello + `}`, plain: true},
}

// wireDifferences are meant.
var wireDifferences = []allowed{
	{"model unknown", "simulated only: body.error*", "OpenAI's error is within Dynamo's flat one, for clients that look for it there"},
	{"refused: *", "simulated only: body.error*", "OpenAI's error is within Dynamo's flat one, for clients that look for it there"},
	{"refused: unknown extension", "real only: body.message string * at line 1 column 107", "the column is where the reader stood, and ours stands at the end of the value"},
	{"refused: unknown extension", "simulated only: body.message string * at line 1 column 111", "the column is where the reader stood, and ours stands at the end of the value"},
}

// The simulator's answers against those of the real frontend: the status, the
// headers, the order of the events, every key with the kind of its value, and
// the words that a program would look at.
func TestSimulatorAnswersAsTheFrontendDoes(t *testing.T) {
	real := bringUp(t, plan{router: "round-robin", workers: alike(2)})
	sim := simulate(t)
	var found []difference
	for _, e := range exchanges {
		theirs, err := e.ask(t.Context(), real.url)
		if err != nil {
			t.Fatalf("%s, real: %v", e.name, err)
		}
		ours, err := e.ask(t.Context(), sim.URL)
		if err != nil {
			t.Fatalf("%s, simulated: %v", e.name, err)
		}
		for _, what := range apart(theirs, ours) {
			found = append(found, difference{e.name, what})
		}
	}
	judgeDifferences(t, found, wireDifferences)
}

// apart lists what only one of two sets has.
func apart(theirs, ours map[string]bool) []string {
	var all []string
	for what := range theirs {
		if !ours[what] {
			all = append(all, "real only: "+what)
		}
	}
	for what := range ours {
		if !theirs[what] {
			all = append(all, "simulated only: "+what)
		}
	}
	slices.Sort(all)
	return all
}

// ask has the exchange with a server and takes down the answer as a set of
// facts.
func (e exchange) ask(ctx context.Context, url string) (map[string]bool, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+e.path, nil)
	if e.body != "" {
		r, err = http.NewRequestWithContext(ctx, http.MethodPost, url+e.path, strings.NewReader(e.body))
	}
	if err != nil {
		return nil, err
	}
	if e.body != "" && !e.plain {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	facts := map[string]bool{"status " + answer.Status: true, "framing " + framing(answer): true}
	for name, values := range answer.Header {
		switch name {
		case "Date", "Content-Length":
			facts["header "+name] = true
		default:
			facts["header "+name+": "+strings.Join(values, ", ")] = true
		}
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		return facts, events(body, facts)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		facts["body empty"] = true
		return facts, nil
	}
	return facts, keys(body, "body", facts)
}

func framing(answer *http.Response) string {
	if answer.ContentLength >= 0 {
		return "by length"
	}
	return strings.Join(answer.TransferEncoding, ", ")
}

// events takes down a stream: each kind of event in its order, those alike in a
// row once.
func events(body []byte, facts map[string]bool) error {
	var last map[string]bool
	n := 0
	for in := bufio.NewScanner(bytes.NewReader(body)); in.Scan(); {
		line := in.Text()
		if line == "" {
			continue
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			return fmt.Errorf("not an event: %q", line)
		}
		event := map[string]bool{}
		if data == "[DONE]" {
			event["[DONE]"] = true
		} else if err := keys([]byte(data), "", event); err != nil {
			return err
		}
		if maps.Equal(event, last) {
			continue
		}
		last = event
		n++
		for fact := range event {
			facts[fmt.Sprintf("event %d %s", n, fact)] = true
		}
	}
	if n == 0 {
		return errors.New("a stream without events")
	}
	return nil
}

// telling are the keys whose values a program looks at, and which do not depend
// on who was asked or when.
var telling = []string{"object", "role", "finish_reason", "type", "code", "message", "status", "owned_by", "ready",
	"prompt_tokens", "completion_tokens", "total_tokens", "endpoint", "component", "namespace", "device_type", "param", "index"}

// hexTail is a worker's own number in a name.
var hexTail = regexp.MustCompile(`_[0-9a-f]{8,16}$`)

// keys takes down a JSON value: each path with the kind of its value, and the
// value itself where it is telling. The elements of a list are taken together.
func keys(text []byte, at string, facts map[string]bool) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	walk(v, at, "", facts)
	return nil
}

func walk(v any, at, key string, facts map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		facts[at+" object"] = true
		for k, member := range v {
			walk(member, at+"."+k, k, facts)
		}
	case []any:
		facts[at+" list"] = true
		for _, element := range v {
			walk(element, at+"[]", key, facts)
		}
	case nil:
		facts[at+" null"] = true
	default:
		kind := map[bool]string{true: "number", false: fmt.Sprintf("%T", v)}[fmt.Sprintf("%T", v) == "json.Number"]
		if slices.Contains(telling, key) {
			kind = fmt.Sprintf("%s %s", kind, hexTail.ReplaceAllString(fmt.Sprint(v), "_HEX"))
		}
		facts[at+" "+kind] = true
	}
}
