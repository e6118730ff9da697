package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"sync"

	"aicr/internal/stats"
)

//go:embed testdata/reference.csv
var referenceFile []byte

// row is what the reference said of a case and a seed.
type row struct {
	seed       uint64
	host, step float64 // the jitters that it drew
	figures
}

// reference reads the recording, by case.
func reference() (map[string][]row, error) {
	lines, err := csv.NewReader(bytes.NewReader(referenceFile)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading the recording: %w", err)
	}
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	all := map[string][]row{}
	for n, line := range lines[1:] {
		var wrong error
		number := func(name string) float64 {
			i, ok := column[name]
			if !ok {
				wrong = fmt.Errorf("no column %s", name)
				return 0
			}
			v, err := strconv.ParseFloat(line[i], 64)
			if err != nil {
				wrong = err
			}
			return v
		}
		r := row{seed: uint64(number("seed")), host: number("host_factor"), step: number("step_factor"),
			figures: figures{throughput: number("throughput"), ttft50: number("ttft_p50_ms"), ttft99: number("ttft_p99_ms"), peak: int(number("peak_running"))}}
		if wrong != nil {
			return nil, fmt.Errorf("the recording's line %d: %w", n+2, wrong)
		}
		name := line[column["case"]]
		all[name] = append(all[name], r)
	}
	return all, nil
}

// comparison is one case: the reference's figures beside ours on the reference's
// own draws, and ours on draws of our own.
type comparison struct {
	name          string
	n             int
	theirs, ours  means
	diffX, diff99 float64 // of the means, paired: ours over theirs, less 1
	seX, se99     float64 // their standard errors
	ksX, ks99     float64 // p of a two-sample test of the distributions
}

type means struct{ throughput, ttft50, ttft99 float64 }

// compareAll plays every recorded case with the first seeds of the recording.
func compareAll(ctx context.Context, seeds int) ([]comparison, error) {
	ref, err := reference()
	if err != nil {
		return nil, err
	}
	var all []comparison
	for _, c := range recorded() {
		rows := ref[c.name]
		if len(rows) == 0 {
			return nil, fmt.Errorf("the recording has no case %s: run reference.py", c.name)
		}
		one, err := compare(ctx, c.name, c.play, rows[:min(seeds, len(rows))])
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func compare(ctx context.Context, name string, p play, rows []row) (comparison, error) {
	c := comparison{name: name, n: len(rows)}
	paired, err := each(len(rows), func(i int) (figures, error) {
		return p.drawn(rows[i].host, rows[i].step, math.Sqrt(rows[i].host)).run(ctx, rows[i].seed)
	})
	if err != nil {
		return c, err
	}
	free, err := each(len(rows), func(i int) (figures, error) { return p.run(ctx, 10_000+rows[i].seed) })
	if err != nil {
		return c, err
	}
	take := func(from func(int) float64) []float64 {
		v := make([]float64, len(rows))
		for i := range v {
			v[i] = from(i)
		}
		return v
	}
	theirX, their99 := take(func(i int) float64 { return rows[i].throughput }), take(func(i int) float64 { return rows[i].ttft99 })
	ourX, our99 := take(func(i int) float64 { return paired[i].throughput }), take(func(i int) float64 { return paired[i].ttft99 })
	c.theirs = means{stats.Mean(theirX), stats.Mean(take(func(i int) float64 { return rows[i].ttft50 })), stats.Mean(their99)}
	c.ours = means{stats.Mean(ourX), stats.Mean(take(func(i int) float64 { return paired[i].ttft50 })), stats.Mean(our99)}
	c.diffX, c.seX = apart(theirX, ourX)
	c.diff99, c.se99 = apart(their99, our99)
	_, c.ksX = stats.KolmogorovSmirnov(theirX, take(func(i int) float64 { return free[i].throughput }))
	_, c.ks99 = stats.KolmogorovSmirnov(their99, take(func(i int) float64 { return free[i].ttft99 }))
	return c, nil
}

// apart is by how much the mean of ours is off, as a share of theirs, with the
// standard error of that from the paired differences.
func apart(theirs, ours []float64) (diff, se float64) {
	d := make([]float64, len(theirs))
	for i := range d {
		d[i] = ours[i] - theirs[i]
	}
	mean := stats.Mean(theirs)
	return stats.Mean(d) / mean, stats.Std(d) / math.Sqrt(float64(len(d))) / mean
}

// each plays n times on every core.
func each(n int, do func(int) (figures, error)) ([]figures, error) {
	out, errs := make([]figures, n), make([]error, n)
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				out[i], errs[i] = do(i)
				out[i].recording = nil // megabytes that nobody looks at
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func writeComparison(w io.Writer, all []comparison) {
	fmt.Fprintf(w, "Against the reference model, on its own jitters (means; the difference with its standard error; p of a two-sample\nKolmogorov-Smirnov test against as many seeds of our own):\n\n")
	fmt.Fprintf(w, "| case | seeds | tokens/s: reference | ours | difference | p | TTFT p99 ms: reference | ours | difference | p |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range all {
		fmt.Fprintf(w, "| %s | %d | %.0f | %.0f | %+.1f ± %.1f %% | %.2f | %.1f | %.1f | %+.1f ± %.1f %% | %.2f |\n", c.name, c.n,
			c.theirs.throughput, c.ours.throughput, 100*c.diffX, 100*c.seX, c.ksX,
			c.theirs.ttft99, c.ours.ttft99, 100*c.diff99, 100*c.se99, c.ks99)
	}
}
