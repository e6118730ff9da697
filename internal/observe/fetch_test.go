package observe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/spec"
	"aicr/test/memnet"
)

// lengthReader is a page whose only value is its length.
type lengthReader struct{}

func (lengthReader) read(_ context.Context, text []byte) ([]spec.Sample, error) {
	return []spec.Sample{{T: int64(len(text))}}, nil
}

// serve starts a server on this machine, and a client that is closed after it.
func serve(t *testing.T, h http.HandlerFunc) (*Client, string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	client := NewClient(&http.Transport{})
	t.Cleanup(client.Close)
	return client, server.URL
}

// serveInMemory is serve in virtual time.
func serveInMemory(t *testing.T, server *http.Server) (*Client, string) {
	t.Helper()
	const address = "page.test:80"
	var network memnet.Net
	listener := network.Listen(address)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	client := NewClient(&http.Transport{DialContext: network.Dial})
	t.Cleanup(client.Close)
	return client, "http://" + address
}

// ask reads once, with a time limit only for those that would never end.
func ask(t *testing.T, c *Client, url, token string) ([]spec.Sample, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return c.at(spec.SourceNode, url, token, Labels{}, lengthReader{}).Reader.Read(ctx)
}

// cut writes raw bytes to the connection and ends it, by a reset if it must.
func cut(reset bool, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		io.WriteString(conn, text)
		if reset {
			if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
				panic(err)
			}
		}
	}
}

func TestAnAnswerThatIsNoPageIsAReason(t *testing.T) {
	for _, tc := range []struct {
		rule   string
		answer http.HandlerFunc
		want   []string // one of them
	}{
		{"a status that is not 200", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); io.WriteString(w, "up 1\n") }, []string{"status 500"}},
		{"a page that has moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, []string{"status 302"}},
		{"an HTML page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, "<html>")
		}, []string{"an HTML page, not a metrics page"}},
		{"a page that says that it is 100 MB long", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000000")
			w.WriteHeader(200)
		}, []string{"the page is larger than 8 MiB"}},
		{"a page without end", func(w http.ResponseWriter, _ *http.Request) {
			for block := []byte(strings.Repeat("x", 1<<16)); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, []string{"the page is larger than 8 MiB"}},
		{"a header without end", cut(false, "HTTP/1.1 200 OK\r\n"+strings.Repeat("X-More: and more\r\n", 1<<15)),
			[]string{"net/http: HTTP/1.x transport connection broken: net/http: server response headers exceeded 262144 bytes; aborted"}},
		{"a connection that is reset in the middle", cut(true, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nup 1\n"),
			[]string{"connection reset", "the connection ended before the page did"}},
		{"a connection that ends in the middle", cut(false, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nup 1\n"),
			[]string{"the connection ended before the page did"}},
		{"a chunked page that ends in the middle", cut(false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nup 1\n\r\n"),
			[]string{"the connection ended before the page did"}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			client, url := serve(t, tc.answer)
			got, err := ask(t, client, url, "")
			if err == nil {
				t.Fatalf("got %v", got)
			}
			for _, want := range tc.want {
				if err.Error() == want {
					return
				}
			}
			t.Errorf("got %q, want one of %q", err, tc.want)
		})
	}
}

func TestAServerThatIsNotThereIsAReason(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL
	server.Close()
	client := NewClient(&http.Transport{})
	defer client.Close()
	if _, err := ask(t, client, url, ""); err == nil || err.Error() != "connection refused" {
		t.Errorf("got %v", err)
	}
}

func TestAServerThatHangsIsLeftInTime(t *testing.T) {
	for _, tc := range []struct {
		rule   string
		before string // what comes before it hangs
	}{
		{"before its answer", ""},
		{"in the middle of its answer", "up 1\n"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, url := serveInMemory(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if tc.before != "" {
						io.WriteString(w, tc.before)
						http.NewResponseController(w).Flush()
					}
					<-r.Context().Done()
				})})
				const patience = 100 * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				begin := time.Now()
				got, err := client.at(spec.SourceNode, url, "", Labels{}, lengthReader{}).Reader.Read(ctx)
				if took := time.Since(begin); !errors.Is(err, errTimeout) || took != patience {
					t.Errorf("got %v, %v after %s", got, err, took)
				}
			})
		})
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	client, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	if got, err := ask(t, client, url, "secret"); err == nil {
		t.Errorf("got %v", got)
	}
	if asked.Load() != 0 {
		t.Error("the other server was asked")
	}
}

func TestATokenIsSentOnlyAsTold(t *testing.T) {
	for _, tc := range []struct{ token, want string }{{"", ""}, {"abc", "Bearer abc"}} {
		var header http.Header
		client, url := serve(t, func(_ http.ResponseWriter, r *http.Request) { header = r.Header.Clone() })
		if _, err := ask(t, client, url, tc.token); err != nil {
			t.Fatal(err)
		}
		if got := header.Get("Authorization"); got != tc.want {
			t.Errorf("with the token %q the header is %q", tc.token, got)
		}
		if _, compressed := header["Accept-Encoding"]; compressed {
			t.Error("a compressed page may be of any size")
		}
	}
}

func TestSecretsOfAURLAreNotRepeated(t *testing.T) {
	client, garbled := serve(t, cut(false, "garbled\r\n\r\n"))
	for _, url := range []string{
		garbled + "/metrics?key=hunter2",
		"http://user:hunter2@127.0.0.1:1/metrics?key=hunter2",
		"http://user:hunter2@no-such-host.invalid/metrics",
		"http://user:hunter2@[::1/metrics",
		"\x00hunter2",
	} {
		source := client.at(spec.SourceNode, url, "hunter2", Labels{}, lengthReader{})
		_, err := source.Reader.Read(t.Context())
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q gives %v", url, err)
		}
	}
}

// What a server sends must not decide how much memory is used: neither for one
// page nor for many.
func TestMemoryIsBounded(t *testing.T) {
	line := strings.Repeat("x", 1023) + "\n"
	for _, tc := range []struct {
		rule   string
		length int // bytes; 0 is without end
		asked  int
		most   uint64 // bytes
	}{
		{"a page without end", 0, 1, 80 << 20},
		{"100 pages of 64 KiB use the same memory", 64 << 10, 100, 4 << 20},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			client, url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				for sent := 0; tc.length == 0 || sent < tc.length; sent += len(line) {
					if _, err := io.WriteString(w, line); err != nil {
						return
					}
				}
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range tc.asked {
				got, err := ask(t, client, url, "")
				if tc.length == 0 && !errors.Is(err, tooLarge) {
					t.Fatalf("got %v, %v", got, err)
				}
				if tc.length > 0 && (err != nil || got[0].T != int64(tc.length)) {
					t.Fatalf("got %v, %v", got, err)
				}
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > tc.most {
				t.Errorf("%d KiB were allocated, want %d KiB at most", used>>10, tc.most>>10)
			} else {
				t.Logf("%d KiB", used>>10)
			}
		})
	}
}
