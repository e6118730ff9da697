package graph

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// loadedCluster is memoryAPI with a load's pod on it that can be asked.
type loadedCluster struct {
	patched
	exec  func(ctx context.Context, stdout io.Writer) error
	execs []string // the last word of each command, and what was deleted before it
}

func (c *loadedCluster) Exec(ctx context.Context, _, _, _ string, command []string, stdout io.Writer) error {
	word := command[len(command)-1]
	c.mu.Lock()
	deleted := slices.ContainsFunc(c.writes, func(w string) bool { return strings.HasPrefix(w, "delete ") })
	c.mu.Unlock()
	if deleted {
		word += " after something was deleted"
	}
	c.execs = append(c.execs, word)
	if word == "--received" {
		return nil
	}
	return c.exec(ctx, stdout)
}

// takingBook is a memoryBook that a fetched record is taken into: what happened is told in
// it from the beginning.
type takingBook struct {
	memoryBook
	spool Spool
}

func (b *takingBook) Spool() (Spool, error) { return b.spool, nil }
func (b *takingBook) Adopt(r io.Reader) error {
	b.events = []spec.Event{{Kind: spec.EventStage, Stage: "start"}, {T: 9, Kind: spec.EventInterrupt, Text: "interrupted"}}
	return wholeRecord(r, memoryRun)
}
func (b *takingBook) Compact(map[string][]byte) (*spec.Verdict, error) {
	return &spec.Verdict{Verdict: spec.Inconclusive, Reason: "of the copy"}, nil
}

