package judge

import (
	"archive/zip"
	"testing"

	"aicr/internal/spec"
)

// Four workers shared one real H200; hack/gpu/verdicts.py made the fault of each
// run and kept its folder. The worker that had it is named, with its cause, and a
// healthy fleet is at its own reference.
func TestRunsOfARealGPUAreJudgedByTheirFault(t *testing.T) {
	for name, want := range map[string]struct {
		verdict spec.State
		finding string
		worker  string
	}{
		"healthy": {verdict: spec.Pass},
		"stopped": {spec.Fail, "worker/stall", "127.0.0.1:18101"},
		"slow":    {spec.Fail, "worker/slow", "127.0.0.1:18102"},
		"killed":  {spec.Fail, "worker/absent", "127.0.0.1:18103"},
	} {
		t.Run(name, func(t *testing.T) {
			v := judged(t, "testdata/h200-run-"+name+".zip")
			if v.Verdict != want.verdict {
				t.Errorf("%s: %s", v.Verdict, v.Reason)
			}
			named := false
			for _, f := range v.Findings {
				if f.Severity != spec.SeverityFail {
					continue
				}
				named = named || f.ID == want.finding
				if shown := f.Named(); f.ID != want.finding || len(shown) != 1 || shown[0] != want.worker {
					t.Errorf("%s of %v, want %s of %s alone", f.ID, shown, want.finding, want.worker)
				}
			}
			if named != (want.finding != "") {
				t.Errorf("findings %v, want %s", v.Findings, want.finding)
			}
			if name == "healthy" {
				of := expectation(t, v, "throughput-of-reference")
				if of.Value == nil || *of.Value < 0.99 || *of.Value > 1.01 {
					t.Errorf("throughput of the reference: %+v", of)
				}
			}
		})
	}
}

func judged(t *testing.T, archive string) *spec.Verdict {
	t.Helper()
	files, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	run, err := spec.ReadRun(files)
	if err != nil {
		t.Fatal(err)
	}
	var episodes []*spec.EpisodeRecord
	for _, number := range run.Numbers() {
		e, err := run.Episode(number)
		if err != nil {
			t.Fatal(err)
		}
		episodes = append(episodes, e)
	}
	return Judge(run.Plan, run.Events, episodes...)
}

func expectation(t *testing.T, v *spec.Verdict, name string) spec.Expected {
	t.Helper()
	for _, e := range v.Expectations {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("no expectation %s", name)
	return spec.Expected{}
}
