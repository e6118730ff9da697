package graph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"aicr/internal/kube"
	"aicr/internal/spec"
)

// Something between that lets no stream through takes nothing from the load's pod: its
// record is there, and is neither called gone nor removed.
func TestARecordThatCannotBeFetchedIsNotGone(t *testing.T) {
	refused := errors.New("the proxy says no")
	copied := ResultCopy(testSettings(), []ResultFile{{"verdict.json", []byte("{}")}})
	for name, c := range map[string]struct {
		play   func(f *fakeLoad)
		by     string
		waits  bool
		saying []string
		not    string
	}{
		"and there is a copy": {func(f *fakeLoad) { f.copied = copied }, ByConfigMap, false,
			[]string{"the load's record could not be fetched: the proxy says no", "this is the copy"}, "is gone"},
		"and there is none": {func(*fakeLoad) {}, "", true, []string{"the record could not be fetched: the proxy says no"}, "without a result"},
		"its pod ends meanwhile": {func(f *fakeLoad) {
			f.exec = func([]string, io.Writer) error {
				f.change(func() { f.pod = ended(1, "Error", message(LoadMessage{Stage: "done", Verdict: "FAIL"})) })
				return refused
			}
		}, ByMessage, false, []string{"the load's pod is gone and its record with it"}, "could not be fetched"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				f.exec = func([]string, io.Writer) error { return refused }
				f.log = []string{numberedLine(1, LineDone, "done")}
				c.play(f)
				k := keptRun()
				k.Settings = testSettings()
				h, book := &heard{}, &adoptingBook{takingBook{memoryBook{plan: k.Plan}, &memorySpool{}}}
				r := &Run{API: ledLoad{f}, Kept: k, Told: h.told(), Now: time.Now, Book: book}
				end, err := r.follow(t.Context())
				if end.By != c.by || end.Waits != c.waits || (err != nil) != c.waits || c.waits && !isUnfetched(err) {
					t.Errorf("%+v, %v", end, err)
				}
				said := end.Missing
				if err != nil {
					said = err.Error()
				}
				for _, w := range c.saying {
					if !strings.Contains(said, w) {
						t.Errorf("%q is not in: %s", w, said)
					}
				}
				if strings.Contains(said, c.not) {
					t.Errorf("%q is in: %s", c.not, said)
				}
				if c.waits && len(book.events) > 0 {
					t.Errorf("the record is told %+v", book.events)
				}
			})
		})
	}
}

// leavingLoad is a load whose API server goes away as the record is first asked for. Its
// calls are counted from then on.
type leavingLoad struct {
	ledLoad
	whole []byte
	back  int           // the number of the call that finds the server there again; 0: by after
	after time.Duration // how long the server is away

	mu    sync.Mutex
	calls int
	since time.Time
}

// call counts a call, and says whether the server is away for it.
func (l *leavingLoad) call(fetches bool) (away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == 0 && !fetches {
		return false
	}
	if l.calls++; l.calls == 1 {
		l.since = time.Now()
	}
	if l.back > 0 {
		return l.calls < l.back
	}
	return time.Since(l.since) < l.after
}

func (l *leavingLoad) Exec(_ context.Context, _, _, _ string, command []string, stdout io.Writer) error {
	if l.call(!slices.Contains(command, "--received")) {
		return errors.New("connection reset")
	}
	_, err := stdout.Write(l.whole)
	return err
}

func (l *leavingLoad) Read(ctx context.Context, r kube.Resource, namespace, name string) (kube.Object, error) {
	if l.call(false) {
		return nil, &kube.AwayError{For: time.Minute}
	}
	return l.ledLoad.Read(ctx, r, namespace, name)
}

func (l *leavingLoad) List(ctx context.Context, r kube.Resource, namespace, selector string) ([]kube.Object, error) {
	if l.call(false) {
		return nil, &kube.AwayError{For: time.Minute}
	}
	return l.ledLoad.List(ctx, r, namespace, selector)
}

// The record is fetched once the API server is back, whichever call finds it
// back first: a try, or the look after a try that failed because it was away.
func TestARecordIsFetchedWhenTheServerIsBack(t *testing.T) {
	const round = (fetchTries - 1) * fetchPause
	var cases []*leavingLoad
	for call := 2; call < 5*fetchTries; call++ {
		cases = append(cases, &leavingLoad{back: call})
	}
	for _, after := range []time.Duration{
		1, fetchPause - 1, fetchPause, fetchPause + 1, round - 1, round, round + 1, 2 * round, time.Hour,
	} {
		cases = append(cases, &leavingLoad{after: after})
	}
	for _, l := range cases {
		name := fmt.Sprintf("after %s", l.after)
		if l.back > 0 {
			name = fmt.Sprintf("at call %d", l.back)
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLoad()
				f.log = []string{numberedLine(1, LineDone, "done")}
				l.ledLoad, l.whole = ledLoad{f}, recordOf(t, testRun)
				k := keptRun()
				k.Settings = testSettings()
				h, book := &heard{}, &adoptingBook{takingBook{memoryBook{plan: k.Plan}, &memorySpool{}}}
				r := &Run{API: l, Kept: k, Told: h.told(), Now: time.Now, Book: book}
				if end, err := r.follow(t.Context()); err != nil || end.By != ByRecord || end.Missing != "" {
					t.Errorf("%+v, %v", end, err)
				}
			})
		})
	}
}

