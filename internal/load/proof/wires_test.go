package proof

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"aicr/internal/load"
	"aicr/internal/load/workload"
	"aicr/internal/sim/truth"
)

const roleServeTLS = "serve-tls"

// beTLSServer serves the same script as beServer behind net/http, with TLS and
// HTTP/2.
func beTLSServer() error {
	h, err := truth.NewHandler(script())
	if err != nil {
		return err
	}
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that were only tried
	srv.StartTLS()
	fmt.Fprintln(os.Stdout, srv.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	srv.Close()
	return nil
}

// BenchmarkWires prints what each wire costs this process for an event, the
// server being in another. The figures are ratios to each other: the raw floor
// is hack/bench's.
func BenchmarkWires(b *testing.B) {
	plain, secure := startServer(b, roleServe), startServer(b, roleServeTLS)
	for _, w := range []struct {
		name string
		url  string
		wire load.WireKind
		h2   bool
	}{
		{"event loop", plain, load.LoopWire, false},
		{"goroutines", plain, load.GoroutineWire, false},
		{"goroutines with TLS", secure, load.GoroutineWire, false},
		{"HTTP2 by net http", secure, load.HTTP2Wire, true},
	} {
		b.Run(w.name, func(b *testing.B) {
			target, err := load.NewTarget(load.TargetOptions{URL: w.url, HTTP2: w.h2, TLS: &tls.Config{InsecureSkipVerify: true}})
			if err != nil {
				b.Fatal(err)
			}
			if err := target.Lookup(b.Context()); err != nil {
				b.Fatal(err)
			}
			const users = 256
			work, err := workload.Synthetic(workload.Spec{Model: truth.DefaultModel, Seed: 1, Count: 2 * users, Fields: workload.AllFields(),
				InputTokens: workload.Length{Mean: 128}, OutputTokens: workload.Length{Mean: tokens}})
			if err != nil {
				b.Fatal(err)
			}
			var events int64
			var lag time.Duration
			before := cpu()
			for b.Loop() {
				res, err := load.Run(b.Context(), &load.Plan{Target: target, Work: work, Timeout: time.Minute, Grace: time.Minute,
					Wire: w.wire, Main: load.Schedule{Users: users, Count: 2 * users}}, nil)
				if err != nil {
					b.Fatal(err)
				}
				for rec := range res.Log.All() {
					if !rec.OK() {
						b.Fatal(rec.Class, res.Log.Details)
					}
					events += int64(rec.Events)
				}
				lag = res.Audit.StampLag.P99
			}
			b.ReportMetric(float64(cpu()-before)/float64(time.Microsecond)/float64(events), "CPU-µs/event")
			b.ReportMetric(float64(lag)/1e6, "stamp-lag-p99-ms")
		})
	}
}

// cpu is the user and system time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
