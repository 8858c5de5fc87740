// Package reservetest reserves TCP ports for tests.
package reservetest

import (
	"net"
	"strconv"
	"testing"

	"flyball.dev/internal/reserve"
)

// Port returns a port of 127.0.0.1 that is reserved for the test.
func Port(t testing.TB) int {
	t.Helper()
	port, held, err := reserve.Port("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	return port
}

// Address returns 127.0.0.1 with a port that is reserved for the test.
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Port(t)))
}
