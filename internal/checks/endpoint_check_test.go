package checks

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aicr/internal/load"
	"aicr/internal/sim"
	"aicr/internal/sim/serve"
	"aicr/internal/spec"
)

// checked is what Check says of a server.
func checked(t *testing.T, url string, change func(o *EndpointOptions)) error {
	t.Helper()
	o := EndpointOptions{Target: load.TargetOptions{URL: url}, Point: spec.OperatingPoint{Concurrency: 1, DurationS: 1, InputTokens: 48, OutputTokens: 8}}
	if change != nil {
		change(&o)
	}
	e, err := NewEndpoint(o)
	if err != nil {
		t.Fatal(err)
	}
	return e.Check(t.Context())
}

// routes answers by path; what is not among them is a 404 of plain text.
func routes(pages map[string]http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	for path, h := range pages {
		mux.HandleFunc(path, h)
	}
	return mux
}

func says(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client may have gone
	}
}

// frontendOf is a simulated frontend that nobody moves: it lists and refuses.
func frontendOf(t *testing.T, faults string) http.Handler {
	t.Helper()
	s := fleetOf(t, 2, faults)
	return serve.New(sim.NewLive(s, 1, 1), s, serve.Options{Model: testModel}).Frontend()
}

const html = "text/html; charset=utf-8"

// Whoever named a wrong address is told so before any load. What a deployment does
// wrong is not their mistake.
func TestWhatIsPlainlyWrongIsFoundBeforeAnyLoad(t *testing.T) {
	key := func(o *EndpointOptions) { o.Target.APIKey = "sk-confidential" }
	model := func(name string) func(o *EndpointOptions) { return func(o *EndpointOptions) { o.Model = name } }
	for _, c := range []struct {
		name    string
		handler http.Handler
		change  func(o *EndpointOptions)
		wrong   string // "": nothing
		hint    string
	}{
		{"a fleet", frontendOf(t, ""), nil, "", ""},
		{"a fleet, by its model's name", frontendOf(t, ""), model(testModel), "", ""},
		{"another model", frontendOf(t, ""), model("large"), `no model "large"`, "it has: tiny"},
		{"an empty list", frontendOf(t, `[{kind: discovery-panic}]`), model("large"), "", ""},
		{"several models", says(200, "application/json", `{"data":[{"id":"a"},{"id":"b"}]}`), nil, "no model was named, and the server has 2", "a, b"},
		{"one of several models", says(200, "application/json", `{"data":[{"id":"a"},{"id":"b"}]}`), model("b"), "", ""},
		{"a web page", says(200, html, "<!doctype html><p>hello"), nil, "web page", "check the host"},
		{"a web page that does not say so", says(200, "", "\n<HTML><p>hello"), nil, "web page", "check the host"},
		{"a web page that is missing", says(404, html, "<p>nothing here"), nil, "web page", "check the host"},
		{"a gateway whose backend is away", says(502, html, "<p>bad gateway"), nil, "", ""},
		{"a server that is starting", says(503, "application/json", `{}`), nil, "", ""},
		{"another API", http.NotFoundHandler(), nil, "no OpenAI API", "path"},
		{"something that says ok to all", says(200, "text/plain", "ok"), nil, "not as an OpenAI API", "path"},
		{"an API that lists no models", routes(map[string]http.HandlerFunc{
			"/v1/chat/completions": says(422, "application/json", `{"detail":"no model"}`)}), model("a"), "", ""},
		{"a web page beside an API", routes(map[string]http.HandlerFunc{
			"/": says(200, html, "<p>hello"), "/v1/chat/completions": says(400, "application/json", `{"error":{}}`)}), model("a"), "", ""},
		{"a page beside an API that fails", routes(map[string]http.HandlerFunc{
			"/": says(200, html, "<p>hello"), "/v1/chat/completions": says(500, "application/json", `{"error":{}}`)}), model("a"), "", ""},
		{"an API that refuses with a link", says(400, "application/json", `{"error":{"message":"see https://docs.test"}}`), nil, "", ""},
		{"no key", says(401, "application/json", `{}`), nil, "HTTP 401", "give an API key"},
		{"a wrong key", says(403, "application/json", `{}`), key, "HTTP 403", "does not take this API key"},
		{"a redirect", says(308, "", ""), nil, "redirect", "final address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(c.handler)
			defer srv.Close()
			told(t, checked(t, srv.URL, c.change), c.wrong, c.hint)
		})
	}
}

// told compares a mistake with what it should say.
func told(t *testing.T, err error, text, hint string) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Errorf("it is said to be wrong: %v", err)
		}
		return
	}
	wrong, ok := errors.AsType[*WrongTarget](err)
	if !ok || !strings.Contains(wrong.Text, text) || !strings.Contains(wrong.Hint, hint) {
		t.Errorf("%v, want %q with the hint %q", err, text, hint)
	}
}

func TestTLSMistakesAreFoundBeforeAnyLoad(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	secure := httptest.NewUnstartedServer(frontendOf(t, ""))
	secure.Config.ErrorLog = quiet
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(frontendOf(t, ""))
	defer plain.Close()
	at := func(url string) string { _, address, _ := strings.Cut(url, "://"); return address }
	for _, c := range []struct {
		name, url, wrong, hint string
		change                 func(o *EndpointOptions)
	}{
		{"TLS to one that speaks plainly", "https://" + at(plain.URL), "does not speak TLS", "http://", nil},
		{"plain words to TLS", "http://" + at(secure.URL), "speaks TLS", "https://", nil},
		{"a certificate of nobody", secure.URL, "not trusted", "certificates", nil},
		{"a certificate that is trusted", secure.URL, "", "", func(o *EndpointOptions) {
			o.Target.TLS = secure.Client().Transport.(*http.Transport).TLSClientConfig
		}},
		{"the certificate of another", secure.URL, "not trusted", "certificates", func(o *EndpointOptions) {
			o.Target.TLS = secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			o.Target.TLS.ServerName = "elsewhere.test"
		}},
		{"no certificate is looked at", secure.URL, "", "", func(o *EndpointOptions) {
			o.Target.TLS = &tls.Config{InsecureSkipVerify: true}
		}},
	} {
		t.Run(c.name, func(t *testing.T) { told(t, checked(t, c.url, c.change), c.wrong, c.hint) })
	}
}

// Nobody there is what is judged; a name that nobody has is a mistake.
func TestNobodyThereIsNoMistake(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	told(t, checked(t, srv.URL, nil), "", "")
	told(t, checked(t, "http://frontend.test", func(o *EndpointOptions) {
		o.Target.Dial = func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "frontend.test", IsNotFound: true}}
		}
	}), "there is no host frontend.test", "check the host")
}
