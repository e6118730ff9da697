package process

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// KillChildren kills the children of this process, and theirs, which become ours when
// their parents are dead.
func KillChildren() {
	for {
		pids := children()
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	}
}

// children are the processes whose parent is this one, dead ones as well.
func children() []int {
	self := os.Getpid()
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		if pid, parent := parents(text); parent == self {
			pids = append(pids, pid)
		}
	}
	return pids
}

// parents reads "PID (NAME) STATE PPID ...", where a name may have anything in it.
func parents(stat []byte) (pid, parent int) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return 0, 0
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 {
		return 0, 0
	}
	pid, _ = strconv.Atoi(string(bytes.TrimSpace(stat[:open])))
	parent, _ = strconv.Atoi(string(fields[1]))
	return pid, parent
}

// AdoptOrphans makes this process the parent of those of its descendants that lose
// theirs.
func AdoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// Bury takes note of the end of orphans, which otherwise stay in the system's table.
// except are the children that somebody else waits for.
func Bury(except ...int) {
	for _, pid := range children() {
		if !slices.Contains(except, pid) {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}
