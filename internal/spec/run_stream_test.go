package spec_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"aicr/internal/spec"

	"github.com/google/go-cmp/cmp"
)

// streamDiffers says how an episode that is read as a stream is another one than that
// which was read whole.
func streamDiffers(r *spec.RecordedRun, number int, whole *spec.EpisodeRecord, wrong error) error {
	e, summary := r.Summary(number)
	if summary != nil {
		if wrong == nil || !strings.HasPrefix(wrong.Error(), summary.Error()) {
			return fmt.Errorf("the summary alone: %w; whole: %w", summary, wrong)
		}
		return nil
	}
	streamed := spec.EpisodeRecord{Episode: *e}
	var failed []error
	for q, err := range r.Requests(number) {
		if err != nil {
			failed = append(failed, err)
			continue
		}
		own := *q
		if q.Cached != nil {
			own.Cached = new(*q.Cached)
		}
		if q.Events != nil {
			own.Events, own.TextBytes = new(*q.Events), new(*q.TextBytes)
		}
		streamed.Requests = append(streamed.Requests, own)
	}
	for s, err := range r.Samples(number) {
		if err != nil {
			failed = append(failed, err)
			continue
		}
		streamed.Series = append(streamed.Series, ownSample(s))
	}
	err := errors.Join(failed...)
	if wrong == nil {
		if diff := cmp.Diff(whole, &streamed, cmp.FilterValues(func(a, b []spec.Sample) bool { return len(a)+len(b) == 0 }, cmp.Ignore())); err != nil || diff != "" {
			return fmt.Errorf("the stream: %w (-whole +stream):\n%s", err, diff)
		}
		return nil
	}
	// A file that is wrong hides from the whole reader what the other one sums up to.
	for line := range strings.Lines(wrong.Error()) {
		if err == nil || !strings.Contains(err.Error()+"\n", strings.TrimSuffix(line, "\n")+"\n") {
			return fmt.Errorf("the stream: %w; whole: %w", err, wrong)
		}
	}
	return nil
}

// ownSample is a sample that outlives the stream.
func ownSample(s *spec.Sample) spec.Sample {
	own := *s
	if s.Worker != nil {
		own.Worker = new(*s.Worker)
		for _, v := range []**float64{&own.Worker.Running, &own.Worker.Waiting, &own.Worker.Generated} {
			if *v != nil {
				*v = new(**v)
			}
		}
	}
	return own
}

