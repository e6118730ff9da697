// Package shim is the first thing that runs in a container of the sandbox. It makes the
// container's own view of the file system, and then becomes the container's program.
//
// The view is the host's tree with the container's volumes at their places. Nothing is
// written into the host's tree: where the parent of a mount point is missing, the
// nearest folder that exists is covered by one in memory that has the same children.
// It needs no container runtime and no real root, only the rights of a user namespace.
package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spec is what a container is made of.
type Spec struct {
	Root   string   `json:"root"` // an empty folder of the host, which the view is made on
	Mounts []Mount  `json:"mounts"`
	Dir    string   `json:"dir,omitempty"`
	Argv   []string `json:"argv"`
	Env    []string `json:"env"`
}

// Mount is a folder or a file of the host that is seen at another place.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// The exit codes of a program that could not be started are those of shells.
const (
	exitNoView  = 125
	exitNoStart = 126
	exitNoFile  = 127
)

// Main runs `shim FILE`: the process, which has a mount namespace of its own already,
// becomes the program of the Spec in that file. It returns only when that failed.
func Main(args []string) int {
	unix.CloseOnExec(failures)
	s, err := read(args)
	if err == nil {
		err = view(s)
	}
	code := exitNoView
	if err == nil {
		code, err = become(s)
	}
	// The node reads this descriptor: it is closed by a start, and told of a failure.
	if _, e := unix.Write(failures, []byte(err.Error())); e != nil {
		return fail(code, err)
	}
	return code
}

// Who starts a shim finds why it failed at this descriptor.
const failures = 3

// Enter runs `enter FILE`: the process joins the mount namespace of the process whose
// pidfd is descriptor 3, and becomes the program of the Spec.
func Enter(args []string) int {
	s, err := read(args)
	if err != nil {
		return fail(exitNoView, err)
	}
	runtime.LockOSThread() // the namespace is the thread's, and this thread calls exec
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fail(exitNoView, fmt.Errorf("unshare: %w", err))
	}
	if err := unix.Setns(3, unix.CLONE_NEWNS); err != nil {
		return fail(exitNoView, fmt.Errorf("the container's file system: %w", err))
	}
	_ = unix.Close(3)
	return fail(become(s))
}

func fail(code int, err error) int {
	fmt.Fprintln(os.Stderr, "sandbox-pod:", err)
	return code
}

func read(args []string) (*Spec, error) {
	if len(args) != 1 {
		return nil, errors.New("want one argument, the file that says what to run")
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return nil, err
	}
	s := new(Spec)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, err
	}
	if len(s.Argv) == 0 {
		return nil, errors.New("nothing to run")
	}
	return s, nil
}

// become returns only when it failed.
func become(s *Spec) (code int, err error) {
	dir := s.Dir
	if dir == "" {
		dir = "/"
	}
	if err := os.Chdir(dir); err != nil {
		return exitNoStart, fmt.Errorf("the working directory: %w", err)
	}
	os.Clearenv()
	for _, e := range s.Env {
		name, value, _ := strings.Cut(e, "=")
		_ = os.Setenv(name, value)
	}
	program, err := exec.LookPath(s.Argv[0])
	if err != nil {
		return exitNoFile, err
	}
	err = syscall.Exec(program, s.Argv, s.Env)
	return exitNoStart, fmt.Errorf("%s: %w", program, err)
}

// view makes the file system of the container, and moves into it.
func view(s *Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", s.Root, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("the root: %w", err)
	}
	// Not part of what is bound into it: the folder may lie in a tree that is.
	if err := unix.Mount("", s.Root, "", unix.MS_UNBINDABLE, ""); err != nil {
		return fmt.Errorf("the root: %w", err)
	}
	v := &tree{root: s.Root, covered: map[string]bool{"/": true}}
	if err := v.mirror("/"); err != nil {
		return err
	}
	// The outer ones first, whatever their order in the pod.
	mounts := slices.Clone(s.Mounts)
	slices.SortStableFunc(mounts, func(a, b Mount) int {
		return strings.Count(path.Clean(a.Target), "/") - strings.Count(path.Clean(b.Target), "/")
	})
	for _, m := range mounts {
		if err := v.bind(m); err != nil {
			return fmt.Errorf("%s: %w", m.Target, err)
		}
	}
	old := filepath.Join(s.Root, ".host")
	if err := os.Mkdir(old, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(s.Root, old); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Unmount("/.host", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the host's root: %w", err)
	}
	return os.Remove("/.host")
}

