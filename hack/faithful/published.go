package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"aicr/internal/spec"
)

// published prints the rows that verdict.md section 5 ends with. The published
// figures and those of the reference model are as they stand there.
func published(ctx context.Context, w io.Writer) error {
	fmt.Fprintf(w, "Against the published runs (verdict.md section 5; 8 H100, Qwen3-8B, 128/128 tokens):\n\n")
	fmt.Fprintf(w, "| case | published | reference model | this simulator |\n|---|---|---|---|\n")
	const eks, gke = "h100-eks", "h100-gke"
	const rr, ll = "round-robin", "least-loaded"
	for _, r := range []struct {
		name, published, reference string
		play                       play
		seeds                      int // 0: one play without jitter
		say                        func(figures) string
	}{
		{"EKS 2048, 24 seeds", "108.7–127k; 0.60–1.67 s", "111–128k; 0.55–1.51 s", burst(eks, rr, 256), 24, nil},
		{"GKE 2048, 24 seeds", "137–141k; 0.23–0.47 s", "133–140k; 0.21–0.59 s", burst(gke, rr, 256), 24, nil},
		{"1024, burst start, 12 seeds", "0.29–0.53 s", "0.28–0.75 s", burst(eks, rr, 128), 12, nil},
		{"r1 queue, 9.5 s into a stall", "1022+151; others 16–366", "1019+133; others ~130", burst(eks, rr, 256).with(stall(2, 2.5, 9.9)), 0, queues(2, 12*time.Second)},
		{"r1/r8 TTFT (stall 15 s)", "9.0–9.2 s", "9.2 s", burst(eks, rr, 256).with(stall(2, 2.5, 15)), 0, ttft},
		{"long stall (45 s)", "≤ 45 s, ≥ 25k", "38 s, 37k", burst(eks, rr, 256).with(stall(2, 2.5, 45)), 0, both},
		{"t1 (freeze 29.9 s at the start)", "48.9k / 30.7 s", "44.5k / 30.8 s", burst(eks, rr, 256).with(freeze(0.06, 29.9)), 0, both},
		{"t3 (freeze 5.0 s in mid-run)", "92.9k / 1,056 ms", "94.5k / 1,068 ms", burst(eks, rr, 256).with(freeze(6.46, 5)), 0, both},
		{"t6 (4.1 s at the start, 1.2 s)", "92.6k / 4,844 ms", "94.7k / 4,985 ms", burst(eks, rr, 256).with(freeze(0.06, 4.1), freeze(7.5, 1.2)), 0, both},
		{"s2 (3.4 s at the start, 3.6 s)", "84.0k / 4.2 s", "86.8k / 4.3 s", burst(eks, rr, 256).with(freeze(0.06, 3.4), freeze(7.5, 3.6)), 0, both},
		{"t9 (freeze 11.3 s at the start)", "77.5k / 12.3 s", "73.5k / 12.2 s", burst(eks, rr, 256).with(freeze(0.06, 11.3)), 0, both},
		{"r3 (client of 370 sends/s, lag)", "50k, 446, 1,265 ms", "46.2k, 447, 1,268 ms", burst(eks, rr, 256).sends(370, 1250*time.Millisecond), 0, inFlight},
		{"k1 (kv, one prefix)", "303↔1, 13.9 s", "303↔0, 0.83 s", burst(eks, "kv", 256).prompts(1, 302), 0, skew},
		{"AKS defect (host × 3.5)", "46.7–54.1k, 4.5–6.0 s", "48.1k, 4.3 s", burst(eks, ll, 256).with(hostSlow(3.5)), 0, both},
	} {
		said, err := r.play.tell(ctx, r.seeds, r.say)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", r.name, r.published, r.reference, said)
	}
	return nil
}

// tell plays a row: once without jitter, or with many seeds, of which it tells
// the range.
func (p play) tell(ctx context.Context, seeds int, say func(figures) string) (string, error) {
	if seeds == 0 {
		f, err := p.still().run(ctx, 1)
		if err != nil {
			return "", err
		}
		return say(f), nil
	}
	all, err := each(seeds, func(i int) (figures, error) { return p.run(ctx, uint64(101+i)) })
	if err != nil {
		return "", err
	}
	low, high := all[0], all[0]
	for _, f := range all {
		low = figures{throughput: min(low.throughput, f.throughput), ttft99: min(low.ttft99, f.ttft99)}
		high = figures{throughput: max(high.throughput, f.throughput), ttft99: max(high.ttft99, f.ttft99)}
	}
	return fmt.Sprintf("%.0f–%.0fk; %.2f–%.2f s", low.throughput/1e3, high.throughput/1e3, low.ttft99/1e3, high.ttft99/1e3), nil
}

func ttft(f figures) string { return fmt.Sprintf("%.1f s", f.ttft99/1e3) }

func both(f figures) string {
	if f.ttft99 < 2000 {
		return fmt.Sprintf("%.1fk / %.0f ms", f.throughput/1e3, f.ttft99)
	}
	return fmt.Sprintf("%.1fk / %.1f s", f.throughput/1e3, f.ttft99/1e3)
}

// queues tells what the workers had at a time: the one that is looked at, and
// the range of the others.
func queues(worker int, at time.Duration) func(figures) string {
	return func(f figures) string {
		low, high := math.Inf(1), 0.0
		own := ""
		for _, s := range f.recording.Series {
			if s.Source != spec.SourceWorker || s.T != int64(at.Round(time.Second))+offset(f) {
				continue
			}
			if s.Name == fmt.Sprint(worker) {
				own = fmt.Sprintf("%.0f+%.0f", *s.Worker.Running, *s.Worker.Waiting)
				continue
			}
			low, high = min(low, *s.Worker.Running), max(high, *s.Worker.Running)
		}
		return fmt.Sprintf("%s; others %.0f–%.0f", own, low, high)
	}
}

// offset is how far the samples' seconds are from the episode's, which began
// when the first wave was over.
func offset(f figures) int64 { return f.recording.Series[0].T % int64(time.Second) }

func inFlight(f figures) string {
	var held []int
	for _, s := range f.recording.Series {
		if s.Client != nil {
			held = append(held, s.Client.InFlight)
		}
	}
	return fmt.Sprintf("%.1fk, %d, %.0f ms", f.throughput/1e3, slices.Max(held), f.ttft99)
}

// skew tells the most and the fewest that the workers ran at once.
func skew(f figures) string {
	return fmt.Sprintf("%d↔%d, %.2f s", slices.Max(f.recording.Peak), slices.Min(f.recording.Peak), f.ttft99/1e3)
}
