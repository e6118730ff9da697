package graph

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// ledLoad is fakeLoad with Patch.
type ledLoad struct{ *fakeLoad }

func (ledLoad) Patch(context.Context, kube.Resource, string, string, kube.Object) (kube.Object, error) {
	return kube.Object{}, nil
}

// fullBook is a memoryBook on a disk that may be full.
type fullBook struct {
	memoryBook
	spool Spool
	adopt error
	done  *[]string
}

func (b *fullBook) Spool() (Spool, error) {
	if b.spool == nil {
		return nil, syscall.ENOSPC
	}
	return b.spool, nil
}
func (b *fullBook) Adopt(r io.Reader) error {
	*b.done = append(*b.done, "adopt")
	if b.adopt != nil {
		return b.adopt
	}
	return wholeRecord(r, testRun)
}

// fullSpool takes some bytes and no more. Who copies into it does not tell.
type fullSpool struct {
	memorySpool
	room int
}

func (s *fullSpool) Write(p []byte) (int, error) {
	if len(s.data)+len(p) > s.room {
		return 0, syscall.ENOSPC
	}
	return s.memorySpool.Write(p)
}

// A pod that is let go takes its record with it: that has to be safe by then. What cannot
// be kept here stays there, whatever it was that was full.
func TestALoadIsLetGoWhenItsRecordIsSafeAndNotBefore(t *testing.T) {
	for name, c := range map[string]struct {
		adopt error
		room  int
		want  []string
		waits bool
	}{
		"it is taken in":                   {nil, 1 << 20, []string{"fetch", "adopt", "received"}, false},
		"it cannot be taken in":            {syscall.ENOSPC, 1 << 20, []string{"fetch", "adopt"}, true},
		"there is no room for the archive": {nil, 10, []string{"fetch"}, true},
		"there is no room for a file":      {nil, 0, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				var done []string
				f.exec = func(command []string, stdout io.Writer) error {
					if slices.Contains(command, "--received") {
						done = append(done, "received")
						return nil
					}
					done = append(done, "fetch")
					_, _ = stdout.Write(recordOf(t, testRun)) // as the client's copy does: its error is nobody's
					return nil
				}
				f.log = []string{numberedLine(1, LineDone, "done")}
				k := keptRun()
				k.Settings = testSettings()
				book := &fullBook{adopt: c.adopt, done: &done}
				if c.room > 0 {
					book.spool = &fullSpool{room: c.room}
				}
				r := &Run{API: ledLoad{f}, Kept: k, Told: (&heard{}).told(), Now: time.Now, Book: book}
				end, err := r.follow(t.Context())
				if !slices.Equal(done, c.want) || end.Waits != c.waits || (err != nil) != c.waits || c.waits && !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("done %q, %+v, %v", done, end, err)
				}
				if !c.waits {
					return
				}
				r.API = nil // nothing is asked of the cluster, and nothing is taken away
				if end, err := r.takeAway(t.Context(), end, err); end.Stays || !end.Waits || err == nil {
					t.Errorf("%+v, %v", end, err)
				}
			})
		})
	}
}

func TestARecordThatWasTakenInIsNotAskedForAgain(t *testing.T) {
	for _, stage := range []string{"start", "episode"} {
		k := keptRun()
		k.Stage, k.Events = StageLoad, []spec.Event{{Kind: spec.EventStage, Stage: stage}}
		r := &Run{Kept: k} // whose cluster could not be asked
		if end, err := r.measure(t.Context()); err != nil || end.By != ByRecord {
			t.Errorf("%s: %+v, %v", stage, end, err)
		}
	}
	if Recorded([]spec.Event{{Kind: spec.EventGPUs}, {Kind: spec.EventStage, Stage: "end"}}) {
		t.Error("a run that came to no load is taken for one that did")
	}
}

