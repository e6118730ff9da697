package graph

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"aicr/internal/kube"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

// How a log is followed. The load prints a line at least every ten seconds: a connection
// over which none came for longer is dead, though neither end may know, as after a sleep.
const (
	followEvery  = 2 * time.Second  // the Job and its pod are looked at
	deadAfter    = 40 * time.Second // without a line
	followAgain  = time.Second      // after a connection broke
	mostTail     = 60               // lines of others that are kept
	mostLogLine  = 1 << 20
	lastReadTime = 20 * time.Second // for what was printed last, once it has ended
)

// FollowLoad follows the load to its end and gives what came of it. Each line of its log
// is heard once and in order, whatever becomes of the connection. The record is put into
// spool, where it can be had. An error is that it could not be found out; ctx ending is
// one, and the load goes on: its pod is in what is given even then.
func FollowLoad(ctx context.Context, api API, s *Settings, told Told, spool Spool, hear func(LoadLine)) (*Outcome, error) {
	f := &follower{api: api, s: s, told: told, hear: hear, began: time.Now(), done: make(chan struct{})}
	defer told.waiting("")
	out := &Outcome{}
	var reading sync.WaitGroup
	defer reading.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for {
		l, err := lookAtLoad(ctx, api, s)
		switch {
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		case kube.IsAway(err):
			f.unseen()
			told.waiting("the API server; the load goes on: " + err.Error())
		case err != nil:
			return out, err
		default:
			if l.pod != nil && out.Pod == "" {
				out.Pod = l.pod.Name()
				reading.Go(func() { f.read(ctx, out.Pod) })
			}
			f.look(l)
			if over := l.ended(); over || f.forsaken(l) {
				if !over {
					out.Unfetched = errForsaken
				}
				cancel(errLoadEnded) // what it printed last is read in one go
				reading.Wait()
				return out, f.conclude(context.WithoutCancel(ctx), l, out)
			}
		}
		select {
		case <-ctx.Done():
			return out, context.Cause(ctx)
		case <-f.done:
			err := f.fetch(ctx, out, spool)
			if err == nil || isUnkept(err) || ctx.Err() != nil {
				return out, err
			}
			told.say("the record could not be fetched: %v", err)
			l, unseen := lookAtLoad(ctx, api, s)
			switch {
			case kube.IsAway(unseen): // the pod has it until the server is back
			case unseen != nil:
				return out, &UnfetchedError{errors.Join(err, unseen)}
			default:
				return out, f.unfetched(ctx, l, out, err)
			}
		case <-time.After(followEvery):
		}
	}
}

var errLoadEnded = errors.New("the load has ended")

// EndLoad has the load end in good order, and gives what it came to by then. The record is
// put into spool, where it can be had. A load that has not begun has no pod in what is
// given.
func EndLoad(ctx context.Context, api API, s *Settings, told Told, spool Spool) (*Outcome, error) {
	f := &follower{api: api, s: s, told: told, stop: true, done: make(chan struct{})}
	defer told.waiting("")
	told.waiting("the load to end")
	out := &Outcome{}
	l, err := lookAtLoad(ctx, api, s)
	if err != nil || l.pod == nil || !l.started() {
		return out, err
	}
	out.Pod = l.pod.Name()
	if l.ended() {
		return out, f.conclude(ctx, l, out)
	}
	unfetched := f.fetch(ctx, out, spool)
	if unfetched == nil || isUnkept(unfetched) {
		return out, unfetched
	}
	// It may have left a copy all the same.
	if l, err := lookAtLoad(ctx, api, s); err == nil && f.unfetched(ctx, l, out, unfetched) == nil && out.By != "" {
		return out, nil
	}
	return out, unfetched
}

// follower follows one load.
type follower struct {
	api  API
	s    *Settings
	told Told
	hear func(LoadLine)
	stop bool // it is told to end, and not waited for
	once sync.Once
	done chan struct{} // the load says that there is a verdict

	began         time.Time
	leaving, late lasting // its pod; its Job's deadline

	mu    sync.Mutex
	heard int      // number of the last line of ours
	since int      // lines of others after it
	tail  []string // lines of others, the last of them
	text  bytes.Buffer
	over  float64 // when the load was done, by its own line

	answer *LoadLine // of AIPerf's Job: what came of waiting for a first one; nil: not told
}

// look takes in how the load is.
func (f *follower) look(l *loadSeen) {
	if l.pod == nil {
		f.told.waiting("the load's pod")
	}
}

