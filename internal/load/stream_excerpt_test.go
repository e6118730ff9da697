package load

import (
	"fmt"
	"strings"
	"testing"

	"aicr/internal/redact"
)

// Whatever a server makes of the key that it was sent, and wherever an excerpt of that ends,
// no beginning of the key is left in the message: it is masked before it is cut.
func TestAServersWordsAreMaskedBeforeTheyAreCut(t *testing.T) {
	const key = "sk-live-Conf1ded/0123456789abcdef"
	answer := func(head, body string) string {
		return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
	}
	events := func(data string) string {
		return answer("200 OK\r\nContent-Type: text/event-stream", "data: "+data+"\n\n")
	}
	for name, says := range map[string]func(pad string) string{
		"a body":                    func(pad string) string { return answer("401 No", pad+key) },
		"a body behind white space": func(pad string) string { return answer("401 No", strings.Repeat(" ", maxBody-300)+pad+key) },
		"no event stream":           func(pad string) string { return answer("200 OK", pad+key) },
		"an error in the stream":    func(pad string) string { return events(`{"error":{"message":"` + pad + key + `"}}`) },
		"an event that is no JSON":  func(pad string) string { return events("{" + pad + key) },
		"bytes behind the answer":   func(pad string) string { return answer("200 OK", "x") + pad + key },
		"a status line":             func(pad string) string { return "HTTP/1.1 2" + pad + key + "\r\n\r\n" },
		"a header line":             func(pad string) string { return "HTTP/1.1 200 OK\r\n" + pad + key + "\r\n\r\n" },
		"a length":                  func(pad string) string { return "HTTP/1.1 200 OK\r\nContent-Length: " + pad + key + "\r\n\r\n" },
		"no HTTP":                   func(pad string) string { return pad + key + "\r\n\r\n" },
	} {
		t.Run(name, func(t *testing.T) {
			for n := range 520 {
				var rec Record
				s := stream{mask: redact.NewMask(key)}
				s.begin(&rec)
				s.feed([]byte(says(strings.Repeat("x", n))), 1)
				message := s.finish(2, nil)
				if rec.OK() {
					t.Fatalf("%d: it is served", n)
				}
				for _, part := range []string{key[:5], "Conf1ded", "56789"} {
					if strings.Contains(message, part) {
						t.Fatalf("%d bytes before the key: %q is left in %q", n, part, message)
					}
				}
				if len(message) > maxMessage+len("…") {
					t.Fatalf("%d bytes before the key: %d bytes of message", n, len(message))
				}
			}
		})
	}
}

// The last excerpts are kept, since servers repeat themselves: no other text gets them.
func TestAnExcerptIsOfItsText(t *testing.T) {
	s := stream{mask: redact.NewMask("sk-live-Conf1ded")}
	for range 2 {
		for text, want := range map[string]string{"a sk-live-Conf1ded b": "a *** b", "c\x1b[2Jd\u202e": "c□[2Jd□", "a\r\n::error::x": "a  : :error::x"} {
			if got := s.excerpt([]byte(text), 400); got != want {
				t.Errorf("%q becomes %q, want %q", text, got, want)
			}
		}
		if got := s.excerpt([]byte(strings.Repeat("é", 300)), 80); len(got) > 80+len("…") || !strings.HasSuffix(got, "é…") {
			t.Errorf("%q", got)
		}
	}
}

// A target is called by its address without what is secret in that.
func TestATargetIsCalledWithoutItsSecrets(t *testing.T) {
	for address, want := range map[string]string{
		"h:8000/v1?api_key=SECRET":                   "http://h:8000",
		"https://h/k/0a1b2c3d4e5f6a7b8c9d0e/v1#frag": "https://h/k/***",
		"http://h/proxy/v1/chat/completions":         "http://h/proxy",
	} {
		target, err := NewTarget(TargetOptions{URL: address})
		if err != nil || target.String() != want {
			t.Errorf("%s: %s, %v; want %s", address, target, err, want)
		}
		if at, _, _ := strings.Cut(target.Endpoint(), "/v1/"); target.Base() != at {
			t.Errorf("%s: the API is at %s, and requests go to %s", address, target.Base(), target.Endpoint())
		}
	}
}
