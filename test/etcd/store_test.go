// Package etcd tests the storage in an etcd cluster, on the real etcd: the suite of the contract, and two control
// planes on one cluster. It kills, pauses and cuts off members under 16 writers and 100 watchers on two servers, and
// checks by porcupine that the history is linearizable.
//
// TestAPI sends the same random requests to the real etcd and to etcd's API over our stores, and compares all
// responses, errors and events.
//
// With -kube-apiserver FILE, the tests run the real kube-apiserver on both, and move a cluster from Flyball to
// kube-apiserver and back.
package etcd

import (
	"testing"

	"flyball.dev/storage"
	"flyball.dev/storage/etcd"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

// open opens a store with all keys of a cluster.
func open(t testing.TB, c *cluster, o etcd.Options) *etcd.Store {
	t.Helper()
	o.Endpoints = c.endpoints()
	o.Logf = t.Logf
	if o.Prefixes == nil {
		o.Prefixes = []etcd.Prefix{{}}
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

// TestStoreOnAPI runs the suite of the contract on the store in an etcd cluster, where the cluster is etcd's API over a store
// in memory.
func TestStoreOnAPI(t *testing.T) {
	storagetest.Run(t, func(t testing.TB) storage.Store {
		url := "http://" + serveStore(t, memory.New(memory.Options{}))
		s, err := etcd.Open(t.Context(), etcd.Options{Endpoints: []string{url}, Prefixes: []etcd.Prefix{{}}, Logf: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
