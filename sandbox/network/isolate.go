package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ErrForbidden says that this machine lets nobody like us have namespaces.
var ErrForbidden = errors.New("this machine does not allow a private network (user, network and mount namespaces)")

// StartIsolated starts a command in namespaces of its own, in which it is root. The
// real root has no need of a user namespace, and goes without where that is possible:
// then pods may be of other users.
func StartIsolated(build func() *exec.Cmd) (*exec.Cmd, error) {
	ways := []uintptr{syscall.CLONE_NEWUSER}
	if os.Geteuid() == 0 {
		ways = []uintptr{0, syscall.CLONE_NEWUSER}
	}
	var failed error
	for _, way := range ways {
		cmd := build()
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | way
		if way == syscall.CLONE_NEWUSER {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		}
		if failed = cmd.Start(); failed == nil {
			return cmd, nil
		}
	}
	for _, no := range []error{unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EUSERS, unix.EINVAL, unix.ENOSYS} {
		if errors.Is(failed, no) {
			return nil, fmt.Errorf("%w: %w", ErrForbidden, failed)
		}
	}
	return nil, failed
}

// Isolate makes the namespaces of this process a cluster's network: lo is up, all of
// the cluster's addresses are local, and what is mounted here is not seen outside.
func Isolate() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("starting lo: %w", err)
	}
	for _, prefix := range []netip.Prefix{Pods, Services} {
		route := &netlink.Route{
			LinkIndex: lo.Attrs().Index, Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST,
			Dst: &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), 32)},
		}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("routing %s to lo: %w", prefix, err)
		}
	}
	// Programs that ask the C library for the addresses of a kind that the machine has
	// (AI_ADDRCONFIG, as Python's aiohttp does) get none where there is lo's own alone.
	if err := netlink.AddrReplace(lo, &netlink.Addr{IPNet: &net.IPNet{IP: Pods.Addr().AsSlice(), Mask: net.CIDRMask(32, 32)}}); err != nil {
		return fmt.Errorf("giving lo the address %s: %w", Pods.Addr(), err)
	}
	return nil
}
