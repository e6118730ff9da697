package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aicr/internal/report"
	"aicr/internal/spec"
)

// TestEveryReportOfEveryKindOfRun holds every format of every kind of run against its
// golden file: real runs, of simulated fleets, told by the program itself.
func TestEveryReportOfEveryKindOfRun(t *testing.T) {
	home, err := filepath.Abs(filepath.Join("testdata", "report"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // so that no path in a report is this machine's
	for _, test := range []struct {
		name, scenario string
		then           func(t *testing.T, dir string) // what becomes of the record
		verdict        spec.State
		ledger         string // that failed
	}{
		{name: "pass", verdict: spec.Pass},
		{name: "fail-integrity", scenario: "integrity", verdict: spec.Fail, ledger: spec.Integrity},
		{name: "fail-capability", scenario: "capability", verdict: spec.Fail, ledger: spec.Capability},
		{name: "fail-stability", scenario: "stability", verdict: spec.Fail, ledger: spec.Stability},
		{name: "inconclusive", scenario: "untold", verdict: spec.Inconclusive},
		{name: "invalid", verdict: spec.Invalid},
		{name: "skip", verdict: spec.Skip},
		{name: "killed", scenario: "pass", then: kill, verdict: spec.Inconclusive},
		{name: "no-telemetry", scenario: "stability", then: withoutTelemetry, verdict: spec.Fail, ledger: spec.Stability},
		{name: "128-workers", scenario: "wide", verdict: spec.Fail, ledger: spec.Stability},
	} {
		t.Run(test.name, func(t *testing.T) {
			scenario := test.scenario
			if scenario == "" {
				scenario = test.name
			}
			if err := os.CopyFS(".", os.DirFS(filepath.Join(home, "scenarios"))); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
			if said, code := runs(t, "validate", "--sim", scenario+".yaml", "--run", test.name); code == Misused {
				t.Fatal(said)
			}
			if test.then != nil {
				test.then(t, test.name)
			}
			args := []string{"report", test.name}
			for _, f := range report.Formats() {
				args = append(args, "--report", f.Name+"="+filepath.Join("out", test.name+"."+f.Name))
			}
			said, code := runs(t, args...)
			if code != Passed {
				t.Fatalf("exit code %d:\n%s", code, said)
			}
			holdsVerdict(t, filepath.Join("out", test.name+".json"), test.verdict, test.ledger)
			for _, f := range report.Formats() {
				got, err := os.ReadFile(filepath.Join("out", test.name+"."+f.Name))
				if err != nil {
					t.Fatal(err)
				}
				golden(t, filepath.Join(home, test.name, "report."+f.Name), abridged(f.Name, got))
			}
		})
	}
}

// holdsVerdict is there so that an accepted golden file cannot change what a run is.
func holdsVerdict(t *testing.T, path string, want spec.State, ledger string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v spec.Verdict
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if v.Verdict != want {
		t.Errorf("the verdict is %s (%s), want %s", v.Verdict, v.Reason, want)
	}
	for _, l := range v.Ledgers {
		if (l.State == spec.Fail) != (l.Name == ledger) {
			t.Errorf("the ledger of %s is %s (%s)", l.Name, l.State, l.Reason)
		}
	}
}

// runs runs the program, and gives what it printed.
func runs(t *testing.T, args ...string) (string, Code) {
	t.Helper()
	var out bytes.Buffer
	env := testEnv(nil, args...)
	env.Stdout, env.Stderr = &out, &out
	code := run(t.Context(), env, commands)
	return out.String(), code
}

var (
	embedded = regexp.MustCompile(`(?s)(<(?:script|style)>).*?(</(?:script|style)>)`)
	hashed   = regexp.MustCompile(`'sha256-[^']*'`)
)

// abridged leaves out of a report what a reader of a golden file gains nothing by: the
// library in a page, all but the first rows of a table.
func abridged(format string, text []byte) []byte {
	switch format {
	case "html":
		text = embedded.ReplaceAll(text, []byte("${1}…${2}"))
		return hashed.ReplaceAll(text, []byte("'sha256-…'"))
	case "csv":
		lines := strings.SplitAfter(string(text), "\n")
		if most := 40; len(lines) > most {
			return fmt.Appendf(nil, "%s… and %d more rows\n", strings.Join(lines[:most], ""), len(lines)-1-most)
		}
	}
	return text
}

// kill makes of a run what a kill in its fifth episode leaves.
func kill(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Remove(filepath.Join(dir, verdictFile)))
	for n := 5; n < 100; n++ {
		must(os.RemoveAll(filepath.Join(dir, episodesDir, fmt.Sprintf("%03d", n))))
	}
	events, err := os.ReadFile(filepath.Join(dir, eventsFile))
	must(err)
	at := bytes.Index(events, []byte(`"stage":"episode","episode":5`))
	if at < 0 {
		t.Fatalf("no fifth episode in\n%s", events)
	}
	must(os.WriteFile(filepath.Join(dir, eventsFile), events[:at+20], 0o644)) // in the middle of a line
	rewrite(t, filepath.Join(dir, runFile), func(doc map[string]any) { delete(doc, "end") })
}

// withoutTelemetry makes of a run that of an endpoint that nobody observed.
func withoutTelemetry(t *testing.T, dir string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, episodesDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		rewrite(t, filepath.Join(e, "episode.json"), func(doc map[string]any) { doc["samples"] = []any{} })
		if err := writeWhole(filepath.Join(e, "series.jsonl.gz"), func(w io.Writer) error { return writeZipped(w, []spec.Sample{}) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, verdictFile)); err != nil {
		t.Fatal(err)
	}
}

// rewrite changes a JSON document.
func rewrite(t *testing.T, path string, change func(map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var doc map[string]any
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	change(doc)
	if err := writeJSONFile(path, doc); err != nil {
		t.Fatal(err)
	}
}
