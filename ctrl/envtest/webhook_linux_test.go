package envtest_test

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"

	"flyball.dev/ctrl/envtest"
)

// TestLocalServingPortIsReserved: webhook servers listen on the port, one after another, and a socket that does not permit
// another one at its address gets EADDRINUSE even while no server runs, so the system cannot give the port away.
func TestLocalServingPortIsReserved(t *testing.T) {
	var o envtest.WebhookInstallOptions
	if err := o.PrepWithoutInstalling(); err != nil {
		t.Fatal(err)
	}
	defer o.Cleanup()
	address := net.JoinHostPort(o.LocalServingHost, strconv.Itoa(o.LocalServingPort))
	exclusive := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0) })
		return errors.Join(err, failed)
	}}
	for range 2 {
		server, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		server.Close()
		if l, err := exclusive.Listen(t.Context(), "tcp", address); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("another program: %v, %v", l, err)
		}
	}
}
