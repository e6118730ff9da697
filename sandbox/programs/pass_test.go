package programs

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// lateBody is a request that is read to its end at once, and of which whoever asks once
// more learns that only when the answer has begun: as when that reader had to wait for a
// processor meanwhile.
type lateBody struct {
	io.ReadCloser
	begun <-chan struct{}
	read  bool
}

func (b *lateBody) Read(p []byte) (int, error) {
	if b.read {
		<-b.begun
	}
	n, err := b.ReadCloser.Read(p)
	b.read = b.read || err == io.EOF
	return n, err
}

func TestAnAnswerThatBeginsBeforeTheRequestIsDoneWithIsWhole(t *testing.T) {
	begun := make(chan struct{})
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "data: %s\n\n", asked)
		_ = http.NewResponseController(w).Flush()
		<-begun
		select {
		case <-r.Context().Done(): // it was hung up on
		case <-time.After(200 * time.Millisecond):
			fmt.Fprint(w, "data: [DONE]\n\n")
		}
	}))
	defer behind.Close()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.Clone(r.Context())
		q.Body = &lateBody{ReadCloser: r.Body, begun: begun}
		pass(w, q, behind.Listener.Addr().String(), nil)
	}))
	defer front.Close()

	answer, err := http.Post(front.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	if first, err := lines.ReadString('\n'); err != nil || first != "data: {}\n" {
		t.Fatalf("it begins with %q, %v", first, err)
	}
	close(begun)
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != "\ndata: [DONE]\n\n" {
		t.Errorf("it goes on with %q, %v", rest, err)
	}
}
