package reserve

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestPort: servers listen on a reserved port, one after another, and connections are refused while none does.
func TestPort(t *testing.T) {
	for host, hosts := range map[string][]string{
		"127.0.0.1": {"127.0.0.1", "", "0.0.0.0"}, "localhost": {"localhost"}, "0.0.0.0": {"127.0.0.1", "0.0.0.0"},
		"::1": {"::1", ""}, "": {"", "127.0.0.1"},
	} {
		port, held, err := Port(host)
		if strings.Contains(host, ":") && (errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)) {
			t.Logf("there is no IPv6: %v", err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		for range 2 {
			for _, h := range hosts {
				address := net.JoinHostPort(h, strconv.Itoa(port))
				if c, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s, and nobody listens: %v, %v", address, c, err)
				}
				serve(t, address)
			}
		}
	}
}

// serve listens on an address, where nobody else can listen then, and accepts a connection. The side that closes first
// leaves the port in TIME_WAIT.
func serve(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer l.Close()
	if _, err := net.Listen("tcp", address); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second server: %v", err)
	}
	out, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		t.Error(err)
		return
	}
	in.Close()
}

// TestPortIsReserved takes many ports: the system chooses none twice, whether listeners or reservations ask.
func TestPortIsReserved(t *testing.T) {
	seen := map[int]bool{}
	take := func(port int) {
		if seen[port] {
			t.Errorf("the port %d was chosen twice", port)
		}
		seen[port] = true
	}
	for range 400 {
		port, held, err := Port("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		take(port)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		take(l.Addr().(*net.TCPAddr).Port)
		l.Close()
		delete(seen, l.Addr().(*net.TCPAddr).Port)
	}
}

func TestPortErrors(t *testing.T) {
	if _, _, err := Port("203.0.113.1"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("an address of another host: %v", err)
	}
	if _, _, err := Port("no host"); err == nil {
		t.Error("no error for a name that nobody has")
	}
}
