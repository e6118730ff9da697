package cli

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"aicr/internal/sim/truth"
)

// world is what a script has started, and what it saw of the program.
type world struct {
	t       *testing.T
	servers []server

	mu       sync.Mutex
	requests int             // completions that came, probes included
	bodies   []byte          // of the requests, end to end
	clients  map[string]bool // addresses that the load came from, one a connection
	listed   string          // a command line that had a secret in it
}

// server is served anew for each command, in the command's own time: what it
// plays begins with the command.
type server struct {
	addr  string
	serve func(net.Listener) (stop func())
}

type worldKey struct{}

func worldOf(ts *testscript.TestScript) *world {
	w, ok := ts.Value(worldKey{}).(*world)
	if !ok {
		ts.Fatalf("the script has no world")
	}
	return w
}

// add adds a server to the script and sets URL to its address.
func (w *world) add(ts *testscript.TestScript, scheme string, serve func(net.Listener) (stop func())) {
	addr := fmt.Sprintf("127.0.0.1:%d", 41000+len(w.servers))
	w.servers = append(w.servers, server{addr, serve})
	ts.Setenv("URL", scheme+"://"+addr)
	ts.Setenv("ADDR", addr)
}

// probeBody marks a request as one of the probe, by its output length: faults
// are for the load, and how many probes there are depends on what they find.
const probeBody = `"max_tokens":8,`

// startTruth serves a known-truth server and sets URL to its address:
//
//	truth [-ttft D] [-itl D] [-model NAME] [-key KEY] [-refuse FIELD,...] [-workers N]
//	      [-usage none] [-cached N] [-per-chunk N] [-freeze AT+LASTS] [-fault KIND:SHARE] [-faulty-probe]
func startTruth(ts *testscript.TestScript, neg bool, args []string) {
	s := truth.Script{Seed: 7, TTFT: 20 * time.Millisecond, ITL: 3 * time.Millisecond}
	faultyProbe := false
	f := flag.NewFlagSet("truth", flag.ContinueOnError)
	f.DurationVar(&s.TTFT, "ttft", s.TTFT, "")
	f.DurationVar(&s.ITL, "itl", s.ITL, "")
	f.StringVar(&s.Model, "model", "", "")
	f.StringVar(&s.APIKey, "key", "", "")
	f.IntVar(&s.Workers, "workers", 0, "")
	f.IntVar(&s.CachedTokens, "cached", 0, "")
	f.IntVar(&s.TokensPerChunk, "per-chunk", 0, "")
	f.BoolVar(&faultyProbe, "faulty-probe", false, "")
	f.Func("refuse", "", func(v string) error { s.Refuse = strings.Split(v, ","); return nil })
	f.Func("usage", "", func(v string) error {
		s.Usage = map[string]truth.Usage{"final": truth.UsageFinal, "every": truth.UsageEvery, "none": truth.UsageNone}[v]
		return nil
	})
	f.Func("freeze", "", func(v string) error {
		at, lasts, _ := strings.Cut(v, "+")
		from, err1 := time.ParseDuration(at)
		d, err2 := time.ParseDuration(lasts)
		s.Freezes = append(s.Freezes, truth.Freeze{At: from, Lasts: d})
		return errors.Join(err1, err2)
	})
	f.Func("fault", "", func(v string) error {
		kind, share, _ := strings.Cut(v, ":")
		part, err := strconv.ParseFloat(share, 64)
		s.Faults = append(s.Faults, truth.Fault{Kind: truth.Kind(kind), Share: part})
		return err
	})
	ts.Check(f.Parse(args))
	if neg || f.NArg() > 0 {
		ts.Fatalf("truth takes flags only")
	}
	w := worldOf(ts)
	if len(s.Faults) == 0 || faultyProbe {
		w.serve(ts, func() http.Handler { return w.truth(s) })
		return
	}
	healthy := s
	healthy.Faults = nil
	w.serve(ts, func() http.Handler {
		sound, faulty := w.truth(healthy), w.truth(s)
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if bytes.Contains(readBody(r), []byte(probeBody)) || r.Method == http.MethodGet {
				sound.ServeHTTP(rw, r)
				return
			}
			faulty.ServeHTTP(rw, r)
		})
	})
}

// truth is a handler whose time begins now.
func (w *world) truth(s truth.Script) *truth.Handler {
	h, err := truth.NewHandler(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// readBody reads a body and leaves it to be read again.
func readBody(r *http.Request) []byte {
	b, _ := io.ReadAll(r.Body) // a client that is gone is the handler's concern
	r.Body = io.NopCloser(bytes.NewReader(b))
	return b
}

// serve serves what handler makes over plain HTTP, notes what is asked, and sets
// URL.
func (w *world) serve(ts *testscript.TestScript, handler func() http.Handler) {
	w.add(ts, "http", func(l net.Listener) (stop func()) { return serveHTTP(l, w.noting(handler())) })
}

func serveHTTP(l net.Listener, h http.Handler) (stop func()) {
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)} // handshakes may be meant to fail
	go func() { _ = srv.Serve(l) }()                                      // it ends by Close
	return func() { _ = srv.Close() }
}

