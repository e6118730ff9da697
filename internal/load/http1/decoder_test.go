package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// answer is what a test's sink has seen.
type answer struct {
	head Head
	seen bool
	body []byte
}

func (a *answer) Head(h Head) error   { a.head, a.seen = h, true; return nil }
func (a *answer) Body(b []byte) error { a.body = append(a.body, b...); return nil }

// decode feeds the pieces and then closes the connection.
func decode(pieces ...string) (a answer, d Decoder, used int, err error) {
	for _, p := range pieces {
		n, err := d.Feed([]byte(p), &a)
		used += n
		if err != nil {
			return a, d, used, err
		}
		if n < len(p) {
			break
		}
	}
	return a, d, used, d.End()
}

func TestAnswers(t *testing.T) {
	for _, tc := range []struct {
		rule, wire string
		status     int
		body       string
		reusable   bool
	}{
		{"a chunked body", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", 200, "hello world", true},
		{"chunk extensions and trailers are passed over", "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nX-T: 1\r\n\r\n", 200, "hello", true},
		{"sizes are hexadecimal", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0A\r\n0123456789\r\n0\r\n\r\n", 200, "0123456789", true},
		{"a body of known length", "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\n{}", 500, "{}", true},
		{"an empty body", "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", 404, "", true},
		{"a status without a reason", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, "x", true},
		{"no body by its status", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
		{"until the connection closes", "HTTP/1.1 200 OK\r\n\r\nabc", 200, "abc", false},
		{"the server closes", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", 200, "x", false},
		{"HTTP/1.0 closes", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", false},
		{"HTTP/1.0 may be kept alive", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 200, "x", true},
		{"an interim answer precedes", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", true},
		{"bare LF ends lines", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\nx\n0\n\n", 200, "x", true},
		{"the coding comes before the length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 200, "x", true},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			check := func(how string, pieces ...string) {
				t.Helper()
				a, d, _, err := decode(pieces...)
				if err != nil || a.head.Status != tc.status || string(a.body) != tc.body || d.Reusable() != tc.reusable {
					t.Fatalf("%s: status %d, body %q, reusable %t, error %v", how, a.head.Status, a.body, d.Reusable(), err)
				}
			}
			check("whole", tc.wire)
			for cut := 1; cut < len(tc.wire); cut++ {
				check("cut", tc.wire[:cut], tc.wire[cut:])
			}
			check("byte by byte", strings.Split(tc.wire, "")...)
		})
	}
}

func TestContentTypeIsTold(t *testing.T) {
	for value, want := range map[string]Head{
		"text/event-stream":                {EventStream: true},
		"Text/Event-Stream; charset=utf-8": {EventStream: true},
		"text/html; charset=utf-8":         {HTML: true},
		"application/json":                 {},
	} {
		a, _, _, err := decode("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Type: " + value + "\r\n\r\n")
		if err != nil || a.head.EventStream != want.EventStream || a.head.HTML != want.HTML {
			t.Errorf("%s: %+v, %v", value, a.head, err)
		}
	}
}

// Who has answered is told by the most exact of the headers, and one address is one server
// however it is written.
func TestTheServerBehindAProxyIsTold(t *testing.T) {
	a := BackendID([]byte("127.0.0.1:18001"))
	for headers, want := range map[string]uint64{
		"":                                     0,
		"X-Upstream-Addr: 127.0.0.1:18001\r\n": a,
		"x-upstream-host: 127.0.0.1:18001\r\n": a,
		"X-Upstream-Addr: 127.0.0.1:18002, 127.0.0.1:18001\r\n":                                         a, // nginx: the last one tried
		"x-litellm-model-api-base: http://127.0.0.1:18001/v1\r\nx-litellm-model-id: engine-a\r\n":       a,
		"x-litellm-model-id: engine-a\r\n":                                                              BackendID([]byte("engine-a")),
		"x-envoy-upstream-service-time: 3\r\nx-litellm-model-name: hosted_vllm/tiny\r\nServer: a:1\r\n": 0,
		"X-Upstream-Addr:\r\n": 0,
	} {
		got, _, _, err := decode("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + headers + "\r\n")
		if err != nil || got.head.Backend != want {
			t.Errorf("%q: %d, want %d, %v", headers, got.head.Backend, want, err)
		}
	}
	if a == BackendID([]byte("127.0.0.1:18002")) || a != BackendID([]byte(" HTTP://127.0.0.1:18001 ")) {
		t.Error("an address is not one server")
	}
}

func TestEndsThatAreNone(t *testing.T) {
	for _, tc := range []struct {
		rule, wire string
		want       error
	}{
		{"nothing at all", "", ErrNoAnswer},
		{"inside the head", "HTTP/1.1 200 OK\r\nCont", ErrTruncated},
		{"inside a sized body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", ErrTruncated},
		{"inside a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", ErrTruncated},
		{"before the last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", ErrTruncated},
		{"before the end of the trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", ErrTruncated},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if _, _, _, err := decode(tc.wire); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestWhatIsNotHTTPIsRefusedAtOnce(t *testing.T) {
	for rule, wire := range map[string]string{
		"another protocol":            "SSH-2.0-OpenSSH_9.2",
		"HTTP/2":                      "\x00\x00\x12\x04\x00\x00\x00\x00\x00",
		"a TLS alert":                 "\x15\x03\x01\x00\x02\x02",
		"a status that is no number":  "HTTP/1.1 abc OK\r\n\r\n",
		"a header without a colon":    "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
		"a length that is no number":  "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"two lengths that differ":     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"a coding that we cannot":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"a chunk size that is none":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"a chunk longer than it says": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n",
		"a chunk size beyond 64 bits": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
		"a head without an end":       "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", MaxHead/6),
	} {
		t.Run(rule, func(t *testing.T) {
			var syntax *SyntaxError
			if _, _, _, err := decode(wire); !errors.As(err, &syntax) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestBytesBehindTheAnswerAreNotTaken(t *testing.T) {
	wire := "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"
	_, d, used, err := decode(wire + "HTTP/1.1 200 OK\r\n")
	if err != nil || used != len(wire) || !d.Done() {
		t.Errorf("used %d of %d, done %t, error %v", used, len(wire), d.Done(), err)
	}
}

// Only the head's own bytes count against its limit: the body that came in the same read
// does not, wherever the head was cut.
func TestALargeReadBehindASplitHead(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Length: 262144\r\n\r\n"
	body := strings.Repeat("x", MaxHead)
	for cut := 1; cut < len(head); cut++ {
		a, d, used, err := decode(head[:cut], head[cut:]+body[:MaxHead-len(head)+cut], body[MaxHead-len(head)+cut:])
		if err != nil || !d.Done() || len(a.body) != len(body) || used != len(head)+len(body) {
			t.Fatalf("cut at %d: %d of %d bytes of the body, used %d, error %v", cut, len(a.body), len(body), used, err)
		}
	}
	// A head that is itself too large is refused, in one piece or in many.
	long := "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", MaxHead/6) + "\r\n"
	for _, cut := range []int{0, 1, 100, MaxHead - 1, MaxHead, MaxHead + 1} {
		var syntax *SyntaxError
		if _, _, _, err := decode(long[:cut], long[cut:]); !errors.As(err, &syntax) || !strings.Contains(syntax.What, "256 KiB") {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

// A head of exactly the limit is taken, wherever it is cut.
func TestAHeadOfTheLimit(t *testing.T) {
	lines := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: "
	head := lines + strings.Repeat("y", MaxHead-len(lines)-4) + "\r\n\r\n"
	for _, cut := range []int{1, len(lines), MaxHead / 2, MaxHead - 5, MaxHead - 4, MaxHead - 3, MaxHead - 2, MaxHead - 1} {
		if _, d, _, err := decode(head[:cut], head[cut:]); err != nil || !d.Done() {
			t.Errorf("cut at %d: done %t, %v", cut, d.Done(), err)
		}
	}
}

func TestFeedAllocatesNothingOnceWarm(t *testing.T) {
	var d Decoder
	head := []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	chunk := []byte("5\r\nhello\r\n")
	last := []byte("0\r\n\r\n")
	var sink count
	if n := testing.AllocsPerRun(100, func() {
		d.Reset()
		_, _ = d.Feed(head[:20], &sink)
		_, _ = d.Feed(head[20:], &sink)
		_, _ = d.Feed(chunk, &sink)
		_, _ = d.Feed(last, &sink)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type count int

func (c *count) Head(Head) error     { return nil }
func (c *count) Body(b []byte) error { *c += count(len(b)); return nil }

// FuzzDecoder compares with net/http: what both accept must be the same answer,
// and cutting the bytes in two must change nothing.
func FuzzDecoder(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "HTTP/1.1 404 Not Found\r\n\r\nabc",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add(s, 9)
	}
	f.Fuzz(func(t *testing.T, wire string, cut int) {
		got, d, _, err := decode(wire)
		if cut > 0 && cut < len(wire) {
			again, _, _, err2 := decode(wire[:cut], wire[cut:])
			if (err == nil) != (err2 == nil) || got.head != again.head || !bytes.Equal(got.body, again.body) {
				t.Fatalf("cut at %d: %+v %v, whole: %+v %v", cut, again, err2, got, err)
			}
		}
		if err != nil || !d.Done() || !got.seen {
			return
		}
		r := bufio.NewReader(strings.NewReader(wire))
		res, err := http.ReadResponse(r, nil)
		for err == nil && res.StatusCode < 200 {
			res, err = http.ReadResponse(r, nil)
		}
		if err != nil {
			return // net/http is the stricter one about names and values of headers
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return
		}
		if res.StatusCode != got.head.Status || !bytes.Equal(body, got.body) {
			t.Fatalf("net/http reads %d %q, we read %d %q", res.StatusCode, body, got.head.Status, got.body)
		}
	})
}
