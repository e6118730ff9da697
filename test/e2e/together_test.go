//go:build linux

package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aicr/internal/spec"
)

// Two validations begin at the same instant, when not even their common namespace is there,
// and either may have any of two nodes: each gets one of its own, since a choice is a
// reservation. A third that wants a node which one of them has is told so at once, and gets
// it as soon as that is free. None of them loses anything, and nothing is left.
func TestTwoAtOnceAndBackToBack(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "aicr: PROGRAM\n")
	before := c.asItIs(t)
	html := filepath.Join(t.TempDir(), "report.html")
	either := func(more ...string) []string {
		return append([]string{"--recipe", recipe, "--check", "inference-perf", "--profile", "smoke", "--episode-duration", "10s", "--concurrency-per-gpu", "4",
			"--node-selector", "kubernetes.io/hostname!=gpu-2,kubernetes.io/hostname!=gpu-3,kubernetes.io/hostname!=gpu-4,kubernetes.io/hostname!=gpu-5"}, more...)
	}
	one := c.led(t, either("--report", "html="+html)...)
	other := c.led(t, either()...)
	awaited(t, one, "its node", func() bool { return nodeOf(one) != "" })
	awaited(t, other, "its node", func() bool { return nodeOf(other) != "" })
	if nodeOf(one) == nodeOf(other) {
		t.Fatalf("both are on node %s\n%s\n%s", nodeOf(one), one.stderr.String(), other.stderr.String())
	}
	late := c.led(t, tiny(nodeOf(one))...).end(t)
	if late.code != 3 || !strings.HasPrefix(late.stdout, "INCONCLUSIVE") || !strings.Contains(late.stdout, "is reserved by run") {
		t.Errorf("it does not say that the node is reserved\n%s", late)
	}
	first := one.end(t)
	next := c.led(t, tiny(nodeOf(one))...)
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

var onNode = regexp.MustCompile(`(?m)^run [0-9a-f-]+ on node ([a-z0-9-]+): `)

// nodeOf is the node that a validation has said it is on; "": it has not yet.
func nodeOf(l *living) string {
	if said := onNode.FindStringSubmatch(l.stderr.String()); said != nil {
		return said[1]
	}
	return ""
}
