package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"aicr/internal/spec"
)

// A link is somebody's: a run is not kept in its place, whatever it leads to.
func TestARunNeverReplacesALink(t *testing.T) {
	for what, target := range map[string]string{"an empty folder": "empty", "a folder": "full", "nothing": "missing", "a file": "full/file"} {
		for _, through := range []string{"link", "link/"} {
			t.Run(what+" through "+through, func(t *testing.T) {
				dir := t.TempDir()
				for _, name := range []string{"empty", "full"} {
					if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.WriteFile(filepath.Join(dir, "full", "file"), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
				link := filepath.Join(dir, "link")
				if err := os.Symlink(filepath.Join(dir, target), link); err != nil {
					t.Fatal(err)
				}
				named := filepath.Join(dir, "link") + strings.TrimPrefix(through, "link")
				synctest.Test(t, func(t *testing.T) {
					env := testEnv(nil, "validate", "--sim", "small", "--profile", "smoke", "--run", named)
					var said keptWriter
					env.Stderr = &said
					if code := Run(t.Context(), env); code != int(Misused) || !strings.Contains(said.String(), "is a symbolic link") {
						t.Errorf("exit code %d\n%s", code, &said)
					}
				})
				if to, err := os.Readlink(link); err != nil || to != filepath.Join(dir, target) {
					t.Errorf("the link is %q now, %v", to, err)
				}
				if there, _ := os.ReadDir(filepath.Join(dir, "empty")); len(there) > 0 {
					t.Error("something was put where it leads")
				}
			})
		}
	}
	// A link that is made between the look and the rename is not removed either.
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	r := &recorder{dir: link}
	if err := r.begin(&spec.Plan{}); err == nil {
		t.Error("the run was begun in its place")
	}
	if _, err := os.Readlink(link); err != nil {
		t.Errorf("the link is gone: %v", err)
	}
}

// Nothing that a command is given to write to is removed because it is a link.
func TestALinkThatLeadsNowhereStays(t *testing.T) {
	for what, args := range map[string][]string{
		"artifacts":  {"bench", "--url", "http://127.0.0.1:1", "--model", "m", "--request-count", "1", "--output-artifact-dir", "LINK"},
		"below them": {"bench", "--url", "http://127.0.0.1:1", "--model", "m", "--request-count", "1", "--output-artifact-dir", "LINK/a/b"},
		"a report":   {"validate", "--sim", "small", "--profile", "smoke", "--run", "RUN", "--report", "html=LINK/r.html"},
		"a record":   {"watch", "--log", "LOG", "--duration", "1", "--record", "LINK"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			link := filepath.Join(dir, "link")
			if err := errors.Join(os.Symlink(filepath.Join(dir, "missing"), link), os.WriteFile(filepath.Join(dir, "log"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			own := make([]string, len(args))
			for i, arg := range args {
				own[i] = strings.NewReplacer("LINK", link, "RUN", filepath.Join(dir, "run"), "LOG", filepath.Join(dir, "log")).Replace(arg)
			}
			synctest.Test(t, func(t *testing.T) { Run(t.Context(), testEnv(nil, own...)) })
			if _, err := os.Readlink(link); err != nil {
				t.Errorf("the link is gone: %v", err)
			}
		})
	}
}
