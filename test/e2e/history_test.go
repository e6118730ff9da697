//go:build linux

package e2e_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aicr/internal/spec"
)

// gpusOf are the UUIDs of a node's GPUs.
func (c *cluster) gpusOf(t *testing.T, node string) (all []string) {
	t.Helper()
	nodes, err := c.api.GPUs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		for _, d := range n.Devices {
			if n.Name == node {
				all = append(all, d.UUID)
			}
		}
	}
	slices.Sort(all)
	return all
}

// pastStalls is a history in which each GPU of a node stalled three times, in pods that are
// gone; and one that is gone itself, and what another runtime did.
func (c *cluster) pastStalls(t *testing.T, node string) (path string) {
	t.Helper()
	gpus := c.gpusOf(t, node)
	d := spec.NewDeployment(spec.Target{Context: c.api.Context, Node: node, Model: "Qwen/Qwen3-8B"}, len(gpus))
	entry := func(run, runtime string, stalled ...string) []byte {
		e := spec.HistoryEntry{Schema: spec.HistorySchema, Run: run, Start: time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), Digest: d.Digest(), Deployment: d,
			Profile: spec.ProfileQuick, Verdict: spec.Pass, Capability: spec.Pass, LoadedMin: 600} // so long that their rate alone is no fault
		e.Deployment.Runtime = runtime
		for _, gpu := range stalled {
			e.Stalls = append(e.Stalls, spec.HistoryStall{GPU: gpu, Worker: "decode-of-" + run, Count: 3})
		}
		line, err := e.Line()
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	path = filepath.Join(t.TempDir(), "history.jsonl")
	lines := slices.Concat(entry("first", "", append(gpus, "GPU-gone")...), entry("second", "0.0.1", gpus...))
	if err := os.WriteFile(path, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// linesOf are the runs of a history.
func linesOf(t *testing.T, path string) []spec.HistoryEntry {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := spec.DecodeHistory(data)
	if err != nil {
		t.Fatal(err)
	}
	return h.Entries
}

// counted wants a stall to be that of a GPU which stalled in earlier runs, whatever its pod
// is called now, and the next run to know of it.
func (o *outcome) counted(t *testing.T, path, node string, gpus []string) {
	t.Helper()
	f := found(o.verdict, "worker/stall")
	if f == nil || len(f.GPUs) != 1 || !slices.Contains(gpus, f.GPUs[0]) || !strings.Contains(f.Summary, " (node "+node+", GPU "+f.GPUs[0]+") ") {
		t.Fatalf("pod, node and GPU are not named: %+v\n%s", f, o)
	}
	run, err := spec.ReadRun(os.DirFS(o.dir))
	if err != nil {
		t.Fatal(err)
	}
	var prior, placed []string
	for _, p := range run.Plan.Prior {
		prior = append(prior, p.GPU)
		if p.Count < 2.9 || p.Count > 3 {
			t.Errorf("%.2f stalls of %s an hour ago, want 3", p.Count, p.GPU)
		}
	}
	for _, e := range run.Events {
		if e.Kind == spec.EventPlaced && e.Source == node && e.Worker != "" {
			placed = append(placed, e.GPU)
		}
	}
	slices.Sort(placed)
	if !slices.Equal(prior, gpus) || !slices.Equal(placed, gpus) {
		t.Errorf("the plan counts stalls of %q, and workers were given %q, want %q\n%s", prior, placed, gpus, o)
	}
	all := linesOf(t, path)
	last := all[len(all)-1]
	if len(all) != 3 || last.Run != run.Run.ID || last.Deployment.Runtime == "" || !slices.Equal(last.Deployment.GPUs, gpus) {
		t.Errorf("%d lines, the last %+v", len(all), last)
	}
	if len(last.Stalls) != 1 || last.Stalls[0].GPU != f.GPUs[0] || last.Stalls[0].Worker != f.Workers[0] || last.Stalls[0].Count < 1 {
		t.Errorf("what is kept of the stalls is %+v\n%s", last.Stalls, o)
	}
}
