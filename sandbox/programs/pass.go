package programs

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// pass hands a request on to another server, and gives the answer as it comes.
//
// The request is read to its end first. A server of net/http closes what is left of a
// request once its answer begins, and the proxy of net/http takes its time to see that
// nothing is left: an answer that came sooner was cut in the middle (golang/go#40747).
func pass(w http.ResponseWriter, r *http.Request, to string, unreachable func(http.ResponseWriter, *http.Request, error)) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // who asked is gone
	}
	whole := r.Clone(r.Context())
	whole.Body, whole.ContentLength, whole.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	proxy := httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: to}) },
		ErrorHandler:  unreachable,
	}
	proxy.ServeHTTP(w, whole)
}