func TestAConfigMapOfSomebodyElseIsNotWrittenTo(t *testing.T) {
	for name, labels := range map[string]string{"nobody's": `{}`, "another run's": `{"aicr.run/owner":"aicr","aicr.run/run":"other"}`} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.put(keptResource, objectOf(t, `{"kind":"ConfigMap","metadata":{"name":"`+NamesOf(memoryRun).Kept+`","namespace":"aicr-validation","labels":`+labels+`}}`))
			err := keptRun().begin(t.Context(), patched{m}, time.Now(), (&heard{}).told())
			if _, foreign := errors.AsType[*ForeignError](err); !foreign {
				t.Errorf("%s: %v", name, err)
			}
			if slices.ContainsFunc(m.writes, func(w string) bool { return strings.Contains(w, "ConfigMap") }) {
				t.Errorf("%s: written: %q", name, m.writes)
			}
		})
	}
}

func TestANamespaceThatNeverGoesIsNotWaitedForWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.put(resNamespaces, objectOf(t, `{"kind":"Namespace","metadata":{"name":"aicr-validation","deletionTimestamp":"2026-01-01T00:00:00Z"}}`))
		began := time.Now()
		err := keptRun().begin(t.Context(), patched{m}, time.Now(), (&heard{}).told())
		if err == nil || !strings.Contains(err.Error(), "has been terminating for more than") || time.Since(began) > terminatingWithin+2*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func TestAServerThatIsAwayDoesNotKeepALoadWaitingForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLoad()
		f.pod, f.away = nil, true
		s := testSettings()
		s.PodWithin = Duration(time.Minute)
		if _, err := StartLoad(t.Context(), f, s, runPlan(), Told{}); !kube.IsAway(err) {
			t.Errorf("%v", err)
		}
	})
}

// A word that is no verdict is no result, whoever wrote it.
func TestAMessageWithoutAVerdictThatIsKnownIsNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeLoad()
		f.pod = ended(0, "Completed", message(LoadMessage{Stage: "done", Verdict: "GREAT"}))
		out, err := FollowLoad(t.Context(), f, testSettings(), Told{}, &memorySpool{}, nil)
		if err != nil || out.By != "" || out.Why == "" {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

// What is left of a load that cannot be asked any more is its verdict, or that it has none.
func TestALoadThatIsGoneLeavesItsLastWordOrNone(t *testing.T) {
	for name, c := range map[string]struct {
		pod     kube.Object
		by      string
		verdict spec.State
		event   string
	}{
		"its last word":       {ended(1, "Error", message(LoadMessage{Stage: "done", Verdict: "FAIL", Reason: "x", Findings: []string{"worker/stall"}})), ByMessage, spec.Fail, ""},
		"killed for memory":   {ended(137, "OOMKilled", ""), "", "", "OOMKilled"},
		"a crash is no skip":  {ended(2, "Error", message(LoadMessage{Stage: "episode 1"})), "", "", "Exit"},
		"an end, and nothing": {ended(0, "Completed", ""), "", "", "Exit"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				f.pod = c.pod
				k := keptRun()
				k.Settings = testSettings()
				book := &memoryBook{plan: k.Plan}
				r := &Run{API: ledLoad{f}, Kept: k, Told: (&heard{}).told(), Now: time.Now, Book: book}
				end, err := r.follow(t.Context())
				if err != nil || end.By != c.by || end.Missing == "" {
					t.Fatalf("%+v, %v", end, err)
				}
				if c.by != "" {
					if end.Verdict == nil || end.Verdict.Verdict != c.verdict || len(end.Verdict.Notes) != 1 {
						t.Errorf("%+v", end.Verdict)
					}
					return
				}
				if end.Verdict != nil || len(book.events) != 1 || book.events[0].Kind != spec.EventInterrupt || book.events[0].Reason != c.event {
					t.Errorf("%+v of %+v", end.Verdict, book.events)
				}
				if end, err = r.judge(t.Context(), end); err != nil || end.Verdict.Verdict != spec.Invalid {
					t.Errorf("%+v, %v", end.Verdict, err)
				}
			})
		})
	}
}
