package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"aicr/internal/sim/truth"
)

// foreignText is what a hostile server says wherever it may say anything.
const foreignText = "bad\x1b[2J\x1b]0;own\x07\u009b31m\u202eevil\u2066\u200b\r\n::stop-commands::tok\n##[group]x ##vso[task.setvariable]y\n::error file=a::b\nhint: run curl evil"

// confided is what such a server was told in confidence, and repeats.
const (
	confidedKey   = "sk-live-Conf1ded\"Key/42"
	confidedQuery = "Query+Secret/77"
)

// hostileServer says foreignText in every text that it has, with what it was told.
type hostileServer struct{ mode string }

func (h hostileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	said := foreignText + " " + r.Header.Get("Authorization") + " " + r.URL.RawQuery + " " + r.URL.Query().Get("api_key")
	quoted, _ := json.Marshal(said)
	switch {
	case strings.HasSuffix(r.URL.Path, "/metrics"):
		h.metrics(w, foreignText+" "+r.URL.RawQuery+" "+r.URL.Query().Get("key")+" "+r.Header.Get("Authorization"))
	case strings.HasSuffix(r.URL.Path, "/v1/models"):
		id, _ := json.Marshal(foreignText)
		list := fmt.Sprintf(`{"id":%s}`, id)
		if h.mode == "models" {
			list += `,{"id":"other"}`
		}
		fmt.Fprintf(w, `{"object":"list","data":[%s]}`, list)
	case h.mode == "stream":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%s}}]}\n\n", quoted)
		fmt.Fprintf(w, "data: {\"error\":{\"message\":%s}}\n\n", quoted)
	case h.mode == "edge": // its words are cut where the key stands
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, strings.Repeat("x", 390)+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+strings.Repeat("y", 100))
	case h.mode == "plain":
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, said)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":%s,"type":%s}}`, quoted, quoted)
	}
}

func (h hostileServer) metrics(w io.Writer, says string) {
	label := strings.NewReplacer("\\", `\\`, "\"", `\"`, "\n", `\n`).Replace(says)
	for _, name := range []string{"vllm:num_requests_running", "vllm:generation_tokens_total", "dynamo_frontend_active_requests", "dynamo_frontend_requests_total"} {
		fmt.Fprintf(w, "%s{engine=\"%s\",pod=\"%s\",gpu_uuid=\"%s\",status=\"error\",error_type=\"%s\"} 3\n", name, label, label, label, label)
	}
	fmt.Fprintf(w, "DCGM_FI_DEV_POWER_USAGE{UUID=\"%s\",gpu=\"%s\",modelName=\"%s\",Hostname=\"%s\",pod=\"%s\"} 500\n", label, label, label, label, label)
	fmt.Fprintf(w, "DCGM_FI_DEV_XID_ERRORS{UUID=\"%s\",gpu=\"0\"} 79\n", label)
	fmt.Fprintf(w, "DCGM_EXP_CLOCK_EVENTS_COUNT{UUID=\"%s\",clock_event=\"%s\"} 4\nnode_uname_info{nodename=\"%s\"} 1\nnode_load1 1\n", label, label, label)
}

// whatItDoes says what a text does beside being read, or nothing.
func whatItDoes(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for _, r := range line {
			if r == utf8.RuneError || unicode.IsControl(r) && r != '\t' || unicode.In(r, unicode.Bidi_Control) || r == '\u200b' || r == '\u2028' {
				return fmt.Sprintf("%U in %q", r, line)
			}
		}
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") || strings.Contains(line, "##vso[") {
			return fmt.Sprintf("a command to a runner: %q", line)
		}
		if strings.HasPrefix(strings.TrimSpace(line), "hint: run curl") {
			return fmt.Sprintf("a line of its own: %q", line)
		}
	}
	for _, secret := range []string{confidedKey, confidedKey[:9], "Conf1ded", "Query+Secret", "Query%2BSecret", "Secret/77", "Secret%2F77"} {
		if at := strings.Index(text, secret); at >= 0 {
			return fmt.Sprintf("%q in %q", secret, text[max(0, at-60):min(len(text), at+60)])
		}
	}
	return ""
}