func (w *world) noting(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body := readBody(r)
			w.mu.Lock()
			w.requests++
			w.bodies = append(w.bodies, body...)
			if !bytes.Contains(body, []byte(probeBody)) {
				if w.clients == nil {
					w.clients = map[string]bool{}
				}
				w.clients[r.RemoteAddr] = true
			}
			w.mu.Unlock()
		}
		h.ServeHTTP(rw, r)
	})
}

// startWeb serves what is not, or not quite, an endpoint, and sets URL:
//
//	web page                 a page of HTML, whatever is asked
//	web status CODE TEXT     an error, whatever is asked
//	web gone                 a port on which no process listens
//	web mail                 a port that speaks another protocol
//	web silent               a port that takes a request and says nothing
//	web models NAME...       several models
//	web tls                  a healthy endpoint behind TLS; its certificate is in ca.pem
//	web noting               a healthy endpoint that notes what it is asked
//	web gate HEADER VALUE    one that wants a header, and looks for the value in the list of processes
//	web echo                 one that fails all but probes, and repeats the request's headers
//	web vandal PATH          one that puts a file where the results should go
func startWeb(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: web KIND [ARG...]")
	}
	w := worldOf(ts)
	sound := func() http.Handler {
		return w.truth(truth.Script{TTFT: 20 * time.Millisecond, ITL: 3 * time.Millisecond})
	}
	// before serves a healthy endpoint, unless answer has answered already.
	before := func(answer func(rw http.ResponseWriter, r *http.Request) (answered bool)) {
		w.serve(ts, func() http.Handler {
			h := sound()
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if !answer(rw, r) {
					h.ServeHTTP(rw, r)
				}
			})
		})
	}
	ofLoad := func(r *http.Request) bool {
		return r.Method == http.MethodPost && !bytes.Contains(readBody(r), []byte(probeBody))
	}
	switch kind, args := args[0], args[1:]; kind {
	case "page":
		before(func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(rw, "<!doctype html><title>Welcome to nginx!</title><h1>Welcome to nginx!</h1>")
			return true
		})
	case "status":
		code, err := strconv.Atoi(args[0])
		ts.Check(err)
		before(func(rw http.ResponseWriter, _ *http.Request) bool {
			http.Error(rw, strings.Join(args[1:], " "), code)
			return true
		})
	case "gone":
		w.add(ts, "http", func(l net.Listener) (stop func()) {
			_ = l.Close()
			return func() {}
		})
	case "mail":
		w.listen(ts, func(c net.Conn) {
			fmt.Fprint(c, "220 mail.example ESMTP ready\r\n")
			_, _ = io.Copy(io.Discard, c)
		})
	case "silent":
		w.listen(ts, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	case "models":
		before(func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/models" {
				return false
			}
			var list []string
			for _, name := range args {
				list = append(list, fmt.Sprintf(`{"id":%q}`, name))
			}
			fmt.Fprintf(rw, `{"data":[%s]}`, strings.Join(list, ","))
			return true
		})
	case "tls":
		srv := httptest.NewTLSServer(nil) // for its certificate
		srv.Close()
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
		ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), block, 0o600))
		w.add(ts, "https", func(l net.Listener) (stop func()) {
			return serveHTTP(tls.NewListener(l, &tls.Config{Certificates: srv.TLS.Certificates}), w.noting(sound()))
		})
	case "noting":
		w.clients = nil
		w.serve(ts, sound)
	case "gate":
		before(func(rw http.ResponseWriter, r *http.Request) bool {
			if got := r.Header.Get(args[0]); got != args[1] {
				http.Error(rw, "who are you?", http.StatusForbidden)
				return true
			}
			w.lookForProcess(args[1])
			return false
		})
	case "echo":
		before(func(rw http.ResponseWriter, r *http.Request) bool {
			if !ofLoad(r) {
				return false
			}
			http.Error(rw, fmt.Sprintf("you sent %s and %s", r.Header.Get("Authorization"), r.Header.Get("X-Secret")), http.StatusInternalServerError)
			return true
		})
	case "vandal":
		path := ts.MkAbs(args[0])
		before(func(_ http.ResponseWriter, r *http.Request) bool {
			if ofLoad(r) {
				_ = os.WriteFile(path, nil, 0o600)
			}
			return false
		})
	default:
		ts.Fatalf("web: no kind %q", kind)
	}
}

