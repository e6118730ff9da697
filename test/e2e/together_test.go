//go:build linux

package e2e_test

import (
	"os"
	"path/filepath"
	"testing"

	"aicr/internal/spec"
)

// Two validations begin at the same instant, when not even their common namespace is
// there, and each on a node of its own; a third follows on the node of the first as soon
// as that is free. None of them loses anything, and nothing is left.
func TestTwoAtOnceAndBackToBack(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "aicr: PROGRAM\n")
	before := c.asItIs(t)
	html := filepath.Join(t.TempDir(), "report.html")
	one := c.led(t, tiny("gpu-0", "--report", "html="+html)...)
	other := c.led(t, tiny("gpu-1")...)
	first := one.end(t)
	next := c.led(t, tiny("gpu-0")...)
	for _, o := range []*outcome{first, other.end(t), next.end(t)} {
		c.cameTo(t, o, "", spec.Pass, 0)
		if o.verdict == nil {
			t.Errorf("its folder has no verdict\n%s", o)
		}
		if told := c.run(t, nil, "judge", o.dir); told.code != 0 {
			t.Errorf("judged again it is another\n%s", told)
		}
	}
	if page, err := os.ReadFile(html); err != nil || len(page) == 0 {
		t.Errorf("there is no report: %v", err)
	}
	if one.id() == other.id() || one.id() == "" || next.id() == one.id() {
		t.Errorf("the runs are %q, %q and %q", one.id(), other.id(), next.id())
	}
	c.settled(t, before)
}
