package cli

import (
	"cmp"
	"io"
	"strings"
	"sync/atomic"

	"aicr/internal/observe"
	"aicr/internal/spec"
)

// unreadWhy is why nothing was read of a source.
type unreadWhy string

// The reasons, where no gap gives one.
const (
	unreadNoTime   unreadWhy = "the watch ended before it was asked"
	unreadNoLine   unreadWhy = "nothing was written to it while it was followed"
	unreadNoValue  unreadWhy = "it answered, and no value of it could be used"
	unreadNoSource unreadWhy = "the files of pages list none"
)

// unreadSource is a source of which nothing was read.
type unreadSource struct {
	source, name string
	why          unreadWhy
}

func (u unreadSource) text() string {
	return strings.TrimSpace(u.source+" "+u.name) + ": " + string(u.why)
}

// unreadTexts are some of them in words.
func unreadTexts(all []unreadSource) string {
	const most = 5
	var texts []string
	for i, u := range all {
		if i == most {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, u.text())
	}
	return strings.Join(texts, "; ")
}

// readOf says whether anything was read at all, and of which sources nothing was: a quiet
// fleet is one that was looked at.
func (s *sightings) readOf(sources []observe.Source, logs map[string]*readBytes) (any bool, nothing []unreadSource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type place struct{ source, instance string }
	measured, gaps := map[place]bool{}, map[place]string{}
	for _, r := range s.tally.Rows() {
		at := place{r.Source, r.Instance}
		any = any || r.Measured()
		measured[at] = measured[at] || r.Measured()
		switch {
		case r.LastGap != "":
			gaps[at] = r.LastGap
		case r.Samples > 0:
			gaps[at] = cmp.Or(gaps[at], string(unreadNoValue))
		}
	}
	for _, source := range sources {
		at, kind := place{source.Kind, source.Instance}, source.Kind
		why := unreadWhy(cmp.Or(gaps[at], string(unreadNoTime)))
		if log := logs[source.Instance]; log != nil && source.Follower != nil && source.Kind == spec.SourceWorker {
			any = any || log.n.Load() > 0
			measured[at] = measured[at] || log.n.Load() > 0
			kind, why = "log", unreadWhy(cmp.Or(gaps[at], string(unreadNoLine)))
		}
		if !measured[at] {
			nothing = append(nothing, unreadSource{kind, source.Instance, why})
		}
	}
	if len(sources) == 0 && !any {
		nothing = append(nothing, unreadSource{why: unreadNoSource})
	}
	return any, nothing
}

// readBytes counts what is read of a log.
type readBytes struct{ n atomic.Int64 }

// of counts what is read of it.
func (c *readBytes) of(from io.ReadCloser) io.ReadCloser { return &countedReader{from, c} }

type countedReader struct {
	io.ReadCloser
	count *readBytes
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.count.n.Add(int64(n))
	return n, err
}
