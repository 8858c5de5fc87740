package etcd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	clientsnapshot "go.etcd.io/etcd/client/v3/snapshot"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/internal/reserve/reservetest"
	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/etcd"
	"flyball.dev/storage/etcdserver"
	"flyball.dev/storage/memory"
)

// TestBackup saves a snapshot of each storage by etcd's API, as etcdctl does, restores it as etcdutl does, and starts the real etcd
// on it. The cluster has the keys, their revisions and versions, and the leases.
func TestBackup(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) etcdserver.Store{
		"memory": func(*testing.T) etcdserver.Store { return memory.New(memory.Options{}) },
		"datadir": func(t *testing.T) etcdserver.Store {
			s, err := datadir.Open(t.TempDir(), datadir.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"etcd": func(t *testing.T) etcdserver.Store { return open(t, startCluster(t, 1), etcd.Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			url := "http://" + serveStore(t, store)
			ours := rawClient(t, url)
			fill(t, ours, store)
			dir := t.TempDir()
			file := filepath.Join(dir, "backup.db")
			if _, err := clientsnapshot.SaveWithVersion(t.Context(), zap.NewNop(), clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()}, file); err != nil {
				t.Fatal(err)
			}
			keys, err := ours.Get(t.Context(), "", clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			restored := snapshot.NewV3(zap.NewNop())
			status, err := restored.Status(file)
			if err != nil || status.Revision > keys.Header.Revision {
				t.Fatalf("the status of the file is %+v, %v", status, err)
			}
			theirs := rawClient(t, restoreCluster(t, restored, file).members[0].url)
			got, err := theirs.Get(t.Context(), "", clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			if got.Header.Revision != keys.Header.Revision {
				t.Errorf("the revision is %d, and was %d", got.Header.Revision, keys.Header.Revision)
			}
			if a, b := describe(got), describe(keys); a != b {
				t.Errorf("the cluster has\n%s\nand the store\n%s", a, b)
			}
			for key, want := range map[string]time.Duration{"leased": time.Hour, "expires": 2 * time.Hour} {
				r, err := theirs.Get(t.Context(), key)
				if err != nil || len(r.Kvs) != 1 || r.Kvs[0].Lease == 0 {
					t.Fatalf("%s: %v, %v", key, r, err)
				}
				l, err := theirs.TimeToLive(t.Context(), clientv3.LeaseID(r.Kvs[0].Lease))
				if left := time.Duration(l.TTL) * time.Second; err != nil || left > want+2*time.Minute || left < want-time.Minute {
					t.Errorf("%s expires in %s, %v; want about %s", key, left, err, want)
				}
			}
			put, err := theirs.Put(t.Context(), "k", "new")
			if err != nil || put.Header.Revision != keys.Header.Revision+1 {
				t.Errorf("a write afterwards: %v, %v", put, err)
			}
			if _, err := theirs.Revoke(t.Context(), 4711); err != nil {
				t.Error(err)
			}
			if r, err := theirs.Get(t.Context(), "leased"); err != nil || len(r.Kvs) != 0 {
				t.Errorf("after the end of its lease, the key: %v, %v", r, err)
			}
		})
	}
}

// fill writes keys: several at one revision, with leases, large ones, and in the end a deletion.
func fill(t *testing.T, c *clientv3.Client, store etcdserver.Store) {
	t.Helper()
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		must(c.Put(ctx, fmt.Sprintf("k%d", i%7), strings.Repeat(fmt.Sprint(i), 1+i*1000)))
	}
	must(c.Txn(ctx).Then(clientv3.OpPut("a", "1"), clientv3.OpPut("b", "2"), clientv3.OpPut("c", ""), clientv3.OpDelete("k1")).Commit())
	must(store.Grant(ctx, 4711, time.Hour))
	must(c.Put(ctx, "leased", "x", clientv3.WithLease(4711)))
	must(store.Put(ctx, storage.Write{Key: "expires", Expires: time.Now().Add(2 * time.Hour)}))
	for range 3 {
		must(c.Put(ctx, "last", strings.Repeat("x", 1<<20)))
	}
	must(c.Delete(ctx, "last"))
}

// describe returns pairs as text, without the leases: a store makes leases of its own.
func describe(r *clientv3.GetResponse) string {
	var all strings.Builder
	for _, kv := range r.Kvs {
		fmt.Fprintf(&all, "%s=%.20q (%d bytes) %d %d %d\n", kv.Key, kv.Value, len(kv.Value), kv.CreateRevision, kv.ModRevision, kv.Version)
	}
	return all.String()
}

// restoreCluster starts etcd on a restored snapshot.
func restoreCluster(t *testing.T, manager snapshot.Manager, file string) *cluster {
	t.Helper()
	dir := t.TempDir()
	url, peer, data := "http://"+reservetest.Address(t), "http://"+reservetest.Address(t), filepath.Join(dir, "m0")
	err := manager.Restore(snapshot.RestoreConfig{SnapshotPath: file, Name: "m0", OutputDataDir: data, PeerURLs: []string{peer},
		InitialCluster: "m0=" + peer, InitialClusterToken: "restored"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(data); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t}
	m := &process{url: url, log: filepath.Join(dir, "log"), args: []string{"--name=m0", "--data-dir=" + data, "--unsafe-no-fsync",
		"--listen-client-urls=" + url, "--advertise-client-urls=" + url, "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=m0=" + peer, "--initial-cluster-token=restored", "--log-level=warn"}}
	c.members = []*process{m}
	c.start(m)
	t.Cleanup(func() { c.kill(m) })
	c.await(m)
	return c
}

// TestBackupMovesControlPlane moves a control plane in memory to etcd by a snapshot of etcd's API.
func TestBackupMovesControlPlane(t *testing.T) {
	before, err := controlplane.Start(t.Context(), controlplane.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer before.Stop()
	config := configOf(t, before)
	if err := clientFor(t, config).Create(t.Context(), definition()); err != nil {
		t.Fatal(err)
	}
	url := "http://" + serveStore(t, before.Storage().(etcdserver.Store))
	file := filepath.Join(t.TempDir(), "backup.db")
	if _, err := clientsnapshot.SaveWithVersion(t.Context(), zap.NewNop(), clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()}, file); err != nil {
		t.Fatal(err)
	}
	after := configOf(t, startPlane(t, restoreCluster(t, snapshot.NewV3(zap.NewNop()), file), "203.0.113.1"))
	moved := rest.CopyConfig(after)
	moved.TLSClientConfig = config.TLSClientConfig // the authorities are the same
	if err := clientFor(t, moved).Get(t.Context(), client.ObjectKeyFromObject(definition()), definition()); err != nil {
		t.Error(err)
	}
	if err := clientFor(t, moved).Create(t.Context(), deployment("d")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deployment", func() error { return wantAvailable(t.Context(), clientFor(t, moved), "d") })
}
