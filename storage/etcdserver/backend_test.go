package etcdserver_test

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"flyball.dev/storage/etcdserver"
	"flyball.dev/storage/memory"
)

// TestSnapshot receives a snapshot, and reads it as a database. No temporary file stays, also when the client leaves early.
func TestSnapshot(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	onStores(t, func(t *testing.T, s *served) {
		for range 8 {
			s.put(t, "k", strings.Repeat("v", 1<<20))
			s.put(t, "l", strings.Repeat("v", 1<<20))
		}
		client := etcdserverpb.NewMaintenanceClient(s)
		early, err := client.Snapshot(t.Context(), &etcdserverpb.SnapshotRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := early.Recv(); err != nil {
			t.Fatal(err)
		}
		stream, err := client.Snapshot(t.Context(), &etcdserverpb.SnapshotRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var data []byte
		for remaining := uint64(1); ; {
			r, err := stream.Recv()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(data) > 0 && remaining != r.RemainingBytes && remaining != r.RemainingBytes+uint64(len(r.Blob)) {
				t.Errorf("%d bytes remain after %d and a part of %d", r.RemainingBytes, remaining, len(r.Blob))
			}
			data, remaining = append(data, r.Blob...), r.RemainingBytes
		}
		if len(data)%512 != sha256.Size || len(data) > 8<<20 {
			t.Fatalf("the snapshot has %d bytes", len(data))
		}
		file := filepath.Join(t.TempDir(), "db")
		content, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
		if got := sha256.Sum256(content); string(got[:]) != string(sum) {
			t.Error("the checksum is wrong")
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.View(func(tx *bbolt.Tx) error {
			if n := tx.Bucket([]byte("key")).Stats().KeyN; n != 2 {
				t.Errorf("the database has %d keys", n)
			}
			for err := range tx.Check() {
				t.Error(err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	// The server has stopped, and with it the stream that nobody reads.
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("there are temporary files: %v, %v", left, err)
	}
}

// TestSnapshotWithoutSpace has no directory for temporary files.
func TestSnapshotWithoutSpace(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	s := serve(t, etcdserver.Options{Store: memory.New(memory.Options{})})
	stream, err := etcdserverpb.NewMaintenanceClient(s).Snapshot(t.Context(), &etcdserverpb.SnapshotRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("error %v", err)
	}
}
