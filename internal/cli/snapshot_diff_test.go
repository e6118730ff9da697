package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/report/layout"
	"aicr/internal/spec"
)

func snapshotFixture(t *testing.T, name string) *spec.Snapshot {
	t.Helper()
	data, err := os.ReadFile("../spec/testdata/snapshot/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := spec.DecodeSnapshot(data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The text of a difference is for a terminal: no line is wider than it, and every fact
// that changed is told.
func TestADifferenceOfSnapshotsFitsATerminal(t *testing.T) {
	for name, test := range map[string]struct{ was, now string }{
		"snapshot_diff_forbidden.golden": {"eks-h100", "forbidden"},
		"snapshot_diff_allowed.golden":   {"forbidden", "eks-h100"},
		"snapshot_diff_other.golden":     {"eks-h100", "gke-h100"},
	} {
		t.Run(name, func(t *testing.T) {
			changes := spec.DiffSnapshots(snapshotFixture(t, test.was), snapshotFixture(t, test.now))
			var b bytes.Buffer
			writeChanges(&b, changes)
			for line := range strings.Lines(b.String()) {
				if line = strings.TrimSuffix(line, "\n"); layout.Width(line) > diffWidth {
					t.Errorf("%d columns: %s", layout.Width(line), line)
				}
			}
			for _, c := range changes {
				if !strings.Contains(b.String(), c.Path) {
					t.Errorf("%s is not told", c.Path)
				}
			}
			golden := "testdata/" + name
			if *update {
				if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHowAChangeIsTold(t *testing.T) {
	long := strings.Repeat("n", 40)
	for name, test := range map[string]struct {
		changes []spec.FactChange
		want    string
	}{
		"none": {nil, "SAME  no fact changed\n"},
		"one reason for one fact is a line": {[]spec.FactChange{{Path: "A.b.c", Was: "8", Now: "unknown: forbidden"}},
			"CHANGED  1 fact\n  A.b.c: 8 -> unknown: forbidden\n"},
		"a reason of several": {[]spec.FactChange{{Path: "A.b.c", Was: "8", Now: "unknown: forbidden"}, {Path: "A.b.d", Was: "1", Now: "2"}, {Path: "A.b.e", Was: "9", Now: "unknown: forbidden"}},
			"CHANGED  3 facts\n  A.b.d: 1 -> 2\n  known -> unknown: forbidden: 2 facts\n    A.b.c, A.b.e\n"},
		"reasons are not mixed": {[]spec.FactChange{{Path: "A.b.c", Was: "8", Now: "unknown: forbidden"}, {Path: "A.b.d", Was: "unknown: timed out", Now: "unknown: forbidden"}, {Path: "A.b.e", Was: "", Now: "unknown: forbidden"}},
			"CHANGED  3 facts\n  A.b.c: 8 -> unknown: forbidden\n  A.b.d: unknown: timed out -> unknown: forbidden\n  A.b.e: not there -> unknown: forbidden\n"},
		"what became known has its value": {[]spec.FactChange{{Path: "A.b.c", Was: "unknown: forbidden", Now: "8"}, {Path: "A.b.d", Was: "unknown: forbidden", Now: "9"}},
			"CHANGED  2 facts\n  unknown: forbidden -> known: 2 facts\n    A.b.c: 8\n    A.b.d: 9\n"},
		"an item has the facts that fit": {[]spec.FactChange{{Path: "A.b[name=x]", Was: "all", Item: []string{"gpu-count=8", "a=" + long, "b=" + long, "c=" + long}}},
			"CHANGED  1 fact\n  A.b[name=x]: gpu-count=8 a=" + long + " … -> not there\n"},
		"an item that is short is a line": {[]spec.FactChange{{Path: "A.b[name=x]", Now: "all", Item: []string{"gpu-count=8", "ready=true"}}},
			"CHANGED  1 fact\n  A.b[name=x]: not there -> gpu-count=8 ready=true\n"},
		"nothing steers the terminal": {[]spec.FactChange{{Path: "A.b[name=\x1b]", Now: "all", Item: []string{"a=\x1b"}}},
			"CHANGED  1 fact\n  A.b[name=□]: not there -> a=□\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			writeChanges(&b, test.changes)
			if diff := cmp.Diff(test.want, b.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