// manyLines are requests that differ in everything that a stream might mix up.
func manyLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"seq":%d,"lane":"closed","phase":"steady","intended":%[1]d,"sent":%[1]d,"first":%d,"last":%d,"end":%[4]d,"prompt":1,"cached":%[1]d,"tokens":2,"worker":"w%[5]d","class":"ok"}`+"\n",
			i, i+10, i+20, i+30, i%5000)
	}
	return b.String()
}

func manyRequests(t *testing.T, n int, lines string) *spec.RecordedRun {
	t.Helper()
	files := recorded(t)
	written("episodes/002/requests.jsonl.gz", zipped(t, lines))(files)
	replaced("episodes/002/episode.json", `"requests": {"sent": 2, "served": 1, "failed": 1, "interrupted": 0, "classes": {"ok": 1, "http-status": 1}},
  "sentinel": {"sent": 1, "served": 0, "failed": 0, "interrupted": 1, "classes": {"interrupted": 1}}`,
		fmt.Sprintf(`"requests": {"sent": %d, "served": %[1]d, "failed": 0, "interrupted": 0, "classes": {"ok": %[1]d}},
  "sentinel": {"sent": 0, "served": 0, "failed": 0, "interrupted": 0, "classes": {}}`, n))(files)
	r, err := spec.ReadRun(files)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestManyRequestsComeInTheirOrder(t *testing.T) {
	const n = 30_000
	r := manyRequests(t, n, manyLines(n))
	check := func(how string, i int, q *spec.Request) {
		if q.Seq != int64(i) || q.Sent != q.Seq || q.End != q.Seq+30 || *q.Cached != i || q.Worker != fmt.Sprintf("w%d", i%5000) {
			t.Fatalf("%s, line %d: %+v", how, i+1, q)
		}
	}
	i := 0
	for q, err := range r.Requests(2) {
		if err != nil {
			t.Fatal(err)
		}
		check("stream", i, q)
		i++
	}
	e, err := r.Episode(2)
	if err != nil || i != n || len(e.Requests) != n {
		t.Fatalf("%d and %d requests, %v", i, len(e.Requests), err)
	}
	for i := range e.Requests {
		check("whole", i, &e.Requests[i])
	}
}

func TestWhatIsWrongFarDownIsToldWithItsLine(t *testing.T) {
	const n = 30_000
	lines := strings.Replace(manyLines(n), `"seq":12345,`, `"seq":-12345,`, 1)
	lines = strings.Replace(lines, `"seq":23456,"lane":"closed"`, `"seq":23456,"lane":"open"`, 1)
	r := manyRequests(t, n, lines)
	want := "episodes/002/requests.jsonl.gz: line 12346: seq: -12345 cannot be\nepisodes/002/requests.jsonl.gz: line 23457: lane: \"open\" is not known here"
	_, err := r.Episode(2)
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("whole (-want +got):\n%s", diff)
	}
	good := 0
	for q, err := range r.Requests(2) {
		if err == nil {
			good++
			continue
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" || q != nil || good != 12345 {
			t.Errorf("stream, after %d (-want +got):\n%s", good, diff)
		}
	}
}

func TestAnEpisodeThatIsNotThereIsNotStreamed(t *testing.T) {
	r, err := spec.ReadRun(recorded(t))
	if err != nil {
		t.Fatal(err)
	}
	want := "episodes/003: is missing"
	_, summary := r.Summary(3)
	for q, requests := range r.Requests(3) {
		for s, samples := range r.Samples(3) {
			for _, err := range []error{summary, requests, samples} {
				if err == nil || err.Error() != want || q != nil || s != nil {
					t.Errorf("%v; want %s", err, want)
				}
			}
		}
	}
}

func TestASampleHasNothingOfAnEarlierOne(t *testing.T) {
	const n = 30_000
	var b strings.Builder
	for i := range n {
		if i%2 == 0 == (i < n/2) {
			fmt.Fprintf(&b, `{"t":%d,"source":"worker","name":"1","worker":{"running":%[1]d,"gpu":"GPU-1"}}`+"\n", i)
		} else {
			fmt.Fprintf(&b, `{"t":%d,"source":"worker","name":"1","worker":{"waiting":%[1]d,"pod":"w"}}`+"\n", i)
		}
	}
	files := recorded(t)
	written("episodes/001/series.jsonl", b.String())(files)
	replaced("episodes/001/episode.json", `{"source": "client", "expected": 1, "missing": 0}, {"source": "worker", "expected": 2, "missing": 1}`,
		fmt.Sprintf(`{"source": "worker", "expected": %d, "missing": 0}`, n))(files)
	r, err := spec.ReadRun(files)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for s, err := range r.Samples(1) {
		if err != nil {
			t.Fatal(err)
		}
		v := float64(i)
		want := &spec.WorkerSample{Waiting: &v, Pod: "w"}
		if i%2 == 0 == (i < n/2) {
			want = &spec.WorkerSample{Running: &v, GPU: "GPU-1"}
		}
		if !cmp.Equal(want, s.Worker) {
			t.Fatalf("line %d: %s", i+1, cmp.Diff(want, s.Worker))
		}
		i++
	}
	if i != n {
		t.Errorf("%d samples", i)
	}
}

// watchedFiles sees what becomes of the files that are opened.
type watchedFiles struct {
	fstest.MapFS
	open, afterClose atomic.Int32
	read             atomic.Int64
}

type watchedFile struct {
	fs.File
	by     *watchedFiles
	closed atomic.Bool
}

func (f *watchedFiles) Open(name string) (fs.File, error) {
	file, err := f.MapFS.Open(name)
	if err != nil {
		return nil, err
	}
	f.open.Add(1)
	return &watchedFile{File: file, by: f}, nil
}

// Read takes a while of virtual time, in which the file must not be closed.
func (f *watchedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.by.read.Add(int64(n))
	time.Sleep(5 * time.Millisecond)
	if f.closed.Load() {
		f.by.afterClose.Add(1)
	}
	return n, err
}

func (f *watchedFile) Close() error {
	f.by.open.Add(-1)
	f.closed.Store(true)
	return f.File.Close()
}

func TestWhoeverStopsEarlyLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 60_000
		lines := manyLines(n)
		files := recorded(t)
		written("episodes/001/requests.jsonl", lines)(files)
		watched := &watchedFiles{MapFS: files}
		r, err := spec.ReadRun(watched)
		if err != nil {
			t.Fatal(err)
		}
		for _, after := range []int{0, 1, 1500, 15_000} {
			watched.read.Store(0)
			seen := 0
			for q, err := range r.Requests(1) {
				if err != nil {
					t.Fatal(err)
				}
				if seen++; q.Seq >= int64(after) {
					break
				}
			}
			if seen != after+1 {
				t.Errorf("stopped after %d; want %d", seen, after+1)
			}
			if open := watched.open.Load(); open != 0 {
				t.Errorf("%d files are open", open)
			}
			if got := watched.read.Load(); got >= int64(len(lines)) {
				t.Errorf("all of %d bytes were read for %d lines", got, seen)
			}
		}
		time.Sleep(time.Second) // for a read that is still under way; a goroutine that is left over fails the test
		if n := watched.afterClose.Load(); n != 0 {
			t.Errorf("%d reads of a file that is closed", n)
		}
	})
}