// Who interrupts a load keeps what it has measured, or is told that it could not be had;
// it takes no longer than is said, and what was made is taken away then.
func TestAnInterruptedLoadIsEndedInGoodOrderAndItsRecordIsFetched(t *testing.T) {
	gives := func(t *testing.T) func(context.Context, io.Writer) error {
		return func(_ context.Context, stdout io.Writer) error {
			_, _ = stdout.Write(recordOf(t, memoryRun)) // as the client's copy does: its error is nobody's
			return nil
		}
	}
	pod := func(phase string, state map[string]any) kube.Object {
		o := podWith(phase, state)
		meta := o["metadata"].(map[string]any)
		meta["labels"] = map[string]any{"batch.kubernetes.io/job-name": NamesOf(memoryRun).Load}
		return o
	}
	runs := func() kube.Object { return pod("Running", map[string]any{"running": map[string]any{}}) }
	for name, c := range map[string]struct {
		set   func(c *loadedCluster, k *Kept)
		pod   kube.Object
		exec  func(context.Context, io.Writer) error
		room  int
		execs []string
		by    string
		told  int // times that the command tells the record of the interrupt itself
		stays bool
		stage string
		said  []string
	}{
		"its record is had": {exec: gives(t), execs: []string{"--stop", "--received"}, by: ByRecord, stage: StageJudged,
			said: []string{"it is told to end, and the record of what it has measured is fetched, for 1m0s at most"}},
		"its pod does not answer": {exec: func(ctx context.Context, _ io.Writer) error { <-ctx.Done(); return context.Cause(ctx) },
			execs: []string{"--stop"}, told: 1, stage: StageJudged, said: []string{"for 1m0s at most", "the load's record could not be fetched, and what it has measured does not count: not had in 1m0s"}},
		"its pod refuses": {exec: func(context.Context, io.Writer) error { return errors.New("unknown flag: --stop") },
			execs: slices.Repeat([]string{"--stop"}, fetchTries), told: 1, stage: StageJudged, said: []string{"could not be fetched", "unknown flag: --stop"}},
		"it is gone, and has left a copy": {pod: pod("Failed", map[string]any{"terminated": map[string]any{"exitCode": 3.0}}), by: ByConfigMap, stage: StageJudged,
			set: func(c *loadedCluster, k *Kept) {
				c.put(resConfigMaps, ResultCopy(k.Settings, []ResultFile{{"verdict.json", []byte("{}")}}))
			}},
		"it is gone, and has left nothing": {pod: pod("Failed", map[string]any{"terminated": map[string]any{"exitCode": 137.0}}), told: 1, stage: StageJudged,
			said: []string{"could not be fetched, and what it has measured does not count: the load's container was killed"}},
		"it cannot be fetched, and has left a copy": {exec: func(context.Context, io.Writer) error { return errors.New("connection reset") },
			execs: slices.Repeat([]string{"--stop"}, fetchTries), by: ByConfigMap, stage: StageJudged,
			set: func(c *loadedCluster, k *Kept) {
				c.put(resConfigMaps, ResultCopy(k.Settings, []ResultFile{{"verdict.json", []byte("{}")}}))
			}},
		"it has not begun": {pod: pod("Pending", nil), told: 1, stage: StageJudged},
		"there is no room here": {exec: gives(t), room: 10, execs: []string{"--stop"}, told: 1, stays: true, stage: StageLoad,
			said: []string{"for 1m0s at most"}},
		"it is to stay": {exec: gives(t), told: 1, stays: true, stage: StageLoad, set: func(_ *loadedCluster, k *Kept) { k.Settings.NoCleanup = true },
			said: []string{"interrupted during the load, which goes on: 'aicr validate --attach RUN --namespace mine' gets what it comes to"}},
		"it is AIPerf's": {exec: gives(t), told: 1, stage: StageJudged, said: []string{"AIPerf gives no result before its end, so that nothing of it is kept"},
			set: func(c *loadedCluster, k *Kept) {
				k.Settings.Engine, k.Settings.AIPerf, k.Plan.Profile = EngineAIPerf, &AIPerfLoad{Concurrency: 1}, spec.ProfileClassic
				c.put(resNamespaces, kube.Object{"kind": "Namespace", "metadata": map[string]any{"name": LoadNamespace(k.Settings), "labels": words(Labels(memoryRun, PartGraph))}})
				moved := runs()
				moved["metadata"].(map[string]any)["namespace"] = LoadNamespace(k.Settings)
				moved["status"].(map[string]any)["containerStatuses"].([]any)[0].(map[string]any)["name"] = AIPerfContainer
				c.put(resPods, moved)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := keptRun()
				k.Stage, k.Settings.PodWithin = StageLoad, Duration(time.Hour)
				api := &loadedCluster{patched: patched{newMemory()}, exec: c.exec}
				if c.pod == nil {
					c.pod = runs()
				}
				ctx, interrupt := context.WithCancelCause(t.Context())
				why := errors.New("interrupted")
				if c.pod.Text("status", "phase") == "Failed" {
					api.put(resPods, runs()) // until it is interrupted
				} else {
					api.put(resPods, c.pod)
				}
				if c.set != nil {
					c.set(api, k)
				}
				data, err := k.data()
				if err != nil {
					t.Fatal(err)
				}
				api.put(keptResource, kube.Object{"kind": "ConfigMap", "data": data, "metadata": map[string]any{"name": NamesOf(memoryRun).Kept, "namespace": "aicr-validation", "labels": words(Labels(memoryRun, PartKept))}})
				room := c.room
				if room == 0 {
					room = 1 << 20
				}
				h, book := &heard{}, &takingBook{memoryBook{plan: k.Plan}, &fullSpool{room: room}}
				r := &Run{API: api, Kept: k, Book: book, Told: h.told(), Now: time.Now, Hear: func(LoadLine) {}, Attach: "aicr validate --attach RUN --namespace mine"}
				var interrupted time.Time
				judged := time.Duration(0)
				r.Judged = func(*End) { judged = time.Since(interrupted) }
				go func() {
					time.Sleep(61 * time.Second) // between two looks
					if c.pod.Text("status", "phase") == "Failed" {
						api.put(resPods, c.pod)
					}
					interrupted = time.Now()
					interrupt(why)
				}()
				end, err := r.Go(ctx)
				if !errors.Is(err, why) || end.Verdict == nil || end.Verdict.Verdict != spec.Inconclusive {
					t.Errorf("%+v, %v", end.Verdict, err)
				}
				if !slices.Equal(api.execs, c.execs) || end.By != c.by {
					t.Errorf("asked %q and by %q, want %q and %q", api.execs, end.By, c.execs, c.by)
				}
				told := 0
				for _, e := range k.Events {
					if e.Kind == spec.EventInterrupt {
						told++
					}
				}
				if told != c.told {
					t.Errorf("the command tells %d times of the interrupt, want %d: %+v", told, c.told, k.Events)
				}
				if most := salvageWithin + diagnoseBrief; judged > most {
					t.Errorf("judged after %s, want %s at most", judged, most)
				}
				if left := ownLeft(api.memoryAPI); len(left) > 0 != c.stays || (end.Stays || end.Waits) != c.stays || k.Stage != c.stage {
					t.Errorf("at stage %s, want %s; left %q of %+v", k.Stage, c.stage, left, end)
				}
				said := strings.Join(h.said, "\n")
				for _, want := range c.said {
					if !strings.Contains(said, want) {
						t.Errorf("%q is not said:\n%s", want, said)
					}
				}
			})
		})
	}
}
