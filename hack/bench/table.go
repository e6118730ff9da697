//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// table is the result: one row a client and level, medians over its accepted
// readings.
type table struct {
	head  []string
	rows  [][]string
	facts []string
}

// tabulate groups readings by client and level, in the order in which they
// first came.
func tabulate(readings []reading, facts []string) table {
	t := table{
		head: []string{"client", "C", "readings", "CPU-s per 1M events", "× drain", "CPU-s per 1000 tokens", "peak RSS MB",
			"TTFT p50 off ms", "TTFT p99 off ms", "held in flight", "ready ms", "server late p99", "others, cores"},
		facts: facts,
	}
	type key struct {
		c      int
		client string
	}
	groups := map[key][]reading{}
	discarded := map[key]int{}
	var order []key
	for _, r := range readings {
		k := key{r.Concurrency, r.Client}
		if !slices.Contains(order, k) {
			order = append(order, k)
		}
		if r.Discarded != "" {
			discarded[k]++
		} else {
			groups[k] = append(groups[k], r)
		}
	}
	slices.SortStableFunc(order, func(a, b key) int { return a.c - b.c })
	perEvent := func(r reading) float64 { return r.CPU / float64(r.Truth.Events.Total) * 1e6 }
	for _, k := range order {
		rs := groups[k]
		n := fmt.Sprint(len(rs))
		if d := discarded[k]; d > 0 {
			n += fmt.Sprintf(" (%d discarded)", d)
		}
		if len(rs) == 0 {
			t.rows = append(t.rows, []string{k.client, fmt.Sprint(k.c), n, "–", "–", "–", "–", "–", "–", "–", "–", "–", "–"})
			continue
		}
		ratio := "–"
		if floor := groups[key{k.c, "drain"}]; len(floor) > 0 {
			ratio = fmt.Sprintf("%.2f", median(rs, perEvent)/median(floor, perEvent))
		}
		p50, p99 := "–", "–"
		told := slices.DeleteFunc(slices.Clone(rs), func(r reading) bool { return !r.Reported })
		if len(told) > 0 {
			p50 = fmt.Sprintf("%+.2f", median(told, func(r reading) float64 { return r.P50Off }))
			p99 = fmt.Sprintf("%+.2f", median(told, func(r reading) float64 { return r.P99Off }))
		}
		t.rows = append(t.rows, []string{
			k.client, fmt.Sprint(k.c), n,
			fmt.Sprintf("%.2f", median(rs, perEvent)), ratio,
			fmt.Sprintf("%.4f", median(rs, func(r reading) float64 { return r.CPU / float64(r.Truth.ServedTokens) * 1000 })),
			fmt.Sprintf("%.0f", median(rs, func(r reading) float64 { return r.RSS })),
			p50, p99,
			fmt.Sprintf("%.1f", median(rs, func(r reading) float64 { return r.Truth.MeanInFlight })),
			fmt.Sprintf("%.0f", median(rs, func(r reading) float64 { return r.Ready })),
			time.Duration(median(rs, func(r reading) float64 { return float64(r.Truth.Lateness.P99) })).Round(time.Microsecond).String(),
			fmt.Sprintf("%.2f", median(rs, func(r reading) float64 { return r.Others })),
		})
	}
	return t
}

func median(rs []reading, of func(reading) float64) float64 {
	values := make([]float64, len(rs))
	for i, r := range rs {
		values[i] = of(r)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

func (t table) text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\n"+strings.Join(t.facts, "\n"))
	return err
}

func (t table) markdown(w io.Writer) error {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(t.head)
	line(slices.Repeat([]string{"---"}, len(t.head)))
	for _, row := range t.rows {
		line(row)
	}
	b.WriteString("\n")
	for _, f := range t.facts {
		b.WriteString("- " + f + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
