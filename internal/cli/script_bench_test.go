package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
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
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"aicr/internal/sim/truth"
)

// world is what a script has started, and what it saw of the program.
type world struct {
	again []func() // makes each server forget, for a run that is done again

	mu       sync.Mutex
	requests int             // completions that came, probes included
	bodies   []byte          // of the requests, end to end
	clients  map[string]bool // addresses that the load came from, one a connection
	listed   string          // a command line that had a secret in it
}

type worldKey struct{}

func worldOf(ts *testscript.TestScript) *world {
	w, ok := ts.Value(worldKey{}).(*world)
	if !ok {
		ts.Fatalf("the script has no world")
	}
	return w
}

// probeBody marks a request as one of the probe, by its output length: faults
// are for the load, and how many probes there are depends on what they find.
const probeBody = `"max_tokens":8,`

// startTruth serves a known-truth server and sets URL to its address:
//
//	truth [-ttft D] [-itl D] [-model NAME] [-key KEY] [-refuse FIELD,...] [-workers N]
//	      [-usage none] [-cached N] [-per-chunk N] [-nagle] [-freeze AT+LASTS] [-fault KIND:SHARE] [-faulty-probe]
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
	f.BoolVar(&s.Nagle, "nagle", false, "")
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
		return firstError(err1, err2)
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
	if len(s.Faults) > 0 && !faultyProbe {
		healthy := s
		healthy.Faults = nil
		sound, faulty := handler(ts, healthy), handler(ts, s)
		w.again = append(w.again, faulty.Reset)
		w.serve(ts, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body := readBody(r)
			if bytes.Contains(body, []byte(probeBody)) || r.Method == http.MethodGet {
				sound.ServeHTTP(rw, r)
				return
			}
			faulty.ServeHTTP(rw, r)
		}))
		return
	}
	srv, err := truth.NewServer(s)
	ts.Check(err)
	ts.Check(srv.Start(context.Background(), ""))
	w.again = append(w.again, srv.Reset)
	ts.Defer(func() { _ = srv.Close() })
	ts.Setenv("URL", srv.URL())
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func handler(ts *testscript.TestScript, s truth.Script) *truth.Handler {
	h, err := truth.NewHandler(s)
	ts.Check(err)
	return h
}

// readBody reads a body and leaves it to be read again.
func readBody(r *http.Request) []byte {
	b, _ := io.ReadAll(r.Body) // a client that is gone is the handler's concern
	r.Body = io.NopCloser(bytes.NewReader(b))
	return b
}

// serve serves h over plain HTTP, notes what is asked, and sets URL.
func (w *world) serve(ts *testscript.TestScript, h http.Handler) {
	srv := httptest.NewServer(w.noting(h))
	ts.Defer(func() { srv.CloseClientConnections(); srv.Close() })
	ts.Setenv("URL", srv.URL)
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
//	web gone                 a port on which nobody listens
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
	sound := handler(ts, truth.Script{TTFT: 20 * time.Millisecond, ITL: 3 * time.Millisecond})
	switch kind, args := args[0], args[1:]; kind {
	case "page":
		w.serve(ts, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(rw, "<!doctype html><title>Welcome to nginx!</title><h1>Welcome to nginx!</h1>")
		}))
	case "status":
		code, err := strconv.Atoi(args[0])
		ts.Check(err)
		w.serve(ts, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			http.Error(rw, strings.Join(args[1:], " "), code)
		}))
	case "gone":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		ts.Check(l.Close())
		ts.Setenv("URL", "http://"+l.Addr().String())
	case "mail":
		w.listen(ts, func(c net.Conn) {
			fmt.Fprint(c, "220 mail.example ESMTP ready\r\n")
			_, _ = io.Copy(io.Discard, c)
		})
	case "silent":
		w.listen(ts, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	case "models":
		w.serve(ts, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" {
				sound.ServeHTTP(rw, r)
				return
			}
			var list []string
			for _, name := range args {
				list = append(list, fmt.Sprintf(`{"id":%q}`, name))
			}
			fmt.Fprintf(rw, `{"data":[%s]}`, strings.Join(list, ","))
		}))
	case "tls":
		srv := httptest.NewUnstartedServer(w.noting(sound))
		srv.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes are meant to fail here
		srv.StartTLS()
		ts.Defer(srv.Close)
		ts.Setenv("URL", srv.URL)
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
		ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), block, 0o600))
	case "noting":
		forget := func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.clients = nil
		}
		forget()
		w.again = append(w.again, forget)
		w.serve(ts, sound)
	case "gate":
		w.serve(ts, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get(args[0]); got != args[1] {
				http.Error(rw, "who are you?", http.StatusForbidden)
				return
			}
			w.lookForProcess(args[1])
			sound.ServeHTTP(rw, r)
		}))
	case "echo":
		w.serve(ts, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if bytes.Contains(readBody(r), []byte(probeBody)) || r.Method == http.MethodGet {
				sound.ServeHTTP(rw, r)
				return
			}
			http.Error(rw, fmt.Sprintf("you sent %s and %s", r.Header.Get("Authorization"), r.Header.Get("X-Secret")), http.StatusInternalServerError)
		}))
	case "vandal":
		path := ts.MkAbs(args[0])
		w.serve(ts, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if !bytes.Contains(readBody(r), []byte(probeBody)) && r.Method == http.MethodPost {
				_ = os.WriteFile(path, nil, 0o600)
			}
			sound.ServeHTTP(rw, r)
		}))
	default:
		ts.Fatalf("web: no kind %q", kind)
	}
}

