package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicr/internal/report"
	"aicr/internal/spec"
)

// TestAReportThatCannotBeWrittenIsToldAndKeepsNothingElse: an error with the path, the
// other reports, no half of a file, and the exit code of the verdict.
func TestAReportThatCannotBeWrittenIsToldAndKeepsNothingElse(t *testing.T) {
	broken := func(w io.Writer, _ *spec.Report) error {
		_, err := io.WriteString(w, strings.Repeat("half", 1<<18)) // more than any buffer
		return errors.Join(err, errors.New("no space left"))
	}
	for _, test := range []struct {
		name, path, want string
		write            func(io.Writer, *spec.Report) error
	}{
		{"the disk is full", "/dev/full", "writing the broken report to /dev/full: no space left on device", report.JSON},
		{"it fills up on the way", "part", "writing the broken report to part: ", broken},
		{"the folder is a file", filepath.Join("file", "r"), "writing the broken report to " + filepath.Join("file", "r") + ": not a directory", report.JSON},
		{"it is a folder", "folder", "writing the broken report to folder: it is a folder", report.JSON},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := errors.Join(os.Mkdir("folder", 0o755), os.WriteFile("file", nil, 0o644)); err != nil {
				t.Fatal(err)
			}
			r := &spec.Report{Verdict: &spec.Verdict{Verdict: spec.Fail}, Kept: "run"}
			good := reportFile{report.Format{Name: "good", Write: report.JSON}, "good.json"}
			err := newApp(testEnv(nil)).writeReports(r, []reportFile{good, {report.Format{Name: "broken", Write: test.write}, test.path}, {good.Format, "after.json"}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if code := worst(problems(errors.Join(err, Failed), Unmeasured, "")); code != Failed {
				t.Errorf("exit code %d, want that of the verdict", code)
			}
			there, _ := filepath.Glob("*")
			hidden, _ := filepath.Glob(".?*")
			if got := strings.Join(append(there, hidden...), " "); got != "after.json file folder good.json" {
				t.Errorf("there is %s", got)
			}
		})
	}
}

// TestAReportGoesToWhatIsThere: a link keeps pointing, a pipe is written to.
func TestAReportGoesToWhatIsThere(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.WriteFile("real", []byte("old"), 0o644), os.Symlink("real", "link")); err != nil {
		t.Fatal(err)
	}
	write := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	if err := errors.Join(writeFile("link", write), writeFile(os.DevNull, write)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat("link"); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile("real"); err != nil || string(text) != "new" {
		t.Errorf("what it points to is %q, %v", text, err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s is %v, %v", os.DevNull, info.Mode(), err)
	}
}

// TestWhatWasLostIsToldBesideAFailure: a verdict is no reason to keep an error back.
func TestWhatWasLostIsToldBesideAFailure(t *testing.T) {
	var said strings.Builder
	env := testEnv(nil, "bench")
	env.Stderr = &said
	all := problems(errors.Join(unmeasured("", "the record is lost"), Failed), Unmeasured, "")
	tell(env.Stderr, newApp(env).stderrPalette(), tellable(all))
	if got := said.String(); got != "error: the record is lost\n" || worst(all) != Unmeasured {
		t.Errorf("said %q, exit code %d", got, worst(all))
	}
}