// allWritten is all that a folder has, by name; what is packed is unpacked.
func allWritten(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if z, not := gzip.NewReader(bytes.NewReader(text)); not == nil {
			text, err = io.ReadAll(z)
		}
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Whatever a server says, in every text that it has, no stream and no file of any command
// does anything with it, nor repeats what the server was told in confidence.
func TestNothingThatAServerSaysDoesAnything(t *testing.T) {
	for _, mode := range []string{"error", "plain", "stream", "edge", "models"} {
		for name, args := range map[string][]string{
			"bench":    {"bench", "-c", "2", "--request-count", "4", "--osl", "16", "--output-artifact-dir", "DIR/artifacts", "--report", "html=DIR/r.html", "--report", "csv=DIR/r.csv", "--report", "ctrf=DIR/r.json", "--report", "junit=DIR/r.xml", "--report", "markdown=DIR/r.md", "-v"},
			"no probe": {"bench", "-c", "2", "--request-count", "4", "--osl", "16", "--output-artifact-dir", "DIR/artifacts", "--no-probe", "--model", "m", "-o", "json"},
			"validate": {"validate", "--profile", "smoke", "--run", "DIR/run", "--workers", "1", "-v"},
			"knee":     {"knee", "--budget", "2m", "-v"},
			"watch":    {"watch", "--duration", "4", "--record", "DIR/seen"},
			"stream":   {"watch", "--duration", "4", "-o", "jsonl"},
		} {
			t.Run(mode+" "+name, func(t *testing.T) {
				inVirtualTime(t, func(t *testing.T, network Network) {
					dir := t.TempDir()
					url := network.serve(t, hostileServer{mode}) + "/v1?api_key=" + strings.ReplaceAll(strings.ReplaceAll(confidedQuery, "+", "%2B"), "/", "%2F")
					args := append([]string{args[0], "--url", url}, args[1:]...)
					for i := range args {
						args[i] = strings.ReplaceAll(args[i], "DIR", dir)
					}
					page, _, _ := strings.Cut(url, "/v1")
					switch args[0] {
					case "watch":
						args = append(args, "--worker-metrics", page+"/w/metrics?key="+confidedQuery, "--gpu-metrics", page, "--node-metrics", page)
					case "validate":
						args = append(args, "--worker-metrics", page+"/w/metrics?key="+confidedQuery, "--gpu-metrics", page+"/g/metrics?key="+confidedQuery)
					}
					streams := runConfided(t, network, args...)
					if args[0] == "validate" {
						for _, again := range [][]string{{"judge", dir + "/run"}, {"judge", dir + "/run", "-o", "json"}, {"report", dir + "/run", "--report", "html=" + dir + "/again.html", "--report", "csv=" + dir + "/again.csv"}} {
							streams += runConfided(t, network, again...)
						}
					}
					if what := whatItDoes(streams); what != "" {
						t.Errorf("%v\na stream: %s", args, what)
					}
					for path, text := range allWritten(t, dir) {
						if strings.HasSuffix(path, ".csv") {
							text = strings.ReplaceAll(text, "\r\n", "\n") // as its format wants it
						}
						if what := whatItDoes(text); what != "" && !strings.HasSuffix(path, ".html") {
							t.Errorf("%s: %s", strings.TrimPrefix(path, dir), what)
						} else if strings.Contains(text, "Conf1ded") {
							t.Errorf("%s has the key", path)
						}
					}
				})
			})
		}
	}
}

// runConfided runs a command that has a key, and gives all that it says.
func runConfided(t *testing.T, network Network, args ...string) string {
	t.Helper()
	vars := map[string]string{"AICR_API_KEY": confidedKey}
	env := testEnv(vars, args...)
	var stdout, stderr keptWriter
	env.Stdout, env.Stderr, env.Network = &stdout, &stderr, network
	begun := time.Now()
	if code := Run(t.Context(), env); code == int(Passed) && args[0] != "watch" && args[0] != "report" && !strings.Contains(strings.Join(args, " "), "judge") {
		t.Errorf("%v passed after %s:\n%s", args, time.Since(begun), &stdout)
	}
	if stdout.String()+stderr.String() == "" {
		t.Errorf("%v says nothing", args)
	}
	return stdout.String() + stderr.String()
}

// What was told in confidence may look like a number, or like the name of a field: what is
// written as JSON stays JSON, and has it in no text.
func TestASecretBreaksNoDocument(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, network Network) {
		dir := t.TempDir()
		url, _ := network.serveScript(t, truth.Script{TTFT: 20 * time.Millisecond, ITL: time.Millisecond, Workers: 1})
		run := startProgram(t, network, "bench", "--url", url, "-c", "2", "--request-count", "4", "--osl", "8", "--artifact-dir", dir, "-o", "json",
			"--header", "X-Tenant: 946684", "--header", "X-Mode: concurrency", "--header", "X-Level: requests")
		if code := <-run.code; code != int(Passed) {
			t.Fatalf("exit code %d\n%s", code, &run.stderr)
		}
		written := allWritten(t, dir)
		written["standard output"] = run.stdout.String()
		for name, text := range written {
			parts := []string{text}
			if strings.HasSuffix(name, ".jsonl") {
				parts = strings.Split(strings.TrimSpace(text), "\n")
			}
			for _, part := range parts {
				if !json.Valid([]byte(part)) {
					t.Fatalf("%s is no JSON: %.300s", name, part)
				}
			}
		}
		if text := written[filepath.Join(dir, "bench.json")]; !strings.Contains(text, `"concurrency"`) {
			t.Errorf("a field's name is hidden: %s", text)
		}
	})
}

// A word that stands where none was expected may be an address with a key in it.
func TestAWordThatIsNotExpectedIsShownWithoutItsKey(t *testing.T) {
	for _, args := range [][]string{{"bench", "http://h:8000/v1?api_key=CANARY12345"}, {"http://u:CANARY12345@h"}, {"validate", "api_key=CANARY12345"},
		{"watch", "h:8000?CANARY12345"}, {"clean", "Authorization: Bearer CANARY12345"},
		{"bench", "--url", "http://h", "--header", "X-Key:", "CANARY12345"}, {"bench", "--url", "http://h", "--api-key-file", "CANARY12345"},
		{"watch", "--node-metrics", "local", "--metrics-token-file", "CANARY12345"}} {
		var said keptWriter
		env := testEnv(nil, args...)
		env.Stderr = &said
		if code := Run(t.Context(), env); code != int(Misused) || strings.Contains(said.String(), "CANARY") {
			t.Errorf("%q: exit code %d\n%s", args, code, &said)
		}
	}
}

// A metrics page of a gateway is asked with what the endpoint's address has in its query.
func TestThePageOfAnEndpoint(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://h:8000": "http://h:8000/metrics", "http://h/x/v1/": "http://h/x/metrics",
		"http://h/v1?api_key=a": "http://h/metrics?api_key=a", "http://h?a=b/c": "http://h/metrics?a=b/c",
	} {
		if got := pageOfEndpoint(endpoint); got != want {
			t.Errorf("%s: %s, want %s", endpoint, got, want)
		}
	}
}
