package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"aicr/internal/checks/graph"
	"aicr/internal/spec"
)

// That nobody could see whether workers ended is a line of the record, so that whoever
// judges the folder says the same: not PASS.
func TestWhatCouldNotBeSeenIsJudgedAgainAlike(t *testing.T) {
	t.Parallel()
	_, record, archive := loadRecord(t)
	for reason, want := range map[string]spec.State{"": spec.Pass, spec.PodsUnseen: spec.Inconclusive} {
		b := bookOf(t, keptOf(record))
		if n, err := b.Episodes(); n != 0 || err != nil {
			t.Errorf("%d episodes before there are any, %v", n, err)
		}
		if err := b.Adopt(bytes.NewReader(archive)); err != nil {
			t.Fatal(err)
		}
		full := 0
		for _, n := range record.Numbers() {
			full += min(n, 1)
		}
		if n, err := b.Episodes(); n != full || err != nil {
			t.Errorf("%d episodes, %v; want %d", n, err, full)
		}
		if reason != "" {
			if err := b.Event(spec.Event{T: 99, Kind: spec.EventPod, Reason: reason, Text: "no answer for 3m0s"}); err != nil {
				t.Fatal(err)
			}
		}
		var v spec.Verdict
		if err := json.Unmarshal(ended(t, b), &v); err != nil {
			t.Fatal(err)
		}
		if v.Verdict != want {
			t.Errorf("%q: %s: %s", reason, v.Verdict, v.Reason)
		}
	}
	if _, err := (&clusterBook{dir: filepath.Join(t.TempDir(), "none")}).Episodes(); err == nil {
		t.Error("a folder that is not there has no episodes")
	}
}

// What keeps a record from being here is what is to be mended.
func TestWhyARecordIsNotHereIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		failed error
		want   string
	}{
		"a full disk": {errors.New("no space left"), "could not be kept here, and is still in its pod: make room, then: aicr validate --attach r"},
		"a proxy": {fmt.Errorf("following the load: %w", &graph.UnfetchedError{Cause: errors.New("403")}),
			"is still in its pod: mend what is between, or attach from elsewhere: aicr validate --attach r"},
	} {
		j, said := clusterJob(t, filepath.Join(t.TempDir(), "history.jsonl"))
		b := bookOf(t, &graph.Kept{Run: onNode("r", "gpu-0"), Plan: j.plan})
		err := j.tellEnd(t.Context(), b, &graph.End{Waits: true}, c.failed)
		if err == nil || !strings.Contains(said.String(), c.want) {
			t.Errorf("%s: %v, said %s", name, err, said)
		}
	}
}
