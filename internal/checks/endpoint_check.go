package checks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"aicr/internal/load"
	"aicr/internal/load/http1"
	"aicr/internal/redact"
)

// WrongTarget says that what was named is not what can be validated: whoever named
// it is mistaken, and no deployment is to blame.
type WrongTarget struct{ Text, Hint string }

func (w *WrongTarget) Error() string { return w.Text }

// checkWithin is how long a question before any load may take. Who does not answer
// it may be starting.
const checkWithin = 10 * time.Second

// Check finds what is plainly a wrong address, key or model, as a *WrongTarget. It
// asks for no completion. A server that is not there, has no model yet or fails is
// none: it is judged.
func (e *Endpoint) Check(ctx context.Context) error {
	target, err := load.NewTarget(e.o.Target)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	c := &checker{endpoint: e, client: clientOf(&e.o.Target)}
	defer c.client.CloseIdleConnections()
	wrong := c.listed(limited, target)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if wrong == nil {
		return nil
	}
	wrong.Text, wrong.Hint = e.clean(wrong.Text), redact.Clean(e.mask.Text(wrong.Hint))
	return wrong
}

type checker struct {
	endpoint *Endpoint
	client   *http.Client
}

// clientOf makes a client that reaches the target as the engine does.
func clientOf(o *load.TargetOptions) *http.Client {
	t := &http.Transport{TLSClientConfig: o.TLS.Clone(), Protocols: new(http.Protocols),
		MaxResponseHeaderBytes: http1.MaxHead}
	t.Protocols.SetHTTP1(!o.HTTP2)
	t.Protocols.SetHTTP2(true)
	t.Protocols.SetUnencryptedHTTP2(o.HTTP2)
	if proxy, err := url.Parse(o.Proxy); err == nil && o.Proxy != "" {
		t.Proxy = http.ProxyURL(proxy)
	}
	if o.Dial != nil {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return o.Dial(ctx) }
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// answer is what came of a question.
type answer struct {
	status int
	html   bool
	json   bool
	body   []byte
	err    error
}

const (
	mostOfAnswer = 1 << 20
	apiHint      = "give the base of an OpenAI-compatible API: check the host, the port and the path"
)

func (c *checker) ask(ctx context.Context, method, address, body string) answer {
	o := &c.endpoint.o.Target
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	maps.Copy(req.Header, o.Header)
	if o.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+o.APIKey)
	}
	req.Header.Set("Accept", "application/json")
	if o.UserAgent != "" {
		req.Header.Set("User-Agent", o.UserAgent)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	a := answer{status: res.StatusCode}
	if a.body, err = io.ReadAll(io.LimitReader(res.Body, mostOfAnswer)); err != nil {
		return answer{err: err}
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	start := strings.ToLower(strings.TrimSpace(string(a.body[:min(len(a.body), 200)])))
	a.html = kind == "text/html" || strings.HasPrefix(start, "<!doctype html") || strings.HasPrefix(start, "<html")
	a.json = json.Valid(a.body)
	return a
}

// words are those of a refusal.
func (a *answer) words() string {
	if a.html || len(a.body) == 0 {
		return ""
	}
	return ": " + string(load.Worded(a.body))
}

// listed asks which models there are, and how long what they take may be.
func (c *checker) listed(ctx context.Context, target *load.Target) *WrongTarget {
	a := c.ask(ctx, http.MethodGet, target.Base()+"/v1/models", "")
	if wrong, settled := c.plain(&a, target); settled {
		return wrong
	}
	listed, err := load.ReadModels(a.body, func(path string) ([]byte, error) {
		page := c.ask(ctx, http.MethodGet, target.Base()+path, "")
		return page.body, page.err
	})
	if a.status != http.StatusOK || err != nil {
		return c.completes(ctx, target)
	}
	models, asked := load.Names(listed), c.endpoint.o.Model
	switch {
	case len(models) == 0: // its workers are absent, or not registered yet
	case asked == "" && len(models) > 1:
		return &WrongTarget{fmt.Sprintf("no model was named, and the server has %d", len(models)), "name one of them: " + someOf(models)}
	case asked != "" && !slices.Contains(models, asked):
		return &WrongTarget{fmt.Sprintf("the server has no model %q", asked), "it has: " + someOf(models)}
	}
	for _, m := range listed {
		if asked != "" && m.ID != asked {
			continue
		}
		if long := m.Limits.Refuse(c.endpoint.o.Point.InputTokens, c.endpoint.o.Point.OutputTokens); long != nil {
			return &WrongTarget{long.Error(), load.ContextHint}
		}
	}
	return nil
}

// completes asks for a completion of nothing, which an API refuses and a server of
// something else does not know: some do not list their models.
func (c *checker) completes(ctx context.Context, target *load.Target) *WrongTarget {
	a := c.ask(ctx, http.MethodPost, target.Endpoint(), "{}")
	if wrong, settled := c.plain(&a, target); settled {
		return wrong
	}
	switch {
	case a.html:
		return &WrongTarget{fmt.Sprintf("%s answers with a web page", target), apiHint}
	case a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed:
		return &WrongTarget{fmt.Sprintf("%s has no OpenAI API: neither a list of models nor chat completions (HTTP %d)", target, a.status), apiHint}
	case !a.json:
		return &WrongTarget{fmt.Sprintf("%s answers, and not as an OpenAI API does (HTTP %d)", target, a.status), apiHint}
	}
	return nil
}

// plain says what an answer means whatever was asked, and whether that settles it.
func (c *checker) plain(a *answer, target *load.Target) (wrong *WrongTarget, settled bool) {
	switch {
	case a.err != nil:
		return wrongOf(a.err, target), true
	case a.status == http.StatusBadRequest && !a.json && strings.Contains(strings.ToLower(string(a.body)), "https"):
		return &WrongTarget{fmt.Sprintf("%s speaks TLS", target), "begin the URL with https://"}, true
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		hint := "the server does not take this API key"
		if c.endpoint.o.Target.APIKey == "" {
			hint = "give an API key"
		}
		return &WrongTarget{fmt.Sprintf("%s refuses the request: HTTP %d%s", target, a.status, a.words()), hint}, true
	case a.status >= 300 && a.status < 400:
		return &WrongTarget{fmt.Sprintf("%s answers with a redirect: HTTP %d", target, a.status), "redirects are not followed: give the final address"}, true
	case a.status >= 500:
		return nil, true // whoever is there fails: that is judged
	}
	return nil, false
}

// wrongOf tells an address that cannot be right from a server that is not there.
func wrongOf(err error, target *load.Target) *WrongTarget {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return &WrongTarget{fmt.Sprintf("there is no host %s", dns.Name), "check the host; a service of a cluster has a name only inside of it"}
	}
	text := err.Error()
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || strings.Contains(text, "HTTP response to HTTPS client") {
		return &WrongTarget{fmt.Sprintf("%s does not speak TLS", target), "begin the URL with http://, or check the port"}
	}
	if strings.Contains(text, `malformed HTTP response "\x15\x03`) {
		return &WrongTarget{fmt.Sprintf("%s speaks TLS", target), "begin the URL with https://"}
	}
	const trust = "give the certificates to trust, or check the host"
	if v, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &WrongTarget{fmt.Sprintf("the certificate of %s is not trusted: %v", target, v.Err), trust}
	}
	if v, ok := errors.AsType[x509.HostnameError](err); ok {
		return &WrongTarget{fmt.Sprintf("the certificate of %s is another's: %v", target, v), trust}
	}
	return nil
}

// someOf lists a few names.
func someOf(names []string) string {
	const most, longest = 10, 100
	names = slices.Clone(names)
	for i := range names {
		names[i] = redact.Cut(redact.Clean(names[i]), longest)
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
