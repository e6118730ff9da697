package host

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func port(t *testing.T, l *net.TCPListener, err error) int {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return l.Addr().(*net.TCPAddr).Port
}

func TestTheNextSandboxOfAFolderHasItsPort(t *testing.T) {
	folder := t.TempDir()
	first, err := OpenPort(folder)
	before := port(t, first, err)
	if !first.Addr().(*net.TCPAddr).IP.IsLoopback() {
		t.Errorf("%v is to be reached by others", first.Addr())
	}
	_ = first.Close()
	second, err := OpenPort(folder)
	if after := port(t, second, err); after != before {
		t.Errorf("port %d, and it was %d", after, before)
	}
	// While somebody has it, there is another.
	third, err := OpenPort(folder)
	if other := port(t, third, err); other == before {
		t.Errorf("port %d twice", other)
	}
	_ = second.Close()
	_ = third.Close()
}

func TestAFolderIsOfOneSandboxAtATime(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "folder")
	got, remove, err := OpenFolder(folder)
	if err != nil || got != folder {
		t.Fatalf("%q, %v", got, err)
	}
	if _, _, err := OpenFolder(folder); err == nil {
		t.Error("opened twice")
	}
	remove()
	_, remove, err = OpenFolder(folder)
	if err != nil {
		t.Fatalf("not given back: %v", err)
	}
	remove()
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("a folder of the user's was removed: %v", err)
	}
}

func TestATemporaryFolderIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	folder, remove, err := OpenFolder("")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	remove()
	if _, err := os.Stat(folder); err == nil {
		t.Errorf("%s is left", folder)
	}
}

func TestAShellReadsBackWhatWasQuoted(t *testing.T) {
	for _, path := range []string{"/tmp/plain-1.2_x", "/tmp/with space", "/tmp/it's", "/tmp/$HOME`id`;\"*"} {
		out, err := exec.Command("sh", "-c", "printf %s "+Quote(path)).Output()
		if err != nil || string(out) != path {
			t.Errorf("%q: %q, %v", path, out, err)
		}
	}
	if got := Quote("/tmp/plain-1.2_x"); got != "/tmp/plain-1.2_x" {
		t.Errorf("quoted without need: %s", got)
	}
}
