package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/etcd"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/snapshot"
)

// rawClient returns a client of a cluster.
func rawClient(t *testing.T, url string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestRevokedLease revokes the lease that a store gives to records, as its end does while the machine is suspended. The next
// record gets another one.
func TestRevokedLease(t *testing.T) {
	c := startCluster(t, 1)
	s := open(t, c, etcd.Options{})
	defer s.Close()
	raw := rawClient(t, c.members[0].url)
	expires := time.Now().Add(time.Hour)
	write := func(key string) storage.Write { // a lease is for records that expire within a minute
		expires = expires.Add(2 * time.Second)
		return storage.Write{Key: key, If: storage.Any, Expires: expires}
	}
	first, err := s.Put(t.Context(), write("/a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, put := range []func() error{
		func() error { _, err := s.Put(t.Context(), write("/b")); return err },
		func() error {
			_, err := s.Transact(t.Context(), func(storage.View) ([]storage.Write, error) { return []storage.Write{write("/c")}, nil })
			return err
		},
	} {
		leases, err := raw.Leases(t.Context())
		if err != nil || len(leases.Leases) != 1 {
			t.Fatalf("%v, %v", leases, err)
		}
		if _, err := raw.Revoke(t.Context(), leases.Leases[0].ID); err != nil {
			t.Fatal(err)
		}
		if err := put(); err != nil {
			t.Errorf("after the end of the lease: %v", err)
		}
	}
	if _, err := s.Put(t.Context(), storage.Write{Key: "/d", Lease: first.Lease, If: storage.Any}); !errors.Is(err, storage.ErrNoLease) {
		t.Errorf("with a lease of the caller: %v", err)
	}
}

// TestOtherCluster replaces a cluster by another one with later revisions, at the same address. The store must not take it for
// the first one.
func TestOtherCluster(t *testing.T) {
	c := startCluster(t, 1)
	m := c.members[0]
	p := startProxy(t, m.url)
	s, err := etcd.Open(t.Context(), etcd.Options{Endpoints: []string{p.url}, Prefixes: []etcd.Prefix{{}}, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Put(t.Context(), storage.Write{Key: "/a", Value: []byte("first")}); err != nil {
		t.Fatal(err)
	}
	p.cut(true)
	c.kill(m)
	for i, arg := range m.args {
		if strings.HasPrefix(arg, "--data-dir=") {
			m.args[i] = "--data-dir=" + t.TempDir()
		}
	}
	m.args = append(m.args, "--initial-cluster-token=other")
	c.start(m)
	c.await(m)
	raw := rawClient(t, m.url)
	for i := range 20 {
		if _, err := raw.Put(t.Context(), "/a", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	p.cut(false)
	ctx := t.Context()
	for range 3 {
		if r, err := s.Get(ctx, "/a"); err == nil || !strings.Contains(err.Error(), "another etcd cluster") {
			t.Errorf("a read: %+v, %v", r, err)
		}
	}
	if _, err := s.Put(ctx, storage.Write{Key: "/b"}); err == nil || !strings.Contains(err.Error(), "another etcd cluster") {
		t.Errorf("a write: %v", err)
	}
}

// TestNoSpace fills the cluster up to its quota. Writes fail with ErrNoSpace, reads and deletions go on, and when there is space
// again, writes do.
func TestNoSpace(t *testing.T) {
	c := startCluster(t, 1)
	m := c.members[0]
	c.kill(m)
	m.args = append(m.args, fmt.Sprintf("--quota-backend-bytes=%d", 4<<20))
	c.start(m)
	c.await(m)
	s := open(t, c, etcd.Options{})
	defer s.Close()
	ctx := t.Context()
	var full error
	var latest uint64
	written := 0
	for ; full == nil && written < 100; written++ {
		_, full = s.Put(ctx, storage.Write{Key: fmt.Sprintf("/k%d", written), Value: make([]byte, 200<<10)})
	}
	if !errors.Is(full, storage.ErrNoSpace) {
		t.Fatalf("the quota is exceeded: %v", full)
	}
	if _, err := s.Get(ctx, "/k0"); err != nil {
		t.Errorf("a read: %v", err)
	}
	if _, err := s.Put(ctx, storage.Write{Key: "/e", Expires: time.Now().Add(time.Hour)}); !errors.Is(err, storage.ErrNoSpace) {
		t.Errorf("a record that expires: %v", err)
	}
	for i := range written - 1 {
		if r, err := s.Delete(ctx, fmt.Sprintf("/k%d", i), storage.Any); err != nil {
			t.Errorf("a deletion: %v", err)
		} else {
			latest = r.Revision
		}
	}
	raw := rawClient(t, m.url)
	if _, err := raw.Compact(ctx, int64(latest), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Defragment(ctx, m.url); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a write with space again", func() error { // a write that has failed may raise the alarm later
		if _, err := raw.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
			return err
		}
		_, err := s.Put(ctx, storage.Write{Key: "/e"})
		if status, failed := raw.Status(ctx, m.url); failed == nil && err != nil {
			err = fmt.Errorf("%w: the database has %d bytes, and %d are in use", err, status.DbSize, status.DbSizeInUse)
		}
		return err
	})
}

// TestManyDeletions deletes more keys than a transaction of etcd can, by a request of etcd's API. The error is etcd's.
func TestManyDeletions(t *testing.T) {
	c := startCluster(t, 1)
	api := apiOn(t, c)
	raw := rawClient(t, c.members[0].url)
	for i := range storage.MaxOperations + 1 {
		if _, err := raw.Put(t.Context(), fmt.Sprintf("k%03d", i), ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := api.Delete(t.Context(), "k", clientv3.WithPrefix()); !errors.Is(err, rpctypes.ErrTooManyOps) {
		t.Errorf("too many: %v", err)
	}
	if r, err := api.Delete(t.Context(), "k000"); err != nil || r.Deleted != 1 {
		t.Errorf("one: %v, %v", r, err)
	}
	if r, err := api.Delete(t.Context(), "k", clientv3.WithRange("k100")); err != nil || r.Deleted != 99 {
		t.Errorf("99: %v, %v", r, err)
	}
}

// TestStartTogether starts three control planes at once on an empty cluster. All have the same authorities and keys.
func TestStartTogether(t *testing.T) {
	c := startCluster(t, 1)
	planes := make([]*controlplane.ControlPlane, 3)
	errs := make([]error, len(planes))
	var starting sync.WaitGroup
	for i := range planes {
		s, err := etcd.Open(t.Context(), etcd.Options{Endpoints: c.endpoints(), Logf: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		starting.Go(func() {
			planes[i], errs[i] = controlplane.Start(context.Background(), controlplane.Options{
				Storage: s, Shared: true, Listen: "127.0.0.1:0", AdvertiseAddress: netip.MustParseAddr(fmt.Sprintf("203.0.113.%d", i+1)),
			})
		})
	}
	starting.Wait()
	for i, p := range planes {
		if errs[i] != nil {
			t.Errorf("server %d: %v", i, errs[i])
			continue
		}
		t.Cleanup(func() {
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	if t.Failed() {
		return
	}
	for i, p := range planes {
		for j, other := range planes {
			crossed := configOf(t, other)
			crossed.TLSClientConfig = configOf(t, p).TLSClientConfig
			if err := clientFor(t, crossed).Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil {
				t.Errorf("server %d with the credentials of server %d: %v", j, i, err)
			}
		}
	}
	one := clientFor(t, configOf(t, planes[0]))
	eventually(t, "endpoints", func() error {
		return wantEndpoints(t.Context(), one, "203.0.113.1", "203.0.113.2", "203.0.113.3")
	})
	if err := one.Create(t.Context(), deployment("d")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deployment", func() error { return wantAvailable(t.Context(), clientFor(t, configOf(t, planes[2])), "d") })
}

// TestSnapshotOfEvents saves a snapshot of a control plane on etcd, where Events expire by leases of etcd. In a store that is made
// from the snapshot they expire too.
func TestSnapshotOfEvents(t *testing.T) {
	c := startCluster(t, 1)
	config := configOf(t, startPlane(t, c, "203.0.113.1"))
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"},
		InvolvedObject: corev1.ObjectReference{Kind: "Namespace", Name: "default", Namespace: "default"}, Reason: "Test", Type: corev1.EventTypeNormal}
	if err := clientFor(t, config).Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := controlplane.SaveSnapshot(t.Context(), config, &file); err != nil {
		t.Fatal(err)
	}
	const key = "/registry/events/default/e"
	name, dir := filepath.Join(t.TempDir(), "snapshot"), filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Restore(dir, name, false); err != nil {
		t.Fatal(err)
	}
	var expires time.Time
	loader := memory.NewLoader(memory.Options{})
	h, err := snapshot.Read(&file, func(r storage.Record, value []byte) {
		if r.Key == key {
			expires = r.Expires
		}
		loader.Record(r, value)
	})
	loader.Close()
	if left := time.Until(expires); err != nil || left < 58*time.Minute || left > 62*time.Minute {
		t.Fatalf("the event of the snapshot at %d expires in %s, %v", h.Revision, left, err)
	}
	synctest.Test(t, func(t *testing.T) { // where the time is before now
		s, err := datadir.Open(dir, datadir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		time.Sleep(time.Until(expires) - time.Second)
		if _, err := s.Get(t.Context(), key); err != nil {
			t.Errorf("before its end, the event: %v", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := s.Get(t.Context(), key); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("after its end, the event: %v", err)
		}
		if _, err := s.Get(t.Context(), "/registry/namespaces/default"); err != nil {
			t.Errorf("another object: %v", err)
		}
	})
}
