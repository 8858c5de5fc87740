package controlplane

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"flyball.dev/internal/reserve/reservetest"
	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
)

// TestSamePort starts control planes with one data directory on a port of the system's choice. Each is on the port that
// the directory has, if that is free, or else the directory gets the port that the system chose.
func TestSamePort(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	start := func() (address string) {
		plane, err := Start(t.Context(), Options{DataDir: dir, Listen: "127.0.0.1:0", WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := plane.Stop(); err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(plane.URL(), "https://")
	}
	if started, stored := start(), storedAddress(t, dir, ""); started != stored {
		t.Errorf("the first control plane is at %s, and %s is stored", started, stored)
	}
	free := reservetest.Address(t)
	storedAddress(t, dir, free)
	for range 2 {
		if started, stored := start(), storedAddress(t, dir, ""); started != free || stored != free {
			t.Errorf("the control plane is at %s, and %s is stored, want %s", started, stored, free)
		}
	}
	taken, err := net.Listen("tcp", free)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if started, stored := start(), storedAddress(t, dir, ""); started == free || started != stored {
		t.Errorf("the control plane is at %s, and %s is stored, while %s is taken", started, stored, free)
	}
}

// storedAddress returns the address that a data directory has, after it is replaced unless the new one is empty.
func storedAddress(t *testing.T, dir, address string) string {
	t.Helper()
	s, err := datadir.Open(dir, datadir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if address != "" {
		if _, err := s.Put(t.Context(), storage.Write{Key: addressKey, Value: []byte(address), If: storage.Any}); err != nil {
			t.Fatal(err)
		}
	}
	record, err := s.Get(t.Context(), addressKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(record.Value())
}
