// Package load is the load engine: it sends a frozen workload to an
// OpenAI-compatible endpoint on a schedule, stamps what comes back, and keeps
// one Record a request.
//
// Read Record first (record.go): it is what everything else fills or reads.
// Then Run (engine.go), which joins the four parts of a run: the requests
// (package workload), when they are sent (pace.go), the wire that carries them
// (wire.go: an epoll loop for plain HTTP on Linux, a goroutine a connection
// elsewhere and for TLS, net/http for HTTP/2), and the audit of the engine's
// own conduct (audit.go). The bytes of an answer go through http1, sse and
// chat, which hold no clock: a read is stamped before any of them sees it.
package load
