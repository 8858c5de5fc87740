package snapshot_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/snapshot"
)

// TestExpiring makes a store from a snapshot of records with leases. They expire when the leases would have ended.
func TestExpiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := memory.New(memory.Options{})
		defer s.Close()
		for id, ttl := range map[int64]time.Duration{1: time.Minute, 2: time.Hour, 3: time.Hour} {
			if _, err := s.Grant(ctx, id, ttl); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		for _, w := range []storage.Write{
			{Key: "/ever"}, {Key: "/minute", Lease: 1}, {Key: "/hour", Lease: 2}, {Key: "/revoked", Lease: 3},
			{Key: "/sooner", Lease: 2, Expires: start.Add(2 * time.Minute)}, {Key: "/later", Lease: 1, Expires: start.Add(time.Hour)},
		} {
			if _, err := s.Put(ctx, w); err != nil {
				t.Fatal(err)
			}
		}
		page, err := s.Range(ctx, storage.Query{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if _, err := s.Revoke(ctx, 3); err != nil {
			t.Fatal(err)
		}
		records, err := snapshot.Expiring(ctx, s, page.Records)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range page.Records {
			if r.Key != "/ever" && (r.Lease == 0 || records[i] == r) {
				t.Errorf("the record %s of the store has changed", r.Key)
			}
		}
		var buf bytes.Buffer
		if err := snapshot.Write(&buf, snapshot.Header{Revision: page.Revision, Taken: time.Now()}, records); err != nil {
			t.Fatal(err)
		}
		loader := memory.NewLoader(memory.Options{})
		h, err := snapshot.Read(&buf, loader.Record)
		if err != nil {
			t.Fatal(err)
		}
		loader.At(snapshot.Next(h.Revision))
		restored := loader.Store()
		defer restored.Close()
		gone := map[string]time.Duration{"/revoked": 10 * time.Second, "/minute": time.Minute, "/later": time.Minute, "/sooner": 2 * time.Minute, "/hour": time.Hour}
		for after := 10 * time.Second; after <= 61*time.Minute; after += 5 * time.Second {
			time.Sleep(time.Until(start.Add(after)) + time.Microsecond) // virtual
			synctest.Wait()
			page, err := restored.Range(ctx, storage.Query{})
			if err != nil {
				t.Fatal(err)
			}
			has := map[string]bool{}
			for _, r := range page.Records {
				has[r.Key] = true
			}
			if !has["/ever"] {
				t.Fatalf("after %s, the record without a lease is gone", after)
			}
			for key, at := range gone {
				if has[key] != (after < at) {
					t.Errorf("after %s, %s is there: %t; it ends after %s", after, key, has[key], at)
				}
			}
		}
	})
}