func (w *world) listen(ts *testscript.TestScript, talk func(net.Conn)) {
	w.add(ts, "http", func(l net.Listener) (stop func()) {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer func() { _ = c.Close() }()
					talk(c)
				}()
			}
		}()
		return func() { _ = l.Close() }
	})
}

// lookForProcess notes a command line with the word in it. This process's own
// is not the program's.
func (w *world) lookForProcess(word string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(word)) {
			w.mu.Lock()
			w.listed = string(bytes.ReplaceAll(b, []byte{0}, []byte{' '}))
			w.mu.Unlock()
		}
	}
}

// refuses runs aicr bench with arguments that cannot be right: it must say why
// and what to do, end with 2 within 2 seconds, and leave nothing behind.
func refuses(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! refuses")
	}
	before := tree(ts)
	o := worldOf(ts).run(ts, append([]string{"bench"}, args...))
	if o.code != int(Misused) {
		ts.Fatalf("exit code %d, want 2", o.code)
	}
	if o.took > 2*time.Second {
		ts.Fatalf("it waited for %s before it refused", o.took)
	}
	if o.stdout != "" {
		ts.Fatalf("standard output is not empty: %s", o.stdout)
	}
	for _, word := range []string{"\nerror: ", "\nhint: "} {
		if !strings.Contains("\n"+o.stderr, word) {
			ts.Fatalf("standard error has no %q", strings.TrimSpace(word))
		}
	}
	if after := tree(ts); !slices.Equal(before, after) {
		ts.Fatalf("something was left behind: before %q, after %q", before, after)
	}
}

// tree lists the files and folders of the script.
func tree(ts *testscript.TestScript) []string {
	var all []string
	ts.Check(filepath.WalkDir(ts.Getenv("WORK"), func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	}))
	return all
}

// checkJSON looks at a value of a JSON document: json FILE KEY.KEY.INDEX [VALUE].
// FILE may be stdout, which must then hold that document and nothing else.
func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: json FILE PATH [VALUE]")
	}
	got, ok := lookUp(ts, args[0], args[1])
	if len(args) == 3 {
		ok = ok && got == args[2]
	}
	if ok == neg {
		ts.Fatalf("%s: %s is %q", args[0], args[1], got)
	}
}

// keepJSON puts a value of a JSON document into a variable: keep VARIABLE FILE PATH.
func keepJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: keep VARIABLE FILE PATH")
	}
	got, ok := lookUp(ts, args[1], args[2])
	if !ok {
		ts.Fatalf("%s has no %s", args[1], args[2])
	}
	ts.Setenv(args[0], got)
}

func lookUp(ts *testscript.TestScript, file, path string) (string, bool) {
	d := json.NewDecoder(strings.NewReader(ts.ReadFile(file)))
	d.UseNumber()
	var v any
	ts.Check(d.Decode(&v))
	if d.More() {
		ts.Fatalf("%s has more than one document in it", file)
	}
	for key := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = at[key]; !ok {
				return "", false
			}
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(at) {
				return "", false
			}
			v = at[i]
		default:
			return "", false
		}
	}
	return fmt.Sprint(v), true
}

// hides fails when a word is in what the last command wrote, or in a file below
// the paths: hides WORD PATH...
func hides(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: hides WORD [PATH...]")
	}
	look := func(where, text string) {
		if strings.Contains(text, args[0]) {
			ts.Fatalf("%s has the secret in it", where)
		}
	}
	look("standard output", ts.ReadFile("stdout"))
	look("standard error", ts.ReadFile("stderr"))
	for _, path := range args[1:] {
		files := 0
		ts.Check(filepath.WalkDir(ts.MkAbs(path), func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			files++
			b, err := os.ReadFile(name)
			look(name, string(b))
			return err
		}))
		if files == 0 {
			ts.Fatalf("%s has no files", path)
		}
	}
}

// unlisted fails when a server of the script saw a secret in the list of
// processes, or could not have.
func unlisted(ts *testscript.TestScript, neg bool, _ []string) {
	w := worldOf(ts)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.requests == 0 {
		ts.Fatalf("no request came")
	}
	if (w.listed != "") != neg {
		ts.Fatalf("command line with the secret: %q", w.listed)
	}
}

// asked looks for a text in the bodies that the servers were sent: asked TEXT.
func asked(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(w.bodies, []byte(args[0])) == neg {
		ts.Fatalf("the bodies of %d requests: %.2000s", w.requests, w.bodies)
	}
}

// connections checks, and forgets, how many connections the load came over:
// connections N.
func connections(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strconv.Itoa(len(w.clients)); neg || len(args) != 1 || got != args[0] {
		ts.Fatalf("the load came over %s connections", got)
	}
	w.clients = nil
}
