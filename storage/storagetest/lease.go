package storagetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"flyball.dev/storage"
)

// wantKeys checks the keys of a lease, nil for none.
func wantKeys(t *testing.T, s storage.Lessor, id int64, want ...string) {
	t.Helper()
	if _, got, err := s.Lease(ctx, id); err != nil || !slices.Equal(got, want) {
		t.Errorf("the keys of lease %d are %q, %v; want %q", id, got, err, want)
	}
}

// testLeases attaches records to leases, detaches some, and revokes a lease.
func testLeases(t *testing.T, store storage.Store) {
	s := as[storage.Lessor](t, store)
	_, err := s.Put(ctx, storage.Write{Key: "a", Lease: 7})
	wantErr(t, "Put with a lease that is not there", err, storage.ErrNoLease)
	for _, id := range []int64{7, -8} {
		l, err := s.Grant(ctx, id, time.Hour)
		if left := time.Until(l.Expires); err != nil || l.ID != id || l.TTL != time.Hour || left < 59*time.Minute || left > time.Hour {
			t.Fatalf("Grant: %+v, %v", l, err)
		}
	}
	_, err = s.Grant(ctx, 7, time.Hour)
	wantErr(t, "Grant again", err, storage.ErrLeaseExists)
	put := func(key string, lease int64) *storage.Record {
		t.Helper()
		r, err := s.Put(ctx, storage.Write{Key: key, Lease: lease, If: storage.Any})
		if err != nil || r.Lease != lease {
			t.Fatalf("Put: %+v, %v", r, err)
		}
		return r
	}
	for _, key := range []string{"d", "a", "b", "c", "e"} {
		put(key, 7)
	}
	put("b", -8)
	put("c", 0)
	put("e", 7)
	if _, err := s.Delete(ctx, "d", storage.Any); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, s, 7, "a", "e")
	wantKeys(t, s, -8, "b")
	if all, err := s.Leases(ctx); err != nil || len(all) != 2 || all[0].ID != 7 || all[1].ID != -8 {
		t.Errorf("Leases: %+v, %v", all, err)
	}
	if l, err := s.Renew(ctx, 7); err != nil || l.ID != 7 || l.TTL != time.Hour {
		t.Errorf("Renew: %+v, %v", l, err)
	}
	if all, err := s.Leases(ctx); err != nil || len(all) != 2 || all[0].ID != -8 {
		t.Errorf("Leases after a renewal: %+v, %v", all, err)
	}
	w := watch(t, s, "", 0)
	defer w.Close()
	latest, _, _ := s.Revisions(ctx)
	if revision, err := s.Revoke(ctx, 7); err != nil || revision != latest+1 {
		t.Fatalf("Revoke: revision %d, %v; want %d", revision, err, latest+1)
	}
	events := next(t, w)
	if len(events) != 2 || events[0].Record.Key != "a" || events[1].Record.Key != "e" ||
		events[0].Record.Revision != latest+1 || events[1].Record.Revision != latest+1 || events[0].Type != storage.Deleted {
		t.Errorf("the events of the revocation are %q", describe(events[0]))
	}
	_, err = s.Revoke(ctx, 7)
	wantErr(t, "Revoke again", err, storage.ErrNoLease)
	_, err = s.Renew(ctx, 7)
	wantErr(t, "Renew", err, storage.ErrNoLease)
	_, _, err = s.Lease(ctx, 7)
	wantErr(t, "Lease", err, storage.ErrNoLease)
	_, err = s.Put(ctx, storage.Write{Key: "a", Lease: 7})
	wantErr(t, "Put with a revoked lease", err, storage.ErrNoLease)
	if r, err := s.Get(ctx, "b"); err != nil || r.Lease != -8 {
		t.Errorf("Get: %+v, %v", r, err)
	}
	if _, err := s.Grant(ctx, 7, time.Hour); err != nil {
		t.Errorf("Grant of a revoked ID: %v", err)
	}
	wantKeys(t, s, 7)
	if revision, err := s.Revoke(ctx, 7); err != nil || revision != latest+1 {
		t.Errorf("Revoke without records: revision %d, %v", revision, err)
	}
	if now, _, _ := s.Revisions(ctx); now != latest+1 {
		t.Errorf("the revision is %d after %d", now, latest+1)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	_, err = s.Leases(ctx)
	wantErr(t, "Leases", err, storage.ErrClosed)
	_, err = s.Revoke(ctx, -8)
	wantErr(t, "Revoke", err, storage.ErrClosed)
}

// testLeaseExpiry waits until two leases expire, and a third one does not.
func testLeaseExpiry(t *testing.T, store storage.Store) {
	s := as[storage.Lessor](t, store)
	w := watch(t, s, "", 0)
	defer w.Close()
	attach(t, s, 1, "late", time.Hour)
	type lease struct {
		id      int64
		expires time.Time
	}
	expiring := map[string]lease{}
	for _, key := range []string{"soon", "sooner"} {
		for id, ttl := int64(len(expiring)+2), 30*time.Millisecond; ; id, ttl = id+2, 2*ttl { // a lease may expire before it has a key
			expires := time.Now().Add(ttl)
			if attach(t, s, id, key, ttl) {
				expiring[key] = lease{id, expires}
				break
			}
		}
	}
	for len(expiring) > 0 {
		for _, e := range next(t, w) {
			if e.Type != storage.Deleted {
				continue
			}
			l, ok := expiring[e.Record.Key]
			if early := time.Until(l.expires); !ok || early > 0 {
				t.Errorf("%s was deleted %v too early", e.Record.Key, early)
			}
			delete(expiring, e.Record.Key)
			_, err := s.Renew(ctx, l.id)
			wantErr(t, "Renew", err, storage.ErrNoLease)
			_, _, err = s.Lease(ctx, l.id)
			wantErr(t, "Lease", err, storage.ErrNoLease)
		}
	}
	wantKeys(t, s, 1, "late")
}

// attach grants a lease and writes a record with it. It reports whether the lease was still there then.
func attach(t *testing.T, s storage.Lessor, id int64, key string, ttl time.Duration) bool {
	t.Helper()
	if _, err := s.Grant(ctx, id, ttl); err != nil {
		t.Fatal(err)
	}
	_, err := s.Put(ctx, storage.Write{Key: key, Lease: id})
	if err != nil && !errors.Is(err, storage.ErrNoLease) {
		t.Fatal(err)
	}
	return err == nil
}
