package load

import (
	"errors"
	"time"

	"aicr/internal/load/http1"
)

// resendWithin is how long after its send a request may be sent once more. A server that
// was closing a kept connection when the request came says so within a round trip. One
// that closes it later had the request and lost it.
const resendWithin = time.Second

// unheard reports whether a request that ended with cause at a stamp is to be sent once
// more, on a new connection: the server closed the kept connection that carried it, and no
// byte of an answer came (RFC 9112, 9.3.1). A request on a new connection, or one that was
// sent again already, has failed.
func (s *stream) unheard(cause error, at int64) bool {
	r := s.rec
	if !r.Has(Reused) || r.Has(Resent) || r.FirstByte != 0 || at-r.Sent >= int64(resendWithin) {
		return false
	}
	if reset, ok := errors.AsType[*resetError](cause); ok {
		return !reset.answered
	}
	return errors.Is(cause, http1.ErrNoAnswer)
}
