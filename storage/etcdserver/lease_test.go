package etcdserver_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"

	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/etcdserver"
)

// TestLeases grants, renews, lists and revokes leases with keys.
func TestLeases(t *testing.T) {
	onStores(t, func(t *testing.T, s *served) {
		client := etcdserverpb.NewLeaseClient(s)
		is := func(what string, got, want error) {
			t.Helper()
			if status.Convert(got).String() != status.Convert(want).String() {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		granted, err := client.LeaseGrant(t.Context(), &etcdserverpb.LeaseGrantRequest{ID: 7, TTL: 100})
		if err != nil || granted.ID != 7 || granted.TTL != 100 || granted.Header.Revision != 1 {
			t.Fatalf("LeaseGrant: %v, %v", granted, err)
		}
		chosen, err := client.LeaseGrant(t.Context(), &etcdserverpb.LeaseGrantRequest{TTL: -1})
		if err != nil || chosen.ID <= 0 || chosen.TTL != 2 {
			t.Fatalf("LeaseGrant without an ID: %v, %v", chosen, err)
		}
		_, err = client.LeaseGrant(t.Context(), &etcdserverpb.LeaseGrantRequest{ID: 7, TTL: 100})
		is("an ID that is in use", err, rpctypes.ErrGRPCLeaseExist)
		_, err = client.LeaseGrant(t.Context(), &etcdserverpb.LeaseGrantRequest{TTL: 9_000_000_001})
		is("a long time", err, rpctypes.ErrGRPCLeaseTTLTooLarge)
		_, err = client.LeaseRevoke(t.Context(), &etcdserverpb.LeaseRevokeRequest{ID: 8})
		is("revoking no lease", err, rpctypes.ErrGRPCLeaseNotFound)

		for _, key := range []string{"b", "a", "c"} {
			if _, err := s.kv.Put(t.Context(), &etcdserverpb.PutRequest{Key: []byte(key), Lease: 7}); err != nil {
				t.Fatal(err)
			}
		}
		s.put(t, "b", "1")
		put := putOp("c", "1")
		put.GetRequestPut().IgnoreLease = true
		lease := &etcdserverpb.Compare{Key: []byte("c"), Target: etcdserverpb.Compare_LEASE, TargetUnion: &etcdserverpb.Compare_Lease{Lease: 7}}
		if r := s.txn(t, &etcdserverpb.TxnRequest{Compare: []*etcdserverpb.Compare{lease}, Success: []*etcdserverpb.RequestOp{put}}); !r.Succeeded {
			t.Error("c does not have the lease")
		}
		left, err := client.LeaseTimeToLive(t.Context(), &etcdserverpb.LeaseTimeToLiveRequest{ID: 7, Keys: true})
		if err != nil || left.GrantedTTL != 100 || left.TTL < 98 || left.TTL > 100 || fmt.Sprintf("%s", left.Keys) != "[a c]" {
			t.Errorf("LeaseTimeToLive: %v, %v", left, err)
		}
		none, err := client.LeaseTimeToLive(t.Context(), &etcdserverpb.LeaseTimeToLiveRequest{ID: 8})
		if err != nil || none.TTL != -1 || none.ID != 8 {
			t.Errorf("LeaseTimeToLive of no lease: %v, %v", none, err)
		}
		alive, err := client.LeaseKeepAlive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for id, want := range map[int64]int64{7: 100, 8: 0} {
			if err := alive.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: id}); err != nil {
				t.Fatal(err)
			}
			if r, err := alive.Recv(); err != nil || r.ID != id || r.TTL != want || r.Header.Revision != 6 {
				t.Errorf("the response for lease %d is %v, %v", id, r, err)
			}
		}
		all, err := client.LeaseLeases(t.Context(), &etcdserverpb.LeaseLeasesRequest{})
		if err != nil || len(all.Leases) != 2 || all.Leases[0].ID != chosen.ID || all.Leases[1].ID != 7 {
			t.Errorf("LeaseLeases: %v, %v", all, err)
		}

		w := s.watch(t)
		w.create(&etcdserverpb.WatchCreateRequest{RangeEnd: []byte{0}, PrevKv: true})
		revoked, err := client.LeaseRevoke(t.Context(), &etcdserverpb.LeaseRevokeRequest{ID: 7})
		if err != nil || revoked.Header.Revision != 7 {
			t.Errorf("LeaseRevoke: %v, %v", revoked, err)
		}
		if got := fmt.Sprint(w.events(2)); got != "[delete a at 7, was a= 3 3 1 lease 7 delete c at 7, was c=1 4 6 2 lease 7]" {
			t.Errorf("the events are %s", got)
		}
	})
}

// TestLeasesAfterRestart opens a data directory again.
func TestLeasesAfterRestart(t *testing.T) {
	dir := t.TempDir()
	open := func() *datadir.Store {
		t.Helper()
		store, err := datadir.Open(dir, datadir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	t.Run("before", func(t *testing.T) {
		s := serve(t, etcdserver.Options{Store: open()})
		if _, err := etcdserverpb.NewLeaseClient(s).LeaseGrant(t.Context(), &etcdserverpb.LeaseGrantRequest{ID: 7, TTL: 100}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.kv.Put(t.Context(), &etcdserverpb.PutRequest{Key: []byte("a"), Lease: 7}); err != nil {
			t.Fatal(err)
		}
	})
	store := open()
	s := serve(t, etcdserver.Options{Store: store})
	left, err := etcdserverpb.NewLeaseClient(s).LeaseTimeToLive(t.Context(), &etcdserverpb.LeaseTimeToLiveRequest{ID: 7, Keys: true})
	if err != nil || left.GrantedTTL != 100 || left.TTL < 98 || fmt.Sprintf("%s", left.Keys) != "[a]" {
		t.Errorf("LeaseTimeToLive: %v, %v", left, err)
	}
	if _, err := store.Grant(t.Context(), 7, time.Second); !errors.Is(err, storage.ErrLeaseExists) {
		t.Errorf("Grant: %v", err)
	}
}

// TestCompactionAfterRestart opens a data directory again: a client cannot read, watch or compact what was compacted.
func TestCompactionAfterRestart(t *testing.T) {
	dir := t.TempDir()
	open := func() *datadir.Store {
		t.Helper()
		store, err := datadir.Open(dir, datadir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	const compacted = 7
	t.Run("before", func(t *testing.T) {
		s := serve(t, etcdserver.Options{Store: open()})
		for range 10 {
			if _, err := s.kv.Put(t.Context(), &etcdserverpb.PutRequest{Key: []byte("a")}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.kv.Compact(t.Context(), &etcdserverpb.CompactionRequest{Revision: compacted}); err != nil {
			t.Fatal(err)
		}
	})
	s := serve(t, etcdserver.Options{Store: open()})
	for _, revision := range []int64{3, compacted - 1} {
		if _, err := s.kv.Range(t.Context(), &etcdserverpb.RangeRequest{Key: []byte("a"), Revision: revision}); !errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
			t.Errorf("a read at %d: %v", revision, err)
		}
	}
	for _, revision := range []int64{3, compacted} {
		if _, err := s.kv.Compact(t.Context(), &etcdserverpb.CompactionRequest{Revision: revision}); !errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
			t.Errorf("a compaction at %d: %v", revision, err)
		}
	}
	if _, err := s.kv.Range(t.Context(), &etcdserverpb.RangeRequest{Key: []byte("a"), Revision: compacted}); err != nil {
		t.Error(err)
	}
	w := s.watch(t)
	w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("a"), StartRevision: compacted})
	if got := w.events(5); len(got) != 5 {
		t.Errorf("the watch has %v", got)
	}
}
