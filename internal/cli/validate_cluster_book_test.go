package cli

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/checks/graph"
	"aicr/internal/redact"
	"aicr/internal/spec"
)

// loadRecord is the record of a load, as its pod has it: its folder, and the archive.
func loadRecord(t *testing.T) (dir string, record *spec.RecordedRun, archive []byte) {
	t.Helper()
	dir, code, said := validated(t, "--sim", "small", "--profile", "smoke", "-q")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	record, err := spec.ReadRun(os.DirFS(dir))
	if err != nil || len(record.Numbers()) < 2 {
		t.Fatalf("%v, and episodes %v", err, record.Numbers())
	}
	var b bytes.Buffer
	if err := graph.WriteArchive(&b, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return dir, record, b.Bytes()
}

// keptOf is what the cluster keeps of a run whose load has begun.
func keptOf(record *spec.RecordedRun) *graph.Kept {
	run := record.Run
	run.End = ""
	return &graph.Kept{Run: run, Plan: record.Plan, Stage: graph.StageLoad, Events: []spec.Event{{Kind: spec.EventVersions, Runtime: "x", Chart: "x"}}}
}

// bookOf begins a folder, as a command does that then follows a load.
func bookOf(t *testing.T, kept *graph.Kept) *clusterBook {
	t.Helper()
	b, err := (&app{}).openBook(filepath.Join(t.TempDir(), "run"), kept.Run, kept.Plan, kept.Events)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ended judges a book and closes it, and holds its verdict against that of aicr judge.
func ended(t *testing.T, b *clusterBook) []byte {
	t.Helper()
	v, _, err := b.Judge(t.Context())
	if err == nil {
		err = b.close(&graph.End{Verdict: v, By: graph.ByRecord}, time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	verdict := readFile(t, b.dir, verdictFile)
	if said, _ := rejudged(t, b.dir); !bytes.Equal(said, verdict) {
		t.Errorf("aicr judge says something else:\n%s", cmp.Diff(string(verdict), string(said)))
	}
	all, err := os.ReadDir(b.dir)
	for _, e := range all {
		if strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(e.Name(), ".left") {
			t.Errorf("%s is left", e.Name())
		}
	}
	if err != nil {
		t.Error(err)
	}
	return verdict
}

// Wherever a program is killed while it takes a record in, what is there can be read and
// judged, and whoever comes next has the same verdict as if nobody had been killed.
func TestAKillWhileARecordIsTakenInLosesNothing(t *testing.T) {
	t.Parallel()
	pod, record, archive := loadRecord(t)
	whole := bookOf(t, keptOf(record))
	if err := whole.Adopt(bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	want := ended(t, whole)
	numbers := record.Numbers()
	for done := 0; done <= len(numbers)+1; done++ {
		kept := keptOf(record)
		killed := bookOf(t, kept)
		fetched := filepath.Join(killed.dir, ".left-fetched")
		if err := os.CopyFS(fetched, os.DirFS(pod)); err != nil {
			t.Fatal(err)
		}
		for _, n := range numbers[:min(done, len(numbers))] {
			name := filepath.Join(episodesDir, fmt.Sprintf("%03d", n))
			if err := os.Rename(filepath.Join(fetched, name), filepath.Join(killed.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if done > len(numbers) {
			if err := os.Rename(filepath.Join(fetched, eventsFile), filepath.Join(killed.dir, eventsFile)); err != nil {
				t.Fatal(err)
			}
		}
		if _, code := rejudged(t, killed.dir); code == int(Misused) {
			t.Errorf("killed after %d: it cannot be judged", done)
		}
		next, err := (&app{}).reopenBook(killed.dir, kept)
		if err != nil {
			t.Fatal(err)
		}
		if taken := graph.Recorded(kept.Events); taken != (done > len(numbers)) {
			t.Errorf("killed after %d: the record is taken in: %t", done, taken)
		} else if !taken { // the pod has it still
			err = next.Adopt(bytes.NewReader(archive))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := ended(t, next); !bytes.Equal(got, want) {
			t.Errorf("killed after %d, it comes to another verdict:\n%s", done, cmp.Diff(string(want), string(got)))
		}
	}
}

func TestARecordThatIsNotThisRunsOrNotWholeIsNotTakenIn(t *testing.T) {
	t.Parallel()
	_, record, archive := loadRecord(t)
	kept := keptOf(record)
	kept.Run.ID = "another"
	for name, c := range map[string]struct {
		kept    *graph.Kept
		archive []byte
	}{
		"another run's": {kept, archive},
		"cut off":       {keptOf(record), archive[:len(archive)-40]},
		"nothing":       {keptOf(record), nil},
	} {
		b := bookOf(t, c.kept)
		before := readFile(t, b.dir, eventsFile)
		if err := b.Adopt(bytes.NewReader(c.archive)); err == nil {
			t.Errorf("%s: it is taken in", name)
		}
		there, err := spec.ReadRun(os.DirFS(b.dir))
		if err != nil || len(there.Numbers()) > 0 || !bytes.Equal(before, readFile(t, b.dir, eventsFile)) {
			t.Errorf("%s: it left something: %v", name, err)
		}
		if err := b.Event(spec.Event{Kind: spec.EventInterrupt, Reason: "Lost", Text: "x"}); err != nil {
			t.Errorf("%s: the run cannot be gone on with: %v", name, err)
		}
	}
}

// A program that was killed while it wrote leaves half a line, which must not swallow the
// next one.
func TestARunIsGoneOnWithAfterHalfALine(t *testing.T) {
	t.Parallel()
	_, record, archive := loadRecord(t)
	kept := keptOf(record)
	b := bookOf(t, kept)
	if err := b.Adopt(bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	whole := readFile(t, b.dir, eventsFile)
	if err := os.WriteFile(filepath.Join(b.dir, eventsFile), append(bytes.Clone(whole), `{"t":9,"ki`...), 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := (&app{}).reopenBook(b.dir, kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Event(spec.Event{T: 10, Kind: spec.EventLog, Text: "afterwards"}); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, b.dir, eventsFile); !bytes.HasPrefix(got, whole) || bytes.Count(got[len(whole):], []byte("\n")) != 1 || !bytes.Contains(got[len(whole):], []byte("afterwards")) {
		t.Errorf("after it: %s", got[len(whole):])
	}
}

// A server may repeat the token to the load, which does not know it. The command does.
func TestATokenInARecordIsNotTakenIn(t *testing.T) {
	t.Parallel()
	const token = "mirrorQxZvWkRtYpLm"
	pod, record, _ := loadRecord(t)
	rewrite := func(name, from, to string) {
		path := filepath.Join(pod, name)
		data := bytes.Replace(unpacked(t, path), []byte(from), []byte(to), 1)
		if !bytes.Contains(data, []byte(token)) {
			t.Fatalf("%s has no %s", name, from)
		}
		if strings.HasSuffix(name, ".gz") {
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, _ = w.Write(data)
			_ = w.Close() // it is in memory
			data = packed.Bytes()
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(filepath.Join(episodesDir, "001", "requests.jsonl.gz"), `"class":"ok"`, `"class":"ok","detail":"refused: `+token+`"`)
	rewrite(eventsFile, "}\n", "}\n"+`{"t":0,"kind":"log","text":"refused: `+token+`"}`+"\n")
	var archive bytes.Buffer
	if err := graph.WriteArchive(&archive, os.DirFS(pod)); err != nil {
		t.Fatal(err)
	}
	b := bookOf(t, keptOf(record))
	b.mask = redact.NewMask(string(token))
	if err := b.Adopt(&archive); err != nil {
		t.Fatal(err)
	}
	ended(t, b)
	said := 0
	err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data := unpacked(t, path)
		if bytes.Contains(data, []byte(token)) {
			t.Errorf("the token is in %s", path)
		}
		said += bytes.Count(data, []byte("refused: ***"))
		return nil
	})
	if err != nil || said != 2 {
		t.Errorf("%d of the two lines are there: %v", said, err)
	}
}

// unpacked is the content of a file.
func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil && strings.HasSuffix(path, ".gz") {
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, err = io.ReadAll(r)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The compact copy is no record: it stands beside the run, and its verdict is not the
// folder's.
func TestACompactCopyIsKeptBesideTheRun(t *testing.T) {
	t.Parallel()
	_, record, _ := loadRecord(t)
	book := func() *clusterBook { return bookOf(t, keptOf(record)) }
	good := []byte(`{"schema":"` + spec.VerdictSchema + `","verdict":"FAIL","reason":"x"}`)
	b := book()
	v, err := b.Compact(map[string][]byte{verdictFile: good, "episodes/001/episode.json": []byte("{}"), "../out": []byte("x")})
	if err != nil || v.Verdict != spec.Fail {
		t.Errorf("%+v, %v", v, err)
	}
	if err := b.close(&graph.End{Verdict: v, By: graph.ByConfigMap}, time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, verdictFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy's verdict is the folder's: %v", err)
	}
	if !bytes.Equal(readFile(t, b.dir, compactDir, verdictFile), good) {
		t.Error("the copy is not kept")
	}
	if _, err := os.Stat(filepath.Join(b.dir, "out")); err == nil {
		t.Error("a file was written elsewhere")
	}
	for name, bad := range map[string]string{"no JSON": "x", "no verdict": `{"schema":"` + spec.VerdictSchema + `"}`, "a word that is none": `{"schema":"` + spec.VerdictSchema + `","verdict":"GREAT"}`, "another schema": `{"verdict":"PASS"}`} {
		if v, err := book().Compact(map[string][]byte{verdictFile: []byte(bad)}); err == nil || v != nil {
			t.Errorf("%s: %+v", name, v)
		}
	}
	full := book()
	if err := os.WriteFile(filepath.Join(full.dir, compactDir), nil, 0o600); err != nil { // nothing can be written below it
		t.Fatal(err)
	}
	if v, err := full.Compact(map[string][]byte{verdictFile: good}); err == nil || v == nil || v.Verdict != spec.Fail {
		t.Errorf("what cannot be written takes the verdict with it: %+v, %v", v, err)
	}
}
