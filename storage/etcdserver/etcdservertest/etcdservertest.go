// Package etcdservertest serves etcd's API in tests.
package etcdservertest

import (
	"net"
	"testing"

	"flyball.dev/storage/etcdserver"
)

// Serve serves a store on a port of the loopback interface until the test ends, and returns the address. The store is
// closed then.
func Serve(t testing.TB, o etcdserver.Options) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := etcdserver.New(o)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener, nil) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		o.Store.Close()
	})
	return listener.Addr().String()
}