// read reads the log until ctx ends or the load says that it is done.
func (f *follower) read(ctx context.Context, pod string) {
	for ctx.Err() == nil {
		f.stream(ctx, pod, true)
		select {
		case <-f.done:
			return
		default:
		}
		if pauseFor(ctx, followAgain) != nil {
			return
		}
	}
}

// stream reads the log once, from its beginning: what was heard before is passed over.
func (f *follower) stream(ctx context.Context, pod string, follow bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := f.api.Logs(ctx, LoadNamespace(f.s), pod, loadContainerOf(f.s), kube.LogOptions{Follow: follow})
	if err != nil {
		return
	}
	defer from.Close()
	silent := time.AfterFunc(deadAfter, cancel)
	defer silent.Stop()
	stop := context.AfterFunc(ctx, func() { _ = from.Close() }) // a Read that hangs ends
	defer stop()
	r := bufio.NewReaderSize(from, mostLogLine)
	at := place{}
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil
		}
		if whole := bytes.HasSuffix(line, []byte("\n")); len(line) > 0 && (whole || err == nil || !follow && errors.Is(err, io.EOF)) {
			silent.Reset(deadAfter)
			f.line(&at, bytes.TrimRight(line, "\r\n"))
		}
		if err != nil {
			return
		}
	}
}

// place is where in the log a stream is: after which line of ours, and how many of others
// after that.
type place struct{ n, others int }

// line takes a line in, unless it was heard before.
func (f *follower) line(at *place, text []byte) {
	l := ParseLoadLine(text)
	f.mu.Lock()
	if l.N > 0 {
		at.n, at.others = l.N, 0
		if l.N <= f.heard {
			f.mu.Unlock()
			return
		}
		f.heard, f.since = l.N, 0
		if f.s.Engine == EngineAIPerf { // it quotes what a server said
			l.Text = redact.Masked(l.Text)
		}
		if l.Kind == LineAnswer && f.answer == nil {
			f.answer = &l
		}
	} else {
		at.others++
		if at.n < f.heard || at.n == f.heard && at.others <= f.since {
			f.mu.Unlock()
			return
		}
		f.since = at.others
		l.Text = redact.Masked(l.Text)
		f.tail = append(f.tail, l.Text)
		f.tail = f.tail[max(0, len(f.tail)-mostTail):]
		if f.s.Engine == EngineAIPerf && f.text.Len() < mostAIPerfLog {
			f.text.Write(text)
			f.text.WriteByte('\n')
		}
	}
	f.mu.Unlock()
	if f.hear != nil {
		f.hear(l)
	}
	if l.Kind == LineDone {
		f.mu.Lock()
		f.over = l.T
		f.mu.Unlock()
		f.once.Do(func() { close(f.done) })
	}
}

// fetch has the record put into the spool.
func (f *follower) fetch(ctx context.Context, out *Outcome, spool Spool) error {
	if err := FetchLoad(ctx, f.api, f.s, f.told, out.Pod, spool, f.stop); err != nil {
		return err
	}
	out.By = ByRecord
	return nil
}

// conclude finds out what there is of a load that has ended without its record having
// been fetched: what it said last, the compact copy, the termination message.
func (f *follower) conclude(ctx context.Context, l *loadSeen, out *Outcome) error {
	l.lookAtNode(ctx, f.api)
	if out.Pod != "" {
		brief, cancel := context.WithTimeout(ctx, lastReadTime)
		f.stream(brief, out.Pod, false)
		cancel()
	}
	f.mu.Lock()
	out.Tail, out.Over = f.tail, f.over
	log := f.text.Bytes()
	f.mu.Unlock()
	if text := l.container().Text("state", "terminated", "message"); text != "" {
		if m, err := ParseLoadMessage([]byte(text)); err == nil && (m.Run == f.s.Run || m.Run == "" && m.Verdict == "") { // one that could not read its run has no name for it
			out.Message = m
		}
	}
	if f.s.Engine == EngineAIPerf {
		return f.concludeAIPerf(l, out, log)
	}
	copied, err := f.api.Read(ctx, resConfigMaps, f.s.Namespace, f.s.Names().Results)
	switch {
	case err == nil && copied.Labels()[LabelOwner] == OwnerValue && copied.Labels()[LabelRun] == f.s.Run:
		files, left := ReadResultCopy(copied)
		if _, ok := files["verdict.json"]; ok {
			out.By, out.Files, out.LeftOut = ByConfigMap, files, left
			return nil
		}
	case err != nil && !kube.IsNotFound(err) && !kube.IsForbidden(err):
		return err
	}
	if m := out.Message; m != nil && spec.State(m.Verdict).Verdict() {
		out.By = ByMessage
		return nil
	}
	out.explain(l)
	return nil
}
