package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"aicr/internal/checks/graph"
	"aicr/internal/judge"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

// clusterBook is the folder of a run on a cluster: begun by the command, continued by the
// load's Job in the cluster, and ended by the command with what the Job has kept.
type clusterBook struct {
	app    *app
	dir    string
	record *recorder
	spool  *os.File
	mask   *redact.Mask // of the token, which a server may have repeated to the load
	goesOn bool         // the run does, on the cluster: what it was judged by is not all of it
}

const (
	diagnosticsDir = "diagnostics"
	compactDir     = "compact"
)

// openBook begins the folder of a run, with what happened before.
func (a *app) openBook(dir string, run spec.Run, plan *spec.Plan, events []spec.Event) (*clusterBook, error) {
	record, err := openRun(dir, run, plan)
	if err != nil {
		return nil, err
	}
	b := &clusterBook{app: a, dir: dir, record: record}
	for _, e := range events {
		if err := record.Event(e); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// reopenBook goes on with the folder of a run. What the cluster keeps of what happened is
// what the load has been told, so that it is what counts, until the load's own record was
// taken in: that has all of it, and more.
func (a *app) reopenBook(dir string, kept *graph.Kept) (*clusterBook, error) {
	b := &clusterBook{app: a, dir: dir, record: &recorder{dir: dir, run: kept.Run}}
	err := os.MkdirAll(filepath.Join(dir, episodesDir), 0o777)
	if was, unread := spec.ReadRun(runFiles(dir)); unread == nil && graph.Recorded(was.Events) {
		kept.Events = was.Events
	} else if err == nil {
		err = writeWhole(filepath.Join(dir, eventsFile), func(w io.Writer) error { return writeLines(w, kept.Events) })
	}
	if err == nil {
		err = b.appendEvents()
	}
	if err != nil {
		return nil, unwritten(err)
	}
	return b, nil
}

// appendEvents opens what happened, to be gone on with.
func (b *clusterBook) appendEvents() (err error) {
	b.record.events, err = os.OpenFile(filepath.Join(b.dir, eventsFile), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o666)
	if err == nil {
		err = endLine(b.record.events)
	}
	return err
}

// Event appends what happened.
func (b *clusterBook) Event(e spec.Event) error { return b.record.Event(e) }

// Episode keeps an episode that was measured elsewhere, once.
func (b *clusterBook) Episode(e *spec.EpisodeRecord) error {
	if _, err := os.Stat(filepath.Join(b.dir, episodesDir, fmt.Sprintf("%03d", e.Episode.Number))); err == nil {
		return nil
	}
	return b.record.Episode(e)
}

// Episodes is how many there are, without the look at half the load.
func (b *clusterBook) Episodes() (n int, err error) {
	run, err := spec.ReadRun(runFiles(b.dir))
	if err != nil {
		return 0, badRecord(b.dir, err)
	}
	for _, number := range run.Numbers() {
		if number > 0 {
			n++
		}
	}
	return n, nil
}

// Spool is an empty file that a record is fetched into.
func (b *clusterBook) Spool() (graph.Spool, error) {
	if b.spool != nil {
		return b.spool, nil
	}
	f, err := os.OpenFile(besides(filepath.Join(b.dir, "record")), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, unwritten(err)
	}
	b.spool = f
	return f, nil
}

// Adopt takes the episodes of a fetched record in, each by one rename, and then what
// happened: kill the program in between, and what is there is readable.
func (b *clusterBook) Adopt(archive io.Reader) error {
	part := besides(filepath.Join(b.dir, "fetched"))
	defer func() { _ = os.RemoveAll(part) }() // what is left of it was taken over, or is of no use
	err := graph.ReadArchive(archive, func(name string, r io.Reader) error {
		path := filepath.Join(part, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		return writeWhole(path, func(w io.Writer) error { _, err := io.Copy(w, b.mask.File(name, r)); return err })
	})
	if err != nil {
		return unwritten(err)
	}
	fetched, err := spec.ReadRun(runFiles(part))
	if err != nil {
		return badRecord(part, err)
	}
	if fetched.Run.ID != b.record.run.ID {
		return unmeasured("", "the load's pod has the record of run %q, and this is %s", fetched.Run.ID, b.record.run.ID)
	}
	if err := b.takeOver(part); err != nil {
		return unwritten(err)
	}
	return nil
}

func (b *clusterBook) takeOver(part string) error {
	all, err := os.ReadDir(part)
	if err != nil {
		return err
	}
	for _, e := range all {
		if slices.Contains([]string{runFile, planFile, eventsFile, verdictFile, episodesDir}, e.Name()) {
			continue // what is the command's own, or has its turn below
		}
		if err := os.Rename(filepath.Join(part, e.Name()), filepath.Join(b.dir, e.Name())); err != nil && !os.IsExist(err) {
			return err
		}
	}
	episodes, err := os.ReadDir(filepath.Join(part, episodesDir))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, e := range episodes {
		to := filepath.Join(b.dir, episodesDir, e.Name())
		if _, err := os.Stat(to); err == nil {
			continue // it was fetched before
		}
		if err := os.Rename(filepath.Join(part, episodesDir, e.Name()), to); err != nil {
			return err
		}
	}
	if err := syncFolder(filepath.Join(b.dir, episodesDir)); err != nil {
		return err
	}
	_ = b.record.events.Close() // it is replaced
	if err := os.Rename(filepath.Join(part, eventsFile), filepath.Join(b.dir, eventsFile)); err != nil {
		return err
	}
	if err := syncFolder(b.dir); err != nil {
		return err
	}
	return b.appendEvents()
}

// Compact keeps the copy that a load has left in the cluster. It is no record that could
// be judged again, so that it does not stand where one would.
func (b *clusterBook) Compact(files map[string][]byte) (*spec.Verdict, error) {
	v := &spec.Verdict{}
	if err := json.Unmarshal(files[verdictFile], v); err != nil {
		return nil, unmeasured("", "the load's copy of its verdict cannot be read: %w", err)
	}
	if v.Schema != spec.VerdictSchema || !v.Verdict.Verdict() {
		return nil, unmeasured("", "the load's copy of its verdict has no verdict that is known here: %q of schema %q", v.Verdict, v.Schema)
	}
	for name, data := range files {
		if !fs.ValidPath(name) {
			continue
		}
		if err := b.write(filepath.Join(compactDir, filepath.FromSlash(name)), data); err != nil {
			return v, err
		}
	}
	return v, nil
}

// Diagnostic keeps a file of diagnostics.
func (b *clusterBook) Diagnostic(name string, data []byte) error {
	if !fs.ValidPath(name) {
		return fmt.Errorf("%q is no name of a file", name)
	}
	return b.write(filepath.Join(diagnosticsDir, filepath.FromSlash(name)), data)
}

// knows says where what was seen on the cluster is kept, if any of it is.
func (b *clusterBook) knows() string {
	index := filepath.Join(b.dir, diagnosticsDir, "index.txt")
	if _, err := os.Stat(index); err != nil {
		return ""
	}
	return "what was seen of it on the cluster begins in " + index
}

func (b *clusterBook) write(name string, data []byte) error {
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return unwritten(err)
	}
	return writePrivate(path, data)
}

// Judge judges what is kept.
func (b *clusterBook) Judge(ctx context.Context) (*spec.Verdict, []spec.Event, error) {
	run, err := spec.ReadRun(runFiles(b.dir))
	if err != nil {
		return nil, nil, badRecord(b.dir, err)
	}
	hideSecrets(run)
	v, err := rejudge(ctx, b.dir, run, run.Plan)
	return v, run.Events, err
}

// deployment is what the run was of, for a history: where it was, and what the record says
// of the runtime and the GPUs.
func (b *clusterBook) deployment(workers int) spec.Deployment {
	d := spec.NewDeployment(b.record.run.Target, workers)
	run, err := spec.ReadRun(runFiles(b.dir))
	if err != nil {
		return d // that it cannot be read was told by who judged it
	}
	judge.LearnDeployment(&d, run.Events, nil)
	if len(d.GPUs) > 0 {
		return d
	}
	// No claim said which GPU is whose. An exporter may, beside those of others.
	ours := map[string]bool{}
	for _, e := range run.Events {
		if e.Kind == spec.EventPlaced {
			ours[e.Worker] = true
		}
	}
	for _, number := range run.Numbers() {
		for s, err := range run.Samples(number) {
			if err != nil {
				break
			}
			if s.GPU != nil && ours[s.GPU.Pod] {
				judge.LearnDeployment(&d, nil, []spec.Sample{*s})
			}
		}
	}
	return d
}

// close ends the folder. A verdict that does not follow from what is in it is not written
// there.
func (b *clusterBook) close(end *graph.End, at time.Time) error {
	if b.spool != nil {
		_ = b.spool.Close()
		_ = os.Remove(b.spool.Name()) // its content was taken over
	}
	if end.Verdict == nil || end.IsCopy() {
		_ = b.record.events.Close() // what was written is on the disk
		return b.record.lost
	}
	return b.record.close(end.Verdict, at)
}
