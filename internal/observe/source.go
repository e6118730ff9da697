package observe

import (
	"context"
	"io"
	"time"

	"aicr/internal/spec"
)

// reason is an error that is told as it is: why there is no sample.
type reason string

func (r reason) Error() string { return string(r) }

// pageReader turns a page into samples, without their times. A page may tell of
// several things, or of one whose name it does not know. It may keep what it
// needs of the page before, so each source has its own. It gives up when ctx ends.
type pageReader interface {
	read(ctx context.Context, text []byte) ([]spec.Sample, error)
}

// A Reader asks a source once.
type Reader interface {
	Read(ctx context.Context) ([]spec.Sample, error)
}

// A Follower listens to a source that speaks by itself, until it ends or ctx
// does. What it says is stamped as it arrives.
type Follower interface {
	Follow(ctx context.Context, tell Tell) error
}

// Tell is what a Follower tells with.
type Tell struct {
	Sample func(spec.Sample)
	Event  func(spec.Event)
}

// Source is something to be observed. One of Reader and Follower is set.
type Source struct {
	Kind     string // as in spec.Sample
	Instance string // where it is, for people: host:port, a file's name, or local
	Address  string // where it is in full; never shown, since a query may hold a secret
	Labels   Labels
	Reader   Reader
	Follower Follower
}

// Labels are what whoever named a source knows of it, and its page does not tell.
type Labels struct {
	Name string // of the worker
	Pod  string
	GPU  string // UUID; of several, with commas between
	Role spec.Role
}

// Files opens what a local source reads: the system's root, or a test's.
type Files interface {
	Open(name string) (io.ReadCloser, error)
}

// Command starts a program and gives its output. Close ends it.
type Command func(ctx context.Context, name string, args ...string) (io.ReadCloser, error)

// Sink takes what is observed. Its methods are called one at a time.
type Sink interface {
	Sample(s spec.Sample)
	Event(e spec.Event)
}

// Clock is the one clock of an observation: monotonic, from its start.
type Clock struct{ start time.Time }

// StartClock starts it.
func StartClock() Clock { return Clock{time.Now()} }

// Start is when it was started.
func (c Clock) Start() time.Time { return c.start }

// Now is how long ago that is.
func (c Clock) Now() time.Duration { return time.Since(c.start) }
