package sim

import "time"

// Stream is one request on its way through a fleet. The client fills the first
// part and leaves the rest to the fleet.
type Stream struct {
	Prompt int      // tokens
	Output int      // tokens that it will be given
	Blocks []uint64 // what the prompt's whole KV blocks are known by in a prefix cache; nil: like no other
	Tag    int      // the client's own

	// Pin, when above 0, is the worker plus 1 that must serve it: a probe.
	Pin int

	Arrived  time.Duration // at the frontend
	Worker   int           // who serves it, once Routed
	Admitted time.Duration // into its worker's batch, the first time
	Queued   time.Duration // at its worker
	Made     time.Duration // when its worker made the latest of its tokens, told or not
	Cached   int           // prompt tokens that were found in the worker's prefix cache
	Given    int           // tokens given so far
	First    time.Duration // when the client got its first token
	Last     time.Duration // and its latest
	Gap      time.Duration // the longest wait between two tokens
	GapEnd   time.Duration // and when it ended
	Outcome  Outcome       // once Ended
	Status   int           // of the answer, when the Outcome is Refused

	client Client
	state  state
	fate   fate
	need   int  // prompt tokens that are still to be computed before its first token
	size   int  // tokens whose KV it holds once they are: its prompt, and after a preemption what it was given
	blocks int  // KV blocks that it holds
	enter  int  // the worker's step that gave it its first token since it was admitted
	leave  int  // the step that gives it its last
	read   bool // its prompt, by a worker that reads for others
	before int  // tokens that it had been given when it was admitted
	past   []span
}

// span is the steps, from the first to the last, of an admission that a
// preemption ended.
type span struct{ enter, leave int }

// state is where a Stream is.
type state uint8

const (
	created   state = iota
	arriving        // at the frontend, on its way in
	waiting         // in its worker's queue
	running         // in its worker's batch
	finishing       // its last tokens are on their way out
	failing         // an answer without tokens is
	gone            // its client knows how it ended
)

// Outcome is how a Stream ended.
type Outcome uint8

// The outcomes.
const (
	Unended   Outcome = iota
	Served            // in full
	Refused           // an answer other than 200, with Status
	Reset             // the connection was reset in mid-stream
	Truncated         // the stream ended in mid-answer
	ErrorTold         // an error event in mid-stream, and then [DONE]
	Empty             // 200, a finish reason, and no content
	Abandoned         // the client went away
)

// Observer is told what the workers themselves see, before the frontend has it. It
// is called as a Client is, and only by a fleet that tells of each token.
type Observer interface {
	// Made says that a token was made; s.Made is still the time of the one before,
	// or 0.
	Made(now time.Duration, s *Stream)
	// Left says that a request is no longer the worker's; its last token, if any,
	// was made at s.Made. Whole says that it was given all that it was to be given.
	Left(now time.Duration, s *Stream, whole bool)
}

// Client is told what becomes of its streams. It is called by the fleet, in the
// order in which things happen, and must neither block nor call the fleet back.
type Client interface {
	// Routed says that a worker has the request: the head of the answer can go out.
	Routed(now time.Duration, s *Stream)
	// Token says that s.Given tokens have reached the client. Of a fleet that was
	// not made with EachToken, only the first is told.
	Token(now time.Duration, s *Stream)
	// Ended says that nothing more will come.
	Ended(now time.Duration, s *Stream)
}
