package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
	read := namedPipe(t, "pipe")
	write := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	if err := errors.Join(writeFile("link", write), writeFile("pipe", write)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat("link"); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile("real"); err != nil || string(text) != "new" {
		t.Errorf("what it points to is %q, %v", text, err)
	}
	if text := read(); text != "new" {
		t.Errorf("through the pipe came %q", text)
	}
}

// namedPipe makes a pipe with a name, and gives what is written into it. A test that is run
// as root does not try this on /dev/null: where the rule is broken that is gone for everybody.
func namedPipe(t *testing.T, name string) (read func() string) {
	t.Helper()
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0) // both ends, so that nobody waits for the other
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return func() string {
		if info, err := os.Stat(name); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
			t.Errorf("%s is %v, %v", name, info.Mode(), err)
			return ""
		}
		text := make([]byte, 1<<16)
		n, err := f.Read(text)
		if err != nil {
			t.Error(err)
		}
		return string(text[:n])
	}
}

// What --write names stays what it is, with --force too: a link, a pipe, a device.
func TestAProductGoesToWhatIsThere(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.WriteFile("real", []byte("old"), 0o644), os.Symlink("real", "link")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"recipe": {[]string{"recipe", "--service", "eks", "--accelerator", "h100", "--os", "ubuntu", "--intent", "inference", "--platform", "dynamo"}, "kind: RecipeResult"},
		"knee":   {[]string{"knee", "--sim", "small"}, "kind: RecipeMetadata"},
	} {
		t.Run(name, func(t *testing.T) {
			read := namedPipe(t, name)
			if out, code := runs(t, append(c.args, "--force", "--write", name)...); code != Passed {
				t.Errorf("code %d: %s", code, out)
			}
			if text := read(); !strings.Contains(text, c.want) {
				t.Errorf("through the pipe came %q", text)
			}
			if out, code := runs(t, append(c.args, "--force", "--write", "link")...); code != Passed {
				t.Errorf("code %d: %s", code, out)
			}
			if info, err := os.Lstat("link"); err != nil || info.Mode()&os.ModeSymlink == 0 {
				t.Errorf("the link is %v, %v", info.Mode(), err)
			}
			if text := string(readFile(t, "real")); !strings.Contains(text, c.want) {
				t.Errorf("what it points to is %q", text)
			}
		})
	}
	read := namedPipe(t, "private")
	if err := writePrivate("private", []byte("kind: Snapshot")); err != nil {
		t.Fatal(err)
	}
	if text := read(); text != "kind: Snapshot" {
		t.Errorf("through the pipe came %q", text)
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

// TestAListInAVariableIsOneALine, since any other sign may be part of a value.
func TestAListInAVariableIsOneALine(t *testing.T) {
	t.Chdir(t.TempDir())
	if said, code := runs(t, "validate", "--sim", "s17", "--run", "run"); code != Passed {
		t.Fatal(said)
	}
	env := testEnv(map[string]string{"AICR_REPORT": "json=a.json\ntext=b.txt\n"}, "report", "run")
	if code := run(t.Context(), env, commands); code != Passed {
		t.Errorf("exit code %d", code)
	}
	for _, name := range []string{"a.json", "b.txt"} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	var said strings.Builder
	env = testEnv(map[string]string{"AICR_REPORT": "json=c.json,text=d.txt"}, "report", "run")
	env.Stderr = &said
	if code := run(t.Context(), env, commands); code != Misused || !strings.Contains(said.String(), "names more than one report") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
}

// TestWhatIsWrittenHasTheRightsThatTheMaskLeaves: a report names hosts and GPUs.
func TestWhatIsWrittenHasTheRightsThatTheMaskLeaves(t *testing.T) {
	t.Chdir(t.TempDir())
	defer syscall.Umask(syscall.Umask(0o077))
	if said, code := runs(t, "validate", "--sim", "s17", "--run", "run", "--report", "json=a.json"); code != Passed {
		t.Fatal(said)
	}
	for _, name := range []string{"a.json", "run", "run/episodes", "run/verdict.json", "run/events.jsonl"} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestTwoRunsAreToldEachAsItself: the second is the report, the first what it is held
// against.
func TestTwoRunsAreToldEachAsItself(t *testing.T) {
	t.Chdir(t.TempDir())
	a := newApp(testEnv(nil))
	var all []*recorded
	for _, name := range []string{"small", "small-stall"} {
		if said, code := runs(t, "validate", "--sim", name, "--run", name); code == Misused {
			t.Fatal(said)
		}
		run, err := a.readRun(name)
		r := &recorded{dir: name, run: run}
		if err == nil {
			err = r.conclude(t.Context(), a)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	c, err := compareRuns(all[0], all[1])
	if err != nil {
		t.Fatal(err)
	}
	var got *spec.Report
	keep := func(_ io.Writer, r *spec.Report) error { got = r; return nil }
	if err := a.tellRecorded(t.Context(), all, c, telling{unread: true}, outputText, []reportFile{{report.Format{Name: "kept", Write: keep}, "file"}}); err != nil {
		t.Fatal(err)
	}
	for r, want := range map[*spec.Report]string{got: "small-stall", got.Against: "small"} {
		if r.Kept != want || r.Run.Target.Scenario != want || len(r.Lanes) != 2 {
			t.Errorf("%s is told as %s of %s, with %d lanes", want, r.Kept, r.Run.Target.Scenario, len(r.Lanes))
		}
	}
	if got.Comparison.Runs[0].Run != "small" || got.Comparison.Runs[1].Run != "small-stall" {
		t.Errorf("compared are %v", got.Comparison.Runs)
	}
}

// TestTheStepsSummaryKeepsToItsLimit, whatever the step has said before.
func TestTheStepsSummaryKeepsToItsLimit(t *testing.T) {
	t.Chdir(t.TempDir())
	r := &spec.Report{Verdict: &spec.Verdict{Verdict: spec.Fail, Reason: strings.Repeat("why ", 100)}}
	for _, test := range []struct {
		name string
		said int
		ok   bool
	}{{"nothing said", 0, true}, {"nearly all", stepSummaryLimit - 200, true}, {"all", stepSummaryLimit - 3, false}, {"too much", stepSummaryLimit + 5, false}} {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile("summary", bytes.Repeat([]byte("x"), test.said), 0o644); err != nil {
				t.Fatal(err)
			}
			err := appendSummary("summary", r)
			info, _ := os.Stat("summary")
			grown := info.Size() > int64(test.said)
			if (err == nil) != test.ok || grown != test.ok || test.ok && info.Size() > stepSummaryLimit {
				t.Errorf("%d bytes after %d, %v", info.Size(), test.said, err)
			}
		})
	}
}

// TestALongRecordShowsHowFarItIs: somebody who waits knows that it goes on.
func TestALongRecordShowsHowFarItIs(t *testing.T) {
	t.Chdir(t.TempDir())
	if said, code := runs(t, "validate", "--sim", "healthy", "--profile", "smoke", "--run", "run"); code == Misused {
		t.Fatal(said)
	}
	var said strings.Builder
	env := testEnv(nil, "report", "run")
	env.Stderr = &said
	now := time.Now()
	env.Now = func() time.Time { now = now.Add(lineEvery); return now } // every look is due
	if code := run(t.Context(), env, commands); code == Misused || !strings.Contains(said.String(), "reading run: 0 of 3 episodes, 4,096 requests\n") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
}
