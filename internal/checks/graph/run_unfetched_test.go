package graph

import (
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
		"the server is away, and comes back": {func(f *fakeLoad) {
			f.exec = func(_ []string, stdout io.Writer) error {
				f.mu.Lock()
				defer f.mu.Unlock()
				if len(f.execs) == 1 {
					f.away = true
					time.AfterFunc(time.Hour, func() { f.change(func() { f.away = false }) })
				}
				if f.away {
					return refused
				}
				_, err := stdout.Write(recordOf(t, testRun))
				return err
			}
		}, ByRecord, false, nil, "gone"},
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