// tree is the view while it is made. Its paths are those that the container will see.
type tree struct {
	root    string
	covered map[string]bool // folders in memory, where mount points may be made
}

func (t *tree) at(p string) string { return filepath.Join(t.root, p) }

// mirror fills a folder in memory with what the host has there.
func (t *tree) mirror(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		if p == t.root || p == "/.host" {
			continue
		}
		if err := t.reflect(p, e.Type()); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

func (t *tree) reflect(p string, kind fs.FileMode) error {
	switch {
	case kind&fs.ModeSymlink != 0:
		to, err := os.Readlink(p)
		if err != nil {
			return err
		}
		return os.Symlink(to, t.at(p))
	case kind.IsDir():
		if err := os.Mkdir(t.at(p), 0o755); err != nil {
			return err
		}
	default:
		if err := touch(t.at(p)); err != nil {
			return err
		}
	}
	return unix.Mount(p, t.at(p), "", unix.MS_BIND|unix.MS_REC, "")
}

func touch(p string) error {
	f, err := os.OpenFile(p, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// bind puts a mount at its place.
func (t *tree) bind(m Mount) error {
	source, err := filepath.EvalSymlinks(m.Source)
	if err != nil {
		return err
	}
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	target, err := t.place(m.Target, info.IsDir())
	if err != nil {
		return err
	}
	if err := unix.Mount(source, t.at(target), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	for dir := range t.covered { // what was covered before lies below now
		if dir == target || strings.HasPrefix(dir, target+"/") {
			delete(t.covered, dir)
		}
	}
	if info.IsDir() {
		// It is a folder of this pod: mount points of volumes inside it may be made there.
		t.covered[target] = true
	}
	if m.ReadOnly {
		return readOnly(t.at(target))
	}
	return nil
}

// readOnly keeps the other flags of the mount: who is not the host's root may not drop them.
func readOnly(p string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(p, &st); err != nil {
		return err
	}
	flags := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME)
	if err := unix.Mount("", p, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("read-only: %w", err)
	}
	return nil
}

// place is where a mount point is, with its links followed. It is made when there is none.
func (t *tree) place(target string, folder bool) (string, error) {
	at, links := "/", 0
	rest := parts(target)
	for i := 0; i < len(rest); i++ {
		if rest[i] == ".." {
			at = path.Dir(at)
			continue
		}
		p := path.Join(at, rest[i])
		info, err := os.Lstat(t.at(p))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := t.cover(at); err != nil {
				return "", err
			}
			if i < len(rest)-1 || folder {
				err = os.Mkdir(t.at(p), 0o755)
			} else {
				err = touch(t.at(p))
			}
			if err != nil {
				return "", err
			}
			if i < len(rest)-1 {
				t.covered[p] = true
			}
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > 40 {
				return "", errors.New("too many links")
			}
			to, err := os.Readlink(t.at(p))
			if err != nil {
				return "", err
			}
			if path.IsAbs(to) {
				at = "/"
			}
			rest, i = append(parts(to), rest[i+1:]...), -1
			continue
		}
		at = p
	}
	return at, nil
}

func parts(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(s string) bool { return s == "" || s == "." })
}

// cover makes a folder of the host one in memory with the same children, so that a
// mount point can be made in it. One that is in memory, or a volume's, is left alone.
func (t *tree) cover(dir string) error {
	for d := dir; ; d = path.Dir(d) {
		if t.covered[d] && (d == dir || !t.onHost(dir)) {
			return nil
		}
		if d == "/" {
			break
		}
	}
	if err := unix.Mount("tmpfs", t.at(dir), "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	t.covered[dir] = true
	return t.mirror(dir)
}

// onHost says whether a folder of the view is the host's.
func (t *tree) onHost(dir string) bool {
	here, err := os.Stat(t.at(dir))
	if err != nil {
		return false
	}
	there, err := os.Stat(dir)
	return err == nil && os.SameFile(here, there)
}
