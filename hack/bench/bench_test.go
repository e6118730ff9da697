//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aicr/internal/sim/truth"
)

// Both drains see every request and every event of the server.
func TestDrains(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{"drain": "drain", "a goroutine a connection": "drain-conn"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := truth.NewServer(truth.Script{TTFT: 2 * time.Millisecond, ITL: 100 * time.Microsecond, Fragment: 100})
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Start(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			var out bytes.Buffer
			args := []string{command, "--url", server.URL(), "--concurrency", "7", "--request-count", "40", "--output", "16", "--input", "20"}
			if err := bench(t.Context(), args, &out, io.Discard); err != nil {
				t.Fatal(err)
			}
			var got drained
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			want := server.Truth()
			if got.Requests != 40 || want.Outcomes[truth.Served] != 40 || int64(got.Events) != want.Events.Total || want.Tokens != 40*16 {
				t.Errorf("drained %+v of %+v", got, want)
			}
		})
	}
}

// An answer is counted the same however it is cut into reads.
func TestCounter(t *testing.T) {
	t.Parallel()
	const answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"
	for size := 1; size <= len(answer); size++ {
		var c counter
		for round := range 2 {
			// A drain's first read of an answer holds its status line.
			first := max(size, len("HTTP/1.1 200"))
			done, err := c.feed([]byte(answer[:min(first, len(answer))]))
			for rest := answer[min(first, len(answer)):]; err == nil && rest != ""; {
				if done {
					t.Fatalf("%d bytes a read: done with %q left", size, rest)
				}
				n := min(size, len(rest))
				done, err = c.feed([]byte(rest[:n]))
				rest = rest[n:]
			}
			if err != nil || !done || c.events != 2*(round+1) {
				t.Fatalf("%d bytes a read, answer %d: done %v, %d events, %v", size, round, done, c.events, err)
			}
		}
	}
	if _, err := new(counter).feed([]byte("HTTP/1.1 500 Oh no\r\n")); err == nil {
		t.Error("a 500 is taken for an answer")
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	read := func(client string, cpu float64) reading {
		r := reading{Client: client, Concurrency: 64, CPU: cpu}
		r.Truth.Events.Total, r.Truth.ServedTokens = 1_000_000, 1_000_000
		return r
	}
	late := read("drain", 99)
	late.Discarded = "late"
	told := read("aicr", 12)
	told.Reported, told.P50Off, told.P99Off = true, 0.25, -1
	got := tabulate([]reading{read("drain", 9), late, read("drain", 11), read("drain", 10), told, read("aicr", 14)}, []string{"a fact"})
	var text, md strings.Builder
	if err := got.text(&text); err != nil {
		t.Fatal(err)
	}
	if err := got.markdown(&md); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| drain | 64 | 3 (1 discarded) | 10.00 | 1.00 | 0.0100 |",
		"| aicr | 64 | 2 | 13.00 | 1.30 | 0.0130 | 0 | +0.25 | -1.00 |",
		"- a fact",
	} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("no %q in\n%s", want, md.String())
		}
	}
	if !strings.HasPrefix(text.String(), "client ") {
		t.Errorf("got\n%s", text.String())
	}
}

func TestFindExport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := findExport(dir); err == nil {
		t.Error("found one in an empty folder")
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	doc := `{"time_to_first_token":{"unit":"ms","avg":2.0,"p50":1.5,"p99":3.25}}`
	if err := os.WriteFile(filepath.Join(dir, "sub", "profile_export_aiperf.json"), []byte(doc), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := findExport(dir); err != nil || got != (exported{1.5, 3.25}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil, {"dance"}, {"drain"}, {"drain", "--url", "http://192.0.2.1:80"}, {"drain", "--url", "http://127.0.0.1:1", "--concurrency", "0"},
		{"run", "--concurrency", "many"}, {"run", "--clients", "nobody"}, {"run", "--aicr", "/nonexistent/aicr"}, {"run", "--peer", "x"},
		{"serve", "--addr", "0.0.0.0:0"},
	} {
		if err := bench(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