// Only tries in a row that fail with a server that answers count against the record.
func TestARecordIsGivenUpAfterTriesInARowWithAServerThatAnswers(t *testing.T) {
	refused := errors.New("the proxy says no")
	for name, c := range map[string]struct {
		away  []int // tries after which the server is away
		tries int
	}{
		"it answers":                         {nil, fetchTries},
		"it is away once":                    {[]int{1}, 1 + fetchTries},
		"it is away after the last but one":  {[]int{fetchTries - 1}, 2*fetchTries - 1},
		"it is away after what was the last": {[]int{fetchTries}, 2 * fetchTries},
		"it is away again and again":         {[]int{4, 8, 9, 13}, 13 + fetchTries},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, tries := newFakeLoad(), 0
				f.exec = func([]string, io.Writer) error {
					tries++
					f.change(func() { f.away = slices.Contains(c.away, tries) })
					return refused
				}
				began := time.Now()
				err := FetchLoad(t.Context(), f, testSettings(), Told{}, "load-x", &memorySpool{}, false)
				took := time.Since(began)
				if !errors.Is(err, refused) || tries != c.tries || took != time.Duration(c.tries-1)*fetchPause {
					t.Errorf("%d tries in %s, want %d: %v", tries, took, c.tries, err)
				}
			})
		})
	}
}

// Who interrupts waits no longer for a server that is away than they were told.
func TestAnInterruptedLoadIsWaitedForAsLongAsItsContext(t *testing.T) {
	const within = 50 * time.Second // at its end a pause is under way
	late := errors.New("not had in time")
	for _, after := range []time.Duration{30 * time.Second, time.Hour} {
		t.Run(fmt.Sprintf("the server is away for %s", after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leavingLoad{ledLoad: ledLoad{newFakeLoad()}, whole: recordOf(t, testRun), after: after}
				ctx, cancel := context.WithTimeoutCause(t.Context(), within, late)
				defer cancel()
				began := time.Now()
				out, err := EndLoad(ctx, l, testSettings(), Told{}, &memorySpool{})
				took := time.Since(began)
				if after < within {
					if err != nil || out.By != ByRecord || took != after {
						t.Errorf("%+v after %s, %v", out, took, err)
					}
					return
				}
				if took != within || !errors.Is(err, late) || !strings.Contains(err.Error(), "connection reset") || out.By != "" {
					t.Errorf("%+v after %s, %v", out, took, err)
				}
			})
		})
	}
}

// adoptingBook takes the record of testRun in.
type adoptingBook struct{ takingBook }

func (b *adoptingBook) Adopt(r io.Reader) error { return wholeRecord(r, testRun) }

// What was judged is not judged again by less: a folder that has not the episodes comes to
// nothing.
func TestAVerdictThatWasKeptIsNotReplacedByLess(t *testing.T) {
	verdict := func(episodes int) *spec.Verdict {
		v := passed()
		v.Episodes, v.Reason = episodes, "as it was judged"
		return v
	}
	taken := []spec.Event{{Kind: spec.EventStage, Stage: "episode", Episode: 1}, {Kind: spec.EventStage, Stage: "end"}}
	for name, c := range map[string]struct {
		events   []spec.Event
		kept     int
		episodes int
		want     string
	}{
		"AIPerf's, from another folder":     {taken, 1, 0, ByKept},
		"some of the episodes are here":     {taken, 3, 2, ByKept},
		"all of the episodes are here":      {taken, 3, 3, ""},
		"it never answered":                 {taken[1:], 0, 0, ByKept},
		"it was judged by a copy elsewhere": {nil, 3, 0, ByKept},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, k := newMemory(), keptRun()
			k.Stage, k.Verdict, k.Events, k.Settings.NoCleanup = StageJudged, verdict(c.kept), slices.Clone(c.events), true
			data, err := k.data()
			if err != nil {
				t.Fatal(err)
			}
			m.put(keptResource, kube.Object{"kind": "ConfigMap", "data": data, "metadata": map[string]any{"name": NamesOf(memoryRun).Kept, "namespace": "aicr-validation", "labels": words(Labels(memoryRun, PartKept))}})
			r, book, _ := newTestRun(m, k)
			book.events, book.episodes = slices.Clone(c.events), c.episodes
			end, err := r.Go(t.Context())
			if err != nil || end.By != c.want {
				t.Fatalf("%s: %+v, %v", name, end, err)
			}
			kept, err := FindKept(t.Context(), m, "aicr-validation", memoryRun)
			if err != nil {
				t.Fatal(err)
			}
			if stays := kept.Verdict.Reason == "as it was judged" && end.Verdict.Reason == kept.Verdict.Reason; stays != (c.want == ByKept) {
				t.Errorf("%s: kept is %s: %s", name, kept.Verdict.Verdict, kept.Verdict.Reason)
			}
		})
	}
}
