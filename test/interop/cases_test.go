//go:build linux

package interop_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// caseTable has what aicr printed in each of the cases of docs/interop.md, by number.
type caseTable struct {
	mu   sync.Mutex
	rows map[int]string
}

// records keeps what aicr came to in a case, for the table of the documentation.
func records(t *testing.T, number int, said string) {
	t.Helper()
	cases.mu.Lock()
	defer cases.mu.Unlock()
	if cases.rows == nil {
		cases.rows = map[int]string{}
	}
	cases.rows[number] = strings.Join(strings.Fields(strings.ReplaceAll(said, "|", "/")), " ")
}

// records keeps a verdict with its reason.
func (j *judgement) records(t *testing.T, number int) {
	t.Helper()
	records(t, number, fmt.Sprintf("%s: %s", j.verdict.Verdict, cmp.Or(j.verdict.Reason, "no reason")))
}

// write writes the table's rows, if there are any.
func (c *caseTable) write(path string) error {
	if len(c.rows) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("| case | aicr |\n|---|---|\n")
	for _, number := range slices.Sorted(maps.Keys(c.rows)) {
		fmt.Fprintf(&b, "| %d | %s |\n", number, c.rows[number])
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
