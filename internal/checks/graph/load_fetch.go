package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// A record is given up after so many failed tries in a row with a server that answers. One
// that goes away takes the connection with it, and the record waits in the pod for it.
const (
	fetchTries  = 5
	fetchPause  = 3 * time.Second
	fetchSilent = 2 * time.Minute // a load that is told to stop takes half a minute to begin
	letGoFor    = 20 * time.Second
)

// FetchLoad fetches the record from the load's pod into spool. It is whole, and this
// run's, when there is no error. The pod keeps it until it is let go. A load that is under
// way has none yet, unless it is told to stop. While the API server is away, FetchLoad goes
// on until ctx ends.
func FetchLoad(ctx context.Context, api API, s *Settings, told Told, pod string, spool Spool, stop bool) error {
	command := []string{"aicr", "run", "fetch", "--results", LoadResults}
	if stop {
		command = append(command, "--stop")
	}
	for failed := 0; ; {
		told.waiting("the record from the load's pod")
		err := fetchOnce(ctx, api, s, pod, command, spool)
		if err == nil {
			return nil
		}
		if _, foreign := errors.AsType[*otherRun](err); foreign || isUnkept(err) || ctx.Err() != nil {
			return err
		}
		// The look says whether the try failed for the pod's sake. A server that comes back
		// between the two costs one try of several, not the record.
		switch l, unseen := lookAtLoad(ctx, api, s); {
		case kube.IsAway(unseen):
			failed = 0
			told.waiting("the API server; the load's pod keeps the record: " + unseen.Error())
		case unseen == nil && l.ended():
			return err // there is nobody left to ask
		default:
			failed++
		}
		if failed == fetchTries {
			return err
		}
		if stopped := pauseFor(ctx, fetchPause); stopped != nil {
			return errors.Join(err, stopped)
		}
	}
}

// letLoadGo tells the load's pod that its record is safe. If it does not hear of it, it
// goes when its time is up; a command that does not end keeps nobody from the verdict.
func letLoadGo(ctx context.Context, api API, s *Settings, pod string) {
	ctx, cancel := context.WithTimeout(ctx, letGoFor)
	defer cancel()
	_ = api.Exec(ctx, LoadNamespace(s), pod, LoadContainer, []string{"aicr", "run", "fetch", "--results", LoadResults, "--received"}, io.Discard)
}

// UnkeptError says that a record could be had, and not be kept on this machine.
type UnkeptError struct{ cause error }

func (e *UnkeptError) Error() string { return e.cause.Error() }
func (e *UnkeptError) Unwrap() error { return e.cause }

func isUnkept(err error) bool {
	_, ok := errors.AsType[*UnkeptError](err)
	return ok
}

// spoolWriter notes why it could not write: who copies into it may not tell. A connection
// that was given up may bring more; by then the spool is another's.
type spoolWriter struct {
	mu     sync.Mutex
	spool  Spool
	silent *time.Timer
	wrote  int64
	err    error
	over   bool
}

func (w *spoolWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return 0, io.ErrClosedPipe
	}
	w.silent.Reset(fetchSilent)
	if w.wrote += int64(len(p)); w.wrote > mostSpooled {
		w.err = &RecordLimitError{"", mostSpooled}
		return 0, w.err
	}
	n, err := w.spool.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

// close is the end of it, and says what went wrong.
func (w *spoolWriter) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.silent.Stop()
	return w.err
}

var errSilent = fmt.Errorf("nothing of it came for %s", fetchSilent)

func fetchOnce(ctx context.Context, api API, s *Settings, pod string, command []string, spool Spool) error {
	if err := emptied(spool); err != nil {
		return &UnkeptError{err}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	into := &spoolWriter{spool: spool, silent: time.AfterFunc(fetchSilent, func() { cancel(errSilent) })}
	err := api.Exec(ctx, LoadNamespace(s), pod, LoadContainer, command, into)
	if unkept := into.close(); unkept != nil {
		return &UnkeptError{unkept}
	}
	if err != nil {
		return err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return &UnkeptError{err}
	}
	return wholeRecord(spool, s.Run)
}

func emptied(spool Spool) error {
	if err := spool.Truncate(0); err != nil {
		return err
	}
	_, err := spool.Seek(0, io.SeekStart)
	return err
}

// otherRun says that a record is of another run: to ask again is of no use.
type otherRun struct{ got, want string }

func (e *otherRun) Error() string {
	return fmt.Sprintf("the record is of run %q, not of %q", e.got, e.want)
}

// wholeRecord says what is wrong with an archive: it is to be whole, and of this run.
func wholeRecord(r io.Reader, run string) error {
	var is *spec.Run
	err := ReadArchive(r, func(name string, r io.Reader) error {
		if name != "run.json" {
			return nil
		}
		data, err := io.ReadAll(io.LimitReader(r, 1<<20))
		if err != nil {
			return err
		}
		is = &spec.Run{}
		return json.Unmarshal(data, is)
	})
	switch {
	case err != nil:
		return err
	case is == nil:
		return errors.New("the record has no run.json")
	case is.ID != run:
		return &otherRun{is.ID, run}
	}
	return nil
}
