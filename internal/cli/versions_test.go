package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A cluster that is asked and a snapshot that was taken of it are the same to aicr
// versions.
func TestVersionsOfAClusterAreThoseOfItsSnapshot(t *testing.T) {
	w := startCluster(t, "h100-eks")
	taken := filepath.Join(w.dir, "taken.yaml")
	if _, stderr, code := w.aicr("snapshot", "--write", taken); code != 0 {
		t.Fatal(stderr)
	}
	asked, _, code := w.aicr("versions", "--cluster")
	read, _, same := w.aicr("versions", "--snapshot", taken)
	if asked != read || code != same || !strings.Contains(asked, "there: runtime against chart") {
		t.Errorf("asked, with code %d:\n%s\nread, with code %d:\n%s", code, asked, same, read)
	}
}

func TestVersionsOfAClusterThatCannotBeAsked(t *testing.T) {
	w := startCluster(t, "h100-eks")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"both":       {[]string{"--cluster", "--snapshot", "x.yaml"}, 2, "--snapshot and --cluster are both given"},
		"no context": {[]string{"--cluster", "--context", "tset"}, 2, "did you mean --context test?"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := w.aicr(append([]string{"versions"}, c.args...)...)
			if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("code %d, %q, %q", code, stdout, stderr)
			}
		})
	}
	w.Answer("/version", http.StatusServiceUnavailable, "")
	if _, stderr, code := w.aicr("versions", "--cluster"); code != 3 {
		t.Errorf("a cluster that does not answer: code %d, %s", code, stderr)
	}
	if left, _ := os.ReadDir(w.dir); len(left) != 1 {
		t.Errorf("something was written: %v", left)
	}
}