func (w *world) listen(ts *testscript.TestScript, talk func(net.Conn)) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv("URL", "http://"+l.Addr().String())
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

// attempts is how often a measurement is made that this machine spoilt: the
// tests share it with others, and a client that was starved must say so.
const attempts = 8

// machine is held for reading by one measurement of several, and for writing by
// one that must have the machine to itself.
var machine sync.RWMutex

// measured makes a measurement, again and alone when the machine was too busy
// for it. run gives the result's text.
func measured(run func() (stdout string), forget func()) {
	machine.RLock()
	out := run()
	machine.RUnlock()
	for left := attempts; left > 1 && spoilt(out); left-- {
		forget()
		machine.Lock()
		time.Sleep(50 * time.Millisecond) // for the others to be gone
		out = run()
		machine.Unlock()
	}
}

// measures runs a command that must end with a code, again when the machine was
// too busy for a measurement: measures CODE COMMAND ARG...
func measures(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: measures CODE COMMAND [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	measured(func() string {
		got = exitCode(ts, args[1:])
		return ts.ReadFile("stdout")
	}, func() {
		for _, forget := range worldOf(ts).again {
			forget()
		}
	})
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	if spoilt(ts.ReadFile("stdout")) {
		ts.Fatalf("this machine is too busy to measure on")
	}
}

// spoilt reports that a result says of the client that it was the limit.
func spoilt(stdout string) bool {
	var doc struct{ Client struct{ Valid *bool } }
	if json.Unmarshal([]byte(stdout), &doc) == nil {
		return doc.Client.Valid != nil && !*doc.Client.Valid
	}
	return strings.Contains(stdout, "\n  client    ✗ the limit")
}

// refuses runs aicr bench with arguments that cannot be right: it must say why
// and what to do, end with 2 within 2 seconds, and leave nothing behind.
func refuses(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! refuses")
	}
	const limit = 2 * time.Second
	before := tree(ts)
	for left := 3; ; left-- { // the machine may be slow once
		begun := time.Now()
		code := exitCode(ts, append([]string{"aicr", "bench"}, args...))
		took := time.Since(begun)
		if code != int(Misused) {
			ts.Fatalf("exit code %d, want 2", code)
		}
		if took <= limit {
			break
		}
		if left == 1 {
			ts.Fatalf("it took %s to refuse", took)
		}
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("standard output is not empty: %s", out)
	}
	told := "\n" + ts.ReadFile("stderr")
	for _, word := range []string{"\nerror: ", "\nhint: "} {
		if !strings.Contains(told, word) {
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
