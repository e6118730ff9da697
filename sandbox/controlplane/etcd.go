package controlplane

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// The store is reached by a socket in the working folder, which Run's caller has set: a
// whole path may be longer than a socket's may be, and a port could be read by anyone.
const (
	etcdSocket = "etcd.sock"
	etcdURL    = "unix://" + etcdSocket
)

// startEtcd starts a store of one member.
func startEtcd(folder string) (*embed.Etcd, error) {
	// One that was killed leaves its socket behind.
	if err := os.RemoveAll(etcdSocket); err != nil {
		return nil, err
	}
	at, err := url.Parse(etcdURL)
	if err != nil {
		return nil, err
	}
	c := embed.NewConfig()
	c.Name, c.Dir = "sandbox", folder
	c.ListenClientUrls, c.ListenPeerUrls = []url.URL{*at}, nil
	c.TickMs, c.ElectionMs = 20, 200 // nobody else can be elected
	c.UnsafeNoFsync = true           // a process that is killed loses nothing, a machine that is may
	c.LogLevel, c.LogOutputs = "error", []string{"stderr"}
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, "10m"
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-etcd.Err():
		return nil, fmt.Errorf("starting etcd: %w", err)
	case <-time.After(time.Minute):
		etcd.Close()
		return nil, errors.New("etcd is not ready after a minute")
	}
}
