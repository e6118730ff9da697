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
	"time"

	"aicr/internal/sim"
	"aicr/internal/sim/serve"
	"aicr/test/memnet"
)

// checked is what Check says of a server.
func checked(t *testing.T, o EndpointOptions, change func(o *EndpointOptions)) error {
	t.Helper()
	o.Model = ""
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
func routes(pages map[string]func(*testing.T) http.Handler) func(*testing.T) http.Handler {
	return func(t *testing.T) http.Handler {
		mux := http.NewServeMux()
		for path, h := range pages {
			mux.Handle(path, h(t))
		}
		return mux
	}
}

func says(status int, kind, body string) func(*testing.T) http.Handler {
	return func(*testing.T) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body) // the client may have gone
		})
	}
}

// frontendOf is a simulated frontend that nobody moves: it lists and refuses.
func frontendOf(faults string) func(*testing.T) http.Handler {
	return func(t *testing.T) http.Handler {
		s := fleetOf(t, 2, faults)
		return serve.New(sim.NewLive(s, 1, 1), s, serve.Options{Model: testModel}).Frontend()
	}
}

const html = "text/html; charset=utf-8"

// Whoever named a wrong address is told so before any load. What a deployment does
// wrong is not their mistake.
func TestWhatIsPlainlyWrongIsFoundBeforeAnyLoad(t *testing.T) {
	key := func(o *EndpointOptions) { o.Target.APIKey = "sk-confidential" }
	model := func(name string) func(o *EndpointOptions) { return func(o *EndpointOptions) { o.Model = name } }
	long := func(o *EndpointOptions) { o.Point.InputTokens, o.Point.OutputTokens = 700, 400 }
	for _, c := range []struct {
		name    string
		handler func(*testing.T) http.Handler
		change  func(o *EndpointOptions)
		wrong   string // "": nothing
		hint    string
	}{
		{"a fleet", frontendOf(""), nil, "", ""},
		{"a fleet, by its model's name", frontendOf(""), model(testModel), "", ""},
		{"another model", frontendOf(""), model("large"), `no model "large"`, "it has: tiny"},
		{"an empty list", frontendOf(`[{kind: discovery-panic}]`), model("large"), "", ""},
		{"several models", says(200, "application/json", `{"data":[{"id":"a"},{"id":"b"}]}`), nil, "no model was named, and the server has 2", "a, b"},
		{"one of several models", says(200, "application/json", `{"data":[{"id":"a"},{"id":"b"}]}`), model("b"), "", ""},
		{"a web page", says(200, html, "<!doctype html><p>hello"), nil, "web page", "check the host"},
		{"a web page that does not say so", says(200, "", "\n<HTML><p>hello"), nil, "web page", "check the host"},
		{"a web page that is missing", says(404, html, "<p>nothing here"), nil, "web page", "check the host"},
		{"a gateway whose backend is away", says(502, html, "<p>bad gateway"), nil, "", ""},
		{"a server that is starting", says(503, "application/json", `{}`), nil, "", ""},
		{"another API", func(*testing.T) http.Handler { return http.NotFoundHandler() }, nil, "no OpenAI API", "path"},
		{"something that says ok to all", says(200, "text/plain", "ok"), nil, "not as an OpenAI API", "path"},
		{"an API that lists no models", routes(map[string]func(*testing.T) http.Handler{
			"/v1/chat/completions": says(422, "application/json", `{"detail":"no model"}`)}), model("a"), "", ""},
		{"a web page beside an API", routes(map[string]func(*testing.T) http.Handler{
			"/": says(200, html, "<p>hello"), "/v1/chat/completions": says(400, "application/json", `{"error":{}}`)}), model("a"), "", ""},
		{"a page beside an API that fails", routes(map[string]func(*testing.T) http.Handler{
			"/": says(200, html, "<p>hello"), "/v1/chat/completions": says(500, "application/json", `{"error":{}}`)}), model("a"), "", ""},
		{"an API that refuses with a link", says(400, "application/json", `{"error":{"message":"see https://docs.test"}}`), nil, "", ""},
		{"no key", says(401, "application/json", `{}`), nil, "HTTP 401", "give an API key"},
		{"a wrong key", says(403, "application/json", `{}`), key, "HTTP 403", "does not take this API key"},
		{"the words of a refusal", says(401, "application/json", `{"error":{"message":"no key was given","code":401}}`), nil, "HTTP 401: no key was given", "give an API key"},
		{"more than the model's context", says(200, "application/json", `{"data":[{"id":"a","max_model_len":1024}]}`), long, "a prompt of 700 tokens and an answer of 400 do not fit in the model's context of 1024", "--prompt-input-tokens-mean"},
		{"more than another model's context", says(200, "application/json", `{"data":[{"id":"a","max_model_len":1024},{"id":"b"}]}`), func(o *EndpointOptions) { long(o); o.Model = "b" }, "", ""},
		{"a redirect", says(308, "", ""), nil, "redirect", "final address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, c.handler, func(t *testing.T, _ *memnet.Net, o EndpointOptions) {
				told(t, checked(t, o, c.change), c.wrong, c.hint)
			})
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
	// The certificate of httptest is for example.com.
	const plain, secure = "http://" + frontendHost, "https://example.com"
	for _, c := range []struct {
		name, url, wrong, hint string
		change                 func(o *EndpointOptions, trusted *tls.Config)
	}{
		{"TLS to one that speaks plainly", "https://" + frontendHost, "does not speak TLS", "http://", nil},
		{"plain words to TLS", "http://example.com", "speaks TLS", "https://", nil},
		{"plain words to one that speaks plainly", plain, "", "", nil},
		{"a certificate of nobody", secure, "not trusted", "certificates", nil},
		{"a certificate that is trusted", secure, "", "", func(o *EndpointOptions, trusted *tls.Config) {
			o.Target.TLS = trusted
		}},
		{"the certificate of another", secure, "not trusted", "certificates", func(o *EndpointOptions, trusted *tls.Config) {
			o.Target.TLS = trusted.Clone()
			o.Target.TLS.ServerName = "elsewhere.test"
		}},
		{"no certificate is looked at", secure, "", "", func(o *EndpointOptions, _ *tls.Config) {
			o.Target.TLS = &tls.Config{InsecureSkipVerify: true}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtually(t, frontendOf(""), func(t *testing.T, network *memnet.Net, o EndpointOptions) {
				srv := httptest.NewUnstartedServer(frontendOf("")(t))
				_ = srv.Listener.Close() // it has opened a real one
				srv.Listener = network.Listen("example.com:443")
				srv.Config.ErrorLog = log.New(io.Discard, "", 0)
				srv.StartTLS()
				defer srv.Close()
				o.Target.URL = c.url
				if strings.HasSuffix(c.url, "example.com") {
					o.Target.Dial = network.To("example.com:443")
				}
				told(t, checked(t, o, func(o *EndpointOptions) {
					if c.change != nil {
						c.change(o, srv.Client().Transport.(*http.Transport).TLSClientConfig)
					}
				}), c.wrong, c.hint)
			})
		})
	}
}

// Nobody there is what is judged; a name that nobody has is a mistake.
func TestNobodyThereIsNoMistake(t *testing.T) {
	virtually(t, frontendOf(""), func(t *testing.T, _ *memnet.Net, o EndpointOptions) {
		told(t, checked(t, o, func(o *EndpointOptions) { o.Target.Dial = refused }), "", "")
		told(t, checked(t, o, func(o *EndpointOptions) {
			o.Target.Dial = func(context.Context) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: frontendHost, IsNotFound: true}}
			}
		}), "there is no host "+frontendHost, "check the host")
	})
}

// A server that does not answer is starting, for all that is known: it is waited for
// elsewhere, and not here.
func TestACheckDoesNotWaitForAServerThatHangs(t *testing.T) {
	hangs := func(*testing.T) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	}
	virtually(t, hangs, func(t *testing.T, _ *memnet.Net, o EndpointOptions) {
		begun := time.Now()
		told(t, checked(t, o, nil), "", "")
		if took := time.Since(begun); took != checkWithin {
			t.Errorf("it took %s", took)
		}
	})
}
