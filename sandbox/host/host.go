// Package host is what a sandbox has of the machine it runs on: a folder and a port.
package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenFolder takes a folder for this process alone. remove gives it back.
func OpenFolder(dir string) (folder string, remove func(), err error) {
	if dir == "" {
		folder, err = os.MkdirTemp("", "aicr-sandbox-")
		return folder, func() { _ = os.RemoveAll(folder) }, err
	}
	if folder, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", nil, err
	}
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return "", nil, fmt.Errorf("another sandbox runs in %s", folder)
	}
	return folder, func() { _ = lock.Close() }, nil
}

// OpenPort listens where the API server is to be found. It is the port of the last time,
// if nobody else has it by now, so that kubeconfigs stay valid.
func OpenPort(folder string) (*net.TCPListener, error) {
	file := filepath.Join(folder, "port")
	last := 0
	if text, err := os.ReadFile(file); err == nil {
		last, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	at := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: last}
	listener, err := net.ListenTCP("tcp", &at)
	if err != nil && last != 0 {
		at.Port = 0
		listener, err = net.ListenTCP("tcp", &at)
	}
	if err != nil {
		return nil, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return listener, os.WriteFile(file, []byte(strconv.Itoa(port)+"\n"), 0o600)
}

// Quote makes a path safe for a shell.
func Quote(path string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-", r)
	}
	if strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
