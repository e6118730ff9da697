package load

import "aicr/internal/spec"

// Request is a record as a run keeps it: stamps since zero, and the server's words as
// they may be told. Worker is left to whoever knows the workers' names.
func (r *Record) Request(zero int64, detail string) spec.Request {
	at := func(stamp int64) int64 {
		if stamp == 0 {
			return 0
		}
		return stamp - zero
	}
	q := spec.Request{Seq: r.Seq, Lane: r.Lane.String(), Phase: r.Phase.String(),
		Intended: at(r.Intended), Sent: at(r.Sent), First: at(r.FirstContent), Last: at(r.LastContent), End: at(r.End),
		Gap: r.MaxGap, GapEnd: at(r.MaxGapAt), Tokens: int(r.Tokens()), Class: r.Class.String(), Status: int(r.Status),
		Finish: r.Finish.String(), Detail: detail, Resent: r.Has(Resent)}
	if r.Chunks > 0 {
		events, text := int(r.Chunks), int(r.TextBytes)
		q.Events, q.TextBytes = &events, &text
	}
	if r.Has(Exhausted) {
		q.Class = spec.ClassExhausted
	}
	if q.Sent == 0 {
		q.Sent = q.Intended // no connection: its user was busy with it all the same
	}
	if r.Has(HasUsage) {
		q.Prompt = int(r.PromptTokens)
	}
	if r.Has(HasCached) {
		cached := int(r.CachedTokens)
		q.Cached = &cached
	}
	return q
}
