//go:build linux || darwin

package load

import "golang.org/x/sys/unix"

// fitDescriptors makes room for so many connections at once: it raises the process's soft
// limit of open files where that is too low, and refuses with a *DescriptorLimit where
// the hard limit is.
func fitDescriptors(connections int) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return nil // it is not known: connecting will tell
	}
	raise, err := limits{now.Cur, now.Max}.fit(connections, openDescriptors())
	if err != nil || raise == 0 {
		return err
	}
	was := now.Cur
	now.Cur = raise
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &now) != nil {
		_, err = limits{was, was}.fit(connections, openDescriptors())
	}
	return err
}

// openDescriptors is about how many are open: the lowest that is free.
func openDescriptors() uint64 {
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	_ = unix.Close(fd)
	return uint64(fd)
}
