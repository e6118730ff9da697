package graph

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// archiveOf packs headers and their bodies, as somebody hostile might.
func archiveOf(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range entries {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(data []byte) (map[string]string, error) {
	files := map[string]string{}
	err := ReadArchive(bytes.NewReader(data), func(name string, r io.Reader) error {
		text, err := io.ReadAll(r)
		files[name] = string(text)
		return err
	})
	return files, err
}

func TestARecordComesOutOfItsArchiveAsItWentIn(t *testing.T) {
	folder := fstest.MapFS{
		"run.json":                          {Data: []byte(`{"id":"r"}`)},
		"events.jsonl":                      {Data: []byte("{}\n{}\n")},
		"episodes/001/episode.json":         {Data: []byte("{}")},
		"episodes/001/requests.jsonl.gz":    {Data: bytes.Repeat([]byte{0, 1, 2}, 5000)},
		".episode.123.tmp/episode.json":     {Data: []byte("half")},
		"episodes/.hidden":                  {Data: []byte("hidden")},
		"verdict.json.tmp":                  {Data: []byte("half")},
		"episodes/link":                     {Data: []byte("run.json"), Mode: fs.ModeSymlink},
		"diagnostics/pods/worker-0/log.txt": {Data: []byte("hello\n")},
	}
	var one, two bytes.Buffer
	for _, b := range []*bytes.Buffer{&one, &two} {
		if err := WriteArchive(b, folder); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the same folder gives two archives")
	}
	want := map[string]string{}
	for name, f := range folder {
		if f.Mode == 0 && !strings.Contains(name, ".tmp") && !strings.Contains(name, "hidden") {
			want[name] = string(f.Data)
		}
	}
	got, err := read(one.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNothingOfAnArchiveLeadsElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		entry tar.Header
		want  string
	}{
		"absolute":       {tar.Header{Name: "/etc/passwd"}, "leads elsewhere"},
		"above":          {tar.Header{Name: "../run.json"}, "leads elsewhere"},
		"above, later":   {tar.Header{Name: "episodes/../../run.json"}, "leads elsewhere"},
		"of two systems": {tar.Header{Name: `episodes\..\..\run.json`}, "leads elsewhere"},
		"of a drive":     {tar.Header{Name: "C:run.json"}, "leads elsewhere"},
		"nothing":        {tar.Header{Name: "."}, "leads elsewhere"},
		"not clean":      {tar.Header{Name: "episodes//run.json"}, "leads elsewhere"},
		"not clean yet":  {tar.Header{Name: "./run.json"}, "leads elsewhere"},
		"a symlink":      {tar.Header{Name: "run.json", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, "no file"},
		"a hard link":    {tar.Header{Name: "run.json", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, "no file"},
		"a device":       {tar.Header{Name: "run.json", Typeflag: tar.TypeChar}, "no file"},
		"a folder":       {tar.Header{Name: "episodes/", Typeflag: tar.TypeDir}, "no file"},
		"hidden":         {tar.Header{Name: "episodes/.bashrc"}, "hidden"},
		"a Makefile":     {tar.Header{Name: "Makefile"}, "no run has"},
		"a copy":         {tar.Header{Name: "compact/verdict.json"}, "no run has"},
		"of no episode":  {tar.Header{Name: "episodes/run.sh"}, "no run has"},
		"another file":   {tar.Header{Name: "episodes/001/x.so"}, "no run has"},
		"of an episode":  {tar.Header{Name: "episodes/001/diagnostics/x"}, "no run has"},
		"a large plan":   {tar.Header{Name: "plan.yaml", Size: largestDocument + 1}, "larger than any record"},
		"long":           {tar.Header{Name: strings.Repeat("a", 300)}, "too long"},
		"deep":           {tar.Header{Name: strings.Repeat("a/", 9) + "a"}, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := read(archiveOf(t, c.entry))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if len(files) > 0 {
				t.Errorf("it was given: %v", files)
			}
		})
	}
	if _, err := read(archiveOf(t, tar.Header{Name: "run.json", Size: 3}, tar.Header{Name: "run.json", Size: 4})); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("one file twice: %v", err)
	}
}

func TestAnArchiveIsNoLargerThanAnyRecord(t *testing.T) {
	var many bytes.Buffer
	z := gzip.NewWriter(&many)
	w := tar.NewWriter(z)
	for i := range mostArchived + 1 {
		if err := w.WriteHeader(&tar.Header{Name: "diagnostics/f" + strconv.Itoa(i), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	if err := ReadArchive(&many, func(string, io.Reader) error { return nil }); err == nil || !strings.Contains(err.Error(), "more than 20000 files") {
		t.Errorf("%v", err)
	}
	var large bytes.Buffer // its end is missing, which nobody comes to
	z = gzip.NewWriter(&large)
	err := tar.NewWriter(z).WriteHeader(&tar.Header{Name: "events.jsonl", Typeflag: tar.TypeReg, Size: largestArchived + 1})
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	if err := ReadArchive(&large, func(string, io.Reader) error { return nil }); err == nil || !strings.Contains(err.Error(), "larger than any record") {
		t.Errorf("%v", err)
	}
}

func TestAnArchiveThatWasCutOffIsNoRecord(t *testing.T) {
	var b bytes.Buffer
	if err := WriteArchive(&b, fstest.MapFS{"run.json": {Data: []byte(`{"id":"r"}`)}, "verdict.json": {Data: bytes.Repeat([]byte("v"), 3000)}}); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	if err := wholeRecord(bytes.NewReader(whole), "r"); err != nil {
		t.Fatalf("the whole archive: %v", err)
	}
	for n := range whole {
		if err := wholeRecord(bytes.NewReader(whole[:n]), "r"); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a record", n, len(whole))
		}
	}
	for i := 20; i < len(whole); i += 7 {
		changed := bytes.Clone(whole)
		changed[i] ^= 0x40
		if err := wholeRecord(bytes.NewReader(changed), "r"); err == nil {
			t.Errorf("byte %d was changed, and it is taken for a record", i)
		}
	}
	if err := wholeRecord(bytes.NewReader(whole), "other"); err == nil || !strings.Contains(err.Error(), `of run "r", not of "other"`) {
		t.Errorf("the record of another run: %v", err)
	}
}

// What is whole as a gzip and not as a tar is no record either, however little of it anybody
// reads.
func TestATarThatWasCutOffIsNoRecord(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "run.json", Typeflag: tar.TypeReg, Size: 2000}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(bytes.Repeat([]byte("x"), 2000)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{100, 512, 513, 1500, 2511} { // in the header, after it, in the file
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write(b.Bytes()[:n]); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if err := ReadArchive(&packed, func(string, io.Reader) error { return nil }); err == nil {
			t.Errorf("%d bytes are taken for an archive", n)
		}
	}
}

func TestWhoReadsAnArchiveCanRefuse(t *testing.T) {
	why := errors.New("no room")
	var given []string
	err := ReadArchive(bytes.NewReader(archiveOf(t, tar.Header{Name: "run.json"}, tar.Header{Name: "plan.yaml"})), func(name string, _ io.Reader) error {
		given = append(given, name)
		return why
	})
	if !errors.Is(err, why) || len(given) != 1 {
		t.Errorf("%v after %v", err, given)
	}
}

// resized is a file that is longer or shorter than it says.
type resized struct {
	fstest.MapFS
	size int64
}

type resizedFile struct {
	fs.File
	size int64
}

type resizedInfo struct {
	fs.FileInfo
	size int64
}

func (r resized) Open(name string) (fs.File, error) {
	f, err := r.MapFS.Open(name)
	if name != "events.jsonl" || err != nil {
		return f, err
	}
	return resizedFile{f, r.size}, nil
}

func (f resizedFile) Stat() (fs.FileInfo, error) {
	info, err := f.File.Stat()
	return resizedInfo{info, f.size}, err
}

func (i resizedInfo) Size() int64 { return i.size }

func TestAFileThatIsWrittenWhileItIsArchived(t *testing.T) {
	folder := fstest.MapFS{"events.jsonl": {Data: []byte("12345")}, "verdict.json": {Data: []byte("{}")}}
	var b bytes.Buffer
	if err := WriteArchive(&b, resized{folder, 3}); err != nil {
		t.Fatal(err)
	}
	if files, err := read(b.Bytes()); err != nil || files["events.jsonl"] != "123" || files["verdict.json"] != "{}" {
		t.Errorf("one that grows: %v, %v", files, err)
	}
	if err := WriteArchive(io.Discard, resized{folder, 9}); err == nil || !strings.Contains(err.Error(), "events.jsonl became shorter") {
		t.Errorf("one that shrinks: %v", err)
	}
}

// The spool that a record is fetched into has an end, whatever a pod sends.
func TestTheSpoolOfARecordHasAnEnd(t *testing.T) {
	spool := &countedSpool{}
	w := &spoolWriter{spool: spool, silent: time.AfterFunc(time.Hour, func() {})}
	chunk := make([]byte, 64<<20)
	var err error
	for range 2 * mostSpooled / int64(len(chunk)) {
		if _, err = w.Write(chunk); err != nil {
			break
		}
	}
	if past, ok := errors.AsType[*RecordLimitError](err); !ok || past.Most != mostSpooled || spool.wrote > mostSpooled {
		t.Errorf("%d bytes, %v", spool.wrote, err)
	}
	if unkept := w.close(); !errors.Is(unkept, err) {
		t.Errorf("it is said to be whole: %v", unkept)
	}
}

// countedSpool keeps nothing.
type countedSpool struct{ wrote int64 }

func (s *countedSpool) Write(p []byte) (int, error)    { s.wrote += int64(len(p)); return len(p), nil }
func (s *countedSpool) Read([]byte) (int, error)       { return 0, io.EOF }
func (s *countedSpool) Seek(int64, int) (int64, error) { return 0, nil }
func (s *countedSpool) Truncate(int64) error           { return nil }

func FuzzArchive(f *testing.F) {
	var b bytes.Buffer
	_ = WriteArchive(&b, fstest.MapFS{"run.json": {Data: []byte(`{"id":"r"}`)}, "episodes/001/episode.json": {Data: []byte("{}")}})
	f.Add(b.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		// The fuzzer is no good at checksums: what it changes is what is packed.
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(data)
		_ = z.Close()
		for _, d := range [][]byte{data, packed.Bytes()} {
			_ = ReadArchive(bytes.NewReader(d), func(name string, r io.Reader) error {
				if !fs.ValidPath(name) || strings.HasPrefix(name, "/") || strings.Contains(name, "..") && strings.Contains("/"+name+"/", "/../") {
					t.Errorf("%q leads elsewhere", name)
				}
				_, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
				return err
			})
		}
	})
}
