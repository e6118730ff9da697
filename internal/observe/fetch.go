package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"aicr/internal/redact"
	"aicr/internal/spec"
)

// maxPage is how much of a page is read. The largest that was seen, a frontend's,
// has 77 kB; a DCGM exporter's for 64 GPUs some 250 kB.
const maxPage = 8 << 20

// maxHeader is how much of a page's header is read, where net/http would read 10 MB.
const maxHeader = 256 << 10

// Client asks over HTTP. It follows no proxy: what it asks is near.
type Client struct {
	http  *http.Client
	pages sync.Pool // of *[]byte
}

// NewClient makes a client of a transport, which is its own from then on.
func NewClient(transport *http.Transport) *Client {
	transport.Proxy = nil
	transport.MaxIdleConnsPerHost = 2
	transport.DisableCompression = true
	transport.MaxResponseHeaderBytes = maxHeader
	return &Client{http: &http.Client{
		Transport: transport,
		// A page that has moved is not the one that was named, and a header meant
		// for the one must not reach the other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close lets go of the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// at is a source that is a page at a URL.
func (c *Client) at(kind, address, token string, l Labels, page pageReader) Source {
	instance := "no address" // what cannot be read may hold a secret
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		if instance = u.Host; u.Path != "/metrics" {
			// A proxy has many nodes' pages on one host.
			instance = strings.TrimPrefix(redact.URL("http://"+u.Host+u.EscapedPath()), "http://")
		}
	}
	return Source{Kind: kind, Instance: instance, Address: address, Labels: l, Reader: &fetch{client: c, url: address, token: token, page: page}}
}

// ErrNoSuchPage says that a server answers and has not the page that was asked
// for.
var ErrNoSuchPage = errors.New("there is no such page")

// fetch is a Reader of one URL.
type fetch struct {
	client *Client
	url    string
	token  string // sent as a bearer token, if any
	page   pageReader
}

func (f *fetch) Read(ctx context.Context) ([]spec.Sample, error) { return f.ask(ctx, false) }

// ask reads the page, on a connection that is not used again where it is asked for alone.
func (f *fetch) ask(ctx context.Context, alone bool) ([]spec.Sample, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return nil, reason("not a URL that can be asked")
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4, application/json;q=0.5, */*;q=0.1")
	req.Close = alone
	if f.token != "" {
		req.Header.Set("Authorization", "Bearer "+f.token)
	}
	resp, err := f.client.http.Do(req)
	if err != nil {
		return nil, whyNot(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("status %d: %w", resp.StatusCode, ErrNoSuchPage)
	}
	if resp.StatusCode == http.StatusNotImplemented {
		return nil, errPageOff
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && kind == "text/html" {
		return nil, reason("an HTML page, not a metrics page")
	}
	if resp.ContentLength > maxPage {
		return nil, tooLarge
	}
	return f.client.withPage(resp.Body, func(text []byte) ([]spec.Sample, error) { return f.page.read(ctx, text) })
}

// errPageOff is what llama.cpp's server answers without --metrics.
const errPageOff = reason("status 501: the server was started without its metrics page (llama.cpp: --metrics)")

const tooLarge = reason("the page is larger than 8 MiB")

// withPage reads a whole body into a buffer that is used again.
func (c *Client) withPage(body io.Reader, read func([]byte) ([]spec.Sample, error)) ([]spec.Sample, error) {
	buf, _ := c.pages.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
		*buf = make([]byte, 0, 64<<10)
	}
	defer c.pages.Put(buf)
	text := (*buf)[:0]
	for {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := body.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		*buf = text[:0]
		if len(text) > maxPage {
			*buf = nil // not worth keeping
			return nil, tooLarge
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, whyNot(err)
		}
	}
	return read(text)
}

// whyNot shortens an error of the network to its reason. A URL may hold a secret,
// so it is not repeated.
func whyNot(err error) error {
	if inner := (*url.Error)(nil); errors.As(err, &inner) {
		err = inner.Err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return errTimeout
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return reason(spec.GapRefused)
	case errors.Is(err, syscall.ECONNRESET):
		return reason(spec.GapReset)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return reason(spec.GapCutOff + " before the page did")
	}
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return reason(spec.GapNoHost)
	}
	return reason(oneLine(err.Error()))
}

// errTimeout says that there was no answer in time.
const errTimeout = reason(spec.GapNoAnswer + " time")

func isTimeout(err error) bool {
	t := interface{ Timeout() bool }(nil)
	return errors.As(err, &t) && t.Timeout()
}

// oneLine is what is kept of a reason.
func oneLine(s string) string {
	return redact.Cut(redact.Clean(redact.Masked(strings.Join(strings.Fields(s), " "))), 200)
}

// timeoutOf is the longest that an answer may take: shorter than the period, so
// that one question is over before the next is due.
func timeoutOf(period time.Duration) time.Duration { return period * 4 / 5 }
