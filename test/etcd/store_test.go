package etcd

import (
	"testing"

	"flyball.dev/storage"
	"flyball.dev/storage/etcd"
	"flyball.dev/storage/storagetest"
)

// open opens a store with all keys of a cluster.
func open(t testing.TB, c *cluster, o etcd.Options) *etcd.Store {
	t.Helper()
	o.Endpoints = c.endpoints()
	o.Logf = t.Logf
	if o.Prefixes == nil {
		o.Prefixes = []string{""}
	}
	s, err := etcd.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStore runs the suite of the contract. Each test has a cluster of its own.
func TestStore(t *testing.T) {
	storagetest.Run(t, func(t testing.TB) storage.Store { return open(t, startCluster(t, 1), etcd.Options{}) })
}
