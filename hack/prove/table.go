package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"aicr/test/busy"
)

// What a part came to.
const (
	resultPass   = "pass"
	resultFail   = "FAIL"
	resultNotRun = "NOT RUN"
)

// row is what is kept of a part.
type row struct {
	Part    string     `json:"part"`
	Result  string     `json:"result"`
	Began   time.Time  `json:"began"`
	Seconds float64    `json:"seconds"`
	Tests   int        `json:"tests"`
	Skipped int        `json:"skipped"`
	Busy    []busyTest `json:"busy"`
}

func (r *row) passed() bool { return r.Result == resultPass }

// tries is how many readings the test took that took most.
func (r *row) tries() int {
	most := 1
	for _, b := range r.Busy {
		most = max(most, min(len(b.Why)+1, busy.Tries))
	}
	return most
}

func (r *row) write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Part+".json"), append(data, '\n'), 0o644)
}

// readRows reads what was kept, in the order in which it was run.
func readRows(dir string) ([]row, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var r row
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return a.Began.Compare(b.Began) })
	return rows, nil
}

// inOrder gives a row for each part. One that left none did not come to its
// command: what it needs could not be built.
func inOrder(rows []row, parts []string) []row {
	var all []row
	for _, name := range parts {
		at := slices.IndexFunc(rows, func(r row) bool { return r.Part == name })
		if at < 0 {
			all = append(all, row{Part: name, Result: resultFail})
			continue
		}
		all = append(all, rows[at])
	}
	return all
}

// writeTable prints a line a part, and a line for each test that a busy machine
// spoilt a reading of.
func writeTable(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "part\tresult\tseconds\ttests\tskipped\ttoo busy\ttries")
	var sum row
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%s\t%s\t%d\t%d\n", r.Part, r.Result, r.Seconds, count(r.Tests), count(r.Skipped), len(r.Busy), r.tries())
		sum.Seconds += r.Seconds
		sum.Tests += r.Tests
		sum.Skipped += r.Skipped
		sum.Busy = append(sum.Busy, r.Busy...)
	}
	fmt.Fprintf(t, "all\t\t%.0f\t%s\t%s\t%d\t%d\n", sum.Seconds, count(sum.Tests), count(sum.Skipped), len(sum.Busy), sum.tries())
	if err := t.Flush(); err != nil {
		return err
	}
	for _, b := range sum.Busy {
		fmt.Fprintf(w, "\nthe machine was too busy for %d of %d readings of %s, which ended with %s\n", len(b.Why), min(len(b.Why)+1, busy.Tries), b.Test, cmp.Or(b.Ended, "nothing"))
		for _, why := range b.Why {
			fmt.Fprintf(w, "  %s\n", why)
		}
	}
	return nil
}

// count is a number of tests, where the part's output tells it.
func count(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
