// Package truth is a server that knows the truth about itself: an
// OpenAI-compatible streaming endpoint that follows a seeded script, stamps
// every event right before it writes it, and can tell afterwards what it did
// and how late it was. A client's figures are checked against it.
//
// Read Script first (script.go): it says what the server does. One script has
// two drivers that share everything but the socket:
//
//   - Server is raw and cheap: on Linux one thread, epoll and a timer heap, so
//     that a thousand streams fit on one core without the server being late.
//   - Handler is an http.Handler with plain sleeps, for TLS, HTTP/2, httptest
//     and virtual time (testing/synctest).
//
// The way of a request: stage.begin (stage.go) routes it and makes a play
// (play.go), which yields the steps of the answer and when each is due; the
// driver waits, stamps and writes; the ledger (ledger.go) notes it; Truth
// (report.go) sums it up. Over HTTP the same is had by GET /truth (query:
// skip, asked, concurrency; see Filter) and POST /truth/reset.
package truth
