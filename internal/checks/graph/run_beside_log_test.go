package graph

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// slowLog is a cluster with a load on it whose log takes its time to be followed.
type slowLog struct {
	loadedCluster
	log    []string
	opens  time.Duration
	unread time.Duration // the log cannot be read in one go before
	breaks bool          // or only its first line
}

func (c *slowLog) Logs(ctx context.Context, _, pod, _ string, o kube.LogOptions) (io.ReadCloser, error) {
	switch early := !o.Follow && time.Since(synctestEpoch) < c.unread; {
	case pod != "load-x" || early && !c.breaks:
		return nil, errors.New("no log")
	case early:
		return io.NopCloser(io.MultiReader(strings.NewReader(c.log[0]+"\n"), iotest.ErrReader(errors.New("connection reset")))), nil
	}
	if o.Follow && pauseFor(ctx, c.opens) != nil {
		return nil, context.Cause(ctx)
	}
	return io.NopCloser(strings.NewReader(strings.Join(c.log, "\n") + "\n")), nil
}

// synctestEpoch is when a bubble begins.
var synctestEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Who attaches to a load that is under way may hear of that later than of a worker that
// has failed since: the measurement tells of it then, and not that nothing was served.
func TestAWorkerThatFailsUnderLoadIsNotTakenForAStart(t *testing.T) {
	first, second := numberedLine(1, LineStage, "start"), strings.Replace(numberedLine(2, LineStage, "x"), `"text"`, `"stage":"episode","text"`, 1)
	first = strings.Replace(first, `"text"`, `"stage":"start","text"`, 1)
	done := numberedLine(3, LineDone, "done")
	for name, c := range map[string]struct {
		log    []string
		unread time.Duration
		breaks bool
		served bool
	}{
		"under way":                             {[]string{first, second, done}, 0, false, true},
		"under way, and not to be read at once": {[]string{first, second, done}, 15 * time.Second, false, true},
		"under way, and the log breaks off":     {[]string{first, second, done}, 15 * time.Second, true, true},
		"it starts":                             {[]string{first}, 0, false, false},
		"it starts, and is not to be read yet":  {[]string{first}, 15 * time.Second, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := keptRun()
				k.Stage = StageLoad
				api := &slowLog{loadedCluster{patched: patched{newMemory()}, exec: func(_ context.Context, stdout io.Writer) error {
					_, err := stdout.Write(recordOf(t, memoryRun))
					return err
				}}, c.log, 20 * time.Second, c.unread, c.breaks}
				pod := running()
				pod["metadata"].(map[string]any)["labels"] = map[string]any{"batch.kubernetes.io/job-name": NamesOf(memoryRun).Load}
				api.put(resPods, pod)
				api.put(resPods, memoryPod("w-0", "worker", podNoImage))
				book := &takingBook{memoryBook{plan: k.Plan}, &memorySpool{}}
				r := &Run{API: api, Kept: k, Book: book, Told: (&heard{}).told(), Now: time.Now}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				end, err := r.follow(ctx)
				never := slices.ContainsFunc(k.Events, func(e spec.Event) bool { return e.Kind == spec.EventNotServed })
				if never == c.served || c.served && (err != nil || end.By != ByRecord) {
					t.Errorf("%+v, %v, told %+v", end, err, k.Events)
				}
			})
		})
	}
}
